//! Seeded choices: the same seed, the same choices.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Choices that follow from `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number().checked_rem(end).unwrap_or(0)
    }

    /// A number in `1..=most`, small ones as often as large ones: each doubling has the same chance.
    pub fn magnitude(&mut self, most: u64) -> u64 {
        let doublings = u64::from(most.max(1).ilog2()).saturating_add(1);
        let base = 1u64 << self.below(doublings).min(63);
        base.saturating_add(self.below(base)).min(most.max(1))
    }

    /// True `times` out of `of`.
    pub fn chance(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_from_the_seed_and_stay_in_range() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(move |_| random.magnitude(5000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let drawn = draw(3);
        assert!(drawn.iter().all(|n| (1..=5000).contains(n)));
        assert!(drawn.iter().any(|n| *n < 10) && drawn.iter().any(|n| *n > 1000));
        assert_eq!(Random::new(1).below(0), 0);
    }
}
