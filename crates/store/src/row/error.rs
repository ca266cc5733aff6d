//! [`RowError`]: why a field could not be set or read.

use crate::schema::ROW_BYTES_MAX;
use crate::value::Type;

/// Why a field could not be set or read, or a row not be inserted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The column holds something else.
    #[error("column {column:?} holds {expected}, not {found}")]
    Type {
        /// The column.
        column: String,
        /// Its type.
        expected: Type,
        /// What was given.
        found: String,
    },
    /// NULL for a column that has none.
    #[error("column {column:?} cannot be NULL")]
    Null {
        /// The column.
        column: String,
    },
    /// More than the column takes.
    #[error("column {column:?} takes {expected}, not {bytes} bytes")]
    Length {
        /// The column.
        column: String,
        /// Its type.
        expected: Type,
        /// Bytes given.
        bytes: usize,
    },
    /// A row longer than can be kept.
    #[error("the row takes {bytes} bytes; the most is {ROW_BYTES_MAX}")]
    LongRow {
        /// Bytes of the row.
        bytes: usize,
    },
    /// A number beyond the column's.
    #[error("column {column:?} holds {expected}; {value} is out of its range")]
    Range {
        /// The column.
        column: String,
        /// Its type.
        expected: Type,
        /// What was given.
        value: i128,
    },
    /// No such column.
    #[error("there is no column {column}; the table has {}", .columns.join(", "))]
    NoColumn {
        /// The position asked for, or the name in quotes.
        column: String,
        /// Columns there are.
        columns: Vec<String>,
    },
    /// A row without a value for a column that has no NULL.
    #[error("column {column:?} was not set, and cannot be NULL")]
    NotSet {
        /// The first such column.
        column: String,
    },
    /// The column's type cannot be read as the type asked for.
    #[error("column {column:?} holds {holds}, which cannot be read as {asked}")]
    Read {
        /// The column.
        column: String,
        /// Its type.
        holds: Type,
        /// The type asked for.
        asked: &'static str,
    },
    /// A field is NULL, and the type asked for has no NULL.
    #[error("column {column:?} is NULL; read it as Option<{asked}>")]
    IsNull {
        /// The column.
        column: String,
        /// The type asked for.
        asked: &'static str,
    },
    /// A field's number is out of the range of the type asked for.
    #[error("column {column:?} is {value}, which is out of the range of {asked}")]
    ReadRange {
        /// The column.
        column: String,
        /// What it holds.
        value: i128,
        /// The type asked for.
        asked: &'static str,
    },
    /// An unsigned number that no column takes.
    #[error("{value} is out of the range of integers, which end at {}", i64::MAX)]
    Unsigned {
        /// What was given.
        value: u64,
    },
    /// The row is of another table, or of columns that were rolled back.
    #[error("the row was made for another table than {table:?}, or for columns of it that were rolled back")]
    OtherTable {
        /// The table.
        table: String,
    },
}
