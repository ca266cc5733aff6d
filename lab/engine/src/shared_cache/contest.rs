//! A target alone, alone again, and beside each of its co-runners, in rounds; slow-downs are taken within a round.
//!
//! ```text
//!   warm-up   the target, then each co-runner: their times say how many runs cover one of the co-runner's
//!   round 0   beside index_plq25 | alone | beside scan | alone again        shuffled anew in each round
//!   round 1   ...
//! ```
//!
//! Beside a co-runner that takes longer, the target runs until the co-runner has been through once, so that a build or a probe
//! phase of the co-runner is not measured as if it were all of it. Alone twice: the A/A control of every slow-down.

use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::order;
use lab_core::stats::pair_ratios;

use super::pinned::{PinnedThreads, Query, Runs};

/// Most runs of a target in one measurement.
const RUNS_MAX: usize = 16;

/// Most runs of a target alone in one measurement: nothing varies beside it.
const ALONE_RUNS_MAX: usize = 3;

/// What a target's rounds came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Seconds alone, one a round.
    pub alone: Vec<f64>,
    /// Seconds alone once more.
    pub control: Vec<f64>,
    /// Seconds beside each co-runner.
    pub beside: Vec<Vec<f64>>,
    /// Wrong answers and failures of the target or a co-runner, one sentence each.
    pub failures: Vec<String>,
}

impl Times {
    fn of(corunners: usize) -> Times {
        Times {
            beside: vec![Vec::new(); corunners],
            ..Times::default()
        }
    }

    /// Time beside a co-runner over time alone, round by round: above 1 where the target was slowed down.
    pub fn slowdowns(&self, corunner: usize) -> Vec<f64> {
        pair_ratios(&self.alone, &self.beside[corunner])
    }

    /// Alone over alone: what noise does.
    pub fn noise(&self) -> Vec<f64> {
        pair_ratios(&self.alone, &self.control)
    }

    fn check(&mut self, who: &str, runs: &Runs) {
        let told = runs.failed.as_ref().or(runs.wrong.as_ref());
        if let Some(told) = told {
            self.failures.push(format!("{who}: {told}"));
        }
    }
}

/// What one measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Alone,
    Control,
    Beside(usize),
}

/// The steps of a round, each once, in another order each time and the same in every run.
fn steps(corunners: usize, seed: u64, round: usize) -> Vec<Step> {
    let mut steps = vec![Step::Alone, Step::Control];
    steps.extend((0..corunners).map(Step::Beside));
    order::shuffle(&mut steps, seed, "llc", round);
    steps
}

/// Runs of the target that take at least as long as one of the co-runner.
fn runs_beside(target: f64, corunner: f64) -> usize {
    let runs = (corunner / target.max(1e-9)).ceil();
    if runs.is_finite() {
        (runs as usize).clamp(1, RUNS_MAX)
    } else {
        1
    }
}

/// Measures a target. `name` and the co-runners' names are for failures and the progress bar; orders are shuffled from `seed`.
///
/// # Errors
/// When a pinned thread is gone.
pub fn hold(
    pinned: &PinnedThreads,
    (name, target): (&str, &Query),
    corunners: &[(String, Query)],
    (rounds, seed): (usize, u64),
    progress: &dyn Progress,
) -> Result<Times, BenchError> {
    let mut times = Times::of(corunners.len());
    progress.begin(&format!("llc {name}"), rounds as u64 + 1);
    let warm = pinned.target.time(target, 1)?;
    times.check(name, &warm);
    let mut runs = Vec::with_capacity(corunners.len());
    for (corunner, query) in corunners {
        let beside = pinned.corunner.time(query, 1)?;
        times.check(corunner, &beside);
        runs.push(match (warm.seconds(), beside.seconds()) {
            (Some(target), Some(beside)) => runs_beside(target, beside),
            _ => 1,
        });
    }
    progress.advance(1);
    let alone_runs = runs.iter().copied().max().unwrap_or(1).min(ALONE_RUNS_MAX);
    for round in 0..rounds {
        if !times.failures.is_empty() {
            break;
        }
        for step in steps(corunners.len(), seed, round) {
            let took = match step {
                Step::Alone | Step::Control => pinned.target.time(target, alone_runs)?,
                Step::Beside(index) => {
                    let (corunner, query) = &corunners[index];
                    let looping = pinned.corunner.start(query)?;
                    let took = pinned.target.time(target, runs[index])?;
                    times.check(corunner, &looping.finish()?);
                    took
                }
            };
            times.check(name, &took);
            let Some(seconds) = took.seconds() else { continue };
            match step {
                Step::Alone => times.alone.push(seconds),
                Step::Control => times.control.push(seconds),
                Step::Beside(index) => times.beside[index].push(seconds),
            }
        }
        progress.advance(1);
    }
    progress.end();
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_comes_once_a_round_in_changing_order() {
        let mut first = std::collections::BTreeSet::new();
        for round in 0..20 {
            let steps = steps(3, order::SEED, round);
            assert_eq!(steps.len(), 5);
            for wanted in [
                Step::Alone,
                Step::Control,
                Step::Beside(0),
                Step::Beside(1),
                Step::Beside(2),
            ] {
                assert!(steps.contains(&wanted), "{steps:?}");
            }
            first.insert(format!("{:?}", steps[0]));
        }
        assert!(first.len() >= 3, "{first:?}");
        assert_eq!(
            steps(3, order::SEED, 7),
            steps(3, order::SEED, 7),
            "the same in every run"
        );
    }

    #[test]
    fn a_short_target_runs_as_long_as_its_corunner() {
        assert_eq!(runs_beside(0.1, 0.35), 4);
        assert_eq!(runs_beside(0.4, 0.1), 1);
        assert_eq!(runs_beside(0.001, 10.0), RUNS_MAX);
        assert_eq!(runs_beside(0.0, f64::NAN), 1);
    }

    #[test]
    fn slowdowns_are_taken_within_a_round() {
        let times = Times {
            alone: vec![1.0, 2.0],
            control: vec![1.0, 2.2],
            beside: vec![vec![1.5, 2.0], vec![2.0, 8.0]],
            failures: Vec::new(),
        };
        assert_eq!(times.slowdowns(0), [1.5, 1.0]);
        assert_eq!(times.slowdowns(1), [2.0, 4.0]);
        assert_eq!(times.noise(), [1.0, 1.1]);
    }

    #[test]
    fn a_wrong_answer_is_told_with_its_query() {
        let mut times = Times::of(1);
        let wrong = Runs {
            runs: 1,
            wrong: Some("expected 2, got 3".to_owned()),
            ..Runs::default()
        };
        times.check("hash_plq5", &wrong);
        assert_eq!(times.failures, ["hash_plq5: expected 2, got 3"]);
    }
}
