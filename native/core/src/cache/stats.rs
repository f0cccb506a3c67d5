//! What reads cost.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one engine.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub tail: AtomicU64,
    pub hits: AtomicU64,
    pub joined: AtomicU64,
    pub reads: AtomicU64,
    pub bytes: AtomicU64,
    pub ahead: AtomicU64,
    pub ahead_wasted: AtomicU64,
}

/// Reads of the log since the engine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadStats {
    /// Reads that recent appends answered from memory.
    pub tail: u64,
    /// Slices that the cache had.
    pub hits: u64,
    /// Slices that another reader, or reading ahead, had asked for already.
    pub joined: u64,
    /// Reads from the device, each of one slice or a run of neighbouring ones.
    pub reads: u64,
    /// Bytes of entries in those reads.
    pub bytes: u64,
    /// Bytes of slices that were read ahead.
    pub ahead: u64,
    /// Of those, bytes that went before anybody wanted them.
    pub ahead_wasted: u64,
    /// Bytes read ahead and not wanted yet, now.
    pub ahead_held: u64,
    /// Reads that wait for a permit, now.
    pub waiting: u64,
}

impl Counters {
    pub fn add(&self, counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    pub fn read(&self, ahead_held: u64, waiting: u64) -> ReadStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReadStats {
            tail: get(&self.tail),
            hits: get(&self.hits),
            joined: get(&self.joined),
            reads: get(&self.reads),
            bytes: get(&self.bytes),
            ahead: get(&self.ahead),
            ahead_wasted: get(&self.ahead_wasted),
            ahead_held,
            waiting,
        }
    }
}
