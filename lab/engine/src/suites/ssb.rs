//! The `ssb` suite: the 13 queries of the Star Schema Benchmark on corun and on DataFusion.
//!
//! `geomean_join_heavy` covers flights 2 to 4: the queries that join the fact table with three or four dimensions.
//! Flight 1 joins a few hundred days only.

use super::workload::{self, Source, Workload, WorkloadArgs, scratch_files, text_of};
use clap::Args;
use corun_workloads::ssb::{QUERIES, Ssb, order_by, recorded};
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Suite, SuiteArgs, all_cores};

/// Queries whose time is mostly joins.
const JOIN_HEAVY: &[&str] = &[
    "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1", "q4.2", "q4.3",
];

fn workload() -> Workload {
    Workload {
        suite: Suite::Ssb,
        queries: QUERIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        sql: |_, name| text_of(QUERIES, name),
        join_heavy: JOIN_HEAVY,
        order_by,
        recorded,
        generate: Some(|scale_factor, partitions, threads, progress| {
            Ok(Ssb::new(scale_factor)?.dataset(partitions, threads, progress))
        }),
        files: |scale_factor, files, progress| {
            let data = Ssb::new(scale_factor)?;
            scratch_files(|folder| data.write_parquet(folder, files, all_cores(), progress))
        },
    }
}

/// Arguments of `corun-lab bench ssb`.
#[derive(Clone, Debug, Default, Args)]
pub struct SsbArgs {
    /// Those of all workloads.
    #[command(flatten)]
    pub workload: WorkloadArgs,

    /// From Parquet files, too.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
}

impl SuiteArgs for SsbArgs {
    const SUITE: Suite = Suite::Ssb;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_heavy_queries_exist_and_join_three_dimensions() {
        for name in JOIN_HEAVY {
            let (_, sql) = QUERIES.iter().find(|(query, _)| query == name).unwrap();
            assert!(sql.matches("key\n").count() >= 3, "{name}");
        }
        assert_eq!(JOIN_HEAVY.len() + 3, QUERIES.len());
    }
}
