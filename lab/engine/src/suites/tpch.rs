//! The `tpch` suite: the 22 queries of TPC-H on corun and on DataFusion.
//!
//! `geomean_join_heavy` covers the queries that read three tables or more, by the text alone and decided before any
//! measurement; the rest scan, aggregate, or join two tables.

use super::workload::{Offered, Workload, offer, scratch_files, text_of, workload_args};
use crate::peers::sql::DUCKDB;
use corun_model::progress::Progress;
use corun_workloads::tpch::{QUERIES, Tpch, order_by, recorded};
use lab_core::error::BenchError;
use lab_core::suite::{Suite, all_cores};

/// Queries whose time is mostly joins.
const JOIN_HEAVY: &[&str] = &[
    "q2", "q3", "q5", "q7", "q8", "q9", "q10", "q11", "q16", "q18", "q20", "q21",
];

fn workload() -> Workload {
    Workload {
        suite: Suite::Tpch,
        queries: QUERIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        sql: |_, name| text_of(QUERIES, name),
        dashboards: &[],
        join_heavy: JOIN_HEAVY,
        order_by,
        recorded,
        generate: Some(|scale_factor, queries, partitions, threads, progress| {
            Ok(Tpch::new(scale_factor)?
                .read_by(queries)
                .dataset(partitions, threads, progress))
        }),
        peers: &[&DUCKDB],
        files: |scale_factor, files, progress| {
            let data = Tpch::new(scale_factor)?;
            scratch_files(|folder| data.write_parquet(folder, files, all_cores(), progress))
        },
    }
}

/// TPC-H's files, queries and answers at a scale factor, for suites that ask servers.
///
/// # Errors
/// An impossible scale factor, files that cannot be written, an answer that is not the recorded one.
pub fn offered(scale_factor: f64, progress: &dyn Progress) -> Result<Offered, BenchError> {
    offer(&workload(), scale_factor, progress)
}

workload_args! {
    /// Arguments of `corun-lab bench tpch`.
    TpchArgs, Tpch
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
                JOIN_HEAVY.contains(name),
                tables >= 3,
                "{name} reads {tables} tables"
            );
        }
    }
}
