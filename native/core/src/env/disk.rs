//! Files as the journal needs them: positional, blocking, with explicit durability.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Must exist; read only.
    Read,
    /// Must exist; read and write.
    ReadWrite,
    /// Must not exist; read and write.
    CreateNew,
    /// Must exist; for [`DiskFile::write_durably_at`] past the page cache, where the file system can: memory, position and length of
    /// every write are multiples of [`ALIGNMENT`](super::ALIGNMENT). Readers open the file for themselves.
    Direct,
    /// As [`OpenMode::Direct`]; must not exist.
    CreateDirect,
}

/// A directory tree. Blocking calls: only from dedicated tasks, blocking work or start-up.
pub trait Disk: Send + Sync + 'static {
    /// Opens one file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a directory and its parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Names of the entries of a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Removes one file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames over an existing file; durable only after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Bytes an unprivileged process may still write on the file system of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Takes an exclusive advisory lock on a file for as long as the guard lives; `None` when another process holds it.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>>;
}

/// One open file.
pub trait DiskFile: Send + Sync + 'static {
    /// Reads exactly `buf.len()` bytes at `position`, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()>;
    /// Writes all bytes at `position`.
    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()>;
    /// Makes written bytes durable (fdatasync).
    fn sync_data(&self) -> io::Result<()>;
    /// Writes all bytes at `position`; they are durable when it returns. After a failure nobody knows what is on the disk.
    fn write_durably_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        self.write_all_at(buf, position)?;
        self.sync_data()
    }
    /// Reserves space so that later writes cannot run out of it.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Cuts or extends the file (with zeros); durable after [`DiskFile::sync_data`].
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Present length in bytes.
    fn length(&self) -> io::Result<u64>;
}
