//! One memory budget, accounted by owner.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Bytes held by one owner, and how many it may hold.
#[derive(Debug)]
pub struct Account {
    name: &'static str,
    limit: u64,
    used: AtomicU64,
}

impl Account {
    /// An empty account.
    pub fn new(name: &'static str, limit: u64) -> Arc<Account> {
        Arc::new(Account {
            name,
            limit,
            used: AtomicU64::new(0),
        })
    }

    /// Its name, as in metrics and messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Most bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes held now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` before they are held; `None` when they do not fit.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        Some(Permit {
            account: self.clone(),
            bytes,
        })
    }

    /// Counts bytes that a cache took in; the cache evicts until [`Account::over`] is false.
    pub(super) fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that were let go.
    pub(super) fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(
            before >= bytes,
            "account {} released {bytes} of {before} bytes",
            self.name
        );
    }

    /// More is held than allowed.
    pub(super) fn over(&self) -> bool {
        self.used() > self.limit
    }
}

/// Bytes reserved on an account, returned when dropped.
#[derive(Debug)]
pub struct Permit {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

/// The accounts of one engine.
#[derive(Debug)]
pub struct Budget {
    /// Entries on their way to the log.
    pub open_groups: Arc<Account>,
    /// Recent appends.
    pub tail: Arc<Account>,
    /// Commits read back.
    pub slices: Arc<Account>,
    /// Commit pages.
    pub pages: Arc<Account>,
}

/// The broker stops reading from a connection only after its limit was crossed, so this many of the largest entries may come on top.
const ENTRIES_OVER_THE_LIMIT: u64 = 16;

impl Budget {
    /// Divides `memory_limit` bytes. Open groups may always hold the broker's own `publish_buffer` and a little more, so that a
    /// publish which the broker admitted is not refused for memory; the caches share the rest, at least half.
    pub fn new(memory_limit: u64, publish_buffer: u64, max_entry: u32) -> Budget {
        let half = memory_limit / 2;
        let headroom = u64::from(max_entry).saturating_mul(ENTRIES_OVER_THE_LIMIT);
        let caches = memory_limit - publish_buffer.min(half);
        Budget {
            open_groups: Account::new("open groups", publish_buffer.max(half).saturating_add(headroom)),
            tail: Account::new("tail cache", caches / 2),
            slices: Account::new("slice cache", caches / 8 * 3),
            pages: Account::new("commit pages", caches / 8),
        }
    }

    /// Every account, for metrics.
    pub fn accounts(&self) -> [&Account; 4] {
        [&self.open_groups, &self.tail, &self.slices, &self.pages]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_is_refused_at_the_limit_and_returns_when_dropped() {
        let account = Account::new("test", 10);
        let first = account.reserve(7).unwrap();
        assert!(account.reserve(4).is_none());
        let second = account.reserve(3).unwrap();
        assert_eq!(account.used(), 10);
        drop((first, second));
        assert_eq!(account.used(), 0);
        assert!(account.reserve(u64::MAX).is_none());
    }

    #[test]
    fn open_groups_hold_at_least_the_brokers_publish_buffer() {
        for (memory, publish) in [(100, 1000), (1000, 100), (0, 5), (64, 0)] {
            let budget = Budget::new(memory, publish, 1);
            assert!(budget.open_groups.limit() >= publish);
            let caches = budget.tail.limit() + budget.slices.limit() + budget.pages.limit();
            assert!(caches <= memory, "caches of {caches} bytes in {memory}");
        }
    }
}
