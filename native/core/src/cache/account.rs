//! Who holds how many bytes, and how many it may hold.

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
        self.take(bytes).then(|| self.permit(bytes))
    }

    /// [`Account::reserve`] without a permit: whoever takes releases.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok()
    }

    /// Takes what fits, or anything while nothing else is held: one reservation larger than the whole account goes alone.
    pub(super) fn take_or_alone(&self, bytes: u64) -> bool {
        self.take(bytes)
            || (bytes > self.limit
                && self
                    .used
                    .compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok())
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

    fn permit(self: &Arc<Self>, bytes: u64) -> Permit {
        Permit {
            account: self.clone(),
            bytes,
        }
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
    fn what_is_larger_than_the_account_goes_alone() {
        let account = Account::new("test", 10);
        assert!(account.take_or_alone(1));
        assert!(!account.take_or_alone(11), "something else is held");
        account.release(1);
        assert!(account.take_or_alone(11));
        assert!(!account.take_or_alone(1), "the large one is alone");
        account.release(11);
        assert_eq!(account.used(), 0);
    }
}
