//! [`Transaction`]: reading. The operations that change rows are in `write.rs` and `by_key.rs`, its end in
//! `commit.rs`.
//!
//! Every operation takes the locks it needs first, in the order table, row (or interval of an index), and keeps them to the end
//! (strict two-phase locking): transactions are serializable. All take `&self`, so that rows read stay readable to the end
//! of the transaction.
//!
//! On a user-level thread each operation begins with [`teams::operation`], which may let a whole team run first, and has CTX
//! points, where the next of the team goes on ([`corun_exec::ctx!`]): before a row's slot and its newest version are touched, with a
//! prefetch, and between its stages, where a profile may turn them on. No mutex of the store is held at any of them, nor while
//! a lock or the log is waited for.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use corun_exec::ctx;
use corun_exec::teams::{self, Operation};

use crate::ahead::{Ahead, TOGETHER, first_rows};
use crate::definition_set::DefinitionMark;
use crate::error::{Result, StoreError};
use crate::index::Index;
use crate::key::long::Run;
use crate::key::{Exact, KeyRange, Words};
use crate::known::Reach;
use crate::lock::{LockError, LockMark, RowMode, RowName, TableMode};
use crate::operations::{SCAN, check_stack};
use crate::own::Own;
use crate::row::RowRef;
use crate::session::{Session, State};
use crate::slots::Rid;
use crate::snapshot::Snapshot;
use crate::store::StoreInner;
use crate::table::Table;
use crate::value::Value;
use crate::version::{VersionPtr, ask_rest};
use crate::write_set::WriteMark;

/// Where a scan begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// At the smallest key.
    Ascending,
    /// At the largest key.
    Descending,
}

/// How rows are locked that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Others may read them too.
    Shared,
    /// Nobody else may. For rows that will be changed: asking for more later is how deadlocks begin.
    Exclusive,
}

/// A row and its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found<'a> {
    /// Names the row in its table.
    pub rid: Rid,
    /// The row.
    pub row: RowRef<'a>,
}

impl Found<'_> {
    /// Asks the caches for what a batch could not ask for before it knew the row's length.
    #[inline]
    pub(crate) fn ask_rest(&self) {
        ask_rest(self.row.encoded(), self.row.bytes_min());
    }
}

/// A transaction of a session. Dropped without [`Transaction::commit`], it is aborted; so it is when a panic passes through.
pub struct Transaction<'s> {
    pub(crate) session: &'s Session,
    pub(crate) finished: bool,
    /// One at a time.
    only: PhantomData<&'s mut Session>,
}

/// A change that is never made: rows are read as they are now.
pub(crate) const NOW: u64 = u64::MAX;

/// Marks a point of a transaction to go back to.
#[derive(Clone, Debug)]
pub struct Savepoint {
    /// The session's, as the locks number it.
    pub(crate) slot: u32,
    pub(crate) number: u64,
    /// The newest version made before it. Versions that are undone are kept to the end of the transaction, so that no other
    /// gets the address: if it stands in its place, all before it does.
    pub(crate) newest: Option<VersionPtr>,
    pub(crate) writes: WriteMark,
    /// The session's change that would be next.
    pub(crate) changes: u64,
    pub(crate) definitions: DefinitionMark,
    pub(crate) locks: LockMark,
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(session: &'s Session) -> Self {
        Transaction {
            session,
            finished: false,
            only: PhantomData,
        }
    }

    /// Runs an operation, once it is the turn of its team, and notes whether it was refused a lock.
    #[inline]
    pub(crate) fn operate<R>(
        &self,
        name: Operation,
        operation: impl FnOnce(&mut State) -> Result<R>,
    ) -> Result<R> {
        check_stack()?;
        // On either side of the team's own code, which is two kilobytes.
        ctx!();
        teams::operation(name);
        ctx!();
        self.go_on(operation)
    }

    /// Runs a further part of an operation.
    #[inline]
    pub(crate) fn go_on<R>(&self, operation: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
        let mut state = self.session.state.borrow_mut();
        if state.ended {
            return Err(StoreError::Ended);
        }
        let answer = operation(&mut state);
        if let Err(StoreError::Lock(LockError::Deadlock { .. } | LockError::Timeout { .. })) = &answer {
            state.ended = true;
        }
        answer
    }

    /// Locks a table.
    pub(crate) fn reach(&self, state: &mut State, table: &Table, wanted: Reach) -> Result<Reach> {
        match state.tables.reach(table) {
            Some(reach) if reach >= wanted && !(wanted == Reach::WriteRows && reach == Reach::Read) => {
                return Ok(reach);
            }
            _ if state.definitions.hides(table) => return Err(dropped(table)),
            Some(_) => {}
            None => self.meet(state, table)?,
        }
        let mode = match wanted {
            Reach::Nothing => unreachable!("nobody asks for nothing"),
            Reach::ReadRows => TableMode::IS,
            Reach::WriteRows => TableMode::IX,
            Reach::Read => TableMode::S,
            Reach::Write => TableMode::X,
        };
        ctx!();
        state.holder.table(&table.0.lock, mode)?;
        let reach = state.tables.raise(table.0.id, wanted);
        table.0.check_there()?;
        Ok(reach)
    }

    /// Makes a table known to the session.
    #[cold]
    fn meet(&self, state: &mut State, table: &Table) -> Result<()> {
        if !self.session.store.owns(table) {
            return Err(StoreError::OtherStore {
                table: table.shown_name(),
            });
        }
        table.0.check_there()?;
        state.tables.meet(table);
        Ok(())
    }

    fn reach_to_read(&self, state: &mut State, table: &Table, lock: Lock) -> Result<Reach> {
        self.reach(
            state,
            table,
            match lock {
                Lock::Shared => Reach::ReadRows,
                Lock::Exclusive => Reach::WriteRows,
            },
        )
    }

    /// Locks a row and reads it, as it was before the transaction's own change `since`.
    #[inline]
    pub(crate) fn lock_and_read<'t>(
        &'t self,
        state: &mut State,
        table: &'t Table,
        rid: Rid,
        lock: Lock,
        reach: Reach,
        since: u64,
    ) -> Result<Option<RowRef<'t>>> {
        let Some(slot) = table.0.slots.find(rid) else {
            return Ok(None);
        };
        ctx!(prefetch = &raw const *slot);
        // Before the lock, although the version may be another one by then: so the lines come while the lock is taken, too.
        let newest = slot.ask_newest(table.layout().bytes_min());
        ctx!(prefetch = newest);
        let name = RowName {
            table: table.0.id,
            rid: rid.0,
        };
        match lock {
            Lock::Exclusive => {
                state.holder.row(name, &slot.lock, RowMode::X)?;
            }
            Lock::Shared if reach >= Reach::Read => {}
            Lock::Shared => {
                state.holder.row(name, &slot.lock, RowMode::S)?;
            }
        }
        ctx!();
        let mut newest = state.newest(slot);
        while let Some(version) = newest.filter(|version| version.is_made_since(since)) {
            newest = version.previous();
        }
        let Some(version) = newest else {
            return Ok(None);
        };
        // SAFETY: the lock keeps all others from replacing the version before the transaction ends, and what the transaction
        // itself replaces is kept to its end; `'t` ends before it.
        Ok(unsafe { table.0.layouts.row(version) })
    }

    /// The row of a key of a unique index, locked shared; or none, and then nobody else can add one until the transaction ends. Rows with a NULL
    /// in the key may be several: the first of them.
    ///
    /// # Errors
    /// Values that are no key of the index, locks that are not granted, [`StoreError::NotUnique`].
    pub fn fetch<'t>(&'t self, index: &'t Index, key: &[Value<'_>]) -> Result<Option<Found<'t>>> {
        self.fetch_locked(index, key, Lock::Shared)
    }

    /// As [`Transaction::fetch`], locked exclusively.
    ///
    /// # Errors
    /// As there.
    pub fn fetch_for_update<'t>(&'t self, index: &'t Index, key: &[Value<'_>]) -> Result<Option<Found<'t>>> {
        self.fetch_locked(index, key, Lock::Exclusive)
    }

    /// The rows of several keys of a unique index, locked in the order of the keys: as [`Transaction::fetch`] (or
    /// [`Transaction::fetch_for_update`]) for each, but the caches are asked for the index nodes and rows of 32 keys at a time, so that
    /// their misses overlap.
    ///
    /// # Errors
    /// As there. Rows locked before the error stay locked.
    pub fn fetch_many<'t, 'k>(
        &'t self,
        index: &'t Index,
        keys: impl IntoIterator<Item = &'k [Value<'k>]>,
        lock: Lock,
    ) -> Result<Vec<Option<Found<'t>>>> {
        index.check_unique()?;
        let keys = index.exact_keys(keys)?;
        self.operate(index.inner.fetch, |state| {
            let reach = self.reach_to_read(state, &index.table, lock)?;
            index.check()?;
            let mut found = Vec::with_capacity(keys.len());
            for keys in keys.chunks(TOGETHER) {
                for (key, first) in keys.iter().zip(first_rows(index, keys)) {
                    let row = match key {
                        None => None,
                        Some(key) => self.fetch_from(state, index, key, first, lock, reach)?,
                    };
                    found.push(row.inspect(Found::ask_rest));
                }
            }
            Ok(found)
        })
    }

    fn fetch_locked<'t>(
        &'t self,
        index: &'t Index,
        key: &[Value<'_>],
        lock: Lock,
    ) -> Result<Option<Found<'t>>> {
        ctx!();
        index.check_unique()?;
        let Some(key) = index.inner.layout.exact(key)? else {
            return Ok(None);
        };
        self.operate(index.inner.fetch, |state| {
            let reach = self.reach_to_read(state, &index.table, lock)?;
            index.check()?;
            ctx!();
            let first = index.inner.tree.get(&key.words);
            ctx!();
            self.fetch_from(state, index, &key, first, lock, reach)
        })
    }

    /// The row of a key whose first entry is known.
    #[inline]
    fn fetch_from<'t>(
        &'t self,
        state: &mut State,
        index: &'t Index,
        key: &Exact,
        first: Option<Rid>,
        lock: Lock,
        reach: Reach,
    ) -> Result<Option<Found<'t>>> {
        // Nearly always the first entry is the row. Others are left of rows that had the key before.
        if let Some(rid) = first
            && let Some(found) = self.read_entry(state, index, &key.words, rid, lock, reach, NOW)?
            && index.inner.layout.is_of(found.row, key)
        {
            return Ok(Some(found));
        }
        self.first_of(state, index, &key.range(), Direction::Ascending, lock, reach)
    }

    /// Reads the row of an entry as it was before the transaction's change `since`; none if it had another key, or was not there.
    #[expect(
        clippy::too_many_arguments,
        reason = "what an entry is read by, of which callers know different parts"
    )]
    fn read_entry<'t>(
        &'t self,
        state: &mut State,
        index: &'t Index,
        key: &Words,
        rid: Rid,
        lock: Lock,
        reach: Reach,
        since: u64,
    ) -> Result<Option<Found<'t>>> {
        let row = self.lock_and_read(state, &index.table, rid, lock, reach, since)?;
        ctx!();
        Ok(row
            .filter(|&row| index.inner.layout.of_row(row) == *key)
            .map(|row| Found { rid, row }))
    }

    /// A row by its number; none if there is no such row.
    ///
    /// # Errors
    /// Locks that are not granted.
    pub fn get<'t>(&'t self, table: &'t Table, rid: Rid, lock: Lock) -> Result<Option<RowRef<'t>>> {
        self.operate(table.0.operations.get, |state| {
            let reach = self.reach_to_read(state, table, lock)?;
            self.lock_and_read(state, table, rid, lock, reach, NOW)
        })
    }

    /// The first row of a range of keys, in one direction. Only the keys up to it are locked against rows that others might
    /// add.
    ///
    /// # Errors
    /// Locks that are not granted.
    pub fn first<'t>(
        &'t self,
        index: &'t Index,
        range: &KeyRange,
        direction: Direction,
        lock: Lock,
    ) -> Result<Option<Found<'t>>> {
        self.operate(SCAN, |state| {
            let reach = self.reach_to_read(state, &index.table, lock)?;
            index.check()?;
            self.first_of(state, index, range, direction, lock, reach)
        })
    }

    fn first_of<'t>(
        &'t self,
        state: &mut State,
        index: &'t Index,
        range: &KeyRange,
        direction: Direction,
        lock: Lock,
        reach: Reach,
    ) -> Result<Option<Found<'t>>> {
        let mut rest = range.clone();
        let mut cursor = index.inner.tree.cursor();
        while !rest.is_empty() {
            // First a look, then the interval is locked up to what was seen, then a look again: an entry that came between is
            // either seen now, or its transaction waits for the interval.
            cursor.seek(&rest, direction);
            let seen = cursor.next(&rest, direction);
            let mut part = rest.clone();
            if let Some((key, _)) = seen {
                match direction {
                    Direction::Ascending => part.high = key,
                    Direction::Descending => part.low = key,
                }
            }
            if reach < Reach::Read {
                state.holder.range(&index.inner.ranges, &part.low, &part.high)?;
            }
            ctx!();
            cursor.seek(&part, direction);
            if index.inner.layout.cuts() {
                let read = |key: &Words, rid| self.read_entry(state, index, key, rid, lock, reach, NOW);
                let next = || cursor.next(&part, direction);
                let row = Run::default().next(next, &index.inner, &part, direction, read)?;
                if let Some((_, found)) = row {
                    return Ok(Some(found));
                }
            }
            while let Some((key, rid)) = cursor.next(&part, direction) {
                if let Some(found) = self.read_entry(state, index, &key, rid, lock, reach, NOW)? {
                    return Ok(Some(found));
                }
            }
            // Only entries of old rows so far.
            let Some((key, _)) = seen else {
                break;
            };
            let beyond = match direction {
                Direction::Ascending => index.inner.tree.after(key).map(|low| rest.low = low),
                Direction::Descending => index.inner.tree.before(key).map(|high| rest.high = high),
            };
            if beyond.is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// The rows of a range of keys, in order. The whole range is locked against rows that others might add; rows are locked as
    /// they are read. They come as they were when the scan began: what the transaction itself changes meanwhile is not shown.
    ///
    /// # Errors
    /// Locks that are not granted.
    pub fn scan<'t>(
        &'t self,
        index: &'t Index,
        range: &KeyRange,
        direction: Direction,
        lock: Lock,
    ) -> Result<Scan<'t, 's>> {
        let (reach, since) = self.operate(SCAN, |state| {
            let reach = self.reach_to_read(state, &index.table, lock)?;
            index.check()?;
            if reach < Reach::Read && !range.is_empty() {
                state.holder.range(&index.inner.ranges, &range.low, &range.high)?;
            }
            Ok((reach, state.writes.next_change()))
        })?;
        Ok(Scan {
            transaction: self,
            index,
            range: range.clone(),
            direction,
            lock,
            reach,
            since,
            entries: Ahead::new(index, range, direction),
            run: Run::default(),
        })
    }

    /// All that is committed now, and what the transaction has written so far: whole tables and ranges of indexes can be read without a lock,
    /// as a query does. It serves until the transaction ends, or takes back by a savepoint what one of its snapshots shows; what the transaction
    /// writes later it does not show.
    ///
    /// The transaction is not serializable in what it reads so: others may change it at once. Rows that decide what it writes it should read
    /// again by [`Transaction::fetch_for_update`].
    ///
    /// ```
    /// # use corun_store::{Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
    /// # let mut session = store.session_here()?;
    /// # let mut row = table.new_row();
    /// # row.set("id", 1)?;
    /// let transaction = session.begin()?;
    /// transaction.insert(&table, &row)?;
    /// let view = transaction.snapshot()?;
    /// assert_eq!(view.rows(&table, 0..table.rid_end())?.count(), 1);
    /// transaction.commit()?;
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::TooManySnapshots`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_with(Snapshot::with_own)
    }

    /// As [`Transaction::snapshot`], but of others it shows what was committed at the moment of `first`, which may be any snapshot of the store:
    /// so each of many reads of a transaction sees one moment and its own writes. It keeps old versions as `first` does, and takes no place of
    /// its own among the open snapshots.
    ///
    /// What the transaction changes others may have changed after that moment, and then its writes are of newer rows than its reads:
    /// [`Snapshot::is_newest`] tells.
    ///
    /// ```
    /// # use corun_store::{Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
    /// # let (mut session, mut other) = (store.session_here()?, store.session_here()?);
    /// # let row = |id: i64| -> corun_store::Result<_> {
    /// #     let mut row = table.new_row();
    /// #     row.set("id", id)?;
    /// #     Ok(row)
    /// # };
    /// let transaction = session.begin()?;
    /// let first = transaction.snapshot()?;
    /// other.run(|other| other.insert(&table, &row(1)?))?;
    /// transaction.insert(&table, &row(2)?)?;
    /// let view = transaction.snapshot_at(&first)?;
    /// let ids: Vec<i64> = view.rows(&table, 0..table.rid_end())?.map(|found| found.row.int("id")).collect();
    /// assert_eq!(ids, [2]);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::SnapshotOfOtherStore`].
    pub fn snapshot_at(&self, first: &Snapshot) -> Result<Snapshot> {
        self.snapshot_with(|store, own| match first.is_of(store) {
            true => Ok(Snapshot::at_moment_of(first, own)),
            false => Err(StoreError::SnapshotOfOtherStore),
        })
    }

    fn snapshot_with(
        &self,
        take: impl FnOnce(&Arc<StoreInner>, Own) -> Result<Snapshot>,
    ) -> Result<Snapshot> {
        check_stack()?;
        self.go_on(|state| {
            let (store, next) = (&self.session.store, state.writes.next_change());
            let snapshot = take(store, Own::new(&store.locks, state.holder.slot(), next))?;
            // It commits behind what it shows.
            state.seen = state.seen.max(snapshot.ts());
            state.shown = next;
            Ok(snapshot)
        })
    }

    /// How long it waits for a lock from now on, and the later transactions of its session. With zero, who would have to wait is refused at once
    /// ([`LockError::Timeout`]); after [`Transaction::rollback_to`] the transaction goes on, perhaps with a longer time.
    pub fn set_lock_timeout(&self, timeout: Duration) {
        self.session.state.borrow_mut().holder.set_timeout(timeout);
    }

    /// How long it waits for a lock.
    pub fn lock_timeout(&self) -> Duration {
        self.session.state.borrow().holder.timeout()
    }

    /// Locks a whole table: shared, so that all its rows can be read without further locks, or exclusively.
    ///
    /// # Errors
    /// If it is not granted.
    pub fn lock_table(&self, table: &Table, lock: Lock) -> Result<()> {
        let wanted = match lock {
            Lock::Shared => Reach::Read,
            Lock::Exclusive => Reach::Write,
        };
        check_stack()?;
        self.go_on(|state| self.reach(state, table, wanted).map(drop))
    }
}

fn dropped(table: &Table) -> StoreError {
    StoreError::Dropped {
        table: table.shown_name(),
    }
}

impl Index {
    /// Whether it can still be used, by who has its table locked.
    pub(crate) fn check(&self) -> Result<()> {
        if self.inner.is_live() && self.inner.is_kept() {
            Ok(())
        } else {
            Err(self.unusable("was dropped"))
        }
    }

    pub(crate) fn check_unique(&self) -> Result<()> {
        if self.is_unique() {
            return Ok(());
        }
        Err(StoreError::NotUnique {
            table: self.table.shown_name(),
            index: self.name().to_owned(),
        })
    }

    /// The key of each of several lists of values.
    pub(crate) fn exact_keys<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [Value<'k>]>,
    ) -> Result<Vec<Option<Exact>>> {
        let keys = keys.into_iter().map(|key| self.inner.layout.exact(key));
        Ok(keys.collect::<Result<_, _>>()?)
    }

    pub(crate) fn unusable(&self, why: &'static str) -> StoreError {
        StoreError::IndexUnusable {
            table: self.table.shown_name(),
            index: self.name().to_owned(),
            why,
        }
    }
}

/// Rows of a range of keys, in order. From [`Transaction::scan`].
pub struct Scan<'t, 's> {
    transaction: &'t Transaction<'s>,
    index: &'t Index,
    range: KeyRange,
    direction: Direction,
    lock: Lock,
    reach: Reach,
    /// The transaction's change that would be next when it began.
    since: u64,
    entries: Ahead<'t>,
    /// Where the index cuts keys.
    run: Run<'t>,
}

impl<'t> Scan<'t, '_> {
    /// The next row.
    ///
    /// # Errors
    /// Locks that are not granted.
    #[expect(
        clippy::should_implement_trait,
        reason = "it can fail; an iterator of results would be clumsy to use with `?`"
    )]
    pub fn next(&mut self) -> Result<Option<Found<'t>>> {
        if self.index.inner.layout.cuts() {
            check_stack()?;
            let (transaction, index) = (self.transaction, self.index);
            let (lock, reach, since) = (self.lock, self.reach, self.since);
            let read = |key: &Words, rid| {
                transaction.go_on(|state| transaction.read_entry(state, index, key, rid, lock, reach, since))
            };
            let next = || self.entries.next(&self.range, self.direction);
            let row = self
                .run
                .next(next, &index.inner, &self.range, self.direction, read)?;
            return Ok(row.map(|(_, found)| found));
        }
        loop {
            check_stack()?;
            let entry = self.entries.next(&self.range, self.direction);
            let found = self.transaction.go_on(|state| {
                let Some((key, rid)) = entry else {
                    return Ok(None);
                };
                let Scan {
                    lock, reach, since, ..
                } = *self;
                self.transaction
                    .read_entry(state, self.index, &key, rid, lock, reach, since)
            })?;
            if found.is_some() || entry.is_none() {
                return Ok(found);
            }
        }
    }
}
