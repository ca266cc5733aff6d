//! The effective last-level cache: where a latency-by-size curve bends.
//!
//! A dependent access to a line drawn evenly from a working set of `W` bytes costs a mixture of three latencies:
//!
//! ```text
//! ns                                      . - - - memory
//!  |                                   .'             share that missed everything: 1 - hit(C / W)
//!  |                                 .'
//!  |               . - - - - - - - -'   <- knee: W = C, the effective last-level cache
//!  |             .'  last level
//!  |  - - - - - '    <- W = P, the private cache
//!  +------------------------------------------------- W
//! ```
//!
//! Even draws make `hit(x) = min(1, x)` for any policy of replacement: a cache keeps some part of the set, and every part
//! is as good as any other. [`effective_llc`] fits that mixture for every candidate `C` and keeps the one with the least
//! relative error. It then asks whether a mixture *without* a second bend explains the curve nearly as well, and says so
//! instead of naming a number. The rejected alternatives: the steepest step between neighbouring sizes names a number
//! for any noisy curve; and walks in a cycle, whose hits depend on the policy, need its shape as a further unknown, which
//! made the answer differ threefold from run to run on one machine.
//!
//! Not here: measuring the curve; that is the machine crate's job. Nothing here reads a clock.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Latency at one working-set size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Working-set size.
    pub bytes: Bytes,
    /// Nanoseconds an access, one value a repetition, in the order measured.
    pub ns: Vec<f64>,
}

/// The answer of [`effective_llc`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum EffectiveLlc {
    /// The curve bends at a size.
    Found {
        /// Effective size, from the least latency of each size: other work only ever makes accesses slower.
        bytes: Bytes,
        /// Smallest size any single repetition gives.
        bytes_min: Bytes,
        /// Largest size any single repetition gives.
        bytes_max: Bytes,
        /// Latency within the last-level cache.
        cache_ns: f64,
        /// Latency beyond it.
        memory_ns: f64,
        /// Root mean square of the relative difference between curve and fit, in percent.
        fit_error_percent: f64,
    },
    /// The curve does not support a number.
    NotFound {
        /// Why not, in words.
        reason: String,
    },
}

/// Sizes above the private cache below which three levels cannot be told apart.
const POINTS_MIN: usize = 6;
/// Memory must cost this much more than the last level to count as a level of its own.
const LEVEL_RATIO_MIN: f64 = 1.3;
/// The bend must explain the curve this much better (sum of squares) than no bend. Unmeasured: chosen so that flat
/// curves with 5 % noise are never given a knee in the property tests below.
const BEND_GAIN_MIN: f64 = 3.0;
/// Candidates for `C`, per doubling: steps of 3 %, less than runs differ.
const CANDIDATES_PER_OCTAVE: u32 = 24;

/// Finds the effective last-level cache from a latency curve.
///
/// `private` is the size of the cache just above it (the core's own L2). Points may come in any order; points without
/// repetitions, or with latencies that are not positive numbers, are left out.
pub fn effective_llc(points: &[CurvePoint], private: Bytes) -> EffectiveLlc {
    let not_found = |reason: String| EffectiveLlc::NotFound { reason };
    let mut curve: Vec<(f64, &[f64])> = points
        .iter()
        .filter(|p| p.bytes.0 > 0 && !p.ns.is_empty() && p.ns.iter().all(|ns| ns.is_finite() && *ns > 0.0))
        // Between half and the whole of the private cache, sets fill unevenly: its own edge, not the one sought.
        .filter(|p| p.bytes.0 >= private.0 / 4 && (p.bytes.0 <= private.0 / 2 || p.bytes.0 > private.0))
        .map(|p| (p.bytes.0 as f64, p.ns.as_slice()))
        .collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    let private = (private.0 as f64).max(1.0);
    let above = curve.iter().filter(|(bytes, _)| *bytes > private).count();
    if above < POINTS_MIN {
        return not_found(format!(
            "only {above} sizes above the private cache were measured, {POINTS_MIN} are needed"
        ));
    }
    let largest = curve.last().map_or(private, |(bytes, _)| *bytes);

    let least = |ns: &[f64]| ns.iter().copied().fold(f64::INFINITY, f64::min);
    let leasts: Vec<(f64, f64)> = curve.iter().map(|(bytes, ns)| (*bytes, least(ns))).collect();
    let fit = match fit_bend(&leasts, private) {
        Ok(fit) => fit,
        Err(reason) => return not_found(reason),
    };
    // The plateau beyond the knee must have been seen, not extrapolated.
    if leasts.iter().filter(|(bytes, _)| *bytes > fit.knee * 1.2).count() < 2 {
        return not_found(format!(
            "the curve still rises at the largest size, {}",
            Bytes(largest as u64)
        ));
    }

    let repetitions = curve.iter().map(|(_, ns)| ns.len()).min().unwrap_or(0);
    let mut knees = vec![fit.knee];
    knees.extend((0..repetitions).filter_map(|r| {
        let one: Vec<(f64, f64)> = curve.iter().map(|(bytes, ns)| (*bytes, ns[r])).collect();
        fit_bend(&one, private).ok().map(|fit| fit.knee)
    }));
    EffectiveLlc::Found {
        bytes: Bytes(fit.knee.round() as u64),
        bytes_min: Bytes(knees.iter().copied().fold(f64::INFINITY, f64::min).round() as u64),
        bytes_max: Bytes(knees.iter().copied().fold(0.0, f64::max).round() as u64),
        cache_ns: fit.cache_ns,
        memory_ns: fit.memory_ns,
        fit_error_percent: 100.0 * (fit.error / leasts.len() as f64).sqrt(),
    }
}

/// The best mixture with a bend at `knee`.
struct Fit {
    knee: f64,
    cache_ns: f64,
    memory_ns: f64,
    /// Sum of squared relative errors.
    error: f64,
}

fn fit_bend(curve: &[(f64, f64)], private: f64) -> Result<Fit, String> {
    let largest = curve.last().map_or(private, |(bytes, _)| *bytes);
    let mut best: Option<Fit> = None;
    let mixture = |&(bytes, ns): &(f64, f64)| {
        let inner = hit(private / bytes);
        ([inner, 1.0 - inner], ns)
    };
    let flat: Vec<([f64; 2], f64)> = curve.iter().map(mixture).collect();
    let flat_error = least_squares(&flat).map_or(f64::INFINITY, |(_, error)| error);
    let octaves = (largest / private).log2().max(0.0);
    let candidates = (octaves * f64::from(CANDIDATES_PER_OCTAVE)).ceil() as u32;
    for step in 1..=candidates {
        let knee = private * (f64::from(step) / f64::from(CANDIDATES_PER_OCTAVE)).exp2();
        let rows: Vec<([f64; 3], f64)> = curve
            .iter()
            .map(|&(bytes, ns)| {
                let inner = hit(private / bytes);
                let outer = hit(knee / bytes).max(inner);
                ([inner, outer - inner, 1.0 - outer], ns)
            })
            .collect();
        let Some(([inner_ns, cache_ns, memory_ns], error)) = least_squares(&rows) else {
            continue;
        };
        let ordered = inner_ns > 0.0 && cache_ns >= inner_ns && memory_ns >= cache_ns;
        if ordered && best.as_ref().is_none_or(|best| error < best.error) {
            best = Some(Fit {
                knee,
                cache_ns,
                memory_ns,
                error,
            });
        }
    }
    let Some(best) = best else {
        return Err("latency does not rise with size".to_owned());
    };
    if best.memory_ns < best.cache_ns * LEVEL_RATIO_MIN || best.error * BEND_GAIN_MIN > flat_error {
        return Err(format!(
            "no second rise of latency up to {}",
            Bytes(largest as u64)
        ));
    }
    Ok(best)
}

fn hit(ratio: f64) -> f64 {
    ratio.min(1.0)
}

/// Coefficients minimising the sum of squared *relative* errors, with that sum; `None` when they are not determined.
fn least_squares<const N: usize>(rows: &[([f64; N], f64)]) -> Option<([f64; N], f64)> {
    // Normal equations, each row weighted by 1 / ns^2.
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (row, ns) in rows {
        let weight = 1.0 / (ns * ns);
        for i in 0..N {
            for j in 0..N {
                matrix[i][j] += weight * row[i] * row[j];
            }
            right[i] += weight * row[i] * ns;
        }
    }
    // Gaussian elimination; the matrix is symmetric and positive, so the diagonal serves as pivot.
    let scale = (0..N).map(|i| matrix[i][i]).fold(0.0, f64::max);
    for i in 0..N {
        if matrix[i][i] <= scale * 1e-9 {
            return None;
        }
        for below in i + 1..N {
            let factor = matrix[below][i] / matrix[i][i];
            let pivot_row = matrix[i];
            for (value, pivot) in matrix[below].iter_mut().zip(pivot_row).skip(i) {
                *value -= factor * pivot;
            }
            right[below] -= factor * right[i];
        }
    }
    let mut solution = [0.0; N];
    for i in (0..N).rev() {
        let known: f64 = (i + 1..N).map(|j| matrix[i][j] * solution[j]).sum();
        solution[i] = (right[i] - known) / matrix[i][i];
    }
    let error = rows
        .iter()
        .map(|(row, ns)| {
            let fitted: f64 = row.iter().zip(&solution).map(|(a, b)| a * b).sum();
            ((fitted - ns) / ns).powi(2)
        })
        .sum();
    Some((solution, error))
}

/// The median; the mean of the middle two for even counts. Zero for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const L2: Bytes = Bytes::mib(2);

    /// Half-octave sizes from 16 KiB to `largest`.
    fn sizes(largest: Bytes) -> Vec<Bytes> {
        (0..60)
            .map(|step| Bytes((16384.0 * (f64::from(step) / 2.0).exp2()) as u64 / 64 * 64))
            .take_while(|bytes| *bytes <= largest)
            .collect()
    }

    /// Deterministic noise in -1..1.
    fn noise(seed: u64, n: u64) -> f64 {
        let mut x = (seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^= x >> 32;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
        (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    struct Synthetic {
        llc: Bytes,
        noise_percent: f64,
        seed: u64,
    }

    fn curve(sizes: &[Bytes], machine: &Synthetic) -> Vec<CurvePoint> {
        let at = |bytes: Bytes, index: u64| {
            let w = bytes.0 as f64;
            let l1 = (49152.0 / w).min(1.0);
            let l2 = (L2.0 as f64 / w).min(1.0);
            let l3 = (machine.llc.0 as f64 / w).min(1.0).max(l2);
            let clean = 2.0 * l1 + 6.0 * (l2 - l1) + 30.0 * (l3 - l2) + 110.0 * (1.0 - l3);
            clean * (1.0 + machine.noise_percent / 100.0 * noise(machine.seed, index))
        };
        let point = |(i, &bytes): (usize, &Bytes)| CurvePoint {
            bytes,
            ns: (0..5)
                .map(|repetition| at(bytes, i as u64 * 5 + repetition))
                .collect(),
        };
        sizes.iter().enumerate().map(point).collect()
    }

    fn found(answer: &EffectiveLlc) -> (f64, f64, f64) {
        match answer {
            EffectiveLlc::Found {
                bytes,
                bytes_min,
                bytes_max,
                ..
            } => (bytes.0 as f64, bytes_min.0 as f64, bytes_max.0 as f64),
            EffectiveLlc::NotFound { reason } => panic!("no knee: {reason}"),
        }
    }

    #[test]
    fn clean_curves_give_the_knee_to_a_twentieth() {
        for llc in [8, 12, 24, 32, 64, 100].map(Bytes::mib) {
            let points = curve(
                &sizes(Bytes::gib(1)),
                &Synthetic {
                    llc,
                    noise_percent: 0.0,
                    seed: 0,
                },
            );
            let (bytes, min, max) = found(&effective_llc(&points, L2));
            let off = bytes / llc.0 as f64;
            assert!((0.95..1.05).contains(&off), "{llc}: {off}");
            assert!(min <= bytes && bytes <= max);
        }
    }

    #[test]
    fn a_cache_larger_than_the_range_is_not_named() {
        let machine = Synthetic {
            llc: Bytes::gib(4),
            noise_percent: 2.0,
            seed: 7,
        };
        let answer = effective_llc(&curve(&sizes(Bytes::mib(256)), &machine), L2);
        assert!(matches!(answer, EffectiveLlc::NotFound { .. }), "{answer:?}");
    }

    #[test]
    fn a_knee_at_the_very_end_is_not_extrapolated() {
        let machine = Synthetic {
            llc: Bytes::mib(220),
            noise_percent: 0.0,
            seed: 0,
        };
        let answer = effective_llc(&curve(&sizes(Bytes::mib(256)), &machine), L2);
        assert!(matches!(answer, EffectiveLlc::NotFound { .. }), "{answer:?}");
    }

    #[test]
    fn too_few_or_damaged_points_say_so() {
        let point = |mib, ns| CurvePoint {
            bytes: Bytes::mib(mib),
            ns: vec![ns],
        };
        for points in [
            vec![],
            vec![point(4, 30.0), point(8, 30.0)],
            vec![point(4, f64::NAN); 20],
        ] {
            assert!(matches!(
                effective_llc(&points, L2),
                EffectiveLlc::NotFound { .. }
            ));
        }
    }

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(
            [
                median(&[3.0, 1.0, 2.0]),
                median(&[4.0, 1.0, 2.0, 3.0]),
                median(&[])
            ],
            [2.0, 2.5, 0.0]
        );
    }

    proptest! {
        #[test]
        fn noisy_plateaus_give_the_knee_to_a_quarter(
            llc_mib in 6u64..120, seed: u64, noise_percent in 0.0f64..5.0,
        ) {
            let machine = Synthetic { llc: Bytes::mib(llc_mib), noise_percent, seed };
            let (bytes, min, max) = found(&effective_llc(&curve(&sizes(Bytes::gib(1)), &machine), L2));
            let off = bytes / machine.llc.0 as f64;
            prop_assert!((0.8..1.25).contains(&off), "{} off by {off}", machine.llc);
            prop_assert!(min <= bytes && bytes <= max);
        }

        #[test]
        fn flat_noisy_curves_have_no_knee(level in 1.0f64..200.0, seed: u64, noise_percent in 0.0f64..5.0) {
            let point = |(i, &bytes): (usize, &Bytes)| CurvePoint {
                bytes,
                ns: (0..5).map(|r| level * (1.0 + noise_percent / 100.0 * noise(seed, i as u64 * 5 + r))).collect(),
            };
            let points: Vec<CurvePoint> = sizes(Bytes::mib(512)).iter().enumerate().map(point).collect();
            let answer = effective_llc(&points, L2);
            let none = matches!(answer, EffectiveLlc::NotFound { .. });
            prop_assert!(none, "{answer:?}");
        }
    }
}
