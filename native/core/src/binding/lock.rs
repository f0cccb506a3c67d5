//! The lock file of a data directory: one process at a time, and it says who.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::env::{Disk, OpenMode};
use crate::error::{Error, Result};

/// Name of the file in the data directory.
pub const LOCK_FILE: &str = "nereus.lock";

const MAX_TEXT_BYTES: u64 = 1024;
const RETRY: Duration = Duration::from_secs(5);

/// Holds a data directory for this process, as long as it lives.
pub struct DirectoryLock {
    _guard: Box<dyn Send + Sync>,
}

impl DirectoryLock {
    /// Takes the lock of `directory`, which is created if need be, and writes who holds it. `Unavailable` names the holder;
    /// `Io` names the directory.
    pub fn take(disk: &dyn Disk, directory: &Path, holder: &str) -> Result<DirectoryLock> {
        let shown = directory.display();
        disk.create_dir_all(directory)
            .map_err(|e| Error::io("create the data directory", shown.to_string(), e))?;
        let path = directory.join(LOCK_FILE);
        let io = |e| Error::io("lock the data directory by", path.display().to_string(), e);
        let Some(guard) = disk.try_lock(&path).map_err(io)? else {
            let who = read(disk, &path).unwrap_or_else(|e| format!("another process ({e})"));
            return Err(Error::Unavailable {
                what: format!("data directory {shown} is in use by {who}; stop that process or name another directory"),
                retry: RETRY,
            });
        };
        write(disk, &path, holder).map_err(io)?;
        Ok(DirectoryLock { _guard: guard })
    }

    /// What the newest holder of a directory wrote about itself, whether it is still alive or not; `None` when nobody ever held it.
    pub fn last_holder(disk: &dyn Disk, directory: &Path) -> Result<Option<String>> {
        let path = directory.join(LOCK_FILE);
        match read(disk, &path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", path.display().to_string(), e)),
        }
    }
}

fn write(disk: &dyn Disk, path: &Path, holder: &str) -> io::Result<()> {
    let file = disk.open(path, OpenMode::ReadWrite)?;
    let text = format!("process {} of {holder}\n", std::process::id());
    let bytes = text.as_bytes();
    let most = usize::try_from(MAX_TEXT_BYTES).unwrap_or(usize::MAX);
    file.set_length(0)?;
    file.write_all_at(bytes.get(..most).unwrap_or(bytes), 0)
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<String> {
    let file = disk.open(path, OpenMode::Read)?;
    let length = usize::try_from(file.length()?.min(MAX_TEXT_BYTES)).unwrap_or(0);
    let mut text = vec![0; length];
    file.read_exact_at(&mut text, 0)?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::real::OsDisk;
    use crate::error::ErrorCode;

    #[test]
    fn a_second_process_is_told_who_holds_the_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("not/there/yet");
        let lock = DirectoryLock::take(&OsDisk, &directory, "broker-1.example:6650").unwrap();
        let error = DirectoryLock::take(&OsDisk, &directory, "broker-2").err().unwrap();
        assert_eq!(error.code(), ErrorCode::Unavailable);
        let text = error.to_string();
        assert!(
            text.contains(&format!("process {} of broker-1.example:6650", std::process::id())),
            "{text}"
        );
        drop(lock);
        let last = DirectoryLock::last_holder(&OsDisk, &directory).unwrap().unwrap();
        assert!(last.ends_with("broker-1.example:6650"), "{last}");
        assert_eq!(DirectoryLock::last_holder(&OsDisk, scratch.path()).unwrap(), None);
        DirectoryLock::take(&OsDisk, &directory, "broker-2").unwrap();
    }

    #[test]
    fn a_shorter_holder_leaves_nothing_of_a_longer_one() {
        let scratch = tempfile::tempdir().unwrap();
        drop(DirectoryLock::take(&OsDisk, scratch.path(), &"long".repeat(500)).unwrap());
        drop(DirectoryLock::take(&OsDisk, scratch.path(), "b").unwrap());
        let text = read(&OsDisk, &scratch.path().join(LOCK_FILE)).unwrap();
        assert_eq!(text, format!("process {} of b", std::process::id()));
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = DirectoryLock::take(&OsDisk, &file.join("below"), "b").err().unwrap();
        assert_eq!(error.code(), ErrorCode::Io);
        assert!(error.to_string().contains("file/below"), "{error}");
    }
}
