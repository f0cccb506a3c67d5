//! What the keys of a batch hold: one scan where neighbours are deleted, one look each otherwise.
//!
//! A look at one key opens filter and index of every file that may have it; those of a store with many keys do not stay in its
//! cache. Whoever deletes a large topic asks for thousands of neighbours.

use std::collections::BTreeMap;

use super::state::StateTable;
use crate::error::Result;
use crate::metadata::{Versioned, Write};
use crate::record::{Key, RecordType};

/// Smaller batches are looked up key by key.
const LEAST: usize = 16;

/// The published values of a batch's keys, for as long as nothing is published: the lane asks and publishes.
pub struct Lookup(Option<BTreeMap<Key, Versioned>>);

impl Lookup {
    /// Looks at the keys of `batch`.
    pub fn of(state: &StateTable, batch: &[Write]) -> Lookup {
        Lookup(neighbours(state, batch))
    }

    /// What a key of the batch holds.
    pub fn get(&self, state: &StateTable, key: &Key) -> Result<Option<Versioned>> {
        match &self.0 {
            Some(known) => Ok(known.get(key).cloned()),
            None => state.get(key),
        }
    }
}

/// Everything between the first and the last key, if that is little more than the batch itself. New keys are looked up one by one: the
/// filters answer that without a read. What cannot be read is the concern of the looks at single keys.
fn neighbours(state: &StateTable, batch: &[Write]) -> Option<BTreeMap<Key, Versioned>> {
    let keys = || batch.iter().map(|write| &write.key);
    let (first, last) = (keys().min()?, keys().max()?);
    let (kind, stream) = (first.kind()?, first.stream()?);
    let deleted =
        |write: &Write| write.value.is_none() && write.key.kind() == Some(kind) && write.key.stream() == Some(stream);
    if batch.len() < LEAST || kind == RecordType::StreamHead || !batch.iter().all(deleted) {
        return None;
    }
    let (_, end) = Key::stream_range(kind, stream);
    let limit = batch.len().saturating_mul(2);
    let found = state.scan(first, &end, limit).ok()?;
    let complete = found.len() < limit || found.last().is_some_and(|(key, _)| key >= last);
    complete.then(|| found.into_iter().collect())
}
