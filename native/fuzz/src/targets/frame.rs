//! Frames of the journal with everything inside, and head changes alone. Input: the bytes of one.

use bytes::Bytes;
use nereus_core::commit::HeadChange;
use nereus_core::env::AlignedBuffer;
use nereus_core::journal::frame::{self, Descriptor, Frame, Header, Part, Scope, FIXED};
use nereus_core::journal::{commit_of, decode_change, encode_change};
use nereus_core::metadata::Version;
use nereus_core::types::{CommitId, CommitVersion, Incarnation, Offset, OwnerEpoch};

use super::{demand, key, nothing, stream, Target};
use crate::mutate;
use crate::random::Random;

pub const TARGET: Target = Target {
    name: "frame",
    weight: 2000,
    valid,
    twist,
    mend: |input| mend(input),
    check,
    factor: 128,
    constant: 64 << 10,
};

pub const CHANGE: Target = Target {
    name: "change",
    weight: 500,
    valid: |random| encode_change(&change(random)).to_vec(),
    twist: mutate::bytes,
    mend: nothing,
    check: check_change,
    factor: 16,
    constant: 4096,
};

/// A frame of up to ten deltas.
pub fn encode(header: &Header, random: &mut Random) -> Vec<u8> {
    let deltas: Vec<(Descriptor, Part)> = (0..random.below(10)).map(|_| delta(random)).collect();
    let witnesses: Vec<Scope> = (0..random.below(5))
        .map(|_| random.chance(80).then(|| stream(random)))
        .collect();
    let mut out = AlignedBuffer::default();
    frame::encode(header, &deltas, &witnesses, &mut out);
    out.to_vec()
}

fn valid(random: &mut Random) -> Vec<u8> {
    let header = Header {
        segment: random.edge(),
        sequence: random.edge(),
        durable_through: random.edge(),
        run: random.draw(),
        time_millis: random.edge(),
    };
    encode(&header, random)
}

fn delta(random: &mut Random) -> (Descriptor, Part) {
    match random.below(3) {
        0 => {
            let entries: Vec<(Bytes, u32)> = (0..=random.below(4))
                .map(|_| {
                    let length = random.index(60);
                    let entry = random.bytes(length);
                    let crc = crc32c::crc32c(&entry);
                    (entry.into(), crc)
                })
                .collect();
            let descriptor = Descriptor::Slice {
                stream: stream(random),
                incarnation: Incarnation::new(random.edge()),
                epoch: OwnerEpoch::new(random.edge()),
                start: Offset::new(random.edge()),
                count: entries.len() as u32,
                bytes: entries.iter().map(|(entry, _)| entry.len() as u64).sum(),
                messages: random.edge(),
                previous: CommitId::new(u128::from(random.draw())),
                id: CommitId::new(u128::from(random.draw())),
                makes: CommitVersion::new(random.edge()),
            };
            (descriptor, Part::Entries(entries))
        }
        1 => {
            let descriptor = Descriptor::Change {
                stream: stream(random),
                makes: CommitVersion::new(random.edge()),
            };
            (descriptor, Part::Plain(encode_change(&change(random))))
        }
        _ => {
            let length = random.index(80);
            let delete = random.chance(30);
            let descriptor = Descriptor::Write {
                key: key::any(random),
                onto: random.chance(50).then(|| Version(random.edge().max(1))),
                makes: Version(random.edge()),
                delete,
            };
            let value = if delete { Vec::new() } else { random.bytes(length) };
            (descriptor, Part::Plain(value.into()))
        }
    }
}

fn change(random: &mut Random) -> HeadChange {
    match random.below(5) {
        0 => HeadChange::Create {
            stream: stream(random),
            incarnation: Incarnation::new(random.edge()),
            created_millis: random.edge(),
        },
        1 => HeadChange::Claim {
            owner: random.text(60).into(),
        },
        2 => HeadChange::Trim {
            epoch: OwnerEpoch::new(random.edge()),
            before: Offset::new(random.edge()),
            trimmed_bytes: random.edge(),
        },
        3 => HeadChange::Terminate {
            epoch: OwnerEpoch::new(random.edge()),
        },
        _ => HeadChange::Delete {
            epoch: random.chance(50).then(|| OwnerEpoch::new(random.edge())),
        },
    }
}

/// Damage mostly to header and table, where all the decoding is.
fn twist(input: &mut Vec<u8>, random: &mut Random) {
    let end = Frame::decode(input)
        .map_or(FIXED, |frame| frame.head_bytes)
        .min(input.len());
    if random.chance(75) {
        let mut front = input[..end].to_vec();
        mutate::bytes(&mut front, random);
        // In place mostly: what follows keeps its place.
        if random.chance(80) {
            front.resize(end, 0);
        }
        input.splice(..end, front);
    } else {
        mutate::bytes(input, random);
    }
}

/// Makes the checksums right: of each part that the table names, of the body, of header and table.
pub fn mend(input: &mut [u8]) {
    mend_body(input);
    mend_head(input);
    let Ok(frame) = Frame::decode(input) else { return };
    let mut row = FIXED;
    for (descriptor, placed) in &frame.deltas {
        row += descriptor.table_bytes();
        let (from, length) = (placed.position as usize, placed.length as usize);
        let Some(part) = from.checked_add(length).and_then(|end| input.get(from..end)) else {
            break;
        };
        let crc = crc32c::crc32c(part);
        put(input, row - 4, crc);
    }
    mend_head(input);
}

fn mend_body(input: &mut [u8]) {
    let Ok(sizes) = frame::sizes(input, input.len() as u64) else {
        return;
    };
    if let Some(rest) = input.get(sizes.head..sizes.total) {
        let crc = crc32c::crc32c(rest);
        put(input, 68, crc);
    }
}

fn mend_head(input: &mut [u8]) {
    let Ok(sizes) = frame::sizes(input, u64::MAX) else {
        return;
    };
    let (fixed, table) = (input.get(..FIXED - 4), input.get(FIXED..sizes.head));
    if let (Some(fixed), Some(table)) = (fixed, table) {
        let crc = crc32c::crc32c_append(crc32c::crc32c(fixed), table);
        put(input, FIXED - 4, crc);
    }
}

fn put(input: &mut [u8], at: usize, number: u32) {
    if let Some(place) = input.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

fn check(input: &[u8]) -> Result<bool, String> {
    let limited = frame::sizes(input, input.len() as u64);
    let Ok(frame) = Frame::decode(input) else {
        return Ok(false);
    };
    demand(frame.head_bytes <= input.len(), || {
        "the head of a frame ends past its bytes".into()
    })?;
    demand(frame.head_bytes <= frame.total_bytes, || {
        "a frame is shorter than its head".into()
    })?;
    let scopes = frame.scopes();
    demand(scopes.windows(2).all(|pair| pair[0] < pair[1]), || {
        "scopes are not ascending".into()
    })?;
    for (descriptor, placed) in &frame.deltas {
        let part = placed.part(input);
        let _ = commit_of(descriptor, placed, &frame.header, u64::MAX);
        match (descriptor, part) {
            (Descriptor::Slice { count, .. }, Some(part)) => drop(frame::entries(part, *count)),
            (Descriptor::Change { .. }, Some(part)) => drop(check_change(part)?),
            _ => {}
        }
    }
    let whole = limited.ok().and_then(|sizes| input.get(..sizes.total));
    let Some(whole) = whole.filter(|whole| frame.body_is_intact(whole)) else {
        return Ok(true);
    };
    again(&frame, whole)?;
    Ok(true)
}

/// A frame that is right in every part is written again from what was read.
fn again(frame: &Frame, whole: &[u8]) -> Result<(), String> {
    let part = |(descriptor, placed): &(Descriptor, frame::Placed)| {
        let part = placed.part(whole)?;
        Some((descriptor.clone(), Part::Plain(Bytes::copy_from_slice(part))))
    };
    let Some(deltas) = frame.deltas.iter().map(part).collect::<Option<Vec<_>>>() else {
        return Ok(());
    };
    let body_end = frame.deltas.last().map_or(frame.head_bytes, |(_, placed)| {
        placed.position as usize + placed.length as usize
    });
    if whole[body_end..].iter().any(|byte| *byte != 0) {
        return Ok(());
    }
    let mut out = AlignedBuffer::default();
    frame::encode(&frame.header, &deltas, &frame.witnesses, &mut out);
    demand(*out == *whole, || "a frame is read and written as other bytes".into())
}

fn check_change(input: &[u8]) -> Result<bool, String> {
    let Some(change) = decode_change(input) else {
        return Ok(false);
    };
    let again = encode_change(&change);
    demand(again == input, || {
        format!("{change:?} is read and written as other bytes")
    })?;
    Ok(true)
}
