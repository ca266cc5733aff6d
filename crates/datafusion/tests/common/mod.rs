//! Tables of random data with keys of every kind, engines over them, and results in a form that can be compared.

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use corun_datafusion::{Engine, EngineOptions, Joins, QueryOutput};
use proptest::prelude::RngCore;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::sync::Arc;

/// Rows of a result as sorted lines.
pub fn lines(output: &QueryOutput) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut all = Vec::new();
    for batch in &output.batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            all.push(
                columns
                    .iter()
                    .map(|column| column.value(row).to_string())
                    .collect::<Vec<_>>()
                    .join("|"),
            );
        }
    }
    all.sort();
    all
}

/// A table in memory.
pub struct Table {
    /// Its columns.
    pub schema: Arc<Schema>,
    /// Its rows.
    pub partitions: Vec<Vec<RecordBatch>>,
}

/// A table of `rows` rows with keys of every kind drawn from `domain` values, about one NULL in ten.
pub fn table(prefix: &str, rows: usize, domain: u32, partitions: usize, seed: u8) -> Table {
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut draw = |nulls: bool| -> Option<i64> {
        let value = rng.next_u32();
        (!nulls || !value.is_multiple_of(10)).then(|| i64::from((value / 16) % domain))
    };
    let name = |column: &str| format!("{prefix}_{column}");
    let fields = vec![
        Field::new(name("id"), DataType::Int64, false),
        Field::new(name("i"), DataType::Int64, true),
        Field::new(name("n"), DataType::Int32, true),
        Field::new(name("w"), DataType::Int64, true),
        Field::new(name("s"), DataType::Utf8, true),
        Field::new(name("v"), DataType::Utf8View, true),
        Field::new(name("f"), DataType::Float64, true),
    ];
    let schema = Arc::new(Schema::new(fields));
    let mut made: Vec<Vec<RecordBatch>> = vec![Vec::new(); partitions];
    let mut id = 0i64;
    while (id as usize) < rows {
        let take = (rows - id as usize).min(97);
        let numbers: Vec<Option<i64>> = (0..take).map(|_| draw(true)).collect();
        let others: Vec<Option<i64>> = (0..take).map(|_| draw(true)).collect();
        let float = |value: &i64| match value % 5 {
            0 => f64::NAN,
            1 => -0.0,
            2 => 0.0,
            _ => *value as f64,
        };
        let text = |value: &i64| format!("key {} with a tail", value * 7);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(id..id + take as i64)),
            Arc::new(Int64Array::from(numbers.clone())),
            Arc::new(Int32Array::from_iter(
                others.iter().map(|v| v.map(|v| v as i32 - 3)),
            )),
            // Spread over the whole 64-bit range, so that packing two of them is impossible.
            Arc::new(Int64Array::from_iter(
                others
                    .iter()
                    .map(|v| v.map(|v| (v + 1).wrapping_mul(0x1234_5678_9abc_def1))),
            )),
            Arc::new(StringArray::from_iter(
                numbers.iter().map(|v| v.as_ref().map(text)),
            )),
            Arc::new(StringViewArray::from_iter(
                others.iter().map(|v| v.as_ref().map(|v| v.to_string())),
            )),
            Arc::new(Float64Array::from_iter(
                numbers.iter().map(|v| v.as_ref().map(float)),
            )),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        made[(id as usize / 97) % partitions].push(batch);
        id += take as i64;
    }
    Table {
        schema,
        partitions: made,
    }
}

/// An engine over some tables. Settings of corun are left out where its operators are.
pub fn engine(
    joins: Joins,
    partitions: usize,
    batch_size: usize,
    settings: &[(&str, &str)],
    tables: &[(&str, &Table)],
) -> Engine {
    let options = EngineOptions {
        partitions,
        batch_size,
        joins,
        // Tests of what is shared say so.
        share_work: settings.iter().any(|(key, _)| *key == "corun.share_work"),
        settings: settings
            .iter()
            .filter(|(key, _)| joins == Joins::Corun || !key.starts_with("corun."))
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    for (name, table) in tables {
        engine
            .register_batches(name, Arc::clone(&table.schema), table.partitions.clone())
            .unwrap();
    }
    engine
}
