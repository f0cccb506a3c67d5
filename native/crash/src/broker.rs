//! The broker's metadata store of a child: in memory, and every applied write in a file before it is answered.
//!
//! Why in the child and not behind the pipe: the file is as good as a store elsewhere, because a kill loses nothing that was
//! written, synced or not; a request cut off by the kill is in doubt either way; and a directory can be opened again by hand,
//! without its parent.
//! A store keeps the versions of its keys because it applies the same writes in the same order.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use futures::executor::block_on;
use nereus_core::env::BoxFuture;
use nereus_core::metadata::broker_memory::MemoryBroker;
use nereus_core::metadata::pulsar::BrokerStore;
use nereus_core::metadata::{Expected, Verdict, Versioned};
use nereus_core::{Error, Result};
use parking_lot::Mutex;

/// A broker's metadata store in one file. Cheap to clone.
#[derive(Clone)]
pub struct FileBroker {
    memory: MemoryBroker,
    log: Arc<Mutex<File>>,
}

impl FileBroker {
    /// The store in `path`, empty when there is no such file. A write that a kill cut off is dropped.
    pub fn open(path: &Path) -> io::Result<FileBroker> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let mut all = Vec::new();
        file.read_to_end(&mut all)?;
        let memory = MemoryBroker::new();
        let mut rest = all.as_slice();
        while let Some((path, value, after)) = next(rest) {
            // Memory answers at once, and the write was applied when it was logged.
            let _ = match value {
                Some(value) => block_on(memory.put(&path, value, Expected::Any)),
                None => block_on(memory.delete(&path, Expected::Any)),
            };
            rest = after;
        }
        let whole = all.len().saturating_sub(rest.len()) as u64;
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        Ok(FileBroker {
            memory,
            log: Arc::new(Mutex::new(file)),
        })
    }

    fn write(&self, path: &str, value: Option<Bytes>, expected: Expected) -> BoxFuture<Verdict> {
        // Held across both, so that the file has the order of the memory.
        let mut log = self.log.lock();
        let verdict = match &value {
            Some(value) => block_on(self.memory.put(path, value.clone(), expected)),
            None => block_on(self.memory.delete(path, expected)),
        };
        let verdict = match verdict {
            Verdict::Applied(version) => match log.write_all(&record(path, value.as_ref())) {
                Ok(()) => Verdict::Applied(version),
                Err(reason) => Verdict::Unknown(Error::io("write", "the broker's metadata", reason)),
            },
            other => other,
        };
        Box::pin(std::future::ready(verdict))
    }
}

impl BrokerStore for FileBroker {
    fn get(&self, path: &str) -> BoxFuture<Result<Option<Versioned>>> {
        self.memory.get(path)
    }

    fn put(&self, path: &str, value: Bytes, expected: Expected) -> BoxFuture<Verdict> {
        self.write(path, Some(value), expected)
    }

    fn delete(&self, path: &str, expected: Expected) -> BoxFuture<Verdict> {
        self.write(path, None, expected)
    }

    fn children(&self, path: &str) -> BoxFuture<Result<Vec<String>>> {
        self.memory.children(path)
    }
}

/// Checksum of the rest, bytes of the path, bytes of the value plus one (0 = deleted), path, value.
fn record(path: &str, value: Option<&Bytes>) -> Vec<u8> {
    let mut content = Vec::new();
    let length = value.map_or(0, |value| value.len().saturating_add(1));
    content.put_u32(u32::try_from(path.len()).unwrap_or(u32::MAX));
    content.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    content.put_slice(path.as_bytes());
    content.put_slice(value.map_or(&[][..], |value| value));
    let mut record = crc32c::crc32c(&content).to_be_bytes().to_vec();
    record.append(&mut content);
    record
}

/// The first record of `bytes` and what follows it; `None` when it is not whole.
fn next(bytes: &[u8]) -> Option<(String, Option<Bytes>, &[u8])> {
    let (mut head, _) = bytes.split_at_checked(12)?;
    let (crc, path, value) = (head.get_u32(), head.get_u32(), head.get_u32());
    let path = usize::try_from(path).ok()?;
    let length = usize::try_from(value).ok()?;
    let end = 12usize.checked_add(path)?.checked_add(length.saturating_sub(1))?;
    let (record, after) = bytes.split_at_checked(end)?;
    let (_, content) = record.split_at_checked(4)?;
    if crc32c::crc32c(content) != crc {
        return None;
    }
    let (path, stored) = content.get(8..)?.split_at_checked(path)?;
    let value = (length > 0).then(|| Bytes::copy_from_slice(stored));
    Some((String::from_utf8(path.to_vec()).ok()?, value, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_versions_are_there_after_a_reopen_and_a_cut_write_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("broker");
        let broker = FileBroker::open(&path).unwrap();
        for value in ["one", "two", ""] {
            assert!(matches!(
                block_on(broker.put("/a", value.into(), Expected::Any)),
                Verdict::Applied(_)
            ));
        }
        assert!(matches!(
            block_on(broker.put("/b", "x".into(), Expected::Absent)),
            Verdict::Applied(_)
        ));
        assert!(matches!(
            block_on(broker.put("/b", "y".into(), Expected::Absent)),
            Verdict::Conflict(_)
        ));
        assert!(matches!(
            block_on(broker.delete("/b", Expected::Any)),
            Verdict::Applied(_)
        ));
        let before = block_on(broker.get("/a")).unwrap().unwrap();
        drop(broker);
        let whole = std::fs::read(&path).unwrap();
        let again = FileBroker::open(&path).unwrap();
        assert_eq!(block_on(again.get("/a")).unwrap().unwrap(), before);
        assert!(block_on(again.get("/b")).unwrap().is_none());
        drop(again);
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let cut_off = FileBroker::open(&path).unwrap();
            assert!(matches!(
                block_on(cut_off.put("/c", "z".into(), Expected::Any)),
                Verdict::Applied(_)
            ));
            drop(cut_off);
            let reopened = FileBroker::open(&path).unwrap();
            assert!(block_on(reopened.get("/c")).unwrap().is_some(), "cut at {cut}");
        }
    }
}
