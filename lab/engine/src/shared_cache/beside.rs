//! [`measure`]: rows of a target alone and beside its co-runners, timed by [`super::contest`].

use super::contest::{Times, hold};
use super::keys::{ALONE, Keys, SLOWDOWN, SUITE};
use super::pinned::{PinnedThreads, Query};
use lab_core::error::BenchError;
use lab_core::row::{Row, Value};
use lab_core::run::Runner;
use lab_core::stats::{Noise, Spread};

/// The rows of a target that cannot be measured; each with whether it has a co-runner.
pub fn unavailable(shown: &[(Keys, Option<usize>)], reason: &str, runner: &mut Runner<'_>) {
    for (keys, corunner) in shown {
        let (metric, unit) = corunner.map_or(("ms", "ms"), |_| (SLOWDOWN, "x"));
        runner.emit_checked(keys.unavailable(metric, unit, reason));
    }
}

/// Measures a target alone and beside its co-runners, and emits the rows `shown`: each alone, or beside the co-runner of that place.
///
/// # Errors
/// When a query ended its thread.
pub fn measure(
    pinned: &PinnedThreads,
    (name, query): (&str, &Query),
    corunners: &[(String, Query)],
    shown: &[(Keys, Option<usize>)],
    extra: &[(String, Value)],
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let (plan, progress) = (runner.plan(), runner.progress());
    let rounds = (plan.repetitions, plan.order_seed);
    let times = hold(pinned, (name, query), corunners, rounds, progress)?;
    for failure in &times.failures {
        let of = shown.first().map_or("", |(keys, _)| keys.engine);
        runner.fail(format!("{SUITE} {of} {name}: {failure}"));
    }
    for (keys, corunner) in shown {
        emit(keys, &times, *corunner, extra, runner);
    }
    Ok(())
}

/// Rows of one target alone, or beside one of its co-runners.
fn emit(
    keys: &Keys,
    times: &Times,
    corunner: Option<usize>,
    extra: &[(String, Value)],
    runner: &mut Runner<'_>,
) {
    let ok = times.failures.is_empty();
    let mut put = |metric: &str, unit: &str, values: &[f64], finish: &dyn Fn(Row) -> Row| {
        let row = match Spread::of(values) {
            Some(spread) => keys.put(Row::measured(SUITE, keys.case, metric, unit, spread, ok)),
            None => keys.unavailable(metric, unit, "the query failed"),
        };
        runner.emit_checked(finish(row.with_all(extra)));
    };
    let milliseconds = |seconds: &[f64]| -> Vec<f64> { seconds.iter().map(|s| s * 1e3).collect() };
    let noise = times.noise();
    let bounds = |row: Row| match Noise::of(&noise) {
        Some(noise) => row.with("noise_low", noise.low).with("noise_high", noise.high),
        None => row,
    };
    match corunner {
        None => {
            put("ms", "ms", &milliseconds(&times.alone), &|row| row);
            put(SLOWDOWN, "x", &noise, &|row| {
                bounds(row.versus(ALONE).with("control", "a/a"))
            });
        }
        Some(corunner) => {
            put("ms", "ms", &milliseconds(&times.beside[corunner]), &|row| row);
            put(SLOWDOWN, "x", &times.slowdowns(corunner), &|row| {
                bounds(row.versus(ALONE))
            });
        }
    }
}
