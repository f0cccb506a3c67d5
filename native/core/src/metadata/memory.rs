//! The memory provider: for tests, for the two-step path, and as the model of what the others must do.
//!
//! Promises: clones share one store, so several engines can work on the same truth; everything is "durable" as long as one clone
//! lives. Versions come from one counter of the store and are never used twice.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{check_value, Capabilities, Expected, MetadataStore, Verdict, Version, Versioned, Write};
use crate::env::BoxFuture;
use crate::error::{Error, Result};
use crate::record::Key;

/// Largest value in bytes.
pub const MAX_VALUE: usize = 16 * 1024 * 1024;

/// A store in memory. Cheap to clone; clones share the content.
#[derive(Clone, Default)]
pub struct MemoryStore {
    content: Arc<Mutex<Content>>,
}

#[derive(Default)]
struct Content {
    values: BTreeMap<Key, Versioned>,
    last_version: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Content {
    fn apply(&mut self, write: Write) -> Verdict {
        let there = self.values.get(&write.key);
        let as_expected = match write.expected {
            Expected::Absent => there.is_none(),
            Expected::Version(version) => there.is_some_and(|there| there.version == version),
            Expected::Any => true,
        };
        if !as_expected {
            return Verdict::Conflict(there.cloned());
        }
        let Some(value) = write.value else {
            let removed = self.values.remove(&write.key);
            return Verdict::Applied(removed.map_or(Version(0), |removed| removed.version));
        };
        if let Err(error) = check_value(MAX_VALUE, &write.key, &value) {
            return Verdict::Refused(error);
        }
        let Some(next) = self.last_version.checked_add(1) else {
            return Verdict::Refused(Error::Internal {
                what: "a memory store has used up its versions".into(),
            });
        };
        self.last_version = next;
        self.values.insert(
            write.key,
            Versioned {
                value,
                version: Version(next),
            },
        );
        Verdict::Applied(Version(next))
    }
}

impl MetadataStore for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_value: MAX_VALUE,
            ordered_scan: true,
            batch_atomic: true,
            deletes: true,
            late_writes: true,
        }
    }

    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        Box::pin(ready(Ok(self.content.lock().values.get(&key).cloned())))
    }

    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        let mut content = self.content.lock();
        Box::pin(ready(
            batch.into_iter().map(|write| content.apply(write)).collect::<Vec<_>>(),
        ))
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        let found = Key::check_range(&from, &to).map(|()| {
            let content = self.content.lock();
            content
                .values
                .range(from..to)
                .take(limit)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        });
        Box::pin(ready(found))
    }

    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        let found = Key::check_range(&from, &to).map(|()| {
            let content = self.content.lock();
            content
                .values
                .range(from..to)
                .next_back()
                .map(|(key, value)| (key.clone(), value.clone()))
        });
        Box::pin(ready(found))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::conformance::{metadata_store_suite, Fixture, Keys};
    use super::super::faults::{Faults, Faulty};
    use super::*;

    struct Memory {
        store: MemoryStore,
        faults: Faults,
    }

    impl Fixture for Memory {
        fn store(&self) -> Arc<dyn MetadataStore> {
            Arc::new(Faulty::new(self.store.clone(), self.faults.clone()))
        }

        fn restart(&mut self) {
            self.store = self.store.clone();
        }

        fn keys(&self) -> Keys {
            Keys::OfAStream
        }

        fn faults(&self) -> Option<Faults> {
            Some(self.faults.clone())
        }
    }

    metadata_store_suite!(Memory {
        store: MemoryStore::new(),
        faults: Faults::default()
    });

    #[test]
    fn clones_share_one_store() {
        let (one, other) = (MemoryStore::new(), MemoryStore::new());
        let key = Key::cluster();
        let write = Write {
            key: key.clone(),
            expected: Expected::Absent,
            value: Some("v".into()),
        };
        let verdicts = futures::executor::block_on(one.write(vec![write]));
        assert!(matches!(verdicts[..], [Verdict::Applied(_)]));
        assert!(futures::executor::block_on(one.clone().get(key.clone()))
            .unwrap()
            .is_some());
        assert!(futures::executor::block_on(other.get(key)).unwrap().is_none());
    }
}
