//! Contiguous commits as differences from one another: a page of a busy topic takes a third of the bytes that whole commits take.
//!
//! For each commit: a byte of flags, then the difference of the identity (or the identity, if the run changed), count, bytes, what messages
//! differ from count, the difference of the append time, CRC32C, and the place. Numbers are varints as in protobuf, those that may be
//! negative in zigzag form; differences wrap. Offsets are not stored: each commit starts where the one before ends.

use bytes::{Buf, BufMut};
use prost::encoding::{decode_varint, encode_varint};

use crate::commit::{Commit, ReadTarget};
use crate::types::{CommitId, Offset};

/// The identity follows whole.
const WHOLE_ID: u8 = 1;
/// The place is a slice of the memory WAL, not of the journal.
const MEMORY: u8 = 2;
/// Bytes of a slice beside those of its entries, for each entry.
const TABLE_ROW: u64 = 8;

/// What the next commit is told apart from.
#[derive(Default)]
struct Last {
    id: u128,
    append_millis: u64,
    segment: u64,
    position: u64,
}

/// Writes `commits`, which touch.
pub(super) fn encode(commits: &[Commit]) -> Vec<u8> {
    let mut out = Vec::with_capacity(commits.len().saturating_mul(24));
    let mut last = Last::default();
    for commit in commits {
        let id = u128::from_be_bytes(commit.id.to_bytes());
        let same_run = id >> 64 == last.id >> 64;
        let memory = matches!(commit.target, ReadTarget::Memory { .. });
        out.put_u8(if same_run { 0 } else { WHOLE_ID } | if memory { MEMORY } else { 0 });
        match same_run {
            true => difference(low(id), low(last.id), &mut out),
            false => out.put_u128(id),
        }
        encode_varint(u64::from(commit.count), &mut out);
        encode_varint(commit.bytes, &mut out);
        difference(commit.messages, u64::from(commit.count), &mut out);
        difference(commit.append_millis, last.append_millis, &mut out);
        out.put_u32(commit.crc32c);
        match commit.target {
            ReadTarget::Journal {
                segment,
                position,
                length,
            } => {
                difference(segment, last.segment, &mut out);
                difference(position, last.position, &mut out);
                difference(length, usual_length(commit.count, commit.bytes), &mut out);
                (last.segment, last.position) = (segment, position);
            }
            ReadTarget::Memory { slice } => encode_varint(slice, &mut out),
        }
        (last.id, last.append_millis) = (id, commit.append_millis);
    }
    out
}

/// Reads `count` commits, the first of which starts at `start`.
pub(super) fn decode(mut from: &[u8], start: Offset, count: usize) -> Result<Vec<Commit>, String> {
    // Each takes more bytes than this: a count that cannot be right does not ask for memory.
    if count > from.len() {
        return Err(format!("{count} commits in {} bytes", from.len()));
    }
    let mut commits = Vec::with_capacity(count);
    let (mut last, mut start) = (Last::default(), start);
    for _ in 0..count {
        let flags = from.try_get_u8().map_err(cut)?;
        if flags & !(WHOLE_ID | MEMORY) != 0 {
            return Err(format!("unknown flags {flags:#x} of a commit"));
        }
        let id = match flags & WHOLE_ID {
            0 => last.id >> 64 << 64 | u128::from(sum(low(last.id), &mut from)?),
            _ => from.try_get_u128().map_err(cut)?,
        };
        let entries = u32::try_from(varint(&mut from)?).map_err(|_| "a commit of too many entries")?;
        let bytes = varint(&mut from)?;
        let messages = sum(u64::from(entries), &mut from)?;
        let append_millis = sum(last.append_millis, &mut from)?;
        let crc32c = from.try_get_u32().map_err(cut)?;
        let target = match flags & MEMORY {
            0 => {
                last.segment = sum(last.segment, &mut from)?;
                last.position = sum(last.position, &mut from)?;
                ReadTarget::Journal {
                    segment: last.segment,
                    position: last.position,
                    length: sum(usual_length(entries, bytes), &mut from)?,
                }
            }
            _ => ReadTarget::Memory {
                slice: varint(&mut from)?,
            },
        };
        commits.push(Commit {
            id: CommitId::new(id),
            start,
            count: entries,
            bytes,
            messages,
            append_millis,
            target,
            crc32c,
        });
        (last.id, last.append_millis) = (id, append_millis);
        start = start
            .checked_add(u64::from(entries))
            .ok_or("commits past the last offset")?;
    }
    match from.is_empty() {
        true => Ok(commits),
        false => Err(format!("{} bytes behind the last commit", from.len())),
    }
}

/// What a slice takes in the journal: its table, then its entries.
fn usual_length(count: u32, bytes: u64) -> u64 {
    u64::from(count).wrapping_mul(TABLE_ROW).wrapping_add(bytes)
}

fn low(id: u128) -> u64 {
    // The upper half is compared as a whole.
    (id & u128::from(u64::MAX)) as u64
}

fn difference(value: u64, from: u64, out: &mut Vec<u8>) {
    let signed = i64::from_ne_bytes(value.wrapping_sub(from).to_ne_bytes());
    let zigzag = (signed << 1) ^ (signed >> 63);
    encode_varint(u64::from_ne_bytes(zigzag.to_ne_bytes()), out);
}

fn sum(to: u64, from: &mut &[u8]) -> Result<u64, String> {
    let zigzag = varint(from)?;
    Ok(to.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
}

fn varint(from: &mut &[u8]) -> Result<u64, String> {
    decode_varint(from).map_err(|e| e.to_string())
}

fn cut(_: bytes::TryGetError) -> String {
    "the commits are cut short".into()
}

#[cfg(test)]
mod tests {
    use super::super::testing::commits;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn commits_come_back(commits in commits(1..=40)) {
            let bytes = encode(&commits);
            prop_assert_eq!(decode(&bytes, commits[0].start, commits.len()), Ok(commits));
        }

        #[test]
        fn other_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), count in 0usize..40, start in any::<u64>()) {
            let _ = decode(&bytes, Offset::new(start), count);
        }

        #[test]
        fn cut_or_longer_bytes_are_refused(commits in commits(1..=9), cut in 1usize..9) {
            let mut bytes = encode(&commits);
            let start = commits[0].start;
            prop_assert!(decode(&bytes[..bytes.len() - cut.min(bytes.len())], start, commits.len()).is_err());
            bytes.push(0);
            prop_assert!(decode(&bytes, start, commits.len()).is_err());
        }
    }

    #[test]
    fn a_busy_topic_takes_a_third() {
        let commits: Vec<Commit> = (0..16u64)
            .map(|n| Commit {
                id: CommitId::new((7 << 64) | u128::from(900_000 + n * 620)),
                start: Offset::new(5_000_000 + n),
                count: 1,
                bytes: 1024,
                messages: 1,
                append_millis: 1_700_000_000_000 + n * 2,
                target: ReadTarget::Journal {
                    segment: 90,
                    position: 4096 + n * 700_000,
                    length: 1032,
                },
                crc32c: 0xdead_beef,
            })
            .collect();
        let bytes = encode(&commits).len();
        assert!(bytes < 16 * 19 + 30, "{bytes}");
    }
}
