//! One read under way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{gone, weight, Answer, Cached, Held, SliceCache};
use crate::cache::gate::Pass;
use crate::cache::Permit;
use crate::commit::{Commit, Log, Slice};
use crate::error::Result;
use crate::types::StreamId;

/// The read of a run. Dropped before it landed (a panic, a stopped engine) it fails its waiters, so that the next reader tries
/// again.
pub struct Flight {
    cache: Arc<SliceCache>,
    stream: StreamId,
    /// Not landed yet; with its permit if it is read ahead.
    run: VecDeque<(Commit, Option<Permit>)>,
    under_way: Arc<AtomicBool>,
}

impl Flight {
    pub fn new(
        cache: Arc<SliceCache>,
        stream: StreamId,
        run: Vec<(Commit, Option<Permit>)>,
        under_way: Arc<AtomicBool>,
    ) -> Flight {
        Flight {
            cache,
            stream,
            run: run.into(),
            under_way,
        }
    }

    /// Waits for the turn of the stream unless it has a pass, reads, lands.
    pub async fn run(mut self, pass: Option<Pass>, log: Arc<dyn Log>) {
        let bytes = self.run.iter().map(|(commit, _)| weight(commit)).sum();
        let mut pass = match pass {
            Some(pass) => pass,
            None => {
                let pass = self.cache.cold.pass(self.stream, bytes).await;
                if self.nobody_waits() {
                    return;
                }
                self.under_way.store(true, Ordering::Release);
                pass
            }
        };
        let commits: Vec<Commit> = self.run.iter().map(|(commit, _)| *commit).collect();
        let counters = self.cache.counters.clone();
        counters.add(&counters.reads, 1);
        counters.add(&counters.bytes, commits.iter().map(|commit| commit.bytes).sum());
        let mut slices = log.read_run(self.stream, commits).await.into_iter();
        pass.end_read();
        let pass = Arc::new(pass);
        while let Some((commit, ahead)) = self.run.pop_front() {
            let slice = slices.next().unwrap_or_else(|| Err(gone()));
            self.land(&commit, slice, ahead, &pass);
        }
    }

    /// Every reader left while the read waited for its turn: the slices are wanted by nobody. Decided at once with forgetting
    /// them, so that whoever comes now starts anew.
    fn nobody_waits(&mut self) -> bool {
        let mut state = self.cache.state.lock();
        let keys = self.run.iter().map(|(commit, _)| (self.stream, commit.id));
        let wanted = |key| {
            let loading = state.loading.get(&key);
            loading.is_some_and(|loading| loading.waiting.iter().any(|waiter| !waiter.is_closed()))
        };
        if keys.clone().any(wanted) {
            return false;
        }
        for key in keys {
            state.loading.remove(&key);
        }
        drop(state);
        self.run.clear();
        true
    }

    fn land(&self, commit: &Commit, slice: Result<Slice>, ahead: Option<Permit>, pass: &Arc<Pass>) {
        let key = (self.stream, commit.id);
        let bytes = weight(commit);
        let (waiting, answer) = {
            let mut state = self.cache.state.lock();
            let waiting = state.loading.remove(&key).map_or(Vec::new(), |loading| loading.waiting);
            let wanted = waiting.iter().any(|waiter| !waiter.is_closed());
            let answer: Answer = slice.map(|slice| {
                let room = state.ready.room(bytes);
                let kept = room.is_some();
                let cached = Arc::new(Cached {
                    slice,
                    bytes,
                    _held: room.map_or_else(|| Held::Read(pass.clone()), Held::Cache),
                    ahead: Mutex::new(ahead.filter(|_| !wanted)),
                    counters: self.cache.counters.clone(),
                });
                if kept {
                    state.ready.insert(key, cached.clone(), bytes);
                }
                cached
            });
            (waiting, answer)
        };
        for waiter in waiting {
            // A reader that left needs no answer.
            let _ = waiter.send(answer.clone());
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        for (commit, _) in self.run.drain(..) {
            let loading = self.cache.state.lock().loading.remove(&(self.stream, commit.id));
            for waiter in loading.into_iter().flat_map(|loading| loading.waiting) {
                // A reader that left needs no answer.
                let _ = waiter.send(Err(gone()));
            }
        }
    }
}
