//! Foreign keys as the store enforces them: [`ForeignKey`], and the [`Links`] of a table.
//!
//! ```text
//! insert, update of the child     the row it refers to is looked up, and its key locked, to the end of the transaction
//! delete, new key of the parent   waits for those who have the key locked; then rows that refer to it are looked for, by an index of the
//!                                 child that begins with the columns, else among all its rows
//! ```
//!
//! Why no row is left without the row it refers to: who makes a row refer to a key has that key locked until it has committed (`key_lock.rs`). So who
//! has changed the key's row and waited for the others finds every row that refers to it committed, and no other comes before it ends itself. Rows
//! need not be locked to look for those that refer: only those that are found are.
//!
//! Links change while both tables are locked at least shared, up to the end of the transaction that changes them: so nobody else writes rows of
//! them, and a transaction that writes rows sees them all. Others are shown the child's when they are committed. Tables and columns are kept
//! by place, not by name, so that renaming them changes nothing here; a table that is written again, or emptied, gets links of its own.
//!
//! What it is not: a check of rows that a follower or recovery applies. They were checked where they were written.

mod deferred;
mod enforce;
mod error;
mod key_lock;
mod link;
mod verify;

pub use deferred::DeferredKeys;
pub(crate) use enforce::Pending;
pub use error::ForeignKeyViolation;
pub(crate) use link::LinkChange;
pub(crate) use verify::verify_table;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::error::{Result, StoreError};
use crate::index::IndexInner;
use crate::row::RowRef;
use crate::schema::{CheckDef, ForeignKeyDef, QualifiedName, TableDef};
use crate::table::{Definer, Table, TableInner};
use crate::value::Value;

/// A foreign key between two tables that are there.
pub(crate) struct ForeignKey {
    /// As it was made. Tables and columns may have got other names since: see [`ForeignKey::definition`].
    made: ForeignKeyDef,
    /// Its place among the foreign keys of a table.
    order: u64,
    child: Weak<TableInner>,
    parent: Weak<TableInner>,
    /// The unique index of the parent that has the key.
    index: Arc<IndexInner>,
    /// Positions of the columns in the child, in the order of the index's.
    columns: Vec<usize>,
    /// Positions in the child and in the parent, in the order of the definition.
    pairs: Vec<(usize, usize)>,
}

/// Of the next foreign key.
static ORDER: AtomicU64 = AtomicU64::new(0);

impl ForeignKey {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.made.name
    }

    /// Its definition, with the names that tables and columns have now for `viewer`.
    pub(crate) fn definition(&self, viewer: Definer) -> ForeignKeyDef {
        let (Some(child), Some(parent)) = (self.child.upgrade(), self.parent.upgrade()) else {
            return self.made.clone();
        };
        let QualifiedName { schema, name } = parent.qualified_for(viewer);
        let (of_child, of_parent) = (child.columns_for(viewer), parent.columns_for(viewer));
        ForeignKeyDef {
            columns: self
                .pairs
                .iter()
                .map(|pair| of_child[pair.0].name.clone())
                .collect(),
            referenced: self
                .pairs
                .iter()
                .map(|pair| of_parent[pair.1].name.clone())
                .collect(),
            schema,
            table: name,
            ..self.made.clone()
        }
    }

    fn table(&self, of: &Weak<TableInner>, name: impl FnOnce() -> String) -> Result<Table> {
        let table = of.upgrade().map(Table::new);
        table.ok_or_else(|| StoreError::Dropped { table: name() })
    }

    /// The table whose rows refer.
    ///
    /// # Errors
    /// [`StoreError::Dropped`] for who does not have the table locked.
    pub(crate) fn child(&self) -> Result<Table> {
        self.table(&self.child, || format!("with foreign key {}", self.name()))
    }

    /// The table they refer to.
    ///
    /// # Errors
    /// As [`ForeignKey::child`].
    pub(crate) fn parent(&self) -> Result<Table> {
        self.table(&self.parent, || self.made.parent().to_string())
    }

    fn is_of_child(&self, table: &TableInner) -> bool {
        std::ptr::eq(self.child.as_ptr(), table)
    }

    fn is_of_parent(&self, table: &TableInner) -> bool {
        std::ptr::eq(self.parent.as_ptr(), table)
    }

    /// Whether it is enforced: it may have been dropped, or rolled back, or have gone with a table.
    fn is_in_force(&self) -> bool {
        let child = self.child.upgrade();
        child.is_some_and(|child| {
            let links = child.constraints.links();
            links.own.iter().any(|key| std::ptr::eq(&**key, self))
        })
    }

    /// The values of a row of the child; none if one of them is NULL, and the row refers to nothing.
    fn values_of_child<'a>(&self, row: RowRef<'a>) -> Option<Vec<Value<'a>>> {
        values(row, &self.columns)
    }

    /// The same of a row of the parent, to which nothing refers then.
    fn values_of_parent<'a>(&self, row: RowRef<'a>) -> Option<Vec<Value<'a>>> {
        values(row, &self.index.columns)
    }

    /// Whether a row of the child refers to some row: none of its columns is NULL.
    fn is_used_by(&self, child: RowRef<'_>) -> bool {
        !self.columns.iter().any(|&column| child.is_null(column))
    }

    /// Whether rows can refer to a row of the parent.
    fn is_key_of(&self, parent: RowRef<'_>) -> bool {
        !self.index.columns.iter().any(|&column| parent.is_null(column))
    }

    /// Whether a row of the child has the key of a row of the parent.
    fn refers(&self, child: RowRef<'_>, parent: RowRef<'_>) -> bool {
        let mut pairs = self.columns.iter().zip(&self.index.columns);
        pairs.all(|(&of_child, &of_parent)| {
            !child.is_null(of_child)
                && !parent.is_null(of_parent)
                && child.raw(of_child) == parent.raw(of_parent)
        })
    }

    /// Whether two rows of the child refer to the same.
    fn same(&self, a: RowRef<'_>, b: RowRef<'_>) -> bool {
        let mut columns = self.columns.iter();
        columns.all(|&at| a.is_null(at) == b.is_null(at) && a.raw(at) == b.raw(at))
    }
}

fn values<'a>(row: RowRef<'a>, columns: &[usize]) -> Option<Vec<Value<'a>>> {
    let value = |&column: &usize| Some(row.value(column)).filter(|value| *value != Value::Null);
    columns.iter().map(value).collect()
}

/// The constraints of a table, and the foreign keys that refer to it.
#[derive(Clone, Default)]
pub(crate) struct Links {
    pub(crate) own: Vec<Arc<ForeignKey>>,
    pub(crate) referencing: Vec<Arc<ForeignKey>>,
    pub(crate) checks: Vec<CheckDef>,
}

/// The place in a table where they are.
#[derive(Default)]
pub(crate) struct Constraints {
    /// Whether there are foreign keys among them: all that the tables without pay.
    linked: AtomicBool,
    /// For who has the table locked.
    links: RwLock<Arc<Links>>,
    /// What is committed, without foreign keys of others.
    shown: RwLock<Arc<Links>>,
}

impl Constraints {
    /// Those of a new table, without foreign keys, which come when it is linked.
    pub(crate) fn new(definition: &TableDef) -> Self {
        let constraints = Constraints::default();
        constraints.change(|links| links.checks.clone_from(&definition.checks));
        constraints.show_checks();
        constraints
    }

    /// Whether rows have to be looked at when they change, by who has the table locked.
    #[inline]
    pub(crate) fn are_linked(&self) -> bool {
        // Relaxed: the table's lock orders it.
        self.linked.load(Ordering::Relaxed)
    }

    /// For who has the table locked.
    pub(crate) fn links(&self) -> Arc<Links> {
        Arc::clone(&self.links.read())
    }

    /// Its own constraints: those that are committed, or those of the transaction that changes definitions of the table.
    pub(crate) fn seen(&self, within: bool) -> Arc<Links> {
        let links = if within { &self.links } else { &self.shown };
        Arc::clone(&links.read())
    }

    /// The caller has the table locked, so that nobody writes rows, or is alone.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Links)) {
        let mut links = self.links.write();
        change(Arc::make_mut(&mut links));
        let linked = !links.own.is_empty() || !links.referencing.is_empty();
        self.linked.store(linked, Ordering::Relaxed);
    }

    /// Shows all the checks that who has the table locked has.
    pub(crate) fn show_checks(&self) {
        let checks = self.links().checks.clone();
        Arc::make_mut(&mut self.shown.write()).checks = checks;
    }
}
