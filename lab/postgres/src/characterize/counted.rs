//! [`Counters`]: what the processor's counters say of a server's processes during a turn (Figs. 3b to 7a, 9 to 16, tables 1 and 2).
//!
//! A [`Watch`]. User-space code of the server and of all its backends is counted, as the paper counts the server's own module apart from the
//! kernel; libraries are in it. Which events, and how figures follow from them, is [`corun_model::pmu`]'s.

use corun_machine::counters::monitor::{Monitor, MonitorError, Monitored, Scope, Target};
use corun_machine::counters::{self, Counters as _, open, this_cpu};
use corun_model::pmu::groups::{plan, wanted, wanted_of_top_down};
use corun_model::pmu::rates;
use corun_model::pmu::stalls::{CyclesPerMiss, components};
use corun_model::pmu::top_down::top_down;
use corun_model::pmu::{Counts, CpuModel, Event, EventTable, Quantity};
use corun_model::topology::Topology;
use corun_model::units::{Bytes, CpuId};
use corun_topology::measure::{Machine, Real};

use super::rows::{DISTRIBUTION, MISSES, MIX, STALLS};
use super::sweep::{Seen, Turn, Watch};
use lab_core::error::BenchError;
use lab_core::stats::Spread;

/// How figures came about.
const HOW: &str = "counters";
/// Largest block whose latency is taken for memory's.
const BEYOND_MAX: Bytes = Bytes::mib(512);
/// Steps of a loop that takes some milliseconds.
const SPIN: u64 = 20_000_000;

/// Counts one server.
pub struct Counters {
    postmaster: u32,
    cpus: Vec<CpuId>,
    cpu: CpuModel,
    groups: Vec<Vec<Event>>,
    by_cpu: Vec<Event>,
    costs: CyclesPerMiss,
    siblings: bool,
    counting: Option<Monitor>,
    /// By logical processor, where that is permitted.
    on_cpus: Vec<(CpuId, Monitor)>,
}

impl Counters {
    /// Counts this process and all below it, and instructions of these processors. `siblings`: whether cores have several hardware threads that
    /// run.
    pub fn new(postmaster: u32, cpus: Vec<CpuId>, costs: CyclesPerMiss, siblings: bool) -> Counters {
        let cpu = this_cpu();
        let table = EventTable::of(&cpu);
        let mut sets = wanted();
        sets.extend(wanted_of_top_down());
        let groups = plan(&table, &sets, table.counters_general()).groups;
        Counters {
            postmaster,
            cpus,
            groups,
            by_cpu: table.event(Quantity::Instructions).into_iter().collect(),
            cpu,
            costs,
            siblings,
            counting: None,
            on_cpus: Vec::new(),
        }
    }
}

/// What misses cost on this machine: latencies are measured, as `corun topology --measure` does, and turned into cycles by counting them.
pub fn costs(topology: &Topology) -> Result<CyclesPerMiss, BenchError> {
    fn broken(error: impl std::fmt::Display) -> BenchError {
        BenchError::Machine(error.to_string())
    }
    let llc = topology.last_level_cache_bytes().unwrap_or(Bytes::mib(32));
    let l2 = topology.cache_bytes(2).unwrap_or(Bytes::mib(1));
    let beyond = Bytes((llc.0 * 4).min(BEYOND_MAX.0));
    let mut machine = Real::new(topology.clone(), beyond);
    let mut latency = |bytes: Bytes| {
        let times = machine.chase_ns(bytes, 3).map_err(broken)?;
        Spread::of(&times)
            .map(|spread| spread.median)
            .ok_or_else(|| BenchError::Machine("no latency was measured".to_owned()))
    };
    let (l2_ns, llc_ns, memory_ns) = (
        latency(Bytes(l2.0 / 2))?,
        latency(Bytes(llc.0 / 2))?,
        latency(beyond)?,
    );
    let mut cycles = open(&[counters::Event::Cycles]).map_err(broken)?;
    cycles.start().map_err(broken)?;
    let mut sum = 0_u64;
    for step in 0..SPIN {
        sum = std::hint::black_box(sum.wrapping_mul(3).wrapping_add(step));
    }
    let counted = cycles.stop().map_err(broken)?;
    let count = counted.get(counters::Event::Cycles).unwrap_or(0) as f64;
    let frequency_ghz = count / counted.time_enabled_ns().max(1) as f64;
    Ok(CyclesPerMiss::from_latencies(
        l2_ns,
        llc_ns,
        memory_ns,
        frequency_ghz,
    ))
}

fn failed(error: MonitorError) -> BenchError {
    BenchError::Machine(error.to_string())
}

impl Watch for Counters {
    fn begin(&mut self) -> Result<(), BenchError> {
        let open = |target, groups: &[Vec<Event>]| {
            let mut monitor = Monitor::open(target, groups, Scope::User)?;
            monitor.start()?;
            Ok(monitor)
        };
        self.counting = Some(open(Target::Process(self.postmaster), &self.groups).map_err(failed)?);
        // Counting whole processors takes more rights than counting a process; the kernel's busy times are there in any case.
        let groups = vec![self.by_cpu.clone()];
        let on_cpu = |cpu: &CpuId| {
            open(Target::Cpu(cpu.0), &groups)
                .ok()
                .map(|monitor| (*cpu, monitor))
        };
        self.on_cpus = self.cpus.iter().filter_map(on_cpu).collect();
        Ok(())
    }

    fn end(&mut self, _turn: &Turn) -> Result<Vec<Seen>, BenchError> {
        let Some(mut monitor) = self.counting.take() else {
            return Ok(Vec::new());
        };
        let counts = monitor.stop().map_err(failed)?;
        let mut all = seen(&counts, &self.cpu, &self.costs, self.siblings);
        for (cpu, mut monitor) in self.on_cpus.drain(..) {
            let instructions = monitor
                .stop()
                .ok()
                .and_then(|counts| counts.get(Quantity::Instructions));
            all.extend(
                instructions.map(|value| {
                    Seen::new(DISTRIBUTION, "instructions", "count", value, HOW).of("cpu", cpu.0)
                }),
            );
        }
        Ok(all)
    }
}

/// The figures that follow from counts; what a processor does not count is left out.
fn seen(counts: &Counts, cpu: &CpuModel, costs: &CyclesPerMiss, siblings: bool) -> Vec<Seen> {
    let rate = |rate: Option<rates::Rate>| rate.map(|rate| rate.percent);
    let one = [
        (
            MISSES,
            "l1d_load_miss_percent",
            "percent",
            rate(rates::l1d_miss(counts)),
        ),
        (
            MISSES,
            "l2_load_miss_percent",
            "percent",
            rate(rates::l2_data_miss(counts)),
        ),
        (
            MISSES,
            "llc_load_miss_percent",
            "percent",
            rate(rates::llc_miss(counts)),
        ),
        (
            MISSES,
            "l1i_miss_percent",
            "percent",
            rate(rates::l1i_miss(counts)),
        ),
        (
            MISSES,
            "itlb_miss_percent",
            "percent",
            rate(rates::itlb_miss(counts)),
        ),
        (
            MISSES,
            "dtlb_miss_percent",
            "percent",
            rate(rates::dtlb_miss(counts)),
        ),
        (
            MISSES,
            "branch_mispredict_percent",
            "percent",
            rate(rates::branch_mispredict(counts)),
        ),
        (
            MISSES,
            "machine_clears_per_kilo_instruction",
            "count",
            rates::machine_clears_per_kilo_instruction(counts),
        ),
        (STALLS, "cpi_not_halted", "cycles", rates::cpi_not_halted(counts)),
        (
            STALLS,
            "uops_per_instruction",
            "count",
            rates::uops_per_instruction(counts),
        ),
    ];
    let found = one
        .into_iter()
        .filter_map(|(case, metric, unit, value)| Some(Seen::new(case, metric, unit, value?, HOW)));
    let mut all: Vec<Seen> = found.collect();
    all.extend(components(counts, costs).into_iter().map(|(component, cycles)| {
        Seen::new(STALLS, "stall_cpi", "cycles", cycles, HOW).of("component", component.name())
    }));
    // Where a processor offers none, the row of its capability says so.
    let shares = top_down(counts, cpu, siblings).unwrap_or_default();
    all.extend(shares.into_iter().map(|share| {
        Seen::new(STALLS, "topdown_percent", "percent", share.percent, HOW).of("category", share.category)
    }));
    if let Some(mix) = rates::mix(counts) {
        let kinds = [
            ("load", mix.load),
            ("store", mix.store),
            ("branch", mix.branch),
            ("other", mix.other),
        ];
        all.extend(
            kinds.map(|(kind, percent)| Seen::new(MIX, "percent", "percent", percent, HOW).of("kind", kind)),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_follow_from_counts() {
        let counts = Counts::exact(&[
            (Quantity::Instructions, 1_000),
            (Quantity::Cycles, 1_810),
            (Quantity::Loads, 360),
            (Quantity::Stores, 210),
            (Quantity::Branches, 180),
            (Quantity::BranchMispredictions, 18),
        ]);
        let costs = CyclesPerMiss::from_latencies(3.0, 20.0, 100.0, 3.0);
        let seen = seen(&counts, &CpuModel::default(), &costs, false);
        let of = |metric: &str, name: &str| {
            let found = seen.iter().find(|seen| {
                seen.metric == metric
                    && (name.is_empty() || seen.of.as_ref().is_some_and(|(_, of)| of == name))
            });
            found.map(|seen| seen.value)
        };
        assert_eq!(of("cpi_not_halted", ""), Some(1.81));
        assert_eq!(of("percent", "load"), Some(36.0));
        assert_eq!(of("percent", "other"), Some(25.0));
        assert_eq!(of("branch_mispredict_percent", ""), Some(10.0));
        assert!(of("stall_cpi", "branch").is_some_and(|cycles| cycles > 0.0));
        assert_eq!(of("stall_cpi", "l2"), None);
    }
}
