//! Checkpoints: the state goes down to the backend, and segments that nothing needs go away.
//!
//! Promises: a checkpoint is one atomic batch with the position it covers, then a completed flush, off the lane's thread. Only
//! then may what lies before be removed or re-used, and only when every range in it is trimmed or its stream deleted and nobody
//! reads it (L16). One that fails is tried again with the next; meanwhile nothing is removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use parking_lot::Mutex;

use super::lane::Shared;
use super::segment::{Retired, Segments};
use super::state::StateTable;
use super::stats::Counters;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::types::{Offset, StreamId};

/// When a checkpoint is due.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// Bytes of frames since the last one: bounds the time of a recovery.
    pub bytes: u64,
    /// Heads and keys that are newer than the backend: bounds memory.
    pub dirty: usize,
}

/// Pause after a checkpoint that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Runs checkpoints, one at a time. Belongs to the lane.
pub struct Checkpoints {
    due: Due,
    /// Bytes of frames behind the overlay that goes down, or went down last.
    since: u64,
    /// Bytes of frames that the overlay going down covers.
    covering: u64,
    running: Option<oneshot::Receiver<Result<()>>>,
    not_before: Duration,
    /// Space is short: what was trimmed or deleted should go as soon as it may.
    urgent: bool,
    reclaim: Arc<Reclaim>,
}

impl Checkpoints {
    /// Checkpoints of a journal with `since` bytes behind the last one.
    pub fn new(due: Due, since: u64, segments: Arc<Segments>, reserve: u64) -> Checkpoints {
        let reclaim = Arc::new(Reclaim {
            segments,
            reserve,
            pins: Mutex::default(),
        });
        Checkpoints {
            due,
            since,
            covering: 0,
            running: None,
            not_before: Duration::ZERO,
            urgent: false,
            reclaim,
        }
    }

    /// Counts a frame.
    pub fn grown(&mut self, bytes: u64, counters: &Counters) {
        self.since = self.since.saturating_add(bytes);
        Counters::add(&counters.replay_bytes, bytes);
    }

    /// Space is short: the next checkpoint is due at once, then one a second while this goes on.
    pub fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Between two frames: hears of a checkpoint that ended, starts one that is due.
    pub fn poll(&mut self, env: &Env, shared: &Arc<Shared>) {
        if let Some(running) = &mut self.running {
            match running.try_recv() {
                Ok(None) => return,
                Ok(Some(Ok(()))) => self.running = None,
                // Logged and counted where it was known; the next try is due after a pause.
                Ok(Some(Err(_))) | Err(oneshot::Canceled) => {
                    self.running = None;
                    self.not_before = env.clock.monotonic().saturating_add(RETRY);
                }
            }
        }
        let due =
            self.since >= self.due.bytes || shared.state.dirty() >= self.due.dirty || (self.urgent && self.since > 0);
        if due && env.clock.monotonic() >= self.not_before {
            if std::mem::take(&mut self.urgent) {
                self.not_before = env.clock.monotonic().saturating_add(RETRY);
            }
            self.start(env, shared);
        }
    }

    /// Brings everything published so far down, and waits for it.
    pub async fn complete(&mut self, env: &Env, shared: &Arc<Shared>) -> Result<()> {
        let wanted = shared.state.position();
        if let Some(running) = self.running.take() {
            // Its outcome shows in the position below.
            let _ = running.await;
        }
        // One that failed before goes down first.
        for _ in 0..2 {
            if shared.state.checkpoint_position() == wanted {
                break;
            }
            self.start(env, shared);
            if let Some(running) = self.running.take() {
                running.await.unwrap_or_else(|_| {
                    Err(Error::Closed {
                        what: "the pool for blocking work".into(),
                    })
                })?;
            }
        }
        Ok(())
    }

    fn start(&mut self, env: &Env, shared: &Arc<Shared>) {
        if shared.state.freeze() {
            self.covering = std::mem::take(&mut self.since);
        }
        let covering = self.covering;
        let (send, receive) = oneshot::channel();
        let (state, counters, clock) = (shared.state.clone(), shared.counters.clone(), env.clock.clone());
        let reclaim = self.reclaim.clone();
        env.spawner.run_blocking(Box::new(move || {
            let done = state.write_frozen();
            match &done {
                Ok(()) => {
                    let now = u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX);
                    Counters::add(&counters.checkpoints, 1);
                    Counters::set(&counters.checkpoint_millis, now);
                    Counters::subtract(&counters.replay_bytes, covering);
                    reclaim.run(&state, &counters);
                }
                Err(reason) => failed(&counters, reason),
            }
            // Before the answer: whoever closes may open the directory again at once.
            drop((state, reclaim));
            drop(send.send(done));
        }));
        self.running = Some(receive);
    }
}

fn failed(counters: &Counters, reason: &Error) {
    Counters::add(&counters.failed_checkpoints, 1);
    tracing::warn!(%reason, "a checkpoint failed and is tried again; segments are kept meanwhile");
}

/// Takes dead segments away.
struct Reclaim {
    segments: Arc<Segments>,
    /// Free bytes below which dead files go back to the file system instead of waiting for re-use.
    reserve: u64,
    /// Who needed a segment when it was last looked at: asked first, so that a look costs little.
    pins: Mutex<BTreeMap<u64, (StreamId, Offset)>>,
}

impl Reclaim {
    fn run(&self, state: &StateTable, counters: &Counters) {
        if let Err(reason) = self.remove_dead(state, counters) {
            tracing::warn!(%reason, "dead journal segments stay for now");
        }
    }

    fn remove_dead(&self, state: &StateTable, counters: &Counters) -> Result<()> {
        let before = state.checkpoint_position().segment;
        let damaged = state
            .damages()
            .into_iter()
            .map(|(_, damage)| damage.segment)
            .min()
            .unwrap_or(u64::MAX);
        let keep = self.segments.free_bytes().unwrap_or(0) >= self.reserve;
        if !keep {
            self.segments.give_back()?;
        }
        let mut pins = self.pins.lock();
        let mut oldest = before;
        for sequence in self.segments.list()?.into_iter().filter(|sequence| *sequence < before) {
            // What damage named may be wanted for a rescue, and tells about everything behind it.
            let pinned = sequence >= damaged
                || pins
                    .get(&sequence)
                    .is_some_and(|(stream, end)| state.needs(*stream, *end));
            if pinned {
                oldest = oldest.min(sequence);
                continue;
            }
            let uses = state.uses(sequence)?;
            match uses.iter().find(|(stream, end)| state.needs(**stream, **end)) {
                Some((stream, end)) => {
                    pins.insert(sequence, (*stream, *end));
                    oldest = oldest.min(sequence);
                }
                None => {
                    let path = self.segments.path(sequence).display().to_string();
                    let retired = self.segments.retire(sequence, keep);
                    match retired.map_err(|e| Error::io("remove", path, e))? {
                        Retired::Pinned => {
                            oldest = oldest.min(sequence);
                            continue;
                        }
                        Retired::Kept => Counters::add(&counters.kept_segments, 1),
                        Retired::Removed => {}
                    }
                    state.forget_uses(sequence, uses.into_keys());
                    pins.remove(&sequence);
                    Counters::add(&counters.removed_segments, 1);
                }
            }
        }
        Counters::set(&counters.oldest_segment, oldest);
        Ok(())
    }
}
