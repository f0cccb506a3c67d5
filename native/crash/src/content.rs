//! What an entry holds: bytes that follow from its id, length included, so that an id is all that has to be reported.

use bytes::{BufMut, Bytes, BytesMut};

use crate::random::Random;

/// The largest entry.
pub const MAX_ENTRY: u32 = 64 << 10;
/// Bytes of id and checksum at the start.
const HEAD: usize = 12;

/// The entry with this id.
pub fn entry(id: u64) -> Bytes {
    let mut random = Random::new(id);
    let length = length(&mut random);
    let mut bytes = BytesMut::with_capacity(HEAD.saturating_add(length).saturating_add(8));
    bytes.put_u64(id);
    bytes.put_u32(0);
    let end = HEAD.saturating_add(length);
    while bytes.len() < end {
        bytes.put_u64(random.number());
    }
    bytes.truncate(end);
    bytes.freeze()
}

/// The id of an entry that is as it was written.
pub fn id(bytes: &[u8]) -> Option<u64> {
    let id = u64::from_be_bytes(*bytes.first_chunk()?);
    (entry(id) == bytes).then_some(id)
}

/// Mostly small, some of a few KiB, a few that fill a good part of a segment's block of frames.
fn length(random: &mut Random) -> usize {
    let length = match random.below(40) {
        0 => random.below(u64::from(MAX_ENTRY).saturating_sub(HEAD as u64)),
        1..=6 => random.below(6000),
        7 => 0,
        _ => random.below(600),
    };
    usize::try_from(length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_itself_and_any_change_of_it_is_noticed() {
        let ids: Vec<u64> = (0..200).map(|n| (n << 32) | n).collect();
        for id in ids {
            let whole = entry(id);
            assert!(whole.len() <= MAX_ENTRY as usize);
            assert_eq!(super::id(&whole), Some(id));
            assert_eq!(super::id(&whole[..whole.len() - 1]), None);
            let mut damaged = whole.to_vec();
            let last = damaged.len() - 1;
            damaged[last] ^= 1;
            assert_eq!(super::id(&damaged), None);
        }
        assert_eq!(super::id(b""), None);
    }
}
