//! [`Sketch`]: a sample of the keys that statements asked for, and the split points that share them equally.

/// Keys a sketch keeps.
pub const SAMPLES_MAX: usize = 1024;

/// Keys after which new ones are kept as often as if no more had been seen: old ones fade instead of standing for ever. Unmeasured.
const HORIZON: u64 = 64 * SAMPLES_MAX as u64;

/// A bounded reservoir sample (Vitter's algorithm R) of a stream of keys.
///
/// The same seed and keys give the same sample: the random numbers are its own.
#[derive(Clone, Debug)]
pub struct Sketch {
    samples: Vec<i64>,
    seen: u64,
    random: u64,
}

impl Sketch {
    /// Nothing seen yet.
    pub fn new(seed: u64) -> Sketch {
        Sketch {
            samples: Vec::new(),
            seen: 0,
            random: seed,
        }
    }

    /// Takes in a key; some nanoseconds.
    pub fn observe(&mut self, key: i64) {
        self.seen = self.seen.saturating_add(1);
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(key);
            return;
        }
        let place = self.below(self.seen.min(HORIZON)) as usize;
        if let Some(sample) = self.samples.get_mut(place) {
            *sample = key;
        }
    }

    /// How many keys were seen.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The sample, in no order.
    pub fn samples(&self) -> &[i64] {
        &self.samples
    }

    /// Takes in what another saw. Each key either of them saw is about equally likely to be in the sample.
    pub fn merge(&mut self, other: &Sketch) {
        let (mut left, mut right) = (std::mem::take(&mut self.samples), other.samples.clone());
        // What each sample still stands for.
        let (mut stands_left, mut stands_right) = (self.seen as f64, other.seen as f64);
        let (each_left, each_right) = (each(self.seen, &left), each(other.seen, &right));
        let mut merged = Vec::with_capacity(SAMPLES_MAX.min(left.len() + right.len()));
        while merged.len() < SAMPLES_MAX && !(left.is_empty() && right.is_empty()) {
            let from_left = right.is_empty()
                || (!left.is_empty() && self.fraction() * (stands_left + stands_right) < stands_left);
            let from = if from_left {
                stands_left -= each_left;
                &mut left
            } else {
                stands_right -= each_right;
                &mut right
            };
            let place = self.below(from.len() as u64) as usize;
            merged.push(from.swap_remove(place));
        }
        self.samples = merged;
        self.seen = self.seen.saturating_add(other.seen);
    }

    /// Split points of at most so many buckets that hold about equally many of the keys seen. Strictly ascending, each above the
    /// smallest key of the sample and each a key of it, so that no bucket is without one. A key that is more than a bucket's
    /// share gets a bucket of its own where it can; there are fewer buckets then, as when few different keys were seen.
    pub fn splits(&self, buckets: usize) -> Vec<i64> {
        let buckets = buckets.min(super::BUCKETS_MAX);
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let Some(&smallest) = sorted.first() else {
            return Vec::new();
        };
        let mut splits: Vec<i64> = Vec::new();
        // The last split point, and the key at the last place that was to be cut at.
        let (mut last, mut before) = (smallest, smallest);
        for i in 1..buckets {
            let key = sorted[i * sorted.len() / buckets];
            let split = if key > last {
                Some(key)
            } else if key == before && key == last {
                // A key to be cut at twice fills a bucket: it ends where the next key seen begins.
                sorted.get(sorted.partition_point(|&other| other <= key)).copied()
            } else {
                None
            };
            before = key;
            if let Some(split) = split {
                splits.push(split);
                last = split;
            }
        }
        splits
    }

    /// A number below `end`, which is not 0 (SplitMix64, and the high half of a product).
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }
}

/// How many of the keys seen a sample stands for.
fn each(seen: u64, samples: &[i64]) -> f64 {
    seen as f64 / samples.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sketch(seed: u64, keys: impl IntoIterator<Item = i64>) -> Sketch {
        let mut sketch = Sketch::new(seed);
        keys.into_iter().for_each(|key| sketch.observe(key));
        sketch
    }

    fn shares(splits: &[i64], keys: &[i64]) -> Vec<usize> {
        let mut counts = vec![0; splits.len() + 1];
        for &key in keys {
            counts[splits.partition_point(|&split| split <= key)] += 1;
        }
        counts
    }

    proptest! {
        #[test]
        fn all_of_a_small_stream_is_shared_equally(
            keys in prop::collection::vec(prop_oneof![0_i64..10, any::<i64>()], 0..500), buckets in 0_usize..20,
        ) {
            let splits = sketch(1, keys.iter().copied()).splits(buckets);
            prop_assert!(splits.len() < buckets.max(1));
            prop_assert!(splits.windows(2).all(|pair| pair[0] < pair[1]));
            if keys.is_empty() {
                return Ok(());
            }
            let counts = shares(&splits, &keys);
            prop_assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
            // A bucket above two shares is one key, or the keys before a hot one.
            let hottest = |low: usize| {
                let of = |key: i64| keys.iter().filter(|&&other| other == key).count();
                let inside = |key: i64| splits.partition_point(|&split| split <= key) == low;
                keys.iter().filter(|&&key| inside(key)).map(|&key| of(key)).max().unwrap_or(0)
            };
            let share = keys.len().div_ceil(buckets.max(1));
            for (bucket, &count) in counts.iter().enumerate() {
                prop_assert!(count <= 2 * share + hottest(bucket), "{counts:?} of {share}");
            }
        }

        #[test]
        fn is_the_same_for_the_same_seed(seed: u64, keys in prop::collection::vec(any::<i64>(), 0..3_000)) {
            let (one, two) = (sketch(seed, keys.iter().copied()), sketch(seed, keys));
            prop_assert_eq!(one.samples(), two.samples());
        }
    }

    #[test]
    fn a_long_stream_is_sampled_evenly() {
        let sketch = sketch(7, (0..50_000).map(|i| i * 7_919 % 50_000));
        assert_eq!((sketch.samples().len(), sketch.seen()), (SAMPLES_MAX, 50_000));
        let splits = sketch.splits(8);
        for (i, &split) in splits.iter().enumerate() {
            let expected = 6_250 * (i as i64 + 1);
            assert!((split - expected).abs() < 2_500, "{splits:?}");
        }
    }

    #[test]
    fn old_keys_fade() {
        let sketch = sketch(3, (0..1_000_000).map(|_| 1).chain((0..1_000_000).map(|_| 2)));
        assert!(sketch.samples().iter().all(|&key| key == 2));
    }

    #[test]
    fn a_hot_key_has_its_own_bucket() {
        let keys = (0..300).chain(std::iter::repeat_n(500, 400)).chain(600..900);
        let splits = sketch(1, keys).splits(10);
        assert!(splits.contains(&500) && splits.contains(&600), "{splits:?}");
    }

    #[test]
    fn merged_by_how_much_each_saw() {
        let mut left = sketch(1, std::iter::repeat_n(1, 30_000));
        left.merge(&sketch(2, std::iter::repeat_n(2, 10_000)));
        let ones = left.samples().iter().filter(|&&key| key == 1).count();
        assert_eq!((left.samples().len(), left.seen()), (SAMPLES_MAX, 40_000));
        assert!((700..840).contains(&ones), "{ones}");
        let mut small = sketch(1, [1, 2, 3]);
        small.merge(&sketch(2, [4]));
        small.merge(&Sketch::new(3));
        let mut samples = small.samples().to_vec();
        samples.sort_unstable();
        assert_eq!(samples, [1, 2, 3, 4]);
    }
}
