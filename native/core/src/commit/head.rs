//! The authority of a stream, as data.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::types::{CommitId, CommitVersion, Incarnation, Offset, OwnerEpoch, StreamId};

/// How many of the newest commits the head itself names. Older ones live in commit pages.
pub const RING: usize = 32;

/// Exact physical place of one commit's bytes. Opaque to streams: only the log that wrote it reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadTarget {
    /// A slice inside a frame of the embedded journal.
    Journal {
        /// Sequence number of the segment.
        segment: u64,
        /// Byte position of the slice in the segment file.
        position: u64,
        /// Bytes of the slice, entry table included.
        length: u64,
    },
    /// A slice of the memory WAL (tests and the two-step path).
    Memory {
        /// Number of the slice in its WAL.
        slice: u64,
    },
}

/// One committed append group of a stream: `[start, start + count)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Identity of the attempt.
    pub id: CommitId,
    /// First offset.
    pub start: Offset,
    /// Entries, at least 1.
    pub count: u32,
    /// Sum of the entries' bytes (payload only).
    pub bytes: u64,
    /// Messages as counted by Pulsar (a batch counts each of its messages).
    pub messages: u64,
    /// Broker clock at the append, milliseconds since the epoch.
    pub append_millis: u64,
    /// Where the bytes are.
    pub target: ReadTarget,
    /// CRC32C over the slice, entry table included.
    pub crc32c: u32,
}

impl Commit {
    /// One past the last offset.
    pub fn end(&self) -> Option<Offset> {
        self.start.checked_add(u64::from(self.count))
    }
}

/// The head of a stream. The record of the same name is its durable form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    /// The stream.
    pub stream: StreamId,
    /// The life of the topic name that the stream serves.
    pub incarnation: Incarnation,
    /// The only epoch that may change the stream (L5).
    pub owner_epoch: OwnerEpoch,
    /// Who holds the epoch, for messages only. Shared by all heads that one run of an engine has claimed.
    pub owner: Arc<str>,
    /// Rises by one with every change; a replayed change applies only onto its predecessor.
    pub version: CommitVersion,
    /// Committed end: the next offset.
    pub end: Offset,
    /// First offset that is not trimmed.
    pub trim: Offset,
    /// The newest commit, or [`CommitId::NONE`].
    pub last_commit: CommitId,
    /// Bytes of all entries ever committed.
    pub total_bytes: u64,
    /// Bytes of the entries below `trim`.
    pub trimmed_bytes: u64,
    /// No further appends, for ever.
    pub terminated: bool,
    /// Handed over to another cluster (Pulsar's blue-green migration).
    pub migrated: bool,
    /// Broker clock at creation, milliseconds since the epoch.
    pub created_millis: u64,
    /// Broker clock of the newest append; 0 = none yet.
    pub last_append_millis: u64,
    /// Latest broker clock among the commits that have left the ring; 0 = none has. The clock may go back, this does not.
    pub folded_append_millis: u64,
    /// The newest commits, oldest first, contiguous up to `end`. At most [`RING`].
    pub ring: VecDeque<Commit>,
}
