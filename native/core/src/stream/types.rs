//! Requests and answers of a stream.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::types::{Offset, OwnerEpoch, ReadView};

/// Bounds and counts of a stream: one consistent snapshot, O(1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamState {
    /// First offset that is not trimmed.
    pub trim: Offset,
    /// Committed end: the next offset.
    pub end: Offset,
    /// Entries from `trim` to `end`.
    pub entries: u64,
    /// Their bytes (below `trim` inside one commit: by proportion).
    pub bytes: u64,
    /// No further appends, for ever.
    pub terminated: bool,
    /// Broker clock of the newest append, milliseconds; 0 = none yet.
    pub last_append_millis: u64,
    /// The epoch that owns the stream now; above the handle's own it is fenced.
    pub owner_epoch: OwnerEpoch,
    /// Appends are refused until `resume`.
    pub suspended: bool,
}

/// One part of a stream as large as a virtual ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanInfo {
    /// First offset of the span, a multiple of 65,536 (with 16 span bits).
    pub first_offset: Offset,
    /// Live entries: from `max(trim, first_offset)`.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Broker clock of the first live entry's append, milliseconds.
    pub first_append_millis: u64,
    /// Broker clock of the last entry's append, milliseconds.
    pub last_append_millis: u64,
}

/// What to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// Which namespace answers.
    pub view: ReadView,
    /// The first offset wanted: the batch starts exactly here.
    pub start: Offset,
    /// Most entries, at least 1.
    pub max_entries: u32,
    /// Most bytes; the first entry comes in any case.
    pub max_bytes: u64,
    /// Exclusive upper bound; [`Offset::MAX`] = none.
    pub up_to: Offset,
}

/// One entry of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadEntry {
    /// Its offset.
    pub offset: Offset,
    /// The complete bytes.
    pub entry: Bytes,
}

/// Entries in offset order without a gap, from the requested start. Empty = end of stream (or of the request's bound).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadBatch {
    /// The entries.
    pub entries: Vec<ReadEntry>,
    /// What keeps their bytes accounted for. Whoever keeps entries keeps this as long.
    pub held: Held,
}

/// The accounts that the bytes of a batch are on, until it is dropped. Says nothing about the entries: equal to any other.
#[derive(Clone, Default)]
pub struct Held(Vec<Arc<dyn Send + Sync>>);

impl Held {
    /// Keeps `holder` as long as this lives.
    pub(super) fn keep(&mut self, holder: Arc<dyn Send + Sync>) {
        self.0.push(holder);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({})", self.0.len())
    }
}

impl PartialEq for Held {
    fn eq(&self, _: &Held) -> bool {
        true
    }
}

impl Eq for Held {}
