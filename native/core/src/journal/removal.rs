//! Dead segment files on their way back to the file system, a piece at a time.
//!
//! A file system that hands freed blocks on to its device (discard) holds up every other sync while it does: for a segment of 128 MiB
//! about 20 ms, and a topic of gigabytes that is deleted leaves dozens of segments. So a file shrinks in small pieces, with pauses.
//!
//! Promises: never more of the device's time than a share; no pause while space is short; whatever a crash or a close leaves the next
//! run removes.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::segment::Segments;
use crate::env::{Env, OpenMode};

/// A file shrinks by this many bytes at a time.
const PIECE: u64 = 4 << 20;
/// The pause after a piece is this many times as long as the piece took.
const PAUSES: u32 = 4;
/// At most so long.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Removes dead files one after the other. Its thread ends with the last of them.
pub struct Removal {
    segments: Arc<Segments>,
    env: Env,
    /// Free bytes below which there are no pauses.
    reserve: u64,
    files: Mutex<Files>,
    stopped: AtomicBool,
}

#[derive(Default)]
struct Files {
    waiting: VecDeque<PathBuf>,
    working: bool,
}

impl Removal {
    /// Nothing to do yet. `reserve` in bytes.
    pub fn new(segments: Arc<Segments>, env: Env, reserve: u64) -> Arc<Removal> {
        Arc::new(Removal {
            segments,
            env,
            reserve,
            files: Mutex::default(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Takes a file that nobody reads or writes any more. Never blocks.
    pub fn take(self: &Arc<Self>, file: PathBuf) {
        let start = {
            let mut files = self.files.lock();
            files.waiting.push_back(file);
            !std::mem::replace(&mut files.working, true)
        };
        if start {
            let removal = self.clone();
            let work = async move { removal.work().await };
            self.env.spawner.spawn_dedicated("nereus-removal", Box::pin(work));
        }
    }

    /// Leaves the rest to the next run.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    async fn work(&self) {
        while let Some(file) = self.next() {
            if let Err(reason) = self.remove(&file).await {
                tracing::warn!(file = %file.display(), %reason, "a dead journal segment stays until the next run");
            }
        }
    }

    fn next(&self) -> Option<PathBuf> {
        let mut files = self.files.lock();
        let next = match self.stopped.load(Ordering::Acquire) {
            true => None,
            false => files.waiting.pop_front(),
        };
        files.working = next.is_some();
        next
    }

    async fn remove(&self, path: &Path) -> io::Result<()> {
        let disk = &self.env.disk;
        let file = disk.open(path, OpenMode::ReadWrite)?;
        let mut left = file.length()?;
        while left > PIECE {
            if self.stopped.load(Ordering::Acquire) {
                return Ok(());
            }
            let began = self.env.clock.monotonic();
            left = left.saturating_sub(PIECE);
            file.set_length(left)?;
            // Without it the pieces would come back to the device together.
            file.sync_data()?;
            let took = self.env.clock.monotonic().saturating_sub(began);
            if self.segments.free_bytes().is_ok_and(|free| free >= self.reserve) {
                let pause = took.saturating_mul(PAUSES).min(LONGEST_PAUSE);
                self.env.clock.sleep(pause).await;
            }
        }
        disk.remove(path)
    }
}
