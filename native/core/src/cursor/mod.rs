//! Durable cursors: a root plus immutable page versions.
//!
//! Owns: [`Cursors`] (the cursors of one writable open), [`read_all`] (for everybody else), the [cutting](pages) of ack pages into
//! records of at most 64 KiB.
//! Promises: a persist answers after durability; updates of one cursor take effect in call order and coalesce while a persist of
//! the same cursor is in flight; cost follows the change, whatever the number of ranges.
//! Keeps: L5 (each root takes the owner epoch before it is loaded, and every update names the version it replaces), L15 (the
//! conditional update of the root is the commit; pages are durable before it and reclaimed after it). A cursor that cannot be read
//! is an error, never an empty cursor.
//! Does not: keep acks in memory or judge them (the facade does); guard against a copy of a *create* that arrives only after the
//! cursor was deleted again: a provider that holds cursors applies the writes of one key in the order they were sent.

mod draft;
mod load;
mod pages;
mod types;

#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use load::read_all;
pub use types::{AckPage, CursorState, CursorUpdate};

use self::draft::Draft;
use self::load::Known;
use crate::commit::HeadCell;
use crate::env::{BoxFuture, Env, Sequence};
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, MetadataStore, Verdict, Version, Versioned, Write};
use crate::record::{CursorRoot, Key, Record};
use crate::types::{OwnerEpoch, StreamId};

/// Bytes of pages sent in one batch.
const BATCH_BYTES: usize = 4 << 20;
/// How often a root is judged anew after a conflict before somebody else is blamed.
const MAX_TRIES: u32 = 4;

/// The cursors of one writable open of a stream. Only handles of its owner epoch share it.
pub struct Cursors {
    stream: StreamId,
    epoch: OwnerEpoch,
    env: Env,
    cell: Arc<HeadCell>,
    store: Arc<dyn MetadataStore>,
    state: Mutex<State>,
}

struct State {
    slots: HashMap<String, Slot>,
    stopped: Option<Error>,
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
        env: Env,
        store: Arc<dyn MetadataStore>,
        cell: Arc<HeadCell>,
        stream: StreamId,
        epoch: OwnerEpoch,
    ) -> Result<(Arc<Cursors>, Vec<CursorState>)> {
        let claimed = load::claim(&env, &*store, stream, epoch).await?;
        let slots = claimed
            .known
            .into_iter()
            .map(|(name, known)| (name, Slot::new(&env, known)))
            .collect();
        let state = Mutex::new(State { slots, stopped: None });
        Ok((
            Arc::new(Cursors {
                stream,
                epoch,
                env,
                cell,
                store,
                state,
            }),
            claimed.states,
        ))
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
        self.state.lock().stopped.get_or_insert(reason);
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
            let state = self.state.lock();
            if state.stopped.is_some() || state.slots.values().all(|slot| slot.waiting.is_empty()) {
                return;
            }
        }
    }

    fn ask(self: &Arc<Self>, name: &str, wish: Wish) -> BoxFuture<Result<()>> {
        let (reply, answer) = oneshot::channel();
        let steps = {
            let mut state = self.state.lock();
            if let Some(reason) = &state.stopped {
                return Box::pin(std::future::ready(Err(reason.clone())));
            }
            let slot = match state.slots.entry(name.to_owned()) {
                Entry::Occupied(slot) => slot.into_mut(),
                Entry::Vacant(slot) => slot.insert(Slot::new(&self.env, Known::Absent)),
            };
            slot.waiting.push(Request { wish, reply });
            // The step that takes the first request takes all that came behind it meanwhile.
            (slot.waiting.len() == 1).then(|| slot.steps.clone())
        };
        if let Some(steps) = steps {
            let (cursors, name) = (self.clone(), name.to_owned());
            drop(steps.run(async move { cursors.work(&name).await }));
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
        if let Entry::Occupied(mut slot) = state.slots.entry(name.to_owned()) {
            match slot.get().waiting.is_empty() && matches!(known, Known::Absent) {
                true => drop(slot.remove()),
                false => slot.get_mut().known = known,
            }
        }
        Ok(())
    }

    /// Persists a run of updates as one change and answers each; gives what is known of the cursor then.
    async fn update(&self, name: &str, known: Known, run: Vec<(CursorUpdate, oneshot::Sender<Result<()>>)>) -> Known {
        if run.is_empty() {
            return known;
        }
        let (mut known, mut run) = (known, run);
        for _ in 0..MAX_TRIES {
            let (before, version) = match self.settle(name, known).await {
                Ok(before) => before,
                Err(error) => {
                    run.into_iter().for_each(|(_, reply)| answer(reply, Err(error.clone())));
                    return Known::Unsure;
                }
            };
            let mut draft = Draft::of(self.stream, self.epoch, before.as_ref());
            let mut changes = false;
            let mut judged = Vec::new();
            for (update, reply) in run {
                match self
                    .check(&update)
                    .and_then(|()| draft.apply(&update, self.env.clock.wall_millis()))
                {
                    // Bad input is bad whatever becomes of the others.
                    Err(error @ Error::Invalid { .. }) => answer(reply, Err(error)),
                    verdict => {
                        changes |= verdict.is_ok();
                        judged.push((update, reply, verdict));
                    }
                }
            }
            let unchanged = match (before, version) {
                (Some(root), Some(version)) => Known::At(Box::new(root), version),
                _ => Known::Absent,
            };
            let committed = match changes {
                true => self.commit(draft, version).await,
                false => Ok(Committed::Nothing),
            };
            // A verdict may rest on the updates before it, so it is given only with theirs.
            let (after, error) = match committed {
                Ok(Committed::Lost) => {
                    // Either a newer owner's root, or an earlier attempt of ours that arrived late: the next look tells.
                    known = Known::Unsure;
                    run = judged.into_iter().map(|(update, reply, _)| (update, reply)).collect();
                    continue;
                }
                Ok(Committed::At(root, version)) => (Known::At(root, version), None),
                Ok(Committed::Nothing) => (unchanged, None),
                Err(error @ Error::Unknown { .. }) => (Known::Unsure, Some(error)),
                Err(error) => (unchanged, Some(error)),
            };
            for (_, reply, verdict) in judged {
                answer(reply, error.clone().map_or(verdict, Err));
            }
            return after;
        }
        let error = Error::Conflict {
            what: format!("cursor {name} of stream {}", self.stream),
        };
        run.into_iter().for_each(|(_, reply)| answer(reply, Err(error.clone())));
        Known::Unsure
    }

    /// What a change may build on. An owner that was fenced finds out here or at the conditional update.
    async fn settle(&self, name: &str, known: Known) -> Result<(Option<CursorRoot>, Option<Version>)> {
        let by_epoch = self.cell.with(|head| head.map(|head| head.owner_epoch));
        match by_epoch {
            None => {
                return Err(Error::NotFound {
                    what: format!("stream {}", self.stream),
                })
            }
            Some(by_epoch) if by_epoch > self.epoch => return Err(self.fenced(name, by_epoch)),
            Some(_) => {}
        }
        match known {
            Known::Absent => Ok((None, None)),
            Known::At(root, version) => Ok((Some(*root), Some(version))),
            Known::Unsure => {
                let key = Key::cursor_root(self.stream, name)?;
                let Some(Versioned { value, version }) = self.store.get(key.clone()).await? else {
                    return Ok((None, None));
                };
                let root = CursorRoot::decode(&key, &value)?;
                if root.owner_epoch > self.epoch {
                    return Err(self.fenced(name, root.owner_epoch));
                }
                Ok((Some(root), Some(version)))
            }
        }
    }

    fn check(&self, update: &CursorUpdate) -> Result<()> {
        let end = self.cell.with(|head| head.map(|head| head.end));
        match end.filter(|end| update.mark_delete_end > *end) {
            Some(end) => Err(Error::Invalid {
                what: format!(
                    "cursor {}: mark-delete end {} lies past the committed end {end}",
                    update.name, update.mark_delete_end
                ),
            }),
            None => Ok(()),
        }
    }

    /// Pages first, then the root: its conditional update is the commit.
    async fn commit(&self, draft: Draft, before: Option<Version>) -> Result<Committed> {
        let change = draft.finish(&*self.env.random)?;
        let root_write = Write {
            key: change.root.key()?,
            expected: before.map_or(Expected::Absent, Expected::Version),
            value: Some(change.root.encode()?),
        };
        let new_pages: Vec<Key> = change.pages.iter().map(|(key, _)| key.clone()).collect();
        if let Err(error) = self.write_pages(change.pages).await {
            self.reclaim(new_pages).await;
            return Err(error);
        }
        let verdict = write_settled(&*self.store, &*self.env.clock, vec![root_write])
            .await
            .pop();
        match verdict {
            Some(Verdict::Applied(version)) => {
                self.reclaim(change.replaced).await;
                Ok(Committed::At(Box::new(change.root), version))
            }
            Some(Verdict::Conflict(_)) => {
                self.reclaim(new_pages).await;
                Ok(Committed::Lost)
            }
            Some(Verdict::Refused(error)) => {
                self.reclaim(new_pages).await;
                Err(error)
            }
            // The root may still arrive and names the pages: they stay.
            Some(Verdict::Unknown(error)) => Err(Error::Unknown {
                what: format!(
                    "persist of cursor {} of stream {}: {error}",
                    change.root.name, self.stream
                ),
            }),
            None => Err(Error::Internal {
                what: "a metadata store gave no verdict".into(),
            }),
        }
    }

    async fn write_pages(&self, pages: Vec<(Key, bytes::Bytes)>) -> Result<()> {
        let mut pages = pages.into_iter().peekable();
        while pages.peek().is_some() {
            let mut batch = Vec::new();
            let mut bytes = 0;
            while let Some((key, value)) = pages.next_if(|_| bytes < BATCH_BYTES) {
                bytes += value.len();
                batch.push(Write {
                    key,
                    expected: Expected::Absent,
                    value: Some(value),
                });
            }
            for verdict in write_settled(&*self.store, &*self.env.clock, batch).await {
                match verdict {
                    Verdict::Applied(_) => {}
                    Verdict::Conflict(_) => {
                        return Err(Error::Internal {
                            what: "the version of a cursor page is used".into(),
                        })
                    }
                    // No root names the page, so a copy that arrives later changes nothing: certainly not persisted.
                    Verdict::Refused(error) | Verdict::Unknown(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Removes page versions that no root names. What fails is found again by the next claim.
    async fn reclaim(&self, pages: Vec<Key>) {
        if pages.is_empty() {
            return;
        }
        let batch = pages
            .into_iter()
            .map(|key| Write {
                key,
                expected: Expected::Any,
                value: None,
            })
            .collect();
        for verdict in self.store.write(batch).await {
            if let Verdict::Refused(error) | Verdict::Unknown(error) = verdict {
                tracing::debug!(stream = %self.stream, %error, "an old cursor page stays until the next open");
            }
        }
    }

    async fn remove(&self, name: &str, known: Known) -> (Known, Result<()>) {
        let mut known = known;
        for _ in 0..MAX_TRIES {
            let (root, version) = match self.settle(name, known).await {
                Ok((Some(root), Some(version))) => (root, version),
                Ok(_) => return (Known::Absent, Err(draft::missing(name, self.stream))),
                Err(error) => return (Known::Unsure, Err(error)),
            };
            let key = match root.key() {
                Ok(key) => key,
                Err(error) => return (Known::Unsure, Err(error)),
            };
            let write = Write {
                key,
                expected: Expected::Version(version),
                value: None,
            };
            match write_settled(&*self.store, &*self.env.clock, vec![write]).await.pop() {
                Some(Verdict::Applied(_)) | Some(Verdict::Conflict(None)) => {
                    self.reclaim(
                        root.pages
                            .iter()
                            .filter_map(|page| draft::page_key(&root, page).ok())
                            .collect(),
                    )
                    .await;
                    return (Known::Absent, Ok(()));
                }
                Some(Verdict::Conflict(Some(_))) => known = Known::Unsure,
                Some(Verdict::Refused(error)) => return (Known::At(Box::new(root), version), Err(error)),
                Some(Verdict::Unknown(error)) => {
                    let what = format!("deletion of cursor {name} of stream {}: {error}", self.stream);
                    return (Known::Unsure, Err(Error::Unknown { what }));
                }
                None => {
                    return (
                        Known::Unsure,
                        Err(Error::Internal {
                            what: "a metadata store gave no verdict".into(),
                        }),
                    )
                }
            }
        }
        (
            Known::Unsure,
            Err(Error::Conflict {
                what: format!("cursor {name} of stream {}", self.stream),
            }),
        )
    }

    fn fenced(&self, name: &str, by_epoch: OwnerEpoch) -> Error {
        Error::Fenced {
            what: format!("cursor {name} of stream {}", self.stream),
            by_epoch,
        }
    }
}

enum Committed {
    At(Box<CursorRoot>, Version),
    /// There was nothing to commit.
    Nothing,
    /// The root is not the one that was built on.
    Lost,
}

impl Slot {
    fn new(env: &Env, known: Known) -> Slot {
        Slot {
            known,
            waiting: Vec::new(),
            steps: Sequence::new(env.spawner.clone()),
        }
    }
}

fn answer(reply: oneshot::Sender<Result<()>>, result: Result<()>) {
    // A caller that left needs no answer.
    let _ = reply.send(result);
}
