//! The suite `instruction-cache`: paper 003's experiments on the store's own code. Misses are simulated on this program's trace, time is measured.
//!
//! Not here: what is run and traced, and the report ([`crate::instruction_cache`]).

use crate::instruction_cache;
use lab_core::error::BenchError;
use lab_core::run::Runner;
use lab_core::suite::SuiteArgs;

/// Runs the cases `args` select.
///
/// # Errors
/// When no case matches, this program cannot be traced, or the store fails.
pub fn run(args: &SuiteArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !instruction_cache::cases().any(|case| args.selects(case)) {
        return Err(args.no_such_case(instruction_cache::cases().map(str::to_owned)));
    }
    instruction_cache::run(
        &|case| args.selects(case),
        args.quick,
        args.program.as_deref(),
        runner,
    )
}
