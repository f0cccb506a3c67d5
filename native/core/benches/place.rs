//! Where measurements write: on a real disk, because syncs are what is measured.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Names the directory to measure in; the build directory otherwise.
const VARIABLE: &str = "NEREUS_BENCH_DIR";
const TMPFS: u64 = 0x0102_1994;

/// A fresh directory, removed with everything in it when it is dropped.
///
/// # Errors
/// Also when the place is a file system in memory.
pub fn scratch() -> io::Result<TempDir> {
    let place = std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    check(&place)?;
    tempfile::Builder::new().prefix("bench-").tempdir_in(place)
}

fn check(place: &Path) -> io::Result<()> {
    let kind = rustix::fs::statfs(place)?.f_type;
    if u64::try_from(kind).is_ok_and(|kind| kind == TMPFS) {
        let what = format!(
            "{} lies in memory, where a sync costs nothing; name a directory on a disk with {VARIABLE}",
            place.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(())
}
