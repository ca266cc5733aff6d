//! Statistics of repeated measurements: spreads, per-pair ratios, and the A/A rule that decides "not slower".
//!
//! Pure functions over numbers handed in. A ratio is always `other / subject` of two times taken in the same round of an
//! interleaved run, so above 1 the subject (corun) was faster. Percentiles are by nearest rank: no value appears that
//! was not measured. Not a library of tests of significance: the A/A control measures the noise instead of assuming it.

/// Pairs needed before a claim near 1.0 is made (DESIGN.md, A/A rule).
pub const PAIRS_NEAR_ONE: usize = 30;

/// Pairs needed before any claim is made, however clear.
pub const PAIRS_MIN: usize = 5;

/// Smallest, middle and largest of `n` values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many values.
    pub n: usize,
    /// The smallest.
    pub min: f64,
    /// The middle one; the mean of the two middle ones when `n` is even.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of finite values; `None` if there are none or one is not finite.
    pub fn of(values: &[f64]) -> Option<Spread> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let sorted = sorted(values);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Spread {
            n: sorted.len(),
            min: sorted[0],
            median,
            max: sorted[sorted.len() - 1],
        })
    }

    /// A value that was taken once.
    pub fn one(value: f64) -> Spread {
        Spread {
            n: 1,
            min: value,
            median: value,
            max: value,
        }
    }

    /// The same spread in another unit.
    pub fn scaled(self, factor: f64) -> Spread {
        Spread {
            min: self.min * factor,
            median: self.median * factor,
            max: self.max * factor,
            ..self
        }
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value at `percent` (0 to 100) by nearest rank; `None` for no values.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let sorted = sorted(values);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    Some(sorted[rank.clamp(1, sorted.len()) - 1])
}

/// `other / subject`, pair by pair: above 1 where the subject was faster. Stops at the shorter list.
pub fn pair_ratios(subject: &[f64], other: &[f64]) -> Vec<f64> {
    subject
        .iter()
        .zip(other)
        .map(|(subject, other)| other / subject)
        .collect()
}

/// The geometric mean of positive values; `None` if there are none or one is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| value.is_nan() || *value <= 0.0) {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// What the machine's noise alone does to a ratio: the spread of a side measured against itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// A ratio below this is not explained by noise.
    pub low: f64,
    /// A ratio above this is not explained by noise.
    pub high: f64,
}

impl Noise {
    /// The central 90 % of A/A pair ratios, made symmetric because which of the two equal runs came first is an accident.
    ///
    /// The 5th and 95th percentile are taken instead of the extremes, which only widen as pairs are added: more
    /// measuring must not make the rule more lenient. Below 20 pairs nearest-rank percentiles are the extremes.
    pub fn of(aa_ratios: &[f64]) -> Option<Noise> {
        let low = percentile(aa_ratios, 5.0)?;
        let high = percentile(aa_ratios, 95.0)?;
        Some(Noise {
            low: low.min(1.0 / high).min(1.0),
            high: high.max(1.0 / low).max(1.0),
        })
    }
}

/// The answer to "is the subject not slower?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every pair above 1, or the median inside or above the A/A spread over enough pairs.
    NotSlower,
    /// The median lies below the A/A spread.
    Slower,
    /// Near 1.0 and not enough pairs to say.
    Undecided,
}

impl Verdict {
    /// The word used in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::NotSlower => "not_slower",
            Verdict::Slower => "slower",
            Verdict::Undecided => "undecided",
        }
    }
}

/// DESIGN.md's A/A rule.
///
/// ```text
///   fewer than 5 pairs ------------------------> undecided
///   all pairs > 1 ----------------------------> not slower
///   all pairs < 1 and median below A/A spread -> slower
///   otherwise near 1.0: fewer than 30 pairs ---> undecided
///                       median below A/A ------> slower
///                       else ------------------> not slower
/// ```
pub fn not_slower(ratios: &[f64], aa_ratios: &[f64]) -> Verdict {
    let (Some(spread), Some(noise)) = (Spread::of(ratios), Noise::of(aa_ratios)) else {
        return Verdict::Undecided;
    };
    if spread.n < PAIRS_MIN {
        return Verdict::Undecided;
    }
    if spread.min > 1.0 {
        return Verdict::NotSlower;
    }
    let below_noise = spread.median < noise.low;
    if spread.max < 1.0 && below_noise {
        return Verdict::Slower;
    }
    if spread.n < PAIRS_NEAR_ONE {
        return Verdict::Undecided;
    }
    if below_noise {
        Verdict::Slower
    } else {
        Verdict::NotSlower
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spread_of_odd_and_even_counts() {
        assert_eq!(
            Spread::of(&[5.0, 1.0, 3.0]),
            Some(Spread {
                n: 3,
                min: 1.0,
                median: 3.0,
                max: 5.0
            })
        );
        assert_eq!(
            Spread::of(&[4.0, 1.0, 2.0, 3.0]).map(|spread| spread.median),
            Some(2.5)
        );
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn percentiles_are_measured_values() {
        let values: Vec<f64> = (1..=40).map(f64::from).collect();
        assert_eq!(percentile(&values, 5.0), Some(2.0));
        assert_eq!(percentile(&values, 95.0), Some(38.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&values, 100.0), Some(40.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn ratio_above_one_means_the_subject_is_faster() {
        assert_eq!(pair_ratios(&[1.0, 2.0], &[4.0, 2.0, 9.0]), vec![4.0, 1.0]);
    }

    #[test]
    fn geometric_mean_of_inverse_ratios_is_one() {
        let mean = geometric_mean(&[2.0, 0.5]).expect("positive");
        assert!((mean - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
    }

    #[test]
    fn clear_wins_and_losses_need_few_pairs() {
        let aa = [0.97, 1.0, 1.02, 1.01, 0.99];
        assert_eq!(not_slower(&[1.2, 1.3, 1.25, 1.4, 1.1], &aa), Verdict::NotSlower);
        assert_eq!(not_slower(&[0.8, 0.7, 0.75, 0.85, 0.8], &aa), Verdict::Slower);
        assert_eq!(not_slower(&[1.2, 1.3, 1.25, 1.4], &aa), Verdict::Undecided);
    }

    #[test]
    fn near_one_needs_thirty_pairs() {
        let aa: Vec<f64> = (0..30)
            .map(|pair| if pair % 2 == 0 { 0.97 } else { 1.02 })
            .collect();
        let close: Vec<f64> = (0..30)
            .map(|pair| if pair % 2 == 0 { 0.98 } else { 1.01 })
            .collect();
        assert_eq!(not_slower(&close[..29], &aa), Verdict::Undecided);
        assert_eq!(not_slower(&close, &aa), Verdict::NotSlower);
        let worse: Vec<f64> = close.iter().map(|ratio| ratio - 0.05).collect();
        assert_eq!(not_slower(&worse, &aa), Verdict::Slower);
    }

    #[test]
    fn all_below_one_but_inside_the_noise_is_undecided_until_thirty() {
        let aa = [0.9, 1.1, 1.0, 1.0, 1.0];
        assert_eq!(
            not_slower(&[0.95, 0.96, 0.97, 0.98, 0.99], &aa),
            Verdict::Undecided
        );
    }

    #[test]
    fn without_a_control_nothing_is_decided() {
        assert_eq!(not_slower(&[2.0; 30], &[]), Verdict::Undecided);
    }

    proptest! {
        #[test]
        fn spread_is_ordered(values in prop::collection::vec(0.001f64..1e9, 1..50)) {
            let spread = Spread::of(&values).expect("not empty");
            prop_assert!(spread.min <= spread.median && spread.median <= spread.max);
        }

        #[test]
        fn noise_contains_one_and_is_symmetric(values in prop::collection::vec(0.5f64..2.0, 1..50)) {
            let noise = Noise::of(&values).expect("not empty");
            prop_assert!(noise.low <= 1.0 && noise.high >= 1.0);
            prop_assert!((noise.low * noise.high - 1.0).abs() < 1e-9);
        }

        #[test]
        fn a_side_against_itself_is_never_slower(values in prop::collection::vec(0.5f64..2.0, 30..60)) {
            prop_assert_eq!(not_slower(&values, &values), Verdict::NotSlower);
        }
    }
}
