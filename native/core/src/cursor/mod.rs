//! Durable cursors: a root plus immutable page versions, named by the root or, where they are many, by immutable index records.
//!
//! Owns: [`Cursors`] (the cursors of one writable open), [`read_all`] (for everybody else), the [cutting](pages) of ack pages into
//! records of at most 64 KiB, the [grouping](names) of their names.
//! Promises: a persist answers after durability; updates of one cursor take effect in call order and coalesce while a persist of
//! the same cursor is in flight; cost follows the change, whatever the number of ranges: a persist writes the parts in which
//! something changed (about 16 KiB of batch bitmaps each), the index records that name them, and the root.
//! Keeps: L5 (each root takes the owner epoch before it is loaded, and every update names the version it replaces), L15 (the
//! conditional update of the root is the commit; what it leads to is durable before it and reclaimed after it). A cursor that cannot be read
//! is an error, never an empty cursor.
//! Tombstones: where a write whose answer was lost may still arrive (`Capabilities::late_writes`), a deletion leaves a root that
//! says so. A creation that arrives late expects an absent key; with the tombstone in place it never finds one, so it cannot bring
//! back what was deleted, or withdrawn because its owner was superseded. Nobody can tell when the last copy has arrived, so
//! tombstones stay (a small root per name, claimed like any other) until the stream is deleted. For the same reason a root of an
//! older owner that appears after the claim is no cursor: its creator confirms it by the head, and finds itself superseded.
//! Does not: keep acks in memory or judge them (the facade does).

mod draft;
mod held;
mod load;
mod names;
mod pages;
mod persist;
mod types;

#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use load::read_all;
pub use types::{AckPage, CursorState, CursorUpdate};

use self::held::Held;
use self::load::Known;
use crate::commit::{HeadCell, Log};
use crate::env::{BoxFuture, Env, Sequence};
use crate::error::{Error, Result};
use crate::metadata::MetadataStore;
use crate::types::{OwnerEpoch, StreamId};

/// The cursors of one writable open of a stream. Only handles of its owner epoch share it.
pub struct Cursors {
    stream: StreamId,
    epoch: OwnerEpoch,
    env: Arc<Env>,
    cell: Arc<HeadCell>,
    store: Arc<dyn MetadataStore>,
    /// Where the head can be read anew; see [`Cursors::follow`].
    log: OnceLock<Arc<dyn Log>>,
    /// The head of the stream that the cursors walk over where that is another one; see [`Cursors::walk_over`].
    other: OnceLock<Arc<HeadCell>>,
    held: Held,
    state: Mutex<State>,
}

struct State {
    /// By name. Boxed: a node of the map has room for eleven, and most streams have one cursor.
    slots: BTreeMap<Box<str>, Box<Slot>>,
    stopped: Option<Box<Error>>,
}

/// One cursor by name, existing or asked for.
struct Slot {
    known: Known,
    /// Asked for, and not yet taken by a persist.
    waiting: Vec<Request>,
    steps: Arc<Sequence>,
}

struct Request {
    wish: Wish,
    reply: oneshot::Sender<Result<()>>,
}

enum Wish {
    Update(CursorUpdate),
    Delete,
}

impl Cursors {
    /// Claims every cursor of the stream for the owner of `epoch`, then loads them. Page versions that no root names are removed.
    ///
    /// # Errors
    /// `Fenced` when a cursor belongs to a newer owner, `Corrupt` when one cannot be read.
    pub async fn claim(
        env: Arc<Env>,
        store: Arc<dyn MetadataStore>,
        cell: Arc<HeadCell>,
        stream: StreamId,
        epoch: OwnerEpoch,
    ) -> Result<(Arc<Cursors>, Vec<CursorState>)> {
        let claimed = load::claim(&env, &*store, stream, epoch).await?;
        let held = Held::default();
        for known in claimed.known.values() {
            if let Known::At(stored) = known {
                held.replace(0, stored.names.bytes());
            }
        }
        let slots = claimed
            .known
            .into_iter()
            .map(|(name, known)| (name.into_boxed_str(), Slot::new(&env, known)))
            .collect();
        let state = Mutex::new(State { slots, stopped: None });
        Ok((
            Arc::new(Cursors {
                stream,
                epoch,
                env,
                cell,
                store,
                log: OnceLock::new(),
                other: OnceLock::new(),
                held,
                state,
            }),
            claimed.states,
        ))
    }

    /// Asks `log` who owns the stream before a cursor is created: a root that is not there carries no epoch that could fence an
    /// owner on another engine.
    pub fn follow(&self, log: Arc<dyn Log>) {
        // A second call names the same log.
        let _ = self.log.set(log);
    }

    /// From now on the cursors count the offsets of another stream, whose head is in `other`, and may go as far as that one.
    ///
    /// # Errors
    /// `Invalid` when they walk over a third stream already.
    pub fn walk_over(&self, other: &Arc<HeadCell>) -> Result<()> {
        match Arc::ptr_eq(self.other.get_or_init(|| other.clone()), other) {
            true => Ok(()),
            false => Err(Error::Invalid {
                what: format!("the cursors of stream {} walk over another stream already", self.stream),
            }),
        }
    }

    /// Queues an update before it returns; answers after durability.
    pub fn persist(self: &Arc<Self>, update: CursorUpdate) -> BoxFuture<Result<()>> {
        let name = update.name.clone();
        self.ask(&name, Wish::Update(update))
    }

    /// Queues a deletion before it returns.
    pub fn delete(self: &Arc<Self>, name: &str) -> BoxFuture<Result<()>> {
        self.ask(name, Wish::Delete)
    }

    /// Refuses new requests with `reason` from now on. The first reason stays.
    pub fn stop(&self, reason: Error) {
        self.state.lock().stopped.get_or_insert_with(|| Box::new(reason));
    }

    /// Resolves when no request is queued or in flight.
    pub async fn idle(&self) {
        loop {
            let busy: Vec<Arc<Sequence>> = self
                .state
                .lock()
                .slots
                .values()
                .map(|slot| slot.steps.clone())
                .collect();
            for steps in busy {
                steps.idle().await;
            }
            if self.state.lock().slots.values().all(|slot| slot.waiting.is_empty()) {
                return;
            }
        }
    }

    fn ask(self: &Arc<Self>, name: &str, wish: Wish) -> BoxFuture<Result<()>> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if let Some(reason) = &state.stopped {
                return Box::pin(std::future::ready(Err((**reason).clone())));
            }
            let slot = match state.slots.entry(name.into()) {
                Entry::Occupied(slot) => slot.into_mut(),
                Entry::Vacant(slot) => slot.insert(Slot::new(&self.env, Known::Absent)),
            };
            slot.waiting.push(Request { wish, reply });
            // The step that takes the first request takes all that came behind it meanwhile. Queued under the lock: what waits
            // always has its step.
            if slot.waiting.len() == 1 {
                let (cursors, name) = (self.clone(), name.to_owned());
                drop(slot.steps.run(async move { cursors.work(&name).await }));
            }
        }
        Box::pin(async move {
            answer.await.unwrap_or_else(|_| {
                Err(Error::Internal {
                    what: "a persist ended without an answer".into(),
                })
            })
        })
    }

    /// Takes everything that waits for one cursor and settles it.
    async fn work(self: Arc<Self>, name: &str) -> Result<()> {
        let (requests, mut known) = {
            let mut state = self.state.lock();
            let Some(slot) = state.slots.get_mut(name) else {
                return Ok(());
            };
            // If this step dies, the next one reads the root again.
            (
                std::mem::take(&mut slot.waiting),
                std::mem::replace(&mut slot.known, Known::Unsure),
            )
        };
        let mut run: Vec<(CursorUpdate, oneshot::Sender<Result<()>>)> = Vec::new();
        for Request { wish, reply } in requests {
            match wish {
                Wish::Update(update) => run.push((update, reply)),
                Wish::Delete => {
                    known = self.update(name, known, std::mem::take(&mut run)).await;
                    let (after, result) = self.remove(name, known).await;
                    known = after;
                    answer(reply, result);
                }
            }
        }
        known = self.update(name, known, run).await;

        let mut state = self.state.lock();
        if let Entry::Occupied(mut slot) = state.slots.entry(name.into()) {
            match slot.get().waiting.is_empty() && matches!(known, Known::Absent | Known::Left(_)) {
                true => drop(slot.remove()),
                false => slot.get_mut().known = known,
            }
        }
        Ok(())
    }
}

impl Slot {
    fn new(env: &Env, known: Known) -> Box<Slot> {
        Box::new(Slot {
            known,
            waiting: Vec::new(),
            steps: Sequence::new(env.spawner.clone()),
        })
    }
}

fn answer(reply: oneshot::Sender<Result<()>>, result: Result<()>) {
    // A caller that left needs no answer.
    let _ = reply.send(result);
}
