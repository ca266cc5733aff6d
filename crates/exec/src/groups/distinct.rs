//! [`DistinctKeys`]: about how many different keys some rows have, for a bit of work a row.

use super::keys::{Keys, ManyColumns, rows_of};
use super::try_zeroed;
use crate::codes::Validity;
use crate::huge::OutOfMemory;
use crate::table::hash::{Mixer, reduce};

/// Bits of the map a key: of 65,536 keys the count is wrong by 100.
const BITS_A_KEY: usize = 8;

/// Counts different keys by the bits that their hashes set in a map: linear counting (Whang, Vander-Zanden and Taylor,
/// TODS 1990).
#[derive(Debug)]
pub struct DistinctKeys {
    map: Vec<u64>,
    bits_set: usize,
    mixer: Mixer,
}

impl DistinctKeys {
    /// For at most `keys` different keys; `seed` is that of the hash.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(keys: usize, seed: u64) -> Result<Self, OutOfMemory> {
        Ok(DistinctKeys {
            map: try_zeroed((keys * BITS_A_KEY).div_ceil(64).max(1))?,
            bits_set: 0,
            mixer: Mixer::new(seed, 0),
        })
    }

    /// Adds rows: `keys[word][row]` is a word of a row's key. Rows that are not in `valid` have the NULL key, which is
    /// not counted.
    ///
    /// # Panics
    /// When there are no words, or lengths differ.
    pub fn add(&mut self, keys: &[&[u64]], valid: Option<Validity<'_>>) {
        let rows = rows_of(keys, valid);
        let keys = ManyColumns {
            columns: keys,
            first_row: 0,
        };
        let bits = self.map.len() * 64;
        for row in (0..rows).filter(|row| valid.is_none_or(|valid| valid.is_valid(*row))) {
            // Mixed again: once mixed, consecutive keys are spread too evenly for the estimate.
            let bit = reduce(self.mixer.mix(keys.hash(self.mixer, row)), bits);
            let (word, mask) = (&mut self.map[bit / 64], 1 << (bit % 64));
            self.bits_set += usize::from(*word & mask == 0);
            *word |= mask;
        }
    }

    /// About so many keys were different.
    pub fn count(&self) -> f64 {
        let bits = (self.map.len() * 64) as f64;
        // A full map tells only that there were more keys than it is for.
        let unset = (bits - self.bits_set as f64).max(1.0);
        bits * (bits / unset).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(keys: impl Iterator<Item = u64>) -> f64 {
        let mut distinct = DistinctKeys::new(65_536, 3).expect("memory");
        let keys: Vec<u64> = keys.collect();
        for batch in keys.chunks(1000) {
            distinct.add(&[batch], None);
        }
        distinct.count()
    }

    #[test]
    fn counts_are_near() {
        assert_eq!(counted(std::iter::empty()), 0.0);
        for groups in [1, 100, 5000, 40_000, 65_536] {
            let near = groups as f64 * 0.98 - 1.0..groups as f64 * 1.02 + 1.0;
            let consecutive = counted((0..65_536).map(|row| row % groups));
            let apart = counted((0..65_536).map(|row| (row % groups) * 4096));
            let scattered =
                counted((0..65_536).map(|row| (row % groups).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            for count in [consecutive, apart, scattered] {
                assert!(near.contains(&count), "{groups}: {count}");
            }
        }
    }

    #[test]
    fn keys_are_all_their_words_and_null_is_none() {
        let mut distinct = DistinctKeys::new(100, 3).expect("memory");
        distinct.add(&[&[1, 1, 2, 2], &[5, 6, 5, 5]], None);
        assert_eq!(distinct.count().round(), 3.0);
        let mut distinct = DistinctKeys::new(100, 3).expect("memory");
        distinct.add(&[&[1, 2, 3]], Some(Validity::new(&[0b101], 0, 3)));
        assert_eq!(distinct.count().round(), 2.0);
    }

    #[test]
    fn more_keys_than_it_is_for_are_many() {
        let mut distinct = DistinctKeys::new(1, 3).expect("memory");
        let keys: Vec<u64> = (0..10_000).collect();
        distinct.add(&[&keys], None);
        assert!(distinct.count() > 200.0 && distinct.count().is_finite());
    }
}
