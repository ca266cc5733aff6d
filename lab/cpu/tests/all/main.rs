//! Suites on a core, on tiny data: every case runs, answers are the oracle's, rows have the keys that scripts rely on.

mod floor;
mod memory_latency;

use corun_model::progress::Progress;
use lab_core::BenchError;
use lab_core::row::Row;
use lab_core::run::Outcome;
use lab_core::suite::{RunSuite, Suite, SuiteArgs};
use lab_cpu::suites;

/// Runs a suite of this crate as the program does.
fn run(args: &SuiteArgs, emit: &mut dyn FnMut(Row), progress: &dyn Progress) -> Result<Outcome, BenchError> {
    let suite = match args.suite {
        Suite::Floor => suites::floor::run as RunSuite,
        Suite::MemoryLatency => suites::memory_latency::run,
        Suite::InstructionCache => suites::instruction_cache::run,
        other => unreachable!("{other:?} is another crate's"),
    };
    lab_core::suite::run(suite, args, emit, progress)
}
