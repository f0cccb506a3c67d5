//! Entries that tell who wrote them: every attempt has content of its own (as far as its length allows).

use bytes::Bytes;

/// The content of one attempt to append, in few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Number of the attempt in its run.
    pub id: u64,
    /// Bytes.
    pub length: u32,
}

impl Entry {
    /// The bytes: a function of number and length.
    pub fn bytes(self) -> Bytes {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let mut out = Vec::with_capacity(length.saturating_add(8));
        let mut word = self.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        while out.len() < length {
            out.extend_from_slice(&word.to_le_bytes());
            word = word.rotate_left(9).wrapping_add(self.id);
        }
        out.truncate(length);
        out.into()
    }

    /// Whether these are the bytes.
    pub fn is(self, bytes: &[u8]) -> bool {
        u64::from(self.length) == bytes.len() as u64 && self.bytes() == bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_differ_in_every_length_that_can_tell() {
        for length in 8..40 {
            let of = |id| Entry { id, length }.bytes();
            assert_eq!(of(7).len(), length as usize);
            assert_ne!(of(7), of(8));
            assert!(Entry { id: 7, length }.is(&of(7)));
            assert!(!Entry {
                id: 7,
                length: length + 1
            }
            .is(&of(7)));
        }
        assert!(Entry { id: 7, length: 0 }.bytes().is_empty());
    }
}
