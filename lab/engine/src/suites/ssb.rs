//! The `ssb` suite: the 13 queries of the Star Schema Benchmark on corun and on DataFusion.
//!
//! `geomean_join_heavy` covers flights 2 to 4: the queries that join the fact table with three or four dimensions.
//! Flight 1 joins a few hundred days only.

use super::workload::{self, Workload, WorkloadArgs};
use clap::Args;
use corun_workloads::ssb::{QUERIES, Ssb, order_by, recorded};
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Suite, SuiteArgs};

const WORKLOAD: Workload = Workload {
    suite: Suite::Ssb,
    queries: QUERIES,
    join_heavy: &[
        "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1", "q4.2", "q4.3",
    ],
    order_by,
    recorded,
    generate: |scale_factor, partitions, threads, progress| {
        Ok(Ssb::new(scale_factor)?.dataset(partitions, threads, progress))
    },
    write: |folder, scale_factor, files, threads, progress| {
        Ssb::new(scale_factor)?.write_parquet(folder, files, threads, progress)
    },
};

/// Arguments of `corun-lab bench ssb`.
#[derive(Clone, Debug, Default, Args)]
pub struct SsbArgs {
    /// Those of all workloads.
    #[command(flatten)]
    pub workload: WorkloadArgs,
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
        workload::run(&WORKLOAD, &self.workload, runner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_heavy_queries_exist_and_join_three_dimensions() {
        for name in WORKLOAD.join_heavy {
            let (_, sql) = QUERIES.iter().find(|(query, _)| query == name).unwrap();
            assert!(sql.matches("key\n").count() >= 3, "{name}");
        }
        assert_eq!(WORKLOAD.join_heavy.len() + 3, QUERIES.len());
    }
}
