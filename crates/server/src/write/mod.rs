//! SQL that writes to the store of a database: `INSERT`, `UPDATE`, `DELETE`, `MERGE`, `COPY FROM`, `SELECT ... FOR UPDATE`.
//!
//! ```text
//!   statement ─► SELECT of row numbers and new values (select) ─► read to its end at the statement's snapshot
//!             ─► rows are locked and written by number (assign, checks) ─► RETURNING
//! ```
//!
//! No statement sees what it writes itself, since it has read everything before it writes (the Halloween problem). Order of calls:
//! [`prepare`], then [`PreparedChange::run`] as often as is wanted. What it is not: definitions (`define`), the transaction
//! (`session::store_transaction`).

mod assign;
mod checks;
mod column;
mod conflict;
mod copy;
mod delete;
mod dictionary;
mod expressions;
mod insert;
mod lock;
mod merge;
mod nested;
mod plain;
mod returning;
mod rows;
mod select;
pub(crate) mod sequences;
mod types;
mod update;

pub(crate) use assign::{Stored, assign, put, store_value, stored, value_of, wrong_type};
pub(crate) use column::{Column, ColumnDefault, Declared, Identity, TableInfo};
pub(crate) use copy::CopyRows;
pub(crate) use dictionary::{
    Deferrable, Dictionary, Entry, Property, SCHEMA as DICTIONARY_SCHEMA, deferrable, describe, described,
};
pub(crate) use insert::without_overriding;
pub(crate) use merge::{does_nothing, parsed as parsed_merge};
pub(crate) use nested::changes;
pub(crate) use plain::PlainChange;
pub(crate) use types::{kept_as, needs_entry, store_type};

use crate::session::ClientSession;
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use corun_wire::error::{Refusal, code};
use corun_wire::server::Column as ResultColumn;
use corun_wire::values::Type;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement;
use std::sync::Arc;

/// A statement that writes, ready to run.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a prepared statement has one, on the heap"
)]
pub(crate) enum Change {
    Insert(insert::Insert),
    Update(update::Update),
    Delete(delete::Delete),
    Merge(merge::Merge),
    /// `SELECT ... FOR UPDATE` and the like.
    Lock(lock::SelectForUpdate),
    /// With queries within that lock.
    Nested(nested::Nested),
}

/// What is known of a statement before its parameters are.
#[derive(Debug)]
pub(crate) struct PreparedChange {
    pub(crate) change: Change,
    pub(crate) parameters: Vec<Type>,
    /// Of `RETURNING`; `None`: it returns no rows.
    pub(crate) columns: Option<Vec<ResultColumn>>,
}

/// What a statement has done.
#[derive(Debug)]
pub(crate) struct Changed {
    /// Of its tag: `INSERT 0`, `UPDATE`, ...
    pub(crate) verb: &'static str,
    pub(crate) rows: u64,
    pub(crate) returned: Option<Vec<RecordBatch>>,
}

/// Plans a statement that writes. `types` are those that the client gives for the first parameters (0: none).
///
/// # Errors
/// Whatever is wrong with the statement.
pub(crate) async fn prepare(
    session: &ClientSession,
    statement: &Statement,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    if let Some(nested) = nested::prepare_nested(session, statement, types, text).await? {
        return Ok(nested);
    }
    match statement {
        Statement::Insert(of) => insert::prepare(session, None, of, types, text).await,
        Statement::Update(of) => update::prepare(session, None, of, types, text).await,
        Statement::Delete(of) => delete::prepare(session, None, of, types, text).await,
        Statement::Merge(of) => merge::prepare(session, None, of, types, text).await,
        Statement::Query(of) => nested::prepare_query(session, of, types, text).await,
        _ => Err(Refusal::new(
            code::NOT_SUPPORTED,
            "this statement does not write rows",
        )),
    }
}

impl PreparedChange {
    /// Runs it in the session's transaction. Nothing of it stays if it fails and the caller goes back to where it began.
    ///
    /// # Errors
    /// What speaks against a row; locks that are not granted; rows that others have changed.
    pub(crate) async fn run(
        &self,
        session: &mut ClientSession,
        parameters: &[ScalarValue],
    ) -> Result<Changed, Refusal> {
        match &self.change {
            Change::Insert(of) => of.run(session, parameters).await,
            Change::Update(of) => rows::run(session, of, &of.plan, parameters).await,
            Change::Delete(of) => rows::run(session, of, &of.plan, parameters).await,
            Change::Merge(of) => rows::run(session, of, &of.plan, parameters).await,
            Change::Lock(of) => of.run(session, parameters).await,
            Change::Nested(of) => of.run(session, parameters).await,
        }
    }
}

/// The columns of a table as the planner sees them, with their declared types.
pub(crate) fn declared_schema(info: &TableInfo) -> SchemaRef {
    let fields: Vec<Field> = info.columns.iter().map(types::declared_arrow_field).collect();
    Arc::new(Schema::new(fields))
}
