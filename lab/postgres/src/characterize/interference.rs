//! What a workload loses beside a cache polluter, and whether that polluter sees the same last-level cache as `corun topology --measure`.
//!
//! Order of calls: a [`Plan`], then [`curve`] with something that runs the workload once and says how long it took, then [`agreement`]
//! once a machine. Both start polluting threads below the workload's last-level cache ([`corun_machine::polluter`]), take the points in turns,
//! every other round backwards, so that a slow minute of the machine hits all points alike, and leave the judging to
//! [`corun_model::pmu::interference`]. Everything comes from times alone, so it works without counters.
//!
//! ```text
//!   round 1:  idle │ P1 │ P2 │ ... │ Pn │ idle      round 2:  idle │ Pn │ ... │ P1 │ idle      as many as the budget allows
//! ```
//!
//! The workload has to be pinned to [`Plan::workload_cpu`] by whoever runs it; otherwise it may have to share a processor with the
//! polluter, which is another thing than sharing a cache. Not here: checking its answers, which the caller does in each run.

mod agreement;

use std::time::{Duration, Instant};

use corun_machine::polluter::{self, Load, Pollute, Polluter, Pollution, Walk};
use corun_model::pmu::interference::{Beside, Curve, Felt, first_felt};
use corun_model::topology::Topology;
use corun_model::units::{Bytes, CpuId};

use super::SUITE;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::stats::Spread;

pub use agreement::{AgreementPlan, agreement, agreement_beside};

/// The case of all rows of this module.
pub const CASE: &str = "interference";
/// Most rounds.
const ROUNDS_MAX: usize = 15;
/// Nothing new is begun after this time, but the first round is always finished.
const BUDGET: Duration = Duration::from_secs(35);
/// Footprints of a default plan: the reported last-level cache over 32 and up, to twice its size.
const FOOTPRINTS: i32 = 7;
const FOOTPRINT_MIN: Bytes = Bytes::mib(1);
/// Where no cache is described.
const UNKNOWN_LLC: Bytes = Bytes::mib(32);
/// Rates at which the largest footprint is streamed.
const INTENSITIES: [f64; 3] = [0.25, 0.5, 1.0];

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The workload's name in rows.
    pub workload: String,
    /// Whether hardware threads share cores: `on`, `off`, or `none` where the machine has no siblings.
    pub smt: String,
    /// Where the workload runs.
    pub workload_cpu: CpuId,
    /// Most polluting threads.
    pub streams_max: usize,
    /// The polluters, in rising order of what they take away.
    pub loads: Vec<Load>,
    /// Most rounds.
    pub rounds_max: usize,
    /// Time after which no round is begun. The first one is always finished.
    pub budget: Duration,
}

impl Plan {
    /// What suits a machine: cyclic walks of footprints from a thirty-second of the last-level cache to twice its size, then streams over
    /// the largest at three rates; about half a minute.
    pub fn of(topology: &Topology, workload: &str, smt: &str, workload_cpu: CpuId) -> Plan {
        let llc = topology.last_level_cache_bytes().unwrap_or(UNKNOWN_LLC);
        let footprint = |power: i32| {
            let bytes = llc.0 as f64 * f64::from(power - FOOTPRINTS + 2).exp2();
            Bytes(bytes as u64).clamp(FOOTPRINT_MIN, polluter::FOOTPRINT_MAX)
        };
        let mut loads: Vec<Load> = (0..FOOTPRINTS)
            .map(|power| Load {
                footprint: footprint(power),
                walk: Walk::Cyclic,
                intensity: 1.0,
            })
            .collect();
        loads.dedup();
        loads.extend(INTENSITIES.map(|intensity| Load {
            footprint: footprint(FOOTPRINTS - 1),
            walk: Walk::Streaming,
            intensity,
        }));
        Plan {
            workload: workload.to_owned(),
            smt: smt.to_owned(),
            workload_cpu,
            streams_max: usize::MAX,
            loads,
            rounds_max: ROUNDS_MAX,
            budget: BUDGET,
        }
    }
}

/// The miss-cost curve of a workload on this machine: rows of its slow-downs, its sensitivity, and the polluter's rates. `work` runs the
/// workload once, checks its answer, and says how many seconds it took.
///
/// Where no other CPU shares the workload's last-level cache there is one row, which says so.
///
/// # Errors
/// When the polluter cannot be started, or the workload fails: its error.
pub fn curve(
    work: &mut dyn FnMut() -> Result<f64, BenchError>,
    topology: &Topology,
    plan: &Plan,
    progress: &dyn Progress,
) -> Result<Vec<Row>, BenchError> {
    let cpus = polluter::cpus(topology, plan.workload_cpu, plan.streams_max);
    if cpus.is_empty() {
        let row = Row::unavailable(SUITE, CASE, "slowdown", "x", &nobody(plan.workload_cpu));
        return Ok(vec![identified(row, &plan.workload, &plan.smt)]);
    }
    let largest = plan.loads.iter().map(|load| load.footprint).max();
    let mut polluter =
        Polluter::new(&cpus, largest.unwrap_or(FOOTPRINT_MIN)).map_err(|error| machine(&error))?;
    curve_beside(work, &mut polluter, plan, progress)
}

/// The same beside a given polluter, real or simulated.
pub fn curve_beside(
    work: &mut dyn FnMut() -> Result<f64, BenchError>,
    polluter: &mut dyn Pollute,
    plan: &Plan,
    progress: &dyn Progress,
) -> Result<Vec<Row>, BenchError> {
    let mut points: Vec<Point> = plan.loads.iter().map(|load| Point::of(*load)).collect();
    let (mut idle, mut idle_again) = (Vec::new(), Vec::new());
    let steps = (points.len() + 2) as u64;
    let rounds_max = plan.rounds_max.max(1);
    progress.begin("beside a cache polluter", steps * rounds_max as u64);
    let began = Instant::now();
    // Once for nothing: data and code come into the caches, and the clock up to speed.
    let outcome = work().and_then(|_| {
        rounds(rounds_max, plan.budget, began, |round| {
            idle.push(work()?);
            for index in in_turn(points.len(), round) {
                points[index].measure(work, polluter)?;
                progress.advance(1);
            }
            idle_again.push(work()?);
            progress.advance(2);
            Ok(())
        })
    });
    polluter.stop();
    progress.end();
    outcome?;
    let beside: Vec<Beside> = points
        .iter()
        .map(|point| Beside {
            footprint: point.load.footprint,
            intensity: point.load.intensity,
            seconds: point.seconds.clone(),
        })
        .collect();
    let curve = corun_model::pmu::interference::curve(&idle, &idle_again, &beside)
        .map_err(|error| BenchError::Machine(error.to_string()))?;
    Ok(rows(&curve, &points, plan, polluter.streams()))
}

/// What was measured beside one polluter.
struct Point {
    load: Load,
    seconds: Vec<f64>,
    bytes_per_s: Vec<f64>,
}

impl Point {
    fn of(load: Load) -> Point {
        Point {
            load,
            seconds: Vec::new(),
            bytes_per_s: Vec::new(),
        }
    }

    fn measure(
        &mut self,
        work: &mut dyn FnMut() -> Result<f64, BenchError>,
        polluter: &mut dyn Pollute,
    ) -> Result<(), BenchError> {
        polluter.start(self.load).map_err(|error| machine(&error))?;
        let seconds = work();
        let pollution: Pollution = polluter.stop();
        self.seconds.push(seconds?);
        self.bytes_per_s.extend(pollution.bytes_per_s());
        Ok(())
    }
}

/// Rounds until there were enough, or another as long as the last would end past the budget.
fn rounds(
    rounds_max: usize,
    budget: Duration,
    began: Instant,
    mut measure: impl FnMut(usize) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for round in 0..rounds_max {
        let round_began = Instant::now();
        measure(round)?;
        if began.elapsed() + round_began.elapsed() > budget {
            break;
        }
    }
    Ok(())
}

/// The order of a round: forwards, then backwards, in turns.
fn in_turn(count: usize, round: usize) -> Vec<usize> {
    match round % 2 {
        0 => (0..count).collect(),
        _ => (0..count).rev().collect(),
    }
}

fn rows(curve: &Curve, points: &[Point], plan: &Plan, streams: usize) -> Vec<Row> {
    let row = |metric: &str, unit: &str, spread: Spread| {
        let row = Row::measured(SUITE, CASE, metric, unit, spread, true);
        identified(row, &plan.workload, &plan.smt)
            .with("how", "polluter")
            .with("streams", streams)
    };
    let loaded = |row: Row, load: &Load| {
        row.with("footprint_bytes", load.footprint.0)
            .with("walk", load.walk.as_str())
            .with("intensity", load.intensity)
    };
    let mut rows = vec![
        row("slowdown", "x", of_model(curve.noise))
            .with("footprint_bytes", 0u64)
            .with("walk", "none")
            .with("intensity", 0.0),
    ];
    for (point, slowdown) in points.iter().zip(&curve.points) {
        let felt = match slowdown.felt {
            Felt::Yes => "yes",
            Felt::No => "no",
            Felt::Unknown => "unknown",
        };
        rows.push(loaded(row("slowdown", "x", of_model(slowdown.times)), &point.load).with("felt", felt));
        if let Some(rate) = Spread::of(&point.bytes_per_s) {
            rows.push(loaded(row("bandwidth_bytes_per_s", "bytes/s", rate), &point.load));
        }
    }
    // Sensitivity is about the cache: a stream over the largest footprint takes its bandwidth too.
    let cyclic: Vec<_> = points
        .iter()
        .zip(&curve.points)
        .filter(|(point, _)| point.load.walk == Walk::Cyclic)
        .map(|(_, slowdown)| slowdown.clone())
        .collect();
    let of_cache = Curve {
        noise: curve.noise,
        points: cyclic,
    };
    if let (Some(percent), Some(largest)) = (of_cache.sensitivity_percent(), of_cache.largest()) {
        let mut sensitivity = row("sensitivity_percent", "%", of_model(percent))
            .with("footprint_bytes", largest.footprint.0)
            .with("felt", largest.felt == Felt::Yes);
        if let Some(from) = first_felt(&of_cache) {
            sensitivity = sensitivity.with("felt_from_bytes", from.0);
        }
        rows.push(sensitivity);
    }
    rows
}

fn identified(row: Row, workload: &str, smt: &str) -> Row {
    row.with("workload", workload).with("smt", smt)
}

fn nobody(cpu: CpuId) -> String {
    format!("no other CPU that may be used shares the last-level cache of CPU {cpu}")
}

fn machine(error: &corun_topology::measure::MeasureError) -> BenchError {
    BenchError::Machine(error.to_string())
}

fn of_model(spread: corun_model::spread::Spread) -> Spread {
    Spread {
        n: spread.n,
        min: spread.min,
        median: spread.median,
        max: spread.max,
    }
}

#[cfg(test)]
mod tests;
