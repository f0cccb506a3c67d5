//! Versioned keys with conditional writes: the contract that every metadata provider keeps.
//!
//! Owns: the trait, keys' envelope of versions, the conformance suite (`conformance`). Providers: `memory`, `embedded` (on the
//! journal), `pulsar` (the broker's own store). [`settle`] finds out what became of a write whose answer was lost.
//! Does not: know what a record means (`record`).

pub mod broker_memory;
pub mod embedded;
pub mod faults;
pub mod memory;
pub mod pulsar;
pub mod settle;

#[cfg(test)]
pub mod conformance;

use bytes::Bytes;

use crate::env::BoxFuture;
use crate::error::{Error, Result};
use crate::record::Key;

/// Version of one stored value: rises with every write of its key, also across delete and recreate inside one provider run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A value with the version that a conditional write has to name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The stored bytes.
    pub value: Bytes,
    /// Their version.
    pub version: Version,
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The key must be absent.
    Absent,
    /// The key must have this version.
    Version(Version),
    /// Whatever is there; only for keys with a single writer.
    Any,
}

/// One write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// What must be there now.
    pub expected: Expected,
    /// The new value; `None` deletes.
    pub value: Option<Bytes>,
}

/// The verdict on one write.
#[derive(Debug, Clone)]
#[must_use]
pub enum Verdict {
    /// Applied and durable; the new version (of a delete: the version that was removed, or 0).
    Applied(Version),
    /// Not applied, now and for ever: the key was not as expected. Carries what is there.
    Conflict(Option<Versioned>),
    /// Certainly not applied, for another reason.
    Refused(Error),
    /// May be applied, now or later. Settle by reading; never retry as a new write (L6).
    Unknown(Error),
}

/// What a provider can do beyond single-key conditional writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Largest value in bytes.
    pub max_value: usize,
    /// `scan` works (inside one `<kind>/<stream>` prefix).
    pub ordered_scan: bool,
    /// Writes of one batch become durable together (never relied on for correctness).
    pub batch_atomic: bool,
    /// Keys can be deleted, and a recreated key never gets a version again that it had.
    pub deletes: bool,
    /// A write whose answer was lost may still be applied later, after writes of the same key that were sent after it. Where it is
    /// so, absence of a key is no proof against a late creation.
    pub late_writes: bool,
}

/// Refuses a value above a provider's limit.
pub(crate) fn check_value(limit: usize, key: &Key, value: &Bytes) -> Result<()> {
    if value.len() > limit {
        let what = format!("value of {key} has {} bytes, at most {limit} are allowed", value.len());
        return Err(Error::Invalid { what });
    }
    Ok(())
}

/// An asynchronous store of versioned keys.
///
/// Rules
/// - Every write is conditional on its own key; writes of one batch have independent verdicts, and nothing assumes that two keys
///   change together.
/// - A read that starts after a write was answered `Applied` sees it or something newer.
/// - Writes of one batch, and batches of one caller that awaits them, apply in order.
/// - Dropping a future abandons the answer, never the write.
pub trait MetadataStore: Send + Sync + 'static {
    /// What this provider can do.
    fn capabilities(&self) -> Capabilities;
    /// Reads one key. Absence is proven; anything else that prevents an answer is an error.
    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>>;
    /// Writes a batch; one verdict per write, in order.
    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>>;
    /// Entries with `from <= key < to`, ascending, at most `limit`. `from` and `to` share a `<kind>/<stream>` prefix.
    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>>;
    /// The last entry with `from <= key < to`.
    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>>;
}
