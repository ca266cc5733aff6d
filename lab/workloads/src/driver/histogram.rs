//! [`Histogram`]: latencies in buckets of at most 1.6 % width, of fixed size, cheap to add to and to merge.

use std::time::Duration;

/// Buckets a power of two is divided into.
const PER_OCTAVE: usize = 64;
/// Powers of two above the first, exact buckets: up to 2^41 ns, more than half an hour. Longer ones count as that.
const OCTAVES: usize = 36;

/// How many operations took how long.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; PER_OCTAVE * (OCTAVES + 1)].into_boxed_slice(),
            count: 0,
            max_ns: 0,
        }
    }
}

impl Histogram {
    /// Counts one operation.
    pub fn add(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts what another has counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Operations counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, in microseconds; zero if there are none.
    pub fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1e3
    }

    /// The latency in microseconds that `percent` of a hundred operations did not exceed, at most 1.6 % too large. Zero if there are none.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let rank = ((self.count as f64 * percent / 100.0).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        for (index, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper(index).min(self.max_ns) as f64 / 1e3;
            }
        }
        0.0
    }
}

/// The bucket of a latency: exact below 64 ns, then 64 for each power of two.
fn bucket(ns: u64) -> usize {
    let octave = (ns | (PER_OCTAVE as u64 - 1)).ilog2() as usize - (PER_OCTAVE.ilog2() as usize - 1);
    if octave > OCTAVES {
        return PER_OCTAVE * (OCTAVES + 1) - 1;
    }
    let within = (ns >> octave.saturating_sub(1)) as usize % PER_OCTAVE;
    octave * PER_OCTAVE + within
}

/// The largest latency of a bucket.
fn upper(index: usize) -> u64 {
    let (octave, within) = (index / PER_OCTAVE, (index % PER_OCTAVE) as u64);
    match octave {
        0 => within,
        _ => ((PER_OCTAVE as u64 + within + 1) << (octave - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        let mut previous = None;
        for exponent in 0..41 {
            for ns in [
                (1u64 << exponent) - 1,
                1 << exponent,
                (1 << exponent) + (1 << exponent) / 3,
            ] {
                let index = bucket(ns);
                assert!(previous.is_none_or(|before| before <= index));
                previous = Some(index);
                assert!(upper(index) >= ns, "{ns}");
                assert!(
                    upper(index) as f64 <= ns as f64 * 1.016 + 1.0,
                    "{ns} {}",
                    upper(index)
                );
            }
        }
        assert_eq!(bucket(u64::MAX), PER_OCTAVE * (OCTAVES + 1) - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_samples() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile_us(50.0), 0.0);
        let mut half = Histogram::default();
        for us in 1..=1000 {
            let into = if us % 2 == 0 { &mut histogram } else { &mut half };
            into.add(Duration::from_micros(us));
        }
        histogram.merge(&half);
        assert_eq!(histogram.count(), 1000);
        assert_eq!(histogram.max_us(), 1000.0);
        for (percent, us) in [(50.0, 500.0), (95.0, 950.0), (99.0, 990.0), (100.0, 1000.0)] {
            let found = histogram.percentile_us(percent);
            assert!((us..=us * 1.016).contains(&found), "p{percent}: {found}");
        }
    }
}
