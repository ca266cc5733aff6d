//! Runs the SQL files under `tests/slt` on the stock engine and on corun's: the same expected rows for both.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use corun_datafusion::{Engine, EngineError, EngineOptions, Joins};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};
use std::path::Path;

struct Database(Engine);

#[async_trait::async_trait]
impl AsyncDB for Database {
    type Error = EngineError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, EngineError> {
        let output = self.0.query(sql).await?;
        if output.schema.fields().is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in &output.batches {
            let columns: Vec<_> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options).expect("printable"))
                .collect();
            for row in 0..batch.num_rows() {
                rows.push(
                    columns
                        .iter()
                        .map(|column| column.value(row).to_string())
                        .collect(),
                );
            }
        }
        let types = vec![DefaultColumnType::Any; output.schema.fields().len()];
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "corun"
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_on_both_engines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        for joins in [Joins::Stock, Joins::Corun] {
            for partitions in [1, 3] {
                let options = EngineOptions {
                    partitions,
                    batch_size: 2,
                    joins,
                    ..EngineOptions::default()
                };
                let mut runner = Runner::new(|| async { Ok(Database(Engine::new(&options)?)) });
                if let Err(error) = runner.run_file_async(&path).await {
                    panic!(
                        "{} with {joins:?} joins, {partitions} partitions: {error}",
                        path.display()
                    );
                }
            }
        }
        files += 1;
    }
    assert!(files > 0, "no SQL files found");
}
