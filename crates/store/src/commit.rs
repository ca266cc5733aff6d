//! How a transaction ends.
//!
//! ```text
//! commit:  redo bytes ─► log (the timestamp is assigned and all versions get it, in one critical section)
//!          ─► locks are let go ─► old versions become garbage ─► a durable commit waits for the disk
//! ```
//!
//! Locks are let go before the log is on disk: whoever reads what this transaction wrote commits behind it in the log, so
//! nothing durable ever depends on something that is not. A transaction that only read waits, if it is durable, for the newest
//! commit it has seen.

use corun_exec::ctx;
use corun_exec::teams;

use crate::changed::ahead;
use crate::commit_handle::CommitHandle;
use crate::error::Result;
use crate::garbage::Ghost;
use crate::horizon::unlinked;
use crate::key::Words;
use crate::log::LARGE_BYTES;
use crate::operations::{COMMIT, check_stack};
use crate::options::Durability;
use crate::redo;
use crate::row::RowRef;
use crate::session::{Known, State, Write};
use crate::slots::Rid;
use crate::table::TableInner;
use crate::transaction::Transaction;
use crate::ts::Ts;
use crate::version::VersionPtr;

/// Changes whose lists a session keeps for its next transaction; those of larger ones, up to 100 bytes a change, are given back.
/// Unmeasured.
const WRITES_KEPT: usize = 64 << 10;

impl Transaction<'_> {
    /// Ends the transaction; its changes are visible to all others from now on. Waits as the session's durability says.
    /// Returns its timestamp; of a transaction that changed nothing, the newest there was.
    ///
    /// # Errors
    /// If the log does not take it, for example because the disk is full ([`crate::log::LogError::DiskFull`]), the transaction is aborted. An
    /// error of waiting for a durable commit says that the changes are visible, but that a restart may find them missing.
    pub fn commit(self) -> Result<Ts> {
        let durability = self.session.durability;
        self.commit_with(durability)
    }

    /// As [`Transaction::commit`], with another durability.
    ///
    /// # Errors
    /// As there.
    pub fn commit_with(self, durability: Durability) -> Result<Ts> {
        let session = self.session;
        let (ts, newest) = self.publish()?;
        if durability == Durability::Durable && newest > session.store.log.durable() {
            session.store.log.wait_durable(newest, &session.park)?;
        }
        session.state.borrow_mut().clear_garbage(&session.store);
        Ok(ts)
    }

    /// As [`Transaction::commit`], without waiting for the disk: the handle says when the commit is there. The session's next transaction may
    /// begin at once, so one session can have many commits on their way.
    ///
    /// # Errors
    /// If the log does not take it, the transaction is aborted.
    pub fn commit_async(self) -> Result<CommitHandle> {
        let session = self.session;
        let (ts, newest) = self.publish()?;
        session.state.borrow_mut().clear_garbage(&session.store);
        Ok(CommitHandle::new(&session.store, ts, newest))
    }

    /// Makes the changes visible and lets go of the locks. Returns the timestamp, and the commit that must be durable before anybody is told
    /// that this one is: of a transaction that only read, the newest it has seen.
    fn publish(mut self) -> Result<(Ts, Ts)> {
        check_stack()?;
        let store = &self.session.store;
        let mut state = self.session.state.borrow_mut();
        let state = &mut *state;
        if state.ended {
            return Err(crate::StoreError::Ended);
        }
        // One that only read has little code to share with others, and a barrier costs about a tenth of a fetch in cache.
        if state.writes.is_empty() {
            let seen = state.seen;
            self.finished = true;
            state.finish(unlinked(|| store.log.last()));
            return Ok((store.log.last(), seen));
        }
        teams::operation(COMMIT);
        ctx!();
        let marked = ahead(store.log.last());
        state.make_redo(marked);
        ctx!();
        let State {
            redo, writes, known, ..
        } = state;
        let stamp = |ts| {
            if ts > marked {
                // Thousands of commits went by in between.
                mark(writes, known, ts);
            }
            for write in writes.iter() {
                // Of several changes of a row, the newest is the one to be seen; the others lie under it.
                write.after.commit(ts);
            }
        };
        // An error drops the transaction, which undoes it.
        let ts = if redo.len() >= LARGE_BYTES {
            // Nor does the session keep that much memory.
            let redo = std::mem::take(redo);
            store.log.append_owned(redo, &self.session.park, stamp)?
        } else {
            store.log.append(redo, &self.session.park, stamp)?
        };
        self.finished = true;
        ctx!();
        state.leave_garbage(ts);
        ctx!();
        state.finish(ts.next());
        Ok((ts, ts))
    }

    /// Undoes all its changes and ends it.
    pub fn abort(self) {}

    /// Leaves it open, for [`Session::resume`](crate::Session::resume) to go on with: in the next message of a client, or on another thread.
    /// It keeps its locks meanwhile, and [`Savepoint`](crate::Savepoint)s of it stay good. Others that need its locks wait, at most
    /// for their lock timeout, whatever thread they are on. A store does not close while it is open; a session that is dropped aborts it.
    ///
    /// ```
    /// # use corun_store::{Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
    /// let mut session = store.session_here()?;
    /// let mut row = table.new_row();
    /// row.set("id", 1)?;
    /// let transaction = session.begin()?;
    /// transaction.insert(&table, &row)?;
    /// transaction.suspend();
    ///
    /// // A session is `Send`: its transaction goes on where it is.
    /// std::thread::spawn(move || session.resume_here()?.commit()).join().unwrap()?;
    /// assert_eq!(table.rows(), 1);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    pub fn suspend(mut self) {
        self.finished = true;
        let mut state = self.session.state.borrow_mut();
        state.suspended = true;
        state.holder.suspend();
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Borrowed only while an operation runs; a panic of the store itself in one is a defect, and leaves the locks.
        let Ok(mut state) = self.session.state.try_borrow_mut() else {
            return;
        };
        self.undo(&mut state, 0, 0);
        let log = &self.session.store.log;
        state.finish(unlinked(|| log.last()));
        state.clear_garbage(&self.session.store);
    }
}

impl State {
    /// Writes the block of the transaction: one record for each row, from before the transaction to after it. Marks its rows as changed by a
    /// commit up to `marked`.
    fn make_redo(&mut self, marked: Ts) {
        self.redo.clear();
        for write in self.writes.iter().filter(|write| write.first) {
            let known = self.known[write.table as usize].as_ref();
            let table = &known.expect("tables in use are known").table.0;
            table.changed.mark(write.rid, marked);
            let newest = write.newest(table, self.rewrites);
            // SAFETY: the row is locked, and what was replaced is kept.
            let (before, after) = unsafe { (write.before.and_then(|version| version.row()), newest.row()) };
            redo::put_row(&mut self.redo, table.id, write.rid, before, after);
        }
    }

    /// What is not needed any more, once snapshots from `ts` on are the oldest. Counts rows too.
    fn leave_garbage(&mut self, ts: Ts) {
        let worker = self.worker;
        let State {
            writes,
            entries,
            known,
            garbage,
            rewrites,
            ..
        } = self;
        let rewrites = *rewrites;
        let table_of = |id: u32| {
            &known[id as usize]
                .as_ref()
                .expect("tables in use are known")
                .table
        };
        if !rewrites {
            entries.clear();
        }
        for entry in entries.drain(..) {
            // Entries of keys the row had only in between.
            let table = table_of(entry.table);
            if !has_key(&table.0, entry.rid, usize::from(entry.index), &entry.key) {
                garbage.push_ghost(Ghost {
                    table: table.clone(),
                    index: Some((entry.index, entry.key)),
                    rid: entry.rid,
                    end: ts,
                });
            }
        }
        for write in writes.drain(..) {
            let table = table_of(write.table);
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
                // SAFETY: it becomes garbage below, and is not freed before a later call.
                let before = write.before.and_then(|version| unsafe { version.row() });
                if let Some(before) = before.filter(|_| write.moves || rewrites) {
                    let before = RowRef::new(&table.0.layout, before);
                    // SAFETY: the row is locked.
                    let after = unsafe { newest.row() }.map(|row| RowRef::new(&table.0.layout, row));
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

    /// Lets go of locks; what was rolled back is garbage then: snapshots before `end` may just be looking at it.
    fn finish(&mut self, end: Ts) {
        for version in self.undone.drain(..) {
            self.garbage.push_version(version, end);
        }
        self.release();
        for (table, rid) in std::mem::take(&mut self.freed) {
            self.table(table).0.slots.give(self.worker, rid);
        }
        if self.writes.capacity().max(self.entries.capacity()) > WRITES_KEPT {
            self.writes = Vec::new();
            self.entries = Vec::new();
            self.undone = Vec::new();
        }
        self.savepoints_before = self.savepoints;
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

/// Marks rows as changed by a commit up to `ts`.
fn mark(writes: &[Write], known: &[Option<Known>], ts: Ts) {
    for write in writes.iter().filter(|write| write.first) {
        let known = known[write.table as usize].as_ref();
        let table = &known.expect("tables in use are known").table.0;
        table.changed.mark(write.rid, ts);
    }
}

/// Whether the newest state of a row has this key.
fn has_key(table: &TableInner, rid: Rid, index: usize, key: &Words) -> bool {
    let index = table.index(index).expect("entries go into indexes");
    // SAFETY: the row is locked.
    let row = table
        .slots
        .slot(rid)
        .newest()
        .and_then(|version| unsafe { version.row() });
    row.is_some_and(|row| index.layout.of_row(RowRef::new(&table.layout, row)) == *key)
}
