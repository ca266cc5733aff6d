//! TPC-H: data through `tpchgen-arrow`, and the 22 queries with the specification's validation parameters.
//!
//! Order of calls: [`Tpch::new`] with a scale factor, then [`Tpch::dataset`] for batches in memory or
//! [`Tpch::write_parquet`] for files; [`QUERIES`] gives the SQL. The rows are those of the official generator, bit for
//! bit, whatever the number of threads or partitions; where batches end depends on the partitions. Types are the
//! crate's: 64-bit keys, `Decimal128(15, 2)` money, `Date32`, `Utf8View` text. Not a full benchmark run: no refresh
//! functions, no streams.

mod queries;
mod recorded;

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

pub use queries::{ORDER_BY, QUERIES};
pub use recorded::{order_by, recorded};

use crate::dataset::{BATCH_ROWS, Dataset, DatasetError, TableData, part_file, write_parquet};
use crate::parallel::run_jobs;
use corun_model::progress::Progress;

/// Smallest scale factor: below it `supplier` would be nearly empty.
pub const SCALE_FACTOR_MIN: f64 = 0.001;

/// Largest scale factor; a bound on memory rather than on the format.
pub const SCALE_FACTOR_MAX: f64 = 1000.0;

/// One of the eight tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Lines of orders, 6,000,000 x SF.
    Lineitem,
    /// Orders, 1,500,000 x SF.
    Orders,
    /// Parts by supplier, 800,000 x SF.
    Partsupp,
    /// Parts, 200,000 x SF.
    Part,
    /// Customers, 150,000 x SF.
    Customer,
    /// Suppliers, 10,000 x SF.
    Supplier,
    /// 25 nations.
    Nation,
    /// 5 regions.
    Region,
}

/// Batches of one slice of one table.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

impl Table {
    /// All tables, the largest first, so that threads finish together.
    pub const ALL: [Table; 8] = [
        Table::Lineitem,
        Table::Orders,
        Table::Partsupp,
        Table::Part,
        Table::Customer,
        Table::Supplier,
        Table::Nation,
        Table::Region,
    ];

    /// Name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Table::Lineitem => "lineitem",
            Table::Orders => "orders",
            Table::Partsupp => "partsupp",
            Table::Part => "part",
            Table::Customer => "customer",
            Table::Supplier => "supplier",
            Table::Nation => "nation",
            Table::Region => "region",
        }
    }

    /// Columns.
    pub fn schema(self) -> SchemaRef {
        match self {
            Table::Lineitem => LineItemArrow::schema_ref(),
            Table::Orders => OrderArrow::schema_ref(),
            Table::Partsupp => PartSuppArrow::schema_ref(),
            Table::Part => PartArrow::schema_ref(),
            Table::Customer => CustomerArrow::schema_ref(),
            Table::Supplier => SupplierArrow::schema_ref(),
            Table::Nation => NationArrow::schema_ref(),
            Table::Region => RegionArrow::schema_ref(),
        }
    }

    /// Whether the table has the same few rows at every scale.
    fn is_fixed(self) -> bool {
        matches!(self, Table::Nation | Table::Region)
    }

    /// Slice number `slice` (from 0) of `slices`.
    fn slice(self, scale_factor: f64, slice: usize, slices: usize) -> Batches {
        let (part, parts) = (slice as i32 + 1, slices as i32);
        macro_rules! batches {
            ($arrow:ident, $generator:ident) => {
                Box::new($arrow::new($generator::new(scale_factor, part, parts)).with_batch_size(BATCH_ROWS))
            };
        }
        match self {
            Table::Lineitem => batches!(LineItemArrow, LineItemGenerator),
            Table::Orders => batches!(OrderArrow, OrderGenerator),
            Table::Partsupp => batches!(PartSuppArrow, PartSuppGenerator),
            Table::Part => batches!(PartArrow, PartGenerator),
            Table::Customer => batches!(CustomerArrow, CustomerGenerator),
            Table::Supplier => batches!(SupplierArrow, SupplierGenerator),
            Table::Nation => batches!(NationArrow, NationGenerator),
            Table::Region => batches!(RegionArrow, RegionGenerator),
        }
    }
}

/// A generator.
#[derive(Debug, Clone, PartialEq)]
pub struct Tpch {
    scale_factor: f64,
    /// Texts of the queries whose columns are made; `None`: all columns.
    readers: Option<Vec<&'static str>>,
}

impl Tpch {
    /// The benchmark at `scale_factor`.
    ///
    /// # Errors
    /// [`DatasetError::ScaleFactor`] outside [`SCALE_FACTOR_MIN`] to [`SCALE_FACTOR_MAX`].
    pub fn new(scale_factor: f64) -> Result<Tpch, DatasetError> {
        if !(SCALE_FACTOR_MIN..=SCALE_FACTOR_MAX).contains(&scale_factor) {
            return Err(DatasetError::ScaleFactor {
                workload: "TPC-H",
                given: scale_factor,
                least: SCALE_FACTOR_MIN,
                most: SCALE_FACTOR_MAX,
            });
        }
        Ok(Tpch {
            scale_factor,
            readers: None,
        })
    }

    /// The same with only the columns that one of `queries` (names of [`QUERIES`]) reads, and the first of each table, so that more of a
    /// large scale factor fits a memory.
    pub fn read_by(self, queries: &[&str]) -> Tpch {
        let readers = QUERIES.iter().filter(|(name, _)| queries.contains(name));
        Tpch {
            readers: Some(readers.map(|(_, text)| *text).collect()),
            ..self
        }
    }

    /// Numbers of the columns of a table that are made.
    fn columns(&self, table: Table) -> Vec<usize> {
        let schema = table.schema();
        let is_made = |&column: &usize| match &self.readers {
            Some(readers) if column > 0 => {
                let name = schema.field(column).name();
                readers.iter().any(|text| text.contains(name.as_str()))
            }
            _ => true,
        };
        (0..schema.fields().len()).filter(is_made).collect()
    }

    /// The columns of a table that are made.
    ///
    /// # Panics
    /// Never: the columns are the schema's own.
    fn schema(&self, table: Table) -> SchemaRef {
        match table.schema().project(&self.columns(table)) {
            Ok(schema) => schema.into(),
            Err(error) => panic!("columns of {}: {error}", table.name()),
        }
    }

    /// Slice number `slice` (from 0) of `slices` of a table.
    fn slice(&self, table: Table, slice: usize, slices: usize) -> impl Iterator<Item = RecordBatch> {
        let columns = self.columns(table);
        table.slice(self.scale_factor, slice, slices).map(move |batch| {
            match batch.and_then(|batch| batch.project(&columns)) {
                Ok(batch) => batch,
                Err(error) => panic!("generator of {}: {error}", table.name()),
            }
        })
    }

    /// All tables in memory, each in `partitions` partitions (at least 1), made by `threads` threads.
    ///
    /// # Panics
    /// If the generator crate breaks its own schema.
    pub fn dataset(&self, partitions: usize, threads: usize, progress: &dyn Progress) -> Dataset {
        let partitions = partitions.max(1);
        // Several slices a partition when there are more threads than partitions; slices keep row order.
        let slices = partitions * threads.max(1).div_ceil(partitions);
        let jobs = self.jobs(slices);
        let made = run_jobs("generating TPC-H", jobs.len(), threads, progress, |job| {
            let (table, slice, slices) = jobs[job];
            self.slice(table, slice, slices).collect::<Vec<RecordBatch>>()
        });
        let mut tables: Vec<TableData> = Table::ALL
            .iter()
            .map(|table| TableData {
                name: table.name(),
                schema: self.schema(*table),
                partitions: vec![Vec::new(); partitions],
            })
            .collect();
        for ((table, slice, slices), batches) in jobs.into_iter().zip(made) {
            let at = Table::ALL.iter().position(|other| *other == table).unwrap_or(0);
            tables[at].partitions[slice * partitions / slices].extend(batches);
        }
        Dataset {
            tables,
            aliases: Vec::new(),
        }
    }

    /// Writes every table as `FOLDER/TABLE/part-NNN.parquet`, `files` files a table (fixed tables: one), by `threads`
    /// threads; only one batch a thread is in memory at a time. Returns the rows written.
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
        let jobs = self.jobs(files.max(1));
        let written = run_jobs("writing TPC-H", jobs.len(), threads, progress, |job| {
            let (table, slice, slices) = jobs[job];
            let path = part_file(folder, table.name(), slice);
            write_parquet(&path, self.schema(table), self.slice(table, slice, slices))
        });
        written.into_iter().sum()
    }

    /// (table, slice, slices) of every piece of work.
    fn jobs(&self, slices: usize) -> Vec<(Table, usize, usize)> {
        let of = |&table: &Table| {
            let slices = if table.is_fixed() { 1 } else { slices };
            (0..slices).map(move |slice| (table, slice, slices))
        };
        Table::ALL.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{Answer, fingerprint};
    use corun_model::progress::Silent;

    fn contents(data: &Dataset) -> Vec<Answer> {
        let of = |table: &TableData| {
            let batches: Vec<RecordBatch> = table.batches().cloned().collect();
            fingerprint(&table.schema, &batches)
        };
        data.tables.iter().map(of).collect()
    }

    #[test]
    fn content_depends_on_neither_threads_nor_partitions() {
        let tpch = Tpch::new(0.002).unwrap();
        let one = tpch.dataset(1, 1, &Silent);
        for (partitions, threads) in [(1, 2), (3, 2), (7, 7)] {
            let other = tpch.dataset(partitions, threads, &Silent);
            assert!(
                other
                    .tables
                    .iter()
                    .all(|table| table.partitions.len() == partitions)
            );
            assert_eq!(
                contents(&other),
                contents(&one),
                "{partitions} partitions, {threads} threads"
            );
        }
        assert!(
            one.table("lineitem")
                .unwrap()
                .batches()
                .all(|batch| batch.num_rows() <= BATCH_ROWS)
        );
    }

    #[test]
    fn row_counts_are_the_specifications() {
        let data = Tpch::new(0.01).unwrap().dataset(2, 2, &Silent);
        let rows = |name| data.table(name).unwrap().rows();
        assert_eq!(
            (rows("orders"), rows("customer"), rows("supplier")),
            (15_000, 1_500, 100)
        );
        assert_eq!((rows("part"), rows("partsupp")), (2_000, 8_000));
        assert_eq!((rows("nation"), rows("region")), (25, 5));
        // Lines an order are random; this is the official generator's count.
        assert_eq!(rows("lineitem"), 60_175);
    }

    #[test]
    fn parquet_files_hold_the_same_rows() {
        let folder = tempfile::tempdir().unwrap();
        let tpch = Tpch::new(0.001).unwrap();
        let rows = tpch.write_parquet(folder.path(), 2, 2, &Silent).unwrap();
        let data = tpch.dataset(1, 1, &Silent);
        assert_eq!(rows, data.rows());
        assert!(part_file(folder.path(), "lineitem", 1).exists());
        assert!(!part_file(folder.path(), "nation", 1).exists());
    }

    #[test]
    fn columns_that_no_query_reads_can_be_left_out() {
        let columns = |queries: &[&str], table: &str| -> Vec<String> {
            let tpch = Tpch::new(0.001).unwrap().read_by(queries);
            let data = tpch.dataset(1, 1, &Silent);
            let table = data.table(table).unwrap();
            assert!(table.batches().all(|batch| batch.schema() == table.schema));
            table
                .schema
                .fields()
                .iter()
                .map(|field| field.name().clone())
                .collect()
        };
        assert_eq!(
            columns(&["q6"], "lineitem"),
            [
                "l_orderkey",
                "l_quantity",
                "l_extendedprice",
                "l_discount",
                "l_shipdate"
            ]
        );
        assert_eq!(columns(&["q6"], "orders"), ["o_orderkey"]);
        assert_eq!(
            columns(&["q6", "q12"], "orders"),
            ["o_orderkey", "o_orderpriority"]
        );
        let all: Vec<&str> = QUERIES.iter().map(|(name, _)| *name).collect();
        assert!(!columns(&all, "lineitem").contains(&"l_comment".to_owned()));
    }

    #[test]
    fn impossible_scales_are_refused() {
        for scale in [0.0, f64::NAN, 2000.0] {
            assert!(Tpch::new(scale).is_err());
        }
    }
}
