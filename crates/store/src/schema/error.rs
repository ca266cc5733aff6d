//! [`SchemaError`]: why a definition is refused.

use super::ROW_BYTES_MAX;
use crate::row::RowError;

/// Why a definition is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// No name, or one that is too long.
    #[error("table {table:?}: the name {name:?} is empty or longer than 255 bytes")]
    Name {
        /// The table.
        table: String,
        /// The name.
        name: String,
    },
    /// Two columns, or two indexes, of one name.
    #[error("table {table:?}: {what} {name:?} is there twice")]
    Twice {
        /// The table.
        table: String,
        /// `column` or `index`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An index on a column that is not there.
    #[error("table {table:?}, index {index:?}: there is no column {column:?}")]
    NoColumn {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The column.
        column: String,
    },
    /// Too many or too few columns or indexes.
    #[error("table {table:?}: {found} {what}; at least 1 and at most {most} are possible")]
    Count {
        /// The table.
        table: String,
        /// `columns` or `indexes`.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// An index of the primary key's name.
    #[error(
        "table {table:?}: \"primary\" is the name of the primary key's index, which is made with the table"
    )]
    Primary {
        /// The table.
        table: String,
    },
    /// A column that does not take its default, or that was added and has none.
    #[error("table {table:?}: the default of a column is refused: {source}")]
    Default {
        /// The table.
        table: String,
        /// Why.
        source: RowError,
    },
    /// A primary key on a column that may be NULL.
    #[error("table {table:?}: the primary key's column {column:?} may be NULL; make it a plain column")]
    NullablePrimaryKey {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A decimal of no or of too many digits.
    #[error(
        "table {table:?}, column {column:?}: a decimal has 1 to 38 digits, at most all of them after the point"
    )]
    Decimal {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A schema without a name, or with one that is too long.
    #[error("the name {name:?} of a schema is empty or longer than 255 bytes")]
    SchemaName {
        /// The name.
        name: String,
    },
    /// A foreign key or a check that cannot be.
    #[error("table {table:?}, constraint {constraint:?}: {why}")]
    Constraint {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
        /// What speaks against it.
        why: String,
    },
    /// Rows longer than can be kept, even with empty texts.
    #[error(
        "table {table:?}: a row takes at least {bytes} bytes, the most is {ROW_BYTES_MAX}; declare shorter columns"
    )]
    LongRow {
        /// The table.
        table: String,
        /// Bytes of its shortest row.
        bytes: usize,
    },
}
