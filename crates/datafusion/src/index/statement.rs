//! `CREATE INDEX` and `DROP INDEX`, which DataFusion parses (or not even that) but leaves to its host.
//!
//! [`run`] takes a statement that [`parse`] made of its text and says whether it was one of these. An index is made beside the table as it is, and then the
//! indexed table takes its place in the catalog; queries planned before keep the table they have, and statements that change tables wait
//! ([`super::definitions`]). What it is not: it does not keep an index across changes of a table, those are refused ([`super::table`]).

use super::IndexedTable;
use super::definitions::{Definitions, Tables};
use super::table::snapshot;
use crate::{CorunOptions, EngineError, calibration};
use arrow::array::RecordBatch;
use datafusion::catalog::{CatalogProvider, MemTable, SchemaProvider, TableProvider};
use datafusion::common::{TableReference, internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{CreateIndex, DdlStatement, Expr, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectType, Statement};
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// What to do with a statement of SQL.
pub enum Parsed {
    /// It is for DataFusion; if it may change tables, no index is made until it has ended.
    Other(LogicalPlan, Option<OwnedRwLockReadGuard<()>>),
    /// It was about an index, and is done.
    Done,
}

/// Parses one statement.
///
/// # Errors
/// A syntax error, or several statements.
pub fn parse(context: &SessionContext, sql: &str) -> Result<DfStatement, EngineError> {
    let state = context.state();
    let dialect = state.config_options().sql_parser.dialect;
    Ok(state.sql_to_statement(sql, &dialect)?)
}

/// Plans a statement, or carries it out when it creates or drops an index.
///
/// # Errors
/// Whatever planning reports; an index that cannot be made or is not there.
pub async fn run(
    context: &SessionContext,
    definitions: &Definitions,
    statement: DfStatement,
) -> Result<Parsed, EngineError> {
    let state = context.state();
    if let DfStatement::Statement(inner) = &statement {
        match inner.as_ref() {
            Statement::Drop {
                object_type: ObjectType::Index,
                if_exists,
                names,
                table,
                ..
            } => {
                if let Some(table) = table {
                    let primary = format!("DROP INDEX takes no table, but \"{table}\" is given");
                    return Err(EngineError::new(primary).with_hint("write DROP INDEX name"));
                }
                let names = names.iter().map(|name| {
                    let parts = name.0.iter().map(|part| match part.as_ident() {
                        Some(ident) if ident.quote_style.is_none() => ident.value.to_ascii_lowercase(),
                        Some(ident) => ident.value.clone(),
                        None => part.to_string(),
                    });
                    parts.collect::<Vec<_>>().join(".")
                });
                for name in names {
                    drop_index(context, definitions, &name, *if_exists).await?;
                }
                return Ok(Parsed::Done);
            }
            Statement::CreateIndex(create) if create.predicate.is_some() => {
                return Err(EngineError::new("an index over part of a table is not supported")
                    .with_hint("leave WHERE out"));
            }
            _ => {}
        }
    }
    let changing = match may_change_tables(&statement) {
        true => Some(definitions.changing().await),
        false => None,
    };
    match state.statement_to_plan(statement).await? {
        LogicalPlan::Ddl(DdlStatement::CreateIndex(create)) => {
            let column = column_of(&create)?;
            let new = NewIndex {
                name: create.name,
                table: create.table,
                column,
                if_not_exists: create.if_not_exists,
            };
            create_index(context, definitions, new).await?;
            Ok(Parsed::Done)
        }
        #[cfg(feature = "store")]
        LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => {
            // DataFusion would say there is no such table.
            crate::store::refuse_drop(context, &drop.name).await?;
            Ok(Parsed::Other(
                LogicalPlan::Ddl(DdlStatement::DropTable(drop)),
                changing,
            ))
        }
        plan => Ok(Parsed::Other(plan, changing)),
    }
}

/// Whether it is none of the statements that leave all tables as they are. The table of an insertion is found when it is planned, so it is
/// asked before.
fn may_change_tables(statement: &DfStatement) -> bool {
    match statement {
        DfStatement::Statement(inner) => !matches!(
            inner.as_ref(),
            Statement::Query(_) | Statement::CreateIndex(_) | Statement::Explain { .. } | Statement::Set(_)
        ),
        DfStatement::Explain(_) | DfStatement::CopyTo(_) | DfStatement::Reset(_) => false,
        DfStatement::CreateExternalTable(_) => true,
    }
}

/// The column a `CREATE INDEX` names.
fn column_of(create: &CreateIndex) -> Result<String, EngineError> {
    if create.unique {
        return Err(EngineError::new("unique indexes are not supported").with_hint("leave UNIQUE out"));
    }
    if let Some(method) = create.using.as_deref().filter(|method| *method != "btree") {
        return Err(EngineError::new(format!("there is no index method \"{method}\""))
            .with_hint("btree is the only one"));
    }
    match create.columns.as_slice() {
        [one] => match &one.expr {
            Expr::Column(column) => Ok(column.name.clone()),
            other => Err(EngineError::new(format!(
                "an index over the expression {other} is not supported"
            ))
            .with_hint("store the expression as a column and index that")),
        },
        _ => Err(
            EngineError::new("an index over several columns is not supported").with_hint(
                "create one over the column that narrows the rows most; joins check the other keys on the rows found",
            ),
        ),
    }
}

/// An index to be made.
pub struct NewIndex {
    /// Its name; `table_column_idx` when there is none.
    pub name: Option<String>,
    /// The table.
    pub table: TableReference,
    /// The column.
    pub column: String,
    /// Whether an index of that name is what is wanted, and not an error.
    pub if_not_exists: bool,
}

/// Makes an index over a column of an in-memory table. `definitions` is held meanwhile.
///
/// # Errors
/// No such table or column, one that cannot be indexed, a name that is taken, not enough memory.
pub async fn create_index(
    context: &SessionContext,
    definitions: &Definitions,
    new: NewIndex,
) -> Result<(), EngineError> {
    let _alone = definitions.alone().await?;
    let NewIndex {
        name,
        table,
        column,
        if_not_exists,
    } = new;
    let provider = context.table_provider(table.clone()).await?;
    let name = name.unwrap_or_else(|| format!("{}_{column}_idx", table.table()));
    let (catalog, schema_name) = place_of(context, &table)?;
    let schema = schema_of(catalog.as_ref(), &schema_name)?;
    if let Some((owner, _)) = owner_of(schema.as_ref(), &name).await? {
        if if_not_exists {
            return Ok(());
        }
        return Err(EngineError::new(format!(
            "there is already an index named \"{name}\", on table \"{owner}\""
        ))
        .with_hint("give it another name, or add IF NOT EXISTS"));
    }
    let target = Target::of(&table, &provider)?;
    let tables = Tables::of(catalog.as_ref(), &schema_name).await?;
    let rows_before = target.rows();
    let target = Arc::new(target);
    let at_work = Arc::clone(&target);
    let pool = Arc::clone(&context.runtime_env().memory_pool);
    let options = CorunOptions::of(context.copied_config().options());
    // Sorting millions of keys would hold up everything else that runs on this thread.
    let made = tokio::task::spawn_blocking(move || -> Result<IndexedTable> {
        let reservation = MemoryConsumer::new(format!("CreateIndex[{name}]")).register(&pool);
        let base;
        let indexed = match at_work.as_ref() {
            Target::Indexed(provider) => match provider.downcast_ref::<IndexedTable>() {
                Some(indexed) => indexed,
                None => return internal_err!("the table changed its kind"),
            },
            Target::Memory { provider, partitions } => match provider.downcast_ref::<MemTable>() {
                Some(memory) => {
                    let batches = partitions.iter().flatten();
                    reservation.try_grow(batches.map(|batch| batch.get_array_memory_size()).sum())?;
                    base = IndexedTable::of(memory, partitions)?;
                    &base
                }
                None => return internal_err!("the table changed its kind"),
            },
        };
        indexed.check_column(&column)?;
        reservation.try_grow(indexed.build_bytes())?;
        // For the queries that will look rows up.
        calibration::for_work(&options, indexed.rows());
        indexed.with_index(&name, &column)
    });
    let made = match made.await {
        Ok(made) => made?,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    };
    // Who has the table's provider itself asks nobody.
    if target.rows_now()? != rows_before {
        let primary = format!(
            "rows of table \"{}\" came or went while its index was made",
            table.table()
        );
        return Err(EngineError::new(primary).with_hint("make the index again when nobody changes the table"));
    }
    replace(tables.as_ref(), table.table(), Arc::new(made))
}

/// A table that an index can be made over.
enum Target {
    /// It has indexes already.
    Indexed(Arc<dyn TableProvider>),
    /// An in-memory table and its batches now.
    Memory {
        provider: Arc<dyn TableProvider>,
        partitions: Vec<Vec<RecordBatch>>,
    },
}

/// Rows of each batch of each partition.
type RowCounts = Vec<Vec<usize>>;

fn row_counts(partitions: &[Vec<RecordBatch>]) -> RowCounts {
    let counts = |batches: &Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).collect();
    partitions.iter().map(counts).collect()
}

impl Target {
    /// Rows that the index is made of; an indexed table does not change.
    fn rows(&self) -> RowCounts {
        match self {
            Target::Indexed(_) => Vec::new(),
            Target::Memory { partitions, .. } => row_counts(partitions),
        }
    }

    /// Rows of the table now.
    fn rows_now(&self) -> Result<RowCounts> {
        match self {
            Target::Memory { provider, .. } => match provider.downcast_ref::<MemTable>() {
                Some(memory) => Ok(row_counts(&snapshot(memory)?)),
                None => internal_err!("the table changed its kind"),
            },
            Target::Indexed(_) => Ok(Vec::new()),
        }
    }

    fn of(table: &TableReference, provider: &Arc<dyn TableProvider>) -> Result<Self, EngineError> {
        if provider.is::<IndexedTable>() {
            return Ok(Target::Indexed(Arc::clone(provider)));
        }
        #[cfg(feature = "store")]
        if provider.is::<crate::store::StoreTable>() {
            let name = table.table();
            let primary = format!("table \"{name}\" is a store's, and its indexes are not made by SQL");
            return Err(EngineError::new(primary).with_hint("use Store::create_index (the Rust API)"));
        }
        match provider.downcast_ref::<MemTable>() {
            Some(memory) => Ok(Target::Memory {
                provider: Arc::clone(provider),
                partitions: snapshot(memory)?,
            }),
            None => {
                let name = table.table();
                let primary =
                    format!("table \"{name}\" is not in memory, and only such tables can be indexed");
                let hint = format!("load it first: CREATE TABLE {name}_loaded AS SELECT * FROM {name}");
                Err(EngineError::new(primary).with_hint(hint))
            }
        }
    }
}

/// Drops an index of the default schema; a table without indexes is a plain in-memory table again.
async fn drop_index(
    context: &SessionContext,
    definitions: &Definitions,
    name: &str,
    if_exists: bool,
) -> Result<(), EngineError> {
    let _alone = definitions.alone().await?;
    let (catalog, schema_name) = place_of(context, &TableReference::bare(name))?;
    let schema = schema_of(catalog.as_ref(), &schema_name)?;
    let Some((table, provider)) = owner_of(schema.as_ref(), name).await? else {
        if if_exists {
            return Ok(());
        }
        return Err(EngineError::new(format!("there is no index named \"{name}\"")));
    };
    if let Some(indexed) = provider.downcast_ref::<IndexedTable>() {
        let tables = Tables::of(catalog.as_ref(), &schema_name).await?;
        replace(tables.as_ref(), &table, indexed.without_index(name)?)?;
    }
    Ok(())
}

/// The catalog and the name of the schema of a table.
fn place_of(
    context: &SessionContext,
    table: &TableReference,
) -> Result<(Arc<dyn CatalogProvider>, String), EngineError> {
    let defaults = context.copied_config().options().catalog.clone();
    let resolved = table
        .clone()
        .resolve(&defaults.default_catalog, &defaults.default_schema);
    match context.catalog(&resolved.catalog) {
        Some(catalog) => Ok((catalog, resolved.schema.to_string())),
        None => Err(EngineError::new(format!(
            "there is no catalog \"{}\"",
            resolved.catalog
        ))),
    }
}

fn schema_of(catalog: &dyn CatalogProvider, name: &str) -> Result<Arc<dyn SchemaProvider>, EngineError> {
    let schema = catalog.schema(name);
    schema.ok_or_else(|| EngineError::new(format!("there is no schema \"{name}\"")))
}

/// The table of a schema that has an index of this name.
async fn owner_of(
    schema: &dyn SchemaProvider,
    name: &str,
) -> Result<Option<(String, Arc<dyn TableProvider>)>, EngineError> {
    for table in schema.table_names() {
        let Some(provider) = schema.table(&table).await? else {
            continue;
        };
        let has = |indexed: &IndexedTable| indexed.index_names().any(|index| index == name);
        if provider.downcast_ref::<IndexedTable>().is_some_and(has) {
            return Ok(Some((table, provider)));
        }
    }
    Ok(None)
}

fn replace(
    schema: &dyn SchemaProvider,
    table: &str,
    provider: Arc<dyn TableProvider>,
) -> Result<(), EngineError> {
    match schema.downcast_ref::<Tables>() {
        Some(tables) => tables.replace(table, provider),
        None => return Err(internal_datafusion_err!("the schema of table {table} changed its kind").into()),
    }
    Ok(())
}
