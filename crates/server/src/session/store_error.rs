//! [`refusal_of`]: what clients are told of the store's errors, with PostgreSQL's codes and words.

use corun_store::lock::LockError;
use corun_store::log::LogError;
use corun_store::{RowError, StoreError};
use corun_wire::error::{Refusal, code};

/// A refusal for an error of the store.
pub(crate) fn refusal_of(error: &StoreError) -> Refusal {
    let told = |code, message: String| Refusal::new(code, message);
    match error {
        StoreError::Lock(error) => of_lock(error),
        StoreError::Duplicate { table, index, key } => {
            let index = match index.as_str() {
                "primary" => format!("{}_pkey", bare(table)),
                index => index.to_owned(),
            };
            let message = format!("duplicate key value violates unique constraint \"{index}\"");
            told("23505", message).detail(format!("The key is ({key})."))
        }
        StoreError::ForeignKey(violation) => {
            told("23503", violation.message()).detail(sentence(&violation.detail()))
        }
        StoreError::Referenced { what, action, by } => {
            let message = format!(
                "cannot {} {what} because other objects depend on it",
                verb(action)
            );
            let code = if *action == "truncated" { "0A000" } else { "2BP01" };
            told(code, message)
                .detail(format!("It is needed by {}.", by.join(", ")))
                .hint("Drop these first, or use CASCADE.")
        }
        StoreError::Row(error) => of_row(error),
        StoreError::Key(error) => told(code::PROGRAM_LIMIT, error.to_string()),
        StoreError::Log(LogError::DiskFull(why)) => told("53100", format!("could not write the log: {why}")),
        StoreError::MemoryFull { limit, .. } => told(
            code::OUT_OF_MEMORY,
            format!("the store is at its memory limit of {limit} bytes"),
        )
        .hint("Delete rows, or raise the limit of the server's stores."),
        StoreError::OutOfMemory { .. } => told(code::OUT_OF_MEMORY, error.to_string()),
        StoreError::TransactionTooLarge { .. } | StoreError::TooManyRows { .. } => {
            told(code::PROGRAM_LIMIT, error.to_string())
        }
        StoreError::TooManySnapshots { .. } => told("53300", error.to_string()),
        StoreError::NoTable { name, .. } => told("42P01", format!("relation \"{name}\" does not exist")),
        StoreError::NoSchema { name, .. } => told("3F000", format!("schema \"{name}\" does not exist")),
        StoreError::NoSequence { name } => told("42P01", format!("relation \"{name}\" does not exist")),
        StoreError::NoConstraint { table, name } => told(
            code::UNDEFINED_OBJECT,
            format!("constraint \"{name}\" of relation \"{table}\" does not exist"),
        ),
        StoreError::NoIndex { name, .. } => {
            told(code::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist"))
        }
        StoreError::Exists { what, name } => match *what {
            "a schema" => told("42P06", format!("schema \"{name}\" already exists")),
            "a constraint" => told("42710", format!("constraint \"{name}\" already exists")),
            _ => told("42P07", format!("relation \"{name}\" already exists")),
        },
        StoreError::SchemaInUse { name, why } => told(
            "2BP01",
            format!("cannot drop schema {name} because other objects depend on it"),
        )
        .detail(format!("There is: {why}.")),
        StoreError::Sequence { name, why } => told("2200H", format!("sequence \"{name}\": {why}")),
        StoreError::ColumnInIndex { .. } | StoreError::ColumnInForeignKey { .. } => {
            told("2BP01", error.to_string())
        }
        StoreError::Dropped { .. } | StoreError::IndexUnusable { .. } => told(
            code::SERIALIZATION_FAILURE,
            "could not serialize access: a table was changed by another transaction".to_owned(),
        )
        .detail(error.to_string()),
        StoreError::Schema(error) => told("42P16", error.to_string()),
        StoreError::Closed => told(code::CANNOT_CONNECT_NOW, error.to_string()),
        StoreError::Damaged { .. } | StoreError::Storage { .. } => told("58030", error.to_string()),
        other => told(code::INTERNAL_ERROR, other.to_string()),
    }
}

fn of_lock(error: &LockError) -> Refusal {
    match error {
        LockError::Deadlock { .. } => Refusal::new("40P01", "deadlock detected")
            .detail(error.to_string())
            .hint("Run the transaction again."),
        LockError::Timeout { .. } => Refusal::new("55P03", "canceling statement due to lock timeout"),
        LockError::TooManyTransactions { .. } => Refusal::new(code::TOO_MANY_CONNECTIONS, error.to_string()),
        _ => Refusal::new("53000", error.to_string()),
    }
}

fn of_row(error: &RowError) -> Refusal {
    match error {
        RowError::Null { column } | RowError::NotSet { column } => Refusal::new(
            "23502",
            format!("null value in column \"{column}\" violates not-null constraint"),
        ),
        RowError::Length { .. } => Refusal::new("22001", error.to_string()),
        RowError::LongRow { .. } => Refusal::new(code::PROGRAM_LIMIT, error.to_string()),
        RowError::Range { .. } => Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, error.to_string()),
        RowError::Type { .. } => Refusal::new("42804", error.to_string()),
        RowError::NoColumn { column, .. } => Refusal::new("42703", format!("column {column} does not exist")),
        _ => Refusal::new(code::INTERNAL_ERROR, error.to_string()),
    }
}

/// A table's name without its schema.
fn bare(table: &str) -> &str {
    table.rsplit('.').next().unwrap_or(table)
}

fn verb(action: &str) -> &str {
    match action {
        "truncated" => "truncate",
        _ => "drop",
    }
}

/// Begins with a capital and ends with a point.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}
