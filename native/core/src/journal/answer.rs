//! Everybody who waits for a group, in queue order, and what they hear.
//!
//! Keeps: L6: a group that failed answers `Unknown` only to what its frame held; a refusal stays one.

use std::sync::Arc;

use bytes::Bytes;
use futures::channel::oneshot;

use super::state::{empty_cell, StateTable};
use crate::commit::{AppendOutcome, AppendReply, HeadCell};
use crate::error::{Error, Result};
use crate::metadata::Verdict;
use crate::types::{Offset, StreamId};

/// Why a whole group came to nothing.
#[derive(Debug, Clone)]
pub enum Failure {
    /// No byte of its frame was written.
    NeverWritten(Error),
    /// Its frame may be on disk, now or later.
    Unknown(Error),
}

/// One waiter with its verdict.
pub enum Held {
    Taken {
        reply: AppendReply,
        offset: Offset,
        /// Which delta of the group holds its entry, behind those of the same slice that were taken before.
        slice: usize,
    },
    Refused {
        reply: AppendReply,
        error: Error,
    },
    Changed {
        reply: oneshot::Sender<Result<Arc<HeadCell>>>,
        outcome: Result<StreamId>,
    },
    Written {
        reply: oneshot::Sender<Vec<Verdict>>,
        verdicts: Vec<Verdict>,
    },
}

/// The waiters of a group that failed.
pub struct Failed(pub Vec<Held>);

impl Failed {
    /// Answers all of them, in queue order.
    pub fn answer(self, failure: &Failure) {
        self.0.into_iter().for_each(|held| fail(held, failure));
    }
}

/// The good news of a group.
pub struct Answers {
    held: Vec<Held>,
    millis: u64,
    entries: Vec<Entries>,
}

/// The entries of one delta that have not been given back yet, with their checksums.
pub type Entries = std::vec::IntoIter<(Bytes, u32)>;

impl Answers {
    /// The answers of `held`, whose frame has this time and, by delta, these entries.
    pub fn new(held: Vec<Held>, millis: u64, entries: Vec<Entries>) -> Answers {
        Answers { held, millis, entries }
    }

    /// How many waiters there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Answers all of them, in queue order, changes with the cells of `state`, where the group is published.
    pub fn give(self, state: &StateTable) {
        let Answers {
            held,
            millis: append_millis,
            mut entries,
        } = self;
        let cell = |stream: StreamId| state.cell(stream).map(|cell| cell.unwrap_or_else(empty_cell));
        for held in held {
            match held {
                Held::Taken { reply, offset, slice } => {
                    let entry = entries.get_mut(slice).and_then(Iterator::next);
                    let outcome = AppendOutcome::Committed { offset, append_millis };
                    reply.answer_with(outcome, entry.map(|(entry, _)| entry));
                }
                Held::Refused { reply, error } => reply.answer(AppendOutcome::NotCommitted(error)),
                // A caller that left does not want the answer.
                Held::Changed { reply, outcome } => drop(reply.send(outcome.and_then(cell))),
                Held::Written { reply, verdicts } => drop(reply.send(verdicts)),
            }
        }
    }
}

/// The group came to nothing.
pub fn fail(held: Held, failure: &Failure) {
    match held {
        Held::Taken { reply, .. } => {
            let outcome = match failure {
                Failure::NeverWritten(error) => AppendOutcome::NotCommitted(error.clone()),
                Failure::Unknown(error) => AppendOutcome::Unknown(error.clone()),
            };
            reply.answer(outcome);
        }
        Held::Refused { reply, error } => reply.answer(AppendOutcome::NotCommitted(error)),
        Held::Changed { reply, outcome } => {
            let (Failure::NeverWritten(error) | Failure::Unknown(error)) = failure;
            drop(reply.send(outcome.and(Err(error.clone()))));
        }
        Held::Written { reply, verdicts } => {
            let changed = verdicts.into_iter().map(|verdict| match (verdict, failure) {
                (Verdict::Refused(error) | Verdict::Unknown(error), _) => Verdict::Refused(error),
                (Verdict::Applied(_), Failure::Unknown(error)) => Verdict::Unknown(error.clone()),
                // A conflict may rest on a write of the same group: what is there is not known now.
                (_, Failure::Unknown(error) | Failure::NeverWritten(error)) => Verdict::Refused(error.clone()),
            });
            drop(reply.send(changed.collect()));
        }
    }
}
