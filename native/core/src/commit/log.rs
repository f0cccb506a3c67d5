//! What a stream asks of the thing that commits for it.

use std::sync::Arc;

use bytes::Bytes;

use super::{Append, Commit, HeadCell, HeadChange};
use crate::env::BoxFuture;
use crate::error::Result;
use crate::metadata::MetadataStore;
use crate::types::{Offset, StreamId};

/// One entry read back, its checksum verified.
#[derive(Debug, Clone)]
pub struct SliceEntry {
    /// The complete entry.
    pub entry: Bytes,
    /// Its CRC32C, as computed at the append.
    pub crc32c: u32,
}

/// All entries of one commit, in offset order.
#[derive(Debug, Clone)]
pub struct Slice {
    /// `commit.count` entries.
    pub entries: Arc<[SliceEntry]>,
}

/// A write-ahead log with its commit point. Two implementations: the embedded journal, where both are one frame, and the two-step
/// path (WAL write, then a conditional head update on a `MetadataStore`).
///
/// Rules
/// - Appends of one stream are answered in queue order; after a refused append every later one queued on the same reservation is
///   refused too, because its offset is not the next one (L4).
/// - An append is answered `Committed` only when it is durable and the published head covers it (L1, L2).
/// - A dropped future abandons the answer, never the step.
/// - After a failed write or sync nothing is acknowledged again (poison); reads go on.
pub trait Log: Send + Sync + 'static {
    /// The head of a stream, published; `None` is proven absence. The same cell for every caller while one of them lives.
    fn load(&self, stream: StreamId) -> BoxFuture<Result<Option<Arc<HeadCell>>>>;

    /// An offset above all that the stream ever gave an entry: its end, or of a damaged stream, whose end nobody knows, one that is
    /// certainly high enough to tell its entries from those of a later stream. `None` is proven absence.
    fn bound(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        let head = self.load(stream);
        Box::pin(async move { Ok(head.await?.and_then(|cell| cell.with(|head| head.map(|head| head.end)))) })
    }

    /// Queues one append. Never blocks, never refuses without answering through the reply.
    fn append(&self, append: Append);

    /// One conditional change of a head; durable and published before it answers. For `Create` the new cell. `Delete` answers the
    /// cell, now empty.
    fn change(&self, stream: StreamId, change: HeadChange) -> BoxFuture<Result<Arc<HeadCell>>>;

    /// Reads one commit back and verifies every entry (L12). `Corrupt` names segment and position.
    fn read(&self, stream: StreamId, commit: Commit) -> BoxFuture<Result<Slice>>;

    /// Reads several commits of one stream back, neighbours in offset order, as one piece of work; one answer each, as for
    /// [`Log::read`].
    fn read_run(&self, stream: StreamId, commits: Vec<Commit>) -> BoxFuture<Vec<Result<Slice>>> {
        let reads: Vec<_> = commits.into_iter().map(|commit| self.read(stream, commit)).collect();
        Box::pin(futures::future::join_all(reads))
    }

    /// The store of everything that hangs on the streams of this log: commit pages, properties, cursors.
    fn store(&self) -> Arc<dyn MetadataStore>;
}
