//! How a head moves: commits and changes, as pure functions. Used when a group is built, when it is published, at replay, and by
//! the two-step log; the same input gives the same head everywhere.
//!
//! Keeps: L4 (commits touch; asserted in release builds too), L5 (the epoch is part of every verdict).

use std::collections::VecDeque;

use super::tail::fenced;
use super::{Commit, HeadChange, StreamHead, Tail, RING};
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};
use crate::types::{CommitId, CommitVersion, Incarnation, Offset, OwnerEpoch, StreamId};

/// How many commits leave a full ring at once: one commit page.
pub const FOLD: usize = 16;

/// The oldest commits of a ring, on their way into a commit page. A page is a function of the stream's history: every owner and
/// every replay folds the same commits into the same page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Bytes of all entries before the first commit.
    pub bytes_before: u64,
    /// Latest append time of all commits before the first one; 0 = there is none.
    pub latest_before: u64,
    /// Contiguous, oldest first; never empty.
    pub commits: Vec<Commit>,
}

/// What a legal change does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Changed {
    /// It has been done already.
    Nothing,
    /// The head after it, one version up.
    Head(Box<StreamHead>),
    /// The head is removed.
    Deleted,
}

impl StreamHead {
    /// The head of a new stream: version 1, owned by nobody (epoch 0).
    pub fn new(stream: StreamId, incarnation: Incarnation, created_millis: u64) -> StreamHead {
        StreamHead {
            stream,
            incarnation,
            owner_epoch: OwnerEpoch::new(0),
            owner: "".into(),
            version: CommitVersion::new(1),
            end: Offset::ZERO,
            trim: Offset::ZERO,
            last_commit: CommitId::NONE,
            total_bytes: 0,
            trimmed_bytes: 0,
            terminated: false,
            migrated: false,
            created_millis,
            last_append_millis: 0,
            folded_append_millis: 0,
            ring: VecDeque::new(),
        }
    }

    /// What decides on appends.
    pub fn tail(&self) -> Tail {
        Tail {
            stream: self.stream,
            epoch: self.owner_epoch,
            end: self.end,
            terminated: self.terminated,
        }
    }

    /// Bytes of all entries before the ring's oldest commit.
    pub fn bytes_before_ring(&self) -> u64 {
        self.ring
            .iter()
            .fold(self.total_bytes, |rest, commit| rest.saturating_sub(commit.bytes))
    }

    /// Latest append time of all commits, whatever the clock did in between; 0 = none yet.
    pub fn latest_append_millis(&self) -> u64 {
        latest(&self.ring, self.folded_append_millis)
    }

    /// Whether `commit` is a legal next one; the text says what is wrong. Epoch and termination are [`Tail`]'s part.
    pub fn fits(&self, commit: &Commit) -> std::result::Result<(), String> {
        if commit.start != self.end {
            return Err(format!(
                "commit {} starts at {}, the stream ends at {}",
                commit.id, commit.start, self.end
            ));
        }
        if commit.count == 0 || commit.end().is_none() {
            return Err(format!(
                "commit {} of {} entries at {}",
                commit.id, commit.count, commit.start
            ));
        }
        if commit.id == CommitId::NONE || commit.id == self.last_commit {
            return Err(format!("commit id {} is none or used", commit.id));
        }
        if self.total_bytes.checked_add(commit.bytes).is_none() || self.version.next().is_none() {
            return Err("a counter is used up".into());
        }
        Ok(())
    }

    /// What the next commit makes this head give up; `None` while its ring has room.
    pub fn due_fold(&self) -> Option<Fold> {
        (self.ring.len() >= RING).then(|| Fold {
            bytes_before: self.bytes_before_ring(),
            latest_before: self.folded_append_millis,
            commits: self.ring.range(..FOLD).copied().collect(),
        })
    }

    /// Applies the next commit. A full ring gives its oldest [`FOLD`] commits back: they belong into a commit page that is durable
    /// no later than this head.
    ///
    /// # Panics
    /// When the commit does not [fit](StreamHead::fits): going on would break the stream for good (L4).
    pub fn commit(&mut self, commit: Commit) -> Option<Fold> {
        let fits = self.fits(&commit);
        assert!(
            fits.is_ok(),
            "stream {}: {}",
            self.stream,
            fits.err().unwrap_or_default()
        );
        let fold = self.due_fold();
        if let Some(fold) = &fold {
            self.ring.drain(..FOLD);
            self.folded_append_millis = latest(&fold.commits, fold.latest_before);
        }
        self.end = commit.end().unwrap_or(Offset::MAX);
        self.version = self.version.next().unwrap_or(self.version);
        self.last_commit = commit.id;
        self.total_bytes = self.total_bytes.saturating_add(commit.bytes);
        self.last_append_millis = commit.append_millis;
        self.ring.push_back(commit);
        fold
    }

    /// The commit of the ring that holds `offset`; `None` when it is older or not committed.
    pub fn find(&self, offset: Offset) -> Option<&Commit> {
        if offset >= self.end {
            return None;
        }
        let behind = self.ring.partition_point(|commit| commit.start <= offset);
        self.ring.get(behind.checked_sub(1)?)
    }
}

impl HeadChange {
    /// The verdict on this change of the stream's present head (`None` = it has none).
    ///
    /// # Errors
    /// `AlreadyExists`, `NotFound`, `Fenced`, or `Invalid` for a trim past the end. Nothing has happened then.
    pub fn judge(&self, stream: StreamId, head: Option<&StreamHead>) -> Result<Changed> {
        let name = || format!("stream {stream}");
        let Some(head) = head else {
            return match self {
                HeadChange::Create {
                    stream,
                    incarnation,
                    created_millis,
                } => Ok(Changed::Head(Box::new(StreamHead::new(
                    *stream,
                    *incarnation,
                    *created_millis,
                )))),
                HeadChange::Delete { .. } => Ok(Changed::Nothing),
                _ => Err(Error::NotFound { what: name() }),
            };
        };
        let own = |epoch: OwnerEpoch| {
            if epoch == head.owner_epoch || active(Mutant::ChangeOfOldEpoch) {
                Ok(())
            } else {
                Err(fenced(stream, head.owner_epoch))
            }
        };
        let mut next = head.clone();
        match self {
            HeadChange::Create { .. } => return Err(Error::AlreadyExists { what: name() }),
            HeadChange::Claim { owner } => {
                next.owner_epoch = head.owner_epoch.next().ok_or_else(|| used_up(stream, "owner epochs"))?;
                next.owner = owner.clone();
            }
            HeadChange::Trim {
                epoch,
                before,
                trimmed_bytes,
            } => {
                own(*epoch)?;
                if *before > head.end {
                    return Err(Error::Invalid {
                        what: format!(
                            "stream {stream}: trim to {before} lies past the committed end {}",
                            head.end
                        ),
                    });
                }
                if *before <= head.trim {
                    return Ok(Changed::Nothing);
                }
                next.trim = *before;
                if active(Mutant::TrimTooFar) && next.trim < head.end {
                    next.trim = Offset::new(before.get() + 1);
                }
                next.trimmed_bytes = match *before == head.end {
                    true => head.total_bytes,
                    false => (*trimmed_bytes).clamp(head.trimmed_bytes, head.total_bytes),
                };
            }
            HeadChange::Terminate { epoch } => {
                own(*epoch)?;
                if head.terminated {
                    return Ok(Changed::Nothing);
                }
                next.terminated = true;
            }
            HeadChange::Delete { epoch } => {
                if let Some(epoch) = epoch {
                    own(*epoch)?;
                }
                return Ok(Changed::Deleted);
            }
        }
        next.version = head.version.next().ok_or_else(|| used_up(stream, "versions"))?;
        Ok(Changed::Head(Box::new(next)))
    }
}

fn latest<'a>(commits: impl IntoIterator<Item = &'a Commit>, before: u64) -> u64 {
    commits
        .into_iter()
        .fold(before, |latest, commit| latest.max(commit.append_millis))
}

fn used_up(stream: StreamId, what: &str) -> Error {
    Error::Internal {
        what: format!("stream {stream} has used up its {what}"),
    }
}
