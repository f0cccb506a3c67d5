//! What the journal counts. Every number rises only, unless it says otherwise.

use std::sync::atomic::{AtomicU64, Ordering};

use super::reclaim::Oldest;
use crate::error::Error;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// Live counters; relaxed, each is right by itself.
        #[derive(Debug, Default)]
        pub struct Counters { $(pub(super) $name: AtomicU64,)* }

        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Stats { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// Reads every counter.
            pub fn read(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Frames written and synced, markers included.
    frames;
    /// Idle markers among them.
    markers;
    /// Syncs of the journal's files.
    syncs;
    /// Time that writing and syncing them took, nanoseconds.
    sync_nanos;
    /// Bytes of the frames, padding included.
    bytes;
    /// Appends, changes and write batches answered with a frame.
    answered;
    /// Completed checkpoints.
    checkpoints;
    /// Checkpoints that failed and are tried again.
    failed_checkpoints;
    /// Monotonic clock of the last completed checkpoint (or of the open), milliseconds; moves forward.
    checkpoint_millis;
    /// Bytes of frames behind the last checkpoint: what a recovery would read. Goes down again.
    replay_bytes;
    /// Segments that are gone because nothing needed them.
    removed_segments;
    /// Those of them whose file was kept for a later segment.
    kept_segments;
    /// The oldest segment that is still there.
    oldest_segment;
    /// Frames replayed when the journal was opened.
    replayed_frames;
    /// Milliseconds that the recovery took.
    recovery_millis;
}

/// A journal at one moment.
#[derive(Debug, Clone)]
pub struct State {
    /// Why nothing is acknowledged any more, once that is so.
    pub poison: Option<Error>,
    /// Segment files: those that hold frames, and the prepared one.
    pub segments: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Dead files that wait for re-use.
    pub free_segments: usize,
    /// Bytes of them.
    pub free_bytes: u64,
    /// The oldest segment and who keeps it; `None` when there is no segment.
    pub oldest: Option<Oldest>,
    /// Since the last completed checkpoint, or the open, milliseconds.
    pub checkpoint_age_millis: u64,
    /// The counters.
    pub stats: Stats,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn subtract(counter: &AtomicU64, less: u64) {
        counter.fetch_sub(less, Ordering::Relaxed);
    }

    pub(super) fn set(counter: &AtomicU64, value: u64) {
        counter.store(value, Ordering::Relaxed);
    }
}
