//! [`agreement`]: the effective last-level cache found by a polluter beside a workload of known footprint, and by even draws alone, in one
//! run, and whether the two agree within their spreads.
//!
//! The workload is what `corun topology --measure` times too: dependent loads of lines drawn evenly from a block. There its block grows
//! until it no longer fits; here its block stays and the polluter's grows until both together do not. The first kind of measurement is
//! taken before and after the second, because neighbours of a virtual machine come and go: its spread is that of both.
//!
//! Private caches hold a part of either block in some machines' counting (where the last level excludes what they hold) and not in
//! others; that is a few percent here and is left in the spread.
//!
//! Not here: fitting; see [`corun_model::pmu::interference::effective_llc`] and [`corun_model::knee`].

use std::time::{Duration, Instant};

use corun_machine::polluter::{self, Load, Pollute, Polluter, Walk};
use corun_model::knee::{EffectiveLlc, median};
use corun_model::pmu::interference::{KnownPoint, effective_llc};
use corun_model::topology::Topology;
use corun_model::units::Bytes;
use corun_topology::measure::{Machine, Real, effective_llc_quick};

use super::{CASE, UNKNOWN_LLC, identified, in_turn, machine as failed, nobody, rounds};
use crate::characterize::SUITE;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::stats::Spread;

/// The workload's name in rows.
const WORKLOAD: &str = "synthetic_known_footprint";
const METRIC: &str = "effective_llc_bytes";
const UNIT: &str = "bytes";
/// Stretches of accesses of one time, the first third of which does not count: the workload comes out of its warm-up with all of its block
/// in the cache, and the polluter needs time to take its part back.
const STRETCHES: usize = 48;
const SETTLING: usize = 16;
/// Rounds, and time after which none is begun. The first is always finished.
const ROUNDS_MAX: usize = 7;
const BUDGET: Duration = Duration::from_secs(15);
/// Steps of the sizes that are tried in fits.
const RESOLUTION_PERCENT: f64 = 3.0;
/// What one touch of the polluter counts in its rate.
const LINE_BYTES: f64 = 64.0;
/// Smallest footprint of the polluter; then half octaves.
const POLLUTER_MIN: Bytes = Bytes::mib(1);
/// Largest one, of a workload and of a polluter.
const BYTES_MAX: Bytes = Bytes::mib(256);

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct AgreementPlan {
    /// `on`, `off`, or `none` where the machine has no siblings.
    pub smt: String,
    /// Most rounds.
    pub rounds_max: usize,
    /// Time after which no round is begun. The first one is always finished.
    pub budget: Duration,
}

impl AgreementPlan {
    /// Seven rounds, at most a quarter of a minute.
    pub fn of(smt: &str) -> AgreementPlan {
        AgreementPlan {
            smt: smt.to_owned(),
            rounds_max: ROUNDS_MAX,
            budget: BUDGET,
        }
    }
}

/// Measures this machine both ways: two rows of `effective_llc_bytes`, which say whether they agree. Takes some twenty seconds.
///
/// Where no other CPU shares the last-level cache, or one of the two finds no knee, its row is unavailable and says why.
pub fn agreement(
    topology: &Topology,
    plan: &AgreementPlan,
    progress: &dyn Progress,
) -> Result<Vec<Row>, BenchError> {
    let Some(&cpu) = topology.placement_order().first() else {
        return Err(BenchError::Machine("no CPU may be used".to_owned()));
    };
    let largest = polluters(topology, None).last().copied().unwrap_or(POLLUTER_MIN);
    let mut machine = Real::new(topology.clone(), BYTES_MAX.min(largest));
    let cpus = polluter::cpus(topology, cpu, usize::MAX);
    if cpus.is_empty() {
        let alone = effective_llc_quick(&mut machine);
        let beside = EffectiveLlc::NotFound { reason: nobody(cpu) };
        return Ok(rows(&[alone], &[beside], &[], plan, 0));
    }
    let mut polluter = Polluter::new(&cpus, largest).map_err(|error| failed(&error))?;
    agreement_beside(&mut machine, &mut polluter, plan, progress)
}

/// The same on a given machine beside a given polluter, real or simulated.
pub fn agreement_beside(
    machine: &mut dyn Machine,
    polluter: &mut dyn Pollute,
    plan: &AgreementPlan,
    progress: &dyn Progress,
) -> Result<Vec<Row>, BenchError> {
    let topology = machine.topology().clone();
    let before = effective_llc_quick(machine);
    let own = own(&topology, &before);
    let mut sizes = polluters(&topology, size_of(&before));
    sizes.retain(|bytes| *bytes <= polluter.footprint_max());
    sizes.insert(0, Bytes(0));
    let mut points: Vec<Point> = own
        .iter()
        .flat_map(|own| sizes.iter().map(|polluter| Point::of(*own, *polluter)))
        .collect();
    let rounds_max = plan.rounds_max.max(1);
    progress.begin(
        "the last-level cache beside a polluter",
        (points.len() * rounds_max) as u64,
    );
    let began = Instant::now();
    let outcome = rounds(rounds_max, plan.budget, began, |round| {
        for index in in_turn(points.len(), round) {
            points[index].measure(machine, polluter)?;
            progress.advance(1);
        }
        Ok(())
    });
    polluter.stop();
    progress.end();
    outcome?;
    let after = effective_llc_quick(machine);
    let beside: Vec<EffectiveLlc> = own
        .iter()
        .map(|own| {
            let of_own = points.iter().filter(|point| point.own == *own);
            let of_own: Vec<KnownPoint> = of_own.map(Point::known).collect();
            effective_llc(*own, &of_own)
        })
        .collect();
    Ok(rows(&[before, after], &beside, &own, plan, polluter.streams()))
}

/// What was measured of a workload of `own` bytes beside one polluter.
struct Point {
    own: Bytes,
    polluter: Bytes,
    ns: Vec<f64>,
    bytes_per_s: Vec<f64>,
}

impl Point {
    fn of(own: Bytes, polluter: Bytes) -> Point {
        Point {
            own,
            polluter,
            ns: Vec::new(),
            bytes_per_s: Vec::new(),
        }
    }

    fn measure(&mut self, machine: &mut dyn Machine, polluter: &mut dyn Pollute) -> Result<(), BenchError> {
        if self.polluter.0 > 0 {
            let load = Load {
                footprint: self.polluter,
                walk: Walk::Cyclic,
                intensity: 1.0,
            };
            polluter.start(load).map_err(|error| failed(&error))?;
        }
        let times = machine.uniform_ns(self.own, STRETCHES);
        let pollution = polluter.stop();
        let times = times.map_err(|error| failed(&error))?;
        self.ns.push(median(times.get(SETTLING..).unwrap_or(&times)));
        self.bytes_per_s.extend(pollution.bytes_per_s());
        Ok(())
    }

    fn known(&self) -> KnownPoint {
        let rate = (!self.bytes_per_s.is_empty()).then(|| median(&self.bytes_per_s));
        KnownPoint {
            polluter: self.polluter,
            ns: self.ns.clone(),
            touches: rate.map(|bytes_per_s| bytes_per_s / LINE_BYTES * median(&self.ns) / 1e9),
        }
    }
}

/// Footprints of the workload: a third, half and three quarters of the cache found alone, else of what is planned with; never within the private one.
/// A smaller one is touched so often that caches which keep what is hit hold it beside any polluter.
fn own(topology: &Topology, alone: &EffectiveLlc) -> Vec<Bytes> {
    let cache = size_of(alone)
        .or_else(|| topology.planning_llc_bytes())
        .unwrap_or(UNKNOWN_LLC);
    let private = topology.cache_bytes(2).unwrap_or(Bytes::mib(1));
    let mut own = [4, 6, 9].map(|twelfths| {
        let bytes = Bytes((cache.0 / 12 * twelfths).min(BYTES_MAX.0)).max(Bytes(private.0 * 2));
        // Whole lines.
        Bytes(bytes.0 / 64 * 64)
    });
    own.sort_unstable();
    let mut own = own.to_vec();
    own.dedup();
    own
}

/// Footprints of the polluter: half octaves up to twice the last-level cache that is reported, and four times the one found.
fn polluters(topology: &Topology, found: Option<Bytes>) -> Vec<Bytes> {
    let reported = topology.last_level_cache_bytes().unwrap_or(UNKNOWN_LLC);
    let wanted = (reported.0 * 2).max(found.map_or(0, |found| found.0 * 4));
    let largest = Bytes(wanted).clamp(Bytes::mib(16), BYTES_MAX);
    (0..64)
        .map(|half| Bytes((POLLUTER_MIN.0 as f64 * (f64::from(half) / 2.0).exp2()) as u64 / 64 * 64))
        .take_while(|bytes| *bytes <= largest)
        .collect()
}

fn size_of(answer: &EffectiveLlc) -> Option<Bytes> {
    match answer {
        EffectiveLlc::Found { bytes, .. } => Some(*bytes),
        EffectiveLlc::NotFound { .. } => None,
    }
}

/// Several answers as one, with a spread that has all of them in it; why not, if none found a size.
fn together(answers: &[EffectiveLlc]) -> Result<Spread, String> {
    let (mut middles, mut ends, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            EffectiveLlc::Found {
                bytes,
                bytes_min,
                bytes_max,
                fit_error_percent,
                ..
            } => {
                middles.push(bytes.0 as f64);
                // A size is known no better than its curve fits the times, however much alike the rounds are.
                let slack = 1.0 + fit_error_percent.max(RESOLUTION_PERCENT) / 100.0;
                ends.extend([bytes_min.0 as f64 / slack, bytes_max.0 as f64 * slack]);
            }
            EffectiveLlc::NotFound { reason } => reasons.push(reason.as_str()),
        }
    }
    let (Some(middle), Some(ends)) = (Spread::of(&middles), Spread::of(&ends)) else {
        reasons.dedup();
        return Err(reasons.join("; "));
    };
    Ok(Spread {
        n: middle.n,
        min: ends.min.min(middle.min),
        median: middle.median,
        max: ends.max.max(middle.max),
    })
}

fn rows(
    alone: &[EffectiveLlc],
    beside: &[EffectiveLlc],
    own: &[Bytes],
    plan: &AgreementPlan,
    streams: usize,
) -> Vec<Row> {
    let (alone, beside) = (together(alone), together(beside));
    let agrees = match (&alone, &beside) {
        (Ok(alone), Ok(beside)) => Some(alone.min <= beside.max && beside.min <= alone.max),
        _ => None,
    };
    let row = |spread: &Result<Spread, String>, how: &str| {
        let row = match spread {
            Ok(spread) => Row::measured(SUITE, CASE, METRIC, UNIT, *spread, true)
                .with("spread_low", spread.min)
                .with("spread_high", spread.max),
            Err(reason) => Row::unavailable(SUITE, CASE, METRIC, UNIT, reason),
        };
        let row = identified(row, WORKLOAD, &plan.smt).with("how", how);
        match agrees {
            Some(agrees) => row.with("agrees", agrees),
            None => row,
        }
    };
    let own: Vec<String> = own.iter().map(|own| own.0.to_string()).collect();
    vec![
        row(&beside, "polluter")
            .with("own_bytes", own.join(","))
            .with("streams", streams),
        row(&alone, "pointer_chase"),
    ]
}

#[cfg(test)]
mod tests;
