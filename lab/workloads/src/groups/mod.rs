//! One table to group by keys of every kind: ten groups to one for nearly each row, integers, texts, decimals, skewed ones.
//!
//! Order of calls: [`Groups::new`] with a scale factor, then [`Groups::dataset`] for batches in memory or [`Groups::write_parquet`] for
//! files; [`QUERIES`] gives the SQL. The content depends on the seed and the scale factor only: every cell is a function of its row number.
//!
//! Keys are spread over all numbers, so no engine finds a group by counting from the least key, but for `v` and `d100k`. Rows arrive in no
//! order, but for `c4m`, whose groups are runs of one to seven rows. Sums of `v` are
//! sums of whole numbers, those of `w` of decimals, and `x` is only ever compared: answers of engines that add in different orders are the same.

mod queries;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use corun_model::progress::Progress;

use crate::dataset::{Dataset, DatasetError};
use crate::generator::Generator;
use crate::numbers::{Zipf, below, draw, mix};

pub use queries::QUERIES;

/// The seed used unless another is asked for.
pub const SEED: u64 = 0x6772_6f75;

/// Smallest scale factor: 1,600 rows.
pub const SCALE_FACTOR_MIN: f64 = 0.0001;

/// Largest scale factor: 160 million rows, with about 100 million groups of the key with most.
pub const SCALE_FACTOR_MAX: f64 = 10.0;

/// Rows at scale factor 1.
const ROWS: f64 = 1.6e7;

/// Digits after the point of decimals.
const SCALE: i8 = 2;

/// A generator: a row count and a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    rows: usize,
    seed: u64,
}

/// The table: there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table;

/// A key: its name in SQL, and of how many groups a row draws one.
#[derive(Debug, Clone, Copy)]
enum Count {
    /// So many.
    Of(usize),
    /// One for so many rows.
    ForRows(usize),
}

/// Keys of whole numbers, in the order of columns; at scale factor 1, the names say how many groups there are.
const KEYS: [(&str, Count); 6] = [
    ("k10", Count::Of(10)),
    ("k1k", Count::Of(1000)),
    ("k100k", Count::ForRows(160)),
    ("k1m", Count::ForRows(16)),
    ("k4m", Count::ForRows(4)),
    ("k16m", Count::ForRows(1)),
];

/// Rows for a group of the other keys: a million groups at scale factor 1.
const OTHERS: Count = Count::ForRows(16);

impl Count {
    fn groups(self, rows: usize) -> u64 {
        let groups = match self {
            Count::Of(groups) => groups,
            Count::ForRows(each) => rows / each,
        };
        groups.max(1) as u64
    }
}

impl Groups {
    /// The table at `scale_factor`, with the default seed.
    ///
    /// # Errors
    /// [`DatasetError::ScaleFactor`] outside [`SCALE_FACTOR_MIN`] to [`SCALE_FACTOR_MAX`].
    pub fn new(scale_factor: f64) -> Result<Groups, DatasetError> {
        if !(SCALE_FACTOR_MIN..=SCALE_FACTOR_MAX).contains(&scale_factor) {
            return Err(DatasetError::ScaleFactor {
                workload: Groups::NAME,
                given: scale_factor,
                least: SCALE_FACTOR_MIN,
                most: SCALE_FACTOR_MAX,
            });
        }
        let rows = (ROWS * scale_factor).round() as usize;
        Ok(Groups { rows, seed: SEED })
    }

    /// The table in memory, in `partitions` partitions (at least 1), made by `threads` threads.
    pub fn dataset(&self, partitions: usize, threads: usize, progress: &dyn Progress) -> Dataset {
        Dataset {
            tables: self.tables(partitions, threads, progress),
            aliases: Vec::new(),
        }
    }

    /// Writes the table as `FOLDER/g/part-NNN.parquet`, at most `files` files, by `threads` threads; only one batch a thread is in memory at
    /// a time. Returns the rows written.
    ///
    /// # Errors
    /// [`DatasetError::Io`] or [`DatasetError::Parquet`], naming the first file that failed.
    pub fn write_parquet(
        &self,
        folder: &Path,
        files: usize,
        threads: usize,
        progress: &dyn Progress,
    ) -> Result<usize, DatasetError> {
        self.write(folder, files, threads, progress)
    }

    /// The group that each of some rows draws for the key of column `stream`, out of `groups`.
    fn drawn(&self, stream: u64, groups: u64, rows: Range<usize>) -> impl Iterator<Item = u64> {
        let seed = self.seed;
        rows.map(move |row| below(draw(seed, stream, row as u64), groups))
    }
}

/// Lengths of the runs of rows with one key, in order, and then again: four on average.
const RUNS: [usize; 7] = [4, 1, 7, 3, 6, 2, 5];

/// The number of the run that a row is in.
fn run_of(row: usize) -> u64 {
    let round: usize = RUNS.iter().sum();
    let mut left = row % round;
    let before = RUNS.iter().take_while(|&&length| {
        let is_passed = left >= length;
        left = left.saturating_sub(length);
        is_passed
    });
    (row / round * RUNS.len() + before.count()) as u64
}

/// The key of a group among all numbers that are not negative.
fn spread(group: u64) -> i64 {
    (mix(group) >> 1) as i64
}

impl Generator for Groups {
    const NAME: &'static str = "the table to group";
    type Table = Table;
    const TABLES: &'static [Table] = &[Table];

    fn name(_: Table) -> &'static str {
        "g"
    }

    fn schema(_: Table) -> SchemaRef {
        let integers = KEYS.iter().map(|(name, _)| (*name, DataType::Int64));
        let others = [
            ("zipf", DataType::Int64),
            ("short", DataType::Utf8),
            ("long", DataType::Utf8),
            ("amount", DataType::Decimal128(15, SCALE)),
            ("v", DataType::Int64),
            ("w", DataType::Decimal128(15, SCALE)),
            ("x", DataType::Float64),
            ("d100k", DataType::Int64),
            ("t10", DataType::Utf8),
            ("c4m", DataType::Int64),
        ];
        let fields = integers.chain(others);
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, false));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn rows(&self, _: Table) -> usize {
        self.rows
    }

    fn columns(&self, _: Table, rows: Range<usize>) -> Vec<ArrayRef> {
        let others = OTHERS.groups(self.rows);
        let numbers = |stream, groups| self.drawn(stream, groups, rows.clone());
        let decimals = |values: Vec<i128>| -> ArrayRef {
            let values = Decimal128Array::from(values);
            Arc::new(values.with_data_type(DataType::Decimal128(15, SCALE)))
        };
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (stream, (_, count)) in (0..).zip(&KEYS) {
            let keys = numbers(stream, count.groups(self.rows)).map(spread);
            columns.push(Arc::new(Int64Array::from_iter_values(keys)));
        }
        let zipf = Zipf::new(others);
        let skewed = rows
            .clone()
            .map(|row| spread(zipf.rank(self.seed, 10, row as u64)));
        columns.push(Arc::new(Int64Array::from_iter_values(skewed)));
        let short = numbers(11, others).map(|group| format!("k{group}"));
        columns.push(Arc::new(StringArray::from_iter_values(short)));
        let long = numbers(12, others).map(|group| format!("customer number {:016x} of many", mix(group)));
        columns.push(Arc::new(StringArray::from_iter_values(long)));
        columns.push(decimals(numbers(13, others).map(i128::from).collect()));
        let values = numbers(14, 100).map(|value| value as i64);
        columns.push(Arc::new(Int64Array::from_iter_values(values)));
        columns.push(decimals(numbers(15, 10_000).map(i128::from).collect()));
        let floats = numbers(16, 1 << 30).map(|value| value as f64 / (1 << 20) as f64);
        columns.push(Arc::new(Float64Array::from_iter_values(floats)));
        let dense = numbers(17, Count::ForRows(160).groups(self.rows)).map(|group| group as i64);
        columns.push(Arc::new(Int64Array::from_iter_values(dense)));
        let few = numbers(18, 10).map(|group| format!("segment {group}"));
        columns.push(Arc::new(StringArray::from_iter_values(few)));
        let by_key = rows.map(|row| spread(run_of(row)));
        columns.push(Arc::new(Int64Array::from_iter_values(by_key)));
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Int64Type;
    use corun_model::progress::Silent;
    use std::collections::HashSet;

    #[test]
    fn keys_have_as_many_groups_as_their_names_say() {
        let data = Groups::new(0.01).unwrap().dataset(2, 2, &Silent);
        let table = data.table("g").unwrap();
        assert_eq!(table.rows(), 160_000);
        let different = |name: &str| {
            let at = table.schema.index_of(name).unwrap();
            let keys = table
                .batches()
                .flat_map(|batch| batch.column(at).as_primitive::<Int64Type>().values().to_vec());
            keys.collect::<HashSet<i64>>().len()
        };
        assert_eq!(different("k10"), 10);
        assert_eq!(different("k1k"), 1000);
        assert_eq!(different("k100k"), 1000);
        // Of so many that are drawn from, some rows draw the same.
        assert!((9_900..=10_000).contains(&different("k1m")));
        assert!((38_000..=40_000).contains(&different("k4m")));
        assert!((99_000..=103_000).contains(&different("k16m")));
        assert!(different("zipf") < different("k1m"));
        // 160,000 rows in rounds of 28, seven runs each; the last eight rows begin three more.
        assert_eq!(different("c4m"), 7 * 5714 + 3);
    }

    #[test]
    fn runs_have_their_lengths() {
        let runs: Vec<u64> = (0..40).map(run_of).collect();
        let lengths: Vec<usize> = runs.chunk_by(|a, b| a == b).map(<[u64]>::len).collect();
        assert_eq!(lengths, [4, 1, 7, 3, 6, 2, 5, 4, 1, 7]);
    }

    #[test]
    fn content_does_not_depend_on_threads_and_partitions() {
        let of = |partitions, threads| {
            let data = Groups::new(0.001).unwrap().dataset(partitions, threads, &Silent);
            let batches: Vec<_> = data.table("g").unwrap().batches().cloned().collect();
            batches
        };
        assert_eq!(of(1, 1), of(3, 2));
        assert!(
            of(1, 1)
                .iter()
                .all(|batch| batch.columns().iter().all(|column| column.null_count() == 0))
        );
        for scale in [0.0, -1.0, f64::NAN, 11.0] {
            assert!(Groups::new(scale).is_err());
        }
    }
}
