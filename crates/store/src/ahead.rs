//! Rows that the caches are asked for before they are read, so that the misses of many overlap: [`first_rows`] of a batch of keys,
//! [`Ahead`] of a scan by an index, [`slots`] of one by number.
//!
//! ```text
//! batch   all keys go down the index together ─► all slots are asked for ─► all newest versions ─► the caller reads row after row
//! scan    entry k + 16: its slot is asked for     entry k + 8: its newest version     entry k: the caller reads it
//! ```
//!
//! Measured (EPYC VM with 32 MiB of L3, 1 M rows of 1 KiB, ns a row that is then read whole; `store_reads`, an example of `corun-workloads`;
//! in brackets with single ways down and the first six lines of rows): 16 keys together 150 in a snapshot, 177 in a transaction (400); one
//! key at a time 800 and 860 (1,000 and 1,060); scans in another order than the rows' 140 to 180 (480 to 620). Versions in huge pages, all
//! of them, changed none of these by more than 2 %.
//!
//! What it is not: reading. Slots are looked at, versions are only asked for: they may be gone, and another may be the right one. Whoever
//! reads the row takes the locks and looks for its version as ever.

use std::collections::VecDeque;
use std::ops::Range;

use crate::index::{Index, TreeCursor};
use crate::key::{Exact, KeyRange, Words};
use crate::slots::{Rid, Slot};
use crate::table::TableInner;
use crate::transaction::Direction;

/// Keys whose rows are asked for together: their lines fit the nearest two caches, whatever the rows' length.
pub(crate) const TOGETHER: usize = 32;

/// Entries that a scan is ahead of its row at most; half as many versions. Unmeasured against other numbers.
const AHEAD: usize = 16;

/// The first entry of each key (most often its row), for which the caches were asked; none for keys that no row has.
pub(crate) fn first_rows(index: &Index, keys: &[Option<Exact>]) -> Vec<Option<Rid>> {
    let table = &index.table.0;
    let sought = keys.iter().flatten().map(|key| &key.words);
    let found = index.inner.tree.get_many(sought);
    for rid in found.iter().flatten() {
        table.slots.ask(Rid(*rid));
    }
    for rid in found.iter().flatten() {
        table.slots.ask_row(Rid(*rid), table.layouts.newest().bytes_min());
    }
    let mut found = found.into_iter();
    let of_key = |key: &Option<Exact>| key.as_ref().and_then(|_| found.next()?).map(Rid);
    keys.iter().map(of_key).collect()
}

/// The slots with these numbers, whose versions the caches are asked for ahead.
pub(crate) fn slots<'a>(
    table: &'a TableInner,
    rids: Range<u32>,
) -> impl Iterator<Item = (Rid, &'a Slot)> + use<'a> {
    let end = rids.end.min(table.slots.end());
    (rids.start..end).filter_map(move |rid| {
        let later = Rid(rid.saturating_add(AHEAD as u32 / 2));
        table.slots.ask_row(later, table.layouts.newest().bytes_min());
        Some((Rid(rid), table.slots.find(Rid(rid))?))
    })
}

/// The entries of a scan in order, whose rows the caches are asked for ahead.
pub(crate) struct Ahead<'a> {
    table: &'a TableInner,
    cursor: TreeCursor<'a>,
    /// What the cursor has passed and the scan has not.
    entries: VecDeque<(Words, Rid)>,
    /// The first of them whose versions were asked for.
    asked: usize,
    /// How far ahead the cursor goes: ever further, as most scans that end early end very early.
    depth: usize,
    /// The cursor has left the range.
    ended: bool,
}

impl<'a> Ahead<'a> {
    /// At the end of a range where a scan in this direction begins.
    pub(crate) fn new(index: &'a Index, range: &KeyRange, direction: Direction) -> Self {
        let mut cursor = index.inner.tree.cursor();
        cursor.seek(range, direction);
        Ahead {
            table: &index.table.0,
            cursor,
            entries: VecDeque::new(),
            asked: 0,
            depth: 1,
            ended: false,
        }
    }

    /// As if it had just returned an entry, which may be gone. Before the first [`Ahead::next`].
    pub(crate) fn begin_after(&mut self, key: &Words, rid: Rid) {
        debug_assert!(self.entries.is_empty() && !self.ended, "nothing was read");
        self.cursor.seek_after(key, rid);
    }

    /// The next entry of the range, which is always the same, as is the direction.
    #[inline]
    pub(crate) fn next(&mut self, range: &KeyRange, direction: Direction) -> Option<(Words, Rid)> {
        self.depth = (2 * self.depth).min(AHEAD);
        while !self.ended && self.entries.len() < self.depth {
            match self.cursor.next(range, direction) {
                Some((key, rid)) => {
                    self.table.slots.ask(rid);
                    self.entries.push_back((key, rid));
                }
                None => self.ended = true,
            }
        }
        let bytes = self.table.layouts.newest().bytes_min();
        while self.asked < self.entries.len().min(self.depth / 2) {
            self.table.slots.ask_row(self.entries[self.asked].1, bytes);
            self.asked += 1;
        }
        let entry = self.entries.pop_front()?;
        self.asked -= 1;
        Some(entry)
    }
}
