//! A world for the tests of bindings: a broker's store in memory, and streams whose steps can be stopped anywhere.

use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::bindings::{Bindings, StreamSteps};
use super::registry::Registry;
use super::truth::Truth;
use crate::env::{BoxFuture, Clock, Random};
use crate::error::{Error, Result};
use crate::metadata::broker_memory::MemoryBroker;
use crate::metadata::faults::{Fault, Faults};
use crate::metadata::pulsar::PulsarMetadata;
use crate::record::Binding;
use crate::types::{Offset, StreamId};

/// A clock that moves by one with every look and never waits.
#[derive(Default)]
pub(super) struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn wall_millis(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.wall_millis())
    }

    fn sleep(&self, _pause: Duration) -> BoxFuture<()> {
        Box::pin(ready(()))
    }
}

/// Identities by counting.
#[derive(Default)]
pub(super) struct Counted(AtomicU64);

impl Random for Counted {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// What outlives an engine: the broker's store and the streams on disk.
#[derive(Clone, Default)]
pub(super) struct World {
    pub broker: MemoryBroker,
    pub streams: Streams,
    clock: Arc<Ticks>,
    random: Arc<Counted>,
}

impl World {
    pub fn new() -> Self {
        let mut world = World::default();
        // One count of steps over both, so that a crash can be put between any two.
        world.streams.faults = world.broker.faults();
        world
    }

    pub fn truth(&self) -> Truth {
        let store = Arc::new(PulsarMetadata::new(Arc::new(self.broker.clone())));
        Truth {
            store,
            clock: self.clock.clone(),
            random: self.random.clone(),
        }
    }

    pub fn registry(&self) -> Registry {
        Registry::new(Arc::new(self.broker.clone()), self.clock.clone())
    }

    /// What an engine makes at its start.
    pub fn bindings(&self) -> Bindings {
        Bindings::new(
            Arc::new(self.broker.clone()),
            self.clock.clone(),
            self.random.clone(),
            "broker-1",
        )
    }
}

/// Streams as the steps see them: the committed end of each head.
#[derive(Clone, Default)]
pub(super) struct Streams {
    heads: Arc<Mutex<BTreeMap<StreamId, Offset>>>,
    faults: Faults,
}

impl Streams {
    /// Commits up to `end`; panics when there is no head, as an append to an incomplete topic would be a defect.
    pub fn append_to(&self, stream: StreamId, end: u64) {
        let mut heads = self.heads.lock();
        let head = heads.get_mut(&stream).expect("appends come after the creation");
        *head = Offset::new(end);
    }

    pub fn end_of(&self, stream: StreamId) -> Option<u64> {
        self.heads.lock().get(&stream).map(|end| end.get())
    }

    pub fn lose(&self, stream: StreamId) {
        self.heads.lock().remove(&stream);
    }

    pub fn count(&self) -> usize {
        self.heads.lock().len()
    }

    fn step<T: Send + 'static>(&self, step: impl FnOnce(&mut BTreeMap<StreamId, Offset>) -> T) -> BoxFuture<Result<T>> {
        match self.faults.on_write() {
            Some(Fault::Never) => Box::pin(pending()),
            Some(fault) => {
                let what = format!("a stream's step with fault {fault:?}");
                Box::pin(ready(Err(Error::Unavailable {
                    what,
                    retry: Duration::ZERO,
                })))
            }
            None => Box::pin(ready(Ok(step(&mut self.heads.lock())))),
        }
    }
}

impl StreamSteps for Streams {
    fn create(&self, binding: Binding) -> BoxFuture<Result<()>> {
        self.step(move |heads| {
            heads.entry(binding.stream).or_insert(Offset::ZERO);
        })
    }

    fn end(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        Box::pin(ready(Ok(self.heads.lock().get(&stream).copied())))
    }

    fn seal(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        self.step(move |heads| heads.get(&stream).copied())
    }

    fn remove(&self, stream: StreamId) -> BoxFuture<Result<()>> {
        self.step(move |heads| {
            heads.remove(&stream);
        })
    }
}
