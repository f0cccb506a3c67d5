//! Recent appends, per stream in offset order, bounded in bytes over all streams: the oldest append of the engine goes first.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::Account;
use crate::types::Offset;

/// What an entry costs besides its bytes: its slots here and in the order of eviction.
const ENTRY_OVERHEAD: u64 = 96;

/// A full cache lets this part of itself go at a time, at most so many entries under one lock.
const SLACK: u64 = 1024;
const AT_ONCE: usize = 16;

/// The common bound and order of eviction.
pub struct TailCache {
    account: Arc<Account>,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Order {
    /// One ticket per cached entry, oldest first. Tickets of entries that are gone already only carry their overhead.
    tickets: VecDeque<Ticket>,
    /// About so many tickets of entries that are gone.
    stale: usize,
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
            order: Mutex::default(),
        }
    }

    /// An empty tail for a stream.
    pub fn stream(self: &Arc<Self>) -> StreamTail {
        StreamTail {
            cache: self.clone(),
            entries: Arc::default(),
        }
    }

    /// Takes `bytes`, letting the oldest appends go until they fit. False when they never do.
    fn room(&self, bytes: u64) -> bool {
        while !self.account.take(bytes) {
            if bytes > self.account.limit() || !self.let_oldest_go(bytes) {
                return false;
            }
        }
        true
    }

    /// Lets the oldest appends go until `bytes` are free, and a little more: a full cache is not locked for each append. False when
    /// there were none.
    fn let_oldest_go(&self, bytes: u64) -> bool {
        let enough = bytes.max(self.account.limit() / SLACK);
        let mut freed = 0u64;
        while freed < enough {
            let oldest: Vec<Ticket> = {
                let mut order = self.order.lock();
                let count = order.tickets.len().min(AT_ONCE);
                // Of a small cache one by one: what fits stays.
                let count = if enough > bytes { count } else { count.min(1) };
                order.tickets.drain(..count).collect()
            };
            if oldest.is_empty() {
                break;
            }
            freed = freed.saturating_add(oldest.iter().map(Ticket::let_go).sum());
        }
        self.account.release(freed);
        freed > 0
    }

    /// Counts tickets whose entries went, and throws them away once they are half of all: closed streams leave nothing behind.
    fn sweep(&self, went: usize) {
        let mut order = self.order.lock();
        order.stale += went;
        if order.stale * 2 < order.tickets.len() {
            return;
        }
        let before = order.tickets.len();
        order.tickets.retain(Ticket::is_live);
        order.stale = 0;
        let gone = (before - order.tickets.len()) as u64;
        self.account.release(gone * ENTRY_OVERHEAD);
    }
}

impl Ticket {
    /// Lets the entry go if it is still there, and what is before it: a ticket that somebody else has taken meanwhile stands for that.
    /// What this frees, bytes.
    fn let_go(&self) -> u64 {
        let mut entries = self.tail.lock();
        let mut freed = ENTRY_OVERHEAD;
        while entries.first <= self.offset {
            let Some(entry) = entries.entries.pop_front() else {
                break;
            };
            entries.first = Offset::new(entries.first.get() + 1);
            freed = freed.saturating_add(entry.len() as u64);
        }
        freed
    }

    fn is_live(&self) -> bool {
        let entries = self.tail.lock();
        let inside = self.offset.distance_from(entries.first);
        inside.is_some_and(|inside| inside < entries.entries.len() as u64)
    }
}

impl StreamTail {
    /// Takes in an entry that was just committed, in offset order. After a gap the tail starts anew.
    pub fn push(&self, offset: Offset, entry: Bytes) {
        if !self.cache.room(entry.len() as u64 + ENTRY_OVERHEAD) {
            return;
        }
        let went = {
            let mut entries = self.entries.lock();
            let next = entries.first.get() + entries.entries.len() as u64;
            let mut went = 0;
            if offset.get() != next {
                went = self.forget(&mut entries);
                entries.first = offset;
            }
            entries.entries.push_back(entry);
            went
        };
        self.cache.order.lock().tickets.push_back(Ticket {
            tail: self.entries.clone(),
            offset,
        });
        if went > 0 {
            self.cache.sweep(went);
        }
    }

    /// Shows entries from exactly `start`, below `up_to`: at least one, then as many as fit. Gives what they weigh, bytes; `None`
    /// when `start` is not cached.
    pub fn read(
        &self,
        start: Offset,
        up_to: Offset,
        max_entries: u32,
        max_bytes: u64,
        mut show: impl FnMut(Offset, &Bytes),
    ) -> Option<u64> {
        let entries = self.entries.lock();
        let skip = usize::try_from(start.distance_from(entries.first)?).ok()?;
        entries.entries.get(skip)?;
        let most = up_to.distance_from(start)?.min(u64::from(max_entries));
        let (mut bytes, mut count) = (0u64, 0u64);
        for (entry, offset) in entries.entries.range(skip..).zip(start.get()..) {
            bytes = bytes.saturating_add(entry.len() as u64);
            if count >= most || (bytes > max_bytes && count > 0) {
                bytes = bytes.saturating_sub(entry.len() as u64);
                break;
            }
            show(Offset::new(offset), entry);
            count += 1;
        }
        Some(bytes.saturating_add(count.saturating_mul(ENTRY_OVERHEAD)))
    }

    /// The first cached offset, if any entry is cached.
    pub fn first(&self) -> Option<Offset> {
        let entries = self.entries.lock();
        (!entries.entries.is_empty()).then_some(entries.first)
    }

    /// Lets every entry go.
    pub fn clear(&self) {
        let went = self.forget(&mut self.entries.lock());
        if went > 0 {
            self.cache.sweep(went);
        }
    }

    fn forget(&self, entries: &mut Entries) -> usize {
        let bytes: u64 = entries.entries.iter().map(|entry| entry.len() as u64).sum();
        let went = entries.entries.len();
        // No ticket may match an entry that comes later under an offset used before.
        entries.first = Offset::new(entries.first.get() + went as u64);
        entries.entries = VecDeque::new();
        self.cache.account.release(bytes);
        went
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
        read_to(tail, start, u64::MAX, entries, bytes)
    }

    fn read_to(tail: &StreamTail, start: u64, up_to: u64, entries: u32, bytes: u64) -> Option<Vec<u8>> {
        let mut found = Vec::new();
        tail.read(
            Offset::new(start),
            Offset::new(up_to),
            entries,
            bytes,
            |offset, entry| {
                assert_eq!(offset.get(), u64::from(entry[0]));
                found.push(entry[0]);
            },
        )?;
        Some(found)
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
        assert_eq!(read_to(&tail, 6, 7, 9, 900), Some(vec![6]));
        assert_eq!(tail.first(), Some(Offset::new(5)));
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
        assert_eq!(
            cache.account.used(),
            100 + ENTRY_OVERHEAD,
            "a closed stream leaves nothing behind"
        );
        fill(&a, 2..40, 100);
        assert_eq!(read(&a, 36, 9, 900), Some(vec![36, 37, 38, 39]));
        assert_eq!(cache.account.used(), 4 * (100 + ENTRY_OVERHEAD));
    }

    #[test]
    fn account_ends_at_nothing_when_every_stream_is_closed_while_others_append() {
        let cache = cache(50 * (10 + ENTRY_OVERHEAD));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..50 {
                        let tail = cache.stream();
                        fill(&tail, 0..(round % 7) * 10, 10);
                        assert!(cache.account.used() <= cache.account.limit());
                    }
                });
            }
        });
        assert_eq!(cache.account.used(), 0);
        assert!(cache.order.lock().tickets.is_empty());
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
