//! The `h2o` suite: the ten groupings and five joins of H2O.ai's db-benchmark on corun, on DataFusion and, from files, on DuckDB.
//!
//! `geomean_join_heavy` covers the five joins.

use super::workload::{Workload, scratch_files, text_of, workload_args};
use crate::peers::sql::DUCKDB;
use corun_workloads::h2o::{H2o, QUERIES};
use lab_core::suite::{Suite, all_cores};

fn workload() -> Workload {
    Workload {
        suite: Suite::H2o,
        queries: QUERIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        sql: |_, name| text_of(QUERIES, name),
        dashboards: &[],
        join_heavy: &["j1", "j2", "j3", "j4", "j5"],
        order_by: |_| &[],
        recorded: |_, _| None,
        generate: Some(|scale_factor, _, partitions, threads, progress| {
            Ok(H2o::new(scale_factor)?.dataset(partitions, threads, progress))
        }),
        peers: &[&DUCKDB],
        files: |scale_factor, files, progress| {
            let data = H2o::new(scale_factor)?;
            scratch_files(|folder| data.write_parquet(folder, files, all_cores(), progress))
        },
    }
}

workload_args! {
    /// Arguments of `corun-lab bench h2o`.
    H2oArgs, H2o
}
