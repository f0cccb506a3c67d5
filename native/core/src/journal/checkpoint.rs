//! Checkpoints: the state goes down to the backend, and segments that nothing needs go away (`reclaim`).
//!
//! Promises: a checkpoint is one atomic batch with the position it covers, then a completed flush, off the lane's thread. Only
//! then may what lies before be removed or re-used (L16). One that fails is tried again with the next; meanwhile nothing is removed.
//! Appends wait for one that does not keep up, and go on without one that fails.
//!
//! Threads: each runs on a thread that ends with it. What it allocates, some megabytes, thus comes back to one arena of the heap,
//! which the next one finds; on a pool every thread would keep as much.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;

use super::lane::Shared;
use super::reclaim::Reclaim;
use super::stats::Counters;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};

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
    pub fn new(due: Due, since: u64, reclaim: Arc<Reclaim>) -> Checkpoints {
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

    /// Between two frames: hears of a checkpoint that ended, starts one that is due. When one is due and the one before is not done
    /// yet, appends wait for that: what a recovery replays, what memory holds and how many segments there are stays bounded however
    /// slow the backend is.
    pub async fn keep_up(&mut self, env: &Env, shared: &Arc<Shared>) {
        let due = self.since >= self.due.bytes || shared.state.dirty() >= self.due.dirty;
        if let Some(mut running) = self.running.take() {
            let ended = match running.try_recv() {
                Ok(None) if due => running.await,
                Ok(None) => {
                    self.running = Some(running);
                    return;
                }
                Ok(Some(done)) => Ok(done),
                Err(canceled) => Err(canceled),
            };
            // A failure was logged and counted where it was known; the next try is due after a pause.
            if !matches!(ended, Ok(Ok(()))) {
                self.not_before = env.clock.monotonic().saturating_add(RETRY);
            }
        }
        let due = due || (self.urgent && self.since > 0);
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
                        what: "the thread of a checkpoint".into(),
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
        let work = async move {
            if active(Mutant::RemoveBeforeFlush) {
                reclaim.run(&counters);
            }
            let done = state.write_frozen();
            match &done {
                Ok(()) => {
                    let now = u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX);
                    Counters::add(&counters.checkpoints, 1);
                    Counters::set(&counters.checkpoint_millis, now);
                    Counters::subtract(&counters.replay_bytes, covering);
                    reclaim.run(&counters);
                }
                Err(reason) => failed(&counters, reason),
            }
            // Before the answer: whoever closes may open the directory again at once.
            drop((state, reclaim));
            drop(send.send(done));
        };
        env.spawner.spawn_dedicated("nereus-checkpoint", Box::pin(work));
        self.running = Some(receive);
    }
}

fn failed(counters: &Counters, reason: &Error) {
    Counters::add(&counters.failed_checkpoints, 1);
    tracing::warn!(%reason, "a checkpoint failed and is tried again; segments are kept meanwhile");
}
