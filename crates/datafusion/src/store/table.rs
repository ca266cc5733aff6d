//! [`StoreTable`]: a table of a store as DataFusion's `TableProvider`.
//!
//! What it is not: writable by DataFusion. Rows are written by transactions of the store and by [`super::load`].

use super::access::{Access, is_useful};
use super::columns::NUMBER;
use super::external;
use super::moment::Moments;
use super::scan::StoreScanExec;
use super::shown::may_be_shown;
use super::types::{arrow_schema, with_row_numbers};
use arrow::datatypes::{Schema, SchemaRef};
use corun_store::{Snapshot, Store, Table};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints, not_impl_err};
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use std::fmt;
use std::sync::Arc;

/// A table of a store: as it is when it is read, or as it was at a snapshot.
///
/// ```
/// use corun_datafusion::store::StoreTable;
/// use corun_store::{Options, Store, TableDef, Type};
/// use std::sync::Arc;
///
/// let store = Store::in_memory(Options::default())?;
/// let table = store.create_table(TableDef::new("t").column("k", Type::I64).primary_key(&["k"]))?;
/// let context = datafusion::prelude::SessionContext::new_with_state(
///     corun_datafusion::install(datafusion::execution::SessionStateBuilder::new().with_default_features()).build(),
/// );
/// context.register_table("t", Arc::new(StoreTable::new(&store, &table)))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct StoreTable {
    store: Store,
    table: Table,
    schema: SchemaRef,
    constraints: Constraints,
    moment: Option<Arc<Snapshot>>,
    /// Whether snapshots are of what is on disk.
    durable: bool,
    /// Who is asked for the snapshot of a statement, rather than the store.
    moments: Option<Arc<dyn Moments>>,
    /// Whether the last column is the row's number.
    numbered: bool,
}

impl fmt::Debug for StoreTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreTable")
            .field("table", &self.table)
            .field("moment", &self.moment)
            .finish()
    }
}

impl StoreTable {
    /// A table of `store`. In sessions with [`super::OneMoment`] every statement reads all such tables of a store as of one
    /// moment; in others every scan takes a snapshot of its own.
    pub fn new(store: &Store, table: &Table) -> Self {
        let definition = table.definition();
        let key = table.primary_key();
        let key = key.map(|key| Constraint::PrimaryKey(key.columns().to_vec()));
        StoreTable {
            store: store.clone(),
            table: table.clone(),
            schema: arrow_schema(&definition),
            constraints: Constraints::new_unverified(key.into_iter().collect()),
            moment: None,
            durable: false,
            moments: None,
            numbered: false,
        }
    }

    /// The same table with one more column at the end, [`super::ROW_NUMBER`]: the number that names the row in its table
    /// ([`corun_store::Rid`]), an unsigned integer of 32 bits.
    #[must_use]
    pub fn with_row_numbers(self) -> Self {
        if self.numbered {
            return self;
        }
        StoreTable {
            schema: with_row_numbers(&self.schema),
            numbered: true,
            ..self
        }
    }

    /// The same table, whose fields have the metadata of those of `told`, by position, and their types where these are of the same bytes
    /// ([`super::shown_as`]). Nothing else of `told` counts.
    #[must_use]
    pub fn with_schema(self, told: SchemaRef) -> Self {
        let fields = self.schema.fields().iter().enumerate();
        let fields = fields.map(|(at, field)| match told.fields().get(at) {
            Some(told) => {
                let field = field.as_ref().clone().with_metadata(told.metadata().clone());
                Arc::new(match may_be_shown(field.data_type(), told.data_type()) {
                    true => field.with_data_type(told.data_type().clone()),
                    false => field,
                })
            }
            None => Arc::clone(field),
        });
        let metadata = self.schema.metadata().clone();
        StoreTable {
            schema: Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata)),
            ..self
        }
    }

    /// The same table, whose statements read at the moments of a session rather than of the store.
    #[must_use]
    pub fn of_session(self, moments: Arc<dyn Moments>) -> Self {
        StoreTable {
            moments: Some(moments),
            ..self
        }
    }

    /// The same table, of which statements see only commits that a crash would not take back. The first such snapshot of a store waits for
    /// the disk.
    pub fn durable(self) -> Self {
        StoreTable {
            durable: true,
            ..self
        }
    }

    /// The store as a statement reads it now.
    pub(crate) fn now(&self) -> Result<Arc<Snapshot>> {
        if let Some(moments) = &self.moments {
            return moments.now();
        }
        let taken = match self.durable {
            true => self.store.durable_snapshot(),
            false => self.store.snapshot(),
        };
        Ok(Arc::new(taken.map_err(external)?))
    }

    /// Whether both ask the same for the snapshot of a statement.
    pub(super) fn asks_as(&self, other: &StoreTable) -> bool {
        match (&self.moments, &other.moments) {
            (None, None) => self.durable == other.durable,
            (Some(one), Some(other)) => std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other)),
            _ => false,
        }
    }

    /// The same table as it was at a snapshot of its store.
    pub fn at(&self, moment: Arc<Snapshot>) -> Self {
        StoreTable {
            moment: Some(moment),
            ..self.clone()
        }
    }

    /// The same table as it is whenever it is read, whoever does.
    pub(crate) fn as_of_no_moment(&self) -> Self {
        StoreTable {
            moment: None,
            moments: None,
            ..self.clone()
        }
    }

    /// The snapshot it is read at, if that is fixed.
    pub fn moment(&self) -> Option<&Arc<Snapshot>> {
        self.moment.as_ref()
    }

    /// The store's table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    fn refuse(&self, what: &str) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!(
            "{what} table \"{}\" of a store by SQL; use a transaction of the store (the Rust API), or a bulk load (corun-sql sql --load)",
            self.table.name()
        )
    }
}

#[async_trait::async_trait]
impl TableProvider for StoreTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Those an index may help with are taken, but never answered for: an index only leaves most other rows out.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match is_useful(filter, &self.table) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let moment = match &self.moment {
            Some(moment) => Arc::clone(moment),
            None => self.now()?,
        };
        let access = Access::choose(&self.table, &moment, filters);
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let partitions = state.config().target_partitions();
        let schema = Arc::new(self.schema.project(&columns)?);
        let number = self.numbered.then(|| self.schema.fields().len() - 1);
        let columns: Vec<usize> = columns
            .into_iter()
            .map(|column| if Some(column) == number { NUMBER } else { column })
            .collect();
        let scan = StoreScanExec::new(
            self.table.clone(),
            moment,
            schema,
            columns,
            access,
            partitions,
            limit,
        )?;
        Ok(Arc::new(scan))
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
