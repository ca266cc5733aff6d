//! Tables made batch by batch by any number of threads: what the generators of SSB and of the H2O.ai benchmark have in common.
//!
//! A [`Generator`] says which tables there are and makes the columns of any rows; the provided functions cut the work into jobs. So the
//! content depends on row numbers alone, never on threads or partitions. `tpch` does not use it: its crate makes slices, not batches.

use std::ops::Range;
use std::path::Path;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use corun_model::progress::Progress;

use crate::dataset::{BATCH_ROWS, DatasetError, TableData, part_file, write_parquet};
use crate::parallel::{run_jobs, share};

/// What makes any rows of some tables.
pub(crate) trait Generator: Sync {
    /// The workload, as progress names it.
    const NAME: &'static str;
    /// A table.
    type Table: Copy + Sync + 'static;
    /// All tables, in the order they are made.
    const TABLES: &'static [Self::Table];

    /// Name in SQL.
    fn name(table: Self::Table) -> &'static str;

    /// Columns of a table.
    fn schema(table: Self::Table) -> SchemaRef;

    /// Rows of a table.
    fn rows(&self, table: Self::Table) -> usize;

    /// The columns of some rows, as the schema has them.
    fn columns(&self, table: Self::Table, rows: Range<usize>) -> Vec<ArrayRef>;

    /// Batches of a table, [`BATCH_ROWS`] rows each but the last.
    fn batches(&self, table: Self::Table) -> usize {
        self.rows(table).div_ceil(BATCH_ROWS)
    }

    /// Batch number `number` of a table.
    ///
    /// # Panics
    /// If there is no such batch.
    fn batch(&self, table: Self::Table, number: usize) -> RecordBatch {
        let name = Self::name(table);
        assert!(number < self.batches(table), "batch {number} of {name}");
        let rows = number * BATCH_ROWS..((number + 1) * BATCH_ROWS).min(self.rows(table));
        match RecordBatch::try_new(Self::schema(table), self.columns(table, rows)) {
            Ok(batch) => batch,
            // The columns are built right beside the schema; only a bug of the generator gets here.
            Err(error) => panic!("columns of {name} do not fit its schema: {error}"),
        }
    }

    /// All tables in memory, each in `partitions` partitions (at least 1), made by `threads` threads.
    fn tables(&self, partitions: usize, threads: usize, progress: &dyn Progress) -> Vec<TableData> {
        let of = |&table: &Self::Table| (0..self.batches(table)).map(move |number| (table, number));
        let jobs: Vec<(Self::Table, usize)> = Self::TABLES.iter().flat_map(of).collect();
        let what = format!("generating {}", Self::NAME);
        let made = run_jobs(&what, jobs.len(), threads, progress, |job| {
            self.batch(jobs[job].0, jobs[job].1)
        });
        let mut made = made.into_iter();
        let table = |&table: &Self::Table| {
            let batches = made.by_ref().take(self.batches(table)).collect();
            TableData::new(Self::name(table), Self::schema(table), batches, partitions)
        };
        Self::TABLES.iter().map(table).collect()
    }

    /// Writes every table as `FOLDER/TABLE/part-NNN.parquet`, at most `files` files a table, by `threads` threads;
    /// only one batch a thread is in memory at a time. Returns the rows written.
    ///
    /// # Errors
    /// [`DatasetError::Io`] or [`DatasetError::Parquet`], naming the first file that failed.
    fn write(
        &self,
        folder: &Path,
        files: usize,
        threads: usize,
        progress: &dyn Progress,
    ) -> Result<usize, DatasetError> {
        let of = |&table: &Self::Table| {
            let parts = files.clamp(1, self.batches(table).max(1));
            (0..parts).map(move |part| (table, part, parts))
        };
        let jobs: Vec<(Self::Table, usize, usize)> = Self::TABLES.iter().flat_map(of).collect();
        let what = format!("writing {}", Self::NAME);
        let written = run_jobs(&what, jobs.len(), threads, progress, |job| {
            let (table, part, parts) = jobs[job];
            let numbers = share(self.batches(table), parts, part);
            let path = part_file(folder, Self::name(table), part);
            let batches = numbers.map(|number| self.batch(table, number));
            write_parquet(&path, Self::schema(table), batches)
        });
        written.into_iter().sum()
    }
}
