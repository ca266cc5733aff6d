//! Which tables refer to which: found when a definition is made, and when a store is opened.
//!
//! ```text
//! parents   locked; may the definition's foreign keys be?  ─► LinkChange::apply ─► undo, or show when the transaction has committed
//! ```
//!
//! The transaction has the tables locked to its end, the parent at least shared.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{ForeignKey, Links, ORDER};
use crate::error::{Result, StoreError};
use crate::index::IndexInner;
use crate::known::Reach;
use crate::schema::{ForeignKeyDef, QualifiedName, SchemaError, TableDef};
use crate::session::State;
use crate::store::Catalog;
use crate::table::Table;
use crate::transaction::Transaction;
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

/// A foreign key comes into force, goes, or takes the place of another.
pub(crate) struct LinkChange {
    gone: Option<Arc<ForeignKey>>,
    came: Option<Arc<ForeignKey>>,
}

impl LinkChange {
    /// For who has the two tables locked.
    pub(crate) fn apply(&self) {
        self.gone.iter().for_each(take);
        self.came.iter().for_each(put);
    }

    /// Takes it back.
    pub(crate) fn undo(&self) {
        self.came.iter().for_each(take);
        self.gone.iter().for_each(put);
    }

    /// Whether the rows that there are fulfil what came.
    ///
    /// # Errors
    /// As [`ForeignKey::verify`].
    pub(crate) fn verify(&self) -> Result<()> {
        self.came.iter().try_for_each(|came| came.verify())
    }

    /// Shows it to all.
    pub(crate) fn show(&self) {
        let shown = |key: &Arc<ForeignKey>, change: &dyn Fn(&mut Vec<Arc<ForeignKey>>)| {
            if let Some(child) = key.child.upgrade() {
                change(&mut Arc::make_mut(&mut child.constraints.shown.write()).own);
            }
        };
        if let Some(gone) = &self.gone {
            shown(gone, &|own| own.retain(|key| !Arc::ptr_eq(key, gone)));
        }
        if let Some(came) = &self.came {
            shown(came, &|own| insert(own, came));
        }
    }
}

/// In the order in which they were made.
fn insert(keys: &mut Vec<Arc<ForeignKey>>, key: &Arc<ForeignKey>) {
    let at = keys.partition_point(|known| known.order <= key.order);
    keys.insert(at, Arc::clone(key));
}

fn put(key: &Arc<ForeignKey>) {
    change(
        key,
        |links| insert(&mut links.own, key),
        |links| insert(&mut links.referencing, key),
    );
}

fn take(key: &Arc<ForeignKey>) {
    let other = |known: &Arc<ForeignKey>| !Arc::ptr_eq(known, key);
    change(
        key,
        |links| links.own.retain(other),
        |links| links.referencing.retain(other),
    );
}

fn change(key: &ForeignKey, of_child: impl FnOnce(&mut Links), of_parent: impl FnOnce(&mut Links)) {
    if let Some(child) = key.child.upgrade() {
        child.constraints.change(of_child);
    }
    if let Some(parent) = key.parent.upgrade() {
        parent.constraints.change(of_parent);
    }
}

impl ForeignKey {
    /// One between two tables as who has them locked sees them.
    ///
    /// # Errors
    /// [`SchemaError::Constraint`].
    fn new(key: &ForeignKeyDef, child: &Table, parent: &Table, order: u64) -> Result<Self> {
        let position = |table: &Table, name: &String| {
            let columns = table.0.layouts.newest().definitions();
            columns.iter().position(|column| column.name == *name)
        };
        let pair = |(of_child, of_parent)| Some((position(child, of_child)?, position(parent, of_parent)?));
        let pairs: Option<Vec<(usize, usize)>> = key.columns.iter().zip(&key.referenced).map(pair).collect();
        let found = pairs.and_then(|pairs| {
            let referenced: Vec<usize> = pairs.iter().map(|pair| pair.1).collect();
            let mut indexes = parent.0.usable(true);
            let index = indexes.find(|index| index.unique && same_columns(&index.columns, &referenced))?;
            let of_child = |at: &usize| {
                let pair = pairs.iter().find(|pair| pair.1 == *at);
                pair.expect("the index has these columns").0
            };
            let columns = index.columns.iter().map(of_child).collect();
            Some((Arc::clone(index), columns, pairs))
        });
        let (index, columns, pairs) = found.ok_or_else(|| {
            StoreError::Schema(SchemaError::Constraint {
                table: child.shown_name(),
                constraint: key.name.clone(),
                why: format!("there is no such key of table {:?}", parent.shown_name()),
            })
        })?;
        Ok(ForeignKey {
            made: key.clone(),
            order,
            child: Arc::downgrade(&child.0),
            parent: Arc::downgrade(&parent.0),
            index,
            columns,
            pairs,
        })
    }
}

/// A foreign key between two tables that is new.
fn link(key: &ForeignKeyDef, child: &Table, parent: &Table) -> Result<LinkChange> {
    let order = ORDER.fetch_add(1, Ordering::Relaxed);
    Ok(LinkChange {
        gone: None,
        came: Some(Arc::new(ForeignKey::new(key, child, parent, order)?)),
    })
}

impl Catalog {
    /// Puts the foreign keys of a table into force, by who has the store alone.
    ///
    /// # Errors
    /// [`StoreError::NoTable`], [`SchemaError::Constraint`].
    pub(crate) fn link(&self, table: &Table, keys: &[ForeignKeyDef]) -> Result<Vec<LinkChange>> {
        let link = |key: &ForeignKeyDef| {
            let linked = link(key, table, &self.table(&key.parent())?)?;
            linked.apply();
            linked.show();
            Ok(linked)
        };
        keys.iter().map(link).collect()
    }
}

impl Transaction<'_> {
    /// The tables that the foreign keys refer to, if they may, each locked so that nobody else writes rows of it; none for the table itself.
    ///
    /// # Errors
    /// [`SchemaError::Constraint`], [`StoreError::NoTable`], locks that are not granted.
    pub(crate) fn parents(
        &self,
        state: &mut State,
        definition: &TableDef,
        keys: &[ForeignKeyDef],
    ) -> Result<Vec<Option<Table>>> {
        let parent = |key: &ForeignKeyDef| {
            let itself = key.parent() == definition.qualified_name();
            let parent = match itself {
                true => None,
                false => Some(self.lock_parent(state, &key.parent())?),
            };
            let refused = match &parent {
                None => refused(definition, key, definition),
                Some(parent) => refused(definition, key, &self.seen(state, parent)),
            };
            match refused {
                None => Ok(parent),
                Some(why) => Err(StoreError::Schema(SchemaError::Constraint {
                    table: definition.shown_name(),
                    constraint: key.name.clone(),
                    why,
                })),
            }
        };
        keys.iter().map(parent).collect()
    }

    /// The table of a name, which is not renamed, and of which nobody else writes rows, before the transaction ends.
    fn lock_parent(&self, state: &mut State, name: &QualifiedName) -> Result<Table> {
        loop {
            let table = self.find(state, name)?;
            let locked = self.reach(state, &table, Reach::Read);
            let is_it = self.find(state, name)?.is_same(&table);
            match locked {
                Ok(_) if is_it => return Ok(table),
                // Another transaction has written it again, or renamed it, while this one waited.
                Ok(_) | Err(StoreError::Dropped { .. }) if !is_it => {}
                Ok(_) => unreachable!("one of both arms before"),
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts the foreign keys of a table into force that refer to these tables.
    pub(crate) fn link(
        &self,
        table: &Table,
        keys: &[ForeignKeyDef],
        parents: Vec<Option<Table>>,
    ) -> Result<Vec<LinkChange>> {
        let pairs = keys.iter().zip(parents);
        let changes = pairs.map(|(key, parent)| link(key, table, parent.as_ref().unwrap_or(table)));
        let changes: Vec<LinkChange> = changes.collect::<Result<_>>()?;
        changes.iter().for_each(LinkChange::apply);
        Ok(changes)
    }

    /// Keeps others from writing rows of the tables on the other side of the foreign keys of a table that `counts` accepts.
    pub(crate) fn lock_linked(&self, state: &mut State, table: &Table) -> Result<()> {
        for key in table.keys() {
            self.reach(state, &key.child()?, Reach::Read)?;
            self.reach(state, &key.parent()?, Reach::Read)?;
        }
        Ok(())
    }

    /// Puts `came` in the place of `gone` in all foreign keys. Their tables are locked.
    pub(crate) fn relink(&self, state: &mut State, gone: &Table, came: &Table) -> Result<Vec<LinkChange>> {
        let viewer = self.definer(state);
        let instead = |table: Result<Table>, is_gone: bool| if is_gone { Ok(came.clone()) } else { table };
        let relinked = |key: Arc<ForeignKey>| {
            let child = instead(key.child(), key.is_of_child(&gone.0))?;
            let parent = instead(key.parent(), key.is_of_parent(&gone.0))?;
            let came = ForeignKey::new(&key.definition(viewer), &child, &parent, key.order)?;
            Ok(LinkChange {
                gone: Some(key),
                came: Some(Arc::new(came)),
            })
        };
        let changes: Vec<LinkChange> = gone.keys().into_iter().map(relinked).collect::<Result<_>>()?;
        changes.iter().for_each(LinkChange::apply);
        Ok(changes)
    }
}

impl Table {
    /// All foreign keys that it has or that refer to it, for who has it locked.
    fn keys(&self) -> Vec<Arc<ForeignKey>> {
        let links = self.0.constraints.links();
        let others = links.referencing.iter().filter(|key| !key.is_of_child(&self.0));
        links.own.iter().chain(others).cloned().collect()
    }

    /// Takes the foreign keys of its own out of force that `goes` accepts.
    pub(crate) fn unlink(&self, goes: impl Fn(&ForeignKey) -> bool) -> Vec<LinkChange> {
        let links = self.0.constraints.links();
        let gone = links.own.iter().filter(|key| goes(key)).cloned();
        let change = |gone| LinkChange {
            gone: Some(gone),
            came: None,
        };
        let changes: Vec<LinkChange> = gone.map(change).collect();
        changes.iter().for_each(LinkChange::apply);
        changes
    }

    /// Whether it may do without columns: none is in a foreign key. `columns` are those that stay.
    ///
    /// # Errors
    /// [`StoreError::ColumnInForeignKey`].
    pub(crate) fn check_columns_free(&self, goes: impl Fn(usize) -> bool) -> Result<()> {
        let in_key = |key: &ForeignKey| {
            let of_child = key
                .pairs
                .iter()
                .map(|pair| pair.0)
                .filter(|_| key.is_of_child(&self.0));
            let of_parent = key
                .pairs
                .iter()
                .map(|pair| pair.1)
                .filter(|_| key.is_of_parent(&self.0));
            of_child.chain(of_parent).find(|&at| goes(at))
        };
        let found = self.keys().into_iter().find_map(|key| Some((in_key(&key)?, key)));
        match found {
            None => Ok(()),
            Some((at, key)) => Err(StoreError::ColumnInForeignKey {
                table: self.shown_name(),
                column: self.0.layouts.newest().definitions()[at].name.clone(),
                constraint: key.name().to_owned(),
                of: self.shown_child(&key),
            }),
        }
    }

    /// The name of the table that has a foreign key, for whose handle this is.
    fn shown_child(&self, key: &ForeignKey) -> String {
        let child = key.child().map(|child| child.seen_by(self.viewer()));
        child.map_or_else(|_| String::new(), |child| child.shown_name())
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
                let table = self.shown_child(key);
                format!("foreign key {:?} of table {table:?}", key.name())
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
        let what = format!("table {:?}", self.shown_name());
        self.check_free(what, action, |key| !key.is_of_child(&self.0))
    }

    /// Whether an index may be dropped: whether no foreign key finds its keys by it.
    ///
    /// # Errors
    /// [`StoreError::Referenced`].
    pub(crate) fn check_index_free(&self, index: &Arc<IndexInner>) -> Result<()> {
        let what = format!("index {:?} of table {:?}", index.name, self.shown_name());
        self.check_free(what, "dropped", |key| Arc::ptr_eq(&key.index, index))
    }
}
