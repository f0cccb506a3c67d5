//! The world of the operating system.
//!
//! Owns: clock, randomness, threads and files of a running broker. The only place in the core that touches them directly.
//! Promises: nothing started here outlives the runtime whose handle was given, except a dedicated thread that is still at work.
//! Does not: retry, cache or interpret anything.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the one implementation of the traits that the lint points to"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, OFlags, StatxFlags};
use tokio::runtime::Handle;

use super::{BoxFuture, Clock, Disk, DiskFile, Env, OpenMode, Random, Spawner, ALIGNMENT};

/// The world of this process, with tasks and timers on the runtime of `handle`.
///
/// # Errors
/// When the system has no randomness to give.
pub fn env(handle: Handle) -> io::Result<Env> {
    Ok(Env {
        clock: Arc::new(OsClock {
            start: Instant::now(),
            handle: handle.clone(),
        }),
        random: Arc::new(OsRandom::new()?),
        spawner: Arc::new(OsSpawner { handle }),
        disk: Arc::new(OsDisk),
    })
}

/// The system's clocks and the runtime's timers.
pub struct OsClock {
    start: Instant,
    handle: Handle,
}

impl Clock for OsClock {
    fn wall_millis(&self) -> u64 {
        // A clock before 1970 counts as 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<()> {
        // A timer belongs to the runtime in whose context it was created; it may be awaited on any thread.
        let _inside = self.handle.enter();
        Box::pin(tokio::time::sleep(pause))
    }
}

/// xoshiro256++ seeded by the system: fine for identities, not for secrets.
pub struct OsRandom(Mutex<[u64; 4]>);

impl OsRandom {
    fn new() -> io::Result<Self> {
        let mut seed = [[0u8; 8]; 4];
        File::open("/dev/urandom")?.read_exact(seed.as_flattened_mut())?;
        Ok(OsRandom(Mutex::new(seed.map(u64::from_ne_bytes))))
    }
}

impl Random for OsRandom {
    fn next_u64(&self) -> u64 {
        let mut state = self.0.lock();
        let [a, b, c, d] = *state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        *state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }
}

/// Tasks on the caller's runtime, dedicated work on own threads.
pub struct OsSpawner {
    handle: Handle,
}

impl Spawner for OsSpawner {
    fn spawn(&self, _name: &'static str, task: BoxFuture<()>) {
        self.handle.spawn(task);
    }

    fn spawn_dedicated(&self, name: &'static str, task: BoxFuture<()>) {
        let started = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || futures::executor::block_on(task));
        if let Err(reason) = started {
            // The task is dropped: whoever waits for it hears that through its drop guards.
            tracing::error!(thread = name, %reason, "the system starts no more threads");
        }
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send + 'static>) {
        self.handle.spawn_blocking(work);
    }
}

/// The system's files.
pub struct OsDisk;

impl Disk for OsDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let through = matches!(mode, OpenMode::Direct | OpenMode::CreateDirect);
        let file = match mode {
            OpenMode::Read => options.read(true).open(path)?,
            OpenMode::ReadWrite => options.read(true).write(true).open(path)?,
            OpenMode::CreateNew => options.read(true).write(true).create_new(true).open(path)?,
            OpenMode::Direct => open_direct(path, false)?,
            OpenMode::CreateDirect => open_direct(path, true)?,
        };
        Ok(Arc::new(OsFile { file, through }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| PathBuf::from(entry.file_name())))
            .collect()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // The lock lives as long as the open file.
            Ok(()) => Ok(Some(Box::new(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }
}

/// Opens a file whose writes are durable when they return, past the page cache where the file system allows it for blocks of
/// [`ALIGNMENT`] bytes. One system call then does what a write and a sync would, without a copy, and a log that is read rarely does not
/// push what is read often out of memory.
fn open_direct(path: &Path, create: bool) -> io::Result<File> {
    let durable = OFlags::DSYNC.bits().cast_signed();
    let direct = OFlags::DIRECT.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true);
    match options.create_new(create).custom_flags(durable | direct).open(path) {
        Ok(file) if takes_blocks(&file) => return Ok(file),
        // Its blocks are larger than ours.
        Ok(_) => {}
        // It cannot write past the page cache at all.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
        Err(e) => return Err(e),
    }
    // A refused open may have created the file, or not.
    options
        .create_new(false)
        .create(create)
        .custom_flags(durable)
        .open(path)
}

/// Whether direct writes of [`ALIGNMENT`] bytes are possible; a kernel that does not say so (before 6.1) is believed to take them, as
/// the file systems of its time do.
fn takes_blocks(file: &File) -> bool {
    let Ok(stat) = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return true;
    };
    let fits = |alignment: u32| alignment > 0 && u64::from(alignment) <= ALIGNMENT as u64;
    stat.stx_mask & StatxFlags::DIOALIGN.bits() == 0
        || (fits(stat.stx_dio_mem_align) && fits(stat.stx_dio_offset_align))
}

struct OsFile {
    file: File,
    /// Its writes are durable when they return.
    through: bool,
}

impl DiskFile for OsFile {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, position)
    }

    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        self.file.write_all_at(buf, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_durably_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        self.write_all_at(buf, position)?;
        match self.through {
            true => Ok(()),
            false => self.sync_data(),
        }
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, length) {
            // Some file systems cannot reserve; there the zeros that follow do it.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.file.set_len(length),
            other => Ok(other?),
        }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::AlignedBuffer;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap()
    }

    #[test]
    fn a_locked_file_is_refused_until_the_guard_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = OsDisk.try_lock(&path).unwrap();
        assert!(first.is_some());
        assert!(OsDisk.try_lock(&path).unwrap().is_none());
        drop(first);
        assert!(OsDisk.try_lock(&path).unwrap().is_some());
    }

    #[test]
    fn allocated_files_have_their_length_and_read_back_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = OsDisk.open(&path, OpenMode::CreateNew).unwrap();
        file.allocate(10_000).unwrap();
        assert_eq!(file.length().unwrap(), 10_000);
        file.write_all_at(b"nereus", 5_000).unwrap();
        file.sync_data().unwrap();
        let mut back = [1; 8];
        OsDisk
            .open(&path, OpenMode::Read)
            .unwrap()
            .read_exact_at(&mut back, 4_999)
            .unwrap();
        assert_eq!(&back, b"\0nereus\0");
        let past = file.read_exact_at(&mut back, 9_999).unwrap_err();
        assert_eq!(past.kind(), io::ErrorKind::UnexpectedEof);
        file.set_length(5_000).unwrap();
        assert_eq!(file.length().unwrap(), 5_000);
        assert!(OsDisk.open(&path, OpenMode::CreateNew).is_err());
        assert!(OsDisk.free_bytes(directory.path()).unwrap() > 0);
    }

    /// Where the file system of the build, and one in memory, keep a file written past the page cache.
    #[test]
    fn what_is_written_durably_in_blocks_is_read_by_others_and_replaces_what_they_had_read() {
        let memory = Path::new("/dev/shm");
        let mut places = vec![tempfile::tempdir_in(".").unwrap(), tempfile::tempdir().unwrap()];
        places.extend(memory.is_dir().then(|| tempfile::tempdir_in(memory).unwrap()));
        for directory in places {
            let path = directory.path().join("file");
            let file = OsDisk.open(&path, OpenMode::CreateDirect).unwrap();
            file.allocate(16 * ALIGNMENT as u64).unwrap();
            let reader = OsDisk.open(&path, OpenMode::Read).unwrap();
            let mut buffer = AlignedBuffer::with_capacity(2 * ALIGNMENT);
            for round in 1..=3u8 {
                buffer.reset(2 * ALIGNMENT);
                buffer.extend_from_slice(&vec![round; 2 * ALIGNMENT]);
                file.write_durably_at(&buffer, ALIGNMENT as u64).unwrap();
                let mut back = vec![0; 2 * ALIGNMENT];
                reader.read_exact_at(&mut back, ALIGNMENT as u64).unwrap();
                assert_eq!(back, *buffer);
            }
            assert_eq!(file.length().unwrap(), 16 * ALIGNMENT as u64);
            assert!(OsDisk.open(&path, OpenMode::CreateDirect).is_err(), "it exists");
            let again = OsDisk.open(&path, OpenMode::Direct).unwrap();
            buffer.resize(ALIGNMENT);
            again.write_durably_at(&buffer, 0).unwrap();
            assert!(again.read_exact_at(&mut [0], 0).is_err(), "it is open for writing");
            assert!(OsDisk.open(&directory.path().join("none"), OpenMode::Direct).is_err());
        }
    }

    #[test]
    fn timers_work_outside_the_runtime_and_dedicated_tasks_have_their_thread() {
        let runtime = runtime();
        let env = env(runtime.handle().clone()).unwrap();
        let (send, receive) = futures::channel::oneshot::channel();
        let clock = env.clock.clone();
        env.spawner.spawn_dedicated(
            "nereus-test",
            Box::pin(async move {
                clock.sleep(Duration::from_millis(2)).await;
                let _ = send.send(std::thread::current().name().map(str::to_owned));
            }),
        );
        assert_eq!(
            futures::executor::block_on(receive).unwrap().as_deref(),
            Some("nereus-test")
        );
        assert!(env.clock.monotonic() >= Duration::from_millis(2));
    }

    #[test]
    fn random_numbers_differ() {
        let random = OsRandom::new().unwrap();
        let mut seen: Vec<u64> = (0..1000).map(|_| random.next_u64()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
    }
}
