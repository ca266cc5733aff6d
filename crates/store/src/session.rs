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

use crate::error::{Result, StoreError};
use crate::garbage::{Clearing, Garbage};
use crate::key::Words;
use crate::lock::{Holder, LockMark, LockWord, RowName, TableMode};
use crate::log::Log;
use crate::memory::Share;
use crate::options::Durability;
use crate::park::{self, Park};
use crate::row::RowBuf;
use crate::slots::{Rid, Slot};
use crate::store::StoreInner;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::ts::Ts;
use crate::version::VersionPtr;

/// How often [`Session::run`] runs a transaction at most.
pub const RUNS_MAX: u32 = 100;

/// What [`Session::run`] waits before the second run, twice as long each further time, up to `PAUSE << DOUBLINGS_MAX` (80 ms). Unmeasured.
const PAUSE: Duration = Duration::from_micros(20);
const DOUBLINGS_MAX: u32 = 12;

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
pub(crate) struct Known {
    pub(crate) table: Table,
    pub(crate) reach: Reach,
}

/// A row version the transaction made.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub(crate) table: u32,
    pub(crate) rid: Rid,
    /// What the row was before this change: none for a new row.
    pub(crate) before: Option<VersionPtr>,
    pub(crate) after: VersionPtr,
    /// Whether it is the transaction's first change of the row, so that `before` is committed.
    pub(crate) first: bool,
    /// Whether an index knows the row by another key now, or not at all.
    pub(crate) moves: bool,
}

/// An index entry the transaction put.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) table: u32,
    pub(crate) index: u8,
    pub(crate) rid: Rid,
    pub(crate) key: Words,
}

/// What changes while a transaction runs.
pub(crate) struct State {
    pub(crate) holder: Holder,
    /// By the table's number.
    pub(crate) known: Vec<Option<Known>>,
    /// Tables whose `reach` is not `Nothing`.
    pub(crate) touched: Vec<u32>,
    pub(crate) writes: Vec<Write>,
    pub(crate) entries: Vec<Entry>,
    /// Versions of parts that were rolled back. Kept to the end: the user may still look at them.
    pub(crate) undone: Vec<VersionPtr>,
    /// Rows that were rolled back, to be given back after their locks.
    pub(crate) freed: Vec<(u32, Rid)>,
    pub(crate) redo: Vec<u8>,
    /// Versions the session has made: the number of the next.
    pub(crate) changes: u64,
    /// Bytes of all versions made, for the limit of a transaction.
    pub(crate) bytes: usize,
    /// Whether a row was changed more than once, so that what lies between was nobody's.
    pub(crate) rewrites: bool,
    /// Newest committed version read.
    pub(crate) seen: Ts,
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
    /// Definitions as of the last look.
    pub(crate) definitions: u64,
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
                known: Vec::new(),
                touched: Vec::new(),
                writes: Vec::new(),
                entries: Vec::new(),
                undone: Vec::new(),
                freed: Vec::new(),
                redo: Vec::new(),
                changes: 0,
                bytes: 0,
                rewrites: false,
                seen: Ts::ZERO,
                ended: false,
                suspended: false,
                scratch: None,
                garbage: Garbage::default(),
                share: Share::default(),
                savepoints: 0,
                savepoints_before: 0,
                worker,
                definitions: 0,
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
        let definitions = self.store.definitions();
        if state.definitions != definitions {
            state.definitions = definitions;
            // Lets go of tables that were dropped.
            for known in &mut state.known {
                known.take_if(|known| known.table.0.dropped.load(std::sync::atomic::Ordering::Acquire));
            }
        }
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
        if state.suspended || state.ended || !state.touched.is_empty() {
            drop(Transaction::new(self));
        }
    }

    /// What [`Transaction::commit`] waits for from now on.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// How long its transactions wait for a lock from now on.
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
    /// The table behind a number, which the transaction has used.
    pub(crate) fn table(&self, id: u32) -> &Table {
        let known = self.known[id as usize].as_ref();
        &known.expect("tables in use are known").table
    }

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

    /// Lets go of the locks that were taken after a mark.
    pub(crate) fn release_to(&mut self, mark: &LockMark) {
        self.holder.release_to(mark, word_of(&self.known));
        self.touched.retain(|id| {
            let known = self.known[*id as usize].as_mut().expect("tables in use are known");
            known.reach = match self.holder.table_mode(&known.table.0.lock) {
                None => Reach::Nothing,
                Some(TableMode::IS) => Reach::ReadRows,
                Some(TableMode::IX) => Reach::WriteRows,
                Some(TableMode::S | TableMode::SIX) => Reach::Read,
                Some(TableMode::X) => Reach::Write,
            };
            known.reach != Reach::Nothing
        });
    }

    /// Lets go of all locks and forgets the transaction.
    pub(crate) fn release(&mut self) {
        self.holder.release_all(word_of(&self.known));
        for id in self.touched.drain(..) {
            if let Some(known) = &mut self.known[id as usize] {
                known.reach = Reach::Nothing;
            }
        }
        self.bytes = 0;
        self.rewrites = false;
        self.seen = Ts::ZERO;
        self.ended = false;
        self.suspended = false;
    }

    /// Clears some garbage, if there is any that can go.
    pub(crate) fn clear_garbage(&mut self, store: &StoreInner) {
        let log: &Log = &store.log;
        let Some(floor) = store.horizon.floor(|| log.last(), || log.durable()) else {
            // Later.
            return;
        };
        let oldest = || store.horizon.oldest(|| floor);
        if self.garbage.has_room()
            && let Some(left) = store.orphans.take(oldest)
        {
            self.garbage.append(left);
        }
        if self.garbage.is_empty() {
            return;
        }
        let oldest = oldest();
        let clearing = Clearing {
            log,
            horizon: &store.horizon,
            memory: &store.memory,
            pool: store.pool(self.worker),
            worker: self.worker,
            oldest,
            oldest_durable: oldest.min(log.durable()),
        };
        self.garbage.clear(&clearing, &mut self.holder, &mut self.share);
        if self.garbage.is_too_much() {
            store.orphans.put(std::mem::take(&mut self.garbage));
        }
    }
}

/// Finds the locks of rows of tables that are in use.
fn word_of<'k>(known: &'k [Option<Known>]) -> impl Fn(RowName) -> &'k LockWord {
    |name| {
        let known = known[name.table as usize].as_ref();
        let table = &known.expect("tables in use are known").table;
        &table.0.slots.slot(Rid(name.rid)).lock
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
