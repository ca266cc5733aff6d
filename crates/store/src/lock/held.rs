//! [`Held`]: what one transaction holds.

use super::mode::TableMode;
use super::range::RangeLocks;
use super::table::TableLock;
use std::sync::Arc;

/// A table lock that is held, or was by an earlier transaction of this holder and is kept at hand.
#[derive(Debug)]
pub(super) struct HeldTable {
    pub lock: Arc<TableLock>,
    pub mode: Option<TableMode>,
}

/// What one transaction holds. It belongs to its [`super::Holder`], and while that waits to the detector.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Every row, in the order taken, in whatever mode: a word says whether its holder has X.
    rows: Vec<u64>,
    /// Open addressing over those of `rows` that were taken in mode S: position plus one, 0 is free. A power of two long, at
    /// most half full. Rows taken in mode X at once are not in it; their words name the owner.
    shared: Vec<u32>,
    shared_len: usize,
    /// Rows of `shared` in mode X, in the order in which they got it.
    pub upgrades: Vec<u64>,
    /// Tables held, and some that were.
    pub tables: Vec<HeldTable>,
    pub tables_len: usize,
    /// Which of `tables` got a mode, one after the other, and what was held of it before.
    pub table_steps: Vec<(usize, Option<TableMode>)>,
    /// Indexes in which intervals are held.
    pub ranges: Vec<Arc<RangeLocks>>,
    /// Intervals held in all of them.
    pub intervals: usize,
}

/// Places for shared rows in a new set, and for how many a set is kept without growing back: four cache lines.
const SHARED_MIN: usize = 64;
/// Sets larger than this are given up by transactions that leave them nearly empty.
const SHARED_KEPT: usize = 4096;
/// Tables kept at hand after a transaction, so that the next does not touch their shared reference counts.
pub(super) const TABLES_KEPT: usize = 32;

impl Held {
    /// All locks.
    pub fn len(&self) -> usize {
        self.rows.len() + self.tables_len + self.intervals
    }

    /// Whether the row was taken in mode S (and perhaps upgraded since).
    #[inline]
    pub fn has_shared(&self, key: u64) -> bool {
        if self.shared_len == 0 {
            return false;
        }
        let mut place = self.place(key);
        loop {
            match self.shared[place] {
                0 => return false,
                at if self.rows[at as usize - 1] == key => return true,
                _ => place = (place + 1) & (self.shared.len() - 1),
            }
        }
    }

    #[inline]
    pub fn push_exclusive(&mut self, key: u64) {
        self.rows.push(key);
    }

    #[inline]
    pub fn push_shared(&mut self, key: u64) {
        self.rows.push(key);
        if (self.shared_len + 1) * 2 > self.shared.len() {
            self.grow();
        }
        self.shared_len += 1;
        self.put(self.rows.len() as u32);
    }

    /// The row taken last, which is forgotten.
    #[inline]
    pub fn pop_row(&mut self) -> Option<u64> {
        self.rows.pop()
    }

    pub fn rows_len(&self) -> usize {
        self.rows.len()
    }

    /// Forgets all rows but the first `len`. Returns them.
    pub fn split_rows(&mut self, len: usize) -> Vec<u64> {
        let split = self.rows.split_off(len.min(self.rows.len()));
        if self.shared_len > 0 {
            let before = std::mem::take(&mut self.shared);
            self.shared = vec![0; before.len()];
            self.shared_len = 0;
            for at in before
                .into_iter()
                .filter(|at| (1..=len).contains(&(*at as usize)))
            {
                self.shared_len += 1;
                self.put(at);
            }
        }
        split
    }

    pub fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Forgets which rows are shared; they are let go of by their words.
    pub fn clear_shared(&mut self) {
        self.upgrades.clear();
        if self.shared_len == 0 {
            return;
        }
        if self.shared.len() > SHARED_KEPT && self.shared_len * 16 < self.shared.len() {
            self.shared = vec![0; SHARED_MIN];
        } else {
            self.shared.fill(0);
        }
        self.shared_len = 0;
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        // The upper bits of a multiplication are mixed best; `shared` is never empty here.
        let bits = self.shared.len().trailing_zeros();
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize
    }

    #[inline]
    fn put(&mut self, at: u32) {
        let mut place = self.place(self.rows[at as usize - 1]);
        while self.shared[place] != 0 {
            place = (place + 1) & (self.shared.len() - 1);
        }
        self.shared[place] = at;
    }

    #[cold]
    fn grow(&mut self) {
        let places = (self.shared.len() * 2).max(SHARED_MIN);
        let before = std::mem::replace(&mut self.shared, vec![0; places]);
        for at in before.into_iter().filter(|at| *at != 0) {
            self.put(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_finds_what_was_put_and_nothing_else_at_any_size() {
        let mut held = Held::default();
        for round in 0..3_u64 {
            assert!(!held.has_shared(0));
            for key in 0..10_000_u64 {
                let key = key * 3 + round;
                assert!(!held.has_shared(key));
                if key % 2 == 0 {
                    held.push_shared(key)
                } else {
                    held.push_exclusive(key)
                }
                assert_eq!(held.has_shared(key), key % 2 == 0);
            }
            for key in 0..30_000 {
                assert_eq!(held.has_shared(key), key % 3 == round && key % 2 == 0, "{key}");
            }
            held.clear_shared();
            while held.pop_row().is_some() {}
            assert_eq!(held.len(), 0);
            // A small transaction after a large one, twice: the set shrinks and still works.
            for _ in 0..2 {
                held.push_shared(u64::MAX);
                assert!(held.has_shared(u64::MAX) && !held.has_shared(1));
                held.clear_shared();
                held.pop_row();
            }
        }
    }
}
