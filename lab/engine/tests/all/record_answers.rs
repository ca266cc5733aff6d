//! Writes what the recorded answers are made from. Ignored by default; run on purpose:
//!
//! ```text
//! CORUN_ANSWERS=/tmp/answers cargo test --release -p lab-engine --test all record_answers -- --ignored
//! python3 lab/engine/tests/cross_check.py /tmp/answers      (needs the Python package duckdb)
//! ```
//!
//! For both workloads at scale factors 0.01 and 1 it writes below `$CORUN_ANSWERS`: the tables as Parquet files, every
//! query's text, its answer from stock DataFusion as text, and the file of fingerprints. `cross_check.py` runs the
//! same queries on DuckDB over the same Parquet files and compares cell by cell; only after that the files of
//! fingerprints are copied beside the queries.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use corun_datafusion::{Engine, EngineOptions, Joins};
use corun_model::progress::Silent;
use corun_workloads::answers::{Recorded, cell_text};
use corun_workloads::dataset::Dataset;
use corun_workloads::ssb::{self, Ssb};
use corun_workloads::tpch::{self, Tpch};

type Queries = &'static [(&'static str, &'static str)];

fn folder() -> PathBuf {
    PathBuf::from(std::env::var("CORUN_ANSWERS").expect("set CORUN_ANSWERS to a folder for the answers"))
}

#[tokio::test]
#[ignore = "writes files; see the top of this test"]
async fn record_ssb() {
    for (scale_factor, suffix) in [(0.01, "sf001"), (1.0, "sf1")] {
        let to = folder().join(format!("ssb_{suffix}"));
        let ssb = Ssb::new(scale_factor).unwrap();
        ssb.write_parquet(&to, 1, 2, &Silent).unwrap();
        record(
            &to,
            suffix,
            &ssb.dataset(2, 2, &Silent),
            ssb::QUERIES,
            ssb::order_by,
        )
        .await;
    }
}

#[tokio::test]
#[ignore = "writes files; see the top of this test"]
async fn record_tpch() {
    for (scale_factor, suffix) in [(0.01, "sf001"), (1.0, "sf1")] {
        let to = folder().join(format!("tpch_{suffix}"));
        let tpch = Tpch::new(scale_factor).unwrap();
        tpch.write_parquet(&to, 1, 2, &Silent).unwrap();
        record(
            &to,
            suffix,
            &tpch.dataset(2, 2, &Silent),
            tpch::QUERIES,
            tpch::order_by,
        )
        .await;
    }
}

async fn record(
    to: &Path,
    suffix: &str,
    data: &Dataset,
    queries: Queries,
    order_by: fn(&str) -> &'static [&'static str],
) {
    let engine = Engine::new(&EngineOptions {
        joins: Joins::Stock,
        ..EngineOptions::default()
    })
    .unwrap();
    lab_engine::tables::register(data, &engine).unwrap();
    let mut fingerprints = String::new();
    for (name, sql) in queries {
        let output = engine
            .query(sql)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let recorded = Recorded::of(&output.schema, &output.batches, order_by(name));
        writeln!(fingerprints, "{name} {recorded}").unwrap();
        fs::write(to.join(format!("{name}.sql")), sql).unwrap();
        fs::write(to.join(format!("{name}.answer")), rows(&output.batches)).unwrap();
    }
    fs::write(to.join(format!("answers_{suffix}.txt")), fingerprints).unwrap();
}

/// Rows in the order they came, one a line, cells separated by tabs.
fn rows(batches: &[RecordBatch]) -> String {
    let mut text = String::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = batch
                .columns()
                .iter()
                .map(|column| cell_text(column, row))
                .collect();
            writeln!(text, "{}", cells.join("\t")).unwrap();
        }
    }
    text
}
