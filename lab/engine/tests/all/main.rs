//! Suites on the embedded engine, on tiny data: every case runs, answers are the oracle's, rows have the keys that scripts rely on.

mod demo_live;
mod join;
mod plan_estimates;
mod record_answers;
mod shared_cache;
mod shared_cache_simulated;
mod transactions;
mod workloads;

use corun_model::progress::Progress;
use lab_core::BenchError;
use lab_core::row::Row;
use lab_core::run::Outcome;
use lab_core::suite::{RunSuite, Suite, SuiteArgs};
use lab_engine::suites;

/// Runs a suite of this crate as the program does.
fn run(args: &SuiteArgs, emit: &mut dyn FnMut(Row), progress: &dyn Progress) -> Result<Outcome, BenchError> {
    let suite = match args.suite {
        Suite::Join => suites::join::run as RunSuite,
        Suite::Ssb => suites::ssb::run,
        Suite::Tpch => suites::tpch::run,
        Suite::Llc => suites::shared_cache::run,
        Suite::Oltp => suites::transactions::run,
        other => unreachable!("{other:?} is another crate's"),
    };
    lab_core::suite::run(suite, args, emit, progress)
}
