//! How fast SQL reads a table of a store, beside the same rows in memory: a full scan of a million rows of ten columns with two
//! projected, a lookup by primary key, and the bulk load before it. Prints one JSON object.
//!
//! `cargo run --release -p corun-datafusion --features store --example store_scan [ROWS]`

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use corun_datafusion::store::{LoadOptions, load};
use corun_datafusion::{Engine, EngineError, EngineOptions};
use corun_store::{Options, Store};
use std::sync::Arc;
use std::time::Instant;

/// Runs of a query; the fastest counts.
const RUNS: usize = 7;

fn rows(from: i64, to: i64) -> RecordBatch {
    let columns = (0..10).map(|column| {
        let array: ArrayRef = match column {
            0 => Arc::new(Int64Array::from_iter_values(from..to)),
            1 | 2 => Arc::new(StringArray::from_iter_values(
                (from..to).map(|row| format!("text {}", row % 1000)),
            )),
            _ => Arc::new(Int64Array::from_iter_values(
                (from..to).map(|row| row * column % 977),
            )),
        };
        (format!("c{column}"), array)
    });
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

async fn fastest_s(engine: &Engine, sql: &str) -> Result<f64, EngineError> {
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        engine.query(sql).await?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    Ok(fastest)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: i64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |rows| rows.parse())?;
    let batches: Vec<RecordBatch> = (0..count)
        .step_by(8192)
        .map(|from| rows(from, (from + 8192).min(count)))
        .collect();
    let store = Store::in_memory(Options::default())?;
    let options = LoadOptions {
        primary_key: vec!["c0".to_owned()],
        ..LoadOptions::default()
    };
    let start = Instant::now();
    load(
        &store,
        "live",
        &batches[0].schema(),
        batches.iter().cloned().map(Ok),
        &options,
    )?;
    let load_s = start.elapsed().as_secs_f64();

    let engine_options = EngineOptions::default();
    let partitions = engine_options.partitions;
    let engine = Engine::new(&engine_options)?;
    engine.attach_store(&store)?;
    let mut parts = vec![Vec::new(); partitions];
    for (number, batch) in batches.iter().enumerate() {
        parts[number % partitions].push(batch.clone());
    }
    engine.register_batches("memory", batches[0].schema(), parts)?;
    let rate = |seconds: f64| (count as f64 / seconds).round();
    let mut results = vec![
        ("rows".to_owned(), count as f64),
        ("partitions".to_owned(), partitions as f64),
        ("load_rows_per_s".to_owned(), rate(load_s)),
        (
            "table_bytes_per_row".to_owned(),
            store.table("live")?.bytes() as f64 / count as f64,
        ),
    ];
    for (what, query) in [
        ("integers", "select sum(c4), max(c7) from "),
        ("integer_and_text", "select sum(c4), max(c1) from "),
    ] {
        for table in ["live", "memory"] {
            let seconds = fastest_s(&engine, &format!("{query}{table}")).await?;
            results.push((format!("{what}_{table}_rows_per_s"), rate(seconds)));
        }
    }
    for table in ["live", "memory"] {
        let seconds = fastest_s(&engine, &format!("select c1 from {table} where c0 = 4711")).await?;
        results.push((format!("lookup_{table}_ms"), seconds * 1e3));
    }
    let fields: Vec<String> = results
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    #[allow(clippy::print_stdout, reason = "it is what an example is for")]
    {
        println!("{{{}}}", fields.join(","));
    }
    Ok(())
}
