//! How long things took: counts in buckets that grow with the value.
//!
//! ```text
//! 0 1 2 .. 15 | 16 17 .. 31 | 32 34 .. 62 | 64 68 .. 124 | ...      16 buckets for each doubling
//! ```
//! A bucket is at most a sixteenth of its values wide.
//! Values of 2^40 and more (12 days in microseconds) count as that.

/// Bits of a value that choose within a doubling.
const PRECISION_BITS: u32 = 4;
/// Buckets of one doubling.
const PER_DOUBLING: usize = 1 << PRECISION_BITS;
/// Bits of the largest value.
const VALUE_BITS: u32 = 40;
/// All buckets: the exact ones, and sixteen for each further doubling.
const BUCKETS: usize = PER_DOUBLING * (VALUE_BITS - PRECISION_BITS + 1) as usize;

/// Counts of values, 4.6 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            sum: 0,
        }
    }
}

fn bucket_of(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    if value < PER_DOUBLING as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - PRECISION_BITS;
    PER_DOUBLING * shift as usize + (value >> shift) as usize
}

impl Histogram {
    /// Counts a value, such as microseconds.
    pub fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds another's counts, such as another event loop's.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many values are less than 2^`bits`: exact, buckets never straddle a power of two.
    pub fn below_power(&self, bits: u32) -> u64 {
        if bits >= VALUE_BITS {
            return self.count;
        }
        self.counts[..bucket_of(1 << bits)].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        let (mut first, mut bucket) = (0_u64, 0);
        while bucket < BUCKETS - 1 {
            // The width of a bucket: 1, and twice as much with each doubling from the second on.
            let width = 1_u64 << (first.max(1).ilog2().saturating_sub(PRECISION_BITS));
            assert!(width == 1 || width * 16 <= first, "{first}");
            assert_eq!((bucket_of(first), bucket_of(first + width - 1)), (bucket, bucket));
            (first, bucket) = (first + width, bucket + 1);
            assert_eq!(bucket_of(first), bucket);
        }
    }

    proptest! {
        #[test]
        fn counts_are_added_and_exact_below_powers_of_two(
            values in prop::collection::vec(prop_oneof![0u64..100, 0u64..1_000_000, any::<u64>()], 1..200),
            split in 0usize..200,
        ) {
            let (mut left, mut right, mut all) = (Histogram::default(), Histogram::default(), Histogram::default());
            for (at, value) in values.iter().enumerate() {
                if at < split { left.record(*value) } else { right.record(*value) }
                all.record(*value);
            }
            left.merge(&right);
            prop_assert_eq!(&left, &all);

            for bits in 0..VALUE_BITS {
                let below = values.iter().filter(|value| **value < 1 << bits).count() as u64;
                prop_assert_eq!(all.below_power(bits), below);
            }
            prop_assert_eq!(all.below_power(VALUE_BITS), all.count());
        }
    }
}
