//! One owner: its log, its view of the store, its handle.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use nereus_core::cache::{Budget, Caches};
use nereus_core::commit::Log;
use nereus_core::env::sim::SimRandom;
use nereus_core::env::{BoxFuture, Clock, Spawner};
use nereus_core::error::Result;
use nereus_core::metadata::faults::{Faults, Faulty};
use nereus_core::metadata::memory::MemoryStore;
use nereus_core::metadata::{Capabilities, MetadataStore, Verdict, Versioned, Write};
use nereus_core::record::Key;
use nereus_core::stream::{Common, Parts, Stream};
use nereus_core::wal::TwoStep;
use nereus_core::Error;

use super::{Done, Op, World, STREAM};
use crate::law::{holds, Law};
use crate::world::errors::{check, Allowed};

/// One owner.
pub(super) struct Owner {
    /// Its handle.
    pub stream: Stream,
    /// What goes wrong with its writes.
    pub faults: Faults,
    /// The offset that its next append gets.
    pub next: u64,
    /// Its appends under way, in call order.
    pub queue: VecDeque<u64>,
    /// An append failed, and nobody resumed.
    pub failed: bool,
    /// Another owner took over.
    pub fenced: bool,
    /// It is never heard of again.
    pub dead: bool,
    /// Keeps the log going.
    _log: Arc<dyn Log>,
}

impl World {
    /// A log of its own over the common store.
    pub(super) fn log(&mut self, faults: Faults) -> Arc<dyn Log> {
        let env = self.machine.env();
        let store = Slow {
            store: Arc::new(Faulty::new(self.store.clone(), faults)),
            clock: env.clock.clone(),
            spawner: env.spawner.clone(),
            random: SimRandom::new(self.next ^ 0x510e),
            most: self.delay.clone(),
        };
        Arc::new(TwoStep::start(env, self.wal.clone(), Arc::new(store)))
    }

    /// A new owner takes the stream over while the others go on.
    pub(super) fn take_over(&mut self) -> Done {
        let faults = Faults::default();
        let log = self.log(faults.clone());
        let env = self.machine.env();
        let name = format!("owner-{}", self.owners.len());
        let mine = log.clone();
        let opening = async move {
            let cell = mine.load(STREAM).await?.ok_or_else(|| Error::NotFound {
                what: "the stream".into(),
            })?;
            let parts = Parts {
                name: "public/default/persistent/t".into(),
                stream: STREAM,
                cell,
                common: Arc::new(Common {
                    log: mine,
                    env: Arc::new(env),
                    caches: Caches::new(Budget::new(64 << 20, 8 << 20, 1 << 20)?),
                    max_entry: 1 << 20,
                }),
            };
            Stream::take_over(parts, name.into()).await
        };
        let opened = self.drive("a take-over", opening)?;
        // Whatever older owners asked for may have come before it or not.
        let (stream, cursors) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.trace.line(|| format!("  take-over: {:?}", error.code()));
                return check(&self.trouble, &error, &Allowed::default(), "a take-over");
            }
        };
        for op in self.ops.values_mut() {
            op.overtaken = true;
        }
        for owner in &mut self.owners {
            owner.fenced = true;
        }
        self.drain()?;
        let state = stream.state();
        let epoch = stream.owner_epoch().map_or(0, |epoch| epoch.get());
        self.trace
            .line(|| format!("  take-over: epoch {epoch} offsets {}..{}", state.trim, state.end));
        holds(epoch > self.model.epoch, Law::L5, || {
            format!("epoch {epoch}, {} was given out before", self.model.epoch)
        })?;
        self.model.check_state(&state)?;
        self.model.epoch = epoch;
        for cursor in self.model.cursors.values_mut() {
            cursor.died()?;
        }
        for found in &cursors {
            holds(self.model.cursors.contains_key(&found.name), Law::L15, || {
                format!("cursor {} was never created", found.name)
            })?;
        }
        for (name, cursor) in &mut self.model.cursors {
            let found = cursors.iter().find(|found| found.name == *name);
            match found.filter(|found| self.ghosts.contains(found)) {
                Some(ghost) if cursor.observe(name, found).is_err() => cursor.appeared(ghost),
                _ => cursor.observe(name, found)?,
            }
        }
        self.read_all(&stream)?;
        self.model.trim = state.trim.get();
        self.owners.push(Owner {
            next: state.end.get(),
            stream,
            faults,
            queue: VecDeque::new(),
            failed: false,
            fenced: false,
            dead: false,
            _log: log,
        });
        Ok(())
    }

    /// The owner that a step means.
    pub(super) fn owner(&self, old: bool) -> usize {
        let last = self.owners.len().saturating_sub(1);
        let back = if old { 1 } else { 0 };
        last.saturating_sub(back)
    }

    pub(super) fn allowed(&self, owner: usize) -> Allowed {
        let owner = &self.owners[owner];
        Allowed {
            fenced: owner.fenced,
            terminated: self.model.may_be_terminated(),
            suspended: owner.failed,
            stream: Some(STREAM),
            ..Allowed::default()
        }
    }
}

impl Op {
    /// A request of `owner`, superseded or not.
    pub(super) fn new(owner: usize, fenced: bool, ask: super::Ask) -> Op {
        Op {
            owner,
            ask,
            fenced,
            overtaken: false,
        }
    }
}

/// A store far away: a request takes a while to get there, and its answer to come back. A caller that leaves abandons the answer
/// only.
struct Slow {
    store: Arc<Faulty<MemoryStore>>,
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawner>,
    random: SimRandom,
    most: Arc<AtomicU64>,
}

impl Slow {
    fn way(&self) -> BoxFuture<()> {
        let micros = self.random.below(self.most.load(Ordering::Relaxed));
        self.clock.sleep(Duration::from_micros(micros))
    }

    fn far<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Faulty<MemoryStore>) -> BoxFuture<T> + Send + 'static,
    ) -> BoxFuture<Option<T>> {
        let (there, back) = (self.way(), self.way());
        let store = self.store.clone();
        let (send, receive) = oneshot::channel();
        let task = async move {
            there.await;
            let answer = ask(&store).await;
            back.await;
            // A caller that left needs no answer.
            drop(send.send(answer));
        };
        self.spawner.spawn("far away", Box::pin(task));
        Box::pin(async move { receive.await.ok() })
    }
}

fn lost() -> Error {
    Error::Unavailable {
        what: "the store".into(),
        retry: Duration::from_millis(1),
    }
}

impl MetadataStore for Slow {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        let answer = self.far(move |store| store.get(key));
        Box::pin(async move { answer.await.unwrap_or_else(|| Err(lost())) })
    }

    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        let answer = self.far(move |store| store.write(batch));
        Box::pin(async move { answer.await.unwrap_or_default() })
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        let answer = self.far(move |store| store.scan(from, to, limit));
        Box::pin(async move { answer.await.unwrap_or_else(|| Err(lost())) })
    }

    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        let answer = self.far(move |store| store.last(from, to));
        Box::pin(async move { answer.await.unwrap_or_else(|| Err(lost())) })
    }
}
