//! What transactions change: insert, update, delete, and going back to a savepoint.
//!
//! ```text
//! update:  lock the row exclusively ─► new version over the old one ─► new entries in indexes whose key changed
//!          ─► each entry waits for those who have locked its interval
//! ```
//!
//! The old entry of a changed key stays; it goes when no snapshot needs it ([`crate::garbage`]). If a step fails, the steps
//! of the operation before it are undone and the transaction goes on, unless it was refused a lock.

use corun_exec::ctx;
use corun_exec::teams;

use crate::error::{Result, StoreError};
use crate::index::IndexInner;
use crate::known::Reach;
use crate::lock::{Got, RowMode, RowName};
use crate::operations::{UPDATE, check_stack};
use crate::row::{RowBuf, RowError, RowRef};
use crate::session::State;
use crate::slots::{Rid, Slot};
use crate::table::{Table, TableInner};
use crate::transaction::{Direction, Savepoint, Transaction};
use crate::version::VersionPtr;
use crate::write_set::Entry;

/// Free rids that are tried before a fresh one must do: others may still have a lock on the row that was there.
const RID_TRIES: usize = 16;
/// Fresh rids that are tried, each of another batch: who asks for rows by number may have locked some that never were.
const RID_TRIES_FRESH: usize = 1024;

/// The number of no savepoint: they begin at 1.
const NO_SAVEPOINT: u64 = 0;

impl Transaction<'_> {
    /// Adds a row. It is locked exclusively.
    ///
    /// # Errors
    /// [`RowError::NotSet`] if a column without NULL was not set; [`StoreError::Duplicate`] if a unique index has its key;
    /// [`StoreError::ForeignKey`] if it refers to a row that is not there; limits; locks that are not granted.
    pub fn insert(&self, table: &Table, row: &RowBuf) -> Result<Rid> {
        let row = row.whole(table.0.name(), &table.0.layouts)?;
        self.operate(table.0.operations.insert, |state| {
            self.reach(state, table, Reach::WriteRows)?;
            let (rid, slot) = self.free_row(state, table)?;
            ctx!();
            self.change(state, table, (rid, slot), None, Some(row), Some(RowMode::S))?;
            Ok(rid)
        })
    }

    /// A slot without a row, locked.
    pub(crate) fn free_row<'t>(&self, state: &mut State, table: &'t Table) -> Result<(Rid, &'t Slot)> {
        let worker = self.session.worker;
        let mut busy = Vec::new();
        let mut taken = None;
        for at in 0..RID_TRIES + RID_TRIES_FRESH {
            let rid = match at < RID_TRIES {
                true => table.0.slots.take(worker),
                false => table.0.slots.take_fresh(worker),
            };
            let Some(rid) = rid else {
                break;
            };
            let slot = table.0.slots.slot(rid);
            let name = RowName {
                table: table.0.id,
                rid: rid.0,
            };
            // `Held`: the transaction read the row that was here, before it was deleted.
            match state.holder.try_row(name, &slot.lock, RowMode::X) {
                Ok(Some(Got::New)) => {
                    taken = Some(Ok((rid, slot)));
                    break;
                }
                Ok(_) => busy.push(rid),
                Err(error) => {
                    busy.push(rid);
                    taken = Some(Err(error.into()));
                    break;
                }
            }
        }
        busy.into_iter().for_each(|rid| table.0.slots.give(worker, rid));
        taken.unwrap_or_else(|| {
            Err(StoreError::TooManyRows {
                table: table.shown_name(),
            })
        })
    }

    /// Changes a row: `change` gets it as it is and sets fields.
    ///
    /// # Errors
    /// [`StoreError::NoRow`]; what `change` returns; [`StoreError::Duplicate`] if a unique index has its new key;
    /// [`StoreError::ForeignKey`]; limits; locks that are not granted.
    pub fn update(
        &self,
        table: &Table,
        rid: Rid,
        change: impl FnOnce(&mut RowBuf) -> Result<(), RowError>,
    ) -> Result<()> {
        // The caller's code runs while nothing of the session is borrowed.
        let (mut scratch, before) = self.operate(UPDATE, |state| {
            self.reach(state, table, Reach::WriteRows)?;
            let before = self.lock_to_change(state, table, rid)?;
            ctx!();
            // SAFETY: locked; what the transaction replaces is kept to its end.
            let row = unsafe { table.0.layouts.row(before) }.expect("a row that is there");
            let newest = table.0.layouts.newest();
            let mut scratch = state.scratch.take().unwrap_or_else(|| RowBuf::new(newest));
            scratch.load(newest, row);
            Ok((scratch, before))
        })?;
        let changed = change(&mut scratch);
        self.go_on(|state| {
            let answer = changed.map_err(StoreError::from).and_then(|()| {
                let row = scratch.whole(table.0.name(), &table.0.layouts)?;
                let slot = table.0.slots.slot(rid);
                if slot.newest() != Some(before) {
                    return Err(StoreError::ChangedMeanwhile {
                        table: table.shown_name(),
                        rid: rid.0,
                    });
                }
                self.change(
                    state,
                    table,
                    (rid, slot),
                    Some(before),
                    Some(row),
                    Some(RowMode::S),
                )
            });
            state.scratch = Some(scratch);
            answer
        })
    }

    /// Locks a row exclusively that must be there.
    fn lock_to_change(&self, state: &mut State, table: &Table, rid: Rid) -> Result<VersionPtr> {
        let none = || StoreError::NoRow {
            table: table.shown_name(),
            rid: rid.0,
        };
        let slot = table.0.slots.find(rid).ok_or_else(none)?;
        let name = RowName {
            table: table.0.id,
            rid: rid.0,
        };
        state.holder.row(name, &slot.lock, RowMode::X)?;
        state
            .newest(slot)
            .filter(|version| !version.is_deleted())
            .ok_or_else(none)
    }

    /// Deletes a row, and those that refer to it where their foreign key says so. False if there is none.
    ///
    /// # Errors
    /// [`StoreError::ForeignKey`] if other rows refer to it; limits; locks that are not granted.
    pub fn delete(&self, table: &Table, rid: Rid) -> Result<bool> {
        self.operate(table.0.operations.delete, |state| {
            self.reach(state, table, Reach::WriteRows)?;
            let before = match self.lock_to_change(state, table, rid) {
                Ok(before) => before,
                Err(StoreError::NoRow { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
            ctx!();
            let slot = table.0.slots.slot(rid);
            self.change(state, table, (rid, slot), Some(before), None, Some(RowMode::S))?;
            Ok(true)
        })
    }

    /// Makes a new version of a row that is locked, the entries it needs, and what foreign keys make of it. A row that has a key of a unique index
    /// already is locked in mode `same_key`; without one, unique indexes and foreign keys are not looked at.
    #[inline]
    pub(crate) fn change(
        &self,
        state: &mut State,
        table: &Table,
        (rid, slot): (Rid, &Slot),
        before: Option<VersionPtr>,
        after: Option<RowRef<'_>>,
        same_key: Option<RowMode>,
    ) -> Result<()> {
        if !table.0.constraints.are_linked() || same_key.is_none() {
            return self.change_alone(state, &table.0, (rid, slot), before, after, same_key);
        }
        let mark = state.writes.mark();
        let changed = self.change_alone(state, &table.0, (rid, slot), before, after, same_key);
        let changed = changed.and_then(|()| self.follow(state, table, rid, before));
        if changed.is_err() {
            state.undo_to(&mark);
        }
        changed
    }

    /// The same without foreign keys.
    pub(crate) fn change_alone(
        &self,
        state: &mut State,
        table: &TableInner,
        (rid, slot): (Rid, &Slot),
        before: Option<VersionPtr>,
        after: Option<RowRef<'_>>,
        same_key: Option<RowMode>,
    ) -> Result<()> {
        let version = match self.new_version(state, table, before, after) {
            Ok(version) => version,
            Err(error) => {
                if before.is_none() {
                    state.writes.free_row(table.id, rid);
                }
                return Err(error);
            }
        };
        slot.set(Some(version));
        let mark = state.writes.record(table.id, rid, before, version);
        if let Some(after) = after {
            ctx!();
            // SAFETY: locked; what the transaction replaces is kept to its end.
            let before = before.and_then(|before| unsafe { table.layouts.row(before) });
            match self.enter(state, table, rid, before, after, same_key) {
                Ok(moves) => state.writes.set_moves(&mark, moves),
                Err(error) => {
                    state.undo_to(&mark);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// A version over `before` that nobody sees yet, if the limits allow it.
    fn new_version(
        &self,
        state: &mut State,
        table: &TableInner,
        before: Option<VersionPtr>,
        after: Option<RowRef<'_>>,
    ) -> Result<VersionPtr> {
        let store = &self.session.store;
        let newest = table.layouts.newest();
        let upgraded;
        let after = match after.filter(|row| !row.has_layout(newest)) {
            None => after,
            // It was made before a column was added.
            Some(row) => {
                upgraded = RowBuf::upgraded(row, newest);
                Some(upgraded.row())
            }
        };
        let bytes = after.map_or(0, |row| row.encoded().len());
        let limit = store.options.transaction_bytes_max;
        if state.writes.bytes() + bytes > limit {
            return Err(StoreError::TransactionTooLarge { limit });
        }
        let pool = Some(store.pool(self.session.worker));
        let version = VersionPtr::new(
            pool,
            before,
            after.map(RowRef::encoded),
            newest.number(),
            state.writes.next_change(),
        );
        let version = version.ok_or(StoreError::OutOfMemory { bytes })?;
        if state.share.take(&store.memory, version.bytes()) {
            table.measure();
        }
        let grows = bytes > before.map_or(0, VersionPtr::row_bytes);
        if grows && let Err(error) = store.memory.check() {
            state.share.give(&store.memory, version.bytes());
            // SAFETY: nobody else has seen it.
            unsafe { version.free(pool) };
            return Err(error);
        }
        Ok(version)
    }

    /// Puts a row into the indexes where it is not yet. Says whether there is any in which its key changed.
    fn enter(
        &self,
        state: &mut State,
        table: &TableInner,
        rid: Rid,
        before: Option<RowRef<'_>>,
        after: RowRef<'_>,
        same_key: Option<RowMode>,
    ) -> Result<bool> {
        let mut moves = false;
        for (number, index) in table.indexes() {
            if before.is_some_and(|before| index.layout.same(before, after)) {
                continue;
            }
            if !moves && before.is_none() && teams::split(table.operations.insert) {
                teams::operation(table.operations.enter);
            }
            moves = true;
            ctx!();
            let key = index.layout.of_row(after);
            let refused = |source| StoreError::tree(table.name(), &index.name, source);
            let entry = Entry {
                table: table.id,
                index: number as u8,
                rid,
                key,
            };
            let new = if let Some(same_key) =
                same_key.filter(|_| index.unique && !index.layout.has_null(&key, after))
            {
                match index.tree.insert_unique(&key, rid).map_err(refused)? {
                    Ok(()) => true,
                    Err(_) => {
                        self.enter_beside(state, table, index, entry, after, same_key)?;
                        false
                    }
                }
            } else {
                index.tree.insert(&key, rid).map_err(refused)?
            };
            if new {
                state.writes.record_entry(entry);
            }
            state.holder.pass(&index.ranges, &key)?;
        }
        Ok(moves)
    }

    /// Puts an entry into a unique index that has entries of the key already: if they are all left of rows that do not have it
    /// any more.
    fn enter_beside(
        &self,
        state: &mut State,
        table: &TableInner,
        index: &IndexInner,
        entry: Entry,
        after: RowRef<'_>,
        same_key: RowMode,
    ) -> Result<()> {
        let Entry { ref key, rid, .. } = entry;
        let exact = index.layout.exact_of_row(after);
        let refuse_live = |state: &mut State| -> Result<()> {
            let range = exact.range();
            let mut cursor = index.tree.cursor();
            cursor.seek(&range, Direction::Ascending);
            while let Some((_, other)) = cursor.next(&range, Direction::Ascending) {
                if other == rid {
                    continue;
                }
                let slot = table.slots.slot(other);
                let name = RowName {
                    table: table.id,
                    rid: other.0,
                };
                state.holder.row(name, &slot.lock, same_key)?;
                // SAFETY: locked, and not used beyond this block.
                let row = state
                    .newest(slot)
                    .and_then(|version| unsafe { table.layouts.row(version) });
                let layout = &index.layout;
                if let Some(row) = row.filter(|&row| layout.of_row(row) == *key && layout.is_of(row, &exact))
                {
                    let values = index.columns.iter().map(|&column| row.value(column).to_string());
                    return Err(StoreError::Duplicate {
                        table: table.name().to_owned(),
                        index: index.name.clone(),
                        key: values.collect::<Vec<_>>().join(", "),
                    });
                }
            }
            Ok(())
        };
        refuse_live(state)?;
        let refused = |source| StoreError::tree(table.name(), &index.name, source);
        if index.tree.insert(key, rid).map_err(refused)? {
            state.writes.record_entry(entry);
        }
        // Another transaction may have done the same: now each sees the other's entry, and one of them gives way.
        refuse_live(state)
    }

    /// Marks the present state of the transaction. (After a lock was refused that is no state to go back to.)
    pub fn savepoint(&self) -> Savepoint {
        let mut state = self.session.state.borrow_mut();
        state.savepoints += 1;
        Savepoint {
            slot: state.holder.slot(),
            number: if state.ended {
                NO_SAVEPOINT
            } else {
                state.savepoints
            },
            locks: state.holder.mark(),
            newest: state.writes.newest(),
            writes: state.writes.mark(),
            changes: state.writes.next_change(),
            definitions: state.definitions.mark(),
        }
    }

    /// Undoes what was changed and defined after the savepoint, which can be used again. Locks are kept. Snapshots of the transaction end if one
    /// of them may have shown something that is undone; those that were all taken before it was written stay as they are.
    ///
    /// After a deadlock or a lock timeout the transaction goes on from the savepoint, for instance with the same statement again. Then locks
    /// that were taken after the savepoint are let go of, so that those who waited for them go on: what the program has read since then is
    /// not protected any more, and it must not use it. Who is refused again and again may be waiting, with locks from before the savepoint,
    /// for those who wait for these: abort such a transaction.
    ///
    /// ```
    /// # use corun_store::{Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
    /// # let mut session = store.session_here()?;
    /// # let mut row = table.new_row();
    /// # row.set("id", 1)?;
    /// let mut transaction = session.begin()?;
    /// let savepoint = transaction.savepoint();
    /// let inserted = transaction.insert(&table, &row);
    /// if inserted.is_err() {
    ///     transaction.rollback_to(&savepoint)?;
    /// }
    /// transaction.commit()?;
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoSavepoint`].
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        check_stack()?;
        let mut state = self.session.state.borrow_mut();
        let mine = savepoint.slot == state.holder.slot()
            && savepoint.number > state.savepoints_before
            && savepoint.number <= state.savepoints;
        // What stood at its place was rolled back, and other changes stand there now?
        let stands = state.writes.stands(&savepoint.writes, savepoint.newest)
            && state.definitions.stands(&savepoint.definitions);
        if !mine || !stands {
            return Err(StoreError::NoSavepoint);
        }
        // What has been written since was never shown, or its snapshots end.
        if state.shown > savepoint.changes || state.definitions.is_beyond(&savepoint.definitions) {
            state.holder.turn();
            state.shown = 0;
        }
        state.undo_to(&savepoint.writes);
        state.undo_definitions_to(&savepoint.definitions, &self.session.store);
        state.pending.again();
        if std::mem::take(&mut state.ended) {
            // Nothing that was read is borrowed any more: others may replace it.
            state.release_to(&savepoint.locks);
        }
        Ok(())
    }
}
