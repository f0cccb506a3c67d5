//! Recent appends, per stream in offset order, bounded in bytes over all streams: the oldest append of the engine goes first.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::Account;
use crate::types::Offset;

/// What an entry costs besides its bytes: its slots here and in the order of eviction.
const ENTRY_OVERHEAD: u64 = 96;

/// The common bound and order of eviction.
pub struct TailCache {
    account: Arc<Account>,
    /// One ticket per cached entry, oldest first. Tickets of entries that are gone already only carry their overhead.
    order: Mutex<VecDeque<Ticket>>,
}

struct Ticket {
    tail: Arc<Mutex<Entries>>,
    offset: Offset,
}

/// Contiguous entries from `first`.
#[derive(Default)]
struct Entries {
    first: Offset,
    entries: VecDeque<Bytes>,
}

/// The recent appends of one stream. Forgotten when dropped.
pub struct StreamTail {
    cache: Arc<TailCache>,
    entries: Arc<Mutex<Entries>>,
}

impl TailCache {
    pub(super) fn new(account: Arc<Account>) -> Self {
        TailCache {
            account,
            order: Mutex::new(VecDeque::new()),
        }
    }

    /// An empty tail for a stream.
    pub fn stream(self: &Arc<Self>) -> StreamTail {
        StreamTail {
            cache: self.clone(),
            entries: Arc::default(),
        }
    }

    fn evict(&self) {
        while self.account.over() {
            let Some(ticket) = self.order.lock().pop_front() else {
                return;
            };
            let mut entries = ticket.tail.lock();
            let mut freed = ENTRY_OVERHEAD;
            if entries.first == ticket.offset {
                if let Some(entry) = entries.entries.pop_front() {
                    entries.first = Offset::new(ticket.offset.get() + 1);
                    freed += entry.len() as u64;
                }
            }
            drop(entries);
            self.account.release(freed);
        }
    }
}

impl StreamTail {
    /// Takes in an entry that was just committed, in offset order. After a gap the tail starts anew.
    pub fn push(&self, offset: Offset, entry: Bytes) {
        let bytes = entry.len() as u64 + ENTRY_OVERHEAD;
        if bytes > self.cache.account.limit() {
            return;
        }
        {
            let mut entries = self.entries.lock();
            let next = entries.first.get() + entries.entries.len() as u64;
            if offset.get() != next {
                self.forget(&mut entries);
                entries.first = offset;
            }
            self.cache.account.charge(bytes);
            entries.entries.push_back(entry);
        }
        self.cache.order.lock().push_back(Ticket {
            tail: self.entries.clone(),
            offset,
        });
        self.cache.evict();
    }

    /// Entries from exactly `start`, below `up_to`: at least one, then as many as fit. `None` when `start` is not cached.
    pub fn read(&self, start: Offset, up_to: Offset, max_entries: u32, max_bytes: u64) -> Option<Vec<Bytes>> {
        let entries = self.entries.lock();
        let skip = usize::try_from(start.distance_from(entries.first)?).ok()?;
        entries.entries.get(skip)?;
        let most = up_to.distance_from(start)?.min(u64::from(max_entries));
        let mut bytes = 0u64;
        let mut found = Vec::new();
        for entry in entries
            .entries
            .iter()
            .skip(skip)
            .take(usize::try_from(most).unwrap_or(usize::MAX))
        {
            bytes = bytes.saturating_add(entry.len() as u64);
            if bytes > max_bytes && !found.is_empty() {
                break;
            }
            found.push(entry.clone());
        }
        Some(found)
    }

    /// Lets every entry go.
    pub fn clear(&self) {
        self.forget(&mut self.entries.lock());
    }

    fn forget(&self, entries: &mut Entries) {
        let bytes: u64 = entries.entries.iter().map(|entry| entry.len() as u64).sum();
        // No ticket may match an entry that comes later under an offset used before.
        entries.first = Offset::new(entries.first.get() + entries.entries.len() as u64);
        entries.entries.clear();
        self.cache.account.release(bytes);
    }
}

impl Drop for StreamTail {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(limit: u64) -> Arc<TailCache> {
        Arc::new(TailCache::new(Account::new("test", limit)))
    }

    fn fill(tail: &StreamTail, offsets: std::ops::Range<u64>, size: usize) {
        for offset in offsets {
            tail.push(Offset::new(offset), Bytes::from(vec![offset as u8; size]));
        }
    }

    fn read(tail: &StreamTail, start: u64, entries: u32, bytes: u64) -> Option<Vec<u8>> {
        let found = tail.read(Offset::new(start), Offset::MAX, entries, bytes)?;
        Some(found.iter().map(|entry| entry[0]).collect())
    }

    #[test]
    fn read_starts_exactly_and_gives_at_least_one() {
        let tail = cache(1 << 20).stream();
        fill(&tail, 5..9, 10);
        assert_eq!(read(&tail, 4, 9, 900), None);
        assert_eq!(read(&tail, 9, 9, 900), None);
        assert_eq!(read(&tail, 6, 9, 900), Some(vec![6, 7, 8]));
        assert_eq!(read(&tail, 6, 2, 900), Some(vec![6, 7]));
        assert_eq!(read(&tail, 6, 9, 25), Some(vec![6, 7]));
        assert_eq!(read(&tail, 6, 9, 1), Some(vec![6]));
        assert_eq!(tail.read(Offset::new(6), Offset::new(7), 9, 900).unwrap().len(), 1);
    }

    #[test]
    fn oldest_append_of_all_streams_goes_first_and_bytes_balance() {
        let cache = cache(4 * (100 + ENTRY_OVERHEAD));
        let (a, b) = (cache.stream(), cache.stream());
        fill(&a, 0..2, 100);
        fill(&b, 0..3, 100);
        assert_eq!(read(&a, 0, 1, 1), None);
        assert_eq!(read(&a, 1, 1, 1), Some(vec![1]));
        drop(b);
        assert_eq!(cache.account.used(), 100 + 4 * ENTRY_OVERHEAD);
        fill(&a, 2..40, 100);
        assert_eq!(read(&a, 36, 9, 900), Some(vec![36, 37, 38, 39]));
        assert_eq!(cache.account.used(), 4 * (100 + ENTRY_OVERHEAD));
    }

    #[test]
    fn gap_starts_the_tail_anew() {
        let cache = cache(1 << 20);
        let tail = cache.stream();
        fill(&tail, 0..3, 10);
        fill(&tail, 7..9, 10);
        assert_eq!(read(&tail, 2, 1, 1), None);
        assert_eq!(read(&tail, 7, 9, 900), Some(vec![7, 8]));
    }
}
