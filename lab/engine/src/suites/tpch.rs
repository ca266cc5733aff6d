//! The `tpch` suite: the 22 queries of TPC-H on corun and on DataFusion.
//!
//! `geomean_join_heavy` covers the queries that read three tables or more, by the text alone and decided before any
//! measurement; the rest scan, aggregate, or join two tables.

use super::workload::{self, Workload, WorkloadArgs};
use clap::Args;
use corun_workloads::tpch::{QUERIES, Tpch, order_by, recorded};
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Suite, SuiteArgs};

const WORKLOAD: Workload = Workload {
    suite: Suite::Tpch,
    queries: QUERIES,
    join_heavy: &[
        "q2", "q3", "q5", "q7", "q8", "q9", "q10", "q11", "q16", "q18", "q20", "q21",
    ],
    order_by,
    recorded,
    generate: |scale_factor, partitions, threads, progress| {
        Ok(Tpch::new(scale_factor)?.dataset(partitions, threads, progress))
    },
    write: |folder, scale_factor, files, threads, progress| {
        Tpch::new(scale_factor)?.write_parquet(folder, files, threads, progress)
    },
};

/// Arguments of `corun-lab bench tpch`.
#[derive(Clone, Debug, Default, Args)]
pub struct TpchArgs {
    /// Those of all workloads.
    #[command(flatten)]
    pub workload: WorkloadArgs,
}

impl SuiteArgs for TpchArgs {
    const SUITE: Suite = Suite::Tpch;

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
    use std::collections::BTreeSet;

    use super::*;
    use corun_workloads::tpch::Table;

    #[test]
    fn join_heavy_queries_are_those_that_read_three_tables() {
        for (name, sql) in QUERIES {
            let words: BTreeSet<&str> = sql
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .collect();
            let tables = Table::ALL
                .iter()
                .filter(|table| words.contains(table.name()))
                .count();
            assert_eq!(
                WORKLOAD.join_heavy.contains(name),
                tables >= 3,
                "{name} reads {tables} tables"
            );
        }
    }
}
