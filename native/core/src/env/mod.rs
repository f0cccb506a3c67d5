//! The outside world: time, randomness, tasks and files, handed in at `Engine::open` so that a run can be a function of a seed.
//!
//! Owns: the traits. `real` has the ones of the operating system; simulated ones live with the tests.

mod aligned;
pub mod disk;
pub mod real;
mod sequence;
#[cfg(any(test, feature = "sim"))]
pub mod sim;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use aligned::{AlignedBuffer, ALIGNMENT};
pub use disk::{Disk, DiskFile, OpenMode};
pub use sequence::Sequence;

/// A boxed future that can move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Wall clock, monotonic clock and timers.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch; may jump.
    fn wall_millis(&self) -> u64;
    /// Time since an arbitrary fixed point; never goes back.
    fn monotonic(&self) -> Duration;
    /// Resolves after `pause`.
    fn sleep(&self, pause: Duration) -> BoxFuture<()>;
}

/// Randomness for identities and jitter; not for secrets.
pub trait Random: Send + Sync + 'static {
    /// 64 random bits.
    fn next_u64(&self) -> u64;

    /// 128 random bits.
    fn next_u128(&self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }
}

/// Starts work. Nothing started here outlives the engine that started it.
pub trait Spawner: Send + Sync + 'static {
    /// Runs a task that only awaits, never blocks.
    fn spawn(&self, name: &'static str, task: BoxFuture<()>);
    /// Runs a task that may block (file writes, syncs) on a thread of its own.
    fn spawn_dedicated(&self, name: &'static str, task: BoxFuture<()>);
    /// Runs a piece of blocking work (a file read) on a bounded pool.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send + 'static>);
}

/// The world an engine lives in. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Tasks.
    pub spawner: Arc<dyn Spawner>,
    /// Files.
    pub disk: Arc<dyn Disk>,
}
