//! A broker's metadata store in memory, for everything that runs without a broker.
//!
//! Behaves as brokers do: versions start at 0 and start again after a delete, parents are made by themselves and stay, a conflict
//! does not say what is there. Faults come from a plan ([`Faults`]).

use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::faults::{lost, refused, Fault, Faults};
use super::pulsar::BrokerStore;
use super::{Expected, Verdict, Version, Versioned};
use crate::env::BoxFuture;
use crate::error::Result;

/// A broker's store. Cheap to clone; clones share content and faults.
#[derive(Clone, Default)]
pub struct MemoryBroker {
    paths: Arc<Mutex<BTreeMap<String, Versioned>>>,
    faults: Faults,
}

impl MemoryBroker {
    /// An empty store that behaves.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its plan of faults.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// The value of a path, whatever the plan says.
    pub fn peek(&self, path: &str) -> Option<Bytes> {
        self.paths.lock().get(path).map(|there| there.value.clone())
    }

    fn write(&self, path: &str, value: Option<Bytes>, expected: Expected) -> BoxFuture<Verdict> {
        let paths = self.paths.clone();
        let owned = path.to_owned();
        match self.faults.on_write() {
            None => Box::pin(ready(apply(&mut paths.lock(), owned, value, expected))),
            Some(Fault::Refuse) => Box::pin(ready(refused(&path))),
            Some(Fault::LoseAnswer) => {
                drop(apply(&mut paths.lock(), owned, value, expected));
                Box::pin(ready(lost(&path)))
            }
            Some(Fault::Late) => {
                let late = async move { drop(apply(&mut paths.lock(), owned, value, expected)) };
                self.faults.hold(Box::pin(late));
                Box::pin(ready(lost(&path)))
            }
            Some(Fault::Never) => Box::pin(pending()),
        }
    }
}

fn apply(paths: &mut BTreeMap<String, Versioned>, path: String, value: Option<Bytes>, expected: Expected) -> Verdict {
    let there = paths.get(&path).map(|there| there.version);
    let as_expected = match expected {
        Expected::Absent => there.is_none(),
        Expected::Version(version) => there == Some(version),
        Expected::Any => true,
    };
    match (value, there) {
        _ if !as_expected => Verdict::Conflict(None),
        (None, None) => Verdict::Conflict(None),
        (None, Some(version)) => {
            paths.remove(&path);
            Verdict::Applied(version)
        }
        (Some(value), there) => {
            let version = there.map_or(Version(0), |there| Version(there.0.saturating_add(1)));
            paths.insert(path, Versioned { value, version });
            Verdict::Applied(version)
        }
    }
}

impl BrokerStore for MemoryBroker {
    fn get(&self, path: &str) -> BoxFuture<Result<Option<Versioned>>> {
        let found = self
            .faults
            .on_read(&path)
            .map(|()| self.paths.lock().get(path).cloned());
        Box::pin(ready(found))
    }

    fn put(&self, path: &str, value: Bytes, expected: Expected) -> BoxFuture<Verdict> {
        self.write(path, Some(value), expected)
    }

    fn delete(&self, path: &str, expected: Expected) -> BoxFuture<Verdict> {
        self.write(path, None, expected)
    }

    fn children(&self, path: &str) -> BoxFuture<Result<Vec<String>>> {
        let found = self.faults.on_read(&path).map(|()| {
            let below = format!("{path}/");
            let paths = self.paths.lock();
            let names = paths
                .keys()
                .filter_map(|path| path.strip_prefix(&below)?.split('/').next().map(str::to_owned));
            let mut names: Vec<_> = names.collect();
            names.dedup();
            names
        });
        Box::pin(ready(found))
    }
}
