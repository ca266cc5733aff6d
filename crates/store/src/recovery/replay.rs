//! Replay: applies the log's blocks that change rows.
//!
//! Every thread goes through all blocks and applies the changes of its own rows, a few at a time: their rows are asked for
//! before the first is changed, because nearly every one of them is a miss. What it is not: definitions, which `recovery`
//! applies between two calls.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use corun_exec::prefetch::prefetch_read;
use corun_exec::workers::{ScopedThreads, Workers};
use parking_lot::Mutex;

use super::Reading;
use crate::error::Result;
use crate::redo::{self, Record};
use crate::slots::{Rid, Slot};
use crate::table::TableInner;
use crate::ts::Ts;

/// Changes whose rows are asked for together. Measured with 1 (2 M records of 10 a commit, 500,000 rows: 1.46 to 2.1 M records a
/// second) and 16 (2.4 to 3.9 M); others unmeasured.
const TOGETHER: usize = 16;

/// Fewer bytes of changes are applied by one thread. Unmeasured.
const SMALL_BYTES: usize = 16 << 10;

/// One row's change.
struct Change<'a> {
    table: &'a TableInner,
    rid: Rid,
    ts: Ts,
    record: Record<'a>,
}

impl<'a> Change<'a> {
    fn slot(&self) -> Option<&'a Slot> {
        self.table.slots.find(self.rid)
    }
}

impl Reading<'_> {
    /// Applies blocks that change rows.
    pub(super) fn rows(&mut self, bytes: &[u8], blocks: &[(Ts, Range<usize>)]) -> Result<()> {
        let length = |(_, bytes): &(Ts, Range<usize>)| bytes.len();
        let threads = match blocks.iter().map(length).sum() {
            0 => return Ok(()),
            // Many such lie between the definitions of one transaction.
            1..SMALL_BYTES => 1,
            _ => self.options.threads(),
        };
        let records = AtomicU64::new(0);
        let first_error = Mutex::new(None);
        ScopedThreads(threads).run(
            threads,
            &|thread| match self.share(bytes, blocks, thread, threads) {
                Ok(count) => drop(records.fetch_add(count, Ordering::Relaxed)),
                Err(error) => drop(first_error.lock().get_or_insert(error)),
            },
        );
        self.recovered.records += records.into_inner();
        first_error.into_inner().map_or(Ok(()), Err)
    }

    /// One thread's share of blocks: the changes of its own rows. Returns their number.
    fn share(
        &self,
        bytes: &[u8],
        blocks: &[(Ts, Range<usize>)],
        thread: usize,
        threads: usize,
    ) -> Result<u64> {
        let mut count = 0;
        let mut together = Vec::with_capacity(TOGETHER);
        let mut known: Option<(u32, &TableInner)> = None;
        for (ts, place) in blocks {
            for record in redo::records(&bytes[place.clone()]) {
                let (id, rid) = match &record {
                    Some(
                        Record::Row { table, rid, .. }
                        | Record::Patch { table, rid, .. }
                        | Record::Delete { table, rid },
                    ) => (*table, *rid),
                    Some(Record::AdvanceSequence(id, upto)) => {
                        let Some(sequence) = self.sequences.get(id) else {
                            return Err(
                                self.damaged(format!("commit {ts} is about a sequence that is not there"))
                            );
                        };
                        // By every thread: it never goes back.
                        sequence.logged.fetch_max(*upto, Ordering::Relaxed);
                        continue;
                    }
                    Some(_) => return Err(self.damaged(format!("commit {ts} mixes rows and definitions"))),
                    None => return Err(self.damaged(format!("commit {ts} cannot be read"))),
                };
                // Rows of one batch of numbers lie side by side: one thread's.
                if threads > 1 && (rid.0 / 64 + id) as usize % threads != thread {
                    continue;
                }
                let table = match known {
                    Some((known, table)) if known == id => table,
                    _ => {
                        let found = self.tables.get(&id).map(|(_, table)| table);
                        found.ok_or_else(|| {
                            let what = "changes a table that is not there";
                            self.damaged(format!("commit {ts} {what} (table {id}, row {})", rid.0))
                        })?
                    }
                };
                known = Some((id, table));
                together.extend(record.map(|record| Change {
                    table,
                    rid,
                    ts: *ts,
                    record,
                }));
                if together.len() == TOGETHER {
                    self.apply(&together)?;
                    count += TOGETHER as u64;
                    together.clear();
                }
            }
        }
        self.apply(&together)?;
        Ok(count + together.len() as u64)
    }

    /// Applies changes in order, after all their rows were asked for: one wait for memory instead of one for each.
    fn apply(&self, changes: &[Change<'_>]) -> Result<()> {
        for slot in changes.iter().filter_map(Change::slot) {
            prefetch_read(std::ptr::from_ref(slot));
        }
        for version in changes.iter().filter_map(Change::slot).filter_map(Slot::newest) {
            // Its head and the first bytes of its row. One that is freed by a change in between was asked for in vain.
            prefetch_read(version.raw());
            prefetch_read(version.raw().cast::<[u8; 64]>().wrapping_add(1));
        }
        changes.iter().try_for_each(|change| self.apply_one(change))
    }

    fn apply_one(&self, change: &Change<'_>) -> Result<()> {
        let Change {
            table,
            rid,
            ts,
            record,
        } = change;
        let (rid, ts) = (*rid, *ts);
        table.changed.mark(rid, ts);
        let wrong = |what: &str| {
            Err(self.damaged(format!(
                "commit {ts} {what} (table {:?}, row {})",
                table.name(),
                rid.0
            )))
        };
        // The log has rows as they were written, in the newest layout; that of the checkpoint's may be older.
        let layout = table.layouts.newest();
        match record {
            Record::Row { row, .. } => self.put(table, rid, row, layout, ts)?,
            Record::Patch { patch, .. } => {
                let Some(version) = table.slots.find(rid).and_then(|slot| slot.newest()) else {
                    return wrong("changes a row that is not there");
                };
                // SAFETY: this thread alone has the row.
                let row = unsafe { version.row_mut() };
                if version.layout() != layout.number() || !patch.apply(row) || !layout.accepts(row) {
                    return wrong("changes a row into what cannot be");
                }
                version.commit(ts);
            }
            Record::Delete { .. } => {
                if !table.slots.clear_now(rid) {
                    return wrong("deletes a row that is not there");
                }
            }
            _ => unreachable!("definitions were sorted out"),
        }
        Ok(())
    }
}
