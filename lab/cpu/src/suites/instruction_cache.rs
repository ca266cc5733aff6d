//! The suite `instruction-cache`: paper 003's experiments on the store's own code. Misses are simulated on this program's trace, time is measured.
//!
//! Not here: what is run and traced, and the report ([`crate::instruction_cache`]).

use std::path::PathBuf;

use clap::Args;

use crate::instruction_cache;
use lab_core::error::BenchError;
use lab_core::run::Runner;
use lab_core::suite::{Common, Rounds, Suite};

/// Arguments of `corun-lab bench instruction-cache`.
#[derive(Clone, Debug, Default, Args)]
pub struct InstructionCacheArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// What is traced instead of a copy of this program; it must have the subcommand [`instruction_cache::SUBCOMMAND`].
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

lab_core::suite_args!(InstructionCacheArgs, InstructionCache);

/// Runs the selected cases.
fn run(args: &InstructionCacheArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !instruction_cache::cases().any(|case| args.common.selects(case)) {
        return Err(args.common.no_such_case(
            Suite::InstructionCache,
            instruction_cache::cases().map(str::to_owned),
        ));
    }
    instruction_cache::run(
        &|case| args.common.selects(case),
        args.common.quick,
        args.program.as_deref(),
        runner,
    )
}
