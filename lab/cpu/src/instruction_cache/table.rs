//! [`PaperTable`]: the table of the paper's microbenchmarks in our store, and its operations with known answers.
//!
//! Section 3.4: 25 integers a row, 100,000 rows. Column 0 is the key, the others follow from it, except column 1, which counts how often
//! the row was updated.

use std::cell::Cell;

use corun_store::{Direction, Lock, RowBuf, Session, Store, StoreError, Table, TableDef, Type, Value};

use super::job::Operation;
use lab_core::error::BenchError;

/// Columns of the paper's table.
const COLUMNS: usize = 25;
/// Rows a scan reads.
const SCANNED: i64 = 10;
/// Rows of one transaction of the load.
const LOAD_ROWS: i64 = 1000;
/// Coprime to any number of rows in use: keys of successive operations are far apart.
const STRIDE: i64 = 7_919;

/// The table and how often its rows were updated.
pub(super) struct PaperTable {
    table: Table,
    by_key: corun_store::Index,
    rows: i64,
    /// Updates that committed.
    updates: Cell<u64>,
}

fn column(key: i64, at: usize) -> i32 {
    match at {
        0 => key as i32,
        1 => 0,
        at => (key as i32).wrapping_mul(31).wrapping_add(at as i32),
    }
}

fn fill(row: &mut RowBuf, key: i64) -> Result<(), corun_store::RowError> {
    (0..COLUMNS).try_for_each(|at| row.set(at, Value::from(column(key, at))))
}

/// Whether a row has the columns of its key; how often it was updated is another matter.
fn is_row(row: corun_store::RowRef<'_>, key: i64) -> bool {
    (0..COLUMNS).all(|at| at == 1 || row.int(at) == i64::from(column(key, at)))
}

impl PaperTable {
    /// Makes and loads a table.
    pub(super) fn load(store: &Store, name: &str, rows: u32) -> Result<PaperTable, BenchError> {
        let definition = (0..COLUMNS).fold(TableDef::new(name), |table, at| {
            table.column(&format!("c{at}"), Type::I32)
        });
        let table = store
            .create_table(definition.primary_key(&["c0"]))
            .map_err(BenchError::store)?;
        let rows = i64::from(rows.max(1));
        let mut session = store.session_here().map_err(BenchError::store)?;
        let mut row = table.new_row();
        for first in (0..rows).step_by(LOAD_ROWS as usize) {
            let transaction = session.begin().map_err(BenchError::store)?;
            for key in first..(first + LOAD_ROWS).min(rows) {
                fill(&mut row, key).map_err(BenchError::store)?;
                transaction.insert(&table, &row).map_err(BenchError::store)?;
            }
            transaction.commit().map_err(BenchError::store)?;
        }
        Ok(PaperTable {
            by_key: table.primary(),
            table,
            rows,
            updates: Cell::new(0),
        })
    }

    /// The key of the `number`-th operation of a pass: no two of neighbouring numbers are the same row.
    fn key(&self, number: u64) -> i64 {
        (number as i64).wrapping_mul(STRIDE).rem_euclid(self.rows)
    }

    /// Runs one operation in a transaction of its own; `marked` is called around the operation itself.
    pub(super) fn run(
        &self,
        session: &mut Session,
        row: &mut RowBuf,
        operation: Operation,
        number: u64,
        marked: &dyn Marked,
    ) -> Result<(), BenchError> {
        let key = self.key(number);
        match operation {
            Operation::Begin => {
                marked.before();
                let transaction = session.begin();
                marked.after();
                transaction
                    .map_err(BenchError::store)?
                    .commit()
                    .map_err(BenchError::store)?;
            }
            Operation::Fetch => {
                let transaction = session.begin().map_err(BenchError::store)?;
                marked.before();
                let found = transaction.fetch(&self.by_key, &[Value::from(key as i32)]);
                marked.after();
                let found = found.map_err(BenchError::store)?;
                if !found.is_some_and(|found| is_row(found.row, key)) {
                    return Err(BenchError::store(format_args!(
                        "the fetch of key {key} found another row"
                    )));
                }
                transaction.commit().map_err(BenchError::store)?;
            }
            Operation::Scan => self.scan(session, key.min(self.rows - SCANNED).max(0), marked)?,
            Operation::Update => {
                let transaction = session.begin().map_err(BenchError::store)?;
                let rid = self.locked(&transaction, key)?;
                marked.before();
                let updated = self.increment(&transaction, rid);
                marked.after();
                updated?;
                transaction.commit().map_err(BenchError::store)?;
                self.updates.set(self.updates.get() + 1);
            }
            Operation::Commit => {
                let transaction = session.begin().map_err(BenchError::store)?;
                let rid = self.locked(&transaction, key)?;
                self.increment(&transaction, rid)?;
                marked.before();
                let committed = transaction.commit();
                marked.after();
                committed.map_err(BenchError::store)?;
                self.updates.set(self.updates.get() + 1);
            }
            Operation::Insert => {
                // Beyond all keys that stay; taken away again outside the markers.
                let key = self.rows + number as i64;
                fill(row, key).map_err(BenchError::store)?;
                let transaction = session.begin().map_err(BenchError::store)?;
                marked.before();
                let inserted = transaction.insert(&self.table, row);
                marked.after();
                inserted.map_err(BenchError::store)?;
                transaction.commit().map_err(BenchError::store)?;
                let transaction = session.begin().map_err(BenchError::store)?;
                let rid = self.locked(&transaction, key)?;
                transaction.delete(&self.table, rid).map_err(BenchError::store)?;
                transaction.commit().map_err(BenchError::store)?;
            }
            Operation::Delete => {
                let key = self.rows + number as i64;
                fill(row, key).map_err(BenchError::store)?;
                let transaction = session.begin().map_err(BenchError::store)?;
                transaction.insert(&self.table, row).map_err(BenchError::store)?;
                transaction.commit().map_err(BenchError::store)?;
                let transaction = session.begin().map_err(BenchError::store)?;
                let rid = self.locked(&transaction, key)?;
                marked.before();
                let deleted = transaction.delete(&self.table, rid);
                marked.after();
                if !deleted.map_err(BenchError::store)? {
                    return Err(BenchError::store(format_args!(
                        "the row of key {key} was not there to delete"
                    )));
                }
                transaction.commit().map_err(BenchError::store)?;
            }
        }
        Ok(())
    }

    /// Fetches rows in one transaction, calling `next` before each and `end` behind the last.
    pub(super) fn fetch_all(
        &self,
        session: &mut Session,
        numbers: impl Iterator<Item = u64>,
        next: &dyn Fn(usize),
        end: &dyn Fn(),
    ) -> Result<(), BenchError> {
        let transaction = session.begin().map_err(BenchError::store)?;
        let keys: Vec<i64> = numbers.map(|number| self.key(number)).collect();
        // Looked at behind the last: only the fetches are of interest.
        let mut found = Vec::with_capacity(keys.len());
        for (round, key) in keys.iter().enumerate() {
            next(round);
            found.push(transaction.fetch(&self.by_key, &[Value::from(*key as i32)]));
        }
        end();
        for (key, found) in keys.into_iter().zip(found) {
            if !found
                .map_err(BenchError::store)?
                .is_some_and(|found| is_row(found.row, key))
            {
                return Err(BenchError::store(format_args!(
                    "the fetch of key {key} found another row"
                )));
            }
        }
        transaction.commit().map_err(BenchError::store).map(drop)
    }

    fn scan(&self, session: &mut Session, first: i64, marked: &dyn Marked) -> Result<(), BenchError> {
        let range = self.by_key.between(
            &[],
            std::ops::Bound::Included(Value::from(first as i32)),
            std::ops::Bound::Excluded(Value::from((first + SCANNED) as i32)),
        );
        let range = range.map_err(BenchError::store)?;
        let transaction = session.begin().map_err(BenchError::store)?;
        marked.before();
        let keys = (|| -> Result<(i64, i64), StoreError> {
            let mut scan = transaction.scan(&self.by_key, &range, Direction::Ascending, Lock::Shared)?;
            let (mut count, mut sum) = (0, 0);
            while let Some(found) = scan.next()? {
                count += 1;
                sum += found.row.int(0);
            }
            Ok((count, sum))
        })();
        marked.after();
        let last = (first + SCANNED).min(self.rows);
        let expected = (last - first, (first..last).sum::<i64>());
        let found = keys.map_err(BenchError::store)?;
        if found != expected {
            return Err(BenchError::store(format_args!(
                "the scan from key {first} gave {found:?} (rows, sum of keys), not {expected:?}"
            )));
        }
        transaction.commit().map_err(BenchError::store).map(drop)
    }

    fn locked(
        &self,
        transaction: &corun_store::Transaction<'_>,
        key: i64,
    ) -> Result<corun_store::Rid, BenchError> {
        let found = transaction
            .fetch_for_update(&self.by_key, &[Value::from(key as i32)])
            .map_err(BenchError::store)?;
        match found {
            Some(found) => Ok(found.rid),
            None => Err(BenchError::store(format_args!("no row has key {key}"))),
        }
    }

    fn increment(
        &self,
        transaction: &corun_store::Transaction<'_>,
        rid: corun_store::Rid,
    ) -> Result<(), BenchError> {
        let changed = transaction.update(&self.table, rid, |row| {
            let before = row.row().int(1);
            row.set(1, Value::from(before as i32 + 1))
        });
        changed.map_err(BenchError::store)
    }

    /// A buffer for rows of the table.
    pub(super) fn buffer(&self) -> RowBuf {
        self.table.new_row()
    }

    /// What of all that must hold after any passes does not.
    pub(super) fn check(&self, store: &Store) -> Result<Vec<String>, BenchError> {
        let snapshot = store.snapshot().map_err(BenchError::store)?;
        let (mut rows, mut updates, mut wrong) = (0i64, 0i64, 0i64);
        for found in snapshot
            .rows(&self.table, 0..self.table.rid_end())
            .map_err(BenchError::store)?
        {
            let key = found.row.int(0);
            rows += 1;
            updates += found.row.int(1);
            wrong += i64::from(
                !(0..self.rows).contains(&key)
                    || (0..COLUMNS).any(|at| at != 1 && found.row.int(at) != i64::from(column(key, at))),
            );
        }
        let expected = (self.rows, self.updates.get() as i64, 0);
        let found = (rows, updates, wrong);
        Ok(if found == expected {
            Vec::new()
        } else {
            vec![format!(
                "table {} holds {found:?} (rows, updates, wrong rows), not {expected:?}",
                self.table.name()
            )]
        })
    }
}

/// What stands around the operation of interest.
pub(super) trait Marked {
    /// Right before.
    fn before(&self);
    /// Right behind, whether it failed or not.
    fn after(&self);
}
