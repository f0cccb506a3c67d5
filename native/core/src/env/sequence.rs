//! Steps of one object, one after the other, in call order. An idle sequence has no task.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{oneshot, Notify};

use super::{BoxFuture, Spawner};
use crate::error::{Error, Result};

/// Runs steps on tasks of its own: a caller that leaves abandons the answer, never the step.
pub struct Sequence {
    spawner: Arc<dyn Spawner>,
    state: Mutex<State>,
    idle: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<BoxFuture<()>>,
    running: bool,
}

impl Sequence {
    /// An idle sequence.
    pub fn new(spawner: Arc<dyn Spawner>) -> Arc<Sequence> {
        Arc::new(Sequence {
            spawner,
            state: Mutex::default(),
            idle: Notify::new(),
        })
    }

    /// Queues a step before it returns. A step that panics answers `Internal`; the next ones still run.
    pub fn run<T: Send + 'static>(
        self: &Arc<Self>,
        step: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let (reply, answer) = oneshot::channel();
        let step = Box::pin(async move {
            // A caller that left needs no answer.
            let _ = reply.send(step.await);
        });
        let start = {
            let mut state = self.state.lock();
            state.queue.push_back(step);
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            self.spawner.spawn("steps", Box::pin(self.clone().drain()));
        }
        Box::pin(async move {
            answer.await.unwrap_or_else(|_| {
                Err(Error::Internal {
                    what: "a step ended without an answer".into(),
                })
            })
        })
    }

    /// Resolves when nothing is queued or running.
    pub async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            idle.as_mut().enable();
            if !self.state.lock().running {
                return;
            }
            idle.await;
        }
    }

    async fn drain(self: Arc<Self>) {
        let mut drain = Drain {
            sequence: &self,
            finished: false,
        };
        loop {
            let step = {
                let mut state = self.state.lock();
                match state.queue.pop_front() {
                    Some(step) => step,
                    None => {
                        state.running = false;
                        drain.finished = true;
                        return;
                    }
                }
            };
            // The step's own reply tells its caller of a panic.
            let _ = AssertUnwindSafe(step).catch_unwind().await;
        }
    }
}

/// Dropped unfinished (the runtime stops) it lets every queued step go, which answers their callers.
struct Drain<'a> {
    sequence: &'a Sequence,
    finished: bool,
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let rest = {
                let mut state = self.sequence.state.lock();
                state.running = false;
                std::mem::take(&mut state.queue)
            };
            drop(rest);
        }
        self.sequence.idle.notify_waiters();
    }
}
