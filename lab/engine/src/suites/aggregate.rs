//! The `aggregate` suite: groupings by keys of every kind, ten groups to one for nearly each row, on corun, on DataFusion and, from files, on
//! DuckDB.

use super::workload::{self, Source, Workload, WorkloadArgs, scratch_files, text_of};
use clap::Args;
use corun_workloads::groups::{Groups, QUERIES};
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Suite, SuiteArgs, all_cores};

fn workload() -> Workload {
    Workload {
        suite: Suite::Aggregate,
        queries: QUERIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        sql: |_, name| text_of(QUERIES, name),
        dashboards: &[],
        join_heavy: &[],
        order_by: |_| &[],
        recorded: |_, _| None,
        generate: Some(|scale_factor, partitions, threads, progress| {
            Ok(Groups::new(scale_factor)?.dataset(partitions, threads, progress))
        }),
        files: |scale_factor, files, progress| {
            let data = Groups::new(scale_factor)?;
            scratch_files(|folder| data.write_parquet(folder, files, all_cores(), progress))
        },
    }
}

/// Arguments of `corun-lab bench aggregate`.
#[derive(Clone, Debug, Default, Args)]
pub struct AggregateArgs {
    /// Those of all workloads.
    #[command(flatten)]
    pub workload: WorkloadArgs,

    /// From Parquet files, too.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
}

impl SuiteArgs for AggregateArgs {
    const SUITE: Suite = Suite::Aggregate;

    fn common(&mut self) -> &mut Common {
        &mut self.workload.common
    }

    fn plan(&self) -> Plan {
        self.workload.rounds.plan(self.workload.common.quick)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        workload::run(&workload(), Source::of(self.full), &self.workload, runner)
    }
}
