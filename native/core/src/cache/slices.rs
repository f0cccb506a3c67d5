//! Commits read back from the log. Many readers of one slice cause one read; a read that waits for its turn fetches a run of
//! neighbouring slices at once.
//!
//! Promises: whoever leaves, the others get their slice; a flight that fails or dies answers everyone who waits and is kept for
//! nobody (L11); what the cache has is given without a permit.
//! Does not: decide what to read (`stream`).

mod flight;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::flight::Flight;
use super::gate::{Gate, Pass};
use super::lru::Lru;
use super::stats::{Counters, ReadStats};
use super::{Account, Permit};
use crate::commit::{Commit, Log, Slice};
use crate::env::Spawner;
use crate::error::{Error, Result};
use crate::types::{CommitId, StreamId};

/// Reads from the device at the same time. A fast device is busy with fewer, and this many threads of the pool for blocking work
/// leave the rest to heads, cursors and checkpoints; nothing that appends or reads the tail ever takes one of these permits.
pub const COLD_AT_ONCE: usize = 16;
/// Of those, reading ahead leaves so many to readers that wait.
pub const NOT_FOR_AHEAD: usize = 4;
/// Bytes of slices that one read fetches: large enough for the device's full rate, small enough to be answered in a millisecond.
const RUN: u64 = 1 << 20;

/// What an entry costs besides its bytes: its slot in the slice and its row in the stored table.
const ENTRY_OVERHEAD: u64 = 64;

type Key = (StreamId, CommitId);
type Answer = Result<Arc<Cached>>;

/// Slices of all streams of an engine.
pub struct SliceCache {
    state: Mutex<State>,
    cold: Arc<Gate>,
    ahead: Arc<Account>,
    counters: Arc<Counters>,
}

struct State {
    ready: Lru<Key, Arc<Cached>>,
    loading: HashMap<Key, Loading>,
}

struct Loading {
    waiting: Vec<oneshot::Sender<Answer>>,
    /// The read has its permit, so it ends without anybody's help.
    under_way: Arc<AtomicBool>,
}

/// A verified slice. Its bytes are accounted for until the last holder drops it.
pub struct Cached {
    slice: Slice,
    bytes: u64,
    _held: Held,
    /// Read ahead, and not wanted by anybody yet.
    ahead: Mutex<Option<Permit>>,
    counters: Arc<Counters>,
}

/// The account that the bytes of a slice are on.
#[allow(dead_code, reason = "held for its drop")]
enum Held {
    Cache(Permit),
    Read(Arc<Pass>),
}

/// Where slices come from.
pub struct Source<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Its log.
    pub log: &'a Arc<dyn Log>,
    /// For the task that reads.
    pub spawner: &'a dyn Spawner,
}

/// Whether a read may wait for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Every slice is wanted; what is not there waits for its turn.
    Wait,
    /// Slices up to the first one that would have to wait.
    Now,
}

/// One slice that was asked for. Dropped, it is not waited for any more.
pub struct Wanted {
    /// Its commit.
    pub commit: Commit,
    place: Place,
}

enum Place {
    Ready(Arc<Cached>),
    Coming(oneshot::Receiver<Answer>, Arc<AtomicBool>),
}

impl Wanted {
    /// It comes without waiting for anybody's permit.
    pub fn is_under_way(&self) -> bool {
        match &self.place {
            Place::Ready(_) => true,
            Place::Coming(_, under_way) => under_way.load(Ordering::Acquire),
        }
    }

    /// The slice.
    pub async fn get(self) -> Result<Arc<Cached>> {
        match self.place {
            Place::Ready(cached) => Ok(cached),
            Place::Coming(answer, _) => answer.await.unwrap_or_else(|_| Err(gone())),
        }
    }
}

impl Cached {
    /// The slice.
    pub fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn wanted(&self) {
        drop(self.ahead.lock().take());
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        if self.ahead.get_mut().is_some() {
            self.counters.add(&self.counters.ahead_wasted, self.bytes);
        }
    }
}

/// Bytes that the slice of a commit holds in memory.
fn weight(commit: &Commit) -> u64 {
    commit
        .bytes
        .saturating_add(u64::from(commit.count).saturating_mul(ENTRY_OVERHEAD))
}

impl SliceCache {
    /// An empty cache. `cold` holds what is being read.
    pub(super) fn new(account: Arc<Account>, cold: Arc<Account>) -> Self {
        // Slices read ahead may fill half of the cache: the other half is for those that were wanted, and may be again.
        let ahead = Account::new("read ahead", account.limit() / 2);
        SliceCache {
            state: Mutex::new(State {
                ready: Lru::new(account),
                loading: HashMap::new(),
            }),
            cold: Gate::new(cold, COLD_AT_ONCE),
            ahead,
            counters: Arc::default(),
        }
    }

    /// Most bytes of entries that one read fetches; one slice comes in any case, however large.
    pub fn run_bytes(&self) -> u64 {
        // A small account is for several reads too.
        RUN.min(self.cold.limit() / 4)
    }

    /// Most bytes that one reader may read ahead.
    pub fn most_ahead(&self) -> u64 {
        self.ahead.limit() / 2
    }

    /// A read was answered by the tail cache.
    pub fn answered_by_tail(&self) {
        self.counters.add(&self.counters.tail, 1);
    }

    /// What was counted so far.
    pub fn stats(&self) -> ReadStats {
        self.counters.read(self.ahead.used(), self.cold.waiting() as u64)
    }

    /// Asks for the slices of `commits`, neighbours in offset order: from the cache, from reads that are under way, or by a new read
    /// that runs as a task of its own.
    ///
    /// What is given ends with the first read that waits for its turn: whoever waits for that one must not hold what comes behind,
    /// for the memory of it may be what the read waits for.
    pub fn fetch(self: &Arc<Self>, source: &Source<'_>, commits: &[Commit], patience: Patience) -> Vec<Wanted> {
        let mut wanted = Vec::with_capacity(commits.len());
        let mut run = Vec::new();
        let under_way = Arc::new(AtomicBool::new(false));
        let pass = {
            let mut state = self.state.lock();
            let bytes: u64 = state.absent(source.stream, commits).map(weight).sum();
            let pass = (bytes > 0).then(|| self.cold.try_pass(bytes, 0)).flatten();
            under_way.store(pass.is_some(), Ordering::Release);
            // The read that waits, once one is met.
            let mut waits: Option<Arc<AtomicBool>> = None;
            for commit in commits {
                let key = (source.stream, commit.id);
                if let Some(flight) = &waits {
                    let same = match state.loading.get(&key) {
                        Some(loading) => Arc::ptr_eq(&loading.under_way, flight),
                        None => Arc::ptr_eq(&under_way, flight) && !state.ready.has(&key),
                    };
                    if !same {
                        break;
                    }
                }
                let place = if let Some(cached) = state.ready.get(key) {
                    cached.wanted();
                    self.counters.add(&self.counters.hits, 1);
                    Place::Ready(cached)
                } else if let Some(loading) = state.loading.get_mut(&key) {
                    self.counters.add(&self.counters.joined, 1);
                    let (send, receive) = oneshot::channel();
                    // Those who left make room for the next, so a slice has as many as wait for it.
                    loading.waiting.retain(|waiter| !waiter.is_closed());
                    loading.waiting.push(send);
                    Place::Coming(receive, loading.under_way.clone())
                } else if patience == Patience::Wait || pass.is_some() {
                    let (send, receive) = oneshot::channel();
                    let waiting = vec![send];
                    let loading = Loading {
                        waiting,
                        under_way: under_way.clone(),
                    };
                    state.loading.insert(key, loading);
                    run.push((*commit, None));
                    Place::Coming(receive, under_way.clone())
                } else {
                    break;
                };
                if let Place::Coming(_, flight) = &place {
                    if !flight.load(Ordering::Acquire) {
                        waits.get_or_insert_with(|| flight.clone());
                    }
                }
                wanted.push(Wanted { commit: *commit, place });
            }
            pass
        };
        self.start(source, run, under_way, pass);
        wanted
    }

    /// Reads the slices of `commits` into the cache if there is memory and a permit to spare. False when there was not.
    pub fn read_ahead(self: &Arc<Self>, source: &Source<'_>, commits: &[Commit]) -> bool {
        let under_way = Arc::new(AtomicBool::new(true));
        let (run, pass) = {
            let mut state = self.state.lock();
            let absent: Vec<Commit> = state.absent(source.stream, commits).copied().collect();
            if absent.is_empty() {
                return true;
            }
            let room = |commit: &Commit| self.ahead.reserve(weight(commit)).map(|room| (*commit, Some(room)));
            let Some(run) = absent.iter().map(room).collect::<Option<Vec<_>>>() else {
                return false;
            };
            let bytes = absent.iter().map(weight).sum();
            let Some(pass) = self.cold.try_pass(bytes, NOT_FOR_AHEAD) else {
                return false;
            };
            for commit in &absent {
                let loading = Loading {
                    waiting: Vec::new(),
                    under_way: under_way.clone(),
                };
                state.loading.insert((source.stream, commit.id), loading);
            }
            self.counters.add(&self.counters.ahead, bytes);
            (run, pass)
        };
        self.start(source, run, under_way, Some(pass));
        true
    }

    fn start(
        self: &Arc<Self>,
        source: &Source<'_>,
        run: Vec<(Commit, Option<Permit>)>,
        under_way: Arc<AtomicBool>,
        pass: Option<Pass>,
    ) {
        if run.is_empty() {
            return;
        }
        let flight = Flight::new(self.clone(), source.stream, run, under_way);
        let log = source.log.clone();
        source.spawner.spawn("slice read", Box::pin(flight.run(pass, log)));
    }
}

impl State {
    fn absent<'a>(&'a self, stream: StreamId, commits: &'a [Commit]) -> impl Iterator<Item = &'a Commit> {
        commits.iter().filter(move |commit| {
            let key = (stream, commit.id);
            !self.ready.has(&key) && !self.loading.contains_key(&key)
        })
    }
}

fn gone() -> Error {
    Error::Closed {
        what: "the engine that was reading a slice".into(),
    }
}
