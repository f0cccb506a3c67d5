//! `GenerationIndex`: one physical representation of a range in one view. Only a record in state COMMITTED is ever read (L8).

use prost::Message;

use super::{wire, Key, Record, RecordType, TargetId, TaskId};
use crate::error::Result;
use crate::types::{CommitId, Generation, Offset, ReadView, StreamId};

/// Where a generation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GenerationState {
    /// Announced, never read.
    Prepared,
    /// Published after its sources and its target were checked again.
    Committed,
    /// Out of use; its number is never used again (L9).
    Retired,
}

/// What the generation was made from, enough to prove that the sources are still the committed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceSnapshot {
    /// The task that froze the sources.
    pub task: TaskId,
    /// The oldest commit.
    pub first_commit: CommitId,
    /// The newest commit.
    pub last_commit: CommitId,
    /// Commits, at least 1.
    pub commits: u64,
    /// CRC32C over commit ids and checksums of the sources, in offset order.
    pub crc32c: u32,
}

/// The index record of one generation of `[start, end)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationIndex {
    /// The stream.
    pub stream: StreamId,
    /// The view; views never answer for each other (L10).
    pub view: ReadView,
    /// First offset.
    pub start: Offset,
    /// One past the last offset.
    pub end: Offset,
    /// Number of the generation.
    pub generation: Generation,
    /// Where it stands.
    pub state: GenerationState,
    /// Exactly where the bytes are.
    pub target: TargetId,
    /// SHA-256 of the whole object; `None` for generation 0, whose frames carry their own checksums.
    pub digest: Option<[u8; 32]>,
    /// Its sources; `None` for generation 0.
    pub source: Option<SourceSnapshot>,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(uint32, tag = "2")]
    view: u32,
    #[prost(uint64, tag = "3")]
    start: u64,
    #[prost(uint64, tag = "4")]
    end: u64,
    #[prost(uint64, tag = "5")]
    generation: u64,
    #[prost(uint32, tag = "6")]
    state: u32,
    #[prost(message, optional, tag = "7")]
    target: Option<wire::TargetId>,
    #[prost(bytes = "vec", optional, tag = "8")]
    digest: Option<Vec<u8>>,
    #[prost(message, optional, tag = "9")]
    source: Option<WireSource>,
}

#[derive(Clone, PartialEq, Message)]
struct WireSource {
    #[prost(bytes = "vec", tag = "1")]
    task: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    first_commit: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    last_commit: Vec<u8>,
    #[prost(uint64, tag = "4")]
    commits: u64,
    #[prost(fixed32, tag = "5")]
    crc32c: u32,
}

impl Record for GenerationIndex {
    const TYPE: RecordType = RecordType::GenerationIndex;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 8 * 1024;

    fn key(&self) -> Result<Key> {
        Ok(Key::generation_index(self.stream, self.view, self.end, self.generation))
    }

    fn check(&self) -> std::result::Result<(), String> {
        wire::check_offset(self.end, "the end")?;
        self.target.check()?;
        if self.start >= self.end {
            return Err(format!("the range {}..{} is empty", self.start, self.end));
        }
        let made = self.generation.get() > 0;
        if made != self.digest.is_some() || made != self.source.is_some() {
            return Err(format!(
                "generation {}: digest and sources belong to generations from 1 on",
                self.generation
            ));
        }
        match self.source {
            Some(source) if source.commits == 0 => Err("made from no commits".into()),
            _ => Ok(()),
        }
    }

    fn to_body(&self) -> Vec<u8> {
        let state = match self.state {
            GenerationState::Prepared => 1,
            GenerationState::Committed => 2,
            GenerationState::Retired => 3,
        };
        let source = self.source.map(|source| WireSource {
            task: source.task.to_bytes().to_vec(),
            first_commit: source.first_commit.to_bytes().to_vec(),
            last_commit: source.last_commit.to_bytes().to_vec(),
            commits: source.commits,
            crc32c: source.crc32c,
        });
        Body {
            stream: self.stream.to_bytes().to_vec(),
            view: u32::from(self.view.number()),
            start: self.start.get(),
            end: self.end.get(),
            generation: self.generation.get(),
            state,
            target: Some(self.target.to_wire()),
            digest: self.digest.map(|digest| digest.to_vec()),
            source,
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let state = match body.state {
            1 => GenerationState::Prepared,
            2 => GenerationState::Committed,
            3 => GenerationState::Retired,
            other => return Err(format!("no state has number {other}")),
        };
        let digest = body
            .digest
            .map(|d| d.try_into().map_err(|_| "the digest is not 32 bytes long".to_owned()));
        let source = body.source.map(|source| {
            Ok::<_, String>(SourceSnapshot {
                task: TaskId::from_bytes(wire::id16(&source.task, "the task id")?),
                first_commit: CommitId::from_bytes(wire::id16(&source.first_commit, "the first commit")?),
                last_commit: CommitId::from_bytes(wire::id16(&source.last_commit, "the last commit")?),
                commits: source.commits,
                crc32c: source.crc32c,
            })
        });
        Ok(GenerationIndex {
            stream: wire::stream(&body.stream)?,
            view: wire::view(body.view)?,
            start: Offset::new(body.start),
            end: Offset::new(body.end),
            generation: Generation::new(body.generation),
            state,
            target: TargetId::from_wire(body.target)?,
            digest: digest.transpose()?,
            source: source.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{record_suite, streams, targets, tasks, views};
    use super::*;

    fn indexes() -> impl Strategy<Value = GenerationIndex> {
        let states = prop_oneof![
            Just(GenerationState::Prepared),
            Just(GenerationState::Committed),
            Just(GenerationState::Retired),
        ];
        let source = (tasks(), any::<u128>(), any::<u128>(), 1..=u64::MAX, any::<u32>());
        let range = (0u64..1 << 40, 1u64..1 << 20);
        (
            streams(),
            views(),
            range,
            0u64..4,
            states,
            targets(),
            any::<[u8; 32]>(),
            source,
        )
            .prop_map(
                |(stream, view, (start, count), generation, state, target, digest, source)| {
                    let made = generation > 0;
                    let source = SourceSnapshot {
                        task: source.0,
                        first_commit: CommitId::new(source.1),
                        last_commit: CommitId::new(source.2),
                        commits: source.3,
                        crc32c: source.4,
                    };
                    GenerationIndex {
                        stream,
                        view,
                        start: Offset::new(start),
                        end: Offset::new(start + count),
                        generation: Generation::new(generation),
                        state,
                        target,
                        digest: made.then_some(digest),
                        source: made.then_some(source),
                    }
                },
            )
    }

    record_suite!(GenerationIndex, indexes());

    proptest! {
        #[test]
        fn a_made_generation_names_digest_and_sources(mut index in indexes()) {
            index.digest = index.digest.xor(Some([0; 32]));
            prop_assert!(index.encode().is_err());
        }

        #[test]
        fn an_empty_range_is_refused(mut index in indexes()) {
            index.start = index.end;
            prop_assert!(index.encode().is_err());
        }
    }
}
