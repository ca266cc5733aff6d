//! The groupings and joins of H2O.ai's db-benchmark, from its public description: data and queries.
//!
//! Order of calls: [`H2o::new`] with a scale factor, then [`H2o::dataset`] for batches in memory or [`H2o::write_parquet`] for files;
//! [`QUERIES`] gives the SQL. The content depends on the seed and the scale factor only: every cell is a function of its row number.
//!
//! Row counts, columns and distributions follow the description; the random values are others, so answers are, too. Its floats have six
//! digits after the point; here they are multiples of 2^-20, about as fine: so sums of them are exact in any order, and answers of
//! engines that add in different orders are the same to the last digit. Not here: its data with missing values, and its sorted data.

mod columns;
mod queries;

use std::ops::Range;
use std::path::Path;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use corun_model::progress::Progress;

use crate::dataset::{Dataset, DatasetError};
use crate::generator::Generator;

pub use queries::QUERIES;

/// The seed used unless another is asked for.
pub const SEED: u64 = 0x4832_4f31;

/// Smallest scale factor: 10,000 rows, below which `small` and `medium` would be the same.
pub const SCALE_FACTOR_MIN: f64 = 0.001;

/// Largest scale factor: the benchmark's largest tables, of a billion rows.
pub const SCALE_FACTOR_MAX: f64 = 100.0;

/// Rows at scale factor 1 of the tables that grow with it, which are the benchmark's smallest.
const ROWS: f64 = 1e7;

/// Groups of the columns with few groups; the others have as many rows a group.
const GROUPS: usize = 100;

/// Fewest rows of the tables that a join looks up: one in ten of their keys has no partner.
const BUILD_ROWS_MIN: usize = 10;

/// One of the five tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// What groupings read.
    X,
    /// What joins start from.
    J,
    /// Joined with `j` by `id1`: a millionth of its rows.
    Small,
    /// Joined with `j` by `id2` and `id5`: a thousandth of its rows.
    Medium,
    /// Joined with `j` by `id3`: as many rows.
    Big,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 5] = [Table::X, Table::J, Table::Small, Table::Medium, Table::Big];

    /// Name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Table::X => "x",
            Table::J => "j",
            Table::Small => "small",
            Table::Medium => "medium",
            Table::Big => "big",
        }
    }

    /// Columns.
    pub fn schema(self) -> SchemaRef {
        columns::schema(self)
    }
}

/// A generator: a row count and a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct H2o {
    rows: usize,
    seed: u64,
}

impl H2o {
    /// The benchmark at `scale_factor`, with the default seed.
    ///
    /// # Errors
    /// [`DatasetError::ScaleFactor`] outside [`SCALE_FACTOR_MIN`] to [`SCALE_FACTOR_MAX`].
    pub fn new(scale_factor: f64) -> Result<H2o, DatasetError> {
        if !(SCALE_FACTOR_MIN..=SCALE_FACTOR_MAX).contains(&scale_factor) {
            return Err(DatasetError::ScaleFactor {
                workload: "the H2O.ai benchmark",
                given: scale_factor,
                least: SCALE_FACTOR_MIN,
                most: SCALE_FACTOR_MAX,
            });
        }
        let rows = (ROWS * scale_factor).round() as usize;
        Ok(H2o { rows, seed: SEED })
    }

    /// The same row counts with other random values.
    pub fn with_seed(self, seed: u64) -> H2o {
        H2o { seed, ..self }
    }

    /// Rows of `table`.
    pub fn rows(&self, table: Table) -> usize {
        let rows = match table {
            Table::X | Table::J | Table::Big => self.rows,
            Table::Medium => self.rows / 1_000,
            Table::Small => self.rows / 1_000_000,
        };
        rows.max(BUILD_ROWS_MIN)
    }

    /// All tables in memory, each in `partitions` partitions (at least 1), made by `threads` threads.
    pub fn dataset(&self, partitions: usize, threads: usize, progress: &dyn Progress) -> Dataset {
        Dataset {
            tables: self.tables(partitions, threads, progress),
            aliases: Vec::new(),
        }
    }

    /// Writes every table as `FOLDER/TABLE/part-NNN.parquet`, at most `files` files a table, by `threads` threads;
    /// only one batch a thread is in memory at a time. Returns the rows written.
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
}

impl Generator for H2o {
    const NAME: &'static str = "the H2O.ai benchmark";
    type Table = Table;
    const TABLES: &'static [Table] = &Table::ALL;

    fn name(table: Table) -> &'static str {
        table.name()
    }

    fn schema(table: Table) -> SchemaRef {
        table.schema()
    }

    fn rows(&self, table: Table) -> usize {
        H2o::rows(self, table)
    }

    fn columns(&self, table: Table, rows: Range<usize>) -> Vec<ArrayRef> {
        columns::columns(self, table, rows)
    }
}

#[cfg(test)]
mod tests;
