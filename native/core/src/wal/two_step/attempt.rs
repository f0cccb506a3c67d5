//! One attempt to move one head: what is sent, and who hears of the verdict.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::commit::{Append, AppendOutcome, Fold, HeadCell, HeadChange, StreamHead};
use crate::error::{Error, Result};
use crate::metadata::{Expected, Version, Write};
use crate::record::{Key, Record};
use crate::types::{CommitId, Offset, StreamId};

pub(super) type ChangeReply = oneshot::Sender<Result<Arc<HeadCell>>>;

/// A change that waits its turn, with how often it was judged anew after losing to somebody else's.
pub(super) struct QueuedChange {
    pub change: HeadChange,
    pub reply: ChangeReply,
    pub tries: u32,
}

pub(super) enum Cause {
    Appends {
        appends: Vec<Append>,
        id: CommitId,
        start: Offset,
        append_millis: u64,
    },
    Change(QueuedChange),
}

/// Neither cloneable nor retryable: an attempt ends by exactly one of the verdicts (L6).
pub(super) struct Attempt {
    pub stream: StreamId,
    /// The stored version that the update names; `None` = no head yet.
    pub before: Option<Version>,
    /// The head wanted; `None` = removed.
    pub next: Option<StreamHead>,
    pub fold: Option<Fold>,
    pub cause: Cause,
}

impl Attempt {
    /// The one conditional write that is the commit. The same attempt always gives the same write.
    pub fn write(&self) -> Result<Write> {
        Ok(Write {
            key: Key::stream_head(self.stream),
            expected: self.before.map_or(Expected::Absent, Expected::Version),
            value: self.next.as_ref().map(StreamHead::encode).transpose()?,
        })
    }

    /// The id to look for when the answer was lost, with the offset it commits at.
    pub fn commit(&self) -> Option<(CommitId, Offset)> {
        match &self.cause {
            Cause::Appends { id, start, .. } => Some((*id, *start)),
            Cause::Change(_) => None,
        }
    }

    /// It certainly happened.
    pub fn done(self, cell: &Arc<HeadCell>) {
        match self.cause {
            Cause::Appends {
                appends, append_millis, ..
            } => {
                for append in appends {
                    let offset = append.offset;
                    let outcome = AppendOutcome::Committed { offset, append_millis };
                    append.reply.answer_with(outcome, Some(append.entry));
                }
            }
            // A caller that left needs no answer.
            Cause::Change(queued) => drop(queued.reply.send(Ok(cell.clone()))),
        }
    }

    /// It certainly did not happen.
    pub fn refused(self, error: Error) {
        match self.cause {
            Cause::Appends { appends, .. } => {
                for append in appends {
                    append.reply.answer(AppendOutcome::NotCommitted(error.clone()));
                }
            }
            Cause::Change(queued) => drop(queued.reply.send(Err(error))),
        }
    }

    /// Nobody here will find out any more.
    pub fn unknown(self) {
        let what = format!(
            "the update of the head of stream {} was not settled when the log closed",
            self.stream
        );
        let error = Error::Unknown { what };
        match self.cause {
            Cause::Appends { appends, .. } => {
                for append in appends {
                    append.reply.answer(AppendOutcome::Unknown(error.clone()));
                }
            }
            Cause::Change(queued) => drop(queued.reply.send(Err(error))),
        }
    }
}
