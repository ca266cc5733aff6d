//! [`WriteSet`]: what a transaction has changed, for all that comes of it.
//!
//! ```text
//!   record, record_entry ─► make_redo ─► stamp ─► leave_garbage        commit
//!            └─► undo_to ─► ............... leave_undone, give_rows    abort, and parts that were rolled back
//! ```
//!
//! Each row has one [`Write`] for each change, over the one before. Versions under it are the set's until the transaction ends: rows that were
//! read before a change stay readable. What it is not: the changes themselves, which are in slots and indexes at once.

use crate::definition_set::DefinitionSet;
use crate::garbage::{Garbage, Ghost};
use crate::key::Words;
use crate::known::KnownTables;
use crate::redo;
use crate::slots::Rid;
use crate::table::TableInner;
use crate::ts::Ts;
use crate::version::VersionPtr;

/// Changes whose lists a session keeps for its next transaction; those of larger ones, up to 100 bytes a change, are given back.
/// Unmeasured.
const WRITES_KEPT: usize = 64 << 10;

/// A row version the transaction made.
#[derive(Clone, Copy)]
struct Write {
    table: u32,
    rid: Rid,
    /// What the row was before this change: none for a new row.
    before: Option<VersionPtr>,
    after: VersionPtr,
    /// Whether it is the transaction's first change of the row, so that `before` is committed.
    first: bool,
    /// Whether an index knows the row by another key now, or not at all.
    moves: bool,
}

/// An index entry the transaction put.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) table: u32,
    pub(crate) index: u8,
    pub(crate) rid: Rid,
    pub(crate) key: Words,
}

/// Changes up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteMark {
    writes: usize,
    entries: usize,
}

/// What a transaction has changed.
#[derive(Default)]
pub(crate) struct WriteSet {
    writes: Vec<Write>,
    entries: Vec<Entry>,
    /// Versions of parts that were rolled back. Kept to the end: the user may still look at them.
    undone: Vec<VersionPtr>,
    /// Rows that were rolled back, to be given back after their locks.
    freed: Vec<(u32, Rid)>,
    /// Kept for its memory.
    redo: Vec<u8>,
    /// Versions the session has made: the number of the next.
    changes: u64,
    /// Bytes of all versions made, for the limit of a transaction.
    bytes: usize,
    /// Whether a row was changed more than once, so that what lies between was nobody's.
    rewrites: bool,
}

impl WriteSet {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Changes so far that stand.
    pub(crate) fn len(&self) -> usize {
        self.writes.len()
    }

    /// The number of the next change, of all of the session.
    pub(crate) fn next_change(&self) -> u64 {
        self.changes
    }

    /// Bytes of all versions made, those that were rolled back included.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The present.
    pub(crate) fn mark(&self) -> WriteMark {
        WriteMark {
            writes: self.writes.len(),
            entries: self.entries.len(),
        }
    }

    /// The version made last.
    pub(crate) fn newest(&self) -> Option<VersionPtr> {
        self.writes.last().map(|write| write.after)
    }

    /// Whether all that was there at a mark is, by the version that was made last then.
    pub(crate) fn stands(&self, mark: &WriteMark, newest: Option<VersionPtr>) -> bool {
        match mark.writes.checked_sub(1) {
            None => newest.is_none(),
            Some(at) => self.writes.get(at).map(|write| write.after) == newest,
        }
    }

    /// Notes a version that is its row's newest now. Returns the mark before it.
    #[inline]
    pub(crate) fn record(
        &mut self,
        table: u32,
        rid: Rid,
        before: Option<VersionPtr>,
        after: VersionPtr,
    ) -> WriteMark {
        let mark = self.mark();
        self.changes += 1;
        self.bytes += after.row_bytes() + 16;
        let first = before.is_none_or(|before| before.committed().is_some());
        self.rewrites |= !first;
        self.writes.push(Write {
            table,
            rid,
            before,
            after,
            first,
            moves: true,
        });
        mark
    }

    /// Says of the change behind a mark whether any index knows the row by another key now.
    #[inline]
    pub(crate) fn set_moves(&mut self, mark: &WriteMark, moves: bool) {
        self.writes[mark.writes].moves = moves;
    }

    /// Notes an entry that is in its index now.
    #[inline]
    pub(crate) fn record_entry(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Gives a row back with the transaction's locks that was to be a new one.
    pub(crate) fn free_row(&mut self, table: u32, rid: Rid) {
        self.freed.push((table, rid));
    }

    /// Undoes all that was changed after a mark.
    pub(crate) fn undo_to(&mut self, mark: &WriteMark, tables: &KnownTables) {
        for entry in self.entries.drain(mark.entries..).rev() {
            let table = &tables.table(entry.table).0;
            let index = table.index(usize::from(entry.index));
            let index = index.expect("entries go into indexes");
            index.tree.remove(&entry.key, entry.rid);
        }
        for write in self.writes.drain(mark.writes..).rev() {
            tables
                .table(write.table)
                .0
                .slots
                .slot(write.rid)
                .set(write.before);
            self.undone.push(write.after);
            if write.before.is_none() {
                self.freed.push((write.table, write.rid));
            }
        }
    }

    /// The block of the transaction: one record for each row, from before the transaction to after it. Marks its rows as changed by a
    /// commit up to `marked`. The memory may come back by [`WriteSet::keep_memory`].
    pub(crate) fn make_redo(
        &mut self,
        tables: &KnownTables,
        definitions: &DefinitionSet,
        marked: Ts,
    ) -> Vec<u8> {
        let mut redo = std::mem::take(&mut self.redo);
        redo.clear();
        if !definitions.is_empty() {
            self.make_mixed(&mut redo, tables, definitions, marked);
            return redo;
        }
        for write in self.writes.iter().filter(|write| write.first) {
            let table = &tables.table(write.table).0;
            table.changed.mark(write.rid, marked);
            let newest = write.newest(table, self.rewrites);
            // SAFETY: the row is locked, and what was replaced is kept.
            let row = |version| unsafe { table.layouts.row(version) };
            let (before, after) = (write.before.and_then(row), row(newest));
            redo::put_row(&mut redo, table.id, write.rid, before, after);
        }
        redo
    }

    /// The block of a transaction that has definitions, too: a record for each of them and for each change of a row, in their order.
    fn make_mixed(&self, redo: &mut Vec<u8>, tables: &KnownTables, definitions: &DefinitionSet, marked: Ts) {
        if !self.writes.is_empty() {
            redo::put_mixed(redo);
        }
        let mut definitions = definitions.records().peekable();
        for (at, write) in self.writes.iter().enumerate() {
            while let Some((_, definition)) = definitions.next_if(|(before, _)| *before <= at) {
                definition.put(redo);
            }
            let table = &tables.table(write.table).0;
            table.changed.mark(write.rid, marked);
            // SAFETY: the row is locked, and what was replaced is kept.
            let row = |version| unsafe { table.layouts.row(version) };
            let (before, after) = (write.before.and_then(row), row(write.after));
            redo::put_row(redo, table.id, write.rid, before, after);
        }
        definitions.for_each(|(_, definition)| definition.put(redo));
    }

    /// For the next transaction's redo.
    pub(crate) fn keep_memory(&mut self, redo: Vec<u8>) {
        self.redo = redo;
    }

    /// Marks all versions as committed. Their rows are marked as changed up to `marked` already.
    #[inline]
    pub(crate) fn stamp(&self, tables: &KnownTables, ts: Ts, marked: Ts) {
        if ts > marked {
            // Thousands of commits went by in between.
            for write in self.writes.iter().filter(|write| write.first) {
                tables.table(write.table).0.changed.mark(write.rid, ts);
            }
        }
        for write in &self.writes {
            // Of several changes of a row, the newest is the one to be seen; the others lie under it.
            write.after.commit(ts);
        }
    }

    /// What is not needed any more, once snapshots from `ts` on are the oldest, goes to `garbage`. Counts rows too.
    pub(crate) fn leave_garbage(
        &mut self,
        tables: &KnownTables,
        ts: Ts,
        worker: usize,
        garbage: &mut Garbage,
    ) {
        let rewrites = self.rewrites;
        if !rewrites {
            self.entries.clear();
        }
        for entry in self.entries.drain(..) {
            // Entries of keys the row had only in between.
            let table = tables.table(entry.table);
            if !has_key(&table.0, &entry) {
                garbage.push_ghost(Ghost {
                    table: table.clone(),
                    index: Some((entry.index, entry.key)),
                    rid: entry.rid,
                    end: ts,
                });
            }
        }
        for write in self.writes.drain(..) {
            let table = tables.table(write.table);
            if write.first {
                let newest = write.newest(&table.0, rewrites);
                let deleted = newest.is_deleted();
                let bytes = newest.bytes() as i64 - write.before.map_or(0, |before| before.bytes() as i64);
                if bytes != 0 {
                    table.0.row_bytes.add(worker, bytes);
                }
                let was_there = write.before.is_some_and(|before| !before.is_deleted());
                let rows = i64::from(!deleted) - i64::from(was_there);
                if rows != 0 {
                    table.0.rows.add(worker, rows);
                }
                // SAFETY: the row is locked; what was before becomes garbage below, and is not freed before a later call.
                let row = |version| unsafe { table.0.layouts.row(version) };
                let before = write.before.and_then(row);
                if let Some(before) = before.filter(|_| write.moves || rewrites) {
                    let after = row(newest);
                    for (number, index) in table.0.indexes() {
                        if after.is_some_and(|after| index.layout.same(before, after)) {
                            continue;
                        }
                        garbage.push_ghost(Ghost {
                            table: table.clone(),
                            index: Some((number as u8, index.layout.of_row(before))),
                            rid: write.rid,
                            end: ts,
                        });
                    }
                }
                if deleted {
                    garbage.push_ghost(Ghost {
                        table: table.clone(),
                        index: None,
                        rid: write.rid,
                        end: ts,
                    });
                }
            }
            if let Some(before) = write.before {
                garbage.push_version(before, ts);
            }
        }
    }

    /// What was rolled back goes to `garbage`: snapshots before `end` may just be looking at it.
    pub(crate) fn leave_undone(&mut self, end: Ts, garbage: &mut Garbage) {
        for version in self.undone.drain(..) {
            garbage.push_version(version, end);
        }
    }

    /// Gives back the rows that were rolled back, whose locks are let go of, and forgets the transaction.
    pub(crate) fn give_rows(&mut self, tables: &KnownTables, worker: usize) {
        for (table, rid) in std::mem::take(&mut self.freed) {
            tables.table(table).0.slots.give(worker, rid);
        }
        if self.writes.capacity().max(self.entries.capacity()) > WRITES_KEPT {
            self.writes = Vec::new();
            self.entries = Vec::new();
            self.undone = Vec::new();
        }
        self.bytes = 0;
        self.rewrites = false;
    }
}

impl Write {
    /// What the transaction made of the row in the end: this version, unless some row was changed more than once.
    fn newest(&self, table: &TableInner, rewrites: bool) -> VersionPtr {
        if rewrites {
            let newest = table.slots.slot(self.rid).newest();
            newest.expect("it was just written")
        } else {
            self.after
        }
    }
}

/// Whether the newest state of an entry's row has its key.
fn has_key(table: &TableInner, entry: &Entry) -> bool {
    let index = table.index(usize::from(entry.index));
    let index = index.expect("entries go into indexes");
    let newest = table.slots.slot(entry.rid).newest();
    // SAFETY: the row is locked.
    let row = newest.and_then(|version| unsafe { table.layouts.row(version) });
    row.is_some_and(|row| index.layout.of_row(row) == entry.key)
}
