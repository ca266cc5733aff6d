//! [`Table`]: rows, their layout, their indexes.
//!
//! What it is not: it changes nothing by itself; transactions do.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::changed::Changed;
use crate::error::{Result, StoreError};
use crate::foreign_key::Constraints;
use crate::index::{Index, IndexInner};
use crate::lock::TableLock;
use crate::memory::Memory;
use crate::operations::TableOperations;
use crate::row::{Layout, Layouts, Row, RowBuf, RowError};
use crate::schema::{INDEXES_MAX, IndexDef, PRIMARY, QualifiedName, SchemaError, TableDef};
use crate::slots::Slots;

/// A count that several workers change, each on a line of its own.
#[derive(Debug)]
pub(crate) struct Counter(Box<[Padded]>);

#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded(AtomicI64);

impl Counter {
    pub(crate) fn new(workers: usize) -> Self {
        Counter((0..workers.max(1)).map(|_| Padded::default()).collect())
    }

    pub(crate) fn add(&self, worker: usize, change: i64) {
        // Relaxed: only a count.
        self.0[worker % self.0.len()]
            .0
            .fetch_add(change, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self) -> i64 {
        self.0.iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

/// What the handles of a table share.
pub(crate) struct TableInner {
    // Fixed.
    pub(crate) id: u32,
    pub(crate) qualified: QualifiedName,
    /// As errors have it: with its schema, unless that is `public`.
    pub(crate) name: String,
    /// Rows are written in the newest. Who adds one holds the table's lock exclusively.
    pub(crate) layouts: Layouts,
    pub(crate) operations: TableOperations,
    pub(crate) lock: Arc<TableLock>,
    /// The store's: it also says which store's the table is.
    pub(crate) memory: Arc<Memory>,
    // Changing.
    pub(crate) slots: Slots,
    pub(crate) changed: Changed,
    /// By number; each is set once and stays. Who changes `live` holds the table's lock exclusively, who reads the indexes to
    /// write rows holds it at least with intention.
    indexes: [OnceLock<Arc<IndexInner>>; INDEXES_MAX],
    /// A bit for each index that is in use.
    live: AtomicU64,
    pub(crate) constraints: Constraints,
    pub(crate) dropped: AtomicBool,
    pub(crate) rows: Counter,
    /// Bytes of all newest versions, about.
    pub(crate) row_bytes: Counter,
    /// Bytes of slots and indexes that `memory` knows of.
    measured: AtomicI64,
}

impl TableInner {
    /// An empty table without indexes.
    pub(crate) fn new(id: u32, definition: &TableDef, workers: usize, memory: Arc<Memory>) -> Self {
        TableInner {
            id,
            qualified: definition.qualified_name(),
            name: definition.shown_name(),
            layouts: Layouts::new(definition.columns.clone()),
            operations: TableOperations::of(&definition.shown_name()),
            lock: TableLock::new(id),
            memory,
            slots: Slots::new(workers),
            changed: Changed::new(),
            indexes: std::array::from_fn(|_| OnceLock::new()),
            live: AtomicU64::new(0),
            constraints: Constraints::new(definition),
            dropped: AtomicBool::new(false),
            rows: Counter::new(workers),
            row_bytes: Counter::new(workers),
            measured: AtomicI64::new(0),
        }
    }

    /// Tells the store what slots and indexes take now.
    pub(crate) fn measure(&self) {
        let indexes = self.indexes.iter().filter_map(OnceLock::get);
        let indexes: usize = indexes.map(|index| index.tree.bytes()).sum();
        let now = (self.slots.bytes() + indexes) as i64;
        let before = self.measured.swap(now, Ordering::Relaxed);
        self.memory.add_structures(now - before);
    }

    /// The indexes in use with their numbers, the primary key's first.
    #[inline]
    pub(crate) fn indexes(&self) -> impl Iterator<Item = (usize, &Arc<IndexInner>)> {
        // Acquire: pairs with `add_index`.
        let mut live = self.live.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            if live == 0 {
                return None;
            }
            let number = live.trailing_zeros() as usize;
            live &= live - 1;
            Some((number, self.indexes[number].get().expect("live indexes are set")))
        })
    }

    /// The index of a number, in use or not.
    pub(crate) fn index(&self, number: usize) -> Option<&Arc<IndexInner>> {
        self.indexes[number].get()
    }

    /// The primary key's index, which its table keeps; none of a table without a primary key.
    pub(crate) fn primary(&self) -> Option<&Arc<IndexInner>> {
        self.index(0).filter(|index| index.name == PRIMARY)
    }

    /// Those that can be read, with their numbers: not those that are being made.
    pub(crate) fn usable(&self) -> impl Iterator<Item = (usize, &Arc<IndexInner>)> {
        self.indexes().filter(|(_, index)| index.is_usable())
    }

    /// Takes an index into use. None when a table has had as many as it can in its life.
    pub(crate) fn add_index(&self, index: IndexInner) -> Option<Arc<IndexInner>> {
        let index = Arc::new(index);
        for (number, place) in self.indexes.iter().enumerate() {
            if place.set(Arc::clone(&index)).is_ok() {
                self.live.fetch_or(1 << number, Ordering::AcqRel);
                self.measure();
                return Some(index);
            }
        }
        None
    }

    /// Takes an index out of use.
    pub(crate) fn remove_index(&self, index: &Arc<IndexInner>) {
        let mut live = self.indexes();
        if let Some((number, index)) = live.find(|(_, live)| Arc::ptr_eq(live, index)) {
            index.drop_it();
            self.live.fetch_and(!(1 << number), Ordering::AcqRel);
        }
    }

    /// The definition with another index, which it can have.
    pub(crate) fn with_index(&self, name: &str, unique: bool, columns: &[&str]) -> Result<TableDef> {
        if self.indexes().any(|(_, index)| index.name == name) {
            return Err(StoreError::Exists {
                what: "an index",
                name: name.to_owned(),
            });
        }
        let with = match unique {
            true => self.definition().unique(name, columns),
            false => self.definition().index(name, columns),
        };
        with.check()?;
        if name == PRIMARY {
            return Err(StoreError::Schema(SchemaError::Primary {
                table: self.name.clone(),
            }));
        }
        if self.indexes.iter().all(|place| place.get().is_some()) {
            return Err(StoreError::Schema(SchemaError::Count {
                table: self.name.clone(),
                what: "indexes, dropped ones included, until the store is opened again",
                found: INDEXES_MAX + 1,
                most: INDEXES_MAX,
            }));
        }
        Ok(with)
    }

    /// # Errors
    /// [`StoreError::Dropped`].
    pub(crate) fn check_there(&self) -> Result<()> {
        match self.dropped.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(StoreError::Dropped {
                table: self.name.clone(),
            }),
        }
    }

    /// The definition with the indexes and constraints of now.
    pub(crate) fn definition(&self) -> TableDef {
        let columns = self.layouts.newest().definitions();
        let index = |index: &Arc<IndexInner>| IndexDef {
            name: index.name.clone(),
            columns: index.columns.iter().map(|&at| columns[at].name.clone()).collect(),
            unique: index.unique,
        };
        let links = self.constraints.links();
        TableDef {
            schema: self.qualified.schema.clone(),
            name: self.qualified.name.clone(),
            columns: columns.to_vec(),
            indexes: self.usable().map(|(_, inner)| index(inner)).collect(),
            foreign_keys: links.own.iter().map(|key| key.definition.clone()).collect(),
            checks: links.checks.clone(),
        }
    }
}

impl Drop for TableInner {
    fn drop(&mut self) {
        let bytes = self.slots.free_versions();
        self.memory.add(-(bytes as i64));
        self.memory.add_structures(-*self.measured.get_mut());
    }
}

/// A table of a store. Cheap to clone.
#[derive(Clone)]
pub struct Table(pub(crate) Arc<TableInner>);

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.0.name)
    }
}

impl Table {
    /// Its name, without its schema's.
    pub fn name(&self) -> &str {
        &self.0.qualified.name
    }

    /// The name of its schema: [`PUBLIC`](crate::PUBLIC) unless it was made in another.
    pub fn schema(&self) -> &str {
        &self.0.qualified.schema
    }

    /// Whether both are the same table of the same store.
    pub fn is_same(&self, other: &Table) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its columns, indexes and constraints as they are now, without indexes that are being made.
    pub fn definition(&self) -> TableDef {
        self.0.definition()
    }

    /// Position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        let columns = self.0.layouts.newest().definitions();
        columns.iter().position(|column| column.name == name)
    }

    /// Where the fields of its new rows lie.
    pub fn layout(&self) -> &Arc<Layout> {
        self.0.layouts.newest()
    }

    /// A row of it to be filled in, with the defaults of its columns or NULL; columns that have neither must be set before it is inserted.
    pub fn new_row(&self) -> RowBuf {
        RowBuf::new(self.layout())
    }

    /// A row of it from a struct: columns that the struct does not have are NULL.
    ///
    /// # Errors
    /// As [`Row::write`]: of a struct that was made for another table, for example.
    pub fn row(&self, of: &impl Row) -> Result<RowBuf, RowError> {
        let mut row = self.new_row();
        of.write(&mut row)?;
        Ok(row)
    }

    /// An index by name.
    pub fn index(&self, name: &str) -> Option<Index> {
        let mut indexes = self.0.usable();
        indexes
            .find(|(_, inner)| inner.name == name)
            .map(|(_, inner)| self.handle(inner))
    }

    /// The primary key's index.
    ///
    /// # Panics
    /// If the table has no primary key: see [`Table::primary_key`].
    pub fn primary(&self) -> Index {
        let primary = self.primary_key();
        primary.unwrap_or_else(|| panic!("table {:?} has no primary key", self.0.name))
    }

    /// The primary key's index; none of a table without a primary key.
    pub fn primary_key(&self) -> Option<Index> {
        self.0.primary().map(|inner| self.handle(inner))
    }

    /// All indexes, the primary key's first.
    pub fn indexes(&self) -> Vec<Index> {
        self.0.usable().map(|(_, inner)| self.handle(inner)).collect()
    }

    fn handle(&self, inner: &Arc<IndexInner>) -> Index {
        Index {
            table: self.clone(),
            inner: Arc::clone(inner),
        }
    }

    /// Rows, about: transactions that run now may be counted or not.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.0.rows.sum()).unwrap_or(0)
    }

    /// Bytes of memory it takes, about: rows, slots and indexes, old versions apart.
    pub fn bytes(&self) -> u64 {
        let indexes: usize = self.0.indexes().map(|(_, index)| index.tree.bytes()).sum();
        let rows = u64::try_from(self.0.row_bytes.sum()).unwrap_or(0);
        rows + (self.0.slots.bytes() + indexes) as u64
    }

    /// All rids are below. To read a whole table in parts: [`crate::Snapshot::rows`].
    pub fn rid_end(&self) -> u32 {
        self.0.slots.end()
    }
}
