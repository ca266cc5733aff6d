//! Indexes that are made while transactions go on: [`Store::create_index_concurrently`].
//!
//! ```text
//! begin    table locked for a moment: from now on whoever writes rows puts them into the index, too; nobody reads it
//! fill     row by row, each locked shared for a moment: the key it has, unless its writer has put it in
//! unique   rows that share a key are looked at together
//! finish   the log has the definition, and with it the index is there, for snapshots from that commit on
//! ```
//!
//! Why it is whole then: a row that nobody has changed since the beginning has the entry of `fill`, which no transaction was changing then;
//! every other has that of its last writer. Readers lock intervals as those of any index: who writes puts his entry in first and passes the
//! intervals then, from the beginning on. Until the finish the log knows nothing of it, so a crash leaves nothing.
//!
//! What it is not: the fast way. [`Store::create_index`] keeps all writers out and sorts.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use corun_exec::teams;

use crate::definition::Definition;
use crate::error::{Result, StoreError};
use crate::index::{IndexInner, Made};
use crate::key::long::LongKey;
use crate::key::{KeyRange, Words};
use crate::known::Reach;
use crate::lock::{Got, RowMode, RowName};
use crate::options::Durability;
use crate::recovery;
use crate::redo;
use crate::row::RowRef;
use crate::session::{Session, State};
use crate::slots::Rid;
use crate::store::Store;
use crate::table::{Definer, Table};
use crate::transaction::{Direction, Lock, Transaction};

/// Rows that are locked at a time, at most. Unmeasured.
const ROWS_AT_A_TIME: u32 = 64;
/// Entries that are read with one cursor.
const ENTRIES_AT_A_TIME: usize = 1024;

impl Store {
    /// Makes an index over the rows of a table while transactions change them. They wait for a moment at its beginning, when it waits for
    /// those that write to the table. It can be used when this returns, by transactions and by snapshots that begin then.
    ///
    /// A unique index refuses rows that are added with a key that is there already while it is being made.
    ///
    /// # Errors
    /// As [`Store::create_index`]; then there is nothing of the index. [`StoreError::Dropped`] if the table is dropped meanwhile. A row
    /// that is locked for long is waited for as [`Session::run`] waits.
    pub fn create_index_concurrently(
        &self,
        table: &Table,
        name: &str,
        unique: bool,
        columns: &[&str],
    ) -> Result<()> {
        teams::blocking(|| {
            let index = self.begin_index(table, name, unique, columns)?;
            let building = Building { table, index: &index };
            let made = building
                .build(self)
                .and_then(|()| self.finish_index(table, &index));
            if made.is_err() && !index.is_usable() {
                // Nobody reads it, and whoever is writing to it does no harm.
                table.0.remove_index(&index);
            }
            made
        })
    }

    /// From now on writers put their rows into it.
    fn begin_index(
        &self,
        table: &Table,
        name: &str,
        unique: bool,
        columns: &[&str],
    ) -> Result<Arc<IndexInner>> {
        let mut session = self.session_here()?;
        let locked = session.begin()?;
        locked.lock_table(table, Lock::Exclusive)?;
        let seen = table.0.definition(Definer::NONE);
        let with = table.0.with_index(seen, name, unique, columns)?;
        let index = with.indexes.last().expect("it was just added");
        let positions = with.positions(index)?;
        let made = IndexInner::new(
            table.0.id,
            table.0.name(),
            index,
            &with.columns,
            positions,
            Made::Beside,
            |_| None,
        )
        .map_err(|source| StoreError::tree(table.0.name(), name, source))?;
        Ok(table.0.add_index(made).expect("there was room"))
    }

    fn finish_index(&self, table: &Table, index: &Arc<IndexInner>) -> Result<()> {
        let inner = &self.inner;
        // Nobody is changing definitions of the table then.
        self.session_here()?.run(|transaction| {
            transaction.go_on(|state| transaction.reach(state, table, Reach::ReadRows))?;
            let _defining = inner.defining.lock();
            // Columns may have got other names.
            let definition = index.definition(table.0.layouts.shown().definitions());
            let block = redo::definition(&Definition::CreateIndex(table.0.id, definition));
            inner.append_definition_then(&block, |ts| table.0.show_index(index, ts))
        })?;
        inner.flush_definition()
    }
}

/// An index that is being made.
struct Building<'a> {
    table: &'a Table,
    index: &'a IndexInner,
}

impl Building<'_> {
    fn build(&self, store: &Store) -> Result<()> {
        let mut session = store.session_here()?;
        // Nothing of what it reads is told to anybody before the definition is on disk.
        session.set_durability(Durability::Asynchronous);
        self.fill(&mut session)?;
        match self.index.unique {
            true => self.check_unique(&mut session),
            false => Ok(()),
        }
    }

    /// Puts all rows in that are there; newer ones have rids of their own, or are their writers'.
    fn fill(&self, session: &mut Session) -> Result<()> {
        let (end, at) = (self.table.rid_end(), Cell::new(0));
        while at.get() < end {
            // Again from where it was, if it had to give way.
            session.run(|transaction| {
                let until = end.min(at.get() + ROWS_AT_A_TIME);
                transaction.go_on(|state| self.fill_some(transaction, state, &at, until))
            })?;
            if at.get() % (ROWS_AT_A_TIME * 64) < ROWS_AT_A_TIME {
                self.table.0.measure();
                session.store.memory.check()?;
            }
        }
        Ok(())
    }

    /// Puts rows in, and stops before one that must be waited for while others are locked: so nobody waits for it in a circle.
    fn fill_some(
        &self,
        transaction: &Transaction<'_>,
        state: &mut State,
        at: &Cell<u32>,
        until: u32,
    ) -> Result<()> {
        transaction.reach(state, self.table, Reach::ReadRows)?;
        let first = at.get();
        while at.get() < until {
            let rid = Rid(at.get());
            let slot = self.table.0.slots.find(rid);
            if let Some(slot) = slot.filter(|slot| slot.newest().is_some()) {
                let name = self.name(rid);
                if rid.0 == first {
                    state.holder.row(name, &slot.lock, RowMode::S)?;
                } else if !matches!(
                    state.holder.try_row(name, &slot.lock, RowMode::S),
                    Ok(Some(Got::New | Got::Held))
                ) {
                    return Ok(());
                }
                if let Some(row) = self.row(state, rid) {
                    let key = self.index.layout.of_row(row);
                    let inserted = self.index.tree.insert(&key, rid);
                    inserted
                        .map_err(|source| StoreError::tree(self.table.0.name(), &self.index.name, source))?;
                }
            }
            at.set(rid.0 + 1);
        }
        Ok(())
    }

    /// Looks for two rows of one key. Those that are written from now on find each other.
    fn check_unique(&self, session: &mut Session) -> Result<()> {
        let mut last: Option<(Words, Rid)> = None;
        loop {
            let (mut twice, mut read) = (None, 0);
            let mut cursor = self.index.tree.cursor();
            match &last {
                None => cursor.seek(&KeyRange::all(), Direction::Ascending),
                Some((key, rid)) => cursor.seek_after(key, *rid),
            }
            while let Some(next) = cursor.next(&KeyRange::all(), Direction::Ascending) {
                let before = last.replace(next);
                twice = before.map(|(key, _)| key).filter(|key| *key == next.0);
                read += 1;
                if twice.is_some() || read == ENTRIES_AT_A_TIME {
                    break;
                }
            }
            drop(cursor);
            match twice {
                Some(key) => {
                    self.check_key(session, &key)?;
                    // All its entries were looked at.
                    last = Some((key, Rid(u32::MAX)));
                }
                None if read < ENTRIES_AT_A_TIME => return Ok(()),
                None => {}
            }
        }
    }

    /// Whether several of the rows with entries of a key have it: nearly always the others had it before.
    fn check_key(&self, session: &mut Session, key: &Words) -> Result<()> {
        let mut known = HashMap::new();
        for rid in self.entries_of(key) {
            let Some(long) = session.run(|transaction| self.unique_key(transaction, rid, key))? else {
                continue;
            };
            let Some(other) = known.insert(long, rid) else {
                continue;
            };
            // One after the other may have had it, so both again.
            session.run(|transaction| {
                let one = self.unique_key(transaction, other, key)?;
                let two = self.unique_key(transaction, rid, key)?;
                match one.is_some() && one == two {
                    false => Ok(()),
                    true => Err(recovery::duplicate(self.table, self.index, rid)),
                }
            })?;
        }
        Ok(())
    }

    fn entries_of(&self, key: &Words) -> Vec<Rid> {
        let range = KeyRange {
            low: *key,
            high: *key,
            long: None,
        };
        let mut cursor = self.index.tree.cursor();
        cursor.seek(&range, Direction::Ascending);
        std::iter::from_fn(|| cursor.next(&range, Direction::Ascending))
            .map(|(_, rid)| rid)
            .collect()
    }

    /// The whole key of a row, which is locked; none if it has another than `key`, or one that others may have, too.
    fn unique_key(&self, transaction: &Transaction<'_>, rid: Rid, key: &Words) -> Result<Option<LongKey>> {
        transaction.go_on(|state| {
            transaction.reach(state, self.table, Reach::ReadRows)?;
            let slot = self.table.0.slots.slot(rid);
            state.holder.row(self.name(rid), &slot.lock, RowMode::S)?;
            let layout = &self.index.layout;
            let row = self.row(state, rid);
            let row = row.filter(|&row| layout.of_row(row) == *key && !layout.has_null(key, row));
            Ok(row.map(|row| layout.long_of_row(row)))
        })
    }

    fn name(&self, rid: Rid) -> RowName {
        RowName {
            table: self.table.0.id,
            rid: rid.0,
        }
    }

    /// A row that is locked. To the end of the transaction only.
    fn row(&self, state: &mut State, rid: Rid) -> Option<RowRef<'_>> {
        let newest = state.newest(self.table.0.slots.slot(rid))?;
        // SAFETY: the row's lock keeps its newest version, and the transaction has it to its end.
        unsafe { self.table.0.layouts.row(newest) }
    }
}
