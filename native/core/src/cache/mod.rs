//! Memory: one budget with named accounts, the caches that live on it, and the permits of reads.
//!
//! Owns: [`Budget`] (who holds how many bytes), [`TailCache`] (recent appends), [`SliceCache`] (commits read back: single flight,
//! cold permits, reading ahead), [`PageCache`] (commit pages), [`Gate`] (hot permits), [`ReadAhead`] (where readers are).
//! Promises: each account stays within its limit, except for a single read larger than all of it; what is cached was committed or
//! verified, so a hit needs no further check; what a read holds counts until the read drops it.
//! Does not: decide what a read returns (`stream`).

mod account;
mod ahead;
mod budget;
mod gate;
mod lru;
mod pages;
mod slices;
mod stats;
mod tail;

use std::sync::Arc;

pub use account::{Account, Permit};
pub use ahead::{Ahead, ReadAhead, Window};
pub use budget::Budget;
pub use gate::{Gate, Pass};
pub use pages::PageCache;
pub use slices::{Cached, Patience, SliceCache, Source, Wanted, COLD_AT_ONCE};
pub use stats::ReadStats;
pub use tail::{StreamTail, TailCache};

/// The caches of one engine. Cheap to clone.
#[derive(Clone)]
pub struct Caches {
    /// Accounts.
    pub budget: Arc<Budget>,
    /// Recent appends.
    pub tail: Arc<TailCache>,
    /// Reads of recent appends: as many as their account has bytes for.
    pub hot: Arc<Gate>,
    /// Commits read back.
    pub slices: Arc<SliceCache>,
    /// Commit pages.
    pub pages: Arc<PageCache>,
}

impl Caches {
    /// Empty caches on `budget`.
    pub fn new(budget: Budget) -> Caches {
        let budget = Arc::new(budget);
        Caches {
            tail: Arc::new(TailCache::new(budget.tail.clone())),
            hot: Gate::new(budget.hot_reads.clone(), usize::MAX),
            slices: Arc::new(SliceCache::new(budget.slices.clone(), budget.cold_reads.clone())),
            pages: Arc::new(PageCache::new(budget.pages.clone())),
            budget,
        }
    }
}
