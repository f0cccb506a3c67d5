//! `StreamHead`: the durable form of [`commit::StreamHead`](crate::commit::StreamHead). Written only through `commit::Log`.

use std::collections::VecDeque;

use prost::Message;

use super::wire::{self, WireCommit};
use super::{Key, Record, RecordType};
use crate::commit::{StreamHead, RING};
use crate::error::Result;
use crate::types::{CommitId, CommitVersion, Incarnation, Offset, OwnerEpoch};

/// Longest name of an owner, in bytes.
pub const MAX_OWNER_BYTES: usize = 1024;

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(uint64, tag = "2")]
    incarnation: u64,
    #[prost(uint64, tag = "3")]
    owner_epoch: u64,
    #[prost(string, tag = "4")]
    owner: String,
    #[prost(uint64, tag = "5")]
    version: u64,
    #[prost(uint64, tag = "6")]
    end: u64,
    #[prost(uint64, tag = "7")]
    trim: u64,
    #[prost(bytes = "vec", tag = "8")]
    last_commit: Vec<u8>,
    #[prost(uint64, tag = "9")]
    total_bytes: u64,
    #[prost(uint64, tag = "10")]
    trimmed_bytes: u64,
    #[prost(bool, tag = "11")]
    terminated: bool,
    #[prost(bool, tag = "12")]
    migrated: bool,
    #[prost(uint64, tag = "13")]
    created_millis: u64,
    #[prost(uint64, tag = "14")]
    last_append_millis: u64,
    #[prost(message, repeated, tag = "15")]
    ring: Vec<WireCommit>,
    #[prost(uint64, tag = "16")]
    folded_append_millis: u64,
}

impl Record for StreamHead {
    const TYPE: RecordType = RecordType::StreamHead;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 16 * 1024;

    fn key(&self) -> Result<Key> {
        Ok(Key::stream_head(self.stream))
    }

    fn check(&self) -> std::result::Result<(), String> {
        wire::check_text(&self.owner, "the owner", MAX_OWNER_BYTES)?;
        wire::check_offset(self.end, "the committed end")?;
        if self.incarnation.get() == 0 || self.version.get() == 0 {
            return Err(format!(
                "incarnation {} or version {} is 0",
                self.incarnation, self.version
            ));
        }
        if self.trim > self.end {
            return Err(format!("trimmed to {} past the committed end {}", self.trim, self.end));
        }
        if self.trimmed_bytes > self.total_bytes {
            return Err(format!("{} bytes trimmed of {}", self.trimmed_bytes, self.total_bytes));
        }
        let in_ring = self
            .ring
            .iter()
            .try_fold(0u64, |sum, commit| sum.checked_add(commit.bytes));
        if in_ring.is_none_or(|bytes| bytes > self.total_bytes) {
            return Err(format!(
                "the commits of the ring have more than the {} bytes of the stream",
                self.total_bytes
            ));
        }
        if self.ring.len() > RING {
            return Err(format!("{} commits in the ring of {RING}", self.ring.len()));
        }
        // The newest commit never leaves the ring: a head that has committed names where its last entry is.
        let end = wire::check_commits_touch(&self.ring)?.unwrap_or(Offset::ZERO);
        if end != self.end {
            return Err(format!("the ring ends at {end}, the committed end is {}", self.end));
        }
        let newest = self.ring.back().map_or(CommitId::NONE, |commit| commit.id);
        if newest != self.last_commit {
            return Err(format!(
                "the last commit is {}, the newest in the ring is {newest}",
                self.last_commit
            ));
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        Body {
            stream: self.stream.to_bytes().to_vec(),
            incarnation: self.incarnation.get(),
            owner_epoch: self.owner_epoch.get(),
            owner: self.owner.to_string(),
            version: self.version.get(),
            end: self.end.get(),
            trim: self.trim.get(),
            last_commit: self.last_commit.to_bytes().to_vec(),
            total_bytes: self.total_bytes,
            trimmed_bytes: self.trimmed_bytes,
            terminated: self.terminated,
            migrated: self.migrated,
            created_millis: self.created_millis,
            last_append_millis: self.last_append_millis,
            ring: self.ring.iter().map(WireCommit::of).collect(),
            folded_append_millis: self.folded_append_millis,
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        Ok(StreamHead {
            stream: wire::stream(&body.stream)?,
            incarnation: Incarnation::new(body.incarnation),
            owner_epoch: OwnerEpoch::new(body.owner_epoch),
            owner: body.owner.into(),
            version: CommitVersion::new(body.version),
            end: Offset::new(body.end),
            trim: Offset::new(body.trim),
            last_commit: CommitId::from_bytes(wire::id16(&body.last_commit, "the last commit")?),
            total_bytes: body.total_bytes,
            trimmed_bytes: body.trimmed_bytes,
            terminated: body.terminated,
            migrated: body.migrated,
            created_millis: body.created_millis,
            last_append_millis: body.last_append_millis,
            folded_append_millis: body.folded_append_millis,
            ring: body
                .ring
                .into_iter()
                .map(WireCommit::into_commit)
                .collect::<std::result::Result<VecDeque<_>, _>>()?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::testing::{commits, record_suite, streams};
    use super::*;

    pub(in crate::record) fn heads() -> impl Strategy<Value = StreamHead> {
        let numbers = (
            1..=u64::MAX,
            any::<u64>(),
            1..=u64::MAX,
            0..=u64::MAX / 2,
            any::<u64>(),
            any::<u64>(),
        );
        let flags = (
            any::<bool>(),
            any::<bool>(),
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
        );
        (streams(), commits(0..=RING), numbers, "\\PC{0,40}", flags).prop_map(
            |(stream, ring, (incarnation, epoch, version, older, created, last), owner, (t, m, trim, trimmed))| {
                let total = ring.iter().fold(older, |sum, commit| sum + commit.bytes);
                let end = ring.last().and_then(Commit::end).unwrap_or(Offset::ZERO);
                StreamHead {
                    stream,
                    incarnation: Incarnation::new(incarnation),
                    owner_epoch: OwnerEpoch::new(epoch),
                    owner: owner.into(),
                    version: CommitVersion::new(version),
                    end,
                    trim: Offset::new(trim.index(end.get() as usize + 1) as u64),
                    last_commit: ring.last().map_or(CommitId::NONE, |commit| commit.id),
                    total_bytes: total,
                    trimmed_bytes: trimmed.index((total as usize).saturating_add(1)) as u64,
                    terminated: t,
                    migrated: m,
                    created_millis: created,
                    last_append_millis: last,
                    folded_append_millis: older,
                    ring: ring.into(),
                }
            },
        )
    }

    record_suite!(StreamHead, heads());

    use crate::commit::Commit;
    use crate::types::StreamId;

    fn head() -> StreamHead {
        let commit = |id, start, count| Commit {
            id: CommitId::new(id),
            start: Offset::new(start),
            count,
            bytes: 10,
            messages: 1,
            append_millis: 1,
            target: crate::commit::ReadTarget::Memory { slice: 1 },
            crc32c: 0,
        };
        StreamHead {
            stream: StreamId::new(1),
            incarnation: Incarnation::new(1),
            owner_epoch: OwnerEpoch::new(1),
            owner: "broker".into(),
            version: CommitVersion::new(3),
            end: Offset::new(5),
            trim: Offset::new(2),
            last_commit: CommitId::new(2),
            total_bytes: 20,
            trimmed_bytes: 10,
            terminated: false,
            migrated: false,
            created_millis: 1,
            last_append_millis: 2,
            folded_append_millis: 0,
            ring: [commit(1, 0, 2), commit(2, 2, 3)].into(),
        }
    }

    #[test]
    fn l04_a_ring_with_a_gap_an_overlap_or_a_wrong_end_is_refused() {
        head().encode().unwrap();
        type Break = fn(&mut StreamHead);
        let breaks: [(Break, &str); 8] = [
            (|h| h.ring[1].start = Offset::new(3), "the one before ends at 2"),
            (|h| h.ring[1].start = Offset::new(1), "the one before ends at 2"),
            (|h| h.end = Offset::new(6), "the ring ends at 5"),
            (|h| h.ring.clear(), "the ring ends at 0"),
            (|h| h.trim = Offset::new(6), "past the committed end"),
            (|h| h.last_commit = CommitId::new(9), "the last commit is"),
            (|h| h.trimmed_bytes = 21, "21 bytes trimmed of 20"),
            (|h| h.total_bytes = 19, "more than the 19 bytes"),
        ];
        for (change, expected) in breaks {
            let mut broken = head();
            change(&mut broken);
            // Written as the bytes would be, so that the check of the reader is what refuses them.
            let raw = envelope::seal(StreamHead::TYPE, 1, &broken.to_body());
            let error = StreamHead::decode(&broken.key().unwrap(), &raw)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error} does not say {expected}");
            assert!(broken.encode().is_err(), "{expected}");
        }
    }
}
