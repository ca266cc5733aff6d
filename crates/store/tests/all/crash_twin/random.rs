//! Random numbers from a seed (splitmix64): enough for tests, and the same everywhere.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Evenly below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// True once in `of` times.
    pub fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}
