//! [`Table`]: rows, their layout, their indexes.
//!
//! What it is not: it changes nothing by itself; transactions do.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::changed::Changed;
use crate::error::{Result, StoreError};
use crate::foreign_key::Constraints;
use crate::index::{Index, IndexInner};
use crate::lock::TableLock;
use crate::memory::Memory;
use crate::operations::TableOperations;
use crate::row::{Layout, Layouts, Row, RowBuf, RowError};
use crate::schema::{ColumnDef, INDEXES_MAX, PRIMARY, QualifiedName, SchemaError, TableDef};
use crate::slots::Slots;
use crate::ts::Ts;

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
    /// Who changes them holds the table's lock exclusively.
    pub(crate) layouts: Layouts,
    pub(crate) operations: TableOperations,
    pub(crate) lock: Arc<TableLock>,
    /// The store's: it also says which store's the table is.
    pub(crate) memory: Arc<Memory>,
    // Changing.
    name: Name,
    /// The name that the transaction has given it which changes its definitions.
    new_name: Mutex<Option<QualifiedName>>,
    /// The transaction that has changed definitions of the table and not committed: see [`Definer`]. 0: none.
    defining: AtomicU64,
    pub(crate) slots: Slots,
    pub(crate) changed: Changed,
    /// By number; each is set once and stays. Who changes `live` holds the table's lock exclusively, who reads the indexes to
    /// write rows holds it at least with intention.
    indexes: [OnceLock<Arc<IndexInner>>; INDEXES_MAX],
    /// A bit for each index that is in use by who has the table locked.
    live: AtomicU64,
    /// A bit for each that others are shown.
    shown: AtomicU64,
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
            layouts: Layouts::new(definition.columns.clone()),
            operations: TableOperations::of(&definition.shown_name()),
            lock: TableLock::new(id),
            memory,
            name: Name::new(definition.qualified_name()),
            new_name: Mutex::new(None),
            defining: AtomicU64::new(0),
            slots: Slots::new(workers),
            changed: Changed::new(),
            indexes: std::array::from_fn(|_| OnceLock::new()),
            live: AtomicU64::new(0),
            shown: AtomicU64::new(0),
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

    /// Its name as errors have it: with its schema, unless that is `public`.
    pub(crate) fn name(&self) -> &str {
        &self.name.newest().shown
    }

    pub(crate) fn qualified_name(&self) -> &QualifiedName {
        &self.name.newest().name
    }

    /// Its name for who looks: perhaps the one that a transaction has given it and not committed.
    pub(crate) fn qualified_for(&self, viewer: Definer) -> QualifiedName {
        let given = match self.is_defined_by(viewer) {
            true => self.new_name.lock().clone(),
            false => None,
        };
        given.unwrap_or_else(|| self.qualified_name().clone())
    }

    /// The transaction that changes its definitions gives it a name; nobody else is shown it.
    pub(crate) fn give_name(&self, name: QualifiedName) {
        *self.new_name.lock() = Some(name);
    }

    /// All are shown a name.
    pub(crate) fn rename(&self, name: QualifiedName) {
        self.name.set(name);
    }

    /// Says which transaction changes its definitions; none has until it has ended.
    pub(crate) fn set_definer(&self, definer: Definer) {
        *self.new_name.lock() = None;
        self.defining.store(definer.0, Ordering::Release);
    }

    /// The transaction has ended.
    pub(crate) fn unset_definer(&self, definer: Definer) {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = (self.defining).compare_exchange(definer.0, Definer::NONE.0, order.0, order.1);
    }

    /// Whether a transaction has changed its definitions and not committed.
    pub(crate) fn is_defined_by(&self, definer: Definer) -> bool {
        definer != Definer::NONE && self.definer() == definer
    }

    /// The transaction that changes its definitions.
    pub(crate) fn definer(&self) -> Definer {
        Definer(self.defining.load(Ordering::Acquire))
    }

    /// The indexes in use with their numbers, the primary key's first: for who has the table locked.
    #[inline]
    pub(crate) fn indexes(&self) -> impl Iterator<Item = (usize, &Arc<IndexInner>)> {
        self.indexes_of(&self.live)
    }

    #[inline]
    fn indexes_of(&self, bits: &AtomicU64) -> impl Iterator<Item = (usize, &Arc<IndexInner>)> {
        // Acquire: pairs with `add_index`.
        let mut bits = bits.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            if bits == 0 {
                return None;
            }
            let number = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some((
                number,
                self.indexes[number].get().expect("indexes in use are set"),
            ))
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

    /// The indexes that can be read: by all, or by the transaction that has changed definitions of the table.
    pub(crate) fn usable(&self, within: bool) -> impl Iterator<Item = &Arc<IndexInner>> {
        let bits = if within { &self.live } else { &self.shown };
        let indexes = self.indexes_of(bits).map(|(_, index)| index);
        indexes.filter(move |index| !within || index.serves_within())
    }

    /// Takes an index into use. None when a table has had as many as it can in its life.
    pub(crate) fn add_index(&self, index: IndexInner) -> Option<Arc<IndexInner>> {
        let index = Arc::new(index);
        for (number, place) in self.indexes.iter().enumerate() {
            if place.set(Arc::clone(&index)).is_ok() {
                self.live.fetch_or(1 << number, Ordering::AcqRel);
                if index.is_usable() {
                    self.shown.fetch_or(1 << number, Ordering::AcqRel);
                }
                self.measure();
                return Some(index);
            }
        }
        None
    }

    fn bit_of(&self, index: &Arc<IndexInner>) -> u64 {
        let is_it =
            |place: &OnceLock<Arc<IndexInner>>| place.get().is_some_and(|known| Arc::ptr_eq(known, index));
        let number = self.indexes.iter().position(is_it);
        1 << number.expect("it is an index of the table")
    }

    /// All are shown an index, for snapshots from `since` on.
    pub(crate) fn show_index(&self, index: &Arc<IndexInner>, since: Ts) {
        index.make_usable(since);
        self.shown.fetch_or(self.bit_of(index), Ordering::AcqRel);
    }

    /// Who has the table locked keeps an index up, or does not; others are shown it as before.
    pub(crate) fn keep_index(&self, index: &Arc<IndexInner>, kept: bool) {
        index.keep(kept);
        let bit = self.bit_of(index);
        match kept {
            true => self.live.fetch_or(bit, Ordering::AcqRel),
            false => self.live.fetch_and(!bit, Ordering::AcqRel),
        };
    }

    /// Takes an index out of use.
    pub(crate) fn remove_index(&self, index: &Arc<IndexInner>) {
        index.drop_it();
        self.keep_index(index, false);
        self.shown.fetch_and(!self.bit_of(index), Ordering::AcqRel);
    }

    /// Its definition for who has it locked with another index, which it can have.
    pub(crate) fn with_index(
        &self,
        definition: TableDef,
        name: &str,
        unique: bool,
        columns: &[&str],
    ) -> Result<TableDef> {
        if self.indexes().any(|(_, index)| index.name == name) {
            return Err(StoreError::Exists {
                what: "an index",
                name: name.to_owned(),
            });
        }
        let with = match unique {
            true => definition.unique(name, columns),
            false => definition.index(name, columns),
        };
        with.check()?;
        if name == PRIMARY {
            return Err(StoreError::Schema(SchemaError::Primary {
                table: with.shown_name(),
            }));
        }
        if self.indexes.iter().all(|place| place.get().is_some()) {
            return Err(StoreError::Schema(SchemaError::Count {
                table: with.shown_name(),
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
                table: self.name().to_owned(),
            }),
        }
    }

    /// The definition of now: what is committed, or what the transaction sees that changes definitions of the table.
    pub(crate) fn definition(&self, viewer: Definer) -> TableDef {
        let within = self.is_defined_by(viewer);
        let columns = self.columns_for(viewer);
        let index = |index: &Arc<IndexInner>| index.definition(columns);
        let QualifiedName { schema, name } = self.qualified_for(viewer);
        let links = self.constraints.seen(within);
        TableDef {
            schema,
            name,
            columns: columns.to_vec(),
            indexes: self.usable(within).map(index).collect(),
            foreign_keys: links.own.iter().map(|key| key.definition(viewer)).collect(),
            checks: links.checks.clone(),
        }
    }

    /// Its columns for who looks.
    pub(crate) fn columns_for(&self, viewer: Definer) -> &[ColumnDef] {
        self.layout(self.is_defined_by(viewer)).definitions()
    }

    fn layout(&self, within: bool) -> &Arc<Layout> {
        match within {
            true => self.layouts.newest(),
            false => self.layouts.shown(),
        }
    }
}

/// Names the transaction that has changed definitions and not committed: the number of its session's slot and one that no other transaction
/// has. 0 names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Definer(u64);

impl Definer {
    pub(crate) const NONE: Definer = Definer(0);

    pub(crate) fn new(number: u64, slot: u32) -> Self {
        Definer((number << 32) | (u64::from(slot) + 1))
    }

    /// Whether it is the transaction of a session's slot that goes on.
    pub(crate) fn is_of(self, slot: u32) -> bool {
        self.0 & u64::from(u32::MAX) == u64::from(slot) + 1
    }
}

/// A name that may be replaced, which those who read it do not notice. Old ones stay: tables are renamed seldom.
struct Name {
    name: QualifiedName,
    shown: String,
    next: OnceLock<Box<Name>>,
}

impl Name {
    fn new(name: QualifiedName) -> Self {
        Name {
            shown: name.to_string(),
            name,
            next: OnceLock::new(),
        }
    }

    fn newest(&self) -> &Name {
        let mut name = self;
        while let Some(next) = name.next.get() {
            name = next;
        }
        name
    }

    fn set(&self, name: QualifiedName) {
        let newest = self.newest();
        newest.next.get_or_init(|| Box::new(Name::new(name)));
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
///
/// It shows what is committed. One from [`Transaction::table`](crate::Transaction::table), or from the calls that make tables in a transaction,
/// shows what that transaction has defined, too.
#[derive(Clone)]
pub struct Table(pub(crate) Arc<TableInner>, Option<Within>);

/// The transaction whose handle it is, and the name that it has given the table.
#[derive(Clone)]
struct Within {
    definer: Definer,
    name: Option<Arc<str>>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.shown_name())
    }
}

impl Table {
    /// A handle that shows what is committed.
    pub(crate) fn new(inner: Arc<TableInner>) -> Self {
        Table(inner, None)
    }

    /// A handle that shows what a transaction has defined, too: the table's name perhaps.
    pub(crate) fn seen_by(&self, definer: Definer) -> Self {
        let name =
            Some(Arc::from(self.0.qualified_for(definer).name)).filter(|_| self.0.is_defined_by(definer));
        Table(Arc::clone(&self.0), Some(Within { definer, name }))
    }

    /// The transaction whose handle it is, if that has defined something of the table and not committed.
    fn is_within(&self) -> Option<&Within> {
        let within = self.1.as_ref();
        within.filter(|within| self.0.definer() == within.definer)
    }

    /// Whether it shows what its transaction has defined and not committed.
    fn within(&self) -> bool {
        self.is_within().is_some()
    }

    /// Its name, without its schema's.
    pub fn name(&self) -> &str {
        let within = self.is_within().and_then(|within| within.name.as_deref());
        within.unwrap_or(&self.0.qualified_name().name)
    }

    /// The name of its schema: [`PUBLIC`](crate::PUBLIC) unless it was made in another.
    pub fn schema(&self) -> &str {
        &self.0.qualified_name().schema
    }

    /// Its name as errors have it: with its schema, unless that is `public`.
    pub(crate) fn shown_name(&self) -> String {
        self.0.qualified_for(self.viewer()).to_string()
    }

    /// The transaction whose handle it is.
    pub(crate) fn viewer(&self) -> Definer {
        self.1.as_ref().map_or(Definer::NONE, |within| within.definer)
    }

    /// Whether both are the same table of the same store.
    pub fn is_same(&self, other: &Table) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its columns, indexes and constraints as they are now, without indexes that are being made.
    pub fn definition(&self) -> TableDef {
        self.0.definition(self.viewer())
    }

    /// Position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        let columns = self.layout().definitions();
        columns.iter().position(|column| column.name == name)
    }

    /// Where the fields of its new rows lie.
    pub fn layout(&self) -> &Arc<Layout> {
        self.0.layout(self.within())
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
        let mut indexes = self.0.usable(self.within());
        indexes
            .find(|inner| inner.name == name)
            .map(|inner| self.handle(inner))
    }

    /// The primary key's index.
    ///
    /// # Panics
    /// If the table has no primary key: see [`Table::primary_key`].
    pub fn primary(&self) -> Index {
        let primary = self.primary_key();
        primary.unwrap_or_else(|| panic!("table {:?} has no primary key", self.shown_name()))
    }

    /// The primary key's index; none of a table without a primary key.
    pub fn primary_key(&self) -> Option<Index> {
        self.0.primary().map(|inner| self.handle(inner))
    }

    /// All indexes, the primary key's first.
    pub fn indexes(&self) -> Vec<Index> {
        self.0
            .usable(self.within())
            .map(|inner| self.handle(inner))
            .collect()
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
