//! [`IndexedTable`]: an in-memory table whose rows are addressed by number, and the indexes over its columns.
//!
//! ```text
//!   partitions, batches (what a scan reads) ─┐ slices of
//!                                            ├──▶ one array a column, rows 0 .. n   ◀── row numbers ── CSB+-tree of k
//!                                            │                                      ◀── row numbers ── CSB+-tree of d
//! ```
//!
//! Order of calls: [`IndexedTable::try_new`], then register it like any table; [`crate::Engine`] does both for
//! `CREATE INDEX`. The table does not change: `INSERT`, `UPDATE` and `DELETE` are refused, because an index that lags
//! behind its table gives wrong answers. It scans like DataFusion's in-memory table; which joins use an index is
//! [`super::rule`]'s decision.

use super::codes;
use super::source::IndexedSource;
use super::tree::{Loaded, Tree};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::{Constraints, exec_err, internal_err, not_impl_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::ExecutionPlan;
use std::fmt;
use std::sync::Arc;

/// Rows of the largest table: row numbers are 32 bits, and the largest stands for "no row".
pub const ROWS_MAX: usize = u32::MAX as usize - 1;

/// Bytes a build takes at most for each row beside the table: pairs of code and row, both apart, and the tree.
const BUILD_BYTES_PER_ROW: usize = 16 + 12 + 18;

/// An index over one column.
pub struct Index {
    /// What `DROP INDEX` calls it.
    pub name: String,
    /// The column it is over.
    pub column: usize,
    /// Rows by the column's codes.
    pub tree: Tree,
    /// Rows a key has on average; 1 when no two rows have one key.
    pub rows_per_key: f64,
}

/// The rows of an indexed table and its indexes, shared by plans.
pub struct Indexed {
    schema: SchemaRef,
    rows: usize,
    columns: Vec<Option<ArrayRef>>,
    indexes: Vec<Arc<Index>>,
}

impl Indexed {
    /// Columns by table column, each one array.
    pub fn columns(&self) -> &[Option<ArrayRef>] {
        &self.columns
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The table's schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The indexes.
    pub fn indexes(&self) -> &[Arc<Index>] {
        &self.indexes
    }

    /// The index over a column.
    pub fn index_of(&self, column: usize) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.column == column)
    }
}

impl fmt::Debug for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.indexes.iter().map(|index| &index.name);
        f.debug_struct("Indexed")
            .field("rows", &self.rows)
            .field("indexes", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// An in-memory table with indexes that corun's joins can use.
///
/// ```
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use std::sync::Arc;
///
/// let keys: ArrayRef = Arc::new(Int64Array::from(vec![30, 10, 20]));
/// let batch = RecordBatch::try_from_iter([("k", keys)])?;
/// let table = corun_datafusion::IndexedTable::try_new(batch.schema(), vec![vec![batch]], &["k"])?;
/// let context = datafusion::prelude::SessionContext::new();
/// context.register_table("t", Arc::new(table))?;
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub struct IndexedTable {
    /// The same rows as slices: scans, sort orders, constraints and defaults are DataFusion's.
    memory: MemTable,
    indexed: Arc<Indexed>,
}

impl fmt::Debug for IndexedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.indexed.fmt(f)
    }
}

impl IndexedTable {
    /// A table of `partitions` of batches with an index over each of `columns`, named after its column with `_idx` behind.
    /// The rows are copied once, unless they are a single batch.
    ///
    /// NULLs are not in an index: no key equals them.
    ///
    /// # Errors
    /// A batch of another schema; a column that does not exist, is named twice, or is of a type without an order of at
    /// most 64 bits; more than 4,294,967,294 rows; not enough memory.
    pub fn try_new(schema: SchemaRef, partitions: Vec<Vec<RecordBatch>>, columns: &[&str]) -> Result<Self> {
        let mut table = IndexedTable::of(&MemTable::try_new(schema, partitions.clone())?, &partitions)?;
        for column in columns {
            table = table.with_index(&format!("{column}_idx"), column)?;
        }
        Ok(table)
    }

    /// The table `memory` as it stands in `partitions`, without indexes yet.
    pub(crate) fn of(memory: &MemTable, partitions: &[Vec<RecordBatch>]) -> Result<Self> {
        let schema = memory.schema();
        let batches = || partitions.iter().flatten();
        let rows: usize = batches().map(RecordBatch::num_rows).sum();
        if rows > ROWS_MAX {
            return exec_err!(
                "a table of {rows} rows is too large for an index: row numbers end at {ROWS_MAX}"
            );
        }
        let whole = concat_batches(&schema, batches()).map_err(|error| {
            DataFusionError::from(error).context("the rows cannot be put into one array a column")
        })?;
        let mut start = 0;
        let mut slice = |batch: &RecordBatch| {
            let slice = whole.slice(start, batch.num_rows());
            start += batch.num_rows();
            slice
        };
        let slices = partitions
            .iter()
            .map(|partition| partition.iter().map(&mut slice).collect())
            .collect();
        Ok(IndexedTable {
            memory: like(memory, slices)?,
            indexed: Arc::new(Indexed {
                schema,
                rows,
                columns: whole.columns().iter().cloned().map(Some).collect(),
                indexes: Vec::new(),
            }),
        })
    }

    /// Its rows.
    pub(crate) fn rows(&self) -> usize {
        self.indexed.rows
    }

    /// Bytes that building one more index takes at most, the index among them.
    pub(crate) fn build_bytes(&self) -> usize {
        self.indexed.rows * BUILD_BYTES_PER_ROW
    }

    /// The same table with one more index.
    pub(crate) fn with_index(&self, name: &str, column: &str) -> Result<Self> {
        let number = self.check_column(column)?;
        let array = match &self.indexed.columns[number] {
            Some(array) => array,
            None => return internal_err!("an indexed table has all its columns"),
        };
        if codes::exceeds_its_type(array) {
            let data_type = array.data_type();
            return exec_err!("column {column} has values that its type {data_type} has no digits for");
        }
        let Some((codes, nulls)) = codes::codes(array) else {
            return internal_err!("the type of column {column} was checked");
        };
        let Loaded { tree, rows_per_key } = Tree::build(&codes, nulls.as_ref()).map_err(|error| {
            DataFusionError::ResourcesExhausted(format!("the index over column {column}: {error}"))
        })?;
        let index = Index {
            name: name.to_string(),
            column: number,
            tree,
            rows_per_key,
        };
        let indexes = self.indexed.indexes.iter().cloned();
        self.with_indexes(indexes.chain([Arc::new(index)]).collect())
    }

    /// The number of a column that can be indexed.
    pub(crate) fn check_column(&self, column: &str) -> Result<usize> {
        let schema = &self.indexed.schema;
        let Ok(number) = schema.index_of(column) else {
            let names: Vec<&str> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            return plan_err!(
                "there is no column {column} to index; there are {}",
                names.join(", ")
            );
        };
        let data_type = schema.field(number).data_type();
        if !codes::is_indexable(data_type) {
            return plan_err!(
                "column {column} is of type {data_type}, which cannot be indexed: integers, floats, dates, times and \
                 decimals of at most 18 digits can"
            );
        }
        if let Some(index) = self.indexed.index_of(number) {
            return plan_err!("column {column} already has the index {}", index.name);
        }
        Ok(number)
    }

    /// The same table without one of its indexes, or as a plain in-memory table when that was the last one.
    pub(crate) fn without_index(&self, name: &str) -> Result<Arc<dyn TableProvider>> {
        let others = self.indexed.indexes.iter().filter(|index| index.name != name);
        let others: Vec<Arc<Index>> = others.cloned().collect();
        if others.is_empty() {
            return Ok(Arc::new(like(&self.memory, self.partitions()?)?));
        }
        Ok(Arc::new(self.with_indexes(others)?))
    }

    /// Names of the indexes.
    pub(crate) fn index_names(&self) -> impl Iterator<Item = &str> {
        self.indexed.indexes.iter().map(|index| index.name.as_str())
    }

    fn with_indexes(&self, indexes: Vec<Arc<Index>>) -> Result<Self> {
        let Indexed {
            schema,
            rows,
            columns,
            ..
        } = self.indexed.as_ref();
        Ok(IndexedTable {
            memory: like(&self.memory, self.partitions()?)?,
            indexed: Arc::new(Indexed {
                schema: Arc::clone(schema),
                rows: *rows,
                columns: columns.clone(),
                indexes,
            }),
        })
    }

    fn partitions(&self) -> Result<Vec<Vec<RecordBatch>>> {
        snapshot(&self.memory)
    }

    fn refuse(&self, what: &str) -> Result<Arc<dyn ExecutionPlan>> {
        let names: Vec<&str> = self.index_names().collect();
        not_impl_err!(
            "{what} a table with an index ({}); drop its indexes first",
            names.join(", ")
        )
    }
}

/// The batches of an in-memory table as they are now.
///
/// # Errors
/// A statement that is changing the table.
pub(crate) fn snapshot(memory: &MemTable) -> Result<Vec<Vec<RecordBatch>>> {
    let read = memory.batches.iter().map(|partition| match partition.try_read() {
        Ok(batches) => Ok(batches.clone()),
        Err(_) => exec_err!("another statement is changing the table"),
    });
    read.collect()
}

/// An in-memory table of other batches with the properties of `model`.
fn like(model: &MemTable, partitions: Vec<Vec<RecordBatch>>) -> Result<MemTable> {
    let schema = model.schema();
    let defaults = schema.fields().iter().filter_map(|field| {
        let default = model.get_column_default(field.name())?;
        Some((field.name().clone(), default.clone()))
    });
    let defaults = defaults.collect();
    let order = model.sort_order.lock().clone();
    let constraints = model.constraints().cloned().unwrap_or_default();
    Ok(MemTable::try_new(schema, partitions)?
        .with_constraints(constraints)
        .with_column_defaults(defaults)
        .with_sort_order(order))
}

#[async_trait::async_trait]
impl TableProvider for IndexedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.indexed.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.memory.constraints()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.memory.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.memory.scan(state, projection, filters, limit).await?;
        let source = plan
            .downcast_ref::<DataSourceExec>()
            .and_then(|scan| scan.data_source().downcast_ref::<MemorySourceConfig>());
        match source {
            Some(source) => Ok(DataSourceExec::from_data_source(IndexedSource::new(
                source.clone(),
                Arc::clone(&self.indexed),
            ))),
            None => internal_err!("an in-memory table is scanned by something else: {}", plan.name()),
        }
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        _input: Arc<dyn ExecutionPlan>,
        _insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.refuse("cannot insert into")
    }

    async fn delete_from(&self, _state: &dyn Session, _filters: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        self.refuse("cannot delete from")
    }

    async fn update(
        &self,
        _state: &dyn Session,
        _assignments: Vec<(String, Expr)>,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.refuse("cannot update")
    }

    async fn truncate(&self, _state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        self.refuse("cannot truncate")
    }
}
