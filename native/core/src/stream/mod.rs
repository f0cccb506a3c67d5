//! An open stream: appends, reads, changes, cursors.
//!
//! Owns: [`Stream`], a cheap handle. One writable open = one owner epoch = one set of handles; a later open fences them all.
//! Promises: offsets are reserved in call order; completions come in offset order; a read starts exactly where it was asked to and
//! returns verified bytes; every change is durable before it answers, and idempotent.
//! Keeps: L1, L4, L6 (with the log), L10, L11, L12, L14 (refused before any effect).
//! Does not: decide what is committed (`commit`), create or delete streams (`engine`), know ledger positions.
//!
//! Threads: functions that give a `BoxFuture` take their place in the order of the stream (or cursor) before they return; polling
//! the future only waits for the answer. Any thread may call anything; nothing here blocks.

mod appender;
mod cold;
mod common;
mod control;
mod locate;
mod marks;
mod reader;
mod remove;
mod rollover;
mod spans;
mod types;

#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod marks_suite;
#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod rollover_tests;
#[cfg(test)]
mod spans_tests;
#[cfg(test)]
pub(crate) mod suite;
#[cfg(test)]
pub(crate) mod takeover_suite;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::future::{select, Either, FutureExt};
use tokio::sync::Notify;

pub use common::Common;
pub use remove::remove_remains;
pub use rollover::{Retention, Rollover};
pub use types::{Held, ReadBatch, ReadEntry, ReadRequest, SpanInfo, StreamState};

use self::appender::Appender;
use self::common::Trunk;
use self::locate::Commits;
use self::marks::Marks;
use self::reader::Reader;
use crate::cache::Permit;
use crate::commit::{AppendOutcome, HeadCell, HeadChange};
use crate::cursor::{CursorState, CursorUpdate, Cursors};
use crate::env::{BoxFuture, Sequence};
use crate::error::{Error, Result};
use crate::record::TrimMark;
use crate::types::{Offset, OwnerEpoch, StreamId};

/// A handle to an open stream. Clones share everything.
#[derive(Clone)]
pub struct Stream(Arc<Shared>);

/// What a change of a stream or cursor costs while it waits, besides what it carries, bytes.
const WAITING_STEP: u64 = 1 << 10;

/// See [`Stream::downgrade`].
pub(crate) struct WeakStream(Weak<Shared>);

impl WeakStream {
    /// The stream, while some handle lives.
    pub fn upgrade(&self) -> Option<Stream> {
        self.0.upgrade().map(Stream)
    }
}

struct Shared {
    name: Arc<str>,
    reader: Reader,
    /// `None` = opened for reading only.
    appender: Option<Arc<Appender>>,
    cursors: Option<Arc<Cursors>>,
    marks: Option<Arc<Marks>>,
    steps: Arc<Sequence>,
    closed: AtomicBool,
}

/// What a stream is opened on.
pub struct Parts {
    /// Ledger name, for messages.
    pub name: Arc<str>,
    /// The stream.
    pub stream: StreamId,
    /// Its published head, from the log.
    pub cell: Arc<HeadCell>,
    /// The engine's.
    pub common: Arc<Common>,
}

/// What only a writable handle has.
#[derive(Default)]
struct Owned {
    appender: Option<Arc<Appender>>,
    cursors: Option<Arc<Cursors>>,
    marks: Option<Arc<Marks>>,
}

fn trunk(parts: &Parts) -> Arc<Trunk> {
    let commits = Commits {
        stream: parts.stream,
        cell: parts.cell.clone(),
        store: parts.common.log.store(),
        pages: parts.common.caches.pages.clone(),
    };
    Arc::new(Trunk {
        commits,
        recent: parts.common.caches.tail.stream(),
        common: parts.common.clone(),
    })
}

impl Stream {
    /// Takes the stream over: raises the owner epoch to one of `owner`'s own, then claims and loads the cursors. `owner` must be
    /// unique per engine run. Everything that an older owner asks for from now on is fenced (L5).
    pub async fn take_over(parts: Parts, owner: Arc<str>) -> Result<(Stream, Vec<CursorState>)> {
        let claim = HeadChange::Claim { owner: owner.clone() };
        let cell = parts.common.log.change(parts.stream, claim).await?;
        let claimed = cell.with(|head| head.map(|head| (head.owner_epoch, head.owner == owner)));
        let epoch = match claimed {
            None => {
                return Err(Error::NotFound {
                    what: format!("stream {}", parts.stream),
                })
            }
            Some((by_epoch, false)) => {
                return Err(Error::Fenced {
                    what: parts.name.to_string(),
                    by_epoch,
                })
            }
            Some((epoch, true)) => epoch,
        };
        let (env, store) = (parts.common.env.clone(), parts.common.log.store());
        let (cursors, states) = Cursors::claim(env, store, cell.clone(), parts.stream, epoch).await?;
        Ok((Self::writable(Parts { cell, ..parts }, epoch, cursors), states))
    }

    fn writable(parts: Parts, epoch: OwnerEpoch, cursors: Arc<Cursors>) -> Stream {
        let (trunk, steps) = (trunk(&parts), Sequence::new(parts.common.env.spawner.clone()));
        let marks = Marks::new(trunk.clone(), epoch, steps.clone());
        let appender = Appender::new(trunk.clone(), epoch, marks.clone());
        cursors.follow(parts.common.log.clone());
        let owned = Owned {
            appender: Some(Arc::new(appender)),
            cursors: Some(cursors),
            marks: Some(marks),
        };
        Self::assemble(parts.name, trunk, steps, owned)
    }

    /// A handle that changes nothing. Its tail cache stays empty: other handles append.
    pub fn read_only(parts: Parts) -> Stream {
        let (trunk, steps) = (trunk(&parts), Sequence::new(parts.common.env.spawner.clone()));
        Self::assemble(parts.name, trunk, steps, Owned::default())
    }

    fn assemble(name: Arc<str>, trunk: Arc<Trunk>, steps: Arc<Sequence>, owned: Owned) -> Stream {
        let reader = Reader {
            trunk,
            ahead: Default::default(),
            closing: Notify::new(),
        };
        Stream(Arc::new(Shared {
            name,
            reader,
            appender: owned.appender,
            cursors: owned.cursors,
            marks: owned.marks,
            steps,
            closed: AtomicBool::new(false),
        }))
    }

    /// Identity of the stream.
    pub fn id(&self) -> StreamId {
        self.0.reader.trunk.commits.stream
    }

    /// The ledger name it was opened under.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The owner epoch of this handle; `None` = opened for reading only.
    pub fn owner_epoch(&self) -> Option<OwnerEpoch> {
        self.0.appender.as_ref().map(|appender| appender.epoch())
    }

    /// Reserves the next offset, in call order, and returns at once. `reply` hears of the outcome exactly once, on any thread,
    /// possibly before this returns; it must only hand over. Replies of one stream come in offset order.
    ///
    /// # Errors
    /// Nothing was reserved and `reply` is never called: `Invalid` (entry too large, read-only handle), `Unavailable` (memory),
    /// `Suspended` (an earlier append failed: see [`Stream::resume`]), `Fenced`, `Terminated`, `Closed`, `Unknown`.
    pub fn append(
        &self,
        entry: Bytes,
        messages: u32,
        reply: impl FnOnce(AppendOutcome) + Send + 'static,
    ) -> Result<Offset> {
        self.appender()?.append(entry, messages, reply)
    }

    /// Takes appends again after a failed one. `Suspended` while attempts are unsettled; nothing to do when not suspended.
    pub fn resume(&self) -> Result<()> {
        self.appender()?.resume()
    }

    /// Everything that needs no I/O: cached entries, end of stream, errors. `None` = use [`Stream::read`]. Never blocks.
    pub fn try_read_cached(&self, request: &ReadRequest) -> Option<Result<ReadBatch>> {
        if let Err(error) = self.open() {
            return Some(Err(error));
        }
        self.0.reader.try_cached(request)
    }

    /// Reads entries from exactly `request.start`; at least one if there is one, however large; empty at the end of the stream.
    ///
    /// # Errors
    /// `OffsetTrimmed`, `Unsupported` (view), `Corrupt` (no byte of a damaged entry is given out), `Unavailable`, `Closed` (also
    /// when the stream closes while the read waits).
    pub async fn read(&self, request: ReadRequest) -> Result<ReadBatch> {
        let mut closing = std::pin::pin!(self.0.reader.closing.notified());
        closing.as_mut().enable();
        self.open()?;
        match select(std::pin::pin!(self.0.reader.read(&request)), closing).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(self.closed_error()),
        }
    }

    /// Resolves once the committed end is beyond `offset`, or the stream is terminated, deleted or closed: look at `state`.
    pub async fn wait_past(&self, offset: Offset) {
        let cell = &self.0.reader.trunk.commits.cell;
        loop {
            let mut changed = std::pin::pin!(cell.changed());
            changed.as_mut().enable();
            let done = cell.with(|head| head.is_none_or(|head| head.end > offset || head.terminated));
            if done || self.0.closed.load(Ordering::Acquire) {
                return;
            }
            changed.await;
        }
    }

    /// Bounds and counts, one consistent snapshot. Of a deleted stream: empty and terminated.
    pub fn state(&self) -> StreamState {
        let suspended = self.0.appender.as_ref().is_some_and(|appender| appender.suspended());
        let cell = &self.0.reader.trunk.commits.cell;
        cell.with(|head| match head {
            Some(head) => StreamState {
                trim: head.trim,
                end: head.end,
                entries: head.end.get().saturating_sub(head.trim.get()),
                bytes: head.total_bytes.saturating_sub(head.trimmed_bytes),
                terminated: head.terminated,
                last_append_millis: head.last_append_millis,
                owner_epoch: head.owner_epoch,
                suspended,
            },
            None => StreamState {
                trim: Offset::ZERO,
                end: Offset::ZERO,
                entries: 0,
                bytes: 0,
                terminated: true,
                last_append_millis: 0,
                owner_epoch: OwnerEpoch::default(),
                suspended,
            },
        })
    }

    /// Every live span of 65,536 offsets, ascending. Costs two look-ups of commit pages per span.
    pub async fn spans(&self) -> Result<Vec<SpanInfo>> {
        self.open()?;
        self.0.reader.trunk.commits.spans().await
    }

    /// Bytes of the live entries in `from..to`: exact where commits start and end, by proportion inside one; sizes of ranges that
    /// touch add up.
    pub async fn size_between(&self, from: Offset, to: Offset) -> Result<u64> {
        self.open()?;
        self.0.reader.trunk.commits.size_between(from, to).await
    }

    /// The first live offset appended at or after `millis` (broker clock); `None` when all are older. Exact also when the clock
    /// went back.
    pub async fn find_time(&self, millis: u64) -> Result<Option<Offset>> {
        self.open()?;
        self.0.reader.trunk.commits.find_time(millis).await
    }

    /// Ends the stream for ever; gives its end. Appends reserved before still commit.
    pub fn terminate(&self) -> BoxFuture<Result<Offset>> {
        self.step(|shared, epoch| shared.terminate(epoch))
    }

    /// Moves the trim offset forward to `before`, or to the end if that comes first; gives the trim offset, which never goes back.
    pub fn trim(&self, before: Offset) -> BoxFuture<Result<Offset>> {
        self.step(move |shared, epoch| shared.trim(epoch, before))
    }

    /// Trims everything committed when the step's turn comes; gives the new trim offset.
    pub fn truncate(&self) -> BoxFuture<Result<Offset>> {
        self.trim(Offset::MAX)
    }

    /// When a part of the stream is closed, so that retention may let it go. Holds from the next commit or [`Stream::retain`] on.
    /// `Invalid` for a read-only handle. A new handle has no limits, and cuts no marks.
    pub fn set_rollover(&self, rollover: Rollover) -> Result<()> {
        self.marks_of_owner()?.set_rollover(rollover);
        Ok(())
    }

    /// Closes what is due by now, then trims the parts that `retention` lets go: a contiguous prefix, from mark to mark. Gives the
    /// trim offset then. Asked again while nothing has changed it costs no look-up.
    pub fn retain(&self, retention: Retention) -> BoxFuture<Result<Offset>> {
        self.step(move |shared, epoch| shared.retain(epoch, retention))
    }

    /// The first trim marks above `offset`, ascending, at most `limit`; as far as they are durable.
    pub async fn marks_above(&self, offset: Offset, limit: usize) -> Result<Vec<TrimMark>> {
        self.open()?;
        self.marks_of_owner()?.above(offset, limit).await
    }

    /// Replaces all properties.
    pub fn set_properties(&self, all: BTreeMap<String, String>) -> BoxFuture<Result<()>> {
        self.step(move |shared, epoch| shared.set_properties(epoch, all))
    }

    /// The properties as stored.
    pub async fn properties(&self) -> Result<BTreeMap<String, String>> {
        self.open()?;
        self.0.properties().await
    }

    /// Persists a change of a cursor; changes of one cursor take effect in call order.
    pub fn persist_cursor(&self, update: CursorUpdate) -> BoxFuture<Result<()>> {
        let carried = update.carries().saturating_add(WAITING_STEP);
        let persist = |waiting| Ok((self.cursors()?.persist(update), waiting));
        match self.enter(carried).and_then(persist) {
            Ok((persist, waiting)) => Box::pin(persist.inspect(|_| drop(waiting))),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// Deletes a cursor, after every change of it that was asked for before. `NotFound` when there is none.
    pub fn delete_cursor(&self, name: &str) -> BoxFuture<Result<()>> {
        let delete = |waiting| Ok((self.cursors()?.delete(name), waiting));
        match self.enter(WAITING_STEP).and_then(delete) {
            Ok((delete, waiting)) => Box::pin(delete.inspect(|_| drop(waiting))),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// The cursors of this stream mean offsets of `source`, as those of a shadow topic do. For this handle; nothing is stored.
    ///
    /// # Errors
    /// `Invalid` when this handle is for reading only, or follows another stream already.
    pub fn follow(&self, source: &Stream) -> Result<()> {
        self.cursors()?.walk_over(&source.0.reader.trunk.commits.cell)
    }

    /// Every durable cursor, by name.
    pub async fn list_cursors(&self) -> Result<Vec<CursorState>> {
        self.open()?;
        crate::cursor::read_all(&*self.0.reader.trunk.commits.store, self.id()).await
    }

    /// Refuses new work and waits for what is under way: every append is answered, every step done. Idempotent.
    pub fn close(&self) -> BoxFuture<Result<()>> {
        self.shut(self.closed_error());
        let shared = self.0.clone();
        Box::pin(async move {
            if let Some(appender) = &shared.appender {
                appender.drained().await;
            }
            if let Some(cursors) = &shared.cursors {
                cursors.idle().await;
            }
            shared.steps.idle().await;
            shared.reader.trunk.recent.clear();
            Ok(())
        })
    }

    /// A newer open takes the stream over: new work is refused as `Fenced`; what is under way ends as it may.
    pub(crate) fn fence(&self, by_epoch: OwnerEpoch) {
        let error = Error::Fenced {
            what: self.0.name.to_string(),
            by_epoch,
        };
        if let Some(appender) = &self.0.appender {
            appender.stop(error.clone());
        }
        if let Some(cursors) = &self.0.cursors {
            cursors.stop(error);
        }
    }

    /// Resolves when no step and no persist of this handle is under way any more.
    pub(crate) async fn steps_done(&self) {
        if let Some(cursors) = &self.0.cursors {
            cursors.idle().await;
        }
        self.0.steps.idle().await;
    }

    /// A handle that does not keep the stream alive.
    pub(crate) fn downgrade(&self) -> WeakStream {
        WeakStream(Arc::downgrade(&self.0))
    }

    /// Refuses new work from now on.
    pub(crate) fn shut(&self, reason: Error) {
        self.0.closed.store(true, Ordering::Release);
        if let Some(appender) = &self.0.appender {
            appender.stop(reason.clone());
        }
        if let Some(cursors) = &self.0.cursors {
            cursors.stop(reason);
        }
        self.0.reader.trunk.commits.cell.wake_all();
        self.0.reader.closing.notify_waiters();
        self.0.reader.ahead.lock().clear();
    }

    fn step<T, F>(&self, step: impl FnOnce(Arc<Shared>, OwnerEpoch) -> F) -> BoxFuture<Result<T>>
    where
        T: Send + 'static,
        F: std::future::Future<Output = Result<T>> + Send + 'static,
    {
        let admitted = self
            .open()
            .and_then(|()| self.appender())
            .and_then(|appender| appender.check_owner().map(|()| appender))
            .and_then(|appender| Ok((appender, self.enter(WAITING_STEP)?)));
        match admitted {
            Ok((appender, waiting)) => {
                let step = step(self.0.clone(), appender.epoch());
                self.0.steps.run(step.inspect(|_| drop(waiting)))
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// A place of `bytes` among the requests that wait. Who gets none has changed nothing.
    fn enter(&self, bytes: u64) -> Result<Permit> {
        self.0.reader.enter(bytes)
    }

    fn open(&self) -> Result<()> {
        match self.0.closed.load(Ordering::Acquire) {
            true => Err(self.closed_error()),
            false => Ok(()),
        }
    }

    fn closed_error(&self) -> Error {
        Error::Closed {
            what: format!("ledger {}", self.0.name),
        }
    }

    fn appender(&self) -> Result<&Arc<Appender>> {
        self.0.appender.as_ref().ok_or_else(|| self.reading_only())
    }

    fn cursors(&self) -> Result<&Arc<Cursors>> {
        self.0.cursors.as_ref().ok_or_else(|| self.reading_only())
    }

    fn marks_of_owner(&self) -> Result<&Arc<Marks>> {
        self.0.marks.as_ref().ok_or_else(|| self.reading_only())
    }

    fn reading_only(&self) -> Error {
        Error::Invalid {
            what: format!("ledger {} was opened for reading only", self.0.name),
        }
    }
}
