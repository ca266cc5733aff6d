//! [`ForeignKeyViolation`]: which row refers to nothing, or would.

use std::fmt;

use crate::constant::Constant;
use crate::value::Value;

/// What a foreign key refused, in PostgreSQL's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyViolation {
    /// The constraint.
    pub constraint: String,
    /// The table that has it, with its schema unless that is `public`.
    pub table: String,
    /// The table that its rows refer to.
    pub referenced: String,
    /// Whether a row that is referred to was to go; else a row was to refer to none.
    pub is_referenced: bool,
    /// The key's columns: of `referenced` if `is_referenced`, else of `table`.
    pub columns: Vec<String>,
    /// Their values.
    pub values: Vec<Constant>,
}

impl std::error::Error for ForeignKeyViolation {}

impl ForeignKeyViolation {
    /// What was tried, and what refused it.
    pub fn message(&self) -> String {
        let ForeignKeyViolation {
            constraint,
            table,
            referenced,
            ..
        } = self;
        match self.is_referenced {
            false => {
                format!(
                    "insert or update on table \"{table}\" violates foreign key constraint \"{constraint}\""
                )
            }
            true => format!(
                "update or delete on table \"{referenced}\" violates foreign key constraint \"{constraint}\" on table \"{table}\""
            ),
        }
    }

    /// Which key it is about.
    pub fn detail(&self) -> String {
        let value = |value: &Constant| match value.value() {
            Value::Text(text) => text.to_owned(),
            other => other.to_string(),
        };
        let values: Vec<String> = self.values.iter().map(value).collect();
        let (columns, values) = (self.columns.join(", "), values.join(", "));
        match self.is_referenced {
            false => format!(
                "key ({columns})=({values}) is not present in table \"{}\"",
                self.referenced
            ),
            true => format!(
                "key ({columns})=({values}) is still referenced from table \"{}\"",
                self.table
            ),
        }
    }
}

impl fmt::Display for ForeignKeyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message(), self.detail())
    }
}
