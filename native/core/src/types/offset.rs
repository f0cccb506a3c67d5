//! The logical place of an entry in its stream.

use std::fmt;

/// Logical place of an entry: dense from 0. Ranges are half-open, `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Offset(u64);

impl Offset {
    /// The first offset of every stream.
    pub const ZERO: Offset = Offset(0);
    /// An upper bound that no stream reaches.
    pub const MAX: Offset = Offset(i64::MAX as u64);

    /// The offset with this value.
    pub const fn new(value: u64) -> Self {
        Offset(value)
    }

    /// The bare value, for codecs and messages.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset `count` entries further; `None` past the end of the range.
    pub const fn checked_add(self, count: u64) -> Option<Offset> {
        match self.0.checked_add(count) {
            Some(value) if value <= i64::MAX as u64 => Some(Offset(value)),
            _ => None,
        }
    }

    /// Entries from `earlier` to `self`; `None` if `earlier` lies behind `self`.
    pub const fn distance_from(self, earlier: Offset) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_end_with_javas_range_instead_of_wrapping() {
        assert_eq!(Offset::ZERO.checked_add(5), Some(Offset::new(5)));
        assert_eq!(Offset::MAX.checked_add(0), Some(Offset::MAX));
        assert_eq!(Offset::MAX.checked_add(1), None);
        assert_eq!(Offset::new(1).checked_add(u64::MAX), None);
    }

    #[test]
    fn distance_is_only_forward() {
        assert_eq!(Offset::new(7).distance_from(Offset::new(5)), Some(2));
        assert_eq!(Offset::new(5).distance_from(Offset::new(7)), None);
    }
}
