//! The tables of the PLQ queries and what they must answer, all from a seed.
//!
//! ```text
//!   part         (p_partkey, p_category)                parts of 25 categories in turn; keys are scattered over 64 bits
//!   part_by_key  the same rows, sorted by key
//!   lineorder    (lo_partkey, lo_revenue, lo_quantity)  orders of random parts
//! ```
//!
//! Scattered keys, because an engine may use dense ones as positions in an array, whose size would follow from all parts and not
//! from the `k / 25` of them that PLQ_k selects. An order's part is drawn as a number before it becomes a key, and revenue is
//! summed by that number: the oracle never compares keys, so it shares no mistake with a join.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::sizes::{CATEGORIES, Sizes};
use super::statement::{SCAN_QUANTITY_BELOW, Statement, category};
use corun_model::progress::Progress;
use corun_workloads::answers::{Answer, fingerprint_of_rows};
use corun_workloads::dataset::{BATCH_ROWS, Dataset, TableData};
use corun_workloads::numbers::{below, draw, mix};
use corun_workloads::parallel::run_jobs;
use lab_core::error::BenchError;

/// The seed of the data.
pub const SEED: u64 = 0x6c6c_6301;

/// Revenue of an order is below this.
const REVENUE: u64 = 1_000_000;
/// Quantities are 1 to this.
const QUANTITY_MAX: u64 = 50;

/// Streams of random numbers, one a column.
mod stream {
    pub const PART: u64 = 1;
    pub const REVENUE: u64 = 2;
    pub const QUANTITY: u64 = 3;
}

/// Tables and answers.
#[derive(Clone, Debug)]
pub struct Data {
    /// `part`, `part_by_key`, `lineorder`, each in one partition: a query runs on one thread.
    pub tables: Dataset,
    /// Revenue of the orders of each category.
    revenue: [i64; CATEGORIES],
    /// Revenue that the scan sums.
    scanned: i64,
}

/// The key of a part: a bijection, so keys are as distinct as parts.
fn key(part: u64) -> i64 {
    mix(SEED ^ part).cast_signed()
}

fn part_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("p_partkey", DataType::Int64, false),
        Field::new("p_category", DataType::Int32, false),
    ]))
}

fn orders_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("lo_partkey", DataType::Int64, false),
        Field::new("lo_revenue", DataType::Int64, false),
        Field::new("lo_quantity", DataType::Int32, false),
    ]))
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch, BenchError> {
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| BenchError::Data(error.to_string()))
}

fn part_table(name: &'static str, parts: &[u64]) -> Result<TableData, BenchError> {
    let schema = part_schema();
    let batches = parts
        .chunks(BATCH_ROWS)
        .map(|parts| {
            let keys = Int64Array::from_iter_values(parts.iter().map(|&part| key(part)));
            let terms = parts
                .iter()
                .map(|&part| category((part % CATEGORIES as u64) as usize));
            batch(
                &schema,
                vec![Arc::new(keys), Arc::new(Int32Array::from_iter_values(terms))],
            )
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(TableData::new(name, schema, batches, 1))
}

/// A batch of orders with its sums.
struct Made {
    batch: Result<RecordBatch, BenchError>,
    revenue: [i64; CATEGORIES],
    scanned: i64,
}

fn orders(schema: &SchemaRef, rows: std::ops::Range<u64>, parts: u64) -> Made {
    let (mut revenue, mut scanned) = ([0; CATEGORIES], 0);
    let count = (rows.end - rows.start) as usize;
    let (mut keys, mut revenues, mut quantities) = (
        Vec::with_capacity(count),
        Vec::with_capacity(count),
        Vec::with_capacity(count),
    );
    for row in rows {
        let part = below(draw(SEED, stream::PART, row), parts);
        let worth = below(draw(SEED, stream::REVENUE, row), REVENUE) as i64;
        let quantity = 1 + below(draw(SEED, stream::QUANTITY, row), QUANTITY_MAX) as i32;
        revenue[(part % CATEGORIES as u64) as usize] += worth;
        if quantity < SCAN_QUANTITY_BELOW {
            scanned += worth;
        }
        keys.push(key(part));
        revenues.push(worth);
        quantities.push(quantity);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys)),
        Arc::new(Int64Array::from(revenues)),
        Arc::new(Int32Array::from(quantities)),
    ];
    Made {
        batch: batch(schema, columns),
        revenue,
        scanned,
    }
}

impl Data {
    /// Makes the tables with all cores.
    ///
    /// # Errors
    /// Columns that do not fit their schema, which no size causes.
    pub fn generate(sizes: &Sizes, progress: &dyn Progress) -> Result<Data, BenchError> {
        let (parts, rows) = (sizes.parts as u64, sizes.orders as u64);
        let schema = orders_schema();
        let jobs = sizes.orders.div_ceil(BATCH_ROWS);
        let threads = lab_core::suite::all_cores();
        let made = run_jobs("generating orders", jobs, threads, progress, |job| {
            let first = (job * BATCH_ROWS) as u64;
            orders(&schema, first..(first + BATCH_ROWS as u64).min(rows), parts)
        });
        let (mut revenue, mut scanned) = ([0; CATEGORIES], 0);
        let mut batches = Vec::with_capacity(jobs);
        for piece in made {
            for (sum, more) in revenue.iter_mut().zip(piece.revenue) {
                *sum += more;
            }
            scanned += piece.scanned;
            batches.push(piece.batch?);
        }
        let mut numbers: Vec<u64> = (0..parts).collect();
        let part = part_table("part", &numbers)?;
        numbers.sort_unstable_by_key(|&part| key(part));
        let tables = vec![
            part,
            part_table("part_by_key", &numbers)?,
            TableData::new("lineorder", schema, batches, 1),
        ];
        Ok(Data {
            tables: Dataset {
                tables,
                aliases: Vec::new(),
            },
            revenue,
            scanned,
        })
    }

    /// What a statement must answer.
    pub fn expected(&self, statement: Statement) -> Answer {
        let sum = match statement {
            Statement::Plq { k, .. } => self.revenue[..k].iter().sum(),
            Statement::Scan => self.scanned,
        };
        fingerprint_of_rows(&[sum.to_string()])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;

    use arrow::array::AsArray;
    use arrow::datatypes::{Int32Type, Int64Type};
    use corun_exec::table::{BuildOptions, JoinTable};
    use corun_exec::{Chunk, Codes, Serial};
    use corun_model::units::Bytes;

    use super::*;
    use corun_model::progress::Silent;

    fn made() -> (Sizes, Data) {
        let sizes = Sizes::of(Bytes::kib(512), true).expect("a possible cache");
        let data = Data::generate(&sizes, &Silent).expect("generated");
        (sizes, data)
    }

    /// Keys and categories in table order.
    fn parts(data: &Data, table: &str) -> Vec<(i64, i32)> {
        let table = data.tables.table(table).expect("a table");
        let of = |batch: &RecordBatch| -> Vec<(i64, i32)> {
            let keys = batch["p_partkey"].as_primitive::<Int64Type>();
            let categories = batch["p_category"].as_primitive::<Int32Type>();
            keys.values()
                .iter()
                .copied()
                .zip(categories.values().iter().copied())
                .collect()
        };
        table.batches().flat_map(of).collect()
    }

    #[test]
    fn hash_tables_have_the_sizes_they_are_made_for() {
        let (sizes, data) = made();
        let parts = parts(&data, "part");
        for k in [1, 2, 5, 13, 25] {
            let wanted: Vec<i32> = (0..k).map(category).collect();
            let codes: Vec<u64> = parts
                .iter()
                .filter(|(_, category)| wanted.contains(category))
                .map(|(key, _)| key.cast_unsigned())
                .collect();
            let chunk = Chunk {
                codes: Codes::U64 {
                    values: &codes,
                    bias: 0,
                },
                valid: None,
                first_row: 0,
            };
            let table = JoinTable::build(
                &[chunk],
                &BuildOptions::default(),
                &Serial,
                &AtomicBool::new(false),
            )
            .expect("memory for it");
            let share = table.bytes() as f64 / sizes.table_bytes(k).0 as f64;
            assert!(
                (0.9..1.1).contains(&share),
                "PLQ_{k}: built {share} of the planned bytes"
            );
            let over_cache = table.bytes() as f64 / sizes.cache.0 as f64;
            let paper = super::super::sizes::LARGEST_OVER_CACHE * k as f64 / CATEGORIES as f64;
            assert!(
                (0.9..1.1).contains(&(over_cache / paper)),
                "PLQ_{k}: {over_cache} C"
            );
        }
    }

    #[test]
    fn categories_are_equal_and_both_orders_hold_the_same_parts() {
        let (sizes, data) = made();
        let arrival = parts(&data, "part");
        let mut counts: HashMap<i32, usize> = HashMap::new();
        for (_, category) in &arrival {
            *counts.entry(*category).or_default() += 1;
        }
        assert_eq!(counts.len(), CATEGORIES);
        assert!(counts.values().all(|&count| count == sizes.parts / CATEGORIES));
        let by_key = parts(&data, "part_by_key");
        assert!(by_key.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(!arrival.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut sorted = arrival;
        sorted.sort_unstable();
        assert_eq!(sorted, by_key);
    }

    #[test]
    fn sums_are_those_of_a_join_by_hand() {
        let (_, data) = made();
        let categories: HashMap<i64, i32> = parts(&data, "part").into_iter().collect();
        let (mut plq_3, mut scanned) = (0i64, 0i64);
        for batch in data.tables.table("lineorder").expect("orders").batches() {
            let keys = batch["lo_partkey"].as_primitive::<Int64Type>();
            let revenue = batch["lo_revenue"].as_primitive::<Int64Type>();
            let quantity = batch["lo_quantity"].as_primitive::<Int32Type>();
            for row in 0..batch.num_rows() {
                if (11..=13).contains(&categories[&keys.value(row)]) {
                    plq_3 += revenue.value(row);
                }
                if quantity.value(row) <= 25 {
                    scanned += revenue.value(row);
                }
            }
        }
        let answer = |sum: i64| fingerprint_of_rows(&[sum.to_string()]);
        assert_eq!(data.expected(Statement::hash(3)), answer(plq_3));
        assert_eq!(data.expected(Statement::bitmap(3)), answer(plq_3));
        assert_eq!(data.expected(Statement::Scan), answer(scanned));
    }
}
