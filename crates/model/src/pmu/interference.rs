//! What a workload loses beside others, and how large the last-level cache is, from times alone.
//!
//! A polluter on other cores walks a footprint of `P` bytes again and again. The workload, whose own footprint is `F`, is timed beside it.
//! As long as both fit the cache nothing happens; beyond, each displaces lines of the other:
//!
//! ```text
//! time                              . - - - - -   everything of F is displaced
//!  |                             .'
//!  |                           .'
//!  |  - - - - - - - - - - - -+   <- knee: F + P = C, the effective last-level cache
//!  |
//!  +------------------------------------------- P
//! ```
//!
//! Order of calls: [`curve`] turns the times of any workload into slow-downs, each of a round's times over the same round's time beside an
//! idle polluter, and says whether they exceed what two idle times differ by; [`first_felt`] and [`Curve::sensitivity_percent`] sum it up.
//! For a synthetic workload of known footprint, [`effective_llc`] fits the knee, or says that there is none.
//!
//! The miss fraction beyond the knee is that of two parties in one cache with an effective capacity `C`, in which the polluter touches
//! lines `k` times as often as the workload does, for two limits of replacement:
//!
//! * random: a line touched at rate `r` and replaced at rate `m` is there for `r / (r + m)` of its touches; `m` is such that both
//!   parties' lines add up to `C`;
//! * least recently used: a line stays for a time `t` in which both together touch `C` bytes of distinct lines. Even draws touch
//!   `F (1 - exp(-t / F))`, a walk in a cycle `min(P, k t)`.
//!
//! `k` and the limit are fitted along with `C`: they shape the rise, and the knee is where it begins under either. The rejected
//! alternative, a straight line from the knee on, put the knee at up to twice the size when the rise was slow.
//!
//! Not here: measuring; nothing reads a clock. The latency curve of a workload that is alone is [`crate::knee`].

use crate::knee::{EffectiveLlc, median};
use crate::spread::Spread;
use crate::units::Bytes;

/// Rounds below which nothing is said of a slow-down beyond its number.
const ROUNDS_MIN: usize = 3;
/// Footprints of the polluter needed for a knee, the idle one included.
const POINTS_MIN: usize = 6;
/// Points that must lie on each side of a knee, by more than this factor of the sum of both footprints.
const SIDE_POINTS_MIN: usize = 2;
const SIDE_FACTOR: f64 = 1.05;
/// Beyond the knee the workload must take this much longer. Unmeasured: twice the noise of the property tests below.
const RISE_MIN: f64 = 1.15;
/// The knee must explain the times this much better (sum of squares) than an even time does, and than a time that rises with the
/// logarithm of the footprint from the start does. Unmeasured: chosen so that flat and evenly rising times with 5 % noise are not given
/// a knee in the property tests below.
const FLAT_GAIN_MIN: f64 = 3.0;
const RISING_GAIN_MIN: f64 = 1.25;
/// Of so many rounds one must have a knee by itself. Unmeasured: see [`RISING_GAIN_MIN`].
const ROUNDS_A_KNEE_MIN: usize = 3;
/// Candidates for `C` per doubling: steps of 3 %, less than runs differ.
const CANDIDATES_PER_OCTAVE: f64 = 24.0;
/// How often the polluter touches a line while the workload touches one, where that is not known: 1/4 to 64.
const RATIOS: std::ops::RangeInclusive<i32> = -2..=6;
/// What the cache may see of touches that were counted, against what it sees of the workload's: 1/4 to 4. Private caches and prefetchers stand
/// in between.
const SEEN: std::ops::RangeInclusive<i32> = -2..=2;
/// Halvings of an interval that find a rate or a time.
const HALVINGS: usize = 40;

/// Times of a workload beside one polluter.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// What the polluter walks, over all its threads.
    pub footprint: Bytes,
    /// Its rate as a part of the fastest it can, over 0 and at most 1.
    pub intensity: f64,
    /// Seconds of the workload, one value a round, in the order of rounds.
    pub seconds: Vec<f64>,
}

/// How much longer the workload takes beside a polluter.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdown {
    /// What the polluter walks.
    pub footprint: Bytes,
    /// Its rate.
    pub intensity: f64,
    /// Time beside it over time beside an idle one, round by round.
    pub times: Spread,
    /// Whether that is more than the idle times differ by.
    pub felt: Felt,
}

/// Whether a slow-down is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Felt {
    /// The median lies above all ratios of two idle times.
    Yes,
    /// It lies within them.
    No,
    /// Too few rounds to say.
    Unknown,
}

/// The miss-cost curve of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Ratios of the two idle times of each round: what the machine's noise alone does.
    pub noise: Spread,
    /// One for each polluter, in the order given.
    pub points: Vec<Slowdown>,
}

/// Times that make no curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterferenceError {
    /// No rounds.
    #[error("no round was measured beside an idle polluter")]
    NoRounds,
    /// Lists of different lengths.
    #[error("each polluter needs one time for each of {rounds} rounds, one has {times}")]
    Rounds {
        /// Of the idle times.
        rounds: usize,
        /// Of the list that differs.
        times: usize,
    },
    /// A time that is none.
    #[error("a time is not a positive number of seconds")]
    Time,
}

impl Curve {
    /// The slow-down beside the largest footprint at the highest rate, less 1, in percent; `None` without polluters.
    pub fn sensitivity_percent(&self) -> Option<Spread> {
        let largest = self.largest()?;
        let percent = |times: f64| 100.0 * (times - 1.0);
        Some(Spread {
            n: largest.times.n,
            min: percent(largest.times.min),
            median: percent(largest.times.median),
            max: percent(largest.times.max),
        })
    }

    /// The point of the largest footprint, and of these the one of the highest rate.
    pub fn largest(&self) -> Option<&Slowdown> {
        self.points.iter().max_by(|a, b| {
            let by_footprint = a.footprint.cmp(&b.footprint);
            by_footprint.then_with(|| a.intensity.total_cmp(&b.intensity))
        })
    }
}

/// Slow-downs of a workload. `idle` and `idle_again` are its times beside an idle polluter at the beginning and the end of each round.
///
/// # Errors
/// [`InterferenceError`] when there are no rounds, lists of different lengths, or times that are no positive numbers.
pub fn curve(idle: &[f64], idle_again: &[f64], beside: &[Beside]) -> Result<Curve, InterferenceError> {
    let rounds = idle.len();
    let lists = beside.iter().map(|beside| &beside.seconds[..]);
    for list in [idle, idle_again].into_iter().chain(lists) {
        if list.len() != rounds {
            let times = list.len();
            return Err(InterferenceError::Rounds { rounds, times });
        }
        if list.iter().any(|seconds| !seconds.is_finite() || *seconds <= 0.0) {
            return Err(InterferenceError::Time);
        }
    }
    // Which of two equal times came first is an accident, so each ratio counts both ways.
    let ratios: Vec<f64> = idle
        .iter()
        .zip(idle_again)
        .flat_map(|(first, second)| [first / second, second / first])
        .collect();
    let noise = Spread::of(&ratios).ok_or(InterferenceError::NoRounds)?;
    let point = |beside: &Beside| {
        let base = idle
            .iter()
            .zip(idle_again)
            .map(|(first, second)| f64::midpoint(*first, *second));
        let times: Vec<f64> = beside
            .seconds
            .iter()
            .zip(base)
            .map(|(time, base)| time / base)
            .collect();
        let times = Spread::of(&times).ok_or(InterferenceError::NoRounds)?;
        let felt = if rounds < ROUNDS_MIN {
            Felt::Unknown
        } else if times.median > noise.max {
            Felt::Yes
        } else {
            Felt::No
        };
        Ok(Slowdown {
            footprint: beside.footprint,
            intensity: beside.intensity,
            times,
            felt,
        })
    };
    Ok(Curve {
        noise,
        points: beside.iter().map(point).collect::<Result<_, _>>()?,
    })
}

/// The smallest footprint from which on every larger one is felt; `None` if the largest is not. Looks at the highest rate of each.
pub fn first_felt(curve: &Curve) -> Option<Bytes> {
    let mut points: Vec<&Slowdown> = curve.points.iter().collect();
    points.sort_by(|a, b| {
        let by_footprint = b.footprint.cmp(&a.footprint);
        by_footprint.then_with(|| b.intensity.total_cmp(&a.intensity))
    });
    points.dedup_by_key(|point| point.footprint);
    points
        .into_iter()
        .take_while(|point| point.felt == Felt::Yes)
        .last()
        .map(|point| point.footprint)
}

/// Times of even draws from a known footprint beside one polluter.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownPoint {
    /// What the polluter walks; 0 for an idle one.
    pub polluter: Bytes,
    /// Time an access, in any unit, one value a round.
    pub ns: Vec<f64>,
    /// Lines the polluter touched for each access of the workload. A polluter that misses is slower than one that hits, so this falls where
    /// both no longer fit, and with it what the workload loses. `None`: not known, and taken to be the same beside all.
    pub touches: Option<f64>,
}

/// The effective last-level cache from times of a workload that draws lines evenly from `own` bytes, beside polluters.
///
/// The answer is the sum of both footprints from which on they displace each other. Its spread is that of the rounds, each fitted by
/// itself; of three rounds or more a third has to have a knee, too. Latencies in it are those of the workload: part of its accesses may be served by private caches.
pub fn effective_llc(own: Bytes, points: &[KnownPoint]) -> EffectiveLlc {
    let not_found = |reason: String| EffectiveLlc::NotFound { reason };
    let mut points: Vec<&KnownPoint> = points
        .iter()
        .filter(|point| !point.ns.is_empty() && point.ns.iter().all(|ns| ns.is_finite() && *ns > 0.0))
        .collect();
    points.sort_by_key(|point| point.polluter);
    if own.0 == 0 || points.len() < POINTS_MIN {
        return not_found(format!(
            "{} footprints of the polluter were measured, {POINTS_MIN} are needed",
            points.len()
        ));
    }
    let own = own.0 as f64;
    let polluters: Vec<f64> = points.iter().map(|point| point.polluter.0 as f64).collect();
    let shapes = shapes(own, &points);
    // The middle of the rounds, not the least as of a workload that is alone: here what makes accesses slower is what is looked for, and a
    // round in which the polluter did not get its processor is fast.
    let middle: Vec<f64> = points.iter().map(|point| median(&point.ns)).collect();
    let fit = match fit(own, &polluters, &middle, &shapes) {
        Ok(fit) => fit,
        Err(reason) => return not_found(reason),
    };
    let rounds = points.iter().map(|point| point.ns.len()).min().unwrap_or(0);
    let mut found = vec![fit.capacity];
    found.extend((0..rounds).filter_map(|round| {
        let one: Vec<f64> = points.iter().map(|point| point.ns[round]).collect();
        Some(self::fit(own, &polluters, &one, &shapes).ok()?.capacity)
    }));
    // Noise alone may bend the middle of evenly rising times, but seldom a round.
    let with_knee = found.len() - 1;
    if rounds >= ROUNDS_MIN && with_knee * ROUNDS_A_KNEE_MIN < rounds {
        return not_found(format!("only {with_knee} of {rounds} rounds have a knee"));
    }
    EffectiveLlc::Found {
        bytes: Bytes(fit.capacity.round() as u64),
        bytes_min: Bytes(found.iter().copied().fold(f64::INFINITY, f64::min).round() as u64),
        bytes_max: Bytes(found.iter().copied().fold(0.0, f64::max).round() as u64),
        cache_ns: fit.cache_ns,
        memory_ns: fit.memory_ns,
        fit_error_percent: 100.0 * (fit.error / middle.len() as f64).sqrt(),
    }
}

/// What times would look like with one cache: the part of accesses that miss beside each polluter.
struct Shape {
    capacity: f64,
    misses: Vec<f64>,
}

/// Every candidate. They depend on footprints only, so all rounds share them.
fn shapes(own: f64, points: &[&KnownPoint]) -> Vec<Shape> {
    let largest = own
        + points
            .iter()
            .map(|point| point.polluter.0 as f64)
            .fold(0.0, f64::max);
    let counted = points
        .iter()
        .all(|point| point.polluter.0 == 0 || point.touches.is_some());
    let factors = if counted { SEEN } else { RATIOS };
    let steps = ((largest / own).log2() * CANDIDATES_PER_OCTAVE).ceil() as u32;
    let mut shapes = Vec::new();
    for step in 0..=steps {
        let capacity = own * (f64::from(step) / CANDIDATES_PER_OCTAVE).exp2();
        for factor in factors.clone().map(|power| f64::from(power).exp2()) {
            for limit in [Limit::Random, Limit::LeastRecentlyUsed] {
                let of = |point: &&KnownPoint| {
                    let ratio = factor * point.touches.filter(|_| counted).unwrap_or(1.0);
                    misses(own, point.polluter.0 as f64, ratio, capacity, limit)
                };
                let misses = points.iter().map(of).collect();
                shapes.push(Shape { capacity, misses });
            }
        }
    }
    shapes
}

/// The shape that fits best.
struct Fit {
    capacity: f64,
    cache_ns: f64,
    memory_ns: f64,
    /// Sum of squared relative errors.
    error: f64,
}

/// How a cache replaces, in the limit.
#[derive(Clone, Copy)]
enum Limit {
    Random,
    LeastRecentlyUsed,
}

/// `polluters` ascend; `times` are beside each of them.
fn fit(own: f64, polluters: &[f64], times: &[f64], shapes: &[Shape]) -> Result<Fit, String> {
    let over = |positions: &[f64]| line(positions.iter().copied().zip(times.iter().copied()));
    let flat = over(&vec![0.0; times.len()]).map_or(f64::INFINITY, |line| line.error);
    let logarithms: Vec<f64> = polluters
        .iter()
        .map(|polluter| (polluter / own).ln_1p())
        .collect();
    let rising = over(&logarithms).filter(|line| line.slope >= 0.0);
    let rising = rising.map_or(f64::INFINITY, |line| line.error);
    let mut best: Option<Fit> = None;
    for shape in shapes {
        let Some(line) = over(&shape.misses).filter(|line| line.slope > 0.0 && line.start > 0.0) else {
            continue;
        };
        if best.as_ref().is_none_or(|best| line.error < best.error) {
            best = Some(Fit {
                capacity: shape.capacity,
                cache_ns: line.start,
                memory_ns: line.start + line.slope,
                error: line.error,
            });
        }
    }
    let Some(best) = best else {
        return Err("times do not rise with the polluter's footprint".to_owned());
    };
    let side = |beyond: bool| -> Vec<f64> {
        let of_side = polluters.iter().zip(times).filter(|(polluter, _)| match beyond {
            true => own + *polluter > best.capacity * SIDE_FACTOR,
            false => own + *polluter < best.capacity / SIDE_FACTOR,
        });
        of_side.map(|(_, time)| *time).collect()
    };
    let (below, beyond) = (side(false), side(true));
    // Every time beyond counts, those close to the knee too: where a polluter that misses is slow, times fall again behind it.
    let highest = polluters
        .iter()
        .zip(times)
        .filter(|(polluter, _)| own + **polluter > best.capacity)
        .map(|(_, time)| *time)
        .fold(0.0, f64::max);
    if best.error * FLAT_GAIN_MIN > flat || highest < best.cache_ns * RISE_MIN {
        return Err(format!(
            "times do not rise with polluters of up to {}",
            Bytes(polluters.iter().copied().fold(0.0, f64::max) as u64)
        ));
    }
    if best.error * RISING_GAIN_MIN > rising {
        return Err("times rise evenly with the polluter's footprint, without a knee".to_owned());
    }
    if below.len() < SIDE_POINTS_MIN {
        return Err(format!(
            "times rise from the smallest polluters on: {} alone may exceed the cache",
            Bytes(own as u64)
        ));
    }
    if beyond.len() < SIDE_POINTS_MIN {
        return Err("times still rise at the largest polluter".to_owned());
    }
    Ok(best)
}

/// The part of the workload's accesses that miss: 0 while both fit. `ratio` is how often the polluter touches a line while the workload,
/// which draws evenly, touches one.
fn misses(own: f64, polluter: f64, ratio: f64, capacity: f64, limit: Limit) -> f64 {
    if own + polluter <= capacity {
        return 0.0;
    }
    // What both hold falls with the rate of replacement, and rises with the time a line stays; so halving finds either.
    let (mut low, mut high) = (0.0, 1.0);
    match limit {
        Limit::Random => {
            let held = |rate: f64| {
                let own = own / (1.0 + rate * own);
                own + polluter / (1.0 + rate * polluter / ratio)
            };
            let rate = |x: f64| x / (1.0 - x) / own;
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(low, high);
                match held(rate(middle)) > capacity {
                    true => low = middle,
                    false => high = middle,
                }
            }
            // A share of r / (r + m) of touches hit, so m / (r + m) miss, and x is just that.
            high
        }
        Limit::LeastRecentlyUsed => {
            let held = |time: f64| own * (1.0 - (-time / own).exp()) + polluter.min(ratio * time);
            let time = |x: f64| -own * (1.0 - x).ln();
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(low, high);
                match held(time(middle)) > capacity {
                    true => high = middle,
                    false => low = middle,
                }
            }
            // A line that is not touched again within the time is gone.
            1.0 - low
        }
    }
}

/// A line through points.
struct Line {
    start: f64,
    slope: f64,
    /// Sum of squared relative errors.
    error: f64,
}

/// The line with the least sum of squared *relative* errors; with equal positions only, the best even one. `None` without points.
fn line(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Line> {
    let weighted = points.clone().map(|(x, y)| (x, y, 1.0 / (y * y)));
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y, weight) in weighted {
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    if w <= 0.0 {
        return None;
    }
    let spread = w * wxx - wx * wx;
    let slope = match spread > w * wxx * 1e-9 {
        true => (w * wxy - wx * wy) / spread,
        false => 0.0,
    };
    let start = (wy - slope * wx) / w;
    let error = points.map(|(x, y)| ((start + slope * x - y) / y).powi(2)).sum();
    Some(Line { start, slope, error })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Deterministic noise in -1..1.
    fn noise(seed: u64, n: u64) -> f64 {
        let mut x = (seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^= x >> 32;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
        (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// An idle polluter, and half octaves from 1 MiB.
    fn polluters(largest: Bytes) -> Vec<Bytes> {
        let steps = (0..40).map(|step| Bytes((1048576.0 * (f64::from(step) / 2.0).exp2()) as u64));
        std::iter::once(Bytes(0))
            .chain(steps.take_while(|bytes| *bytes <= largest))
            .collect()
    }

    fn points(of: impl Fn(f64, u64) -> f64, largest: Bytes) -> Vec<KnownPoint> {
        let point = |(at, polluter): (usize, Bytes)| KnownPoint {
            polluter,
            ns: (0..7)
                .map(|round| of(polluter.0 as f64, at as u64 * 7 + round))
                .collect(),
            touches: None,
        };
        polluters(largest).into_iter().enumerate().map(point).collect()
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
    fn slow_downs_are_taken_round_by_round() {
        let beside = |mib, seconds: &[f64]| Beside {
            footprint: Bytes::mib(mib),
            intensity: 1.0,
            seconds: seconds.to_vec(),
        };
        // The second round is twice as slow as a whole, which is not the polluters' doing.
        let curve = curve(
            &[1.0, 2.0, 1.0],
            &[1.0, 2.0, 1.02],
            &[
                beside(1, &[1.0, 2.0, 1.01]),
                beside(8, &[1.2, 2.4, 1.212]),
                beside(32, &[1.5, 3.0, 1.515]),
            ],
        )
        .expect("three rounds");
        assert_eq!(curve.points[0].felt, Felt::No);
        assert!((curve.points[2].times.median - 1.5).abs() < 1e-9);
        let percent = curve.sensitivity_percent().expect("points");
        assert!((percent.median - 50.0).abs() < 1e-6 && percent.n == 3);
        assert_eq!(first_felt(&curve), Some(Bytes::mib(8)));
        assert!(curve.noise.min < 1.0 && curve.noise.max > 1.0);
    }

    #[test]
    fn what_makes_no_curve_is_an_error() {
        let beside = |seconds: &[f64]| {
            [Beside {
                footprint: Bytes::mib(1),
                intensity: 1.0,
                seconds: seconds.to_vec(),
            }]
        };
        assert_eq!(curve(&[], &[], &[]), Err(InterferenceError::NoRounds));
        assert_eq!(
            curve(&[1.0], &[1.0], &beside(&[])),
            Err(InterferenceError::Rounds { rounds: 1, times: 0 })
        );
        for wrong in [0.0, -1.0, f64::NAN] {
            assert_eq!(
                curve(&[1.0], &[1.0], &beside(&[wrong])),
                Err(InterferenceError::Time)
            );
        }
        let few = curve(&[1.0], &[1.0], &beside(&[2.0])).expect("one round");
        assert_eq!((few.points[0].felt, first_felt(&few)), (Felt::Unknown, None));
    }

    #[test]
    fn too_few_or_damaged_points_say_so() {
        let point = |mib, ns| KnownPoint {
            polluter: Bytes::mib(mib),
            ns: vec![ns],
            touches: None,
        };
        for (own, points) in [
            (Bytes::mib(4), vec![]),
            (Bytes::mib(4), vec![point(1, 10.0); 4]),
            (Bytes::mib(4), vec![point(1, f64::NAN); 20]),
            (Bytes(0), vec![point(1, 10.0); 20]),
        ] {
            assert!(matches!(
                effective_llc(own, &points),
                EffectiveLlc::NotFound { .. }
            ));
        }
    }

    #[test]
    fn a_workload_larger_than_the_cache_names_no_size() {
        let own = Bytes::mib(16);
        let times = |polluter: f64, n| {
            let missed = misses(own.0 as f64, polluter, 4.0, 8.0 * 1048576.0, Limit::Random);
            (20.0 + 80.0 * missed) * (1.0 + 0.01 * noise(3, n))
        };
        let answer = effective_llc(own, &points(times, Bytes::mib(64)));
        assert!(matches!(answer, EffectiveLlc::NotFound { .. }), "{answer:?}");
    }

    #[test]
    fn both_limits_of_replacement_begin_at_the_knee() {
        for limit in [Limit::Random, Limit::LeastRecentlyUsed] {
            assert_eq!(misses(4.0, 4.0, 2.0, 8.0, limit), 0.0);
            assert!(misses(4.0, 4.001, 2.0, 8.0, limit) < 0.05);
            assert!(misses(4.0, 400.0, 64.0, 8.0, limit) > 0.9);
        }
        // Alone, even draws hit what fits.
        assert!((misses(16.0, 0.0, 1.0, 4.0, Limit::Random) - 0.75).abs() < 1e-6);
        assert!((misses(16.0, 0.0, 1.0, 4.0, Limit::LeastRecentlyUsed) - 0.75).abs() < 1e-6);
    }

    proptest! {
        // Each case fits thousands of shapes.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn noisy_knees_are_found_to_a_quarter(
            capacity_mib in 8.0f64..64.0, own_part in 0.15f64..0.6, ratio in 1.0f64..32.0, random: bool, seed: u64,
            noise_percent in 0.0f64..4.0,
        ) {
            let capacity = capacity_mib * 1048576.0;
            let own = Bytes((capacity * own_part) as u64);
            let limit = if random { Limit::Random } else { Limit::LeastRecentlyUsed };
            let times = |polluter: f64, n| {
                let clean = 15.0 + 75.0 * misses(own.0 as f64, polluter, ratio, capacity, limit);
                clean * (1.0 + noise_percent / 100.0 * noise(seed, n))
            };
            let largest = Bytes::mib(256);
            let answer = effective_llc(own, &points(times, largest));
            // A small workload that touches its lines as often as the polluter touches others keeps nearly all of them in a cache that replaces the
            // least recently used: there is no rise to find, and saying so is right.
            let rise = 1.0 + 5.0 * misses(own.0 as f64, largest.0 as f64, ratio, capacity, limit);
            if rise < RISE_MIN * (1.0 + 2.0 * noise_percent / 100.0) && matches!(answer, EffectiveLlc::NotFound { .. }) {
                return Ok(());
            }
            let (bytes, min, max) = found(&answer);
            let off = bytes / capacity;
            prop_assert!((0.75..1.3).contains(&off), "off by {off}");
            prop_assert!(min <= bytes && bytes <= max);
        }

        #[test]
        fn knees_are_found_where_larger_polluters_are_slower(
            capacity_mib in 8.0f64..64.0, own_part in 0.3f64..0.8, fast in 2.0f64..16.0, seen in 0.5f64..2.0, random: bool, seed: u64,
            noise_percent in 0.0f64..4.0,
        ) {
            let capacity = capacity_mib * 1048576.0;
            let own = Bytes((capacity * own_part) as u64);
            let limit = if random { Limit::Random } else { Limit::LeastRecentlyUsed };
            // Misses cost it eight times what hits do.
            let touches = |polluter: f64| fast / (1.0 + 7.0 * (1.0 - capacity / 2.0 / polluter).max(0.0));
            let times = |polluter: f64, n| {
                let missed = misses(own.0 as f64, polluter, seen * touches(polluter), capacity, limit);
                (15.0 + 75.0 * missed) * (1.0 + noise_percent / 100.0 * noise(seed, n))
            };
            let mut points = points(times, Bytes::mib(256));
            for point in &mut points {
                point.touches = (point.polluter.0 > 0).then(|| touches(point.polluter.0 as f64));
            }
            let most = points.iter().map(|point| median(&point.ns)).fold(0.0, f64::max);
            let answer = effective_llc(own, &points);
            if most < 15.0 * RISE_MIN * (1.0 + 3.0 * noise_percent / 100.0) && matches!(answer, EffectiveLlc::NotFound { .. }) {
                return Ok(());
            }
            let off = found(&answer).0 / capacity;
            prop_assert!((0.7..1.4).contains(&off), "off by {off}");
        }

        #[test]
        fn flat_times_have_no_knee(level in 1.0f64..200.0, seed: u64, noise_percent in 0.0f64..5.0) {
            let times = |_, n| level * (1.0 + noise_percent / 100.0 * noise(seed, n));
            let answer = effective_llc(Bytes::mib(4), &points(times, Bytes::mib(128)));
            let none = matches!(answer, EffectiveLlc::NotFound { .. });
            prop_assert!(none, "{answer:?}");
        }

        #[test]
        fn times_that_rise_evenly_have_no_knee(rise in 0.05f64..1.0, seed: u64, noise_percent in 0.5f64..5.0) {
            let own = Bytes::mib(4);
            let times = |polluter: f64, n| {
                20.0 * (1.0 + rise * (polluter / own.0 as f64).ln_1p()) * (1.0 + noise_percent / 100.0 * noise(seed, n))
            };
            let answer = effective_llc(own, &points(times, Bytes::mib(128)));
            let none = matches!(answer, EffectiveLlc::NotFound { .. });
            prop_assert!(none, "{answer:?}");
        }

        #[test]
        fn more_polluter_never_misses_less(
            own in 1.0f64..32.0, polluter in 0.0f64..64.0, more in 0.0f64..64.0, ratio in 0.25f64..64.0, capacity in 1.0f64..64.0,
            random: bool,
        ) {
            let limit = if random { Limit::Random } else { Limit::LeastRecentlyUsed };
            let missed = |polluter| misses(own, polluter, ratio, capacity, limit);
            let (some, many) = (missed(polluter), missed(polluter + more));
            prop_assert!((0.0..=1.0).contains(&some) && many >= some - 1e-9, "{some} {many}");
        }
    }
}
