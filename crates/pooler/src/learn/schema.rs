//! [`Schema`]: tables of a database, their columns that may have keys, and which columns refer to which.

use crate::config::KeyType;
use crate::split::{qualified, quoted_name};

/// Tables named in one remark.
const NAMED_MAX: usize = 10;

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
    /// The account may not read it, so that pg_stats shows nothing of it.
    pub unreadable: bool,
    /// The account may not use its schema.
    pub out_of_reach: bool,
    pub columns: Vec<Column>,
}

impl Table {
    fn is_closed(&self) -> bool {
        self.unreadable || self.out_of_reach
    }
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
    /// Tables of which the account sees nothing, and the grants it lacks; `None` where it reads all.
    pub fn lacks(&self, user: &str) -> Option<String> {
        let closed: Vec<&Table> = self.tables.iter().filter(|table| table.is_closed()).collect();
        let named = &closed[..closed.len().min(NAMED_MAX)];
        let list = |of: &dyn Fn(&Table) -> Option<String>| -> String {
            let mut names: Vec<String> = Vec::new();
            for name in named.iter().filter_map(|table| of(table)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names.join(", ")
        };
        let tables = list(&|table| Some(format!("{}.{}", table.schema, table.name)));
        let schemas = list(&|table| table.out_of_reach.then(|| quoted_name(&table.schema)));
        let unreadable = list(&|table| {
            table
                .unreadable
                .then(|| qualified(Some(&table.schema), &table.name))
        });
        if tables.is_empty() {
            return None;
        }
        let more = match closed.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let grants = [("USAGE ON SCHEMA", schemas), ("SELECT ON", unreadable)];
        let grants: Vec<String> = grants
            .into_iter()
            .filter(|(_, of)| !of.is_empty())
            .map(|(what, of)| format!("GRANT {what} {of} TO {}", quoted_name(user)))
            .collect();
        Some(format!(
            "{user} may not read {tables}{more}, so nothing is known of the keys there; {}",
            grants.join("; ")
        ))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacked_is_named() {
        let table = |name: &str, unreadable, out_of_reach| Table {
            schema: "s".to_owned(),
            name: name.to_owned(),
            unreadable,
            out_of_reach,
            ..Table::default()
        };
        let mut schema = Schema::default();
        schema.tables.push(table("a", false, false));
        assert_eq!(schema.lacks("me"), None);
        schema
            .tables
            .extend([table("b", true, true), table("c", false, true)]);
        assert_eq!(
            schema.lacks("me").as_deref(),
            Some(
                "me may not read s.b, s.c, so nothing is known of the keys there; GRANT USAGE ON SCHEMA \"s\" TO \"me\"; \
                 GRANT SELECT ON \"s\".\"b\" TO \"me\""
            )
        );
        schema.tables.extend((0..20).map(|_| table("d", true, false)));
        assert!(
            schema
                .lacks("me")
                .is_some_and(|text| text.contains(" and 12 more, "))
        );
    }
}
