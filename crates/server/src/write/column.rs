//! [`TableInfo`]: a table of the store as PostgreSQL's clients know it, column by column.

use super::dictionary::Property;
use corun_store::{Constant, Table, TableDef};
use corun_wire::values::Type;

/// A column: what PostgreSQL calls it, and what the store keeps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) declared: Declared,
    pub(crate) stored: corun_store::Type,
    pub(crate) nullable: bool,
    pub(crate) default: ColumnDefault,
    pub(crate) identity: Option<Identity>,
}

/// A type as it was declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) of: Type,
    /// Characters of `varchar(n)` and `char(n)`.
    pub(crate) length: Option<u32>,
    /// Digits, and those after the point, of `numeric(p, s)`.
    pub(crate) precision: Option<(u8, u8)>,
}

/// What a column has where a statement says nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ColumnDefault {
    None,
    Constant(Constant),
    /// SQL, such as `nextval('t_id_seq')`.
    Expression(String),
}

/// `GENERATED ... AS IDENTITY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    Always,
    ByDefault,
}

/// A table of the store.
#[derive(Debug, Clone)]
pub(crate) struct TableInfo {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) table: Table,
    pub(crate) definition: TableDef,
    pub(crate) columns: Vec<Column>,
    pub(crate) notes: Notes,
}

/// What the dictionary knows of a table beside its columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Notes {
    /// The primary key's constraint, and its index in the store.
    pub(crate) primary_key: Option<(String, String)>,
    /// Unique indexes that are constraints.
    pub(crate) unique: Vec<String>,
    /// Foreign keys that may be deferred, and whether they are at once.
    pub(crate) deferrable: Vec<(String, bool)>,
    /// Columns, and the sequences that they own, as SQL names these.
    pub(crate) sequences: Vec<(String, String)>,
    /// On what, its name, and the text; the table has no name.
    pub(crate) comments: Vec<(Property, String, String)>,
}

impl TableInfo {
    /// Position of a column.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}
