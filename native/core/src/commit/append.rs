//! One append on its way through a log, and the promise that it is answered exactly once.

use bytes::Bytes;

use crate::error::Error;
use crate::types::{Offset, OwnerEpoch, StreamId};

/// How an append ended (L6).
#[derive(Debug)]
pub enum AppendOutcome {
    /// Durable and reachable from the head.
    Committed {
        /// Its offset.
        offset: Offset,
        /// Broker clock of its commit, milliseconds since the epoch.
        append_millis: u64,
    },
    /// Certainly not part of the stream, now and for ever.
    NotCommitted(Error),
    /// This engine can no longer find out.
    Unknown(Error),
}

/// Receives the outcome of one append, and the entry where the log still has it: a committed one can then be kept without having been
/// shared. Dropping it unanswered answers `Unknown`, so no path can forget a waiter.
pub struct AppendReply(Option<Box<Receiver>>);

type Receiver = dyn FnOnce(AppendOutcome, Option<Bytes>) + Send + 'static;

impl AppendReply {
    /// A reply that calls `receiver`, on whatever thread settles the append; it must only hand over.
    pub fn new(receiver: impl FnOnce(AppendOutcome) + Send + 'static) -> Self {
        Self::with_entry(move |outcome, _| receiver(outcome))
    }

    /// [`AppendReply::new`], for a receiver that wants the entry back.
    pub fn with_entry(receiver: impl FnOnce(AppendOutcome, Option<Bytes>) + Send + 'static) -> Self {
        AppendReply(Some(Box::new(receiver)))
    }

    /// Settles the append.
    pub fn answer(self, outcome: AppendOutcome) {
        self.answer_with(outcome, None);
    }

    /// [`AppendReply::answer`], and gives the entry back.
    pub fn answer_with(mut self, outcome: AppendOutcome, entry: Option<Bytes>) {
        if let Some(receiver) = self.0.take() {
            receiver(outcome, entry);
        }
    }
}

impl Drop for AppendReply {
    fn drop(&mut self) {
        if let Some(receiver) = self.0.take() {
            let what = "the append was dropped before it was settled".into();
            receiver(AppendOutcome::Unknown(Error::Unknown { what }), None);
        }
    }
}

/// One entry with its reserved offset.
pub struct Append {
    /// The stream.
    pub stream: StreamId,
    /// The owner that appends.
    pub epoch: OwnerEpoch,
    /// The reserved offset: refused when it is not the stream's next one.
    pub offset: Offset,
    /// The complete entry.
    pub entry: Bytes,
    /// CRC32C of `entry`, computed once.
    pub crc32c: u32,
    /// Messages in the entry.
    pub messages: u32,
    /// Who hears of the outcome.
    pub reply: AppendReply,
}
