//! What the configuration says of keys: the columns that have them, and the map of a range (paper 004, section 2).
//!
//! Not here: keys of statements (`understand::keys`), and what event loops do with them (`core::dispatch`).

use std::collections::BTreeSet;

use corun_model::pooler::ranges::Map;

use crate::config::{KeyType, Range};
use crate::understand::keys::{KeyKind, key_of_text};

/// A column that has keys: of a range, or the one a query is split by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Column {
    /// Schema of the table; `None`: where the search path finds it.
    pub schema: Option<String>,
    /// Table, as the catalog writes it.
    pub table: String,
    /// Column, as the catalog writes it.
    pub column: String,
}

impl Column {
    /// `table.column` or `schema.table.column`.
    pub fn parse(text: &str) -> Option<Column> {
        let parts: Vec<&str> = text.split('.').map(str::trim).collect();
        let (schema, table, column) = match parts.as_slice() {
            [table, column] => (None, *table, *column),
            [schema, table, column] => (Some((*schema).into()), *table, *column),
            _ => return None,
        };
        (!table.is_empty() && !column.is_empty()).then(|| Column {
            schema,
            table: table.into(),
            column: column.into(),
        })
    }

    /// Whether a text that names a column so may mean this one.
    pub fn is(&self, schema: Option<&str>, table: &str, column: &str) -> bool {
        let schemas = match (self.schema.as_deref(), schema) {
            (Some(own), Some(named)) => own == named,
            _ => true,
        };
        schemas && self.table == table && self.column == column
    }
}

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        write!(f, "{}.{}", self.table, self.column)
    }
}

/// A column and those that pairs of equal columns make equal to it.
pub fn class_of<T: Copy + Ord>(column: T, equal: &[(T, T)]) -> BTreeSet<T> {
    let mut class = BTreeSet::from([column]);
    loop {
        let before = class.len();
        for (one, other) in equal {
            if class.contains(one) || class.contains(other) {
                class.extend([*one, *other]);
            }
        }
        if class.len() == before {
            return class;
        }
    }
}

/// What keys of a type are to the model.
pub fn kind_of(key_type: KeyType) -> KeyKind {
    match key_type {
        KeyType::Integer => KeyKind::Integer,
        KeyType::Date => KeyKind::Date,
        KeyType::Timestamp => KeyKind::Timestamp,
        KeyType::Text => KeyKind::Text,
        KeyType::Uuid => KeyKind::Uuid,
    }
}

/// The map that a range's settings describe, for this many workers.
///
/// # Errors
/// What is wrong with the settings, and the key they stand behind.
pub fn map_of(range: &Range, owners: usize) -> Result<Map, (&'static str, String)> {
    let kind = kind_of(range.key_type);
    let key = |name: &'static str, text: &str| {
        key_of_text(kind, text.as_bytes()).ok_or_else(|| {
            (
                name,
                format!("`{text}` is no key of type {}", range.key_type.word()),
            )
        })
    };
    if !range.splits.is_empty() {
        let splits = range
            .splits
            .iter()
            .map(|split| key("splits", &split.0))
            .collect::<Result<Vec<i64>, _>>()?;
        return Map::of_splits(&splits, owners).map_err(|error| ("splits", error.to_string()));
    }
    match (&range.minimum, &range.maximum) {
        (Some(minimum), Some(maximum)) => {
            let (minimum, maximum) = (key("minimum", &minimum.0)?, key("maximum", &maximum.0)?);
            if minimum >= maximum {
                return Err(("minimum", "`minimum` is not below `maximum`".to_owned()));
            }
            let buckets = (range.buckets as usize).max(owners);
            Map::even(minimum, maximum, buckets, owners).map_err(|error| ("buckets", error.to_string()))
        }
        _ => Err((
            "splits",
            "neither `splits` nor `minimum` and `maximum` say where to cut".to_owned(),
        )),
    }
}
