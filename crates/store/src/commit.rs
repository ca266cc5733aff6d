//! How a transaction ends.
//!
//! ```text
//! commit:  redo bytes ─► log (the timestamp is assigned and all versions get it, in one critical section)
//!          ─► locks are let go ─► old versions become garbage ─► a durable commit waits for the disk
//! ```
//!
//! One with definitions shows them to all between the log and its locks, while no checkpoint is written.
//!
//! Locks are let go before the log is on disk: whoever reads what this transaction wrote commits behind it in the log, so
//! nothing durable ever depends on something that is not. A transaction that only read waits, if it is durable, for the newest
//! commit it has seen.

use corun_exec::ctx;
use corun_exec::teams;

use crate::changed::ahead;
use crate::commit_handle::CommitHandle;
use crate::definition_set::DefinitionMark;
use crate::error::Result;
use crate::horizon::unlinked;
use crate::log::LARGE_BYTES;
use crate::operations::{COMMIT, check_stack};
use crate::options::Durability;
use crate::transaction::Transaction;
use crate::ts::Ts;
use crate::write_set::WriteMark;

impl Transaction<'_> {
    /// Ends the transaction; what it has changed and defined is visible to all others from now on, and in the log as one: after a crash all
    /// of it is there, or nothing. Waits as the session's durability says.
    /// Returns its timestamp; of a transaction that changed nothing, the newest there was.
    ///
    /// # Errors
    /// [`StoreError::ForeignKey`](crate::StoreError::ForeignKey) if checks have waited ([`Transaction::defer_foreign_keys`]) and one fails: the
    /// transaction is aborted. So it is if the log does not take it, for example because the disk is full ([`crate::log::LogError::DiskFull`]). An
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
        if !state.pending.is_empty() {
            self.check_pending(state, true)?;
        }
        // One that only read has little code to share with others, and a barrier costs about a tenth of a fetch in cache.
        if state.writes.is_empty() && state.definitions.is_empty() {
            let seen = state.seen;
            self.finished = true;
            state.finish(unlinked(|| store.log.last()));
            return Ok((store.log.last(), seen));
        }
        teams::operation(COMMIT);
        ctx!();
        // A checkpoint has all of the definitions or nothing.
        let defines = !state.definitions.is_empty();
        let defining = defines.then(|| store.lock_defining(&self.session.park));
        // The log has numbers of a sequence behind its beginning and before its end.
        let sequences = state.definitions.sequences();
        let park = &self.session.park;
        let logging: Vec<_> = (sequences.iter().map(|sequence| sequence.lock_logging(park))).collect();
        state.definitions.close_sequences();
        let marked = ahead(store.log.last());
        let redo = state.writes.make_redo(&state.tables, &state.definitions, marked);
        ctx!();
        let stamp = |ts| {
            state.writes.stamp(&state.tables, ts, marked);
            state.definitions.show(ts);
        };
        // An error drops the transaction, which undoes it.
        let ts = if redo.len() >= LARGE_BYTES {
            // Nor does the session keep that much memory.
            store.log.append_owned(redo, &self.session.park, stamp)?
        } else {
            let ts = store.log.append(&redo, &self.session.park, stamp)?;
            state.writes.keep_memory(redo);
            ts
        };
        self.finished = true;
        if defines {
            state.definitions.publish(store, ts);
            drop(logging);
            drop(defining);
        }
        ctx!();
        let garbage = &mut state.garbage;
        state
            .writes
            .leave_garbage(&state.tables, ts, state.worker, garbage);
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
        state.undo_to(&WriteMark::default());
        state.undo_definitions_to(&DefinitionMark::default(), &self.session.store);
        let log = &self.session.store.log;
        state.finish(unlinked(|| log.last()));
        state.clear_garbage(&self.session.store);
    }
}
