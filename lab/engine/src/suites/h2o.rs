//! The `h2o` suite: the ten groupings and five joins of H2O.ai's db-benchmark on corun, on DataFusion and, from files, on DuckDB.
//!
//! `geomean_join_heavy` covers the five joins.

use super::workload::{self, Source, Workload, WorkloadArgs, scratch_files, text_of};
use clap::Args;
use corun_workloads::h2o::{H2o, QUERIES};
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Suite, SuiteArgs, all_cores};

fn workload() -> Workload {
    Workload {
        suite: Suite::H2o,
        queries: QUERIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        sql: |_, name| text_of(QUERIES, name),
        dashboards: &[],
        join_heavy: &["j1", "j2", "j3", "j4", "j5"],
        order_by: |_| &[],
        recorded: |_, _| None,
        generate: Some(|scale_factor, partitions, threads, progress| {
            Ok(H2o::new(scale_factor)?.dataset(partitions, threads, progress))
        }),
        files: |scale_factor, files, progress| {
            let data = H2o::new(scale_factor)?;
            scratch_files(|folder| data.write_parquet(folder, files, all_cores(), progress))
        },
    }
}

/// Arguments of `corun-lab bench h2o`.
#[derive(Clone, Debug, Default, Args)]
pub struct H2oArgs {
    /// Those of all workloads.
    #[command(flatten)]
    pub workload: WorkloadArgs,

    /// From Parquet files, too.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
}

impl SuiteArgs for H2oArgs {
    const SUITE: Suite = Suite::H2o;

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
