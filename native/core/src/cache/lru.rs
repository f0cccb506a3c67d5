//! A bytes-bounded map that lets the longest unused value go. Ordered, so that "the last key not past" can be asked.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::Account;

pub(super) struct Lru<K, V> {
    account: Arc<Account>,
    held: BTreeMap<K, Held<V>>,
    by_use: BTreeMap<u64, K>,
    clock: u64,
}

struct Held<V> {
    value: V,
    bytes: u64,
    used_at: u64,
}

impl<K: Ord + Copy, V: Clone> Lru<K, V> {
    pub fn new(account: Arc<Account>) -> Self {
        Lru {
            account,
            held: BTreeMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
        }
    }

    /// The value under the last key in `from..=to`.
    pub fn last(&mut self, from: K, to: K) -> Option<V> {
        let (key, held) = self
            .held
            .range_mut((Bound::Included(from), Bound::Included(to)))
            .next_back()?;
        self.clock += 1;
        self.by_use.remove(&held.used_at);
        self.by_use.insert(self.clock, *key);
        held.used_at = self.clock;
        Some(held.value.clone())
    }

    pub fn get(&mut self, key: K) -> Option<V> {
        self.last(key, key)
    }

    /// Takes a value in and lets others go until the account is within its limit. A value larger than the limit is not kept.
    pub fn insert(&mut self, key: K, value: V, bytes: u64) {
        self.remove(key);
        if bytes > self.account.limit() {
            return;
        }
        self.clock += 1;
        self.held.insert(
            key,
            Held {
                value,
                bytes,
                used_at: self.clock,
            },
        );
        self.by_use.insert(self.clock, key);
        self.account.charge(bytes);
        while self.account.over() {
            let Some((_, oldest)) = self.by_use.first_key_value() else {
                break;
            };
            let oldest = *oldest;
            self.remove(oldest);
        }
    }

    fn remove(&mut self, key: K) {
        if let Some(held) = self.held.remove(&key) {
            self.by_use.remove(&held.used_at);
            self.account.release(held.bytes);
        }
    }
}

impl<K, V> Drop for Lru<K, V> {
    fn drop(&mut self) {
        self.account.release(self.held.values().map(|held| held.bytes).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_unused_goes_first_and_bytes_balance() {
        let account = Account::new("test", 30);
        let mut lru = Lru::new(account.clone());
        for key in 0..3 {
            lru.insert(key, key * 10, 10);
        }
        assert_eq!(lru.get(0), Some(0));
        lru.insert(3, 30, 10);
        assert_eq!(lru.get(1), None, "1 was the longest unused");
        assert_eq!(lru.get(0), Some(0));
        lru.insert(4, 40, 31);
        assert_eq!(lru.get(4), None, "larger than the whole cache");
        assert_eq!(account.used(), 30);
        lru.insert(3, 31, 5);
        assert_eq!((lru.get(3), account.used()), (Some(31), 25));
        drop(lru);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn last_key_not_past_is_found_inside_its_bounds() {
        let mut lru = Lru::new(Account::new("test", 100));
        for key in [(1, 0), (1, 16), (2, 8)] {
            lru.insert(key, key, 1);
        }
        assert_eq!(lru.last((1, 0), (1, 15)), Some((1, 0)));
        assert_eq!(lru.last((1, 0), (1, 16)), Some((1, 16)));
        assert_eq!(lru.last((2, 0), (2, 7)), None);
    }
}
