//! [`LockMark`]: a point of a transaction to whose locks it can go back.
//!
//! ```text
//!   rows        in the order taken: those behind the mark go
//!   upgrades    of rows and tables, in the order taken: those behind the mark go back to what was held before
//!   intervals   each belongs to the mark before it: those of this mark and of later ones go
//! ```
//!
//! What it is not: part of two-phase locking. Who lets locks go has to forget what it read under them; see
//! [`Transaction::rollback_to`](crate::Transaction::rollback_to).

use std::sync::Arc;

use super::holder::Holder;
use super::mode::RowName;
use super::rows::number;
use super::word::{LockWord, WAITERS};

/// What a transaction held at one moment. From [`Holder::mark`].
#[derive(Clone, Copy, Debug)]
pub struct LockMark {
    rows: usize,
    upgrades: usize,
    table_steps: usize,
    number: u32,
}

impl Holder {
    /// Marks what the transaction holds now.
    pub fn mark(&mut self) -> LockMark {
        self.marks = self.marks.saturating_add(1);
        LockMark {
            rows: self.held.rows_len(),
            upgrades: self.held.upgrades.len(),
            table_steps: self.held.table_steps.len(),
            number: self.marks,
        }
    }

    /// Lets go of all that was taken after a mark of this transaction, and hands it to those who wait. `word` is as for
    /// [`Self::release_all`].
    pub fn release_to<'w>(&mut self, mark: &LockMark, word: impl Fn(RowName) -> &'w LockWord) {
        let owned = u64::from(self.budget) + self.held.len() as u64;
        for key in self.held.split_rows(mark.rows) {
            self.release_row(key, word(RowName::of_key(key)));
        }
        while self.held.upgrades.len() > mark.upgrades {
            let upgraded = self.held.upgrades.pop().filter(|key| self.held.has_shared(*key));
            if let Some(key) = upgraded {
                let word = word(RowName::of_key(key));
                if word.lower(number(self.slot)) & WAITERS != 0 {
                    self.locks.rows.settle(&self.locks.slots, key, word);
                }
            }
        }
        let (locks, slot) = (Arc::clone(&self.locks), self.slot);
        let mut intervals = 0;
        self.held.ranges.retain(|ranges| {
            let left = ranges.release(&locks.slots, slot, mark.number);
            intervals += left;
            left > 0
        });
        self.held.intervals = intervals;
        while self.held.table_steps.len() > mark.table_steps {
            let Some((at, before)) = self.held.table_steps.pop() else {
                break;
            };
            let table = &mut self.held.tables[at];
            if let Some(mode) = std::mem::replace(&mut table.mode, before) {
                table.lock.lower(&locks.slots, slot, mode, before);
                self.held.tables_len -= usize::from(before.is_none());
            }
        }
        // What it may take without asking is what it let go of, too: see `budget`.
        self.budget = (owned - self.held.len() as u64) as u32;
    }
}
