//! `Task`: one materialization, with its sources frozen, so that a retry writes the same object byte for byte.

use std::fmt;

use prost::Message;

use super::wire::{self, WireCommit};
use super::{Key, Record, RecordType};
use crate::commit::Commit;
use crate::error::Result;
use crate::types::{Generation, Offset, ReadView, StreamId};

/// Most streams packed into one object.
pub const MAX_PARTS: usize = 1024;
/// Most sources of one task, over all its parts.
pub const MAX_SOURCES: usize = 4096;

/// Identity of a task; the name of its object is derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(u128);

impl TaskId {
    /// The id with this value.
    pub const fn new(value: u128) -> Self {
        TaskId(value)
    }

    /// Big-endian bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id written by [`TaskId::to_bytes`].
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        TaskId(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Sources frozen, number taken, sources protected.
    Frozen,
    /// The object is written and was read back.
    Written,
    /// Index records are published.
    Published,
    /// Given up; what it wrote is reclaimed.
    Abandoned,
}

/// One committed generation-0 source: its place and checksum are frozen with it.
pub type TaskSource = Commit;

/// What the object holds of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPart {
    /// The stream.
    pub stream: StreamId,
    /// The view it is made for.
    pub view: ReadView,
    /// The number taken from the view's counter; at least 1.
    pub generation: Generation,
    /// The sources, each starting where the one before ends.
    pub sources: Vec<TaskSource>,
}

impl TaskPart {
    /// The range `[start, end)` of the part.
    pub fn range(&self) -> (Offset, Offset) {
        let start = self.sources.first().map_or(Offset::ZERO, |source| source.start);
        (start, self.sources.last().and_then(Commit::end).unwrap_or(start))
    }
}

/// A materialization task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Identity.
    pub id: TaskId,
    /// Where it stands.
    pub state: TaskState,
    /// How often it was started.
    pub attempt: u32,
    /// Name of the object it writes.
    pub target: String,
    /// 1 to [`MAX_PARTS`] streams.
    pub parts: Vec<TaskPart>,
    /// Broker clock at the freeze, milliseconds.
    pub created_millis: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(uint32, tag = "2")]
    state: u32,
    #[prost(uint32, tag = "3")]
    attempt: u32,
    #[prost(string, tag = "4")]
    target: String,
    #[prost(message, repeated, tag = "5")]
    parts: Vec<WirePart>,
    #[prost(uint64, tag = "6")]
    created_millis: u64,
}

#[derive(Clone, PartialEq, Message)]
struct WirePart {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(uint32, tag = "2")]
    view: u32,
    #[prost(uint64, tag = "3")]
    generation: u64,
    #[prost(message, repeated, tag = "4")]
    sources: Vec<WireCommit>,
}

impl Record for Task {
    const TYPE: RecordType = RecordType::Task;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 768 * 1024;

    fn key(&self) -> Result<Key> {
        Ok(Key::task(self.id))
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.target.is_empty() {
            return Err("names no object".into());
        }
        wire::check_text(&self.target, "the object name", super::key::MAX_NAME_BYTES)?;
        if self.parts.is_empty() || self.parts.len() > MAX_PARTS {
            return Err(format!("{} parts; 1 to {MAX_PARTS} are allowed", self.parts.len()));
        }
        let sources: usize = self.parts.iter().map(|part| part.sources.len()).sum();
        if sources > MAX_SOURCES {
            return Err(format!("{sources} sources, at most {MAX_SOURCES} are allowed"));
        }
        for part in &self.parts {
            if part.sources.is_empty() || part.generation.get() == 0 {
                return Err(format!(
                    "the part of stream {} has no sources or no generation",
                    part.stream
                ));
            }
            wire::check_commits_touch(&part.sources)?;
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        let state = match self.state {
            TaskState::Frozen => 1,
            TaskState::Written => 2,
            TaskState::Published => 3,
            TaskState::Abandoned => 4,
        };
        let wire_part = |part: &TaskPart| WirePart {
            stream: part.stream.to_bytes().to_vec(),
            view: u32::from(part.view.number()),
            generation: part.generation.get(),
            sources: part.sources.iter().map(WireCommit::of).collect(),
        };
        Body {
            id: self.id.to_bytes().to_vec(),
            state,
            attempt: self.attempt,
            target: self.target.clone(),
            parts: self.parts.iter().map(wire_part).collect(),
            created_millis: self.created_millis,
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let state = match body.state {
            1 => TaskState::Frozen,
            2 => TaskState::Written,
            3 => TaskState::Published,
            4 => TaskState::Abandoned,
            other => return Err(format!("no state has number {other}")),
        };
        let part = |part: WirePart| {
            Ok(TaskPart {
                stream: wire::stream(&part.stream)?,
                view: wire::view(part.view)?,
                generation: Generation::new(part.generation),
                sources: part
                    .sources
                    .into_iter()
                    .map(WireCommit::into_commit)
                    .collect::<std::result::Result<_, _>>()?,
            })
        };
        Ok(Task {
            id: TaskId::from_bytes(wire::id16(&body.id, "the task id")?),
            state,
            attempt: body.attempt,
            target: body.target,
            parts: body
                .parts
                .into_iter()
                .map(part)
                .collect::<std::result::Result<_, String>>()?,
            created_millis: body.created_millis,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{commits, names, record_suite, streams, tasks, views};
    use super::*;

    fn all() -> impl Strategy<Value = Task> {
        let states = prop_oneof![
            Just(TaskState::Frozen),
            Just(TaskState::Written),
            Just(TaskState::Published),
            Just(TaskState::Abandoned),
        ];
        let part =
            (streams(), views(), 1..=u64::MAX, commits(1..=5)).prop_map(|(stream, view, generation, sources)| {
                TaskPart {
                    stream,
                    view,
                    generation: Generation::new(generation),
                    sources,
                }
            });
        (
            tasks(),
            states,
            any::<u32>(),
            names(),
            prop::collection::vec(part, 1..4),
            any::<u64>(),
        )
            .prop_map(|(id, state, attempt, target, parts, created_millis)| Task {
                id,
                state,
                attempt,
                target,
                parts,
                created_millis,
            })
    }

    record_suite!(Task, all());

    proptest! {
        #[test]
        fn parts_without_sources_or_with_gaps_are_refused(task in all(), sources in commits(3..=3)) {
            let mut empty = task.clone();
            empty.parts[0].sources.clear();
            prop_assert!(empty.encode().is_err());
            let mut gap = task;
            gap.parts[0].sources = vec![sources[0], sources[2]];
            prop_assert!(gap.encode().is_err());
        }
    }

    #[test]
    fn the_range_of_a_part_is_that_of_its_sources() {
        use proptest::strategy::ValueTree;
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let task = all().new_tree(&mut runner).unwrap().current();
        for part in &task.parts {
            let (start, end) = part.range();
            let entries: u64 = part.sources.iter().map(|source| u64::from(source.count)).sum();
            assert_eq!(end.distance_from(start), Some(entries));
        }
    }
}
