//! A bytes-bounded map that lets the longest unused value go. Ordered, so that "the last key not past" can be asked.
//!
//! A value carries the permit of its bytes, so a value that somebody still holds after it was let go is still accounted for.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{Account, Permit};

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

    /// Whether there is a value, without using it.
    pub fn has(&self, key: &K) -> bool {
        self.held.contains_key(key)
    }

    /// Room for `bytes`, letting the longest unused values go until there is. `None` when the bytes are more than the whole limit,
    /// or as many were let go as are wanted and others still hold them.
    pub fn room(&mut self, bytes: u64) -> Option<Permit> {
        if bytes > self.account.limit() {
            return None;
        }
        let mut freed = 0u64;
        loop {
            if let Some(permit) = self.account.reserve(bytes) {
                return Some(permit);
            }
            if freed >= bytes {
                return None;
            }
            freed = freed.saturating_add(self.let_oldest_go()?);
        }
    }

    /// Takes in a value whose room was found; it replaces one of the same key.
    pub fn insert(&mut self, key: K, value: V, bytes: u64) {
        self.clock += 1;
        let used_at = self.clock;
        if let Some(replaced) = self.held.insert(key, Held { value, bytes, used_at }) {
            self.by_use.remove(&replaced.used_at);
        }
        self.by_use.insert(used_at, key);
    }

    /// Gives the bytes of what went; `None` when nothing is left.
    fn let_oldest_go(&mut self) -> Option<u64> {
        let (_, key) = self.by_use.pop_first()?;
        let bytes = self.held.remove(&key).map_or(0, |held| held.bytes);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Value = Arc<(u32, Permit)>;

    fn put(lru: &mut Lru<u32, Value>, key: u32, bytes: u64) -> bool {
        let Some(permit) = lru.room(bytes) else { return false };
        lru.insert(key, Arc::new((key, permit)), bytes);
        true
    }

    #[test]
    fn longest_unused_goes_first_and_bytes_balance() {
        let account = Account::new("test", 30);
        let mut lru = Lru::new(account.clone());
        for key in 0..3 {
            assert!(put(&mut lru, key, 10));
        }
        assert!(lru.get(0).is_some());
        assert!(put(&mut lru, 3, 10));
        assert!(lru.get(1).is_none(), "1 was the longest unused");
        assert!(lru.get(0).is_some());
        assert!(!put(&mut lru, 4, 31), "larger than the whole cache");
        assert_eq!(account.used(), 30);
        assert!(put(&mut lru, 3, 5));
        assert!(lru.get(3).is_some());
        drop(lru);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn what_was_let_go_counts_while_somebody_holds_it() {
        let account = Account::new("test", 30);
        let mut lru = Lru::new(account.clone());
        for key in 0..3 {
            assert!(put(&mut lru, key, 10));
        }
        let pinned = lru.get(0).unwrap();
        assert!(put(&mut lru, 3, 20), "1 and 2 go");
        assert!(!put(&mut lru, 4, 10), "0 goes, but is held");
        assert_eq!(account.used(), 30);
        drop(pinned);
        assert_eq!(account.used(), 20);
        assert!(put(&mut lru, 4, 10));
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
