//! What rounds of measurements say: percentiles, ratios within rounds, and whether a difference is more than noise.

use serde::Serialize;

/// Fewer rounds say nothing of a difference.
pub const ROUNDS_MIN: usize = 5;

/// The value at `percent` by nearest rank; 0 for no values.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// The mean of some values; `None` for none.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0usize, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

/// Smallest, middle and largest of several values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted.get(middle.checked_sub(1)?)? + sorted[middle]) / 2.0,
        };
        Some(Spread {
            min: *sorted.first()?,
            median,
            max: *sorted.last()?,
        })
    }
}

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In every round, and by more than noise.
    Faster,
    /// The same the other way round.
    Slower,
    /// The middle round differs by more than noise, but not every round does.
    Unclear,
    /// Not more than the same side run twice differs from itself.
    WithinNoise,
    /// Fewer than [`ROUNDS_MIN`].
    TooFewRounds,
}

/// How two sides compare: times that one took over those of the other, round by round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The ratios.
    pub times: Spread,
    /// What they come to.
    pub verdict: Verdict,
}

impl Comparison {
    /// Of ratios, and of those of a side against itself.
    pub fn of(ratios: &[f64], noise: Spread) -> Option<Comparison> {
        let times = Spread::of(ratios)?;
        let verdict = match times.median {
            _ if ratios.len() < ROUNDS_MIN => Verdict::TooFewRounds,
            median if (noise.min..=noise.max).contains(&median) => Verdict::WithinNoise,
            _ if times.min > 1.0 => Verdict::Faster,
            _ if times.max < 1.0 => Verdict::Slower,
            _ => Verdict::Unclear,
        };
        Some(Comparison { times, verdict })
    }
}

/// The ratios of a side against itself, made symmetric: which of two equal runs came first is an accident.
pub fn noise(ratios: &[f64]) -> Option<Spread> {
    let spread = Spread::of(ratios)?;
    Some(Spread {
        min: spread.min.min(1.0 / spread.max),
        median: spread.median,
        max: spread.max.max(1.0 / spread.min),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let values: Vec<f64> = (1..=20).map(f64::from).rev().collect();
        assert_eq!(
            [50.0, 95.0, 100.0].map(|percent| percentile(&values, percent)),
            [10.0, 19.0, 20.0]
        );
        assert_eq!(percentile(&[], 50.0), 0.0);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0, 1.0]).map(|spread| spread.median), Some(2.0));
    }

    #[test]
    fn a_difference_must_be_more_than_noise() {
        let noise = noise(&[0.98, 1.04, 1.0, 1.01, 0.99]).expect("values");
        assert!(noise.min < 0.97 && noise.max == 1.04, "{noise:?}");
        let verdict = |ratios: &[f64]| Comparison::of(ratios, noise).expect("values").verdict;
        assert_eq!(verdict(&[1.5, 1.6, 1.4, 1.5, 1.7]), Verdict::Faster);
        assert_eq!(verdict(&[0.5, 0.6, 0.4, 0.5, 0.7]), Verdict::Slower);
        assert_eq!(verdict(&[1.02, 1.0, 1.6, 0.9, 1.03]), Verdict::WithinNoise);
        assert_eq!(verdict(&[1.2, 0.9, 1.3, 1.2, 1.4]), Verdict::Unclear);
        assert_eq!(verdict(&[2.0, 2.0]), Verdict::TooFewRounds);
    }
}
