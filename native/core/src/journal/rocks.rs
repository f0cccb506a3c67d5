//! The backend on RocksDB, without its write-ahead log: the journal is the only log.
//!
//! Promises: what survives a crash is a prefix of the batches. One column family, no log of its own and no automatic flush in the
//! middle of a batch make that so: a memtable takes whole batches and memtables are flushed in order.
//! A damaged or missing file is `Corrupt`, naming the directory and what to do.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, Direction, ErrorKind, IteratorMode, Options, ReadOptions};
use rocksdb::{FlushOptions, WriteBatch, WriteBufferManager, WriteOptions, DB};

use super::backend::{BackendBatch, StateBackend};
use crate::error::{Error, Result};

/// RocksDB in one directory.
pub struct Rocks {
    db: DB,
    directory: PathBuf,
}

/// Whether a store is expected to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must exist; absence is damage.
    Required,
    /// It is created when it is missing.
    CreateIfMissing,
}

/// Write buffers of a store that was given next to no memory, bytes.
const LEAST_WRITE_BUFFERS: usize = 2 << 20;
/// What one write of a batch takes besides key and value, at most: a tag and two lengths, bytes.
const PUT_OVERHEAD: usize = 11;

fn options(presence: Presence, memory: usize) -> Options {
    let mut table = BlockBasedOptions::default();
    // All memory of the store is set aside in the engine's memory limit as one number: cached blocks make room for write buffers,
    // which are charged to the cache.
    let cache = Cache::new_lru_cache(memory);
    table.set_block_cache(&cache);
    // The lane asks for the version of every key it writes, mostly keys that are new: the filter spares those reads.
    table.set_bloom_filter(10.0, false);
    // Index and filter blocks count against the cache instead of growing without bound.
    table.set_cache_index_and_filter_blocks(true);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.create_if_missing(presence == Presence::CreateIfMissing);
    // Every file named in the manifest is checked at open: a missing one is found at start, not at the first read.
    options.set_paranoid_checks(true);
    // A batch goes into one memtable however large it is, and we flush after each checkpoint; the sizes only tell how much of the
    // cache a batch takes for that moment. Never a stall: the journal waits for nobody.
    let write_buffers = (memory / 2).max(LEAST_WRITE_BUFFERS);
    options.set_write_buffer_size(write_buffers / 2);
    options.set_max_write_buffer_number(2);
    let manager = WriteBufferManager::new_write_buffer_manager_with_cache(write_buffers, false, cache);
    options.set_write_buffer_manager(&manager);
    // An arena grows in steps: a small memtable of an idle store takes no megabytes.
    options.set_arena_block_size(256 << 10);
    // One flush and one compaction at a time: the machine belongs to the broker.
    options.set_max_background_jobs(2);
    options.set_compression_type(DBCompressionType::Lz4);
    // Each checkpoint makes one file of the top level, spread over all keys: taking eight of them down at a time instead of four
    // rewrites what lies below half as often. The filter keeps reads of one key from looking into each.
    options.set_level_zero_file_num_compaction_trigger(8);
    // Reclaims deleted cursor pages and commit pages without a burst.
    options.set_level_compaction_dynamic_level_bytes(true);
    // Bounded file handles; the hot set is small.
    options.set_max_open_files(256);
    // Its text log: small and few, it is read only when something is wrong.
    options.set_max_log_file_size(1 << 20);
    options.set_keep_log_file_num(3);
    // Written and synced in steps, so that a flush does not end in one long stall of the disk that the journal shares.
    options.set_bytes_per_sync(1 << 20);
    options
}

impl Rocks {
    /// Opens the store in `directory`, with `memory` bytes for its blocks and write buffers together.
    pub fn open(directory: &Path, presence: Presence, memory: usize) -> Result<Self> {
        let db = DB::open(&options(presence, memory), directory).map_err(|e| error("open", directory, &e))?;
        Ok(Rocks {
            db,
            directory: directory.to_owned(),
        })
    }

    fn read(&self, from: &[u8], to: &[u8], mode: IteratorMode<'_>, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(from);
        options.set_iterate_upper_bound(to);
        let entries = self.db.iterator_opt(mode, options).take(limit);
        let owned = entries.map(|entry| entry.map(|(key, value)| (Bytes::from(key), Bytes::from(value))));
        owned
            .collect::<std::result::Result<_, _>>()
            .map_err(|e| error("scan", &self.directory, &e))
    }
}

impl StateBackend for Rocks {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.db.get(key).map_err(|e| error("read", &self.directory, &e))?;
        Ok(value.map(Bytes::from))
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.read(from, to, IteratorMode::From(from, Direction::Forward), limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.read(from, to, IteratorMode::End, limit)
    }

    fn write(&self, batch: BackendBatch) -> Result<()> {
        let part =
            |(key, value): &(Bytes, Option<Bytes>)| PUT_OVERHEAD + key.len() + value.as_ref().map_or(0, Bytes::len);
        // At its size from the start: a batch that grows leaves its smaller copies behind in the heap.
        let mut writes = WriteBatch::with_capacity_bytes(batch.iter().map(part).sum());
        for (key, value) in batch {
            match value {
                Some(value) => writes.put(key, value),
                None => writes.delete(key),
            }
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db
            .write_opt(writes, &options)
            .map_err(|e| error("write", &self.directory, &e))
    }

    fn flush(&self) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db
            .flush_opt(&options)
            .map_err(|e| error("flush", &self.directory, &e))
    }
}

fn error(op: &'static str, directory: &Path, reason: &rocksdb::Error) -> Error {
    let place = directory.display().to_string();
    // A file that another one names, or the whole store: gone, or the name is damaged.
    let is_missing = reason.kind() == ErrorKind::IOError && reason.as_ref().contains("No such file or directory");
    match reason.kind() {
        ErrorKind::Corruption | ErrorKind::InvalidArgument | ErrorKind::NotFound => corrupt(place, reason),
        ErrorKind::IOError if is_missing => corrupt(place, reason),
        ErrorKind::IOError if reason.as_ref().contains("lock") => Error::Unavailable {
            what: format!("another process has {place} open ({reason})"),
            retry: std::time::Duration::from_secs(1),
        },
        _ => Error::io(op, place, std::io::Error::other(reason.to_string())),
    }
}

fn corrupt(place: String, reason: &rocksdb::Error) -> Error {
    Error::Corrupt {
        what: "the embedded metadata store".into(),
        place,
        detail: format!(
            "{reason}; nothing was changed. Check the disk, then restore the whole data directory from a copy; without one, move it \
             away to start empty"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    const CACHE: usize = 1 << 20;

    fn filled(directory: &Path) -> Rocks {
        let store = Rocks::open(directory, Presence::CreateIfMissing, CACHE).unwrap();
        let batch = (0..100u8)
            .map(|n| (Bytes::from(vec![n]), Some(Bytes::from(vec![n; 1000]))))
            .collect();
        store.write(batch).unwrap();
        store.flush().unwrap();
        store
    }

    #[test]
    fn flushed_batches_are_there_after_a_reopen_and_scans_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path())
            .write(vec![(Bytes::from_static(&[3]), None)])
            .unwrap();
        let store = Rocks::open(directory.path(), Presence::Required, CACHE).unwrap();
        assert_eq!(store.get(&[5]).unwrap().unwrap(), vec![5; 1000]);
        let keys = |found: Vec<(Bytes, Bytes)>| found.into_iter().map(|(key, _)| key[0]).collect::<Vec<_>>();
        assert_eq!(keys(store.scan(&[10], &[20], 3).unwrap()), [10, 11, 12]);
        assert_eq!(keys(store.scan_back(&[10], &[20], 3).unwrap()), [19, 18, 17]);
        assert_eq!(keys(store.scan(&[98], &[200], 30).unwrap()), [98, 99]);
        assert!(store.scan_back(&[200], &[250], 3).unwrap().is_empty());
    }

    #[test]
    fn a_missing_store_is_damage_when_it_must_be_there() {
        let directory = tempfile::tempdir().unwrap();
        let error = Rocks::open(&directory.path().join("state"), Presence::Required, CACHE)
            .err()
            .unwrap();
        assert_eq!(error.code(), ErrorCode::Corrupt, "{error}");
    }

    #[test]
    fn l17_a_name_of_a_file_that_is_damaged_is_damage_and_no_failure_of_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        drop(filled(directory.path()));
        std::fs::write(directory.path().join("CURRENT"), "MANIFEST-200020\n").unwrap();
        let error = Rocks::open(directory.path(), Presence::Required, CACHE).err().unwrap();
        assert_eq!(error.code(), ErrorCode::Corrupt, "{error}");
        assert!(error.to_string().contains("MANIFEST-200020"), "{error}");
    }

    #[test]
    fn l17_a_damaged_file_is_named_with_its_directory_and_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        drop(filled(directory.path()));
        let mut files = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let table = files
            .find(|path| path.extension().is_some_and(|extension| extension == "sst"))
            .unwrap();
        let mut bytes = std::fs::read(&table).unwrap();
        let middle = bytes.len() / 4;
        bytes[middle] ^= 0x40;
        std::fs::write(&table, &bytes).unwrap();
        let found = Rocks::open(directory.path(), Presence::Required, CACHE)
            .and_then(|store| store.scan(&[0], &[0xff], 1000))
            .unwrap_err();
        assert_eq!(found.code(), ErrorCode::Corrupt, "{found}");
        let text = found.to_string();
        assert!(
            text.contains(&directory.path().display().to_string()) && text.contains("restore"),
            "{text}"
        );

        bytes.truncate(middle);
        std::fs::write(&table, &bytes).unwrap();
        let found = Rocks::open(directory.path(), Presence::Required, CACHE)
            .and_then(|store| store.scan(&[0], &[0xff], 1000))
            .unwrap_err();
        assert_eq!(found.code(), ErrorCode::Corrupt, "{found}");
    }
}
