//! How much the cursors of one stream hold: what an open has to hand over in one piece.
//!
//! Promises: acks that could not be loaded again are refused before they are stored. Acks that make room are never refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::types::StreamId;

/// Bytes of acks that the cursors of one stream may hold together. An open hands all of them to the facade in one message of at
/// most 256 MiB, in a form of about the same size.
pub const MAX_HELD_BYTES: u64 = 192 << 20;

pub(super) struct Held {
    bytes: AtomicU64,
    most: AtomicU64,
}

impl Default for Held {
    fn default() -> Held {
        Held {
            bytes: AtomicU64::new(0),
            most: AtomicU64::new(MAX_HELD_BYTES),
        }
    }
}

impl Held {
    /// Whether a cursor that holds `before` bytes may hold `after`. `Unavailable`: it may when acks have filled holes.
    pub fn check(&self, before: u64, after: u64, cursor: &str, stream: StreamId) -> Result<()> {
        let now = self.bytes.load(Ordering::Relaxed);
        let most = self.most.load(Ordering::Relaxed);
        if after <= before || now.saturating_sub(before).saturating_add(after) <= most {
            return Ok(());
        }
        Err(Error::Unavailable {
            what: format!(
                "cursor {cursor} of stream {stream}: the cursors of the stream hold {now} bytes of acks beyond their mark-delete \
                 positions, at most {most} are allowed; acknowledge the entries in between, or clear the backlog"
            ),
            retry: Duration::from_secs(1),
        })
    }

    /// A cursor that held `before` bytes holds `after`.
    pub fn replace(&self, before: u64, after: u64) {
        let change = |now: u64| Some(now.saturating_sub(before).saturating_add(after));
        // Never fails: the change always has a result.
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    #[cfg(test)]
    pub fn allow(&self, most: u64) {
        self.most.store(most, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
