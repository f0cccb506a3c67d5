//! Maps by stream id whose hash costs next to nothing: an append looks its stream up on its way into a group.
//!
//! Promises: ids that differ in their lower half or in their upper one get different hashes, as far as 64 bits go.
//! Does not: withstand chosen ids. They are drawn at random by the engine; nobody outside chooses one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::types::StreamId;

/// A map by stream.
pub type ByStream<V> = HashMap<StreamId, V, BuildHasherDefault<Folded>>;

/// Folds what it is given into one word.
#[derive(Default)]
pub struct Folded(u64);

/// An odd number without a pattern (2^64 through the golden ratio): it carries low bits up to where the map takes its tags from.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Folded {
    fn write_u128(&mut self, id: u128) {
        self.write_u64(id as u64);
        self.write_u64((id >> 64) as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(SPREAD);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::*;

    #[test]
    fn ids_that_differ_in_either_half_fall_apart() {
        let build = BuildHasherDefault::<Folded>::default();
        let low = (0..1000u128).map(StreamId::new);
        let high = (1..1000u128).map(|id| StreamId::new(id << 64));
        let hashes: HashSet<u64> = low.chain(high).map(|id| build.hash_one(id)).collect();
        assert_eq!(hashes.len(), 1999);
        let tags: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        assert!(tags.len() > 100, "{} of 128 tags are used", tags.len());
    }
}
