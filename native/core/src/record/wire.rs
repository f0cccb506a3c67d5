//! Protobuf pieces that several records share, and the checks every body needs. Tags once used never change meaning.

use prost::{Message, Oneof};

use crate::commit::{Commit, ReadTarget};
use crate::types::{CommitId, Offset, ReadView, StreamId};

#[derive(Clone, PartialEq, Message)]
pub(super) struct PhysicalId {
    #[prost(oneof = "PhysicalKind", tags = "1, 2")]
    pub kind: Option<PhysicalKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum PhysicalKind {
    #[prost(uint64, tag = "1")]
    Segment(u64),
    #[prost(string, tag = "2")]
    Object(String),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TargetId {
    #[prost(message, optional, tag = "1")]
    pub physical: Option<PhysicalId>,
    #[prost(uint64, tag = "2")]
    pub position: u64,
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

/// One commit. Tags 10 and 11 are kept for the smallest and largest publish time.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WireCommit {
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub start: u64,
    #[prost(uint32, tag = "3")]
    pub count: u32,
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    #[prost(uint64, tag = "5")]
    pub messages: u64,
    #[prost(uint64, tag = "6")]
    pub append_millis: u64,
    #[prost(fixed32, tag = "7")]
    pub crc32c: u32,
    #[prost(oneof = "WireTarget", tags = "8, 9")]
    pub target: Option<WireTarget>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum WireTarget {
    #[prost(message, tag = "8")]
    Journal(WireJournal),
    #[prost(message, tag = "9")]
    Memory(WireMemory),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireJournal {
    #[prost(uint64, tag = "1")]
    pub segment: u64,
    #[prost(uint64, tag = "2")]
    pub position: u64,
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireMemory {
    #[prost(uint64, tag = "1")]
    pub slice: u64,
}

/// The body of a record as its wire form.
pub(super) fn body<M: Message + Default>(body: &[u8]) -> Result<M, String> {
    M::decode(body).map_err(|e| format!("not a protobuf body: {e}"))
}

/// A field of exactly 16 bytes.
pub(super) fn id16(bytes: &[u8], field: &str) -> Result<[u8; 16], String> {
    bytes
        .try_into()
        .map_err(|_| format!("{field} has {} bytes, not 16", bytes.len()))
}

/// A stream id.
pub(super) fn stream(bytes: &[u8]) -> Result<StreamId, String> {
    id16(bytes, "the stream id").map(StreamId::from_bytes)
}

/// A stored read view; views are stored by number.
pub(super) fn view(number: u32) -> Result<ReadView, String> {
    let view = u8::try_from(number).ok().and_then(ReadView::from_number);
    view.ok_or_else(|| format!("no read view has number {number}"))
}

/// An offset within its range.
pub(super) fn check_offset(offset: Offset, field: &str) -> Result<(), String> {
    if offset > Offset::MAX {
        return Err(format!("{field} {offset} is out of range"));
    }
    Ok(())
}

/// A text within its bound.
pub(super) fn check_text(text: &str, field: &str, most: usize) -> Result<(), String> {
    if text.len() > most {
        return Err(format!("{field} has {} bytes, at most {most} are allowed", text.len()));
    }
    Ok(())
}

/// What every commit keeps.
pub(super) fn check_commit(commit: &Commit) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("commit {} at offset {}: {why}", commit.id, commit.start));
    if commit.id == CommitId::NONE {
        return refuse("has no id");
    }
    if commit.count == 0 {
        return refuse("has no entries");
    }
    if commit.end().is_none() {
        return refuse("ends past the range of offsets");
    }
    if let ReadTarget::Journal { position, length, .. } = commit.target {
        if length == 0 || position.checked_add(length).is_none() {
            return refuse("its place has no bytes or no end");
        }
    }
    Ok(())
}

/// Commits that touch: each starts where the one before ends.
pub(super) fn check_commits_touch<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Result<Option<Offset>, String> {
    let mut end = None;
    for commit in commits {
        check_commit(commit)?;
        if let Some(end) = end.filter(|end| *end != commit.start) {
            return Err(format!(
                "commit {} starts at {}, the one before ends at {end}",
                commit.id, commit.start
            ));
        }
        end = commit.end();
    }
    Ok(end)
}

impl WireCommit {
    pub(super) fn of(commit: &Commit) -> Self {
        let target = match commit.target {
            ReadTarget::Journal {
                segment,
                position,
                length,
            } => WireTarget::Journal(WireJournal {
                segment,
                position,
                length,
            }),
            ReadTarget::Memory { slice } => WireTarget::Memory(WireMemory { slice }),
        };
        WireCommit {
            id: commit.id.to_bytes().to_vec(),
            start: commit.start.get(),
            count: commit.count,
            bytes: commit.bytes,
            messages: commit.messages,
            append_millis: commit.append_millis,
            crc32c: commit.crc32c,
            target: Some(target),
        }
    }

    pub(super) fn into_commit(self) -> Result<Commit, String> {
        let target = match self.target {
            Some(WireTarget::Journal(j)) => ReadTarget::Journal {
                segment: j.segment,
                position: j.position,
                length: j.length,
            },
            Some(WireTarget::Memory(m)) => ReadTarget::Memory { slice: m.slice },
            None => {
                return Err(format!(
                    "the commit at offset {} has no place of a known kind",
                    self.start
                ))
            }
        };
        Ok(Commit {
            id: CommitId::from_bytes(id16(&self.id, "the commit id")?),
            start: Offset::new(self.start),
            count: self.count,
            bytes: self.bytes,
            messages: self.messages,
            append_millis: self.append_millis,
            target,
            crc32c: self.crc32c,
        })
    }
}
