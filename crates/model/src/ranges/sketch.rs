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
    /// smallest key of the sample and none above the largest, so that no bucket is without one. A key that is more than a bucket's
    /// share gets a bucket of its own where it can; there are fewer buckets then, as when few different keys were seen.
    pub fn splits(&self, buckets: usize) -> Vec<i64> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let (Some(&smallest), Some(&largest)) = (sorted.first(), sorted.last()) else {
            return Vec::new();
        };
        let mut splits: Vec<i64> = Vec::new();
        let mut last = smallest;
        for i in 1..buckets.min(super::BUCKETS_MAX) {
            let key = sorted[i * sorted.len() / buckets];
            // A key that is cut at twice fills a bucket: it ends right behind that key.
            let split = if key > last { key } else { key.saturating_add(1) };
            if split > last && split <= largest {
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
