//! Changes by primary key: update, delete, and insert or replace.
//!
//! ```text
//! upsert:  lock the row that has the key exclusively ─► replace it
//!          if there is none: insert ─► somebody inserted the key meanwhile: wait for him, lock his row exclusively, replace it
//! ```
//!
//! An upsert locks no interval of keys, as a read of the missing key would: two transactions that both had locked it could not insert
//! any more. It needs none: it says nothing about the key before it has a row of that key locked, the old one or its own.
//!
//! [`Transaction::find_for_update`] and [`Transaction::insert_or_lock`] are its two steps, for programs that do something else with the row.
//!
//! What it is not: a faster way. Each call looks the key up; a program that has the rid uses [`Transaction::update`].

use crate::error::{Result, StoreError};
use crate::index::{Index, IndexInner};
use crate::known::Reach;
use crate::lock::RowMode;
use crate::row::{RowBuf, RowError, RowRef};
use crate::session::State;
use crate::slots::Rid;
use crate::table::Table;
use crate::transaction::{Direction, Found, Lock, NOW, Transaction};
use crate::value::Value;

impl Transaction<'_> {
    /// Changes the row of a primary key as [`Transaction::update`] does. False if there is none, and then nobody else can add one until
    /// the transaction ends.
    ///
    /// # Errors
    /// [`StoreError::NoPrimaryKey`], values that are no key of the table, and as [`Transaction::update`].
    pub fn update_by_key(
        &self,
        table: &Table,
        key: &[Value<'_>],
        change: impl FnOnce(&mut RowBuf) -> Result<(), RowError>,
    ) -> Result<bool> {
        match self.rid_for_update(table, key)? {
            None => Ok(false),
            Some(rid) => self.update(table, rid, change).map(|()| true),
        }
    }

    /// Deletes the row of a primary key. False if there is none, and then nobody else can add one until the transaction ends.
    ///
    /// # Errors
    /// [`StoreError::NoPrimaryKey`], values that are no key of the table; as [`Transaction::delete`]; locks that are not granted.
    pub fn delete_by_key(&self, table: &Table, key: &[Value<'_>]) -> Result<bool> {
        match self.rid_for_update(table, key)? {
            None => Ok(false),
            Some(rid) => self.delete(table, rid),
        }
    }

    fn rid_for_update(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Rid>> {
        let primary = table.primary_key().ok_or_else(|| no_primary_key(table))?;
        let found = self.fetch_for_update(&primary, key)?;
        Ok(found.map(|found| found.rid))
    }

    /// Inserts a row, or replaces all columns of the row that has its primary key. Transactions that upsert the same new key at the
    /// same time do so one after the other. The row is locked exclusively.
    ///
    /// ```
    /// # use corun_store::{Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// let definition = TableDef::new("stock").column("item", Type::I64).column("count", Type::I64);
    /// let stock = store.create_table(definition.primary_key(&["item"]))?;
    /// let mut session = store.session_here()?;
    /// session.run(|transaction| {
    ///     let mut row = stock.new_row();
    ///     row.set("item", 1)?;
    ///     for count in [10, 20] {
    ///         row.set("count", count)?;
    ///         transaction.upsert(&stock, &row)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(stock.rows(), 1);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoPrimaryKey`]; as [`Transaction::insert`]; [`StoreError::Duplicate`] if another row has its key of another unique index.
    pub fn upsert(&self, table: &Table, row: &RowBuf) -> Result<Rid> {
        let row = row.whole(table.0.name(), &table.0.layouts)?;
        let primary = table.0.primary().ok_or_else(|| no_primary_key(table))?;
        self.operate(table.0.operations.insert, |state| {
            let reach = self.reach(state, table, Reach::WriteRows)?;
            if let Some(rid) = self.replace(state, table, primary, row, reach)? {
                return Ok(rid);
            }
            let (rid, slot) = self.free_row(state, table)?;
            match self.change(state, table, (rid, slot), None, Some(row), Some(RowMode::X)) {
                Ok(()) => Ok(rid),
                // Another transaction had put the key in by then. It has ended, and its row is locked.
                Err(StoreError::Duplicate {
                    index,
                    table: name,
                    key,
                }) if index == primary.name => {
                    let replaced = self.replace(state, table, primary, row, reach)?;
                    replaced.ok_or(StoreError::Duplicate {
                        index,
                        table: name,
                        key,
                    })
                }
                Err(error) => Err(error),
            }
        })
    }

    /// As [`Transaction::fetch_for_update`], but a key that no row has is not locked: others may add it at once. For those who insert then
    /// ([`Transaction::insert_or_lock`]), as an upsert does.
    ///
    /// # Errors
    /// As there.
    pub fn find_for_update<'t>(&'t self, index: &'t Index, key: &[Value<'_>]) -> Result<Option<Found<'t>>> {
        index.check_unique()?;
        let layout = &index.inner.layout;
        let Some(key) = layout.exact(key)? else {
            return Ok(None);
        };
        self.operate(index.inner.fetch, |state| {
            let reach = self.reach(state, &index.table, Reach::WriteRows)?;
            index.check()?;
            let range = key.range();
            let mut cursor = index.inner.tree.cursor();
            cursor.seek(&range, Direction::Ascending);
            while let Some((_, rid)) = cursor.next(&range, Direction::Ascending) {
                let row = self.lock_and_read(state, &index.table, rid, Lock::Exclusive, reach, NOW)?;
                if let Some(row) =
                    row.filter(|&row| layout.of_row(row) == key.words && layout.is_of(row, &key))
                {
                    return Ok(Some(Found { rid, row }));
                }
            }
            Ok(None)
        })
    }

    /// As [`Transaction::insert`], but a row that has a key of a unique index already is locked exclusively when it is refused: after
    /// [`StoreError::Duplicate`] it is there, and stays.
    ///
    /// ```
    /// # use corun_store::{Options, Store, StoreError, TableDef, Type, Value};
    /// # let store = Store::in_memory(Options::default())?;
    /// let definition = TableDef::new("t").column("id", Type::I64).column("n", Type::I64).primary_key(&["id"]);
    /// let table = store.create_table(definition)?;
    /// let by_id = table.primary();
    /// let mut session = store.session_here()?;
    /// session.run(|transaction| {
    ///     let mut row = table.new_row();
    ///     row.set("id", 1)?;
    ///     for n in 1..=3 {
    ///         row.set("n", n)?;
    ///         while transaction.find_for_update(&by_id, &[Value::Int(1)])?.is_none() {
    ///             match transaction.insert_or_lock(&table, &row) {
    ///                 Err(StoreError::Duplicate { .. }) => continue,
    ///                 inserted => inserted?,
    ///             };
    ///         }
    ///         let found = transaction.find_for_update(&by_id, &[Value::Int(1)])?.expect("it is there");
    ///         transaction.update(&table, found.rid, |row| row.set("n", n))?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(table.rows(), 1);
    /// # Ok::<(), StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn insert_or_lock(&self, table: &Table, row: &RowBuf) -> Result<Rid> {
        let row = row.whole(table.0.name(), &table.0.layouts)?;
        self.operate(table.0.operations.insert, |state| {
            self.reach(state, table, Reach::WriteRows)?;
            let (rid, slot) = self.free_row(state, table)?;
            self.change(state, table, (rid, slot), None, Some(row), Some(RowMode::X))?;
            Ok(rid)
        })
    }

    /// Replaces the row that has the primary key of `row`. None if there is none: nothing keeps others from adding it.
    fn replace(
        &self,
        state: &mut State,
        table: &Table,
        primary: &IndexInner,
        row: RowRef<'_>,
        reach: Reach,
    ) -> Result<Option<Rid>> {
        let layout = &primary.layout;
        let key = layout.exact_of_row(row);
        let range = key.range();
        let mut cursor = primary.tree.cursor();
        cursor.seek(&range, Direction::Ascending);
        // Nearly always there is one entry. Others are left of rows that had the key before.
        while let Some((_, rid)) = cursor.next(&range, Direction::Ascending) {
            let old = self.lock_and_read(state, table, rid, Lock::Exclusive, reach, NOW)?;
            if old.is_some_and(|old| layout.of_row(old) == key.words && layout.is_of(old, &key)) {
                let slot = table.0.slots.slot(rid);
                let before = slot.newest();
                self.change(state, table, (rid, slot), before, Some(row), Some(RowMode::S))?;
                return Ok(Some(rid));
            }
        }
        Ok(None)
    }
}

fn no_primary_key(table: &Table) -> StoreError {
    StoreError::NoPrimaryKey {
        table: table.shown_name(),
    }
}
