//! Columns and tables that get other names: what else of definitions names them.

use super::{ColumnDef, QualifiedName, TableDef};

/// Names by their place in `old` become those in `new`.
fn rename<'n>(names: impl Iterator<Item = &'n mut String>, old: &[ColumnDef], new: &[ColumnDef]) {
    for name in names {
        if let Some(at) = old.iter().position(|column| column.name == *name) {
            name.clone_from(&new[at].name);
        }
    }
}

impl TableDef {
    /// Gives it columns that are the same but for names and defaults, and the names to its indexes and foreign keys. The text of checks stays.
    pub(crate) fn rename_columns(&mut self, columns: Vec<ColumnDef>) {
        debug_assert_eq!(columns.len(), self.columns.len());
        let old = std::mem::replace(&mut self.columns, columns);
        let indexes = self.indexes.iter_mut().flat_map(|index| &mut index.columns);
        rename(indexes, &old, &self.columns);
        let keys = self.foreign_keys.iter_mut().flat_map(|key| &mut key.columns);
        rename(keys, &old, &self.columns);
        let (itself, new) = (self.qualified_name(), self.columns.clone());
        self.rename_referenced(&itself, &old, &new);
    }

    /// Columns of a table that its foreign keys may refer to have other names.
    pub(crate) fn rename_referenced(&mut self, parent: &QualifiedName, old: &[ColumnDef], new: &[ColumnDef]) {
        let keys = self.foreign_keys.iter_mut().filter(|key| key.parent() == *parent);
        rename(keys.flat_map(|key| &mut key.referenced), old, new);
    }

    /// A table that its foreign keys may refer to has another name.
    pub(crate) fn rename_parent(&mut self, from: &QualifiedName, to: &str) {
        let keys = self.foreign_keys.iter_mut().filter(|key| key.parent() == *from);
        keys.for_each(|key| to.clone_into(&mut key.table));
    }
}
