//! The embedded journal: the only log of a broker with a data directory.
//!
//! Owns: the segment files, their one writer, the published state and its backend. Appends, head changes and key writes of all
//! streams are deltas of the same frames, in one order, one sync per group.
//! Promises: what [`Log`] and [`MetadataStore`] promise; recovery gives exactly the synced frames, or says what is damaged.
//! Keeps: L1, L2, L3 (a slice's descriptor is its commit intent), L4, L5, L6, L12, L16.
//! Does not: know streams, cursors or what a key means; lock the data directory (`binding`).
//!
//! Start at [`Journal`]; `lane` is the writer, `group` takes the verdicts, `frame` is the format, `recovery` the way back.

mod answer;
mod apply;
mod backend;
mod by_stream;
mod checkpoint;
mod delta;
pub mod frame;
#[cfg(any(test, feature = "sim"))]
pub mod fuzzing;
mod group;
mod inspect;
mod lane;
mod layout;
mod lookup;
mod open;
mod options;
mod pool;
mod queue;
mod read;
mod reclaim;
mod recovery;
mod removal;
mod rocks;
mod roll;
mod scan;
pub mod segment;
mod space;
mod state;
mod stats;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::ready;

pub use apply::commit_of;
#[cfg(any(test, feature = "sim"))]
pub use backend::ModelBackend;
pub use backend::{BackendBatch, StateBackend};
pub use delta::decode as decode_change;
#[cfg(any(test, feature = "sim"))]
pub use delta::encode as encode_change;
pub use group::MAX_VALUE;
pub use inspect::Checkpoint;
pub use layout::{Damage, Position};
pub use options::Options;
pub use reclaim::{Holder, Oldest};
pub use rocks::{Presence, Rocks};
pub use scan::{Behind, Found, Scan};
pub use stats::{State, Stats};

use crate::commit::{Append, AppendOutcome, Commit, HeadCell, HeadChange, Log, Slice};
use crate::env::{BoxFuture, Env};
use crate::error::{Error, Result};
use crate::metadata::embedded::Embedded;
use crate::metadata::MetadataStore;
use crate::types::{Offset, StreamId};

use self::group::Work;
use self::queue::{answered, Item};
use self::reclaim::Reclaim;
use self::removal::Removal;
use self::segment::Segments;

/// An open journal. Dropping it stops the writer as a crash would; [`Journal::close`] ends it in order.
pub struct Journal {
    env: Env,
    shared: Arc<lane::Shared>,
    segments: Arc<Segments>,
    reclaim: Arc<Reclaim>,
    removal: Arc<Removal>,
    store: Arc<Embedded>,
    max_entry: usize,
}

impl Journal {
    /// Opens the journal in `options.directory`: recovers what is there, or begins an empty one. The data directory is locked by
    /// the caller.
    ///
    /// # Errors
    /// `Corrupt` naming file or directory when something is missing or damaged beyond single streams, `Unsupported` for newer
    /// formats, `Invalid` for settings, `Io`. Nothing acknowledged has been touched then.
    pub fn open(env: Env, options: Options) -> BoxFuture<Result<Arc<Journal>>> {
        Self::open_with(env, options, open::Backend::Rocks)
    }

    /// [`Journal::open`] on another backend, for tests and simulation.
    #[cfg(any(test, feature = "sim"))]
    pub fn open_on(env: Env, options: Options, backend: Arc<dyn StateBackend>) -> BoxFuture<Result<Arc<Journal>>> {
        Self::open_with(env, options, open::Backend::Given(backend))
    }

    fn open_with(env: Env, options: Options, backend: open::Backend) -> BoxFuture<Result<Arc<Journal>>> {
        let spawner = env.spawner.clone();
        let opening = blocking(&env.clone(), move || open::open(env, options, backend));
        Box::pin(async move {
            let (journal, lane) = opening.await?;
            spawner.spawn_dedicated("nereus-journal", Box::pin(lane.run()));
            Ok(Arc::new(journal))
        })
    }

    /// Everything queued before is written, the last frame is proven, a checkpoint made, the writer stopped. When it answers, the
    /// directory is free as soon as the caller's own handles are dropped. A second call answers `Closed`.
    ///
    /// # Errors
    /// The poison, if there is one, or why the checkpoint failed; the journal is closed and nothing is lost in both cases.
    pub fn close(&self) -> BoxFuture<Result<()>> {
        self.removal.stop();
        self.ask(Item::Close, "close of the journal")
    }

    /// Makes everything published so far durable in the backend, so that a recovery starts there.
    pub fn checkpoint(&self) -> BoxFuture<Result<()>> {
        self.ask(Item::Checkpoint, "checkpoint")
    }

    fn ask(&self, item: impl FnOnce(oneshot::Sender<Result<()>>) -> Item, what: &'static str) -> BoxFuture<Result<()>> {
        let (send, receive) = oneshot::channel();
        self.shared.queue.push(item(send));
        Box::pin(answered(receive, what))
    }

    /// Why nothing is acknowledged any more, once that is so. The broker's health check must see it.
    pub fn poisoned(&self) -> Option<Error> {
        self.shared.poison.get().cloned()
    }

    /// Counters as of now.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read()
    }

    /// What an operator wants to know. Looks at the directory: not more often than somebody asks. What cannot be looked at, because
    /// the disk fails, is as it was seen last: the poison is told in any case.
    ///
    /// # Errors
    /// `Closed` when the pool for blocking work has ended.
    pub fn state(&self) -> BoxFuture<Result<State>> {
        let (segments, reclaim) = (self.segments.clone(), self.reclaim.clone());
        let (shared, clock) = (self.shared.clone(), self.env.clock.clone());
        blocking(&self.env, move || {
            let (count, bytes) = segments.size();
            let (free_segments, free_bytes) = segments.free_files();
            let oldest = reclaim.oldest();
            let stats = shared.counters.read();
            let now = u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX);
            Ok(State {
                poison: shared.poison.get().cloned(),
                segments: count,
                bytes,
                free_segments,
                free_bytes,
                oldest,
                checkpoint_age_millis: now.saturating_sub(stats.checkpoint_millis),
                stats,
            })
        })
    }

    /// Streams whose head is in memory: held by somebody, or newer than the last checkpoint.
    pub fn heads_in_memory(&self) -> usize {
        self.shared.state.heads_in_memory()
    }

    /// Damage that recovery found, with the stream concerned: `None` = everything, `Some(None)` = keys without a stream.
    pub fn damages(&self) -> Vec<(Option<Option<StreamId>>, Damage)> {
        self.shared.state.damages()
    }
}

impl Log for Journal {
    fn load(&self, stream: StreamId) -> BoxFuture<Result<Option<Arc<HeadCell>>>> {
        if let Some(known) = self.shared.state.head_in_memory(stream) {
            return Box::pin(ready(known));
        }
        let state = self.shared.state.clone();
        blocking(&self.env, move || state.head(stream))
    }

    fn bound(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        let end = |cell: Option<Arc<HeadCell>>| cell.and_then(|cell| cell.with(|head| head.map(|head| head.end)));
        if let Some(Ok(cell)) = self.shared.state.head_in_memory(stream) {
            return Box::pin(ready(Ok(end(cell))));
        }
        let (state, segments) = (self.shared.state.clone(), self.segments.clone());
        blocking(&self.env, move || match state.head(stream) {
            Ok(cell) => Ok(end(cell)),
            Err(_) if state.is_damaged(stream) => {
                let seen = end(state.cell(stream)?);
                // What the damage hides lies in segments that are still there, and each entry takes a byte at least.
                let (_, hidden) = segments.size();
                Ok(Some(
                    seen.unwrap_or(Offset::ZERO).checked_add(hidden).unwrap_or(Offset::MAX),
                ))
            }
            Err(error) => Err(error),
        })
    }

    fn append(&self, append: Append) {
        if append.entry.len() > self.max_entry {
            let what = format!(
                "an entry of {} bytes, at most {} are allowed",
                append.entry.len(),
                self.max_entry
            );
            return append
                .reply
                .answer(AppendOutcome::NotCommitted(Error::Invalid { what }));
        }
        self.shared.queue.push(Item::Work(Work::Append(append)));
    }

    fn change(&self, stream: StreamId, change: HeadChange) -> BoxFuture<Result<Arc<HeadCell>>> {
        let (reply, receive) = oneshot::channel();
        self.shared
            .queue
            .push(Item::Work(Work::Change { stream, change, reply }));
        Box::pin(async move { answered(receive, &format!("change of stream {stream}")).await })
    }

    fn read(&self, stream: StreamId, commit: Commit) -> BoxFuture<Result<Slice>> {
        let (segments, state) = (self.segments.clone(), self.shared.state.clone());
        // Before the read waits for its turn: what the caller saw in the head stays where it is until then.
        let pin = read::segment_of(&commit).and_then(|segment| segments.pin(segment));
        blocking(&self.env, move || {
            read::slice(&segments, &state, stream, &commit, pin.as_ref())
        })
    }

    fn read_run(&self, stream: StreamId, commits: Vec<Commit>) -> BoxFuture<Vec<Result<Slice>>> {
        let (segments, state) = (self.segments.clone(), self.shared.state.clone());
        let count = commits.len();
        // As for one read: pinned before it waits for its turn.
        let pin = |commit| read::segment_of(&commit).and_then(|segment| segments.pin(segment));
        let pinned: Vec<_> = commits.into_iter().map(|commit| (commit, pin(commit))).collect();
        // One thread reads the run in order: the device sees a sequential reader.
        let all = blocking(&self.env, move || {
            let read = |(commit, pin): &(Commit, Option<segment::Pin>)| {
                read::slice(&segments, &state, stream, commit, pin.as_ref())
            };
            Ok(pinned.iter().map(read).collect())
        });
        Box::pin(async move { all.await.unwrap_or_else(|error| vec![Err(error); count]) })
    }

    fn store(&self) -> Arc<dyn MetadataStore> {
        self.store.clone()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.removal.stop();
        self.shared.queue.close(&lane::closed());
    }
}

/// What the metadata provider on the journal shares with it.
pub(crate) mod internal {
    pub(crate) use super::group::Work;
    pub(crate) use super::lane::Shared;
    pub(crate) use super::queue::Item;
}

/// Runs `work` on the pool for blocking work. A dropped future abandons the answer only.
pub(crate) fn blocking<T: Send + 'static>(
    env: &Env,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> BoxFuture<Result<T>> {
    let (send, receive) = oneshot::channel();
    // A receiver that is gone does not want the answer.
    env.spawner.run_blocking(Box::new(move || drop(send.send(work()))));
    Box::pin(async move {
        receive.await.unwrap_or_else(|_| {
            Err(Error::Closed {
                what: "the pool for blocking work".into(),
            })
        })
    })
}
