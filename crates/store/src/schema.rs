//! [`TableDef`]: what a table is made of, as a user writes it down.
//!
//! Order of calls: [`TableDef::new`], a call for each column in order, [`TableDef::primary_key`], any number of
//! [`TableDef::unique`], [`TableDef::index`] and [`TableDef::foreign_key`]. It is checked when the table is made.
//!
//! What it is not: the layout of rows, which [`crate::row`] derives.

mod constraints;
mod error;
mod name;
mod rename;

pub use constraints::{CHECK_BYTES_MAX, CONSTRAINTS_MAX, CheckDef, ForeignKeyDef, ReferentialAction};
pub(crate) use constraints::{put_check, put_foreign_key, put_rest, read_check, read_foreign_key, read_rest};
pub use error::SchemaError;
pub use name::PUBLIC;
pub(crate) use name::QualifiedName;

use crate::constant::Constant;
use crate::row::{Layout, RowBuf, RowError};
use crate::value::{DIGITS_MAX, Type, Value};

/// Most columns of a table.
pub const COLUMNS_MAX: usize = 1024;
/// Most indexes of a table, the primary one included.
pub const INDEXES_MAX: usize = 64;
/// Most bytes of a row: rows are kept whole in memory and in the log.
pub const ROW_BYTES_MAX: usize = 4 << 20;

/// Name of a primary key's index.
pub(crate) const PRIMARY: &str = "primary";

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub data_type: Type,
    /// Whether fields may be NULL.
    pub nullable: bool,
    /// What a new row has where it is not set.
    pub default: Option<Constant>,
}

impl ColumnDef {
    /// A column whose fields are never NULL.
    pub fn new(name: &str, data_type: Type) -> Self {
        ColumnDef {
            name: name.to_owned(),
            data_type,
            nullable: false,
            default: None,
        }
    }

    /// Its fields may be NULL.
    #[must_use]
    pub fn nullable(self) -> Self {
        ColumnDef {
            nullable: true,
            ..self
        }
    }

    /// What a new row has where it is not set. It is checked with the table.
    #[must_use]
    pub fn default_value<'v>(self, value: impl Into<Value<'v>>) -> Self {
        ColumnDef {
            default: Some(Constant::from(value.into())),
            ..self
        }
    }

    /// Whether it takes its default.
    fn check_default(&self) -> Result<(), RowError> {
        let Some(default) = &self.default else {
            return Ok(());
        };
        let plain = ColumnDef {
            default: None,
            ..self.clone()
        };
        let layout = Layout::new(vec![plain]);
        RowBuf::new(&layout).set(0, default.value())
    }
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDef {
    /// Its name, unique in the table.
    pub name: String,
    /// Names of its columns, the most significant first.
    pub columns: Vec<String>,
    /// Whether no two rows may have the same values in all its columns. As in SQL, a NULL equals no other.
    pub unique: bool,
}

/// A table.
///
/// ```
/// use corun_store::{TableDef, Type};
///
/// let accounts = TableDef::new("account")
///     .column("id", Type::I64)
///     .column("owner", Type::Text { max: 40 })
///     .nullable("note", Type::Text { max: 200 })
///     .primary_key(&["id"])
///     .index("by_owner", &["owner"]);
/// assert!(accounts.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDef {
    /// Its schema's name: [`PUBLIC`] unless said otherwise.
    pub schema: String,
    /// Its name, unique among the tables of its schema.
    pub name: String,
    /// Columns, in order.
    pub columns: Vec<ColumnDef>,
    /// Indexes; the first is the primary key's, if there is one.
    pub indexes: Vec<IndexDef>,
    /// Which of its columns refer to rows of other tables.
    pub foreign_keys: Vec<ForeignKeyDef>,
    /// Conditions that its rows fulfil; the store does not evaluate them.
    pub checks: Vec<CheckDef>,
}

impl TableDef {
    /// A table without columns, in the schema `public`.
    pub fn new(name: &str) -> Self {
        TableDef {
            schema: PUBLIC.to_owned(),
            name: name.to_owned(),
            columns: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            checks: Vec::new(),
        }
    }

    /// In this schema, which is there when the table is made ([`Store::create_schema`](crate::Store::create_schema)).
    #[must_use]
    pub fn in_schema(self, schema: &str) -> Self {
        TableDef {
            schema: schema.to_owned(),
            ..self
        }
    }

    /// Its name with its schema's.
    pub(crate) fn qualified_name(&self) -> QualifiedName {
        QualifiedName::new(&self.schema, &self.name)
    }

    /// Its name as errors have it: `sales.t`, and `t` in the schema `public`.
    pub(crate) fn shown_name(&self) -> String {
        self.qualified_name().to_string()
    }

    /// Adds a column whose fields are never NULL.
    #[must_use]
    pub fn column(self, name: &str, data_type: Type) -> Self {
        self.with_column(ColumnDef::new(name, data_type))
    }

    /// Adds a column whose fields may be NULL.
    #[must_use]
    pub fn nullable(self, name: &str, data_type: Type) -> Self {
        self.with_column(ColumnDef::new(name, data_type).nullable())
    }

    /// Adds a column.
    #[must_use]
    pub fn with_column(mut self, column: ColumnDef) -> Self {
        self.columns.push(column);
        self
    }

    /// Makes these columns the primary key; its index is called `primary`. Rows of a table without one are found by number and by other
    /// indexes.
    #[must_use]
    pub fn primary_key(mut self, columns: &[&str]) -> Self {
        let index = IndexDef::new(PRIMARY, columns, true);
        self.indexes.insert(0, index);
        self
    }

    /// Adds a unique index; rows with a NULL in one of its columns may be many.
    #[must_use]
    pub fn unique(mut self, name: &str, columns: &[&str]) -> Self {
        self.indexes.push(IndexDef::new(name, columns, true));
        self
    }

    /// Adds an index.
    #[must_use]
    pub fn index(mut self, name: &str, columns: &[&str]) -> Self {
        self.indexes.push(IndexDef::new(name, columns, false));
        self
    }

    /// The index of the primary key; none of a table without one.
    pub fn primary_key_index(&self) -> Option<&IndexDef> {
        self.indexes.first().filter(|index| index.name == PRIMARY)
    }

    /// Position of a column.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|known| known.name == column)
    }

    /// Positions of an index's columns.
    ///
    /// # Errors
    /// [`SchemaError::NoColumn`].
    pub(crate) fn positions(&self, index: &IndexDef) -> Result<Vec<usize>, SchemaError> {
        let position = |column: &String| {
            self.position(column).ok_or_else(|| SchemaError::NoColumn {
                table: self.shown_name(),
                index: index.name.clone(),
                column: column.clone(),
            })
        };
        index.columns.iter().map(position).collect()
    }

    /// What a table of this definition has otherwise than `wanted`: the first difference in columns, then in indexes and constraints, whose
    /// order does not matter.
    pub(crate) fn difference(&self, wanted: &TableDef) -> Option<String> {
        for (at, column) in wanted.columns.iter().enumerate() {
            let ColumnDef {
                name,
                data_type,
                nullable,
                default,
            } = column;
            let Some(position) = self.position(name) else {
                return Some(format!("it has no column {name:?}"));
            };
            let found = &self.columns[position];
            if found.data_type != *data_type {
                return Some(format!(
                    "column {name:?} holds {}, not {data_type}",
                    found.data_type
                ));
            }
            if found.nullable != *nullable {
                let can = |nullable| if nullable { "can" } else { "cannot" };
                return Some(format!("column {name:?} {} be NULL", can(found.nullable)));
            }
            if found.default != *default {
                let is = |default: &Option<Constant>| match default {
                    None => "no default".to_owned(),
                    Some(default) => format!("the default {default}"),
                };
                return Some(format!(
                    "column {name:?} has {}, not {}",
                    is(&found.default),
                    is(default)
                ));
            }
            if position != at {
                return Some(format!("column {name:?} is at position {position}, not {at}"));
            }
        }
        if let Some(more) = self.columns.get(wanted.columns.len()) {
            return Some(format!("it has another column {:?}", more.name));
        }
        let index = |of: &TableDef, name: &str| of.indexes.iter().find(|index| index.name == name).cloned();
        for IndexDef {
            name,
            columns,
            unique,
        } in &wanted.indexes
        {
            let Some(found) = index(self, name) else {
                return Some(format!("it has no index {name:?}"));
            };
            if found.columns != *columns {
                let (found, columns) = (found.columns.join(", "), columns.join(", "));
                return Some(format!("index {name:?} is of ({found}), not ({columns})"));
            }
            if found.unique != *unique {
                let is = if found.unique { "is" } else { "is not" };
                return Some(format!("index {name:?} {is} unique"));
            }
        }
        let more = self
            .indexes
            .iter()
            .find(|found| index(wanted, &found.name).is_none());
        let more = more.map(|more| format!("it has another index {:?}", more.name));
        more.or_else(|| self.constraints_difference(wanted))
    }

    /// Whether a table can be made of it.
    ///
    /// # Errors
    /// The first thing that speaks against it.
    pub fn check(&self) -> Result<(), SchemaError> {
        let table = || self.shown_name();
        let named = |name: &String| {
            if name.is_empty() || name.len() > 255 {
                Err(SchemaError::Name {
                    table: table(),
                    name: name.clone(),
                })
            } else {
                Ok(())
            }
        };
        let count = |what, found, most| {
            if (1..=most).contains(&found) {
                Ok(())
            } else {
                Err(SchemaError::Count {
                    table: table(),
                    what,
                    found,
                    most,
                })
            }
        };
        named(&self.schema)?;
        named(&self.name)?;
        count("columns", self.columns.len(), COLUMNS_MAX)?;
        for (position, column) in self.columns.iter().enumerate() {
            named(&column.name)?;
            if self.position(&column.name) != Some(position) {
                return Err(SchemaError::Twice {
                    table: table(),
                    what: "column",
                    name: column.name.clone(),
                });
            }
            if let Type::Decimal { precision, scale } = column.data_type
                && !((1..=DIGITS_MAX).contains(&precision) && scale <= precision)
            {
                return Err(SchemaError::Decimal {
                    table: table(),
                    column: column.name.clone(),
                });
            }
        }
        let bytes = self
            .columns
            .iter()
            .map(|column| column.data_type.fixed_bytes().unwrap_or(0) + 5)
            .sum();
        if bytes > ROW_BYTES_MAX {
            return Err(SchemaError::LongRow {
                table: table(),
                bytes,
            });
        }
        for column in &self.columns {
            column.check_default().map_err(|source| SchemaError::Default {
                table: table(),
                source,
            })?;
        }
        if let Some(primary) = self.primary_key_index() {
            for position in self.positions(primary)? {
                if self.columns[position].nullable {
                    return Err(SchemaError::NullablePrimaryKey {
                        table: table(),
                        column: self.columns[position].name.clone(),
                    });
                }
            }
        }
        if !self.indexes.is_empty() {
            count("indexes", self.indexes.len(), INDEXES_MAX)?;
        }
        for (position, index) in self.indexes.iter().enumerate() {
            named(&index.name)?;
            if self.indexes.iter().position(|known| known.name == index.name) != Some(position) {
                return Err(SchemaError::Twice {
                    table: table(),
                    what: "index",
                    name: index.name.clone(),
                });
            }
            if position > 0 && index.name == PRIMARY {
                return Err(SchemaError::Primary { table: table() });
            }
            count("columns of an index", index.columns.len(), COLUMNS_MAX)?;
            self.positions(index)?;
        }
        self.check_constraints()
    }
}

impl IndexDef {
    fn new(name: &str, columns: &[&str], unique: bool) -> Self {
        IndexDef {
            name: name.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            unique,
        }
    }
}
