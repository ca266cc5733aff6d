//! How long a query takes to plan, on corun and on DataFusion in turns.

use super::engines::Engines;
use super::{CORUN, DATAFUSION};
use corun_datafusion::Engine;
use lab_core::error::BenchError;
use lab_core::row::{Row, Value};
use lab_core::run::Runner;
use lab_core::stats::Spread;
use std::time::Instant;
use tokio::runtime::Runtime;

/// Plans of each engine.
const TURNS: usize = 5;

/// Emits a row `plan_ms` for each engine.
pub(super) fn emit(
    suite: &str,
    case: &str,
    sql: &str,
    engines: &Engines,
    parameters: &[(String, Value)],
    runtime: &Runtime,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let mut times = [Vec::new(), Vec::new()];
    let sides: [(&str, &Engine); 2] = [(CORUN, &engines.corun), (DATAFUSION, &engines.stock)];
    for _ in 0..TURNS {
        for ((_, engine), times) in sides.iter().zip(&mut times) {
            let begun = Instant::now();
            runtime.block_on(engine.explain(sql, false))?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    for ((name, _), times) in sides.iter().zip(times) {
        if let Some(spread) = Spread::of(&times) {
            let row = Row::measured(suite, case, "plan_ms", "ms", spread, true);
            runner.emit(row.with("engine", *name).with_all(parameters));
        }
    }
    Ok(())
}
