//! [`Dictionary`]: what PostgreSQL's clients know of tables and the store's own definitions do not tell: declared types, defaults that are
//! expressions, identity, names of constraints, comments.
//!
//! ```text
//!   corun.columns: schema, table, name (of a column, an index, a constraint; "": the table) and property ─► value
//! ```
//!
//! What the store tells is not here twice: a table that was made without SQL has no entries at all. The dictionary's tables are made at the
//! first need, in a transaction of their own: they are empty then, and no client's transaction has to wait for another that makes them.
//! Entries are written in the client's transaction, with the definitions that they belong to.
//!
//! Order of calls: [`Dictionary::make`], [`Dictionary::of`] within each transaction, then its changes; [`describe`] for readers. What it is
//! not: limits of sequences, which belong to no transaction ([`super::sequences`]).

use super::column::{Column, ColumnDefault, Declared, Identity, Notes, TableInfo};
use super::types::declared;
use crate::session::refusal_of;
use corun_store::{
    Direction, Found, Index, IndexDef, KeyError, KeyRange, Lock, Rid, RowRef, Snapshot, Store, StoreError,
    Table, TableDef, Transaction, Type, Value,
};
use corun_wire::error::Refusal;
use std::collections::BTreeMap;

/// The schema of the dictionary's tables.
pub(crate) const SCHEMA: &str = "corun";
const COLUMNS: &str = "columns";
pub(super) const SEQUENCES: &str = "sequences";
/// The store's name for the index of a primary key that a table was made with.
const PRIMARY: &str = "primary";
/// Bytes of a name.
const NAME: Type = Type::Text { max: 255 };
const PROPERTY: Type = Type::Text { max: 32 };

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Property {
    /// A column's declared type.
    Type,
    /// A column's default: SQL.
    Default,
    /// `always` or `by default`.
    Identity,
    /// The sequence that a column owns, as SQL names it.
    Sequence,
    /// The name is that of the primary key's constraint, the value its index in the store.
    PrimaryKey,
    /// The name is that of a unique index that is a constraint.
    Unique,
    /// The name is that of a foreign key that may be deferred; whether it is at once: `deferred` or `immediate`.
    Deferrable,
    /// A column's or the table's.
    Comment,
    ConstraintComment,
    IndexComment,
}

impl Property {
    const ALL: [Property; 10] = [
        Property::Type,
        Property::Default,
        Property::Identity,
        Property::Sequence,
        Property::PrimaryKey,
        Property::Unique,
        Property::Deferrable,
        Property::Comment,
        Property::ConstraintComment,
        Property::IndexComment,
    ];

    fn text(self) -> &'static str {
        match self {
            Property::Type => "type",
            Property::Default => "default",
            Property::Identity => "identity",
            Property::Sequence => "sequence",
            Property::PrimaryKey => "primary key",
            Property::Unique => "unique",
            Property::Deferrable => "deferrable",
            Property::Comment => "comment",
            Property::ConstraintComment => "constraint comment",
            Property::IndexComment => "index comment",
        }
    }

    fn of(text: &str) -> Option<Property> {
        Self::ALL.into_iter().find(|known| known.text() == text)
    }

    /// Whether the entry goes with its column, and not with an index or a constraint.
    pub(crate) fn is_of_column(self) -> bool {
        !matches!(
            self,
            Property::PrimaryKey
                | Property::Unique
                | Property::Deferrable
                | Property::ConstraintComment
                | Property::IndexComment
        )
    }
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) property: Property,
    pub(crate) value: String,
}

impl Entry {
    /// None: of a later version, or damaged.
    fn read(row: RowRef<'_>) -> Option<Entry> {
        let text = |column: &str| row.get::<&str>(column).ok().map(str::to_owned);
        Some(Entry {
            schema: text("schema")?,
            table: text("table")?,
            name: text("name")?,
            property: Property::of(&text("property")?)?,
            value: text("value")?,
        })
    }
}

/// The dictionary within a transaction.
pub(crate) struct Dictionary {
    table: Table,
    by_key: Index,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dictionary")
    }
}

type Result<T, E = StoreError> = std::result::Result<T, E>;

impl Dictionary {
    /// Makes the dictionary's tables where they are not there yet. They are on disk when this returns.
    ///
    /// # Errors
    /// Those of the log; tables of these names that somebody else has made.
    pub(crate) fn make(store: &Store) -> Result<()> {
        if store.table_in(SCHEMA, COLUMNS).is_ok() && store.table_in(SCHEMA, SEQUENCES).is_ok() {
            return Ok(());
        }
        let mut columns = TableDef::new(COLUMNS).in_schema(SCHEMA);
        for (name, of) in [
            ("schema", NAME),
            ("table", NAME),
            ("name", NAME),
            ("property", PROPERTY),
        ] {
            columns = columns.column(name, of);
        }
        let columns = columns.column("value", Type::TEXT);
        let columns = columns.primary_key(&["schema", "table", "name", "property"]);
        let sequences = TableDef::new(SEQUENCES)
            .in_schema(SCHEMA)
            .column("schema", NAME)
            .column("name", NAME)
            .column("minimum", Type::I64)
            .column("maximum", Type::I64)
            .column("cycles", Type::Bool)
            .column("type", PROPERTY)
            .primary_key(&["schema", "name"]);
        let mut session = store.session_here()?;
        session.run(|transaction| {
            match transaction.create_schema(SCHEMA) {
                Ok(()) | Err(StoreError::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
            transaction.create_table_if_missing(columns.clone())?;
            transaction.create_table_if_missing(sequences.clone()).map(drop)
        })
    }

    /// The dictionary; none of a store that has none yet.
    ///
    /// # Errors
    /// A store that is closed.
    pub(crate) fn of(transaction: &Transaction<'_>) -> Result<Option<Dictionary>> {
        let table = match transaction.table_in(SCHEMA, COLUMNS) {
            Ok(table) => table,
            Err(StoreError::NoTable { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let by_key = table.primary_key();
        Ok(by_key.map(|by_key| Dictionary { table, by_key }))
    }

    /// All entries there are, as the transaction sees them.
    ///
    /// # Errors
    /// Too many snapshots.
    pub(crate) fn entries(&self, transaction: &Transaction<'_>) -> Result<Vec<Entry>> {
        let snapshot = transaction.snapshot()?;
        let rows = snapshot.rows(&self.table, 0..self.table.rid_end())?;
        Ok(rows.filter_map(|found| Entry::read(found.row)).collect())
    }

    /// Makes an entry, or gives it another value.
    ///
    /// # Errors
    /// Locks that are not granted; names that are too long.
    pub(crate) fn put(&self, transaction: &Transaction<'_>, entry: &Entry) -> Result<()> {
        let mut row = self.table.new_row();
        row.set("schema", entry.schema.as_str())?;
        row.set("table", entry.table.as_str())?;
        row.set("name", entry.name.as_str())?;
        row.set("property", entry.property.text())?;
        row.set("value", entry.value.as_str())?;
        transaction.upsert(&self.table, &row).map(drop)
    }

    /// Takes the entries of a table away that are to go.
    ///
    /// # Errors
    /// Locks that are not granted.
    pub(crate) fn remove(
        &self,
        transaction: &Transaction<'_>,
        (schema, table): (&str, &str),
        goes: impl Fn(&Entry) -> bool,
    ) -> Result<()> {
        for (rid, entry) in self.of_table(transaction, schema, table)? {
            if goes(&entry) {
                transaction.delete(&self.table, rid)?;
            }
        }
        Ok(())
    }

    /// Changes the entries of a table; `change` says what becomes of each, `None`: it stays.
    ///
    /// # Errors
    /// Locks that are not granted.
    pub(crate) fn change(
        &self,
        transaction: &Transaction<'_>,
        (schema, table): (&str, &str),
        change: impl Fn(&Entry) -> Option<Entry>,
    ) -> Result<()> {
        for (rid, entry) in self.of_table(transaction, schema, table)? {
            if let Some(changed) = change(&entry) {
                transaction.delete(&self.table, rid)?;
                self.put(transaction, &changed)?;
            }
        }
        Ok(())
    }

    fn of_table(
        &self,
        transaction: &Transaction<'_>,
        schema: &str,
        table: &str,
    ) -> Result<Vec<(Rid, Entry)>> {
        let range = range(&self.by_key, schema, table)?;
        let mut scan = transaction.scan(&self.by_key, &range, Direction::Ascending, Lock::Exclusive)?;
        let mut entries = Vec::new();
        while let Some(Found { rid, row }) = scan.next()? {
            entries.extend(Entry::read(row).map(|entry| (rid, entry)));
        }
        Ok(entries)
    }
}

fn range(by_key: &Index, schema: &str, table: &str) -> Result<KeyRange, KeyError> {
    by_key.prefix(&[Value::Text(schema), Value::Text(table)])
}

/// A table with what PostgreSQL's clients know of it, as a snapshot shows the dictionary; without one, the store's definition says all.
///
/// # Errors
/// A dictionary that cannot be read.
pub(crate) fn describe(
    snapshot: &Snapshot,
    dictionary: Option<&Table>,
    table: &Table,
) -> std::result::Result<TableInfo, Refusal> {
    let failed = |error: StoreError| refusal_of(&error);
    let entries = match dictionary {
        Some(dictionary) => entries_of(snapshot, dictionary, table).map_err(failed)?,
        None => Vec::new(),
    };
    Ok(described(table, entries))
}

fn entries_of(snapshot: &Snapshot, dictionary: &Table, table: &Table) -> Result<Vec<Entry>> {
    let (schema, name) = (table.schema(), table.name());
    let Some(by_key) = dictionary.primary_key() else {
        return Ok(Vec::new());
    };
    let range = range(&by_key, schema, name)?;
    match snapshot.scan(&by_key, &range, Direction::Ascending) {
        Ok(scan) => Ok(scan.filter_map(|found| Entry::read(found.row)).collect()),
        // The dictionary was made after the snapshot. Its transaction's own entries are there all the same.
        Err(StoreError::IndexUnusable { .. }) => {
            let rows = snapshot.rows(dictionary, 0..dictionary.rid_end())?;
            let entries = rows.filter_map(|found| Entry::read(found.row));
            Ok(entries
                .filter(|entry| entry.schema == schema && entry.table == name)
                .collect())
        }
        Err(error) => Err(error),
    }
}

/// A foreign key that may be deferred, and whether it is at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deferrable {
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) initially: bool,
}

/// All foreign keys that may be deferred; none, where there is no dictionary.
///
/// # Errors
/// Too many snapshots.
pub(crate) fn deferrable(
    dictionary: Result<Table>,
    snapshot: impl FnOnce() -> Result<Snapshot>,
) -> Result<Vec<Deferrable>> {
    let dictionary = match dictionary {
        Ok(dictionary) => dictionary,
        Err(StoreError::NoTable { .. } | StoreError::NoSchema { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let snapshot = snapshot()?;
    let rows = snapshot.rows(&dictionary, 0..dictionary.rid_end())?;
    let entries = rows.filter_map(|found| Entry::read(found.row));
    let of = |entry: Entry| Deferrable {
        schema: entry.schema,
        table: entry.table,
        name: entry.name,
        initially: entry.value == "deferred",
    };
    Ok(entries
        .filter(|entry| entry.property == Property::Deferrable)
        .map(of)
        .collect())
}

/// A table with what these entries, which are its own, say of it.
pub(crate) fn described(table: &Table, entries: Vec<Entry>) -> TableInfo {
    let definition = table.definition();
    let mut notes = Notes::default();
    let mut of_columns: BTreeMap<String, BTreeMap<Property, String>> = BTreeMap::new();
    for entry in entries {
        let Entry {
            name,
            property,
            value,
            ..
        } = entry;
        match property {
            Property::PrimaryKey => notes.primary_key = Some((name, value)),
            Property::Unique => notes.unique.push(name),
            Property::Deferrable => notes.deferrable.push((name, value == "deferred")),
            Property::Comment | Property::ConstraintComment | Property::IndexComment => {
                notes.comments.push((property, name, value));
            }
            Property::Sequence => {
                notes.sequences.push((name, value));
            }
            Property::Type | Property::Default | Property::Identity => {
                of_columns.entry(name).or_default().insert(property, value);
            }
        }
    }
    if notes.primary_key.is_none() && definition.primary_key_index().is_some() {
        notes.primary_key = Some((format!("{}_pkey", definition.name), PRIMARY.to_owned()));
    }
    let column = |of: &corun_store::ColumnDef| {
        let told = of_columns.get(&of.name);
        let told = |property| told.and_then(|told| told.get(&property)).map(String::as_str);
        let default = match (told(Property::Default), &of.default) {
            (Some(text), _) => ColumnDefault::Expression(text.to_owned()),
            (None, Some(constant)) => ColumnDefault::Constant(constant.clone()),
            (None, None) => ColumnDefault::None,
        };
        let identity = match told(Property::Identity) {
            Some("always") => Some(Identity::Always),
            Some(_) => Some(Identity::ByDefault),
            None => None,
        };
        Column {
            name: of.name.clone(),
            declared: told(Property::Type)
                .and_then(Declared::parse)
                .unwrap_or_else(|| declared(of.data_type)),
            stored: of.data_type,
            nullable: of.nullable,
            default,
            identity,
        }
    };
    TableInfo {
        schema: definition.schema.clone(),
        name: definition.name.clone(),
        table: table.clone(),
        columns: definition.columns.iter().map(column).collect(),
        definition,
        notes,
    }
}

impl TableInfo {
    /// The name that clients know an index by.
    pub(crate) fn shown_index<'i>(&'i self, index: &'i str) -> &'i str {
        match &self.notes.primary_key {
            Some((name, of)) if of == index => name,
            _ => index,
        }
    }

    /// The index that clients know by a name.
    pub(crate) fn index_shown(&self, name: &str) -> Option<&IndexDef> {
        let indexes = &mut self.definition.indexes.iter();
        indexes.find(|index| self.shown_index(&index.name) == name)
    }

    /// The index of the primary key, which need not be the store's.
    pub(crate) fn primary_index(&self) -> Option<&IndexDef> {
        let (_, of) = self.notes.primary_key.as_ref()?;
        self.definition.indexes.iter().find(|index| index.name == *of)
    }

    /// Whether an index of the store is a constraint for clients: of the primary key, or `UNIQUE`.
    pub(crate) fn is_constraint(&self, index: &str) -> bool {
        let primary = self.notes.primary_key.as_ref();
        primary.is_some_and(|(_, of)| of == index) || self.notes.unique.iter().any(|name| name == index)
    }

    /// Whether clients know a constraint of this name.
    pub(crate) fn has_constraint(&self, name: &str) -> bool {
        let (keys, checks) = (&self.definition.foreign_keys, &self.definition.checks);
        keys.iter().any(|key| key.name == name)
            || checks.iter().any(|check| check.name == name)
            || self
                .index_shown(name)
                .is_some_and(|index| self.is_constraint(&index.name))
    }

    /// The comment on a column, or, with an empty name, the table.
    pub(crate) fn comment(&self, name: &str) -> Option<&str> {
        self.comment_of(Property::Comment, name)
    }

    /// One of these.
    pub(crate) fn comment_of(&self, property: Property, name: &str) -> Option<&str> {
        let mut comments = self.notes.comments.iter();
        let found = comments.find(|(of, known, _)| *of == property && known == name);
        found.map(|(.., text)| text.as_str())
    }
}
