//! The Star Schema Benchmark (O'Neil, O'Neil, Chen: revision 3): data and queries.
//!
//! Order of calls: [`Ssb::new`] with a scale factor, then [`Ssb::dataset`] for batches in memory or
//! [`Ssb::write_parquet`] for files; [`QUERIES`] and [`plq`] give the SQL. The content depends on the seed and the row
//! counts only, never on threads or partitions: every cell is a function of its row number (`random`).
//!
//! Keys and money are `Int32` (see `lineorder`), text is `Utf8`, flags are `Boolean`. Distributions follow the
//! specification; where it leaves something open (prices, sparse order keys, order dates, supply cost) they follow
//! its reference generator, except that all customers have orders. The random values themselves differ from the
//! reference generator's, so answers do too. Not a copy of `dbgen`, and no `.tbl` files.

mod customer;
mod date;
mod lineorder;
mod part;
mod places;
mod queries;
mod random;
mod recorded;
mod sizes;
mod supplier;

use std::ops::Range;
use std::path::Path;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;

pub use queries::{ORDER_BY, PLQ_TERMS_MAX, QUERIES, plq};
pub use recorded::{order_by, recorded};
pub use sizes::{DATES, SCALE_FACTOR_MAX, SCALE_FACTOR_MIN, Sizes};

use crate::dataset::{Dataset, DatasetError};
use crate::generator::Generator;
use corun_model::progress::Progress;

/// The seed used unless another is asked for; recorded answers hold for it alone.
pub const SEED: u64 = 0x5353_4221;

/// One of the five tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// The fact table.
    Lineorder,
    /// Customers.
    Customer,
    /// Suppliers.
    Supplier,
    /// Parts.
    Part,
    /// Days; `date` in SQL, with the alias `dates` for dialects where `date` needs quotes.
    Date,
}

impl Table {
    /// All tables, the fact table first.
    pub const ALL: [Table; 5] = [
        Table::Lineorder,
        Table::Customer,
        Table::Supplier,
        Table::Part,
        Table::Date,
    ];

    /// Name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Table::Lineorder => "lineorder",
            Table::Customer => "customer",
            Table::Supplier => "supplier",
            Table::Part => "part",
            Table::Date => "date",
        }
    }

    /// Columns.
    pub fn schema(self) -> SchemaRef {
        match self {
            Table::Lineorder => lineorder::SCHEMA.clone(),
            Table::Customer => customer::SCHEMA.clone(),
            Table::Supplier => supplier::SCHEMA.clone(),
            Table::Part => part::SCHEMA.clone(),
            Table::Date => date::SCHEMA.clone(),
        }
    }
}

/// A generator: row counts and a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ssb {
    sizes: Sizes,
    seed: u64,
}

impl Ssb {
    /// The benchmark at `scale_factor`, with the default seed.
    ///
    /// # Errors
    /// [`DatasetError::ScaleFactor`] outside [`SCALE_FACTOR_MIN`] to [`SCALE_FACTOR_MAX`].
    pub fn new(scale_factor: f64) -> Result<Ssb, DatasetError> {
        Ok(Ssb::with_sizes(Sizes::at(scale_factor)?))
    }

    /// Any row counts, with the default seed; dimensions have at least one row.
    pub fn with_sizes(sizes: Sizes) -> Ssb {
        let at_least_one = |rows: usize| rows.max(1);
        let sizes = Sizes {
            lineorder: sizes.lineorder,
            customer: at_least_one(sizes.customer),
            supplier: at_least_one(sizes.supplier),
            part: at_least_one(sizes.part),
        };
        Ssb { sizes, seed: SEED }
    }

    /// The same row counts with other random values.
    pub fn with_seed(self, seed: u64) -> Ssb {
        Ssb { seed, ..self }
    }

    /// Row counts.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Rows of `table`.
    pub fn rows(&self, table: Table) -> usize {
        match table {
            Table::Lineorder => self.sizes.lineorder,
            Table::Customer => self.sizes.customer,
            Table::Supplier => self.sizes.supplier,
            Table::Part => self.sizes.part,
            Table::Date => DATES,
        }
    }

    /// Batches of `table`, [`BATCH_ROWS`](crate::dataset::BATCH_ROWS) rows each but the last.
    pub fn batches(&self, table: Table) -> usize {
        Generator::batches(self, table)
    }

    /// Batch number `number` of `table`; any thread may make any batch.
    ///
    /// # Panics
    /// If `number` is not below [`Ssb::batches`].
    pub fn batch(&self, table: Table, number: usize) -> RecordBatch {
        Generator::batch(self, table, number)
    }

    /// All tables in memory, each in `partitions` partitions (at least 1), made by `threads` threads.
    pub fn dataset(&self, partitions: usize, threads: usize, progress: &dyn Progress) -> Dataset {
        Dataset {
            tables: self.tables(partitions, threads, progress),
            aliases: vec![("dates", "date")],
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

impl Generator for Ssb {
    const NAME: &'static str = "SSB";
    type Table = Table;
    const TABLES: &'static [Table] = &Table::ALL;

    fn name(table: Table) -> &'static str {
        table.name()
    }

    fn schema(table: Table) -> SchemaRef {
        table.schema()
    }

    fn rows(&self, table: Table) -> usize {
        Ssb::rows(self, table)
    }

    fn columns(&self, table: Table, rows: Range<usize>) -> Vec<ArrayRef> {
        match table {
            Table::Lineorder => lineorder::columns(self.seed, &self.sizes, rows),
            Table::Customer => customer::columns(self.seed, rows),
            Table::Supplier => supplier::columns(self.seed, rows),
            Table::Part => part::columns(self.seed, rows),
            Table::Date => date::columns(rows),
        }
    }
}

#[cfg(test)]
mod tests;
