//! The `steps` suite: paper 003's experiments on the store's own code. Misses are simulated on this program's trace, time is measured.
//!
//! Not here: what is run and traced, and the report ([`crate::steps`]).

use super::SuiteArgs;
use crate::error::BenchError;
use crate::run::Runner;
use crate::steps;

/// Runs the cases `args` select.
///
/// # Errors
/// When no case matches, this program cannot be traced, or the store fails.
pub fn run(args: &SuiteArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !steps::CASES.iter().any(|case| args.selects(case)) {
        return Err(args.no_such_case(steps::CASES.iter().map(|case| (*case).to_owned())));
    }
    steps::run(
        &|case| args.selects(case),
        args.quick,
        args.program.as_deref(),
        runner,
    )
}
