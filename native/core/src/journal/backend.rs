//! What lies below the in-memory state: ordered bytes with an atomic batch and an explicit flush. `rocks` is the real one; the
//! model keeps what was flushed apart from what a crash may take.

use bytes::Bytes;

use crate::error::Result;

/// Keys to set, or to remove (`None`), at once.
pub type BackendBatch = Vec<(Bytes, Option<Bytes>)>;

/// Ordered bytes on disk. Blocking; thread-safe.
///
/// Rules
/// - A batch is applied as a whole or not at all, also by a crash, and batches survive in the order they were written: what is
///   left after a crash is a prefix of them that holds at least everything flushed.
/// - An error on reading is never an absence.
pub trait StateBackend: Send + Sync + 'static {
    /// One value.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;
    /// Entries with `from <= key < to`, ascending, at most `limit`.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Bytes, Bytes)>>;
    /// Entries with `from <= key < to`, descending, at most `limit`.
    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Bytes, Bytes)>>;
    /// Applies a batch; readable when it returns, durable only after [`StateBackend::flush`].
    fn write(&self, batch: BackendBatch) -> Result<()>;
    /// Makes everything written before durable.
    fn flush(&self) -> Result<()>;
}

#[cfg(any(test, feature = "sim"))]
pub use model::ModelBackend;

#[cfg(any(test, feature = "sim"))]
mod model {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use bytes::Bytes;
    use parking_lot::Mutex;

    use super::{BackendBatch, StateBackend};
    use crate::error::{Error, Result};

    type Map = BTreeMap<Bytes, Bytes>;

    #[derive(Default)]
    struct Image {
        flushed: Map,
        unflushed: Vec<BackendBatch>,
        seen: Map,
        failing: Option<String>,
    }

    /// A backend in memory. A crash keeps a prefix of the batches that were not flushed.
    #[derive(Clone, Default)]
    pub struct ModelBackend(Arc<Mutex<Image>>);

    fn apply(map: &mut Map, batch: &BackendBatch) {
        for (key, value) in batch {
            match value {
                Some(value) => drop(map.insert(key.clone(), value.clone())),
                None => drop(map.remove(key)),
            }
        }
    }

    impl ModelBackend {
        /// What a crash leaves: everything flushed and, of the rest, the first `survivors` batches.
        pub fn after_crash(&self, survivors: usize) -> ModelBackend {
            let image = self.0.lock();
            let mut flushed = image.flushed.clone();
            image
                .unflushed
                .iter()
                .take(survivors)
                .for_each(|batch| apply(&mut flushed, batch));
            ModelBackend(Arc::new(Mutex::new(Image {
                seen: flushed.clone(),
                flushed,
                ..Image::default()
            })))
        }

        /// Batches that a crash may take.
        pub fn unflushed(&self) -> usize {
            self.0.lock().unflushed.len()
        }

        /// From now on every write and flush fails for this reason; `None` ends it.
        pub fn fail_writes(&self, reason: Option<&str>) {
            self.0.lock().failing = reason.map(str::to_owned);
        }

        /// Everything that is readable.
        pub fn contents(&self) -> BTreeMap<Bytes, Bytes> {
            self.0.lock().seen.clone()
        }
    }

    impl Image {
        fn check(&self) -> Result<()> {
            match &self.failing {
                Some(reason) => Err(Error::io(
                    "write",
                    "the model backend",
                    std::io::Error::other(reason.clone()),
                )),
                None => Ok(()),
            }
        }
    }

    impl StateBackend for ModelBackend {
        fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
            Ok(self.0.lock().seen.get(key).cloned())
        }

        fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
            let image = self.0.lock();
            let after = image.seen.range(Bytes::copy_from_slice(from)..);
            let inside = after.take_while(|(key, _)| key.as_ref() < to).take(limit);
            Ok(inside.map(|(key, value)| (key.clone(), value.clone())).collect())
        }

        fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
            let image = self.0.lock();
            let before = image.seen.range(..Bytes::copy_from_slice(to)).rev();
            let inside = before.take_while(|(key, _)| key.as_ref() >= from).take(limit);
            Ok(inside.map(|(key, value)| (key.clone(), value.clone())).collect())
        }

        fn write(&self, batch: BackendBatch) -> Result<()> {
            let mut image = self.0.lock();
            image.check()?;
            apply(&mut image.seen, &batch);
            image.unflushed.push(batch);
            Ok(())
        }

        fn flush(&self) -> Result<()> {
            let mut image = self.0.lock();
            image.check()?;
            let batches = std::mem::take(&mut image.unflushed);
            batches.iter().for_each(|batch| apply(&mut image.flushed, batch));
            Ok(())
        }
    }
}
