//! Memory: one budget with named accounts, and the caches that live on it.
//!
//! Owns: [`Budget`] (who holds how many bytes), [`TailCache`] (recent appends), [`SliceCache`] (commits read back, single flight),
//! [`PageCache`] (commit pages).
//! Promises: each account stays within its limit; what is cached was committed or verified, so a hit needs no further check.
//! Does not: decide what a read returns (`stream`).

mod budget;
mod lru;
mod pages;
mod slices;
mod tail;

use std::sync::Arc;

pub use budget::{Account, Budget, Permit};
pub use pages::PageCache;
pub use slices::SliceCache;
pub use tail::{StreamTail, TailCache};

/// The caches of one engine. Cheap to clone.
#[derive(Clone)]
pub struct Caches {
    /// Accounts.
    pub budget: Arc<Budget>,
    /// Recent appends.
    pub tail: Arc<TailCache>,
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
            slices: Arc::new(SliceCache::new(budget.slices.clone())),
            pages: Arc::new(PageCache::new(budget.pages.clone())),
            budget,
        }
    }
}
