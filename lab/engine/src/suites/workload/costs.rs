//! What the queries of a workload cost on several processes: processor time there and here, and bytes between them.

use super::engines::Engines;
use super::scale_out::Point;
use super::{CORUN, DATAFUSION, Pass};
use crate::query::{run_query, runtime};
use corun_datafusion::Engine;
use lab_core::cpu_time::{TICKS_PER_SECOND, ticks};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::Spread;
use std::time::Instant;

/// Rounds of all queries a side, at most.
const ROUNDS: usize = 3;

/// The costs of a query, on average over the workload: on corun, on stock DataFusion.
pub(super) type Costs = [(&'static str, Point); 2];

/// Runs all queries on both sides in turns, and emits rows `queries_per_second`, `workers_cpu_ms`, `coordinator_cpu_ms` and
/// `exchanged_bytes`. Answers were compared before.
///
/// # Errors
/// A query that fails; a kernel that does not tell.
pub(super) fn emit(
    pass: &Pass<'_>,
    engines: &Engines,
    runner: &mut Runner<'_>,
) -> Result<Option<Costs>, BenchError> {
    let Some(workers) = &engines.workers else {
        return Ok(None);
    };
    let texts = pass
        .workload
        .queries
        .iter()
        .map(|query| (pass.workload.sql)(pass.scale_factor, query));
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    let runtime = runtime(pass.partitions)?;
    let (processes, case) = (workers.processes(), pass.case("all"));
    let (suite, parameters) = (pass.workload.suite.name(), pass.parameters("all"));
    let count = texts.len() as f64;
    let round = |engine: &Engine| -> Result<[f64; 4], BenchError> {
        let before = read(&processes)?;
        let begun = Instant::now();
        for sql in &texts {
            run_query(&runtime, engine, sql)?;
        }
        let elapsed = begun.elapsed().as_secs_f64();
        let after = read(&processes)?;
        let used = |of: usize| (after[of] - before[of]) / count;
        Ok([
            count / elapsed,
            used(0) * 1e3 / TICKS_PER_SECOND,
            used(1) * 1e3 / TICKS_PER_SECOND,
            used(2),
        ])
    };
    let sides = [(CORUN, &engines.corun), (DATAFUSION, &engines.stock)];
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..runner.plan().repetitions.min(ROUNDS) {
        for ((_, engine), rounds) in sides.iter().zip(&mut rounds) {
            rounds.push(round(engine)?);
        }
    }
    if processes.len() > 1 && rounds.iter().flatten().all(|round| round[2] == 0.0) {
        runner.fail(format!("{suite} {case}: nothing was sent to the workers"));
    }
    let metrics = [
        ("queries_per_second", "1/s"),
        ("workers_cpu_ms", "ms"),
        ("coordinator_cpu_ms", "ms"),
        ("exchanged_bytes", "bytes"),
    ];
    let costs = sides.map(|(name, _)| {
        let rounds = &rounds[usize::from(name != CORUN)];
        let medians = std::array::from_fn(|of| {
            let values: Vec<f64> = rounds.iter().map(|round| round[of]).collect();
            let spread = Spread::of(&values)?;
            let (metric, unit) = metrics[of];
            let row = Row::measured(suite, &case, metric, unit, spread, true);
            runner.emit(row.with("engine", name).with_all(&parameters));
            Some(spread.median)
        });
        let [_, workers_cpu_ms, coordinator_cpu_ms, exchanged_bytes] = medians.map(Option::unwrap_or_default);
        let point = Point {
            workers: processes.len() as f64,
            workers_cpu_ms,
            coordinator_cpu_ms,
            exchanged_bytes,
        };
        (name, point)
    });
    Ok(Some(costs))
}

/// Ticks of the workers and of this process, and the bytes that the loopback interface has carried.
fn read(workers: &[u32]) -> Result<[f64; 3], BenchError> {
    let ticks =
        |process| ticks(process).ok_or_else(|| BenchError::Machine(format!("process {process} is gone")));
    let of_workers = workers
        .iter()
        .map(|&worker| ticks(worker))
        .sum::<Result<u64, _>>()?;
    let device = std::fs::read_to_string("/proc/net/dev")
        .map_err(|source| BenchError::io("cannot read /proc/net/dev", source))?;
    let carried =
        carried(&device).ok_or_else(|| BenchError::Machine("there is no loopback interface".to_owned()))?;
    Ok([
        of_workers as f64,
        ticks(std::process::id())? as f64,
        carried as f64,
    ])
}

fn carried(devices: &str) -> Option<u64> {
    let mut lines = devices.lines().map(str::trim_start);
    let loopback = lines.find_map(|line| line.strip_prefix("lo:"))?;
    loopback.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_loopback_interface() {
        let devices = "Inter-|   Receive\n face |bytes packets\n    lo: 4711 3 0\n  eth0: 99 1 0\n";
        assert_eq!(carried(devices), Some(4711));
        assert_eq!(carried("  eth0: 99 1 0"), None);
        let [_, own, bytes] = read(&[std::process::id()]).expect("Linux");
        assert!(own >= 0.0 && bytes >= 0.0);
        assert!(read(&[u32::MAX]).is_err());
    }
}
