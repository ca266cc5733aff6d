//! How fast the main thread of a work-ahead set gets on while its helper goes round with it (paper 000, section 4.3).
//!
//! Both threads go round one shared array. While they touch the same cache line of it, each write of the one takes the line away
//! from the other, and both are slow; everywhere else both are fast. The question is how much of its time the main thread
//! spends in the slow state. Count distance along the array in cache lines, time in seconds, and look at one *round*: from one
//! meeting of the two threads to the next, over which their distance changes by the whole array, `d` lines.
//!
//! ```text
//!              1 line: together          d - 1 lines: apart
//!   speeds     m', h'                    m, h                     lines per second of main and helper
//!   closing    c' = |h' - m'| forward    c = |h - m| forward      lines per second by which their distance changes
//!              c' =  h' + m'  backward   c =  h + m  backward
//!   time       1 / c'                    (d - 1) / c              seconds of the round
//! ```
//!
//! The main thread's net speed is what it covers in the round over the time the round takes. With `p`, the part of the time spent
//! together,
//!
//! ```text
//!   p = (1 / c') / (1 / c' + (d - 1) / c) = c / (c + (d - 1) c')        net speed = p m' + (1 - p) m
//! ```
//!
//! which is the paper's `s_f` and `s_b` with the fractions cleared, so that no speed divides by zero.
//!
//! **Signs.** The paper prints `h - m` and `h' - m'` without absolute values. That is right while both have one sign: numerator
//! and denominator then change sign together, so a helper slower than the main thread both ways needs no separate case. When the
//! signs differ, no round is ever completed, and neither the printed form (which may even leave the interval from `m'` to `m`) nor
//! one with absolute values holds: the faster thread reaches the line of the slower one, is the slower one there, falls back
//! out, and catches up again. They stay in lock-step at the edge of that line, the case the section describes in words. Their
//! distance no longer changes on average, so `p (h' - m') + (1 - p)(h - m) = 0`, which is `p = c / (c + c')` whatever `d` is.
//!
//! **Limits**, all forward: `h' = m'`, the threads never part once together, `m'`. `h = m`, they never meet again once apart, `m`.
//! Both, they keep the distance they started with; the mean over all starts is given, `p = 1 / d`, which is also the limit when
//! both differences vanish at one rate. `d = 1`: there is no other line to be on, `m'`.
//!
//! When does going backward pay? Put in terms of `p`: if `|h' - m'| / (h' + m') <= |h - m| / (h + m)`, that is if interference
//! brings the two speeds closer together than they were, as it does when its cost dominates both.
//!
//! Not here: the helper that waits at unchanged entries, whether a preload comes in time, and lines whose borders do not move with
//! the threads. The discrete-event model in `cachesim` has them.

use crate::operators::mode::Direction;
use crate::units::CacheLines;

/// Speeds of the two threads along the shared array, in its cache lines per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// `m`: the main thread, while the helper is on another line.
    pub main: f64,
    /// `m'`: the main thread, while both are on one line.
    pub main_interfering: f64,
    /// `h`: the helper, while the main thread is on another line.
    pub helper: f64,
    /// `h'`: the helper, while both are on one line.
    pub helper_interfering: f64,
}

/// Why there is no net speed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum WorkAheadError {
    /// A thread that stands still or goes backwards, or a number that is none.
    #[error(
        "speed {name} of a work-ahead set must be a positive, finite number of cache lines per second, not {value}"
    )]
    Speed {
        /// The paper's letter: `m`, `m'`, `h` or `h'`.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// An array of nothing.
    #[error("the array of a work-ahead set has at least 1 cache line")]
    NoLines,
}

impl Speeds {
    /// Whether all four are speeds.
    ///
    /// # Errors
    /// [`WorkAheadError::Speed`] for the first that is not positive and finite.
    pub fn check(&self) -> Result<(), WorkAheadError> {
        let named = [
            ("m", self.main),
            ("m'", self.main_interfering),
            ("h", self.helper),
            ("h'", self.helper_interfering),
        ];
        match named
            .into_iter()
            .find(|(_, value)| !(value.is_finite() && *value > 0.0))
        {
            Some((name, value)) => Err(WorkAheadError::Speed { name, value }),
            None => Ok(()),
        }
    }
}

/// Net speed of the main thread, in cache lines of the shared array per second: `s_f` or `s_b` of paper 000, section 4.3.
///
/// `array` is the array's size `d`. The answer lies between `m'` and `m`.
///
/// # Errors
/// [`WorkAheadError`] for a speed that is not positive and finite, and for an array without lines.
pub fn net_speed(speeds: &Speeds, array: CacheLines, direction: Direction) -> Result<f64, WorkAheadError> {
    speeds.check()?;
    if array.0 == 0 {
        return Err(WorkAheadError::NoLines);
    }
    let together = time_share_together(speeds, array.0, direction);
    Ok(together * speeds.main_interfering + (1.0 - together) * speeds.main)
}

/// `p` of the module's text, for checked input.
fn time_share_together(speeds: &Speeds, lines: u64, direction: Direction) -> f64 {
    if lines == 1 {
        return 1.0;
    }
    // In units of the fastest of the four: sums and products of any finite speeds stay finite, and `p` knows no unit.
    let unit = speeds
        .main
        .max(speeds.main_interfering)
        .max(speeds.helper)
        .max(speeds.helper_interfering);
    let [m, m2, h, h2] = [
        speeds.main,
        speeds.main_interfering,
        speeds.helper,
        speeds.helper_interfering,
    ]
    .map(|speed| speed / unit);
    let lines_apart = (lines - 1) as f64;
    let (apart, together, weight) = match direction {
        Direction::Backward => (h + m, h2 + m2, lines_apart),
        Direction::Forward => {
            let (apart, together) = (h - m, h2 - m2);
            if apart == 0.0 && together == 0.0 {
                return 1.0 / lines as f64;
            }
            let lock_step = (apart > 0.0 && together < 0.0) || (apart < 0.0 && together > 0.0);
            (
                apart.abs(),
                together.abs(),
                if lock_step { 1.0 } else { lines_apart },
            )
        }
    };
    apart / (apart + weight * together)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Direction::{Backward, Forward};
    use super::*;

    fn speeds(main: f64, main_interfering: f64, helper: f64, helper_interfering: f64) -> Speeds {
        Speeds {
            main,
            main_interfering,
            helper,
            helper_interfering,
        }
    }

    fn net(speeds: Speeds, lines: u64, direction: Direction) -> f64 {
        net_speed(&speeds, CacheLines(lines), direction).unwrap()
    }

    /// The paper's two formulas as printed.
    fn printed(speeds: Speeds, lines: u64, direction: Direction) -> f64 {
        let (together, apart) = match direction {
            Forward => (
                speeds.helper_interfering - speeds.main_interfering,
                speeds.helper - speeds.main,
            ),
            Backward => (
                speeds.helper_interfering + speeds.main_interfering,
                speeds.helper + speeds.main,
            ),
        };
        let rest = (lines - 1) as f64;
        (speeds.main_interfering / together + speeds.main * rest / apart) / (1.0 / together + rest / apart)
    }

    #[test]
    fn worked_by_hand() {
        // Forward: together 1 / (3 - 2) = 1 s at 2 lines/s, apart 9 / (16 - 10) = 1.5 s at 10: 17 lines in 2.5 s.
        assert!((net(speeds(10.0, 2.0, 16.0, 3.0), 10, Forward) - 6.8).abs() < 1e-12);
        // Backward: 1 / 5 s at 2 and 9 / 26 s at 10.
        let by_hand = (2.0 / 5.0 + 90.0 / 26.0) / (1.0 / 5.0 + 9.0 / 26.0);
        assert!((net(speeds(10.0, 2.0, 16.0, 3.0), 10, Backward) - by_hand).abs() < 1e-12);
    }

    #[test]
    fn singular_points_have_their_limits() {
        assert_eq!(net(speeds(10.0, 2.0, 16.0, 2.0), 32, Forward), 2.0, "h' = m'");
        assert_eq!(net(speeds(10.0, 2.0, 10.0, 3.0), 32, Forward), 10.0, "h = m");
        assert_eq!(
            net(speeds(10.0, 2.0, 10.0, 2.0), 4, Forward),
            8.0,
            "both: 1/4 of all starts"
        );
        for direction in [Forward, Backward] {
            assert_eq!(net(speeds(10.0, 2.0, 10.0, 2.0), 1, direction), 2.0, "d = 1");
        }
        // Speeds whose sum and product overflow.
        assert!(net(speeds(1e308, 1e307, 1.5e308, 1e307), 8, Backward).is_finite());
    }

    #[test]
    fn opposite_signs_are_lock_step_and_do_not_depend_on_the_size() {
        // Faster alone, slower together. Standing distance: p (1 - 2) + (1 - p)(16 - 10) = 0, so p = 6/7.
        let chasing = speeds(10.0, 2.0, 16.0, 1.0);
        let expected = 6.0 / 7.0 * 2.0 + 1.0 / 7.0 * 10.0;
        for lines in [2, 8, 1000] {
            assert!((net(chasing, lines, Forward) - expected).abs() < 1e-12);
        }
        // As printed, the same speeds leave the interval from m' to m.
        assert!(!(2.0..=10.0).contains(&printed(chasing, 2, Forward)));
    }

    #[test]
    fn what_is_no_speed_is_an_error() {
        let good = speeds(10.0, 2.0, 16.0, 3.0);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            for (at, name) in ["m", "m'", "h", "h'"].into_iter().enumerate() {
                let mut given = [10.0, 2.0, 16.0, 3.0];
                given[at] = bad;
                let wrong = speeds(given[0], given[1], given[2], given[3]);
                match net_speed(&wrong, CacheLines(8), Forward) {
                    Err(WorkAheadError::Speed { name: told, .. }) => assert_eq!(told, name),
                    other => panic!("{other:?} for {name} = {bad}"),
                }
            }
        }
        assert_eq!(
            net_speed(&good, CacheLines(0), Backward),
            Err(WorkAheadError::NoLines)
        );
    }

    fn any_speed() -> impl Strategy<Value = f64> {
        // Six orders of magnitude.
        (0.0..6.0f64).prop_map(|exponent| 10f64.powf(exponent))
    }

    proptest! {
        #[test]
        fn both_lie_between_the_two_speeds(
            m in any_speed(), m2 in any_speed(), h in any_speed(), h2 in any_speed(), lines in 1u64..100_000
        ) {
            for direction in [Forward, Backward] {
                let net = net(speeds(m, m2, h, h2), lines, direction);
                prop_assert!(net >= m.min(m2) * (1.0 - 1e-12) && net <= m.max(m2) * (1.0 + 1e-12));
            }
        }

        #[test]
        fn the_printed_form_holds_where_its_differences_have_one_sign(
            m in any_speed(), m2 in any_speed(), h in any_speed(), h2 in any_speed(), lines in 2u64..100_000
        ) {
            let given = speeds(m, m2, h, h2);
            let backward = net(given, lines, Backward);
            prop_assert!((backward - printed(given, lines, Backward)).abs() <= 1e-9 * backward);
            if (h - m) * (h2 - m2) > 0.0 {
                let forward = net(given, lines, Forward);
                prop_assert!((forward - printed(given, lines, Forward)).abs() <= 1e-9 * forward);
            }
        }

        #[test]
        fn backward_is_no_slower_where_interference_evens_the_speeds_out(
            m in any_speed(), slow_down in 0.001..1.0f64, h in any_speed(), closeness in 0.0..1.0f64,
            helper_ahead in any::<bool>(), lines in 1u64..100_000
        ) {
            let m2 = m * slow_down;
            // |h' - m'| / (h' + m') is `closeness` of |h - m| / (h + m).
            let relative = closeness * (h - m).abs() / (h + m) * if helper_ahead { 1.0 } else { -1.0 };
            let h2 = m2 * (1.0 + relative) / (1.0 - relative);
            let given = speeds(m, m2, h, h2);
            let (backward, forward) = (net(given, lines, Backward), net(given, lines, Forward));
            prop_assert!(backward >= forward * (1.0 - 1e-9), "{given:?}: {backward} < {forward}");
        }

        #[test]
        fn backward_approaches_the_undisturbed_speed_with_the_size(
            m in any_speed(), slow_down in 0.001..1.0f64, h in any_speed(), h2 in any_speed()
        ) {
            let given = speeds(m, m * slow_down, h, h2);
            let sizes = [1, 4, 16, 1 << 10, 1 << 20, 1 << 40, 1 << 60];
            let nets = sizes.map(|lines| net(given, lines, Backward));
            prop_assert!(nets.windows(2).all(|pair| pair[1] >= pair[0] * (1.0 - 1e-12)));
            prop_assert!((nets[6] - m).abs() <= 1e-6 * m);
        }
    }
}
