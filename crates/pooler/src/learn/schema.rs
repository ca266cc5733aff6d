//! [`Schema`]: tables of a database, their columns that may have keys, and which columns refer to which.

use crate::config::KeyType;

/// What the catalog says.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    /// The largest first.
    pub tables: Vec<Table>,
    /// Pairs of columns that a foreign key makes equal: the one that refers, and the one referred to.
    pub references: Vec<(Place, Place)>,
}

/// A table, its partitions counted in.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub schema: String,
    pub name: String,
    /// Found without naming its schema.
    pub visible: bool,
    pub rows: u64,
    /// With indexes.
    pub bytes: u64,
    pub columns: Vec<Column>,
}

/// A column.
#[derive(Clone, Debug, Default)]
pub(super) struct Column {
    pub name: String,
    /// What keys it may have.
    pub kind: Option<KeyType>,
    /// Its moments have a time zone.
    pub zoned: bool,
    /// An index of the whole table begins with it.
    pub leads: bool,
    /// It is the primary key, alone.
    pub alone: bool,
}

/// A column of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub table: usize,
    pub column: usize,
}

impl Schema {
    pub fn table(&self, place: Place) -> &Table {
        &self.tables[place.table]
    }

    pub fn column(&self, place: Place) -> &Column {
        &self.tables[place.table].columns[place.column]
    }

    /// All columns.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.tables
            .iter()
            .enumerate()
            .flat_map(|(table, found)| (0..found.columns.len()).map(move |column| Place { table, column }))
    }

    /// The table that a text means by these names.
    pub fn find(&self, schema: Option<&str>, name: &str) -> Option<usize> {
        let is_meant = |table: &Table| schema.map_or(table.visible, |schema| table.schema == schema);
        self.tables
            .iter()
            .position(|table| table.name == name && is_meant(table))
    }

    /// A column of a table.
    pub fn column_of(&self, table: usize, name: &str) -> Option<Place> {
        let columns = &self.tables.get(table)?.columns;
        let column = columns.iter().position(|column| column.name == name)?;
        Some(Place { table, column })
    }

    /// `table.column`, or with the schema where the table is not found without. `None`: the configuration cannot name it.
    pub fn shown(&self, place: Place) -> Option<String> {
        let (table, column) = (self.table(place), self.column(place));
        let names = [&table.schema, &table.name, &column.name].map(String::as_str);
        let nameable = |name: &&str| !name.contains('.') && name.trim() == *name;
        let unneeded = usize::from(table.visible);
        names.iter().all(nameable).then(|| names[unneeded..].join("."))
    }
}

/// What keys a type of PostgreSQL's, by its number, has, and whether it has a time zone.
pub(super) fn key_type(oid: u32) -> Option<(KeyType, bool)> {
    Some(match oid {
        20 | 21 | 23 => (KeyType::Integer, false),
        1082 => (KeyType::Date, false),
        1114 => (KeyType::Timestamp, false),
        1184 => (KeyType::Timestamp, true),
        25 | 1043 => (KeyType::Text, false),
        2950 => (KeyType::Uuid, false),
        _ => return None,
    })
}
