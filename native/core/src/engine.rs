//! Opens, wires and closes everything else; the only file that knows every module.
//!
//! Promises: `Engine::open` either holds the data directory alone, with the cluster's consent, or fails naming who or what is in
//! the way; `close` leaves nothing running and nothing unanswered.
//! Keeps: L5 (every writable open claims a new owner epoch; an older handle of the same engine is fenced first), L13 (an ACTIVE
//! binding without a head is corruption), L14 (profile and name are checked before anything is written).
//! Does not: know what a step of a stream is made of (`stream`, `commit`), or in which order a name is created (`binding`).

mod steps;

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, FutureExt, Shared};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use self::steps::{remember_name, Steps};
use crate::binding::bindings::headless;
use crate::binding::{claim, Bindings, Claim, DirectoryLock, OpenBinding};
use crate::cache::{Budget, Caches, Permit, ReadStats};
use crate::commit::{HeadCell, Log};
use crate::cursor::CursorState;
use crate::env::{BoxFuture, Env};
use crate::error::{Error, Result};
use crate::journal::{Journal, Options, State as JournalState, Stats};
use crate::metadata::pulsar::{BrokerStore, PulsarMetadata};
use crate::record::Binding;
use crate::stream::{Common, Parts, SpanInfo, Stream, StreamState, WeakStream};
use crate::types::{Incarnation, OwnerEpoch, Profile, Projection};

/// Everything an engine is opened with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of journal and embedded metadata; one process at a time.
    pub data_directory: PathBuf,
    /// Pulsar's cluster name.
    pub cluster_name: String,
    /// Who opens, for the lock file, owner names and messages.
    pub owner: String,
    /// Native caches and buffers together, bytes.
    pub memory_limit: u64,
    /// The broker's own publish limit, bytes: open groups may always hold this much.
    pub publish_buffer: u64,
    /// Size of a journal segment, bytes.
    pub segment_bytes: u64,
    /// Largest entry, bytes.
    pub max_entry: u32,
    /// The operator accepts a data directory that is older than the cluster's record of it.
    pub accept_older_copy: bool,
}

/// What `open_ledger` is asked for.
#[derive(Debug, Clone, Default)]
pub struct OpenLedger {
    /// Pulsar's ledger name, opaque.
    pub name: String,
    /// Create when there is none; otherwise absence is `NotFound`.
    pub create_if_missing: bool,
    /// Properties of a new ledger.
    pub properties: BTreeMap<String, String>,
    /// Profile of a new ledger; empty = default.
    pub profile: String,
}

/// Everything the facade needs to know of a ledger, as of one moment.
#[derive(Debug, Clone)]
pub struct LedgerDescription {
    /// Positions.
    pub projection: Projection,
    /// The life of the name.
    pub incarnation: Incarnation,
    /// The owner epoch held (writable open) or seen.
    pub owner_epoch: OwnerEpoch,
    /// Broker clock at creation.
    pub created_millis: u64,
    /// Bounds and counts.
    pub state: StreamState,
    /// Ledger properties.
    pub properties: BTreeMap<String, String>,
    /// Live spans, ascending.
    pub spans: Vec<SpanInfo>,
    /// Durable cursors, by name.
    pub cursors: Vec<CursorState>,
}

/// An open ledger.
#[derive(Clone)]
pub struct OpenedLedger {
    /// The handle for appends, reads and cursors.
    pub stream: Stream,
    /// As of the open.
    pub description: Arc<LedgerDescription>,
}

/// An engine at one moment.
#[derive(Debug, Clone)]
pub struct EngineState {
    /// The journal: poison, segments, who keeps the oldest one, checkpoint, counters.
    pub journal: JournalState,
    /// Memory accounts: name, bytes in use, limit.
    pub memory: Vec<(&'static str, u64, u64)>,
    /// What reads cost so far.
    pub reads: ReadStats,
}

/// A storage engine on one data directory. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    common: Arc<Common>,
    /// Unique per run of the engine, so that no two claims look alike.
    owner: Arc<str>,
    /// The log of `common`.
    journal: Arc<Journal>,
    /// Memory of the metadata store, for as long as it may be open.
    #[allow(dead_code, reason = "held for its drop")]
    set_aside: Option<Permit>,
    /// Opens and deletions at work.
    turns: Semaphore,
    bindings: Bindings,
    ledgers: Mutex<Ledgers>,
    lock: Mutex<Option<DirectoryLock>>,
    /// The one close that all calls wait for.
    closing: Mutex<Option<Shared<BoxFuture<Result<()>>>>>,
}

/// The names that this engine has or had something open of.
#[derive(Default)]
struct Ledgers {
    by_name: BTreeMap<Arc<str>, Arc<Ledger>>,
    sweep_at: usize,
    closed: bool,
}

/// One name. Whoever opens or deletes it has its turn; the turn knows the handles that may still live.
struct Ledger {
    /// Shared with the handles.
    name: Arc<str>,
    turn: tokio::sync::Mutex<Vec<WeakStream>>,
}

/// Bytes of an owner name that are kept; records bound it.
const OWNER_BYTES: usize = 512;
/// Opens, descriptions and deletions at work at the same time: enough to keep the broker's metadata store busy. The rest wait for
/// little memory each.
const OPENS_AT_ONCE: usize = 128;
/// What one of those costs while it waits, bytes.
const WAITING_OPEN: u64 = 2 << 10;
/// Names known before the first sweep of those without a live handle.
const FIRST_SWEEP: usize = 1024;

impl Engine {
    /// Opens the engine: locks the directory, checks it against the cluster's record, recovers the journal.
    ///
    /// # Errors
    /// `Invalid` (a setting, another cluster or directory, an older copy), `Unavailable` (the lock's holder is named, or the broker's
    /// metadata store does not answer), `Corrupt` (naming file and position), `Unsupported` (a newer format), `Io`.
    pub async fn open(env: Env, config: Config, broker: Arc<dyn BrokerStore>) -> Result<Engine> {
        Self::open_with(env, config, broker, Journal::open).await
    }

    /// [`Engine::open`] with other settings of the journal than the usual ones, for tests and measurements. `tune` leaves directory
    /// and identity as they are.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub async fn open_tuned(
        env: Env,
        config: Config,
        broker: Arc<dyn BrokerStore>,
        tune: impl FnOnce(&mut Options),
    ) -> Result<Engine> {
        let open = |env, mut options: Options| {
            tune(&mut options);
            Journal::open(env, options)
        };
        Self::open_with(env, config, broker, open).await
    }

    /// [`Engine::open`] in a simulated world: on `backend` in place of RocksDB, with journal settings changed by `tune`.
    #[cfg(any(test, feature = "sim"))]
    pub async fn open_on(
        env: Env,
        config: Config,
        broker: Arc<dyn BrokerStore>,
        backend: Arc<dyn crate::journal::StateBackend>,
        tune: impl FnOnce(&mut Options),
    ) -> Result<Engine> {
        let open = |env, mut options: Options| {
            tune(&mut options);
            Journal::open_on(env, options, backend)
        };
        Self::open_with(env, config, broker, open).await
    }

    async fn open_with(
        env: Env,
        config: Config,
        broker: Arc<dyn BrokerStore>,
        open_journal: impl FnOnce(Env, Options) -> BoxFuture<Result<Arc<Journal>>>,
    ) -> Result<Engine> {
        check(&config)?;
        let budget = Budget::new(config.memory_limit, config.publish_buffer, config.max_entry)?;
        let kept = config
            .owner
            .char_indices()
            .take_while(|(at, c)| at + c.len_utf8() <= OWNER_BYTES)
            .map(|(_, c)| c);
        let owner: Arc<str> = format!("{} (run {:016x})", kept.collect::<String>(), env.random.next_u64()).into();
        let lock = DirectoryLock::take(&*env.disk, &config.data_directory, &config.owner)?;
        let store = Arc::new(PulsarMetadata::new(broker.clone()));
        let request = Claim {
            directory: &config.data_directory,
            cluster: &config.cluster_name,
            holder: &config.owner,
            accept_older_copy: config.accept_older_copy,
        };
        let id = claim(&env, store, &request).await?;
        let max_entry = usize::try_from(config.max_entry).unwrap_or(usize::MAX);
        let options = Options {
            metadata_cache_bytes: usize::try_from(budget.metadata.limit()).unwrap_or(usize::MAX),
            ..Options::new(config.data_directory, id.uuid, config.segment_bytes, max_entry)
        };
        let journal = open_journal(env.clone(), options).await?;
        Ok(Engine(Arc::new(Inner {
            bindings: Bindings::new(broker, env.clock.clone(), env.random.clone(), &owner),
            owner,
            set_aside: budget.metadata.reserve(budget.metadata.limit()),
            turns: Semaphore::new(OPENS_AT_ONCE),
            common: Arc::new(Common {
                log: journal.clone(),
                env: Arc::new(env),
                caches: Caches::new(budget),
                max_entry: config.max_entry,
            }),
            journal,
            ledgers: Mutex::default(),
            lock: Mutex::new(Some(lock)),
            closing: Mutex::new(None),
        })))
    }

    /// Opens a ledger for writing: resumes a half-done creation or deletion, claims the owner epoch, loads cursors. A handle that
    /// this engine opened before under the same name is fenced.
    ///
    /// # Errors
    /// `NotFound` (and not to be created), `Invalid` (name, profile, a stock topic), `Unsupported` (a profile not built yet),
    /// `Corrupt` (an ACTIVE binding without a head, damaged records), `Fenced`, `Unavailable`, `Closed`.
    pub async fn open_ledger(&self, request: OpenLedger) -> Result<OpenedLedger> {
        let profile = profile(&request.profile)?;
        let _waiting = self.enter()?;
        let ledger = self.ledger(&request.name)?;
        let mut handles = ledger.turn.lock().await;
        let _at_work = self.begin().await?;
        // Boxed, so that who waits for the turn takes little memory.
        Box::pin(self.take_over(request, profile, &ledger.name, &mut handles)).await
    }

    async fn take_over(
        &self,
        request: OpenLedger,
        profile: Profile,
        name: &Arc<str>,
        handles: &mut Vec<WeakStream>,
    ) -> Result<OpenedLedger> {
        let steps = Steps::new(
            (*self.0.common.env).clone(),
            self.log(),
            self.0.owner.clone(),
            request.properties,
        );
        let open = OpenBinding {
            name: &request.name,
            create: request.create_if_missing,
            profile,
        };
        let binding = self.0.bindings.open(&open, &steps).await?.binding;
        let cell = self.head(&binding).await?;
        for old in live(handles) {
            let seen = cell.with(|head| head.map_or(OwnerEpoch::default(), |head| head.owner_epoch));
            old.fence(seen.next().unwrap_or(seen));
            // What it asked for before is done first, so that nothing of it comes after the claim.
            old.steps_done().await;
        }
        let (stream, cursors) = Stream::take_over(self.parts(&binding, name, cell), self.0.owner.clone()).await?;
        if let Err(reason) =
            remember_name(&*self.log().store(), &self.0.common.env, binding.stream, &binding.name).await
        {
            // It serves messages only; the next open tries again.
            tracing::debug!(ledger = binding.name, %reason, "the name of a ledger was not recorded beside its stream");
        }
        let description = describe(&binding, &stream, cursors).await?;
        self.keep(handles, &stream);
        Ok(OpenedLedger {
            stream,
            description: Arc::new(description),
        })
    }

    /// Opens for reading only: never claims, never creates.
    ///
    /// # Errors
    /// As [`Engine::open_ledger`].
    pub async fn open_read_only(&self, name: &str) -> Result<OpenedLedger> {
        let _waiting = self.enter()?;
        let ledger = self.ledger(name)?;
        let mut handles = ledger.turn.lock().await;
        let _at_work = self.begin().await?;
        let (stream, description) = Box::pin(self.look(&ledger.name)).await?;
        self.keep(&mut handles, &stream);
        Ok(OpenedLedger {
            stream,
            description: Arc::new(description),
        })
    }

    /// Describes a ledger without opening it. `NotFound` when there is none.
    pub async fn describe_ledger(&self, name: &str) -> Result<LedgerDescription> {
        let _waiting = self.enter()?;
        let _at_work = self.begin().await?;
        Ok(Box::pin(self.look(&name.into())).await?.1)
    }

    /// Deletes a ledger; open handles of it are closed first. `NotFound` when there is none. When it fails half-way, the next
    /// delete or open goes on where it stopped.
    pub async fn delete_ledger(&self, name: &str) -> Result<()> {
        let _waiting = self.enter()?;
        let ledger = self.ledger(name)?;
        let mut handles = ledger.turn.lock().await;
        let _at_work = self.begin().await?;
        Box::pin(self.delete(name, &mut handles)).await
    }

    async fn delete(&self, name: &str, handles: &mut Vec<WeakStream>) -> Result<()> {
        let steps = Steps::new(
            (*self.0.common.env).clone(),
            self.log(),
            self.0.owner.clone(),
            BTreeMap::new(),
        );
        let deleting = match self.0.bindings.begin_delete(name, &steps).await {
            Err(Error::NotFound { .. }) if self.0.bindings.withdraw(name).await? => return Ok(()),
            begun => begun?,
        };
        for open in live(handles) {
            open.close().await?;
        }
        handles.clear();
        self.0.bindings.finish_delete(&deleting, &steps).await
    }

    /// Closes every stream, checkpoints, stops the lane. Idempotent: every call answers the outcome of the first, which goes on
    /// when its caller leaves.
    ///
    /// # Errors
    /// The poison of the journal, or why the last checkpoint failed. The engine is closed and nothing is lost in both cases.
    pub async fn close(&self) -> Result<()> {
        let closing = {
            let mut closing = self.0.closing.lock();
            match &*closing {
                Some(closing) => closing.clone(),
                None => {
                    let engine = self.clone();
                    let work: BoxFuture<Result<()>> = Box::pin(async move { engine.shut().await });
                    let work = work.shared();
                    self.0
                        .common
                        .env
                        .spawner
                        .spawn("engine close", Box::pin(work.clone().map(drop)));
                    closing.insert(work).clone()
                }
            }
        };
        closing.await
    }

    /// Why nothing is acknowledged any more, once that is so. The broker's health check must see it.
    pub fn poisoned(&self) -> Option<Error> {
        self.0.journal.poisoned()
    }

    /// What an operator wants to know: for metrics, not more often than somebody asks.
    ///
    /// # Errors
    /// `Closed` when the engine's runtime has ended.
    pub async fn state(&self) -> Result<EngineState> {
        Ok(EngineState {
            journal: self.0.journal.state().await?,
            memory: self.memory(),
            reads: self.reads(),
        })
    }

    /// The journal below, for checks that a caller of the engine cannot make.
    #[cfg(any(test, feature = "sim"))]
    pub fn journal(&self) -> Arc<Journal> {
        self.0.journal.clone()
    }

    /// What reads of the log cost so far.
    pub fn reads(&self) -> ReadStats {
        self.0.common.caches.slices.stats()
    }

    /// Counters of the journal, as of now.
    pub fn journal_stats(&self) -> Stats {
        self.0.journal.stats()
    }

    /// Memory accounts: name, bytes in use, limit.
    pub fn memory(&self) -> Vec<(&'static str, u64, u64)> {
        self.0
            .common
            .caches
            .budget
            .accounts()
            .iter()
            .map(|a| (a.name(), a.used(), a.limit()))
            .collect()
    }

    async fn shut(&self) -> Result<()> {
        let ledgers: Vec<Arc<Ledger>> = {
            let mut ledgers = self.0.ledgers.lock();
            ledgers.closed = true;
            std::mem::take(&mut ledgers.by_name).into_values().collect()
        };
        let close_one = |ledger: Arc<Ledger>| async move {
            // Whoever has the turn ends first; nobody takes one after this.
            let handles = ledger.turn.lock().await;
            join_all(live(&handles).iter().map(Stream::close)).await
        };
        join_all(ledgers.into_iter().map(close_one)).await;
        let closed = self.0.journal.close().await;
        drop(self.0.lock.lock().take());
        closed
    }

    /// Description and reading handle of an ACTIVE ledger.
    async fn look(&self, name: &Arc<str>) -> Result<(Stream, LedgerDescription)> {
        let mut binding = self.0.bindings.find(name).await?;
        loop {
            let result = self.look_at(&binding, name).await;
            if result.is_ok() {
                return result;
            }
            // Deleted, or even created anew, while we looked: what failed then says nothing about the ledger there now.
            let now = self.0.bindings.find(name).await?;
            if now.incarnation == binding.incarnation {
                return result;
            }
            binding = now;
        }
    }

    async fn look_at(&self, binding: &Binding, name: &Arc<str>) -> Result<(Stream, LedgerDescription)> {
        let cell = self.head(binding).await?;
        let stream = Stream::read_only(self.parts(binding, name, cell));
        let cursors = stream.list_cursors().await?;
        let description = describe(binding, &stream, cursors).await?;
        Ok((stream, description))
    }

    /// The head of an ACTIVE binding. Without one it is corruption, never an empty ledger (L13).
    async fn head(&self, binding: &Binding) -> Result<Arc<HeadCell>> {
        self.0
            .journal
            .load(binding.stream)
            .await?
            .ok_or_else(|| headless(binding))
    }

    fn parts(&self, binding: &Binding, name: &Arc<str>, cell: Arc<HeadCell>) -> Parts {
        Parts {
            name: name.clone(),
            stream: binding.stream,
            cell,
            common: self.0.common.clone(),
        }
    }

    fn log(&self) -> Arc<dyn Log> {
        self.0.common.log.clone()
    }

    fn ledger(&self, name: &str) -> Result<Arc<Ledger>> {
        let mut ledgers = self.0.ledgers.lock();
        if ledgers.closed {
            return Err(closed());
        }
        if ledgers.by_name.len() >= ledgers.sweep_at.max(FIRST_SWEEP) {
            // A name that somebody works on is kept by its turn, one with a live handle by that.
            ledgers.by_name.retain(|_, ledger| {
                Arc::strong_count(ledger) > 1
                    || ledger
                        .turn
                        .try_lock()
                        .is_ok_and(|handles| handles.iter().any(|handle| handle.upgrade().is_some()))
            });
            ledgers.sweep_at = ledgers.by_name.len().saturating_mul(2);
        }
        if let Some(known) = ledgers.by_name.get(name) {
            return Ok(known.clone());
        }
        let ledger = Arc::new(Ledger {
            name: name.into(),
            turn: Default::default(),
        });
        ledgers.by_name.insert(ledger.name.clone(), ledger.clone());
        Ok(ledger)
    }

    fn keep(&self, handles: &mut Vec<WeakStream>, stream: &Stream) {
        handles.retain(|handle| handle.upgrade().is_some());
        // One is the usual number, and there may be very many ledgers.
        handles.reserve_exact(1);
        handles.push(stream.downgrade());
    }

    /// A place among the requests that wait.
    fn enter(&self) -> Result<Permit> {
        let requests = &self.0.common.caches.budget.requests;
        requests.reserve(WAITING_OPEN).ok_or_else(|| Error::Unavailable {
            what: format!(
                "the engine: requests that wait hold {} of {} bytes",
                requests.used(),
                requests.limit()
            ),
            retry: Duration::from_secs(1),
        })
    }

    /// Waits until few enough opens and deletions are at work, and the engine is still open.
    async fn begin(&self) -> Result<SemaphorePermit<'_>> {
        let at_work = self.0.turns.acquire().await.map_err(|_| closed())?;
        self.check_open()?;
        Ok(at_work)
    }

    fn check_open(&self) -> Result<()> {
        match self.0.ledgers.lock().closed {
            true => Err(closed()),
            false => Ok(()),
        }
    }
}

fn live(handles: &[WeakStream]) -> Vec<Stream> {
    handles.iter().filter_map(WeakStream::upgrade).collect()
}

async fn describe(binding: &Binding, stream: &Stream, cursors: Vec<CursorState>) -> Result<LedgerDescription> {
    let spans = stream.spans().await?;
    let properties = stream.properties().await?;
    let state = stream.state();
    Ok(LedgerDescription {
        projection: binding.projection,
        incarnation: binding.incarnation,
        owner_epoch: stream.owner_epoch().unwrap_or(state.owner_epoch),
        created_millis: binding.created_millis,
        state,
        properties,
        spans,
        cursors,
    })
}

fn profile(name: &str) -> Result<Profile> {
    match (name, Profile::from_name(name)) {
        ("", _) | (_, Some(Profile::LocalWalAsyncObject)) => Ok(Profile::LocalWalAsyncObject),
        (_, Some(other)) => Err(Error::Unsupported {
            feature: format!("profile {other}; use {}", Profile::LocalWalAsyncObject),
        }),
        (unknown, None) => {
            let known: Vec<&str> = Profile::ALL.iter().map(|(_, name, _)| *name).collect();
            Err(Error::Invalid {
                what: format!("profile {unknown} is none of {}", known.join(", ")),
            })
        }
    }
}

fn check(config: &Config) -> Result<()> {
    let invalid = |what: &str| Err(Error::Invalid { what: what.to_owned() });
    if config.data_directory.as_os_str().is_empty() {
        return invalid("no data directory is named");
    }
    if config.cluster_name.is_empty() {
        return invalid("no cluster is named");
    }
    if config.max_entry == 0 {
        return invalid("the largest entry must be at least 1 byte");
    }
    Ok(())
}

fn closed() -> Error {
    Error::Closed {
        what: "the engine".into(),
    }
}
