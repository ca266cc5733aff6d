//! [`ForeignKeyDef`] and [`CheckDef`]: what a table's definition says of rows beside the types of their columns.
//!
//! What it is not: whether the table that a foreign key refers to has the columns and the index. The store knows that
//! (`foreign_key/link.rs`).

use super::{PUBLIC, QualifiedName, SchemaError, TableDef};
use crate::codec::{Reader, put_number, put_text};

/// Most constraints of a table: foreign keys and checks together.
pub const CONSTRAINTS_MAX: usize = 256;
/// Most bytes of a check's text.
pub const CHECK_BYTES_MAX: usize = 64 << 10;

/// What becomes of the rows that refer to a row when that is deleted, or when its key changes.
///
/// `NoAction` and `Restrict` differ in when they look: `Restrict` at once, `NoAction` at the end of the operation, when cascades of other
/// foreign keys may have taken the rows away, or later, after
/// [`Transaction::defer_foreign_keys`](crate::Transaction::defer_foreign_keys).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReferentialAction {
    /// Refused if there are any at the end of the operation.
    #[default]
    NoAction,
    /// Refused if there are any.
    Restrict,
    /// They are deleted, or get the new key.
    Cascade,
    /// Their columns become NULL.
    SetNull,
}

/// A foreign key: the rows of a table refer to rows of another, or of the same.
///
/// ```
/// use corun_store::{ForeignKeyDef, ReferentialAction, TableDef, Type};
///
/// let key = ForeignKeyDef::new("by_customer", &["customer_id"], "customer", &["id"]).on_delete(ReferentialAction::Cascade);
/// let orders = TableDef::new("orders")
///     .column("id", Type::I64)
///     .nullable("customer_id", Type::I64)
///     .primary_key(&["id"])
///     .with_foreign_key(key);
/// assert!(orders.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyDef {
    /// Its name, unique among the constraints of its table.
    pub name: String,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The schema of the table they refer to.
    pub schema: String,
    /// That table.
    pub table: String,
    /// Its columns, as many as `columns`, of their types (texts and bytes of any length): all those of a unique index, in any order.
    pub referenced: Vec<String>,
    /// What happens when a row that is referred to is deleted.
    pub on_delete: ReferentialAction,
    /// What happens when its key changes.
    pub on_update: ReferentialAction,
}

impl ForeignKeyDef {
    /// Of columns that refer to those of a table in the schema `public`; without actions.
    pub fn new(name: &str, columns: &[&str], table: &str, referenced: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ForeignKeyDef {
            name: name.to_owned(),
            columns: owned(columns),
            schema: PUBLIC.to_owned(),
            table: table.to_owned(),
            referenced: owned(referenced),
            on_delete: ReferentialAction::NoAction,
            on_update: ReferentialAction::NoAction,
        }
    }

    /// It refers to a table in this schema.
    #[must_use]
    pub fn in_schema(self, schema: &str) -> Self {
        ForeignKeyDef {
            schema: schema.to_owned(),
            ..self
        }
    }

    /// What happens when a row that is referred to is deleted.
    #[must_use]
    pub fn on_delete(self, action: ReferentialAction) -> Self {
        ForeignKeyDef {
            on_delete: action,
            ..self
        }
    }

    /// What happens when its key changes.
    #[must_use]
    pub fn on_update(self, action: ReferentialAction) -> Self {
        ForeignKeyDef {
            on_update: action,
            ..self
        }
    }

    /// The table it refers to.
    pub(crate) fn parent(&self) -> QualifiedName {
        QualifiedName::new(&self.schema, &self.table)
    }

    /// What speaks against it, whatever the table it refers to.
    fn refused(&self, table: &TableDef) -> Option<String> {
        let twice = |names: &[String]| (1..names.len()).find(|&at| names[..at].contains(&names[at]));
        if self.columns.is_empty() {
            return Some("it has no columns".to_owned());
        }
        if self.columns.len() != self.referenced.len() {
            return Some(format!(
                "number of referencing and referenced columns for foreign key disagree: {} and {}",
                self.columns.len(),
                self.referenced.len()
            ));
        }
        if let Some(column) = self
            .columns
            .iter()
            .find(|column| table.position(column).is_none())
        {
            return Some(format!(
                "there is no column {column:?} in table {:?}",
                table.shown_name()
            ));
        }
        let again = twice(&self.columns).map(|at| &self.columns[at]);
        let again = again.or_else(|| twice(&self.referenced).map(|at| &self.referenced[at]));
        again.map(|column| format!("column {column:?} is there twice"))
    }
}

/// A condition that all rows of a table fulfil. The store keeps its text, and nothing more: who writes rows evaluates it before, as the SQL
/// layer does. Rows that change by the cascade of a foreign key are not shown to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDef {
    /// Its name, unique among the constraints of its table.
    pub name: String,
    /// The condition, in the language of who evaluates it.
    pub text: String,
}

impl CheckDef {
    /// Of a condition.
    pub fn new(name: &str, text: &str) -> Self {
        CheckDef {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }
}

impl TableDef {
    /// Adds a foreign key to a table in the schema `public` that refuses what would leave rows without the row they refer to. With other
    /// actions, or to another schema: [`TableDef::with_foreign_key`].
    #[must_use]
    pub fn foreign_key(self, name: &str, columns: &[&str], table: &str, referenced: &[&str]) -> Self {
        self.with_foreign_key(ForeignKeyDef::new(name, columns, table, referenced))
    }

    /// Adds a foreign key.
    #[must_use]
    pub fn with_foreign_key(mut self, key: ForeignKeyDef) -> Self {
        self.foreign_keys.push(key);
        self
    }

    /// Adds a condition that rows fulfil, which the store keeps and does not evaluate: see [`CheckDef`].
    #[must_use]
    pub fn check_constraint(mut self, name: &str, text: &str) -> Self {
        self.checks.push(CheckDef::new(name, text));
        self
    }

    /// The names of its constraints.
    fn constraints(&self) -> impl Iterator<Item = &String> {
        let keys = self.foreign_keys.iter().map(|key| &key.name);
        keys.chain(self.checks.iter().map(|check| &check.name))
    }

    /// Whether it has a constraint of this name.
    pub(crate) fn has_constraint(&self, name: &str) -> bool {
        self.constraints().any(|known| known == name)
    }

    /// Takes a constraint away. False if it has none of this name.
    pub(crate) fn remove_constraint(&mut self, name: &str) -> bool {
        let had = self.has_constraint(name);
        self.foreign_keys.retain(|key| key.name != name);
        self.checks.retain(|check| check.name != name);
        had
    }

    pub(super) fn check_constraints(&self) -> Result<(), SchemaError> {
        let refused = |constraint: &str, why: String| SchemaError::Constraint {
            table: self.shown_name(),
            constraint: constraint.to_owned(),
            why,
        };
        let names: Vec<&String> = self.constraints().collect();
        if let Some(name) = names.get(CONSTRAINTS_MAX) {
            return Err(refused(
                name,
                format!("a table has at most {CONSTRAINTS_MAX} constraints"),
            ));
        }
        for (at, name) in names.iter().enumerate() {
            if name.is_empty() || name.len() > 255 {
                return Err(refused(
                    name,
                    "its name is empty or longer than 255 bytes".to_owned(),
                ));
            }
            if names[..at].contains(name) {
                return Err(refused(
                    name,
                    "the table has two constraints of this name".to_owned(),
                ));
            }
        }
        for key in &self.foreign_keys {
            if let Some(why) = key.refused(self) {
                return Err(refused(&key.name, why));
            }
        }
        match self
            .checks
            .iter()
            .find(|check| check.text.is_empty() || check.text.len() > CHECK_BYTES_MAX)
        {
            None => Ok(()),
            Some(check) => Err(refused(
                &check.name,
                format!("its text is empty or longer than {CHECK_BYTES_MAX} bytes"),
            )),
        }
    }

    /// The first difference of its constraints to those of `wanted`, whose order does not matter.
    pub(super) fn constraints_difference(&self, wanted: &TableDef) -> Option<String> {
        for key in &wanted.foreign_keys {
            match self.foreign_keys.iter().find(|known| known.name == key.name) {
                None => return Some(format!("it has no foreign key {:?}", key.name)),
                Some(known) if known != key => {
                    return Some(format!("foreign key {:?} is another", key.name));
                }
                Some(_) => {}
            }
        }
        for check in &wanted.checks {
            match self.checks.iter().find(|known| known.name == check.name) {
                None => return Some(format!("it has no check {:?}", check.name)),
                Some(known) if known != check => {
                    return Some(format!(
                        "check {:?} is {:?}, not {:?}",
                        check.name, known.text, check.text
                    ));
                }
                Some(_) => {}
            }
        }
        let more = self.constraints().find(|name| !wanted.has_constraint(name));
        more.map(|name| format!("it has another constraint {name:?}"))
    }
}

fn put_action(bytes: &mut Vec<u8>, action: ReferentialAction) {
    bytes.push(match action {
        ReferentialAction::NoAction => 0,
        ReferentialAction::Restrict => 1,
        ReferentialAction::Cascade => 2,
        ReferentialAction::SetNull => 3,
    });
}

fn read_action(reader: &mut Reader<'_>) -> Option<ReferentialAction> {
    Some(match reader.byte()? {
        0 => ReferentialAction::NoAction,
        1 => ReferentialAction::Restrict,
        2 => ReferentialAction::Cascade,
        3 => ReferentialAction::SetNull,
        _ => return None,
    })
}

fn put_names(bytes: &mut Vec<u8>, names: &[String]) {
    put_number(bytes, names.len() as u64);
    names.iter().for_each(|name| put_text(bytes, name));
}

/// Appends a foreign key.
pub(crate) fn put_foreign_key(bytes: &mut Vec<u8>, key: &ForeignKeyDef) {
    put_text(bytes, &key.name);
    put_names(bytes, &key.columns);
    put_text(bytes, &key.schema);
    put_text(bytes, &key.table);
    put_names(bytes, &key.referenced);
    put_action(bytes, key.on_delete);
    put_action(bytes, key.on_update);
}

/// Reads a foreign key.
pub(crate) fn read_foreign_key(reader: &mut Reader<'_>) -> Option<ForeignKeyDef> {
    Some(ForeignKeyDef {
        name: reader.text()?,
        columns: reader.list(Reader::text)?,
        schema: reader.text()?,
        table: reader.text()?,
        referenced: reader.list(Reader::text)?,
        on_delete: read_action(reader)?,
        on_update: read_action(reader)?,
    })
}

/// Appends a check.
pub(crate) fn put_check(bytes: &mut Vec<u8>, check: &CheckDef) {
    put_text(bytes, &check.name);
    put_text(bytes, &check.text);
}

/// Reads a check.
pub(crate) fn read_check(reader: &mut Reader<'_>) -> Option<CheckDef> {
    Some(CheckDef {
        name: reader.text()?,
        text: reader.text()?,
    })
}

/// Appends what a definition has beside columns and indexes: its schema and constraints.
pub(crate) fn put_rest(bytes: &mut Vec<u8>, table: &TableDef) {
    put_text(bytes, &table.schema);
    put_number(bytes, table.foreign_keys.len() as u64);
    table
        .foreign_keys
        .iter()
        .for_each(|key| put_foreign_key(bytes, key));
    put_number(bytes, table.checks.len() as u64);
    table.checks.iter().for_each(|check| put_check(bytes, check));
}

/// Reads that into a definition; one that no table can be made of is none.
pub(crate) fn read_rest(reader: &mut Reader<'_>, table: TableDef) -> Option<TableDef> {
    let table = TableDef {
        schema: reader.text()?,
        foreign_keys: reader.list(read_foreign_key)?,
        checks: reader.list(read_check)?,
        ..table
    };
    table.check().is_ok().then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Type;

    fn definition() -> TableDef {
        TableDef::new("orders")
            .in_schema("sales")
            .column("id", Type::I64)
            .nullable("customer", Type::I64)
            .primary_key(&["id"])
            .with_foreign_key(
                ForeignKeyDef::new("a", &["customer", "id"], "customer", &["x", "y"])
                    .in_schema("crm")
                    .on_delete(ReferentialAction::Cascade)
                    .on_update(ReferentialAction::SetNull),
            )
            .foreign_key("b", &["customer"], "customer", &["id"])
            .check_constraint("c", "id > 0")
    }

    #[test]
    fn constraints_come_back_and_nonsense_does_not() {
        let table = definition();
        let mut bytes = Vec::new();
        put_rest(&mut bytes, &table);
        let plain = || TableDef {
            schema: PUBLIC.to_owned(),
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            ..table.clone()
        };
        assert_eq!(read_rest(&mut Reader::new(&bytes), plain()), Some(table.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(read_rest(&mut Reader::new(&bytes[..cut]), plain()), None);
        }
    }

    #[test]
    fn each_difference_is_said() {
        let table = definition();
        assert_eq!(table.constraints_difference(&definition()), None);
        let without = |name: &str| {
            let mut other = definition();
            assert!(other.remove_constraint(name));
            other
        };
        assert_eq!(
            table.constraints_difference(&without("b")).as_deref(),
            Some("it has another constraint \"b\"")
        );
        assert_eq!(
            without("b").constraints_difference(&table).as_deref(),
            Some("it has no foreign key \"b\"")
        );
        assert_eq!(
            without("c").constraints_difference(&table).as_deref(),
            Some("it has no check \"c\"")
        );
        assert_eq!(
            table
                .constraints_difference(&without("c").check_constraint("c", "id > 1"))
                .as_deref(),
            Some("check \"c\" is \"id > 0\", not \"id > 1\"")
        );
        let other = without("b").foreign_key("b", &["customer"], "customer", &["x"]);
        assert_eq!(
            table.constraints_difference(&other).as_deref(),
            Some("foreign key \"b\" is another")
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let plain = || TableDef::new("t").column("a", Type::I64).column("b", Type::I64);
        let refused = |table: TableDef| table.check().unwrap_err().to_string();
        assert_eq!(
            refused(plain().foreign_key("f", &[], "p", &[])),
            "table \"t\", constraint \"f\": it has no columns"
        );
        assert!(refused(plain().foreign_key("f", &["a"], "p", &["x", "y"])).contains("disagree: 1 and 2"));
        assert!(refused(plain().foreign_key("f", &["z"], "p", &["x"])).contains("there is no column \"z\""));
        assert!(
            refused(plain().foreign_key("f", &["a", "a"], "p", &["x", "y"])).contains("\"a\" is there twice")
        );
        assert!(
            refused(plain().foreign_key("f", &["a", "b"], "p", &["x", "x"])).contains("\"x\" is there twice")
        );
        assert!(refused(plain().foreign_key("", &["a"], "p", &["x"])).contains("name is empty"));
        let twice = plain()
            .foreign_key("f", &["a"], "p", &["x"])
            .check_constraint("f", "a > 0");
        assert!(refused(twice).contains("two constraints of this name"));
        assert!(refused(plain().check_constraint("c", "")).contains("its text is empty"));
        let many = (0..=CONSTRAINTS_MAX).fold(plain(), |table, at| {
            table.check_constraint(&format!("c{at}"), "a > 0")
        });
        assert!(refused(many).contains("at most 256 constraints"));
        assert!(refused(plain().in_schema("")).contains("is empty"));
    }
}
