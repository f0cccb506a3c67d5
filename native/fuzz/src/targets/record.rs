//! Every durable record, under its key. Input: length of the key (2 bytes), key, value. Begins with the values that released
//! versions wrote, and with cursor pages and heads of any size.

use bytes::Bytes;
use nereus_core::commit::{Commit, ReadTarget, StreamHead, FOLD, RING};
use nereus_core::record::envelope::{self, HEADER_BYTES};
use nereus_core::record::{self, *};
use nereus_core::types::{CommitId, CommitVersion, Incarnation, Offset, OwnerEpoch};
use roaring::RoaringBitmap;

use super::{demand, stream, Target};
use crate::mutate;
use crate::random::Random;

pub const TARGET: Target = Target {
    name: "record",
    weight: 4000,
    valid,
    twist,
    mend,
    check,
    factor: 1024,
    constant: 8 << 20,
};

macro_rules! golden {
    ($($name:literal),*) => { &[$(include_bytes!(concat!("../../../core/tests/golden/", $name, ".bin"))),*] };
}

const GOLDEN: &[&[u8]] = golden!(
    "v1/Binding",
    "v1/Cluster",
    "v1/CommitPage",
    "v1/CursorIndex",
    "v1/CursorPage",
    "v1/CursorRoot",
    "v2/CursorRoot",
    "v2/CursorRoot.deleted",
    "v1/GenerationCounter",
    "v1/GenerationIndex",
    "v1/LedgerGrant",
    "v1/PhysicalRoot",
    "v1/Quarantine",
    "v1/StreamHead",
    "v1/StreamProperties",
    "v1/StreamProperties.ledger",
    "v1/Task",
    "v1/TrimMark"
);

fn valid(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 | 1 => join(&cursor_page(random)),
        2 => join(&head(random)),
        3 => join(&commit_page(random)),
        _ => GOLDEN[random.index(GOLDEN.len())].to_vec(),
    }
}

fn join<R: Record>(record: &R) -> Vec<u8> {
    let (key, value) = (record.key(), record.encode());
    let (Ok(key), Ok(value)) = (key, value) else {
        return Vec::new();
    };
    let length = u16::try_from(key.as_bytes().len()).unwrap_or(u16::MAX).to_be_bytes();
    [&length, key.as_bytes(), &value].concat()
}

fn bitmap(random: &mut Random) -> Bytes {
    let mut bitmap = RoaringBitmap::new();
    for _ in 0..random.below(8) {
        let from = random.below(65_536) as u32;
        let to = from.saturating_add(random.below(6000) as u32).min(65_535);
        match random.below(3) {
            0 => drop(bitmap.insert_range(from..=to)),
            1 => bitmap.extend((from..=to).step_by(2)),
            _ => drop(bitmap.insert(from)),
        }
    }
    if random.chance(60) {
        bitmap.optimize();
    }
    let mut out = Vec::new();
    // Writing to memory cannot fail.
    let _ = bitmap.serialize_into(&mut out);
    out.into()
}

fn cursor_page(random: &mut Random) -> CursorPage {
    let batches = (0..random.below(6)).map(|_| {
        let words = (0..=random.below(40)).map(|_| random.draw() as i64).collect();
        (random.draw() as u16, words)
    });
    CursorPage {
        batches: batches.collect(),
        stream: stream(random),
        name: format!("c{}", random.text(9)),
        page: random.below(1 << 40),
        chunk: 0,
        version: random.draw(),
        acked: bitmap(random),
    }
}

fn commits(random: &mut Random, count: usize, from: u64) -> Vec<Commit> {
    let mut start = Offset::new(from);
    (0..count)
        .map(|_| {
            let commit = Commit {
                id: CommitId::new(u128::from(random.draw()).max(1)),
                start,
                count: random.below(5000).max(1) as u32,
                bytes: random.below(1 << 30),
                messages: random.draw(),
                append_millis: random.edge(),
                target: match random.chance(50) {
                    true => ReadTarget::Memory { slice: random.edge() },
                    false => ReadTarget::Journal {
                        segment: random.edge(),
                        position: random.below(1 << 40),
                        length: random.below(1 << 30).max(1),
                    },
                },
                crc32c: random.draw() as u32,
            };
            start = commit.end().unwrap_or(start);
            commit
        })
        .collect()
}

fn commit_page(random: &mut Random) -> CommitPage {
    let from = random.below(1 << 40);
    CommitPage {
        stream: stream(random),
        bytes_before: random.below(1 << 50),
        latest_before: random.edge(),
        commits: commits(random, FOLD, from),
    }
}

fn head(random: &mut Random) -> StreamHead {
    let mut head = StreamHead::new(stream(random), Incarnation::new(random.below(9).max(1)), random.edge());
    head.owner_epoch = OwnerEpoch::new(random.below(99));
    head.owner = random.text(20).into();
    head.version = CommitVersion::new(random.below(1 << 40).max(1));
    let count = random.index(RING * 2);
    for commit in commits(random, count, 0) {
        drop(head.commit(commit));
    }
    head
}

fn split(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = input.split_at_checked(2)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// Damage to the body as protobuf; now and then to all of it.
fn twist(input: &mut Vec<u8>, random: &mut Random) {
    let body = split(input).and_then(|(_, value)| value.get(HEADER_BYTES..));
    match body.map(<[u8]>::to_vec) {
        Some(mut body) if random.chance(85) => {
            let at = input.len() - body.len();
            match random.chance(70) {
                true => mutate::protobuf(&mut body, random),
                false => mutate::bytes(&mut body, random),
            }
            input.truncate(at);
            input.extend_from_slice(&body);
        }
        _ => mutate::bytes(input, random),
    }
}

/// Puts the body into an envelope of the kind that the key names.
fn mend(input: &mut Vec<u8>) {
    let Some((key, value)) = split(input) else { return };
    let kind = key.first().copied().and_then(RecordType::from_number);
    if let (Some(kind), Some(body)) = (kind, value.get(HEADER_BYTES..)) {
        let version = u16::from_be_bytes([value[2], value[3]]).clamp(1, 2);
        let sealed = envelope::seal(kind, version, body);
        let at = input.len() - value.len();
        input.truncate(at);
        input.extend_from_slice(&sealed);
    }
}

fn check(input: &[u8]) -> Result<bool, String> {
    let Some((key, value)) = split(input) else {
        return Ok(false);
    };
    let Ok(key) = Key::from_bytes(Bytes::copy_from_slice(key)) else {
        return Ok(false);
    };
    let verified = record::verify(&key, value).is_ok();
    let Some(kind) = key.kind() else {
        return Err(format!("key {key} was accepted and has no kind"));
    };
    let decoded = match kind {
        RecordType::Cluster => both::<Cluster>(&key, value),
        RecordType::Binding => both::<Binding>(&key, value),
        RecordType::LedgerGrant => both::<LedgerGrant>(&key, value),
        RecordType::StreamHead => both::<StreamHead>(&key, value),
        RecordType::StreamProperties => both::<StreamProperties>(&key, value),
        RecordType::CommitPage => both::<CommitPage>(&key, value),
        RecordType::TrimMark => both::<TrimMark>(&key, value),
        RecordType::GenerationIndex => both::<GenerationIndex>(&key, value),
        RecordType::GenerationCounter => both::<GenerationCounter>(&key, value),
        RecordType::Quarantine => both::<Quarantine>(&key, value),
        RecordType::CursorRoot => both::<CursorRoot>(&key, value),
        RecordType::CursorIndex => both::<CursorIndex>(&key, value),
        RecordType::CursorPage => both::<CursorPage>(&key, value),
        RecordType::Task => both::<Task>(&key, value),
        RecordType::PhysicalRoot => both::<PhysicalRoot>(&key, value),
    }?;
    demand(decoded == verified, || {
        format!("{key}: verify says {verified}, decode says {decoded}")
    })?;
    Ok(decoded)
}

/// The value as it stands, and its body alone under whatever key it says it belongs.
fn both<R: Record + PartialEq>(key: &Key, value: &[u8]) -> Result<bool, String> {
    let decoded = R::decode(key, value).ok();
    if let Some(record) = &decoded {
        let again = record
            .encode()
            .map_err(|e| format!("{key} was read and cannot be written: {e}"))?;
        let read = R::decode(key, &again).map_err(|e| format!("{key} was written and cannot be read: {e}"))?;
        demand(read == *record, || {
            format!("{key} was read, written and read as another value")
        })?;
    }
    let body = value.get(HEADER_BYTES..).filter(|_| decoded.is_none());
    let record = body.and_then(|body| R::from_body(R::VERSION, body).ok());
    if let Some(record) = record.filter(|record| record.check().is_ok()) {
        // A body may be too large for its record, or name no key.
        if let (Ok(key), Ok(written)) = (record.key(), record.encode()) {
            let read = R::decode(&key, &written).map_err(|e| format!("{key} was written and cannot be read: {e}"))?;
            demand(read == record, || {
                format!("{key} was written and read as another value")
            })?;
        }
    }
    Ok(decoded.is_some())
}
