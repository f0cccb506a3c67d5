//! One simulated machine with a broker's metadata store beside it: what engines of the engine world run on.
//!
//! Owns: executor, disk, metadata backend, the broker's store with its faults and delays.
//! Promises: work stops at the very moment the power is gone; nothing of a dead process goes on.

use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use nereus_core::env::sim::{self, Executor, Halt, Operation, SimDisk, SimRandom};
use nereus_core::env::{BoxFuture, Clock, Env};
use nereus_core::error::Result;
use nereus_core::journal::{BackendBatch, ModelBackend, StateBackend};
use nereus_core::metadata::broker_memory::MemoryBroker;
use nereus_core::metadata::pulsar::BrokerStore;
use nereus_core::metadata::{Expected, Verdict, Versioned};
use nereus_core::Error;
use parking_lot::Mutex;

/// The data directory.
pub const DIRECTORY: &str = "/data";
/// Where the metadata backend stands for the disk's faults.
const BACKEND: &str = "/data/metadata/model";
/// Longest that one piece of waiting may take, in virtual time.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The machine.
pub struct Machine {
    /// Runs everything.
    pub executor: Executor,
    /// Its disk.
    pub disk: SimDisk,
    /// Its metadata backend.
    pub backend: ModelBackend,
    /// The broker's metadata store; outlives the machine's processes.
    pub broker: MemoryBroker,
    /// Delays of the broker's answers, microseconds at most.
    pub broker_delay: u64,
    seed: u64,
}

impl Machine {
    /// A new machine with a disk of `capacity` bytes.
    pub fn new(seed: u64, capacity: u64) -> Machine {
        Machine {
            executor: Executor::new(seed),
            disk: SimDisk::new(capacity),
            backend: ModelBackend::default(),
            broker: MemoryBroker::new(),
            broker_delay: 0,
            seed,
        }
    }

    /// The world of a process that starts now.
    pub fn env(&mut self) -> Env {
        self.seed = self.seed.wrapping_add(0x1234_5678_9abc_def1);
        sim::env(&self.executor, Arc::new(self.disk.clone()), self.seed)
    }

    /// The metadata backend of a process that starts now.
    pub fn backend(&self) -> Arc<dyn StateBackend> {
        Arc::new(DiskBackend {
            disk: self.disk.clone(),
            backend: self.backend.clone(),
        })
    }

    /// The broker's store of a process that starts now.
    pub fn store(&self) -> Arc<dyn BrokerStore> {
        Arc::new(SlowBroker {
            broker: self.broker.clone(),
            clock: self.executor.clock(),
            random: SimRandom::new(self.seed ^ 0xb40c),
            most: self.broker_delay,
        })
    }

    /// Runs until `future` is done.
    ///
    /// # Errors
    /// `Stopped` when the power went off; otherwise it hangs.
    pub fn drive<T>(&mut self, future: impl Future<Output = T>) -> std::result::Result<T, Halt> {
        let disk = self.disk.clone();
        self.executor.run_unless(future, || disk.has_crashed(), PATIENCE)
    }

    /// The power goes: what was not synced is lost by chance.
    pub fn lose_power(&mut self, random: &SimRandom) {
        self.executor.kill();
        let survivors = usize::try_from(random.below(self.backend.unflushed() as u64 + 1)).unwrap_or(0);
        self.disk = self.disk.after_crash(random);
        self.backend = self.backend.after_crash(survivors);
    }

    /// The process ends: what was written is there.
    pub fn end_process(&mut self) {
        self.executor.kill();
        self.disk = self.disk.after_kill();
        // Batches that were not flushed lie in the memory of the process.
        self.backend = self.backend.after_crash(0);
    }
}

/// Answers that have come in, in order.
pub struct Inbox<T>(Arc<Mutex<Slots<T>>>);

struct Slots<T> {
    answers: VecDeque<(u64, T)>,
    waker: Option<Waker>,
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Inbox(self.0.clone())
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox(Arc::new(Mutex::new(Slots {
            answers: VecDeque::new(),
            waker: None,
        })))
    }
}

impl<T> Inbox<T> {
    /// Puts the answer to request `op` in.
    pub fn push(&self, op: u64, answer: T) {
        let waker = {
            let mut slots = self.0.lock();
            slots.answers.push_back((op, answer));
            slots.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the oldest one.
    pub fn pop(&self) -> Option<(u64, T)> {
        self.0.lock().answers.pop_front()
    }

    /// Resolves when there is one.
    pub fn filled(&self) -> impl Future<Output = ()> {
        let slots = self.0.clone();
        std::future::poll_fn(move |context| {
            let mut slots = slots.lock();
            if !slots.answers.is_empty() {
                return Poll::Ready(());
            }
            slots.waker = Some(context.waker().clone());
            Poll::Pending
        })
    }
}

/// The model backend on the machine's disk: it stops when the power does, and has the disk's faults.
struct DiskBackend {
    disk: SimDisk,
    backend: ModelBackend,
}

impl DiskBackend {
    fn mutate(&self, op: &'static str, operation: Operation) -> Result<()> {
        self.disk
            .mutate(operation, Path::new(BACKEND))
            .map_err(|reason| Error::io(op, BACKEND, reason))
    }

    fn look(&self) -> Result<()> {
        match self.disk.has_crashed() {
            true => Err(Error::io("read", BACKEND, std::io::Error::other("the power is gone"))),
            false => Ok(()),
        }
    }
}

impl StateBackend for DiskBackend {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.look()?;
        self.backend.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.look()?;
        self.backend.scan(from, to, limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.look()?;
        self.backend.scan_back(from, to, limit)
    }

    fn write(&self, batch: BackendBatch) -> Result<()> {
        self.mutate("write", Operation::Write)?;
        self.backend.write(batch)
    }

    fn flush(&self) -> Result<()> {
        self.mutate("flush", Operation::Sync)?;
        self.backend.flush()
    }
}

/// The broker's store with answers that take a while. Requests are sent at once, in call order.
struct SlowBroker {
    broker: MemoryBroker,
    clock: Arc<dyn Clock>,
    random: SimRandom,
    most: u64,
}

impl SlowBroker {
    fn later<T: Send + 'static>(&self, answer: BoxFuture<T>) -> BoxFuture<T> {
        if self.most == 0 {
            return answer;
        }
        let pause = self.clock.sleep(Duration::from_micros(self.random.below(self.most)));
        Box::pin(async move {
            pause.await;
            answer.await
        })
    }
}

impl BrokerStore for SlowBroker {
    fn get(&self, path: &str) -> BoxFuture<Result<Option<Versioned>>> {
        self.later(self.broker.get(path))
    }

    fn put(&self, path: &str, value: Bytes, expected: Expected) -> BoxFuture<Verdict> {
        self.later(self.broker.put(path, value, expected))
    }

    fn delete(&self, path: &str, expected: Expected) -> BoxFuture<Verdict> {
        self.later(self.broker.delete(path, expected))
    }

    fn children(&self, path: &str) -> BoxFuture<Result<Vec<String>>> {
        self.later(self.broker.children(path))
    }
}
