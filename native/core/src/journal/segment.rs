//! Segment files: `journal/<sequence, 16 hexadecimal digits>.seg`.
//!
//! Owns: names, the header block, creation, removal, and the open files that reads share.
//! Promises: a file with a segment's name is whole: header synced, every block written once, its directory entry durable. A
//! creation that fails leaves nothing behind that counts.
//! Does not: know frames; decide when a segment is dead (`checkpoint`). Recycling would go into [`Segments::create`] (take an old
//! file instead of a fresh one) and [`Segments::remove`] (keep it): frames carry the segment's sequence for it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BufMut;
use parking_lot::Mutex;

use super::frame::{Input, BLOCK};
use crate::env::{Disk, DiskFile, OpenMode};
use crate::error::{Error, Result};

/// Bytes of the header block, before the first frame.
pub const HEADER_BYTES: u64 = BLOCK as u64;

const MAGIC: &[u8; 8] = b"NEREUSsg";
const FORMAT: u16 = 1;
const SUFFIX: &str = "seg";
const UNFINISHED: &str = "new";
/// Zeros are written in steps of this many bytes.
const STEP: usize = 1 << 20;
/// Zeros are synced every so many bytes: one large sync would hold up those of the frames beside it.
const SYNC_STEP: u64 = 8 << 20;
/// Files kept open for reads.
const OPEN_FILES: usize = 256;

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Identity of the data directory that it belongs to.
    pub directory_id: u128,
    /// Its sequence number.
    pub sequence: u64,
    /// The run that writes it.
    pub run: u64,
    /// Bytes of the file when it was created.
    pub length: u64,
    /// Bytes that the segment before has for good: a shorter one was cut by somebody else. 0 = there is none.
    pub previous_length: u64,
}

impl SegmentHeader {
    /// The header block.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK);
        block.put_slice(MAGIC);
        block.put_u16(FORMAT);
        block.put_u128(self.directory_id);
        block.put_u64(self.sequence);
        block.put_u64(self.run);
        block.put_u64(self.length);
        block.put_u64(self.previous_length);
        block.resize(BLOCK - 4, 0);
        let crc = crc32c::crc32c(&block);
        block.put_u32(crc);
        block
    }

    /// Reads a header block; `Err(Some(version))` for a sound one of a newer format.
    pub fn decode(block: &[u8]) -> std::result::Result<SegmentHeader, Option<u16>> {
        let (content, crc) = block.split_at_checked(BLOCK - 4).ok_or(None)?;
        let mut input = Input(content);
        if input.take(8) != Some(MAGIC) || Input(crc).u32() != Some(crc32c::crc32c(content)) {
            return Err(None);
        }
        let format = input.u16().ok_or(None)?;
        if format != FORMAT {
            return Err(Some(format));
        }
        let mut header = || {
            Some(SegmentHeader {
                directory_id: input.array().map(u128::from_be_bytes)?,
                sequence: input.u64()?,
                run: input.u64()?,
                length: input.u64()?,
                previous_length: input.u64()?,
            })
        };
        header().ok_or(None)
    }
}

/// The segments of one journal.
pub struct Segments {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    open: Mutex<BTreeMap<u64, Arc<dyn DiskFile>>>,
}

impl Segments {
    /// The segments in `directory`, which is created if it is missing.
    pub fn new(disk: Arc<dyn Disk>, directory: PathBuf) -> Result<Self> {
        disk.create_dir_all(&directory)
            .map_err(|e| Error::io("create", directory.display().to_string(), e))?;
        Ok(Segments {
            disk,
            directory,
            open: Mutex::new(BTreeMap::new()),
        })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of a segment.
    pub fn path(&self, sequence: u64) -> PathBuf {
        self.directory.join(format!("{sequence:016x}.{SUFFIX}"))
    }

    /// Where `position` of a segment is, for messages.
    pub fn place(&self, sequence: u64, position: u64) -> String {
        format!("{} at byte {position}", self.path(sequence).display())
    }

    /// Sequence numbers of all segments, ascending.
    pub fn list(&self) -> Result<Vec<u64>> {
        let names = self.names()?;
        let mut found: Vec<u64> = names.iter().filter_map(|name| sequence_of(name, SUFFIX)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Removes what is left of creations that did not finish. Only before the journal runs.
    pub fn clean(&self) -> Result<()> {
        for name in self
            .names()?
            .into_iter()
            .filter(|name| sequence_of(name, UNFINISHED).is_some())
        {
            let path = self.directory.join(name);
            self.disk
                .remove(&path)
                .map_err(|e| Error::io("remove", path.display().to_string(), e))?;
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<PathBuf>> {
        self.disk
            .list(&self.directory)
            .map_err(|e| Error::io("list", self.directory.display().to_string(), e))
    }

    /// Creates a segment of `header.length` bytes: every block written, synced, and its name durable. Replaces a segment of the
    /// same sequence.
    ///
    /// Blocking; takes tens of milliseconds for a usual segment.
    pub fn create(&self, header: &SegmentHeader) -> io::Result<Arc<dyn DiskFile>> {
        let unfinished = self.path(header.sequence).with_extension(UNFINISHED);
        self.write_whole(&unfinished, header).inspect_err(|_| {
            // Best effort: the next start removes it otherwise.
            let _ = self.disk.remove(&unfinished);
        })
    }

    fn write_whole(&self, unfinished: &Path, header: &SegmentHeader) -> io::Result<Arc<dyn DiskFile>> {
        let file = match self.disk.open(unfinished, OpenMode::CreateNew) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(unfinished)?;
                self.disk.open(unfinished, OpenMode::CreateNew)?
            }
            other => other?,
        };
        file.allocate(header.length)?;
        file.write_all_at(&header.encode(), 0)?;
        // Blocks that were written once are overwritten in half the time that unwritten ones take.
        let zeros = vec![0; STEP];
        let mut position = HEADER_BYTES;
        while position < header.length {
            let step = usize::try_from(header.length.saturating_sub(position))
                .unwrap_or(STEP)
                .min(STEP);
            file.write_all_at(zeros.get(..step).unwrap_or_default(), position)?;
            position = position.saturating_add(step as u64);
            if position % SYNC_STEP < STEP as u64 {
                file.sync_data()?;
            }
        }
        file.sync_data()?;
        self.disk.rename(unfinished, &self.path(header.sequence))?;
        self.disk.sync_dir(&self.directory)?;
        self.keep_open(header.sequence, file.clone());
        Ok(file)
    }

    /// A segment for reading; the file stays open for further reads.
    pub fn reader(&self, sequence: u64) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.open.lock().get(&sequence) {
            return Ok(file.clone());
        }
        let file = self.disk.open(&self.path(sequence), OpenMode::Read)?;
        self.keep_open(sequence, file.clone());
        Ok(file)
    }

    /// A segment for writing, at recovery.
    pub fn writer(&self, sequence: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(&self.path(sequence), OpenMode::ReadWrite)
    }

    /// Removes a dead segment for good. Readers that have it open finish undisturbed.
    pub fn remove(&self, sequence: u64) -> io::Result<()> {
        self.open.lock().remove(&sequence);
        match self.disk.remove(&self.path(sequence)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        self.disk.sync_dir(&self.directory)
    }

    /// Bytes free on the file system of the journal.
    pub fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes(&self.directory)
    }

    fn keep_open(&self, sequence: u64, file: Arc<dyn DiskFile>) {
        let mut open = self.open.lock();
        open.insert(sequence, file);
        if open.len() > OPEN_FILES {
            open.pop_first();
        }
    }
}

fn sequence_of(name: &Path, suffix: &str) -> Option<u64> {
    let stem = name
        .file_stem()
        .and_then(|stem| stem.to_str())
        .filter(|stem| stem.len() == 16)?;
    (name.extension()?.to_str()? == suffix)
        .then(|| u64::from_str_radix(stem, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader {
        directory_id: 7 << 100,
        sequence: 9,
        run: 11,
        length: 1 << 20,
        previous_length: 1 << 19,
    };

    #[test]
    fn header_is_read_back_and_any_flipped_byte_is_found() {
        let block = HEADER.encode();
        assert_eq!(block.len(), BLOCK);
        assert_eq!(SegmentHeader::decode(&block), Ok(HEADER));
        for at in 0..block.len() {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert_eq!(SegmentHeader::decode(&damaged), Err(None), "byte {at}");
        }
        assert_eq!(SegmentHeader::decode(&block[..100]), Err(None));
    }

    #[test]
    fn header_of_a_newer_format_is_named() {
        let mut block = HEADER.encode();
        block[9] = 2;
        let crc = crc32c::crc32c(&block[..BLOCK - 4]).to_be_bytes();
        block[BLOCK - 4..].copy_from_slice(&crc);
        assert_eq!(SegmentHeader::decode(&block), Err(Some(2)));
    }
}
