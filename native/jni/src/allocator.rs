//! The allocator of the native side.
//!
//! An entry is allocated on the thread of its producer and freed on whatever thread lets it go from the tail cache. Allocators that lock
//! the arena of the other thread for that cost a third of the CPU of a busy producer (note 0013). What becomes free goes back to the
//! system a moment later, by the next allocations: a side without any has to be told.

use std::sync::atomic::{AtomicBool, Ordering};

/// Tests count allocations with an allocator of their own.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whether there is anything to give back: one busy time, one rest.
#[derive(Default)]
pub struct Rest(AtomicBool);

impl Rest {
    /// Something was done.
    pub fn disturb(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Nothing was done for a while: free memory goes back to the system, once for each busy time. Takes milliseconds after a large one.
    pub fn rest(&self) {
        if self.0.swap(false, Ordering::Relaxed) {
            give_back();
        }
    }
}

fn give_back() {
    // SAFETY: takes no memory of ours, and may be called on any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
