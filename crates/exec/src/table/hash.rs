//! [`Mixer`]: from codes to places.
//!
//! One 64 x 64 -> 128 bit multiplication whose halves are folded: about four cycles of latency and one of throughput,
//! and both the high bits (which choose the bucket) and the low bits (which choose the overflow bit) depend on all input
//! bits, which a plain multiplicative hash does not give for the low ones. A bijective finaliser of two multiplications
//! was rejected: keys are compared in full anyway, so collisions of the mix itself only cost time.

/// A seeded mix of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixer {
    seed: u64,
    multiplier: u64,
}

/// Odd, with 32 set bits spread evenly: the golden ratio's fraction.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Mixer {
    /// The mix of the `attempt`-th try to build a table with this seed.
    pub(crate) fn new(seed: u64, attempt: u32) -> Self {
        let base = seed.wrapping_add(u64::from(attempt).wrapping_mul(0xd1b5_4a32_d192_ed03));
        let spread = |x: u64| {
            let product = u128::from(x ^ GOLDEN) * u128::from(0xe703_7ed1_a0b4_28db_u64);
            (product as u64) ^ (product >> 64) as u64
        };
        // The first attempt's multiplier is the golden ratio: consecutive keys, the usual case, then spread with less
        // variance than random ones do.
        let multiplier = if attempt == 0 {
            GOLDEN
        } else {
            spread(base.wrapping_add(1)) | 1
        };
        Mixer {
            seed: spread(base),
            multiplier,
        }
    }

    /// Mixes a code.
    #[inline(always)]
    pub(crate) fn mix(self, code: u64) -> u64 {
        let product = u128::from(code ^ self.seed) * u128::from(self.multiplier);
        (product as u64) ^ (product >> 64) as u64
    }
}

/// Maps a mixed code to `0..buckets` by its high bits, without a division and for any number of buckets.
#[inline(always)]
pub(crate) fn reduce(mixed: u64, buckets: usize) -> usize {
    ((u128::from(mixed) * buckets as u128) >> 64) as usize
}

/// The partition of a mixed code among `1 << bits`: its highest bits. With `buckets` a multiple of the number of
/// partitions, [`reduce`] places a code inside its partition's run of buckets.
#[inline(always)]
pub(crate) fn partition(mixed: u64, bits: u32) -> usize {
    // Two shifts, because a shift by 64 (one partition) is not defined.
    ((mixed >> 1) >> (63 - bits)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_agree_with_partitions() {
        let mixer = Mixer::new(1, 0);
        for bits in [0, 1, 5, 11] {
            for per_partition in [1_usize, 3, 1000, 16_384] {
                let buckets = per_partition << bits;
                for code in (0..2000).chain([u64::MAX, 1 << 63]) {
                    let mixed = mixer.mix(code);
                    assert_eq!(reduce(mixed, buckets) / per_partition, partition(mixed, bits));
                }
            }
        }
        assert_eq!(partition(u64::MAX, 0), 0);
        assert_eq!(reduce(u64::MAX, 7), 6);
    }

    #[test]
    fn regular_keys_spread() {
        type Keys = fn(u64) -> u64;
        let families: [Keys; 6] = [
            |i| i,
            |i| i << 32,
            |i| i << 48,
            |i| i * 1000,
            |i| u64::MAX - i,
            |i| i << 20 | i << 44,
        ];
        for attempt in 0..3 {
            let mixer = Mixer::new(42, attempt);
            for (number, family) in families.iter().enumerate() {
                let mut loads = vec![0_u32; 4096];
                (0..16_384).for_each(|i| loads[reduce(mixer.mix(family(i)), 4096)] += 1);
                let fullest = loads.iter().max().copied().unwrap_or(0);
                assert!(
                    fullest <= 24,
                    "family {number}, attempt {attempt}: fullest of mean 4 has {fullest}"
                );
            }
        }
    }
}
