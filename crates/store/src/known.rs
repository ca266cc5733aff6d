//! [`KnownTables`]: the tables a session has used, and how far its transaction may go in each.
//!
//! What it is not: the locks. It says what they allow, so that a row costs no look at its table's.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::lock::{Holder, LockWord, RowName, TableMode};
use crate::slots::Rid;
use crate::table::Table;

/// How far a transaction may go in a table without further locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Not at all.
    #[default]
    Nothing,
    /// Lock rows to read them.
    ReadRows,
    /// Lock rows to read or write them.
    WriteRows,
    /// Read all rows, lock rows to write them.
    Read,
    /// As `Read`, and nobody else can write.
    Write,
}

/// A table the session has used.
struct Known {
    table: Table,
    reach: Reach,
}

/// The tables a session has used.
#[derive(Default)]
pub(crate) struct KnownTables {
    /// By the table's number.
    known: Vec<Option<Known>>,
    /// Tables whose `reach` is not `Nothing`.
    touched: Vec<u32>,
    /// Definitions as of the last look for tables that were dropped.
    definitions: u64,
}

impl KnownTables {
    /// The table behind a number, which the transaction has used.
    #[inline]
    pub(crate) fn table(&self, id: u32) -> &Table {
        let known = self.known[id as usize].as_ref();
        &known.expect("tables in use are known").table
    }

    /// How far the transaction may go; none of a table that is to be met first.
    #[inline]
    pub(crate) fn reach(&self, table: &Table) -> Option<Reach> {
        let known = self.known.get(table.0.id as usize)?.as_ref()?;
        Arc::ptr_eq(&known.table.0, &table.0).then_some(known.reach)
    }

    #[cold]
    pub(crate) fn meet(&mut self, table: &Table) {
        let id = table.0.id as usize;
        if self.known.len() <= id {
            self.known.resize_with(id + 1, || None);
        }
        self.known[id] = Some(Known {
            table: table.clone(),
            reach: Reach::Nothing,
        });
    }

    /// The table was locked to go as far as `wanted`. Returns how far the transaction may go.
    pub(crate) fn raise(&mut self, id: u32, wanted: Reach) -> Reach {
        let known = self.known[id as usize].as_mut().expect("it was met");
        if known.reach == Reach::Nothing {
            self.touched.push(id);
        }
        // Read and the intention to write together are what SIX is: all rows may be read.
        known.reach = known.reach.max(wanted);
        known.reach
    }

    /// The transaction has taken a table away: it may do nothing there, whatever it has locked.
    pub(crate) fn hide(&mut self, id: u32) {
        if let Some(Some(known)) = self.known.get_mut(id as usize) {
            known.reach = Reach::Nothing;
        }
    }

    /// Locks were let go of, or tables are there again: the transaction may go as far as its locks allow.
    pub(crate) fn lower(&mut self, holder: &Holder) {
        let known = &mut self.known;
        self.touched.retain(|id| {
            let known = known[*id as usize].as_mut().expect("tables in use are known");
            known.reach = match holder.table_mode(&known.table.0.lock) {
                None => Reach::Nothing,
                Some(TableMode::IS) => Reach::ReadRows,
                Some(TableMode::IX) => Reach::WriteRows,
                Some(TableMode::S | TableMode::SIX) => Reach::Read,
                Some(TableMode::X) => Reach::Write,
            };
            known.reach != Reach::Nothing
        });
    }

    /// The transaction has ended.
    pub(crate) fn leave(&mut self) {
        for id in self.touched.drain(..) {
            if let Some(known) = &mut self.known[id as usize] {
                known.reach = Reach::Nothing;
            }
        }
    }

    /// Whether the transaction has used no table yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.touched.is_empty()
    }

    /// Lets go of tables that were dropped, if `definitions` have changed since the last look.
    #[inline]
    pub(crate) fn forget_dropped(&mut self, definitions: u64) {
        if self.definitions == definitions {
            return;
        }
        self.definitions = definitions;
        for known in &mut self.known {
            known.take_if(|known| known.table.0.dropped.load(Ordering::Acquire));
        }
    }

    /// Finds the locks of rows.
    pub(crate) fn words<'a>(&'a self) -> impl Fn(RowName) -> &'a LockWord {
        |name| &self.table(name.table).0.slots.slot(Rid(name.rid)).lock
    }
}
