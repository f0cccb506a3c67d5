//! What an engine handle points to: threads, queue and, once opened, the engine.
//!
//! Owns: the runtime, the outbox and the streams opened through it. Promises: every operation that was accepted is answered before
//! the close of the engine is; nothing of it runs after [`Host::destroy`], except work that outlasts a bounded wait.
//! Keeps: no thread of the runtime is ever attached to the JVM, so none can keep the JVM alive.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use nereus_core::engine::{Config, Engine, OpenedLedger};
use nereus_core::env::real;
use nereus_core::stream::Stream;
use nereus_core::{Error, Result};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use crate::blobs::BLOBS;
use crate::broker_store::JavaStore;
use crate::completions::Completions;
use crate::handles::Handles;
use crate::log::LOG;
use crate::metadata::Requests;
use crate::operation::{Operation, Outbox};

/// Threads that run the engine's tasks. Journal writes have a thread of their own.
const WORKERS: usize = 2;
/// How long the end of an engine waits for native work that is still running.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(5);
/// How long the close of an engine waits for answers that are on their way.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
/// How long the broker's metadata store may take for one answer.
const METADATA_PATIENCE: Duration = Duration::from_secs(30);

/// The engines of the process.
pub static ENGINES: Handles<Host> = Handles::new();
/// The open streams of the process.
pub static STREAMS: Handles<OpenStream> = Handles::new();

/// One stream with the way its answers take.
pub struct OpenStream {
    /// The engine it was opened through.
    pub host: Arc<Host>,
    /// The way its appends are answered: the host's. Their replies count as holders here, apart from the queue, which the lane and the
    /// poller write all the time.
    pub outbox: Arc<Outbox>,
    /// The stream.
    pub stream: Stream,
}

/// One engine, from creation to destruction.
pub struct Host {
    /// Where answers go.
    pub outbox: Outbox,
    /// Requests to the broker's metadata store.
    pub requests: Arc<Requests>,
    config: Result<Config>,
    tasks: Handle,
    runtime: Mutex<Option<Runtime>>,
    engine: Mutex<Option<Engine>>,
    streams: Mutex<HashSet<i64>>,
    /// Held shared by every operation until it is answered; taken alone by the close.
    gate: Arc<RwLock<()>>,
}

impl Host {
    /// Starts the threads of a new engine. Settings that cannot be used are reported by the open, which has a way to say why.
    pub fn start(config: Result<Config>) -> std::io::Result<Arc<Host>> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let owner = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name(format!("nereus-{owner}"))
            .enable_time()
            .build()?;
        let outbox = Outbox {
            owner,
            completions: Arc::new(Completions::default()),
        };
        LOG.listen(&outbox.completions);
        Ok(Arc::new(Host {
            requests: Arc::new(Requests::new(outbox.clone(), metadata_patience())),
            outbox,
            config,
            tasks: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            engine: Mutex::new(None),
            streams: Mutex::new(HashSet::new()),
            gate: Arc::new(RwLock::new(())),
        }))
    }

    /// Runs an operation as a task; it is answered with what `work` brings.
    pub fn spawn(
        &self,
        op: i64,
        what: &'static str,
        work: impl Future<Output = Result<[i64; 3]>> + Send + 'static,
    ) -> Result<()> {
        let inside = self.enter()?;
        let operation = Operation::new(self.outbox.clone(), op, what);
        self.tasks.spawn(async move {
            let result = work.await;
            operation.answer(result);
            drop(inside); // after the answer: the close waits for this
        });
        Ok(())
    }

    /// Opens the engine.
    pub fn open(self: &Arc<Self>, op: i64) -> Result<()> {
        let host = Arc::clone(self);
        self.spawn(op, "open of the engine", async move {
            let config = host.config.clone()?;
            let env = real::env(host.tasks.clone()).map_err(|e| Error::io("read", "/dev/urandom", e))?;
            let engine = Engine::open(env, config, Arc::new(JavaStore::new(Arc::clone(&host.requests)))).await?;
            *host.engine.lock() = Some(engine);
            Ok([0; 3])
        })
    }

    /// The engine, if it is open.
    pub fn engine(&self) -> Result<Engine> {
        self.engine.lock().clone().ok_or_else(|| Error::Closed {
            what: "the engine".into(),
        })
    }

    /// Streams that Java holds a handle of.
    pub fn open_streams(&self) -> usize {
        self.streams.lock().len()
    }

    /// Gives a stream that was just opened its handle.
    pub fn adopt(self: &Arc<Self>, opened: &OpenedLedger) -> Result<i64> {
        let stream = Arc::new(OpenStream {
            host: Arc::clone(self),
            outbox: Arc::new(self.outbox.clone()),
            stream: opened.stream.clone(),
        });
        let handle = STREAMS.insert(stream).ok_or_else(|| Error::Internal {
            what: "no handle is left for a stream".into(),
        })?;
        self.streams.lock().insert(handle);
        Ok(handle)
    }

    /// Ends a stream's handle; the stream itself is still to be closed.
    pub fn take_stream(handle: i64) -> Result<Arc<OpenStream>> {
        let open = STREAMS.remove(handle).ok_or_else(|| Error::Closed {
            what: "the stream".into(),
        })?;
        open.host.streams.lock().remove(&handle);
        Ok(open)
    }

    /// Closes the engine: ends all handles, closes the streams, waits until everything accepted before is answered.
    pub fn close(self: &Arc<Self>, op: i64) -> Result<()> {
        let operation = Operation::new(self.outbox.clone(), op, "close of the engine");
        let engine = self.engine.lock().take();
        self.end_streams();
        let host = Arc::clone(self);
        self.tasks.spawn(async move {
            let closed = match engine {
                Some(engine) => engine.close().await,
                None => Ok(()),
            };
            // An open that is still under way ends now: nobody answers its requests any more.
            host.requests.close();
            let alone = tokio::time::timeout(CLOSE_PATIENCE, host.gate.write()).await;
            let late = host.engine.lock().take();
            let closed = match (alone, late) {
                (Err(_), _) => Err(Error::Internal {
                    what: format!("operations were still running {CLOSE_PATIENCE:?} after the engine was closed"),
                }),
                (Ok(_), Some(late)) => closed.and(late.close().await),
                (Ok(_), None) => closed,
            };
            operation.answer(closed.map(|()| [0; 3]));
        });
        Ok(())
    }

    /// Ends threads, queue and everything that was not fetched. Idempotent. Blocks for a bounded time.
    pub fn destroy(&self) {
        self.end_streams();
        self.requests.close();
        let runtime = self.runtime.lock().take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
        }
        let engine = self.engine.lock().take();
        drop(engine);
        LOG.ignore(&self.outbox.completions);
        self.outbox.completions.close();
        BLOBS.free_all_of(self.outbox.owner);
    }

    fn enter(&self) -> Result<OwnedRwLockReadGuard<()>> {
        Arc::clone(&self.gate).try_read_owned().map_err(|_| Error::Closed {
            what: "the engine".into(),
        })
    }

    fn end_streams(&self) {
        let handles: Vec<i64> = self.streams.lock().drain().collect();
        for handle in handles {
            STREAMS.remove(handle);
        }
    }
}

/// Tests shorten the time-out; a broker cannot.
fn metadata_patience() -> Duration {
    if !test_hooks() {
        return METADATA_PATIENCE;
    }
    let millis = std::env::var("NEREUS_TEST_METADATA_MILLIS")
        .ok()
        .and_then(|text| text.parse().ok());
    millis.map_or(METADATA_PATIENCE, Duration::from_millis)
}

/// Whether this process runs under test.
pub fn test_hooks() -> bool {
    std::env::var("NEREUS_TEST_HOOKS").is_ok_and(|value| value == "1")
}
