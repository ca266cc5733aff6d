//! [`Repeats`]: which texts come again. A text that comes once is not worth preparing.

use std::hash::{BuildHasher, RandomState};

/// Slots; a text that shares one with another is only found out to repeat later.
const SLOTS: usize = 4096;

/// The hashes of texts seen lately, each in its slot.
#[derive(Debug)]
pub(in crate::core) struct Repeats {
    slots: Box<[u64]>,
    hasher: RandomState,
}

impl Default for Repeats {
    fn default() -> Self {
        Self {
            slots: vec![0; SLOTS].into(),
            hasher: RandomState::new(),
        }
    }
}

impl Repeats {
    /// Notes a text and returns whether it was seen lately. Never wrong in a way that matters: a text that only seems to come again is
    /// prepared for nothing.
    pub fn again(&mut self, text: &[u8]) -> bool {
        let hash = self.hasher.hash_one(text).max(1);
        let slot = &mut self.slots[hash as usize % SLOTS];
        let again = *slot == hash;
        *slot = hash;
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_time() {
        let mut repeats = Repeats::default();
        assert!(!repeats.again(b"select 1"));
        assert!(repeats.again(b"select 1"));
        assert!(!repeats.again(b"select 2"));
    }
}
