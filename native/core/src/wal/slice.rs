//! The bytes of a slice: a table of (length, CRC32C) per entry, both 4 bytes big-endian, then the entries back to back.
//!
//! Promises: [`decode`] gives the entries that [`encode`] got, each verified, or says what is wrong; arbitrary bytes never panic.

use bytes::{BufMut, Bytes, BytesMut};

use crate::commit::{Slice, SliceEntry};

const TABLE_ROW: usize = 8;

/// Encodes entries with their checksums; gives the CRC32C over all of it too. An entry is below 4 GiB (bounded at the append).
pub fn encode(entries: &[SliceEntry]) -> (Bytes, u32) {
    let payload: usize = entries.iter().map(|e| e.entry.len()).sum();
    let mut out = BytesMut::with_capacity(entries.len() * TABLE_ROW + payload);
    for e in entries {
        out.put_u32(u32::try_from(e.entry.len()).unwrap_or(u32::MAX));
        out.put_u32(e.crc32c);
    }
    for e in entries {
        out.put_slice(&e.entry);
    }
    let out = out.freeze();
    let crc = crc32c::crc32c(&out);
    (out, crc)
}

/// Takes a slice of `count` entries apart and verifies each (L12). The text says what is wrong. Entries share `raw`.
pub fn decode(raw: &Bytes, count: u32) -> Result<Slice, String> {
    let rows = usize::try_from(count).unwrap_or(usize::MAX);
    let table = rows.checked_mul(TABLE_ROW).filter(|bytes| *bytes <= raw.len());
    let Some(mut at) = table else {
        return Err(format!(
            "{} bytes are too few for a table of {count} entries",
            raw.len()
        ));
    };
    let mut entries = Vec::with_capacity(rows);
    for (index, row) in raw[..at].chunks_exact(TABLE_ROW).enumerate() {
        let length = u32::from_be_bytes([row[0], row[1], row[2], row[3]]) as usize;
        let stored = u32::from_be_bytes([row[4], row[5], row[6], row[7]]);
        let Some(end) = at.checked_add(length).filter(|end| *end <= raw.len()) else {
            return Err(format!(
                "entry {index} of {length} bytes ends past the slice of {} bytes",
                raw.len()
            ));
        };
        let entry = raw.slice(at..end);
        let computed = crc32c::crc32c(&entry);
        if computed != stored {
            return Err(format!(
                "entry {index}: checksum {stored:#010x} stored, {computed:#010x} computed"
            ));
        }
        entries.push(SliceEntry { entry, crc32c: stored });
        at = end;
    }
    if at != raw.len() {
        return Err(format!("{} bytes behind the last entry", raw.len() - at));
    }
    Ok(Slice {
        entries: entries.into(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_round_trip_and_a_flipped_bit_is_found(
            entries in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..9),
            bit in any::<prop::sample::Index>(),
        ) {
            let count = entries.len() as u32;
            let slice: Vec<_> = entries
                .iter()
                .map(|e| SliceEntry { crc32c: crc32c::crc32c(e), entry: Bytes::from(e.clone()) })
                .collect();
            let (raw, _) = encode(&slice);
            let decoded = decode(&raw, count).unwrap();
            let back: Vec<_> = decoded.entries.iter().map(|e| e.entry.to_vec()).collect();
            prop_assert_eq!(&back, &entries);

            let mut broken = raw.to_vec();
            let bit = bit.index(broken.len() * 8);
            broken[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&broken.into(), count).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(raw: Vec<u8>, count: u32) {
            let _ = decode(&raw.into(), count);
        }
    }
}
