//! How long a query takes to plan, on corun and on DataFusion in turns, and how long it takes the first times.

use super::engines::Engines;
use super::{CORUN, DATAFUSION, Pass};
use crate::query::run_query;
use corun_datafusion::Engine;
use corun_model::kept_columns;
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

/// Runs a query on corun until the columns that it reads are kept, and emits rows `first_ms` and, of the times after that, which keep a part of
/// them each, `keeping_ms`. Queries before it may have read some of them.
pub(super) fn emit_first(
    query: &str,
    sql: &str,
    engines: &Engines,
    pass: &Pass<'_>,
    runtime: &Runtime,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let case = &pass.case(query);
    let parameters = pass.parameters(query);
    for (metric, times) in [("first_ms", 1), ("keeping_ms", kept_columns::TURNS)] {
        let mut elapsed = Vec::new();
        for _ in 0..times {
            let begun = Instant::now();
            run_query(runtime, &engines.corun, sql)?;
            elapsed.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        if let Some(spread) = Spread::of(&elapsed) {
            let row = Row::measured(pass.workload.suite.name(), case, metric, "ms", spread, true);
            runner.emit(row.with("engine", CORUN).with_all(&parameters));
        }
    }
    let kept = engines.corun.shared_work().column_bytes as f64;
    if let Some(spread) = Spread::of(&[kept]) {
        let row = Row::measured(
            pass.workload.suite.name(),
            case,
            "kept_bytes",
            "bytes",
            spread,
            true,
        );
        runner.emit(row.with("engine", CORUN).with_all(&parameters));
    }
    Ok(())
}
