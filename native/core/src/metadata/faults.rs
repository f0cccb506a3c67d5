//! Faults of a metadata store as data: what goes wrong with which write. Used by the suites; a store without a plan behaves.

use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Capabilities, MetadataStore, Verdict, Versioned, Write};
use crate::env::BoxFuture;
use crate::error::{Error, Result};
use crate::record::Key;

/// What happens to one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is applied, and the caller hears so.
    Refuse,
    /// Applied, but the answer is lost: `Unknown`.
    LoseAnswer,
    /// `Unknown` now; applied, with its condition, at [`Faults::arrive`].
    Late,
    /// Neither applied nor answered.
    Never,
}

/// The plan of one store. Clones share it. Writes are counted from 1, over all callers.
#[derive(Clone, Default)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

#[derive(Default)]
struct Plan {
    writes: u64,
    faults: BTreeMap<u64, Fault>,
    halt_after: Option<u64>,
    reads_fail: bool,
    late: Vec<BoxFuture<()>>,
}

impl Faults {
    /// Plans a fault for the next write.
    pub fn next(&self, fault: Fault) {
        self.nth(1, fault);
    }

    /// Plans a fault for the `nth` write from now; 1 = the next one.
    pub fn nth(&self, nth: u64, fault: Fault) {
        let mut plan = self.plan.lock();
        let number = plan.writes.saturating_add(nth);
        plan.faults.insert(number, fault);
    }

    /// Forgets every fault that is still planned. Late writes stay held.
    pub fn clear(&self) {
        self.plan.lock().faults.clear();
    }

    /// Lets `writes` more writes pass; everything after them stops for ever, as if the caller had died. `None` lets all pass.
    pub fn halt_after(&self, writes: Option<u64>) {
        let mut plan = self.plan.lock();
        plan.halt_after = writes.map(|writes| plan.writes.saturating_add(writes));
    }

    /// Whether a write was stopped by [`Faults::halt_after`].
    pub fn halted(&self) -> bool {
        let plan = self.plan.lock();
        plan.halt_after.is_some_and(|last| plan.writes > last)
    }

    /// Whether reads fail as `Unavailable` from now on.
    pub fn fail_reads(&self, fail: bool) {
        self.plan.lock().reads_fail = fail;
    }

    /// How many writes were asked for so far.
    pub fn writes(&self) -> u64 {
        self.plan.lock().writes
    }

    /// Applies the late writes, oldest first, each with its own condition.
    pub async fn arrive(&self) {
        let late = std::mem::take(&mut self.plan.lock().late);
        for write in late {
            write.await;
        }
    }

    /// Counts a write and says what happens to it.
    pub(crate) fn on_write(&self) -> Option<Fault> {
        let mut plan = self.plan.lock();
        plan.writes = plan.writes.saturating_add(1);
        if plan.halt_after.is_some_and(|last| plan.writes > last) {
            return Some(Fault::Never);
        }
        let number = plan.writes;
        plan.faults.remove(&number)
    }

    /// Fails when reads are to fail.
    pub(super) fn on_read(&self, what: &dyn std::fmt::Display) -> Result<()> {
        if self.plan.lock().reads_fail {
            let retry = std::time::Duration::from_millis(1);
            return Err(Error::Unavailable {
                what: format!("{what} cannot be read"),
                retry,
            });
        }
        Ok(())
    }

    pub(super) fn hold(&self, write: BoxFuture<()>) {
        self.plan.lock().late.push(write);
    }
}

pub(super) fn lost(what: &dyn std::fmt::Display) -> Verdict {
    Verdict::Unknown(Error::Unknown {
        what: format!("the answer to the write of {what} was lost"),
    })
}

pub(super) fn refused(what: &dyn std::fmt::Display) -> Verdict {
    let retry = std::time::Duration::from_millis(1);
    Verdict::Refused(Error::Unavailable {
        what: format!("the store does not take the write of {what}"),
        retry,
    })
}

/// Any provider with faults: each write of a batch has its own.
pub struct Faulty<S> {
    store: Arc<S>,
    faults: Faults,
}

impl<S> Faulty<S> {
    /// `store` with the faults of a plan.
    pub fn new(store: S, faults: Faults) -> Self {
        Faulty {
            store: Arc::new(store),
            faults,
        }
    }
}

impl<S: MetadataStore> MetadataStore for Faulty<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        match self.faults.on_read(&key) {
            Ok(()) => self.store.get(key),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        let (store, faults) = (self.store.clone(), self.faults.clone());
        let plan: Vec<_> = batch.iter().map(|_| faults.on_write()).collect();
        if plan.iter().all(Option::is_none) {
            return store.write(batch);
        }
        Box::pin(async move {
            let mut verdicts = Vec::with_capacity(batch.len());
            for (write, fault) in batch.into_iter().zip(plan) {
                let key = write.key.clone();
                verdicts.push(match fault {
                    None => store.write(vec![write]).await.pop().unwrap_or_else(|| lost(&key)),
                    Some(Fault::Refuse) => refused(&key),
                    Some(Fault::LoseAnswer) => {
                        drop(store.write(vec![write]).await);
                        lost(&key)
                    }
                    Some(Fault::Late) => {
                        let store = store.clone();
                        faults.hold(Box::pin(async move { drop(store.write(vec![write]).await) }));
                        lost(&key)
                    }
                    Some(Fault::Never) => pending().await,
                });
            }
            verdicts
        })
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        match self.faults.on_read(&from) {
            Ok(()) => self.store.scan(from, to, limit),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        match self.faults.on_read(&from) {
            Ok(()) => self.store.last(from, to),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}
