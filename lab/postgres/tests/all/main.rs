//! Suites on PostgreSQL, on tiny data: every case runs, answers are right, and nothing that was started is left.

mod characterize_simulated;
mod heavy_queue_simulated;
mod interference;
mod key_ranges;
mod pooler;

use corun_model::progress::Progress;
use lab_core::BenchError;
use lab_core::row::Row;
use lab_core::run::Outcome;
use lab_core::suite::{RunSuite, Suite, SuiteArgs};
use lab_postgres::suites;

/// Runs a suite of this crate as the program does.
fn run(args: &SuiteArgs, emit: &mut dyn FnMut(Row), progress: &dyn Progress) -> Result<Outcome, BenchError> {
    let suite = match args.suite {
        Suite::Proxy => suites::pooler::run as RunSuite,
        Suite::KeyRanges => suites::key_ranges::run,
        Suite::HeavyQueue => suites::heavy_queue::run,
        other => unreachable!("{other:?} is another crate's"),
    };
    lab_core::suite::run(suite, args, emit, progress)
}
