//! Which tables refer to which: found when a definition is made, and when a store is opened.
//!
//! ```text
//! references   may the definition's foreign keys be?  ─► the log has the definition ─► link, or unlink
//! ```
//!
//! The caller holds `defining`, and keeps others from writing rows of the tables.

use std::sync::Arc;

use super::ForeignKey;
use crate::error::{Result, StoreError};
use crate::index::IndexInner;
use crate::schema::{ForeignKeyDef, SchemaError, TableDef};
use crate::store::{Catalog, Store};
use crate::table::Table;
use crate::transaction::Lock;
use crate::value::Type;

/// Whether columns of these types can refer to each other: of one type, whatever the length.
fn alike(a: Type, b: Type) -> bool {
    match (a, b) {
        (Type::Text { .. }, Type::Text { .. }) | (Type::Bytes { .. }, Type::Bytes { .. }) => true,
        (a, b) => a == b,
    }
}

/// Whether two lists have the same columns, each of them once.
fn same_columns<T: PartialEq>(a: &[T], b: &[T]) -> bool {
    a.len() == b.len() && a.iter().all(|column| b.contains(column))
}

/// What speaks against a foreign key of `child` to `parent`.
fn refused(child: &TableDef, key: &ForeignKeyDef, parent: &TableDef) -> Option<String> {
    let name = parent.shown_name();
    for (column, referenced) in key.columns.iter().zip(&key.referenced) {
        let Some(at) = parent.position(referenced) else {
            return Some(format!(
                "there is no column {referenced:?} in the referenced table {name:?}"
            ));
        };
        let of_child = child.position(column).expect("the definition was checked");
        let (one, other) = (child.columns[of_child].data_type, parent.columns[at].data_type);
        if !alike(one, other) {
            return Some(format!(
                "key columns {column:?} and {referenced:?} are of different types: {one} and {other}"
            ));
        }
    }
    let unique =
        |index: &crate::schema::IndexDef| index.unique && same_columns(&index.columns, &key.referenced);
    match parent.indexes.iter().any(unique) {
        true => None,
        false => Some(format!(
            "there is no unique index of the columns ({}) of the referenced table {name:?}; make one",
            key.referenced.join(", ")
        )),
    }
}

impl Catalog {
    /// The tables that a definition's foreign keys refer to, itself left out, if they may.
    ///
    /// # Errors
    /// [`SchemaError::Constraint`], [`StoreError::NoTable`].
    pub(crate) fn references(&self, definition: &TableDef) -> Result<Vec<Table>> {
        let mut parents: Vec<Table> = Vec::new();
        for key in &definition.foreign_keys {
            let name = key.parent();
            let of_parent = match name == definition.qualified_name() {
                true => definition.clone(),
                false => {
                    let parent = self.table(&name)?;
                    let of_parent = parent.definition();
                    if !parents.iter().any(|known| known.is_same(&parent)) {
                        parents.push(parent);
                    }
                    of_parent
                }
            };
            if let Some(why) = refused(definition, key, &of_parent) {
                return Err(StoreError::Schema(SchemaError::Constraint {
                    table: definition.shown_name(),
                    constraint: key.name.clone(),
                    why,
                }));
            }
        }
        Ok(parents)
    }

    /// Puts the foreign keys of a definition, for which [`Catalog::references`] has found nothing, into force.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn link(&self, table: &Table, keys: &[ForeignKeyDef]) -> Result<()> {
        for key in keys {
            let linked = Arc::new(self.linked(table, key)?);
            let parent = linked.parent()?;
            table
                .0
                .constraints
                .change(|links| links.own.push(Arc::clone(&linked)));
            parent
                .0
                .constraints
                .change(|links| links.referencing.push(linked));
        }
        Ok(())
    }

    fn linked(&self, table: &Table, key: &ForeignKeyDef) -> Result<ForeignKey> {
        let parent = match key.parent() == table.0.qualified {
            true => table.clone(),
            false => self.table(&key.parent())?,
        };
        let place = |column: &String| parent.column(column);
        let referenced: Option<Vec<usize>> = key.referenced.iter().map(place).collect();
        let place = |column: &String| table.column(column);
        let columns: Option<Vec<usize>> = key.columns.iter().map(place).collect();
        let found = referenced.zip(columns).and_then(|(referenced, columns)| {
            let mut indexes = parent.0.usable().map(|(_, index)| index);
            let index = indexes.find(|index| index.unique && same_columns(&index.columns, &referenced))?;
            let of_child = |at: &usize| {
                let place = referenced.iter().position(|column| column == at);
                columns[place.expect("the index has these columns")]
            };
            Some((Arc::clone(index), index.columns.iter().map(of_child).collect()))
        });
        let (index, columns): (Arc<IndexInner>, Vec<usize>) = found.ok_or_else(|| {
            StoreError::Schema(SchemaError::Constraint {
                table: table.0.name.clone(),
                constraint: key.name.clone(),
                why: format!("there is no such key of table {:?}", parent.0.name),
            })
        })?;
        Ok(ForeignKey {
            definition: key.clone(),
            child: Arc::downgrade(&table.0),
            parent: Arc::downgrade(&parent.0),
            index,
            columns,
        })
    }
}

/// Takes the foreign keys of a table that `goes` accepts out of force.
pub(crate) fn unlink(table: &Table, goes: impl Fn(&ForeignKeyDef) -> bool) {
    let goes = |key: &Arc<ForeignKey>| key.is_of_child(&table.0) && goes(&key.definition);
    for key in table.0.constraints.links().own.iter().filter(|key| goes(key)) {
        if let Ok(parent) = key.parent() {
            parent
                .0
                .constraints
                .change(|links| links.referencing.retain(|key| !goes(key)));
        }
    }
    table
        .0
        .constraints
        .change(|links| links.own.retain(|key| !goes(key)));
}

impl Table {
    /// The tables that its foreign keys refer to, itself left out.
    pub(crate) fn parents(&self) -> Vec<Table> {
        let mut parents: Vec<Table> = Vec::new();
        for key in &self.0.constraints.links().own {
            if let Ok(parent) = key.parent()
                && !parent.is_same(self)
                && !parents.iter().any(|known| known.is_same(&parent))
            {
                parents.push(parent);
            }
        }
        parents
    }

    /// Whether it, or an index of it, may go: whether no foreign key needs it that `counts`.
    ///
    /// # Errors
    /// [`StoreError::Referenced`].
    fn check_free(
        &self,
        what: String,
        action: &'static str,
        counts: impl Fn(&ForeignKey) -> bool,
    ) -> Result<()> {
        let links = self.0.constraints.links();
        let counting = links.referencing.iter().filter(|key| counts(key));
        let by: Vec<String> = counting
            .map(|key| {
                let table = key
                    .child()
                    .map_or_else(|_| String::new(), |table| table.0.name.clone());
                format!("foreign key {:?} of table {table:?}", key.definition.name)
            })
            .collect();
        match by.is_empty() {
            true => Ok(()),
            false => Err(StoreError::Referenced { what, action, by }),
        }
    }

    /// Whether it may be dropped or truncated: whether no other table refers to it.
    ///
    /// # Errors
    /// [`StoreError::Referenced`].
    pub(crate) fn check_unreferenced(&self, action: &'static str) -> Result<()> {
        let what = format!("table {:?}", self.0.name);
        self.check_free(what, action, |key| !key.is_of_child(&self.0))
    }

    /// Whether an index may be dropped: whether no foreign key finds its keys by it.
    ///
    /// # Errors
    /// [`StoreError::Referenced`].
    pub(crate) fn check_index_free(&self, index: &Arc<IndexInner>) -> Result<()> {
        let what = format!("index {:?} of table {:?}", index.name, self.0.name);
        self.check_free(what, "dropped", |key| Arc::ptr_eq(&key.index, index))
    }
}

impl Store {
    /// Changes definitions while nobody writes rows of these tables.
    ///
    /// # Errors
    /// Locks that are not granted; what `define` returns.
    pub(crate) fn while_nobody_writes<R>(
        &self,
        tables: &[Table],
        define: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        if tables.is_empty() {
            return define();
        }
        let mut session = self.session_here()?;
        let locked = session.begin()?;
        for table in tables {
            locked.lock_table(table, Lock::Shared)?;
        }
        let defined = define();
        locked.abort();
        defined
    }
}
