//! Admission of reads: a number of reads at once, and the bytes that they hold.
//!
//! Promises: streams take turns, whatever one of them asks for; callers of one stream go in order; who waits holds nothing, so
//! nobody waits for somebody who waits. A pass larger than the whole account is given alone. A waiter that left is passed over.
//! Does not: bound who waits (the account of waiting requests does).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Account;
use crate::types::StreamId;

/// One kind of reads.
pub struct Gate {
    account: Arc<Account>,
    state: Mutex<State>,
}

struct State {
    free: usize,
    lines: BTreeMap<StreamId, VecDeque<Waiter>>,
    /// Streams with a line, each once; the first has its turn.
    turns: VecDeque<StreamId>,
}

struct Waiter {
    bytes: u64,
    grant: oneshot::Sender<Pass>,
}

/// The right to read, and to hold what was read until it is dropped.
pub struct Pass {
    gate: Arc<Gate>,
    bytes: u64,
    reading: bool,
}

impl Gate {
    /// Lets `at_once` reads in that hold bytes of `account`.
    pub fn new(account: Arc<Account>, at_once: usize) -> Arc<Gate> {
        Arc::new(Gate {
            account,
            state: Mutex::new(State {
                free: at_once,
                lines: BTreeMap::new(),
                turns: VecDeque::new(),
            }),
        })
    }

    /// Waits for the stream's turn. Dropping the future gives the place up.
    pub async fn pass(self: &Arc<Self>, stream: StreamId, bytes: u64) -> Pass {
        loop {
            let (grant, granted) = oneshot::channel();
            {
                let mut state = self.state.lock();
                if state.turns.is_empty() {
                    if let Some(pass) = self.take(&mut state, bytes) {
                        return pass;
                    }
                }
                let line = state.lines.entry(stream).or_default();
                let first = line.is_empty();
                line.push_back(Waiter { bytes, grant });
                if first {
                    state.turns.push_back(stream);
                }
            }
            // Bytes may have come back before the line was joined.
            self.serve();
            if let Ok(pass) = granted.await {
                return pass;
            }
        }
    }

    /// A pass if one is free now, nobody waits for it, and `spare` reads may still come after.
    pub fn try_pass(self: &Arc<Self>, bytes: u64, spare: usize) -> Option<Pass> {
        let mut state = self.state.lock();
        (state.turns.is_empty() && state.free > spare)
            .then(|| self.take(&mut state, bytes))
            .flatten()
    }

    /// Bytes of its account.
    pub fn limit(&self) -> u64 {
        self.account.limit()
    }

    /// Callers that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().lines.values().map(VecDeque::len).sum()
    }

    fn take(self: &Arc<Self>, state: &mut State, bytes: u64) -> Option<Pass> {
        if state.free == 0 || !self.account.take_or_alone(bytes) {
            return None;
        }
        state.free -= 1;
        Some(Pass {
            gate: self.clone(),
            bytes,
            reading: true,
        })
    }

    /// Gives passes out as far as they go.
    fn serve(self: &Arc<Self>) {
        loop {
            let (grant, pass) = {
                let mut state = self.state.lock();
                let Some((waiter, pass)) = self.next(&mut state) else {
                    return;
                };
                (waiter.grant, pass)
            };
            // Outside the lock: whoever left in this moment gives the pass back, which serves the next.
            drop(grant.send(pass));
        }
    }

    fn next(self: &Arc<Self>, state: &mut State) -> Option<(Waiter, Pass)> {
        loop {
            let stream = *state.turns.front()?;
            let line = state.lines.get_mut(&stream)?;
            while line.front().is_some_and(|waiter| waiter.grant.is_closed()) {
                line.pop_front();
            }
            let Some(bytes) = line.front().map(|waiter| waiter.bytes) else {
                state.turns.pop_front();
                state.lines.remove(&stream);
                continue;
            };
            let pass = self.take(state, bytes)?;
            state.turns.pop_front();
            let line = state.lines.get_mut(&stream)?;
            let waiter = line.pop_front()?;
            match line.is_empty() {
                true => drop(state.lines.remove(&stream)),
                false => state.turns.push_back(stream),
            }
            return Some((waiter, pass));
        }
    }
}

impl Pass {
    /// The read is over; what was read stays accounted for until the pass is dropped.
    pub fn end_read(&mut self) {
        if std::mem::take(&mut self.reading) {
            self.gate.state.lock().free += 1;
            self.gate.serve();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.account.release(self.bytes);
        if std::mem::take(&mut self.reading) {
            self.gate.state.lock().free += 1;
        }
        self.gate.serve();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::Poll;

    use futures::executor::block_on;
    use futures::task::noop_waker_ref;
    use proptest::prelude::*;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Pass>>>;

    fn wait(gate: &Arc<Gate>, stream: u128, bytes: u64) -> Waiting {
        let gate = gate.clone();
        Box::pin(async move { gate.pass(StreamId::new(stream), bytes).await })
    }

    fn poll(waiting: &mut Waiting) -> Option<Pass> {
        match waiting
            .as_mut()
            .poll(&mut std::task::Context::from_waker(noop_waker_ref()))
        {
            Poll::Ready(pass) => Some(pass),
            Poll::Pending => None,
        }
    }

    fn gate(limit: u64, at_once: usize) -> Arc<Gate> {
        Gate::new(Account::new("test", limit), at_once)
    }

    #[test]
    fn streams_take_turns_however_much_one_of_them_asks_for() {
        let gate = gate(100, 1);
        let first = block_on(gate.pass(StreamId::new(1), 10));
        let mut greedy: Vec<Waiting> = (0..5).map(|_| wait(&gate, 1, 10)).collect();
        greedy.iter_mut().for_each(|waiting| assert!(poll(waiting).is_none()));
        let mut modest = wait(&gate, 2, 10);
        assert!(poll(&mut modest).is_none());
        assert_eq!(gate.waiting(), 6);
        drop(first);
        let second = poll(&mut greedy[0]).expect("it came first");
        assert!(poll(&mut greedy[1]).is_none());
        drop(second);
        assert!(
            poll(&mut modest).is_some(),
            "one of the greedy stream, then the other's turn"
        );
    }

    #[test]
    fn pass_larger_than_everything_is_given_alone_and_waited_for() {
        let gate = gate(100, 8);
        let small = block_on(gate.pass(StreamId::new(1), 60));
        let mut large = wait(&gate, 2, 500);
        assert!(poll(&mut large).is_none());
        assert!(gate.try_pass(1, 0).is_none(), "nobody goes past who waits");
        drop(small);
        let large = poll(&mut large).expect("nothing else is held");
        assert_eq!(gate.account.used(), 500);
        let mut next = wait(&gate, 1, 1);
        assert!(poll(&mut next).is_none());
        drop(large);
        assert!(poll(&mut next).is_some());
        drop(next);
        assert_eq!(gate.account.used(), 0);
    }

    #[test]
    fn waiter_that_left_is_passed_over_also_when_it_was_served() {
        let gate = gate(100, 1);
        let first = block_on(gate.pass(StreamId::new(1), 1));
        let (mut left, mut served, mut last) = (wait(&gate, 1, 1), wait(&gate, 2, 1), wait(&gate, 3, 1));
        for waiting in [&mut left, &mut served, &mut last] {
            assert!(poll(waiting).is_none());
        }
        drop(left);
        drop(first);
        // Its pass is on the way, but it never looks.
        drop(served);
        assert!(poll(&mut last).is_some());
        drop(last);
        assert_eq!((gate.waiting(), gate.account.used()), (0, 0));
    }

    #[test]
    fn ended_read_makes_room_for_another_but_keeps_its_bytes() {
        let gate = gate(100, 1);
        let mut first = block_on(gate.pass(StreamId::new(1), 60));
        let (mut second, mut third) = (wait(&gate, 1, 40), wait(&gate, 1, 40));
        assert!(poll(&mut second).is_none() && poll(&mut third).is_none());
        first.end_read();
        assert!(poll(&mut second).is_some_and(|pass| pass.bytes == 40));
        assert!(poll(&mut third).is_some_and(|pass| pass.bytes == 40));
        assert_eq!(gate.account.used(), 60);
    }

    proptest! {
        #[test]
        fn random_use_stays_within_the_account_and_ends_at_nothing(
            steps in prop::collection::vec((0u8..4, 1u128..4, 1u64..140), 1..120),
        ) {
            let gate = gate(100, 3);
            let (mut waiting, mut held): (Vec<Waiting>, Vec<Pass>) = (Vec::new(), Vec::new());
            for (what, stream, bytes) in steps {
                match what {
                    0 | 1 => waiting.push(wait(&gate, stream, bytes)),
                    2 if !held.is_empty() => drop(held.remove(bytes as usize % held.len())),
                    3 if !waiting.is_empty() => drop(waiting.remove(bytes as usize % waiting.len())),
                    _ => held.iter_mut().for_each(Pass::end_read),
                }
                // One that joins the line may let those go on who came before it.
                for _ in 0..2 {
                    waiting.retain_mut(|one| match poll(one) {
                        Some(pass) => { held.push(pass); false }
                        None => true,
                    });
                }
                let sum: u64 = held.iter().map(|pass| pass.bytes).sum();
                prop_assert_eq!(gate.account.used(), sum);
                prop_assert!(sum <= 100 || held.len() == 1, "{} bytes in {} passes", sum, held.len());
                prop_assert!(held.iter().filter(|pass| pass.reading).count() <= 3);
            }
            // Everybody is served in the end.
            while !waiting.is_empty() {
                held.clear();
                let before = waiting.len();
                waiting.retain_mut(|one| match poll(one) {
                    Some(pass) => { held.push(pass); false }
                    None => true,
                });
                prop_assert!(waiting.len() < before);
            }
            held.clear();
            prop_assert_eq!((gate.account.used(), gate.waiting()), (0, 0));
        }
    }
}
