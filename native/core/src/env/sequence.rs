//! Steps of one object, one after the other, in call order. An idle sequence has no task.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{BoxFuture, Spawner};
use crate::error::{Error, Result};

/// Runs steps on tasks of its own: a caller that leaves abandons the answer, never the step.
pub struct Sequence {
    spawner: Arc<dyn Spawner>,
    /// `None` = idle, which most sequences are.
    busy: Mutex<Option<Box<Busy>>>,
}

/// What waits while a step runs.
#[derive(Default)]
struct Busy {
    queue: VecDeque<BoxFuture<()>>,
    /// Told, by being dropped, when the sequence is idle again.
    watchers: Vec<oneshot::Sender<()>>,
}

impl Sequence {
    /// An idle sequence.
    pub fn new(spawner: Arc<dyn Spawner>) -> Arc<Sequence> {
        Arc::new(Sequence {
            spawner,
            busy: Mutex::default(),
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
            let mut busy = self.busy.lock();
            let start = busy.is_none();
            busy.get_or_insert_default().queue.push_back(step);
            start
        };
        if start {
            let drain = Drain {
                sequence: self.clone(),
                finished: false,
            };
            self.spawner.spawn("steps", Box::pin(drain.run()));
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
            let (watcher, ended) = oneshot::channel();
            match self.busy.lock().as_mut() {
                Some(busy) => busy.watchers.push(watcher),
                None => return,
            }
            // Nothing is ever sent: the watcher goes with the last step.
            let _ = ended.await;
        }
    }
}

/// The running sequence. Dropped unfinished, even before its first step (the runtime stops), it lets every queued step go, which
/// answers their callers.
struct Drain {
    sequence: Arc<Sequence>,
    finished: bool,
}

impl Drain {
    async fn run(mut self) {
        loop {
            let step = {
                let mut busy = self.sequence.busy.lock();
                match busy.as_mut().and_then(|busy| busy.queue.pop_front()) {
                    Some(step) => step,
                    None => {
                        self.finished = true;
                        let done = busy.take();
                        // Watchers wake outside the lock.
                        drop(busy);
                        drop(done);
                        return;
                    }
                }
            };
            // The step's own reply tells its caller of a panic.
            let _ = AssertUnwindSafe(step).catch_unwind().await;
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if !self.finished {
            let rest = self.sequence.busy.lock().take();
            drop(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::real;
    use crate::error::ErrorCode;

    #[test]
    fn steps_run_in_call_order_whoever_waits_and_survive_a_panic() {
        let rt = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        let sequence = Sequence::new(real::env(rt.handle().clone()).unwrap().spawner);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut answers = Vec::new();
        for n in 0..100 {
            let seen = seen.clone();
            let answer = sequence.run(async move {
                assert_ne!(n, 50, "this step dies on purpose");
                seen.lock().push(n);
                Ok(n)
            });
            match n % 3 {
                // The caller leaves; the step is done all the same.
                0 => drop(answer),
                _ => answers.push((n, answer)),
            }
        }
        for (n, answer) in answers.into_iter().rev() {
            let answer = rt.block_on(answer).map_err(|error| error.code());
            assert_eq!(answer, if n == 50 { Err(ErrorCode::Internal) } else { Ok(n) });
        }
        rt.block_on(sequence.idle());
        assert_eq!(*seen.lock(), (0..100).filter(|n| *n != 50).collect::<Vec<_>>());
    }

    #[test]
    fn stopped_runtime_answers_every_step_that_waits() {
        let rt = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let sequence = Sequence::new(real::env(rt.handle().clone()).unwrap().spawner);
        let answers: Vec<_> = (0..3)
            .map(|_| sequence.run(std::future::pending::<Result<()>>()))
            .collect();
        drop(rt);
        for answer in answers {
            assert_eq!(
                futures::executor::block_on(answer).unwrap_err().code(),
                ErrorCode::Internal
            );
        }
        futures::executor::block_on(sequence.idle());
    }
}
