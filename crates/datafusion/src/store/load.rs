//! [`load`]: record batches into a table of a store, in bounded transactions.
//!
//! ```text
//!   check columns ─► (make the table) ─► for each batch: transactions of at most 1,024 rows, committed asynchronously ─► flush
//! ```
//!
//! A failure undoes the transaction it happened in; rows of those before stay, and the error says how many these are. What it
//! is not: one transaction. Others see rows arrive.

use super::fields::{Fields, is_loadable};
use crate::EngineError;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use corun_store::lock::LockError;
use corun_store::{Durability, RowBuf, Session, Store, StoreError, Table, TableDef, Type};
use std::collections::HashMap;

/// Rows of a transaction at most: enough that its fixed costs do not matter, few enough that others wait shortly for its locks.
/// Unmeasured.
const TRANSACTION_ROWS: usize = 1024;
/// How often a transaction is run again that was refused a lock.
const RETRIES: usize = 10;

/// How to load.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Columns of the primary key, for a table that is not there yet. Empty: the table must be there.
    pub primary_key: Vec<String>,
    /// Most bytes of texts and byte strings of columns of a new table.
    pub text_bytes_max: u32,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            primary_key: Vec::new(),
            text_bytes_max: 4096,
        }
    }
}

/// Why a load failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No table of that name, and nothing said about making one.
    #[error(
        "there is no table \"{table}\" in the store\nhint: name the columns of its primary key, and it is made: --primary-key, or LoadOptions::primary_key"
    )]
    NoTable {
        /// The table.
        table: String,
    },
    /// Columns that do not fit the table. Nothing was loaded.
    #[error("cannot load into table \"{table}\": {what}\nhint: {hint}")]
    Columns {
        /// The table.
        table: String,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// A row the table does not take.
    #[error(
        "row {row} cannot be loaded into table \"{table}\": {why}\ndetail: {loaded} rows were loaded before it, and stay"
    )]
    Row {
        /// The table.
        table: String,
        /// Its number, from 1, in the order rows came.
        row: u64,
        /// Why not.
        why: String,
        /// Rows that are in the table now because of this load.
        loaded: u64,
    },
    /// The rows could not be read, or the store could not go on.
    #[error(
        "loading into table \"{table}\" failed: {why}\ndetail: {loaded} rows were loaded before, and stay"
    )]
    Stopped {
        /// The table.
        table: String,
        /// Why.
        why: String,
        /// Rows that are in the table now because of this load.
        loaded: u64,
    },
    /// The table could not be made.
    #[error("cannot make table \"{table}\": {source}")]
    Table {
        /// The table.
        table: String,
        /// Why not.
        source: Box<StoreError>,
    },
}

impl From<LoadError> for EngineError {
    fn from(error: LoadError) -> Self {
        let text = error.to_string();
        let mut lines = text.lines();
        let mut engine = EngineError::new(lines.next().unwrap_or_default());
        for line in lines {
            match (line.strip_prefix("detail: "), line.strip_prefix("hint: ")) {
                (Some(detail), _) => engine.detail = Some(detail.to_owned()),
                (_, Some(hint)) => engine.hint = Some(hint.to_owned()),
                _ => engine.primary = format!("{} {line}", engine.primary),
            }
        }
        engine
    }
}

/// The definition of a table that takes rows of an Arrow schema.
///
/// # Errors
/// No primary key or one of unknown columns, a type the store does not have.
pub fn table_definition(table: &str, schema: &Schema, options: &LoadOptions) -> Result<TableDef, LoadError> {
    let refuse = |what: String, hint| LoadError::Columns {
        table: table.to_owned(),
        what,
        hint,
    };
    let key = &options.primary_key;
    for name in key {
        if schema.field_with_name(name).is_err() {
            return Err(refuse(
                format!("the primary key names column \"{name}\", which the rows do not have"),
                "names are matched exactly, case included",
            ));
        }
    }
    let mut definition = TableDef::new(table);
    for field in schema.fields() {
        let in_key = key.contains(field.name());
        let Some(data_type) = store_type(field.data_type(), options.text_bytes_max) else {
            return Err(refuse(
                format!(
                    "column \"{}\" is of type {}, which the store does not have",
                    field.name(),
                    field.data_type()
                ),
                "cast it in the source: to a smaller integer, a decimal of at most 38 digits, a date, a timestamp or a text",
            ));
        };
        definition = match field.is_nullable() && !in_key {
            true => definition.nullable(field.name(), data_type),
            false => definition.column(field.name(), data_type),
        };
    }
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    Ok(definition.primary_key(&key))
}

/// The type of a column that takes values of an Arrow type.
fn store_type(data_type: &DataType, text_max: u32) -> Option<Type> {
    use DataType as D;
    Some(match data_type {
        D::Boolean => Type::Bool,
        D::Int8 => Type::I8,
        D::Int16 | D::UInt8 => Type::I16,
        D::Int32 | D::UInt16 => Type::I32,
        D::Int64 | D::UInt32 => Type::I64,
        D::Float16 | D::Float32 => Type::F32,
        D::Float64 => Type::F64,
        D::Decimal32(precision, scale) | D::Decimal64(precision, scale) | D::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            Type::Decimal {
                precision: *precision,
                scale: *scale as u8,
            }
        }
        D::Date32 => Type::Date,
        D::Timestamp(_, None) => Type::Timestamp,
        D::Timestamp(_, Some(_)) => Type::TimestampTz,
        D::Utf8 | D::LargeUtf8 | D::Utf8View => Type::Text { max: text_max },
        D::Binary | D::LargeBinary | D::BinaryView => Type::Bytes { max: text_max },
        D::FixedSizeBinary(bytes) => Type::FixedBytes {
            bytes: u32::try_from(*bytes).ok()?,
        },
        D::Dictionary(_, values) => store_type(values, text_max)?,
        _ => return None,
    })
}

/// Loads record batches into a table, by the names of their columns; columns of the table that can be NULL may be missing. A table
/// that is not there is made of the batches' schema if the options name its primary key. Returns the number of rows.
///
/// Blocks the calling thread while the log's buffers are full; the rows are on disk when it returns.
///
/// # Errors
/// [`LoadError`]; rows that were committed before stay.
pub fn load(
    store: &Store,
    table: &str,
    schema: &Schema,
    batches: impl IntoIterator<Item = Result<RecordBatch, EngineError>>,
    options: &LoadOptions,
) -> Result<u64, LoadError> {
    let stopped = |why: String, loaded: u64| LoadError::Stopped {
        table: table.to_owned(),
        why,
        loaded,
    };
    let target = match store.table(table) {
        Ok(target) => target,
        Err(StoreError::NoTable { .. }) if options.primary_key.is_empty() => {
            return Err(LoadError::NoTable {
                table: table.to_owned(),
            });
        }
        Err(StoreError::NoTable { .. }) => store
            .create_table(table_definition(table, schema, options)?)
            .map_err(|source| LoadError::Table {
                table: table.to_owned(),
                source: Box::new(source),
            })?,
        Err(error) => return Err(stopped(error.to_string(), 0)),
    };
    let columns = columns(&target, schema)?;
    let mut session = store
        .session_here()
        .map_err(|error| stopped(error.to_string(), 0))?;
    session.set_durability(Durability::Asynchronous);
    let mut loader = Loader {
        session,
        target: &target,
        columns,
        loaded: 0,
    };
    for batch in batches {
        let batch = batch.map_err(|error| stopped(error.primary, loader.loaded))?;
        loader.append(&batch)?;
    }
    store
        .flush()
        .map_err(|error| stopped(error.to_string(), loader.loaded))?;
    Ok(loader.loaded)
}

/// For each column of the batches its position in the table.
fn columns(table: &Table, schema: &Schema) -> Result<Vec<usize>, LoadError> {
    let definition = table.definition();
    let refuse = |what: String, hint| LoadError::Columns {
        table: definition.name.clone(),
        what,
        hint,
    };
    let mut given: HashMap<usize, &str> = HashMap::new();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let Some(position) = definition.position(field.name()) else {
            return Err(refuse(
                format!("the rows have a column \"{}\", the table does not", field.name()),
                "columns are matched by name, case included; leave it out or name it as the table does",
            ));
        };
        let data_type = definition.columns[position].data_type;
        if !is_loadable(field.data_type(), data_type) {
            return Err(refuse(
                format!(
                    "column \"{}\" holds {data_type}, the rows have {}",
                    field.name(),
                    field.data_type()
                ),
                "cast it in the source",
            ));
        }
        if given.insert(position, field.name()).is_some() {
            return Err(refuse(
                format!("the rows have column \"{}\" twice", field.name()),
                "leave one out",
            ));
        }
        columns.push(position);
    }
    let missing = definition
        .columns
        .iter()
        .enumerate()
        .find(|(position, column)| !column.nullable && !given.contains_key(position));
    match missing {
        Some((_, column)) => Err(refuse(
            format!(
                "the rows have no column \"{}\", which cannot be NULL",
                column.name
            ),
            "columns are matched by name, case included",
        )),
        None => Ok(columns),
    }
}

/// A load under way.
struct Loader<'a> {
    session: Session,
    target: &'a Table,
    columns: Vec<usize>,
    /// Rows committed.
    loaded: u64,
}

impl Loader<'_> {
    fn append(&mut self, batch: &RecordBatch) -> Result<(), LoadError> {
        let mut fields = Vec::with_capacity(self.columns.len());
        for (array, &column) in batch.columns().iter().zip(&self.columns) {
            let data_type = self.target.layout().data_type(column);
            fields.push(Fields::new(array, data_type).map_err(|error| self.stopped(error.to_string()))?);
        }
        // Rows of this batch that are committed.
        let before = self.loaded;
        let mut row = self.target.new_row();
        let (mut next, mut refused) = (0, 0);
        while next < batch.num_rows() {
            let first = next;
            let done = transaction(&mut self.session, self.target, &mut row, |row| {
                if next == batch.num_rows() || next - first == TRANSACTION_ROWS {
                    return Ok(false);
                }
                for (field, &column) in fields.iter().zip(&self.columns) {
                    field.set(next, row, column).map_err(Failure::Value)?;
                }
                next += 1;
                Ok(true)
            });
            match done {
                Ok(rows) => next = first + rows,
                // Others hold a lock: the same rows once more.
                Err(Failure::Store(error)) if error.is_retryable() && refused < RETRIES => {
                    (next, refused) = (first, refused + 1);
                    continue;
                }
                // `next` counts the row already.
                Err(Failure::Value(why)) => return Err(self.row(before + next as u64 + 1, why)),
                Err(Failure::Row(error)) => return Err(self.row(before + next as u64, error.to_string())),
                Err(Failure::Store(error)) => return Err(self.stopped(error.to_string())),
            }
            refused = 0;
            self.loaded = before + next as u64;
        }
        Ok(())
    }

    fn row(&self, row: u64, why: String) -> LoadError {
        LoadError::Row {
            table: self.target.name().to_owned(),
            row,
            why,
            loaded: self.loaded,
        }
    }

    fn stopped(&self, why: String) -> LoadError {
        LoadError::Stopped {
            table: self.target.name().to_owned(),
            why,
            loaded: self.loaded,
        }
    }
}

/// Why a transaction of a load failed.
enum Failure {
    /// The value of the row being made.
    Value(String),
    /// The row made last.
    Row(StoreError),
    /// Not a matter of a row.
    Store(StoreError),
}

/// Adds the rows that `fill` makes, until it makes no more or the transaction takes no more. Returns how many are committed.
fn transaction(
    session: &mut Session,
    table: &Table,
    row: &mut RowBuf,
    mut fill: impl FnMut(&mut RowBuf) -> Result<bool, Failure>,
) -> Result<usize, Failure> {
    let transaction = session.begin().map_err(Failure::Store)?;
    let mut rows = 0;
    loop {
        row.clear();
        if !fill(row)? {
            break;
        }
        match transaction.insert(table, row) {
            Ok(_) => rows += 1,
            // The transaction is as before the row, which begins the next.
            Err(error) if rows > 0 && is_limit(&error) => break,
            Err(error) if error.is_retryable() => return Err(Failure::Store(error)),
            Err(error) => return Err(Failure::Row(error)),
        }
    }
    transaction.commit().map_err(Failure::Store)?;
    Ok(rows)
}

/// Whether a smaller transaction would have been taken.
fn is_limit(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::TransactionTooLarge { .. }
            | StoreError::Lock(LockError::TooManyLocksInTransaction { .. } | LockError::TooManyLocks { .. })
    )
}
