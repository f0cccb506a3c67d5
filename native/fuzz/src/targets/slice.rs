//! Slices. Input: number of entries (4 bytes), slice.

use bytes::Bytes;
use nereus_core::commit::SliceEntry;
use nereus_core::journal::frame;
use nereus_core::wal::slice;

use super::{demand, Target};
use crate::mutate;
use crate::random::Random;

pub const TARGET: Target = Target {
    name: "slice",
    weight: 500,
    valid,
    twist: mutate::bytes,
    mend: |input| mend(input),
    check,
    factor: 48,
    constant: 4096,
};

fn valid(random: &mut Random) -> Vec<u8> {
    let entries: Vec<SliceEntry> = (0..random.below(12))
        .map(|_| {
            let length = random.index(50);
            let entry = random.bytes(length);
            SliceEntry {
                crc32c: crc32c::crc32c(&entry),
                entry: entry.into(),
            }
        })
        .collect();
    let (raw, _) = slice::encode(&entries);
    [&(entries.len() as u32).to_be_bytes()[..], &raw].concat()
}

/// Makes the entries' checksums right, as far as their lengths make sense.
fn mend(input: &mut [u8]) {
    let Some((count, raw)) = split(input) else { return };
    let Ok(entries) = frame::entries(raw, count) else {
        return;
    };
    let checksums: Vec<u32> = entries
        .iter()
        .map(|(range, _)| crc32c::crc32c(&raw[range.clone()]))
        .collect();
    for (row, crc) in input[4..].chunks_exact_mut(frame::ENTRY_ROW).zip(checksums) {
        row[4..].copy_from_slice(&crc.to_be_bytes());
    }
}

fn split(input: &[u8]) -> Option<(u32, &[u8])> {
    let (count, raw) = input.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*count), raw))
}

fn check(input: &[u8]) -> Result<bool, String> {
    let Some((count, raw)) = split(input) else {
        return Ok(false);
    };
    let ranges = frame::entries(raw, count);
    let Ok(slice) = slice::decode(&Bytes::copy_from_slice(raw), count) else {
        return Ok(false);
    };
    let (again, _) = slice::encode(&slice.entries);
    demand(again == raw, || "a slice is read and written as other bytes".into())?;
    let ranges = ranges.map_err(|e| format!("two readers of slices disagree: {e}"))?;
    demand(ranges.len() == slice.entries.len(), || {
        "two readers of slices disagree".into()
    })?;
    Ok(true)
}
