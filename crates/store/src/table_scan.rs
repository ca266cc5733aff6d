//! [`TableScan`]: all rows of a table in a transaction, by number: for tables without an index, or for statements that no index helps.
//!
//! The table is locked as a whole, and no row for itself: a scan of an index locks only what it reads.

use crate::error::Result;
use crate::known::Reach;
use crate::operations::{SCAN, check_stack};
use crate::slots::Rid;
use crate::table::Table;
use crate::transaction::{Found, Lock, Transaction};

impl<'s> Transaction<'s> {
    /// All rows of a table, by number. The table is locked as by [`Transaction::lock_table`]. Rows come as they were when the scan began:
    /// what the transaction itself changes meanwhile is not shown.
    ///
    /// ```
    /// # use corun_store::{Lock, Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// let events = store.create_table(TableDef::new("events").column("kind", Type::I32))?;
    /// let mut session = store.session_here()?;
    /// session.run(|transaction| {
    ///     let mut row = events.new_row();
    ///     for kind in [1, 2, 2] {
    ///         row.set("kind", kind)?;
    ///         transaction.insert(&events, &row)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// session.run(|transaction| {
    ///     let mut scan = transaction.scan_table(&events, Lock::Exclusive)?;
    ///     while let Some(found) = scan.next()? {
    ///         if found.row.int("kind") == 2 {
    ///             transaction.delete(&events, found.rid)?;
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(events.rows(), 1);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// If the lock is not granted.
    pub fn scan_table<'t>(&'t self, table: &'t Table, lock: Lock) -> Result<TableScan<'t, 's>> {
        let wanted = match lock {
            Lock::Shared => Reach::Read,
            Lock::Exclusive => Reach::Write,
        };
        self.operate(SCAN, |state| {
            self.reach(state, table, wanted)?;
            Ok(TableScan {
                transaction: self,
                table,
                next: 0,
                end: table.rid_end(),
                since: state.writes.next_change(),
            })
        })
    }
}

/// All rows of a table, by number. From [`Transaction::scan_table`].
pub struct TableScan<'t, 's> {
    transaction: &'t Transaction<'s>,
    table: &'t Table,
    next: u32,
    end: u32,
    /// The transaction's change that would be next when it began.
    since: u64,
}

impl<'t> TableScan<'t, '_> {
    /// The next row.
    ///
    /// # Errors
    /// [`StoreError::Ended`](crate::StoreError::Ended) after a deadlock or a lock timeout of the transaction.
    #[expect(
        clippy::should_implement_trait,
        reason = "it can fail; an iterator of results would be clumsy to use with `?`"
    )]
    pub fn next(&mut self) -> Result<Option<Found<'t>>> {
        check_stack()?;
        let TableScan {
            transaction,
            table,
            since,
            ..
        } = *self;
        transaction.go_on(|state| {
            while self.next < self.end {
                let rid = Rid(self.next);
                self.next += 1;
                // The table's lock is enough.
                let row = transaction.lock_and_read(state, table, rid, Lock::Shared, Reach::Read, since)?;
                if let Some(row) = row {
                    return Ok(Some(Found { rid, row }));
                }
            }
            Ok(None)
        })
    }
}
