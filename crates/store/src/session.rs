//! [`Session`]: one client of a store, which runs one transaction after another.
//!
//! It belongs to a worker (a core), whose share of the counters and free rows it uses, and it waits through its own
//! [`Park`]. What it is not: a thread. Any number of sessions may take turns on one thread, and one may move to another thread
//! between two transactions, if it gets a [`Park`] of that ([`Session::set_park`]).
//!
//! ```text
//!            begin                     commit, abort, drop
//!   idle ────────────► transaction ──────────────────────► idle
//!                        │     ▲
//!                suspend │     │ resume, perhaps on another thread
//!                        ▼     │
//!                       suspended ──── the session is dropped: aborted
//! ```

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::definition_set::{DefinitionMark, DefinitionSet};
use crate::error::{Result, StoreError};
use crate::foreign_key::Pending;
use crate::garbage::{Clearing, Garbage};
use crate::known::KnownTables;
use crate::lock::{Holder, LockMark};
use crate::log::Log;
use crate::memory::Share;
use crate::options::Durability;
use crate::park::{self, Park};
use crate::row::RowBuf;
use crate::slots::Slot;
use crate::store::StoreInner;
use crate::transaction::Transaction;
use crate::ts::Ts;
use crate::version::VersionPtr;
use crate::write_set::{WriteMark, WriteSet};

/// How often [`Session::run`] runs a transaction at most.
pub const RUNS_MAX: u32 = 100;

/// What [`Session::run`] waits before the second run, twice as long each further time, up to `PAUSE << DOUBLINGS_MAX` (80 ms). Unmeasured.
const PAUSE: Duration = Duration::from_micros(20);
const DOUBLINGS_MAX: u32 = 12;

/// What changes while a transaction runs.
pub(crate) struct State {
    pub(crate) holder: Holder,
    pub(crate) tables: KnownTables,
    pub(crate) writes: WriteSet,
    pub(crate) definitions: DefinitionSet,
    /// What foreign keys have to check yet.
    pub(crate) pending: Pending,
    /// Newest committed version read.
    pub(crate) seen: Ts,
    /// The change that was next when its last snapshot was taken: those before may be shown.
    pub(crate) shown: u64,
    /// A lock was refused: nothing but the end, or going back to a savepoint, is possible.
    pub(crate) ended: bool,
    /// The transaction waits for [`Session::resume`].
    pub(crate) suspended: bool,
    /// A buffer for updates, kept for its memory.
    pub(crate) scratch: Option<RowBuf>,
    pub(crate) garbage: Garbage,
    pub(crate) share: Share,
    /// Savepoints made so far, so that each has a number of its own.
    pub(crate) savepoints: u64,
    /// Those of earlier transactions.
    pub(crate) savepoints_before: u64,
    /// The session's.
    pub(crate) worker: usize,
}

/// One client of a store. From [`crate::Store::session`].
///
/// A thread that has a transaction of one session open and waits in another session for a lock of that transaction waits for itself. Where
/// that transaction has the row exclusively, the store refuses at once ([`LockError::SameThread`](crate::lock::LockError::SameThread)). Other
/// such waits (for a row that it has read, a range of keys, a table) end with a lock timeout: let one transaction of a thread end before the
/// next begins. User-level threads of one thread may wait for each other: while one waits the others run.
pub struct Session {
    pub(crate) store: Arc<StoreInner>,
    pub(crate) worker: usize,
    pub(crate) park: Arc<dyn Park>,
    pub(crate) durability: Durability,
    pub(crate) state: RefCell<State>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session(worker {})", self.worker)
    }
}

impl Session {
    pub(crate) fn new(store: Arc<StoreInner>, worker: usize, park: Arc<dyn Park>) -> Result<Self> {
        let holder = store.locks.begin(Arc::clone(&park))?;
        Ok(Session {
            durability: store.options.durability,
            worker,
            park,
            state: RefCell::new(State {
                holder,
                tables: KnownTables::default(),
                writes: WriteSet::default(),
                definitions: DefinitionSet::default(),
                pending: Pending::default(),
                seen: Ts::ZERO,
                shown: 0,
                ended: false,
                suspended: false,
                scratch: None,
                garbage: Garbage::default(),
                share: Share::default(),
                savepoints: 0,
                savepoints_before: 0,
                worker,
            }),
            store,
        })
    }

    /// Begins a transaction. It ends with [`Transaction::commit`]; dropped before that, it is aborted.
    ///
    /// # Errors
    /// [`StoreError::Closed`]; [`StoreError::Suspended`] if the one before was suspended and has not ended.
    pub fn begin(&mut self) -> Result<Transaction<'_>> {
        self.store.check_open()?;
        if self.is_suspended() {
            return Err(StoreError::Suspended);
        }
        self.abandon();
        let state = self.state.get_mut();
        state.holder.begin();
        // Lets go of tables that were dropped.
        state.tables.forget_dropped(self.store.definitions());
        Ok(Transaction::new(self))
    }

    /// Goes on with the transaction that was suspended, and waits through `park` from now on: the caller's.
    ///
    /// # Errors
    /// [`StoreError::NotSuspended`]; [`StoreError::Closed`], and then the transaction is aborted.
    pub fn resume(&mut self, park: Arc<dyn Park>) -> Result<Transaction<'_>> {
        if !self.is_suspended() {
            return Err(StoreError::NotSuspended);
        }
        if let Err(closed) = self.store.check_open() {
            self.abandon();
            return Err(closed);
        }
        self.set_park(park);
        let state = self.state.get_mut();
        state.suspended = false;
        state.holder.begin();
        Ok(Transaction::new(self))
    }

    /// As [`Session::resume`]; it waits as [`park::current`] does.
    ///
    /// # Errors
    /// As there.
    pub fn resume_here(&mut self) -> Result<Transaction<'_>> {
        self.resume(park::current())
    }

    /// Whether it has a transaction that was suspended.
    pub fn is_suspended(&self) -> bool {
        self.state.borrow().suspended
    }

    /// Runs `work` in a transaction and commits it; again from its beginning where it had to give way to others, [`RUNS_MAX`] times in all.
    ///
    /// # Errors
    /// What `work` returns in its last run, and what [`Transaction::commit`] does.
    pub fn run<R>(&mut self, mut work: impl FnMut(&mut Transaction<'_>) -> Result<R>) -> Result<R> {
        let mut runs = 0;
        loop {
            runs += 1;
            let mut transaction = self.begin()?;
            let answer = work(&mut transaction);
            match answer.and_then(|value| transaction.commit().map(|_| value)) {
                Err(error) if error.is_retryable() && runs < RUNS_MAX => {
                    // Longer each time, and not as long as others: who meets at once meets again.
                    let slot = self.state.get_mut().holder.slot();
                    let eighths = 1 + (slot.wrapping_mul(31) ^ runs.wrapping_mul(0x9E37_79B9) >> 16) % 8;
                    let pause = PAUSE * (1 << runs.min(DOUBLINGS_MAX)) / 16 * eighths;
                    self.park.park(Some(Instant::now() + pause));
                }
                answer => return answer,
            }
        }
    }

    /// Undoes a transaction that was neither ended nor dropped: one that is suspended, and [`std::mem::forget`] is safe.
    pub(crate) fn abandon(&mut self) {
        let state = self.state.get_mut();
        if state.suspended || state.ended || !state.tables.is_untouched() {
            drop(Transaction::new(self));
        }
    }

    /// What [`Transaction::commit`] waits for from now on.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// How long its transactions wait for a lock from now on. Within one: [`Transaction::set_lock_timeout`].
    pub fn set_lock_timeout(&mut self, timeout: Duration) {
        self.state.get_mut().holder.set_timeout(timeout);
    }

    /// Waits through `park` from now on: before it is used on another thread than that it was made for.
    pub fn set_park(&mut self, park: Arc<dyn Park>) {
        self.state.get_mut().holder.set_park(Arc::clone(&park));
        self.park = park;
    }

    /// The worker it belongs to.
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl State {
    /// What a row is now that is locked. Everything that a transaction finds out about rows passes here, that there is none too: where it is
    /// durable, the commits that it knows of are, before anybody is told.
    #[inline]
    pub(crate) fn newest(&mut self, slot: &Slot) -> Option<VersionPtr> {
        let version = slot.newest()?;
        if let Some(ts) = version.committed() {
            self.seen = self.seen.max(ts);
        }
        Some(version)
    }

    /// Undoes what was changed after a mark.
    pub(crate) fn undo_to(&mut self, mark: &WriteMark) {
        self.writes.undo_to(mark, &self.tables);
    }

    /// Undoes what was defined after a mark; of rows nothing is left that was changed since.
    pub(crate) fn undo_definitions_to(&mut self, mark: &DefinitionMark, store: &StoreInner) {
        if self.definitions.undo_to(mark, store) {
            // Tables that were taken away are there again.
            self.tables.lower(&self.holder);
        }
    }

    /// Lets go of the locks that were taken after a mark.
    pub(crate) fn release_to(&mut self, mark: &LockMark) {
        self.holder.release_to(mark, self.tables.words());
        self.tables.lower(&self.holder);
    }

    /// Lets go of all locks and forgets the transaction. What was rolled back is garbage then: snapshots before `end` may just be looking at it.
    pub(crate) fn finish(&mut self, end: Ts) {
        self.writes.leave_undone(end, &mut self.garbage);
        self.definitions.end();
        self.holder.release_all(self.tables.words());
        self.tables.leave();
        self.writes.give_rows(&self.tables, self.worker);
        self.pending.clear();
        self.seen = Ts::ZERO;
        self.shown = 0;
        self.ended = false;
        self.suspended = false;
        self.savepoints_before = self.savepoints;
    }

    /// Clears some garbage, if there is any that can go.
    pub(crate) fn clear_garbage(&mut self, store: &StoreInner) {
        if self.garbage.is_empty() && store.orphans.is_empty() {
            return;
        }
        let log: &Log = &store.log;
        let Some(floor) = store.horizon.floor(|| log.last(), || log.durable()) else {
            // Later.
            return;
        };
        let oldest = store.horizon.oldest(|| floor);
        let oldest_durable = oldest.min(log.durable());
        let clearing = Clearing {
            log,
            horizon: &store.horizon,
            memory: &store.memory,
            pool: store.pool(self.worker),
            worker: self.worker,
            oldest,
            oldest_durable,
        };
        self.garbage.clear(&clearing, &mut self.holder, &mut self.share);
        // Apart from the session's own, which would wait behind it, or it behind them.
        if let Some(mut part) = store.orphans.take(oldest, oldest_durable) {
            part.clear(&clearing, &mut self.holder, &mut self.share);
            store.orphans.put(part);
        }
        if self.garbage.is_too_much() {
            store.orphans.put(std::mem::take(&mut self.garbage));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abandon();
        let store = Arc::clone(&self.store);
        let state = self.state.get_mut();
        state.clear_garbage(&store);
        state.share.end(&store.memory);
        store.orphans.put(std::mem::take(&mut state.garbage));
    }
}
