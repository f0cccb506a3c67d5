//! Write-ahead logs whose write and commit are two steps.
//!
//! Owns: the trait [`Wal`], the [`SliceDescriptor`] (which is the durable commit intent of its slice, L3), the bytes of a
//! [slice](slice), the memory WAL, and [`TwoStep`]: the commit `Log` over any WAL and any `MetadataStore`.
//! Does not: know the embedded journal, where both steps are one frame.

pub mod memory;
pub mod slice;
pub mod two_step;

use bytes::Bytes;

use crate::commit::ReadTarget;
use crate::env::BoxFuture;
use crate::error::Result;
use crate::types::{CommitId, Incarnation, Offset, OwnerEpoch, StreamId};

pub use two_step::TwoStep;

/// What a slice is, durable with it: enough to find the commit again without any other record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceDescriptor {
    /// The stream.
    pub stream: StreamId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The owner that appends.
    pub epoch: OwnerEpoch,
    /// First offset.
    pub start: Offset,
    /// Entries.
    pub count: u32,
    /// The commit that must come right before.
    pub previous: CommitId,
    /// This attempt.
    pub id: CommitId,
    /// CRC32C over the slice.
    pub crc32c: u32,
}

/// One slice on its way into a WAL.
#[derive(Debug, Clone)]
pub struct WalSlice {
    /// What it is.
    pub descriptor: SliceDescriptor,
    /// The encoded entries ([`slice::encode`]).
    pub body: Bytes,
}

/// Durable bytes with a place. A slice is invisible until a head names it, so a write whose outcome is not known is simply not
/// committed; the WAL may hold bytes that nobody names.
pub trait Wal: Send + Sync + 'static {
    /// Writes a group; one answer per slice, in order, each durable with its descriptor before it is answered with its place.
    fn append(&self, group: Vec<WalSlice>) -> BoxFuture<Vec<Result<ReadTarget>>>;

    /// The bytes at a place, unverified. `Corrupt` when the WAL proves that they are gone, `Unavailable` when it cannot say.
    fn read(&self, target: ReadTarget) -> BoxFuture<Result<Bytes>>;
}
