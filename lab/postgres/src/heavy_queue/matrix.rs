//! The rows of queries that ran side by side: each alone, each beside each, with the A/A control of both; and the matrix they make.

use super::SUITE;
use super::backend::Backend;
use super::beside::{Measured, Time};
use super::keys::{ALONE, Keys, SLOWDOWN, class_of};
use super::order::Matrix;
use super::query::{Query, hash_bytes};
use super::sizes::Sizes;
use lab_core::error::BenchError;
use lab_core::run::Runner;
use lab_core::stats::{Noise, Spread};

/// Queries and what each is to the cache.
pub struct Known {
    /// The queries.
    pub queries: Vec<Query>,
    /// Bytes of the hash tables each really makes.
    pub tables: Vec<Vec<u64>>,
}

impl Known {
    /// Asks the server what tables they make.
    pub fn ask(backend: &mut Backend, queries: Vec<Query>) -> Result<Known, BenchError> {
        let tables = queries.iter().map(|query| hash_bytes(backend, query));
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        Ok(Known { queries, tables })
    }
}

/// Median times by the clock, and median slow-downs.
pub fn of(measured: &Measured, kinds: usize) -> Matrix {
    let median = |values: Vec<f64>| Spread::of(&values).map_or(1.0, |spread| spread.median);
    let slowdowns = |kind| (0..kinds).map(move |other| median(measured.slowdowns(kind, other, Time::Clock)));
    Matrix {
        alone: (0..kinds)
            .map(|kind| median(measured.alone(kind, Time::Clock)))
            .collect(),
        slowdown: (0..kinds).map(|kind| slowdowns(kind).collect()).collect(),
    }
}

/// Emits the rows of a case. `figure` names the one that a query and its co-runner are of.
pub fn emit(
    case: &'static str,
    figure: &dyn Fn([&Query; 2]) -> &'static str,
    known: &Known,
    measured: &Measured,
    sizes: &Sizes,
    runner: &mut Runner<'_>,
) {
    for wrong in &measured.wrong {
        runner.fail(format!("{SUITE} {case}: {wrong}"));
    }
    let ok = measured.wrong.is_empty();
    for (kind, query) in known.queries.iter().enumerate() {
        for time in Time::ALL {
            let put = |keys: Keys, metric: &str, unit: &str, values: &[f64]| {
                let row = keys.measured(metric, unit, values, ok)?;
                let bytes: u64 = known.tables[kind].iter().sum();
                Some(row.with("time", time.as_str()).with("hash_bytes", bytes))
            };
            let keys = |figure, corunner: &str| Keys {
                query: query.name.clone(),
                corunner: corunner.to_owned(),
                class: class_of(&known.tables[kind], sizes),
                ..Keys::new(case, figure, sizes.cache)
            };
            let own = figure([query, query]);
            let milliseconds: Vec<f64> = measured.alone(kind, time).iter().map(|s| s * 1e3).collect();
            let noise = measured.noise(kind, time);
            let rows = [
                put(keys(own, ALONE), "ms", "ms", &milliseconds),
                put(keys(own, ALONE), SLOWDOWN, "x", &noise).map(|row| row.with("control", "a/a")),
            ];
            for row in rows.into_iter().flatten() {
                runner.emit_checked(row);
            }
            for (other, beside) in known.queries.iter().enumerate() {
                let slowdowns = measured.slowdowns(kind, other, time);
                let keys = keys(figure([query, beside]), &beside.name);
                let Some(mut row) = put(keys, SLOWDOWN, "x", &slowdowns) else {
                    continue;
                };
                if let Some(Noise { low, high }) = Noise::of(&noise) {
                    row = row.with("noise_low", low).with("noise_high", high);
                }
                runner.emit_checked(row);
            }
        }
    }
}
