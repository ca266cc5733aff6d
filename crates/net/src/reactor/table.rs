//! A map from tokens to what they name, with a hash that costs next to nothing.
//!
//! Not a vector indexed by token: callers may mark kinds of connections by high bits.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Token;

pub(super) type Table<T> = HashMap<Token, T, BuildHasherDefault<TokenHasher>>;

/// One multiplication: tokens are given out by the program itself, nobody outside can make them collide.
#[derive(Default)]
pub(super) struct TokenHasher(u64);

impl Hasher for TokenHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, value: usize) {
        let mixed = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The map takes its buckets from the low bits and its tags from the high ones.
        self.0 = mixed ^ (mixed >> 32);
    }
}
