//! The `floor` suite: nanoseconds per independent random cache line, by working-set size and threads.
//!
//! No join can probe faster than the machine touches random lines, so every join result is read beside this curve. The
//! kernel is [`corun_topology::measure`]'s; here are only the sizes and the rows.

use clap::Args;
use corun_cli::arguments::positive;
use corun_model::topology::Topology;
use corun_model::units::Bytes;
use corun_topology::measure::FloorBuffer;

use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Plan, Runner};
use lab_core::stats::Spread;
use lab_core::suite::{Common, Suite, SuiteArgs, Threads};

/// The metric of the suite.
pub const METRIC: &str = "ns_per_line";
/// Working sets in bytes: inside L1, L2 and the last-level cache of usual servers, and out of all of them.
const BYTES: [u64; 9] = [
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
    1 << 30,
];
/// Lines touched a repetition: a tenth of a second where they are slow, far above a timer's noise where they are fast.
const LINES: u64 = 16_000_000;
const QUICK_LINES: u64 = 200_000;
/// Largest working set of `--quick`.
const QUICK_BYTES_MAX: u64 = 16 << 20;
/// A working set may take this share of the machine's memory, so that the suite never makes it swap.
const MEMORY_SHARE: u64 = 8;

/// The working sets for a machine with so much memory.
fn sizes(memory_bytes: Option<u64>, quick: bool) -> Vec<u64> {
    let memory_max = memory_bytes.map_or(u64::MAX, |bytes| bytes / MEMORY_SHARE);
    let bytes_max = if quick {
        QUICK_BYTES_MAX.min(memory_max)
    } else {
        memory_max
    };
    BYTES.into_iter().filter(|&bytes| bytes <= bytes_max).collect()
}

/// The smallest memory the working set fits, by the sizes the machine announces (which a virtual machine may overstate).
fn fits(topology: &Topology, bytes: u64) -> &'static str {
    let level = |level| topology.cache_bytes(level).is_some_and(|size| bytes <= size.0);
    let last = topology
        .last_level_cache_bytes()
        .is_some_and(|size| bytes <= size.0);
    match () {
        () if level(1) => "l1",
        () if level(2) => "l2",
        () if last => "llc",
        () => "memory",
    }
}

/// `16k`, `4m`, `1g`.
fn bytes_name(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{}g", bytes >> 30),
        bytes if bytes >= 1 << 20 => format!("{}m", bytes >> 20),
        bytes => format!("{}k", bytes >> 10),
    }
}

/// Arguments of `corun-lab bench floor`.
#[derive(Clone, Debug, Default, Args)]
pub struct FloorArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// With how many threads.
    #[command(flatten)]
    pub threads: Threads,

    /// Repetitions instead of five.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub repetitions: Option<usize>,
}

impl SuiteArgs for FloorArgs {
    const SUITE: Suite = Suite::Floor;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(&self) -> Plan {
        Plan::from_arguments(self.common.quick, self.repetitions)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        run(self, runner)
    }
}

/// Runs the sizes that are selected, each at every number of threads.
fn run(args: &FloorArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let topology = corun_topology::discover();
    let memory_bytes = topology
        .memory
        .limit
        .or(topology.memory.total)
        .map(|bytes| bytes.0);
    let cases: Vec<(String, u64, usize)> = sizes(memory_bytes, args.common.quick)
        .into_iter()
        .flat_map(|bytes| {
            let counts = args.threads.counts();
            counts.into_iter().map(move |threads| (bytes, threads))
        })
        .map(|(bytes, threads)| (format!("{}_t{threads}", bytes_name(bytes)), bytes, threads))
        .collect();
    let chosen: Vec<_> = cases
        .iter()
        .filter(|(name, ..)| args.common.selects(name))
        .collect();
    if chosen.is_empty() {
        return Err(args
            .common
            .no_such_case(Suite::Floor, cases.iter().map(|(name, ..)| name.clone())));
    }
    let repetitions = runner.plan().repetitions;
    let lines = if args.common.quick { QUICK_LINES } else { LINES };
    runner
        .progress()
        .begin("floor", (chosen.len() * repetitions) as u64);
    for (name, bytes, threads) in chosen {
        let buffer = FloorBuffer::new(Bytes(*bytes)).map_err(BenchError::machine)?;
        let mut values = Vec::with_capacity(repetitions);
        let mut answer_ok = true;
        for _ in 0..repetitions {
            let sample = buffer.sample(*threads, lines).map_err(BenchError::machine)?;
            values.push(sample.ns_per_line);
            answer_ok &= sample.checksum_ok;
            runner.progress().advance(1);
        }
        let Some(spread) = Spread::of(&values) else {
            continue;
        };
        let row = Row::measured("floor", name, METRIC, "ns", spread, answer_ok);
        runner.emit(
            row.with("bytes", *bytes)
                .with("threads", *threads)
                .with("fits", fits(&topology, *bytes)),
        );
        runner.cases_are_finished();
    }
    runner.progress().end();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_respect_memory_and_quick() {
        assert_eq!(sizes(None, false), BYTES);
        assert_eq!(sizes(Some(2 << 30), false).last(), Some(&(256 << 20)));
        assert_eq!(sizes(None, true).last(), Some(&QUICK_BYTES_MAX));
    }

    #[test]
    fn names_are_short_and_distinct() {
        let names = BYTES.map(bytes_name);
        assert_eq!(
            names,
            ["16k", "64k", "256k", "1m", "4m", "16m", "64m", "256m", "1g"]
        );
    }
}
