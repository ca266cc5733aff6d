//! `corun-lab bench key-ranges`: paper 004's experiments on PostgreSQL behind the proxy: TPC-W, TPC-C, point reads, reads of copies.

use std::path::PathBuf;

use clap::Args;
use corun_cli::arguments::positive_number;

use crate::fixture::PgFixture;
use crate::fixture::cluster::Programs;
use crate::key_ranges::case::{Case, cases};
use crate::key_ranges::experiments::{Experiments, line_up};
use crate::key_ranges::{SUITE, rows};
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Rounds, Suite, SuiteArgs};

/// Arguments of `corun-lab bench key-ranges`.
#[derive(Clone, Debug, Default, Args)]
pub struct KeyRangesArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// TPC-W with the paper's million items.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Warehouses [default: 4] and hundreds of thousands of items [default: 1; with --full 10].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    pub scale: Option<f64>,

    /// The program whose pooler is measured instead of the `corun` beside this one.
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

impl SuiteArgs for KeyRangesArgs {
    const SUITE: Suite = Suite::KeyRanges;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(&self) -> Plan {
        self.rounds.plan(self.common.quick)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        run(self, runner)
    }
}

/// Runs the selected cases. Without PostgreSQL there are rows that say so.
fn run(args: &KeyRangesArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let scale = scale(args)?;
    let all = cases(args.common.quick);
    let selected: Vec<Case> = all
        .iter()
        .filter(|case| args.common.selects(&case.name()))
        .copied()
        .collect();
    if selected.is_empty() {
        return Err(args
            .common
            .no_such_case(Suite::KeyRanges, all.iter().map(Case::name)));
    }
    let programs = match Programs::find() {
        Ok(programs) => programs,
        Err(error) => {
            runner.progress().note(&error.to_string());
            for case in &selected {
                rows::unavailable(case, &line_up(case.family), &error.to_string(), runner);
            }
            return Ok(());
        }
    };
    let fixture = PgFixture::new(SUITE, programs, args.program.as_deref())?;
    if let Err(reason) = &fixture.corun {
        runner.progress().note(reason);
    }
    let experiments = Experiments {
        quick: args.common.quick,
        full: args.full,
        scale,
        fixture: &fixture,
        cases: &selected,
    };
    experiments.run(runner)
}

fn scale(args: &KeyRangesArgs) -> Result<Option<f64>, BenchError> {
    match args.scale {
        Some(scale) if !(0.01..=100.0).contains(&scale) => Err(BenchError::BadArgument(format!(
            "--scale {scale}: {SUITE} takes 0.01 to 100: warehouses of TPC-C, hundreds of thousands of items of TPC-W"
        ))),
        scale => Ok(scale),
    }
}

#[cfg(test)]
mod tests;
