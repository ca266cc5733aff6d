//! [`Snapshot`]: the store as it was at one moment, to be read only.
//!
//! It takes no locks and is never waited for. While it is open, old versions of rows stay in memory. That of a transaction shows what the
//! transaction has written, too ([`Own`]).

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use corun_exec::ctx;
use corun_exec::teams;

use crate::ahead::{Ahead, TOGETHER, first_rows, slots};
use crate::error::{Result, StoreError};
use crate::index::Index;
use crate::key::long::{LongKey, Run};
use crate::key::{Exact, KeyRange, Words};
use crate::log::Log;
use crate::operations::{SCAN, check_stack};
use crate::own::Own;
use crate::row::RowRef;
use crate::slots::{Rid, Slot};
use crate::store::StoreInner;
use crate::table::Table;
use crate::transaction::{Direction, Found};
use crate::ts::Ts;
use crate::value::Value;
use crate::version::VersionPtr;

/// The store at one moment. From [`crate::Store::snapshot`], or [`crate::Transaction::snapshot`].
pub struct Snapshot {
    place: Arc<Place>,
    ts: Ts,
    /// Of a transaction's.
    own: Option<Own>,
}

/// A place in the horizon, which keeps what a moment shows. Snapshots of one moment share it: with places of their own, a collector could look
/// at the one before it is taken, and at the other after it was left.
struct Place {
    store: Arc<StoreInner>,
    number: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.store.horizon.leave(self.number);
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.ts)
    }
}

impl Snapshot {
    /// Of the moment `moment` names, which is not before the newest durable commit.
    pub(crate) fn new(store: &Arc<StoreInner>, moment: impl FnOnce(&Log) -> Ts) -> Result<Self> {
        Snapshot::at(store, store.horizon.enter(|| moment(&store.log)))
    }

    /// Of a checkpoint: there is always room for one.
    pub(crate) fn for_checkpoint(store: &Arc<StoreInner>) -> Result<Self> {
        Snapshot::at(store, store.horizon.enter_for_checkpoint(|| store.log.last()))
    }

    /// Of now, and of what a transaction has written.
    pub(crate) fn with_own(store: &Arc<StoreInner>, own: Own) -> Result<Self> {
        let mut snapshot = Snapshot::new(store, Log::last)?;
        snapshot.own = Some(own);
        Ok(snapshot)
    }

    /// Of the moment of another, and of what a transaction has written.
    pub(crate) fn at_moment_of(first: &Snapshot, own: Own) -> Self {
        Snapshot {
            place: Arc::clone(&first.place),
            ts: first.ts,
            own: Some(own),
        }
    }

    fn at(store: &Arc<StoreInner>, entered: Option<(usize, Ts)>) -> Result<Self> {
        let limit = store.horizon.places();
        let (number, ts) = entered.ok_or(StoreError::TooManySnapshots { limit })?;
        Ok(Snapshot {
            place: Arc::new(Place {
                store: Arc::clone(store),
                number,
            }),
            ts,
            own: None,
        })
    }

    fn store(&self) -> &StoreInner {
        &self.place.store
    }

    /// Whether it is of this store.
    pub(crate) fn is_of(&self, store: &Arc<StoreInner>) -> bool {
        Arc::ptr_eq(&self.place.store, store)
    }

    /// It shows all that was committed up to this timestamp, and nothing else but what its transaction wrote.
    pub fn ts(&self) -> Ts {
        self.ts
    }

    /// Whether it is of a transaction, and so may show what nobody else is shown.
    pub fn is_of_transaction(&self) -> bool {
        self.own.is_some()
    }

    fn check(&self, table: &Table) -> Result<()> {
        if self
            .own
            .as_ref()
            .is_some_and(|own| !own.stands(&self.store().locks))
        {
            return Err(StoreError::SnapshotEnded);
        }
        if self.store().owns(table) {
            Ok(())
        } else {
            Err(StoreError::OtherStore {
                table: table.shown_name(),
            })
        }
    }

    fn check_index(&self, index: &Index) -> Result<()> {
        self.check(&index.table)?;
        let own = self.sees_definitions(&index.table);
        let is_made = index.inner.is_made(self.ts) || own && index.inner.serves_own(self.ts);
        if !is_made {
            return Err(index.unusable("was made after the snapshot"));
        }
        if !index.inner.is_live() || own && !index.inner.is_kept() {
            return Err(index.unusable("was dropped"));
        }
        Ok(())
    }

    #[inline]
    fn read<'a>(&'a self, table: &'a Table, slot: &'a Slot) -> Option<RowRef<'a>> {
        ctx!(prefetch = &raw const *slot);
        let newest = slot.ask_newest(table.layout().bytes_min());
        ctx!(prefetch = newest);
        let version = self.visible(slot)?;
        // SAFETY: versions this snapshot sees are kept while it is open.
        unsafe { self.row(table, version) }
    }

    /// # Safety
    /// As of [`VersionPtr::row`].
    #[inline]
    unsafe fn row<'a>(&self, table: &'a Table, version: VersionPtr) -> Option<RowRef<'a>> {
        match self.sees_definitions(table) {
            // SAFETY: the caller's promise.
            true => unsafe { table.0.layouts.row(version) },
            // SAFETY: the caller's promise.
            false => unsafe { table.0.layouts.shown_row(version) },
        }
    }

    /// Whether it is of a transaction that has changed definitions of the table.
    #[inline]
    fn sees_definitions(&self, table: &Table) -> bool {
        let own = self.own.as_ref();
        own.is_some_and(|own| own.has_defined(&table.0))
    }

    /// The version of a row that it shows.
    #[inline]
    fn visible(&self, slot: &Slot) -> Option<VersionPtr> {
        let newest = slot.newest()?;
        let own = self.own.as_ref();
        let own = own.and_then(|own| own.written(&self.store().locks, slot, newest));
        own.or_else(|| newest.visible(self.ts))
    }

    /// A row, and the commit that made it so.
    #[inline]
    fn version<'a>(&'a self, table: &'a Table, slot: &'a Slot) -> Option<(Ts, RowRef<'a>)> {
        let version = self.visible(slot)?;
        // SAFETY: versions this snapshot sees are kept while it is open.
        let row = unsafe { self.row(table, version) }?;
        Some((version.committed()?, row))
    }

    /// The rows of a table of this store with these numbers, the commit that made each so, and they themselves.
    pub(crate) fn versions<'a>(
        &'a self,
        table: &'a Table,
        rids: Range<u32>,
    ) -> impl Iterator<Item = (Rid, Ts, RowRef<'a>)> + use<'a> {
        slots(&table.0, rids).filter_map(|(rid, slot)| {
            let (ts, row) = self.version(table, slot)?;
            Some((rid, ts, row))
        })
    }

    fn read_entry<'a>(&'a self, index: &'a Index, key: &Words, rid: Rid) -> Option<Found<'a>> {
        let row = self.read(&index.table, index.table.0.slots.find(rid)?)?;
        (index.inner.layout.of_row(row) == *key).then_some(Found { rid, row })
    }

    /// The row of a key of a unique index.
    ///
    /// # Errors
    /// Values that are no key of the index, [`StoreError::NotUnique`], [`StoreError::IndexUnusable`].
    pub fn fetch<'a>(&'a self, index: &'a Index, key: &[Value<'_>]) -> Result<Option<Found<'a>>> {
        index.check_unique()?;
        self.check_index(index)?;
        check_stack()?;
        teams::operation(index.inner.fetch);
        let Some(key) = index.inner.layout.exact(key)? else {
            return Ok(None);
        };
        let first = index.inner.tree.get(&key.words);
        Ok(self.fetch_from(index, &key, first))
    }

    /// The rows of several keys of a unique index, in their order: as [`Snapshot::fetch`] for each, but the caches are asked for the index
    /// nodes and rows of 32 keys at a time, so that their misses overlap.
    ///
    /// ```
    /// # use corun_store::{Options, Store, TableDef, Type, Value};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
    /// # let mut session = store.session_here()?;
    /// # let mut row = table.new_row();
    /// # session.run(|transaction| {
    /// #     [3, 7].into_iter().try_for_each(|id| {
    /// #         row.set("id", id)?;
    /// #         transaction.insert(&table, &row).map(drop)
    /// #     })
    /// # })?;
    /// let (snapshot, by_id) = (store.snapshot()?, table.primary());
    /// let keys = [7_i64, 5, 3].map(|id| [Value::Int(id)]);
    /// let rows = snapshot.fetch_many(&by_id, keys.iter().map(|key| &key[..]))?;
    /// let ids: Vec<Option<i64>> = rows.iter().map(|found| Some(found.as_ref()?.row.int("id"))).collect();
    /// assert_eq!(ids, [Some(7), None, Some(3)]);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn fetch_many<'a, 'k>(
        &'a self,
        index: &'a Index,
        keys: impl IntoIterator<Item = &'k [Value<'k>]>,
    ) -> Result<Vec<Option<Found<'a>>>> {
        index.check_unique()?;
        self.check_index(index)?;
        check_stack()?;
        teams::operation(index.inner.fetch);
        let keys = index.exact_keys(keys)?;
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(TOGETHER) {
            let first = first_rows(index, keys);
            found.extend(keys.iter().zip(first).map(|(key, first)| {
                let row = self.fetch_from(index, key.as_ref()?, first)?;
                row.ask_rest();
                Some(row)
            }));
        }
        Ok(found)
    }

    /// The row of a key whose first entry is known.
    fn fetch_from<'a>(&'a self, index: &'a Index, key: &Exact, first: Option<Rid>) -> Option<Found<'a>> {
        // Nearly always the first entry is the row. Others are left of rows that had the key before.
        let first = first.and_then(|rid| self.read_entry(index, &key.words, rid));
        first
            .filter(|found| index.inner.layout.is_of(found.row, key))
            .or_else(|| self.scan_from(index, &key.range(), Direction::Ascending).next())
    }

    /// The rows of a range of keys, in order.
    ///
    /// # Errors
    /// [`StoreError::IndexUnusable`], [`StoreError::OtherStore`].
    pub fn scan<'a>(
        &'a self,
        index: &'a Index,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<SnapshotScan<'a>> {
        self.check_index(index)?;
        check_stack()?;
        teams::operation(SCAN);
        Ok(self.scan_from(index, range, direction))
    }

    fn scan_from<'a>(&'a self, index: &'a Index, range: &KeyRange, direction: Direction) -> SnapshotScan<'a> {
        SnapshotScan {
            snapshot: self,
            index,
            range: range.clone(),
            direction,
            entries: Ahead::new(index, range, direction),
            run: Run::default(),
            last: None,
        }
    }

    /// Goes on behind the last row of an earlier ascending scan of the same index and range: for readers that cannot keep the
    /// scan itself, because they must not borrow the snapshot meanwhile.
    ///
    /// # Errors
    /// As [`Snapshot::scan`].
    pub fn scan_after<'a>(
        &'a self,
        index: &'a Index,
        range: &KeyRange,
        place: &ScanPlace,
    ) -> Result<SnapshotScan<'a>> {
        let mut scan = self.scan(index, range, Direction::Ascending)?;
        match &place.long {
            None => scan.entries.begin_after(&place.key, place.rid),
            Some(long) => {
                let rest = KeyRange {
                    low: place.key,
                    ..range.clone()
                };
                scan.entries = Ahead::new(index, &rest, Direction::Ascending);
                while let Some(row) = scan.next_of_run() {
                    if (&row.0, row.1.rid) > (long, place.rid) {
                        scan.run.put_back(row);
                        break;
                    }
                }
            }
        }
        scan.last = Some(place.clone());
        Ok(scan)
    }

    /// Whether what it shows of a row (nothing, too) is the row's newest version: nobody has changed the row since, nor has the snapshot's own
    /// transaction after it was taken. For a transaction that has locked the row exclusively; others may be told what is no longer so.
    ///
    /// ```
    /// # use corun_store::{Lock, Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
    /// # let mut session = store.session_here()?;
    /// # let mut row = table.new_row();
    /// # row.set("id", 1)?;
    /// let before = store.snapshot()?;
    /// let rid = session.run(|transaction| transaction.insert(&table, &row))?;
    /// let transaction = session.begin()?;
    /// transaction.get(&table, rid, Lock::Exclusive)?;
    /// assert!(!before.is_newest(&table, rid)?, "it shows no such row");
    /// assert!(transaction.snapshot()?.is_newest(&table, rid)?);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::OtherStore`], [`StoreError::SnapshotEnded`].
    pub fn is_newest(&self, table: &Table, rid: Rid) -> Result<bool> {
        self.check(table)?;
        let slot = table.0.slots.find(rid);
        Ok(slot.is_none_or(|slot| self.visible(slot) == slot.newest()))
    }

    /// The rows of a table with these numbers, in their order. All of a table's lie below [`Table::rid_end`].
    ///
    /// # Errors
    /// [`StoreError::OtherStore`].
    pub fn rows<'a>(
        &'a self,
        table: &'a Table,
        rids: Range<u32>,
    ) -> Result<impl Iterator<Item = Found<'a>> + use<'a>> {
        self.check(table)?;
        Ok(slots(&table.0, rids).filter_map(|(rid, slot)| {
            let row = self.read(table, slot)?;
            Some(Found { rid, row })
        }))
    }
}

/// Rows of a range of keys, in order. From [`Snapshot::scan`].
pub struct SnapshotScan<'a> {
    snapshot: &'a Snapshot,
    index: &'a Index,
    range: KeyRange,
    direction: Direction,
    entries: Ahead<'a>,
    /// Where the index cuts keys.
    run: Run<'a>,
    last: Option<ScanPlace>,
}

/// Where a scan stopped. From [`SnapshotScan::place`].
#[derive(Clone, Debug)]
pub struct ScanPlace {
    key: Words,
    rid: Rid,
    /// The whole key, if the index cuts keys.
    long: Option<LongKey>,
}

impl<'a> SnapshotScan<'a> {
    fn next_of_run(&mut self) -> Option<(LongKey, Found<'a>)> {
        let (snapshot, index) = (self.snapshot, self.index);
        let read = |key: &Words, rid| Ok::<_, Infallible>(snapshot.read_entry(index, key, rid));
        let next = || self.entries.next(&self.range, self.direction);
        let Ok(row) = self
            .run
            .next(next, &index.inner, &self.range, self.direction, read);
        row
    }

    /// The place of the last row it returned, for [`Snapshot::scan_after`].
    pub fn place(&self) -> Option<ScanPlace> {
        self.last.clone()
    }
}

impl<'a> Iterator for SnapshotScan<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        if self.index.inner.layout.cuts() {
            let (long, found) = self.next_of_run()?;
            self.last = Some(ScanPlace {
                key: self.index.inner.layout.of_row(found.row),
                rid: found.rid,
                long: Some(long),
            });
            return Some(found);
        }
        while let Some((key, rid)) = self.entries.next(&self.range, self.direction) {
            if let Some(found) = self.snapshot.read_entry(self.index, &key, rid) {
                self.last = Some(ScanPlace { key, rid, long: None });
                return Some(found);
            }
        }
        None
    }
}
