//! The changes a head knows besides a commit. Each names the epoch of the owner that asks for it.

use std::sync::Arc;

use crate::types::{Incarnation, Offset, OwnerEpoch, StreamId};

/// One conditional change of a head. Refused as `Fenced` when `epoch` is not the head's (L5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadChange {
    /// A new stream; refused as `AlreadyExists` when it has a head. The owner epoch starts at 0: creation claims nothing.
    Create {
        /// The stream.
        stream: StreamId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Broker clock.
        created_millis: u64,
    },
    /// Raises the owner epoch to head + 1: the fence of a writable open.
    Claim {
        /// Who opens, for messages.
        owner: Arc<str>,
    },
    /// Moves the trim offset forward, never past the end, never back (then it changes nothing).
    Trim {
        /// The asking owner.
        epoch: OwnerEpoch,
        /// First offset to keep.
        before: Offset,
        /// Bytes of all entries below `before`, from commit metadata.
        trimmed_bytes: u64,
    },
    /// Ends the stream at its committed end. Idempotent.
    Terminate {
        /// The asking owner.
        epoch: OwnerEpoch,
    },
    /// Removes the head, and with it the stream. Idempotent. What hangs on it (commit pages, cursors, properties) is the caller's to
    /// remove afterwards from the log's store.
    Delete {
        /// The asking owner; `None` for a delete that follows a binding in state DELETING (it fences every owner).
        epoch: Option<OwnerEpoch>,
    },
}
