//! The queue between native code and the one Java thread that polls it.
//!
//! Owns: fixed-size records in the order of their arrival. Promises: a record pushed before `close` is handed out once, in push
//! order; a poller that waits is woken by the next push. Keeps: no I/O and no callback under the lock.
//! Does not: bound the queue, because each record answers an operation that the Java side has already admitted.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// One record: kind, operation or request id, code, then three values.
pub type Record = [i64; 6];

/// An operation ended.
pub const KIND_COMPLETION: i64 = 0;
/// The metadata store of the broker is asked for something.
pub const KIND_METADATA: i64 = 1;
/// Something was logged.
pub const KIND_LOG: i64 = 2;

/// What a poll brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Polled {
    /// So many records were written; 0 after a time-out or a [`Completions::poke`].
    Records(usize),
    /// The queue is closed and empty; nothing will come any more.
    Closed,
}

/// The queue of one engine.
#[derive(Default)]
pub struct Completions {
    state: Mutex<State>,
    arrived: Condvar,
    /// What the poller has taken over and not been given yet: it takes all at once, so that those who push never wait for its copies.
    taken: Mutex<VecDeque<Record>>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Record>,
    waiting: bool,
    poked: bool,
    closed: bool,
}

impl Completions {
    /// Adds a record; `false` when the queue is closed and nobody will ever see it.
    #[must_use]
    pub fn push(&self, record: Record) -> bool {
        let wake = {
            let mut state = self.state.lock();
            if state.closed {
                return false;
            }
            state.queue.push_back(record);
            std::mem::take(&mut state.waiting)
        };
        if wake {
            self.arrived.notify_one();
        }
        true
    }

    /// Makes the present or next waiting poll return although no record arrived.
    pub fn poke(&self) {
        let wake = {
            let mut state = self.state.lock();
            state.poked = true;
            std::mem::take(&mut state.waiting)
        };
        if wake {
            self.arrived.notify_one();
        }
    }

    /// Moves up to `capacity` records to `sink`, oldest first. Waits up to `park` when there is none. One poll at a time.
    pub fn poll(&self, capacity: usize, park: Duration, mut sink: impl FnMut(usize, Record)) -> Polled {
        let mut taken = self.taken.lock();
        if taken.is_empty() && !self.take(&mut taken, park) {
            return Polled::Closed;
        }
        let count = taken.len().min(capacity);
        for (index, record) in taken.drain(..count).enumerate() {
            sink(index, record);
        }
        Polled::Records(count)
    }

    /// Takes everything over that was pushed so far; false when nothing will come any more.
    fn take(&self, taken: &mut VecDeque<Record>, park: Duration) -> bool {
        let mut state = self.state.lock();
        if state.queue.is_empty() && !state.closed && !state.poked && !park.is_zero() {
            state.waiting = true;
            self.arrived.wait_for(&mut state, park);
            state.waiting = false;
        }
        state.poked = false;
        std::mem::swap(&mut state.queue, taken);
        !(taken.is_empty() && state.closed)
    }

    /// Accepts nothing more and wakes the poller. Records that are queued stay to be polled.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn drain(queue: &Completions, capacity: usize, park: Duration) -> (Polled, Vec<Record>) {
        let mut seen = Vec::new();
        let polled = queue.poll(capacity, park, |_, record| seen.push(record));
        (polled, seen)
    }

    #[test]
    fn records_come_out_in_push_order_and_never_more_than_asked() {
        let queue = Completions::default();
        for op in 0..5 {
            assert!(queue.push([KIND_COMPLETION, op, 0, 0, 0, 0]));
        }
        let (polled, first) = drain(&queue, 3, Duration::ZERO);
        assert_eq!(polled, Polled::Records(3));
        assert_eq!(first.iter().map(|r| r[1]).collect::<Vec<_>>(), [0, 1, 2]);
        let (polled, rest) = drain(&queue, 3, Duration::ZERO);
        assert_eq!(polled, Polled::Records(2));
        assert_eq!(rest.iter().map(|r| r[1]).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_waiting_poll_is_woken_by_a_push_a_poke_and_a_close() {
        let queue = Arc::new(Completions::default());
        let wakers: [fn(&Completions); 3] = [
            |q| assert!(q.push([KIND_COMPLETION, 1, 0, 0, 0, 0])),
            |q| q.poke(),
            |q| q.close(),
        ];
        for (wake, expected) in wakers
            .into_iter()
            .zip([Polled::Records(1), Polled::Records(0), Polled::Closed])
        {
            let poller = {
                let queue = Arc::clone(&queue);
                std::thread::Builder::new()
                    .spawn(move || drain(&queue, 4, Duration::from_secs(60)).0)
                    .unwrap()
            };
            wake(&queue);
            assert_eq!(poller.join().unwrap(), expected);
        }
    }

    #[test]
    fn a_closed_queue_still_hands_out_what_it_had_and_takes_nothing_more() {
        let queue = Completions::default();
        assert!(queue.push([KIND_COMPLETION, 1, 0, 0, 0, 0]));
        queue.close();
        assert!(!queue.push([KIND_COMPLETION, 2, 0, 0, 0, 0]));
        assert_eq!(drain(&queue, 4, Duration::from_secs(60)).0, Polled::Records(1));
        assert_eq!(drain(&queue, 4, Duration::from_secs(60)).0, Polled::Closed);
    }
}
