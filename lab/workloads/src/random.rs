//! [`Random`]: the seeded random numbers all inputs and populations are drawn from.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::text::Text;

/// 64 characters, so that six random bits make one: letters, digits, and two more.
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.";

/// Seeded random numbers. The same seed and stream give the same sequence.
#[derive(Debug)]
pub struct Random(StdRng);

impl Random {
    /// Stream number `stream` of `seed`; streams are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(StdRng::seed_from_u64(mix(seed ^ mix(stream))))
    }

    /// An integer from `low` to `high`, both included. `low` where `high` is below it.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        if low < high {
            self.0.random_range(low..=high)
        } else {
            low
        }
    }

    /// As [`Random::between`], for the small integers of rows. Both ends must fit the type; a bound that does not gives zero.
    pub fn pick<T: TryFrom<i64> + Default>(&mut self, low: i64, high: i64) -> T {
        T::try_from(self.between(low, high)).unwrap_or_default()
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: i64) -> bool {
        self.between(1, 100) <= percent
    }

    /// From 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// `low` to `high` characters, at most `MAX`.
    pub fn text<const MAX: usize>(&mut self, low: usize, high: usize) -> Text<MAX> {
        let length = self.between(low as i64, high.min(MAX) as i64) as usize;
        let mut bytes = [0; MAX];
        for chunk in bytes[..length].chunks_mut(10) {
            let mut bits = self.bits();
            for byte in chunk {
                *byte = CHARACTERS[(bits & 63) as usize];
                bits >>= 6;
            }
        }
        Text::from_bytes(&bytes[..length]).unwrap_or_default()
    }

    /// Exactly `MAX` digits.
    pub fn digits<const MAX: usize>(&mut self) -> Text<MAX> {
        let mut bytes = [b'0'; MAX];
        for byte in &mut bytes {
            *byte += self.pick::<u8>(0, 9);
        }
        Text::from_bytes(&bytes).unwrap_or_default()
    }

    /// Puts a slice in a random order.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for last in (1..slice.len()).rev() {
            slice.swap(last, self.between(0, last as i64) as usize);
        }
    }
}

/// A bijection of 64-bit numbers in which every bit of the result depends on every bit of `x` (the finaliser of splitmix64).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.bits(), random.bits()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn bounds_are_met_and_kept() {
        let mut random = Random::new(7, 0);
        let drawn: Vec<i64> = (0..1000).map(|_| random.between(-2, 3)).collect();
        assert_eq!(drawn.iter().min(), Some(&-2));
        assert_eq!(drawn.iter().max(), Some(&3));
        let lengths: Vec<usize> = (0..1000).map(|_| random.text::<20>(8, 20).len()).collect();
        assert_eq!(
            (lengths.iter().min(), lengths.iter().max()),
            (Some(&8), Some(&20))
        );
        assert_eq!(random.digits::<16>().len(), 16);
        assert!(random.digits::<16>().as_bytes().iter().all(u8::is_ascii_digit));
    }
}
