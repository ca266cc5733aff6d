//! [`DeferredKeys`]: foreign keys whose checks wait until their transaction commits.

use std::collections::HashMap;

/// See [`self`]. Keys are known by their names, so that who keeps such a list need not know when tables are made again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeferredKeys {
    /// Schemas and tables, by the names of the keys.
    tables: HashMap<String, Vec<(String, String)>>,
}

impl DeferredKeys {
    /// Adds the key of a table.
    pub fn insert(&mut self, schema: &str, table: &str, key: &str) {
        let tables = self.tables.entry(key.to_owned()).or_default();
        tables.push((schema.to_owned(), table.to_owned()));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether a key of a table is one.
    pub fn has(&self, schema: &str, table: &str, key: &str) -> bool {
        let tables = self.tables.get(key);
        tables.is_some_and(|tables| tables.iter().any(|of| of.0 == schema && of.1 == table))
    }
}
