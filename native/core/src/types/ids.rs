//! Identities and counters. Each has a private field, checked arithmetic and no conversion into another kind.

use std::fmt;

/// Identity of a stream: random, unique for ever, shown as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u128);

impl StreamId {
    /// The id with this value.
    pub const fn new(value: u128) -> Self {
        StreamId(value)
    }

    /// Big-endian bytes, the form used in keys.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id written by [`StreamId::to_bytes`].
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        StreamId(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Identity of one commit attempt: unique per engine run and group. The same attempt keeps its id when it is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId(u128);

impl CommitId {
    /// "No commit yet": the predecessor of a stream's first commit.
    pub const NONE: CommitId = CommitId(0);

    /// The id with this value.
    pub const fn new(value: u128) -> Self {
        CommitId(value)
    }

    /// Big-endian bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id written by [`CommitId::to_bytes`].
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        CommitId(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(u64);

        impl $name {
            /// The counter with this value.
            pub const fn new(value: u64) -> Self {
                $name(value)
            }

            /// The bare value, for codecs and messages.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The next value; `None` past the end of the range.
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(value) => Some($name(value)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// One life of a topic name, from creation to deletion. Rises with every recreation, starts at 1.
    Incarnation
}
counter! {
    /// Number of an owner of a stream. Raised by every writable open; only the newest may change the stream (L5).
    OwnerEpoch
}
counter! {
    /// Version of a stream's head: 1 after creation, +1 with every change.
    CommitVersion
}
counter! {
    /// Number of a physical representation of a range in one read view. 0 = as appended (L9).
    Generation
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_round_trip_and_their_bytes_sort_like_them(a: u128, b: u128) {
            let (one, other) = (StreamId::new(a), StreamId::new(b));
            prop_assert_eq!(StreamId::from_bytes(one.to_bytes()), one);
            prop_assert_eq!(one.to_bytes().cmp(&other.to_bytes()), one.cmp(&other));
            prop_assert_eq!(u128::from_str_radix(&one.to_string(), 16), Ok(a));
            prop_assert_eq!(CommitId::from_bytes(CommitId::new(a).to_bytes()), CommitId::new(a));
        }
    }

    #[test]
    fn ids_show_as_32_digits() {
        assert_eq!(StreamId::new(0xab).to_string(), "000000000000000000000000000000ab");
        assert_eq!(CommitId::NONE.to_string(), "0".repeat(32));
    }

    #[test]
    fn counters_end_instead_of_wrapping() {
        assert_eq!(OwnerEpoch::new(4).next(), Some(OwnerEpoch::new(5)));
        assert_eq!(OwnerEpoch::new(u64::MAX).next(), None);
    }
}
