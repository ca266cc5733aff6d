//! The `aggregate` suite: groupings by keys of every kind, ten groups to one for nearly each row, on corun, on DataFusion and, from files, on
//! DuckDB and Polars.

use super::workload::{Workload, scratch_files, text_of, workload_args};
use crate::peers::sql::{DUCKDB, POLARS};
use corun_workloads::groups::{Groups, QUERIES};
use lab_core::suite::{Suite, all_cores};

fn workload() -> Workload {
    Workload {
        suite: Suite::Aggregate,
        queries: QUERIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        sql: |_, name| text_of(QUERIES, name),
        dashboards: &[],
        join_heavy: &[],
        order_by: |_| &[],
        recorded: |_, _| None,
        generate: Some(|scale_factor, _, partitions, threads, progress| {
            Ok(Groups::new(scale_factor)?.dataset(partitions, threads, progress))
        }),
        peers: &[&DUCKDB, &POLARS],
        files: |scale_factor, files, progress| {
            let data = Groups::new(scale_factor)?;
            scratch_files(|folder| data.write_parquet(folder, files, all_cores(), progress))
        },
    }
}

workload_args! {
    /// Arguments of `corun-lab bench aggregate`.
    AggregateArgs, Aggregate
}
