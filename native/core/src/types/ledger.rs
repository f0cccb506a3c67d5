//! Virtual ledgers: positions by pure arithmetic, no table (L7).

use std::fmt;

use super::Offset;

/// A ledger id that Pulsar sees. Never a BookKeeper ledger id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VirtualLedger(u64);

impl VirtualLedger {
    /// The first id that is ever granted: entry ids of stock ledgers stay far below.
    pub const FIRST: VirtualLedger = VirtualLedger(1 << 32);
    /// The end of the preferred range; allocation goes on past it, with the consequences that docs/behaviour.md names.
    pub const PREFERRED_END: VirtualLedger = VirtualLedger(1 << 35);

    /// The ledger with this id.
    pub const fn new(id: u64) -> Self {
        VirtualLedger(id)
    }

    /// The bare id.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The id `count` further; `None` past the range of Pulsar's signed ids.
    pub const fn checked_add(self, count: u64) -> Option<VirtualLedger> {
        match self.0.checked_add(count) {
            Some(id) if id <= i64::MAX as u64 => Some(VirtualLedger(id)),
            _ => None,
        }
    }
}

impl fmt::Display for VirtualLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many low bits of an offset are the entry id: 16 today, fixed per incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanBits(u32);

impl SpanBits {
    /// What new incarnations get.
    pub const DEFAULT: SpanBits = SpanBits(16);

    /// Span bits of a stored binding; only 1 to 31 make sense.
    pub const fn new(bits: u32) -> Option<SpanBits> {
        if bits >= 1 && bits <= 31 {
            Some(SpanBits(bits))
        } else {
            None
        }
    }

    /// The bare number of bits.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The durable mapping between one incarnation's offsets and its positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Projection {
    /// First virtual ledger id of the incarnation.
    pub first: VirtualLedger,
    /// Width of an entry id.
    pub span_bits: SpanBits,
}

impl Projection {
    /// The position (ledger, entry) of an offset; `None` past the range of ledger ids.
    pub fn position(&self, offset: Offset) -> Option<(VirtualLedger, u64)> {
        let span = offset.get() >> self.span_bits.get();
        let entry = offset.get() & ((1u64 << self.span_bits.get()) - 1);
        Some((self.first.checked_add(span)?, entry))
    }

    /// The offset of a position; `None` for a ledger below the incarnation or past the range of offsets.
    pub fn offset(&self, ledger: VirtualLedger, entry: u64) -> Option<Offset> {
        let span = ledger.get().checked_sub(self.first.get())?;
        let start = span.checked_mul(1u64 << self.span_bits.get())?;
        Offset::ZERO.checked_add(start)?.checked_add(entry)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn projection(bits: u32) -> Projection {
        Projection {
            first: VirtualLedger::FIRST,
            span_bits: SpanBits::new(bits).unwrap(),
        }
    }

    proptest! {
        #[test]
        fn l07_position_and_offset_are_inverse(offset in 0..=Offset::MAX.get() >> 1, bits in 1u32..=31) {
            let (projection, offset) = (projection(bits), Offset::new(offset));
            if let Some((ledger, entry)) = projection.position(offset) {
                prop_assert!(entry < 1 << bits);
                prop_assert_eq!(projection.offset(ledger, entry), Some(offset));
            } else {
                prop_assert!(offset.get() >> bits > i64::MAX as u64 - VirtualLedger::FIRST.get());
            }
        }

        #[test]
        fn l07_positions_sort_like_offsets(a in 0u64..1 << 40, b in 0u64..1 << 40) {
            let position = |offset| projection(16).position(Offset::new(offset)).unwrap();
            prop_assert_eq!(position(a).cmp(&position(b)), a.cmp(&b));
        }

        #[test]
        fn arbitrary_positions_never_panic(ledger: u64, entry: u64, bits in 1u32..=31) {
            let _ = projection(bits).offset(VirtualLedger::new(ledger), entry);
        }
    }

    #[test]
    fn spans_begin_at_multiples_of_65536() {
        let first = VirtualLedger::FIRST.get();
        let position = |offset| {
            projection(16)
                .position(Offset::new(offset))
                .map(|(ledger, entry)| (ledger.get(), entry))
        };
        assert_eq!(position(0), Some((first, 0)));
        assert_eq!(position(65_535), Some((first, 65_535)));
        assert_eq!(position(65_536), Some((first + 1, 0)));
        assert_eq!(
            projection(16).offset(VirtualLedger::new(first - 1), 0),
            None,
            "below the incarnation"
        );
    }

    #[test]
    fn ledger_ids_end_with_javas_range() {
        let last = VirtualLedger::new(i64::MAX as u64);
        assert_eq!(last.checked_add(0), Some(last));
        assert_eq!(last.checked_add(1), None);
        assert_eq!((SpanBits::new(0), SpanBits::new(32)), (None, None));
    }
}
