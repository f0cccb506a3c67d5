//! Numbers that follow from a seed (splitmix64).

/// A generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of `seed`; neighbouring seeds have nothing in common.
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed);
        Random(random.draw())
    }

    /// 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// An index into something of `length` items; 0 for none.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number as decoders fear them: small, a power of two, one off, the largest.
    pub fn edge(&mut self) -> u64 {
        match self.below(6) {
            0 => self.below(20),
            1 => 1u64.checked_shl(self.below(64) as u32).unwrap_or(0),
            2 => 1u64.checked_shl(self.below(64) as u32).unwrap_or(0).wrapping_sub(1),
            3 => u64::MAX.wrapping_sub(self.below(3)),
            4 => self.below(70_000),
            _ => self.draw(),
        }
    }

    /// So many bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.draw() as u8).collect()
    }

    /// A short text: letters, separators, a character of several bytes, a zero.
    pub fn text(&mut self, longest: usize) -> String {
        const LETTERS: [char; 10] = ['a', 'b', 'Z', '9', '/', '.', '%', 'é', '\u{1}', '\0'];
        let length = self.index(longest.saturating_add(1));
        (0..length).map(|_| LETTERS[self.index(LETTERS.len())]).collect()
    }
}
