//! The part of a head that decides on appends.

use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};
use crate::types::{Offset, OwnerEpoch, StreamId};

/// A few words of a head, cheap to copy: a log runs ahead of the published head on its own copy while it builds a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// The stream.
    pub stream: StreamId,
    /// The only epoch that may append.
    pub epoch: OwnerEpoch,
    /// The next offset.
    pub end: Offset,
    /// No further appends.
    pub terminated: bool,
}

impl Tail {
    /// Whether an owner of `epoch` may append at `offset`. Fenced before terminated before out of order: an old owner learns that
    /// it is one. A gap is `Suspended`, because it only arises behind a refused append; an offset below the end is a defect.
    pub fn check(&self, epoch: OwnerEpoch, offset: Offset) -> Result<()> {
        if epoch != self.epoch && !active(Mutant::AppendOfOldEpoch) {
            return Err(fenced(self.stream, self.epoch));
        }
        if self.terminated {
            return Err(Error::Terminated {
                stream: self.stream,
                end: self.end,
            });
        }
        if offset > self.end {
            return Err(Error::Suspended {
                stream: self.stream,
                reason: format!("offset {offset} lies behind a refused append at offset {}", self.end),
            });
        }
        if offset < self.end {
            let what = format!(
                "stream {}: append at offset {offset}, below the end {}",
                self.stream, self.end
            );
            return Err(Error::Internal { what });
        }
        if offset.checked_add(1).is_none() {
            return Err(Error::Invalid {
                what: format!("stream {} has used up its offsets", self.stream),
            });
        }
        Ok(())
    }

    /// [`Tail::check`], and counts the entry.
    pub fn take(&mut self, epoch: OwnerEpoch, offset: Offset) -> Result<()> {
        self.check(epoch, offset)?;
        self.end = Offset::new(offset.get() + 1);
        Ok(())
    }
}

/// The verdict on an owner that is not the head's (L5).
pub(super) fn fenced(stream: StreamId, by_epoch: OwnerEpoch) -> Error {
    Error::Fenced {
        what: format!("stream {stream}"),
        by_epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn tail() -> Tail {
        Tail {
            stream: StreamId::new(1),
            epoch: OwnerEpoch::new(3),
            end: Offset::new(10),
            terminated: false,
        }
    }

    fn code(tail: Tail, epoch: u64, offset: u64) -> Option<ErrorCode> {
        tail.check(OwnerEpoch::new(epoch), Offset::new(offset))
            .err()
            .map(|e| e.code())
    }

    #[test]
    fn l05_only_the_current_epoch_may_append() {
        assert_eq!(code(tail(), 3, 10), None);
        assert_eq!(code(tail(), 2, 10), Some(ErrorCode::Fenced));
        assert_eq!(code(tail(), 4, 10), Some(ErrorCode::Fenced));
        assert_eq!(
            code(
                Tail {
                    terminated: true,
                    ..tail()
                },
                2,
                10
            ),
            Some(ErrorCode::Fenced)
        );
    }

    #[test]
    fn l04_only_the_next_offset_is_taken() {
        assert_eq!(code(tail(), 3, 11), Some(ErrorCode::Suspended));
        assert_eq!(code(tail(), 3, 9), Some(ErrorCode::Internal));
        let mut running = tail();
        running.take(OwnerEpoch::new(3), Offset::new(10)).unwrap();
        assert_eq!(running.end, Offset::new(11));
        assert_eq!(code(running, 3, 10), Some(ErrorCode::Internal));
    }

    #[test]
    fn terminated_stream_takes_nothing() {
        assert_eq!(
            code(
                Tail {
                    terminated: true,
                    ..tail()
                },
                3,
                10
            ),
            Some(ErrorCode::Terminated)
        );
    }

    #[test]
    fn last_offset_of_the_range_is_refused_instead_of_wrapping() {
        let full = Tail {
            end: Offset::MAX,
            ..tail()
        };
        assert_eq!(code(full, 3, Offset::MAX.get()), Some(ErrorCode::Invalid));
    }
}
