//! [`Holder`]: one client's transactions, one after the other, as the lock manager sees them.

use super::error::{LockError, LockName};
use super::held::{Held, HeldTable, TABLES_KEPT};
use super::locks::Locks;
use super::mode::{Got, RowMode, RowName, TableMode};
use super::range::{RangeKey, RangeLocks};
use super::rows::{self, Request, number};
use super::slot::Target;
use super::table::{self, TableLock};
use super::wait::TIMEOUT_MAX;
use super::word::{LockWord, OWNER, SHARED, WAITERS};
use crate::park::Park;
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The locks of one client. A transaction begins with [`Holder::begin`], or with the first lock taken where nobody counts the open ones,
/// and ends with [`Holder::release_all`].
///
/// Dropping a holder gives up its tables and intervals. It cannot reach the words of rows it still holds: they stay locked and
/// its slot stays taken, so call [`Holder::release_all`] first.
pub struct Holder {
    pub(super) locks: Arc<Locks>,
    pub(super) slot: u32,
    pub(super) park: Arc<dyn Park>,
    pub(super) timeout: Duration,
    /// Locks it may take without asking `Locks::lend`; with those it holds never more than a transaction may have.
    pub(super) budget: u32,
    /// Marks made in this transaction.
    pub(super) marks: u32,
    /// 0 until the transaction waits.
    pub(super) birth: u64,
    pub(super) held: Held,
    pub(super) panic: Option<Box<dyn Any + Send>>,
    /// One client's: not `Sync`.
    _one_client: PhantomData<Cell<()>>,
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holder")
            .field("slot", &self.slot)
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}

impl Holder {
    pub(super) fn new(locks: Arc<Locks>, slot: u32, park: Arc<dyn Park>) -> Self {
        let timeout = locks.options.timeout.min(TIMEOUT_MAX);
        let held = Held::default();
        Holder {
            locks,
            slot,
            park,
            timeout,
            budget: 0,
            marks: 0,
            birth: 0,
            held,
            panic: None,
            _one_client: PhantomData,
        }
    }

    /// The number by which errors name this client's transactions.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// From now on [`Locks::open`] counts the client's transaction.
    #[inline]
    pub fn begin(&mut self) {
        self.locks.slots[self.slot as usize].open();
    }

    /// The client's transaction goes on after the next [`Holder::begin`], perhaps on another thread. Until then it counts as open on none.
    pub fn suspend(&mut self) {
        self.locks.slots[self.slot as usize].suspend();
    }

    /// What the transaction has written is undone from now on: its snapshots end.
    #[inline]
    pub fn turn(&self) {
        self.locks.slots[self.slot as usize].turn();
    }

    /// How long one wait may take from now on; more than a day counts as a day. Zero: whoever would wait gets the error.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.min(TIMEOUT_MAX);
    }

    /// How long one wait may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Waits through `park` from now on: the client went to another thread.
    pub fn set_park(&mut self, park: Arc<dyn Park>) {
        self.park = park;
    }

    /// Locks held: rows, tables and intervals.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes the lock of a row, whose word is `word`, and waits for it if it must.
    ///
    /// Errors: [`LockError::Timeout`], [`LockError::Deadlock`], and the limits of locks. What was held before still is.
    #[inline]
    pub fn row(&mut self, name: RowName, word: &LockWord, mode: RowMode) -> Result<Got, LockError> {
        match self.row_at_once(name.key(), word, mode)? {
            Some(got) => Ok(got),
            None => self
                .row_slowly(name.key(), word, mode, true)
                .map(|got| got.unwrap_or(Got::New)),
        }
    }

    /// As [`Self::row`], but `None` instead of a wait.
    #[inline]
    pub fn try_row(
        &mut self,
        name: RowName,
        word: &LockWord,
        mode: RowMode,
    ) -> Result<Option<Got>, LockError> {
        match self.row_at_once(name.key(), word, mode)? {
            Some(got) => Ok(Some(got)),
            None => self.row_slowly(name.key(), word, mode, false),
        }
    }

    /// One atomic step, if nobody is in the way or waits. `None`: ask the queue.
    #[inline]
    fn row_at_once(&mut self, key: u64, word: &LockWord, mode: RowMode) -> Result<Option<Got>, LockError> {
        let mut now = word.peek();
        if now & OWNER == number(self.slot) {
            return Ok(Some(Got::Held));
        }
        // While anybody holds S that may be us.
        let held = now & !WAITERS >= SHARED && self.held.has_shared(key);
        if held && mode == RowMode::S {
            return Ok(Some(Got::Held));
        }
        if held {
            while now == SHARED {
                match word.take(now, number(self.slot)) {
                    Ok(_) => {
                        self.held.upgrades.push(key);
                        return Ok(Some(Got::Upgraded));
                    }
                    Err(other) => now = other,
                }
            }
            return Ok(None);
        }
        let (blocking, then) = match mode {
            RowMode::S => (WAITERS | OWNER, SHARED),
            RowMode::X => (u64::MAX, number(self.slot)),
        };
        if now & blocking != 0 {
            return Ok(None);
        }
        self.charge()?;
        while now & blocking == 0 {
            match word.take(now, now + then) {
                Ok(_) => {
                    self.note_row(key, mode);
                    return Ok(Some(Got::New));
                }
                Err(other) => now = other,
            }
        }
        self.budget += 1;
        Ok(None)
    }

    #[inline]
    fn note_row(&mut self, key: u64, mode: RowMode) {
        match mode {
            RowMode::S => self.held.push_shared(key),
            RowMode::X => self.held.push_exclusive(key),
        }
    }

    #[cold]
    fn row_slowly(
        &mut self,
        key: u64,
        word: &LockWord,
        mode: RowMode,
        may_wait: bool,
    ) -> Result<Option<Got>, LockError> {
        let upgrade = self.held.has_shared(key);
        if !upgrade {
            self.charge()?;
        }
        let taken = self.row_queued(key, word, mode, upgrade, may_wait);
        match (&taken, upgrade) {
            (Ok(Some(())), false) => self.note_row(key, mode),
            (Ok(Some(())), true) => self.held.upgrades.push(key),
            (_, false) => self.budget += 1,
            _ => {}
        }
        self.unwind();
        Ok(taken?.map(|()| if upgrade { Got::Upgraded } else { Got::New }))
    }

    fn row_queued(
        &mut self,
        key: u64,
        word: &LockWord,
        mode: RowMode,
        upgrade: bool,
        may_wait: bool,
    ) -> Result<Option<()>, LockError> {
        let (locks, slot) = (Arc::clone(&self.locks), self.slot);
        if may_wait {
            refuse_own_thread(&locks, key, word, mode)?;
        }
        let started = Instant::now();
        let wait = locks.slots[slot as usize].next_wait();
        let waiter = may_wait.then_some((wait, &self.park));
        let contested = match locks.rows.enter(
            Request {
                key,
                word,
                slot,
                mode,
                upgrade,
            },
            waiter,
        ) {
            rows::Entered::Granted => return Ok(Some(())),
            rows::Entered::Refused => return Ok(None),
            rows::Entered::Queued { contested } => contested,
        };
        let wait = self.wait(wait, started, Target::Row { key, mode }, contested);
        self.settled(wait, || locks.rows.leave(&locks.slots, key, word, slot))
            .map(Some)
    }

    /// Takes the lock of a table in `mode` besides what is held of it, and waits for it if it must.
    ///
    /// Errors: as [`Self::row`].
    pub fn table(&mut self, table: &Arc<TableLock>, mode: TableMode) -> Result<Got, LockError> {
        let at = self
            .held
            .tables
            .iter()
            .position(|held| Arc::ptr_eq(&held.lock, table))
            .unwrap_or_else(|| {
                self.held.tables.push(HeldTable {
                    lock: Arc::clone(table),
                    mode: None,
                });
                self.held.tables.len() - 1
            });
        let held = self.held.tables[at].mode;
        let target = held.map_or(mode, |held| held.with(mode));
        if held == Some(target) {
            return Ok(Got::Held);
        }
        if held.is_none() {
            self.charge()?;
        }
        let intentions = target.is_intention() && held.is_none_or(TableMode::is_intention);
        let taken = if intentions && table.take(self.slot, held, target) {
            Ok(())
        } else {
            self.table_queued(table, held, target)
        };
        match (&taken, held) {
            (Ok(()), _) => {
                self.held.tables[at].mode = Some(target);
                self.held.table_steps.push((at, held));
                self.held.tables_len += usize::from(held.is_none());
            }
            (Err(_), None) => self.budget += 1,
            (Err(_), Some(_)) => {}
        }
        self.unwind();
        taken.map(|()| if held.is_some() { Got::Upgraded } else { Got::New })
    }

    /// What is held of a table.
    pub fn table_mode(&self, table: &Arc<TableLock>) -> Option<TableMode> {
        let mut held = self.held.tables.iter();
        held.find(|held| Arc::ptr_eq(&held.lock, table))?.mode
    }

    /// Announces that rows of a table will be written, for a holder that has nothing of it yet; `false` instead of a wait.
    ///
    /// Errors: the limits of locks.
    pub fn try_intend(&mut self, table: &Arc<TableLock>) -> Result<bool, LockError> {
        self.charge()?;
        if !table.try_take(&self.locks.slots, self.slot, TableMode::IX) {
            self.budget += 1;
            return Ok(false);
        }
        let held = self.held.tables.iter_mut();
        match held.into_iter().find(|held| Arc::ptr_eq(&held.lock, table)) {
            Some(held) => {
                debug_assert!(held.mode.is_none(), "it has nothing of the table");
                held.mode = Some(TableMode::IX);
            }
            None => self.held.tables.push(HeldTable {
                lock: Arc::clone(table),
                mode: Some(TableMode::IX),
            }),
        }
        self.held.tables_len += 1;
        Ok(true)
    }

    #[cold]
    fn table_queued(
        &mut self,
        table: &Arc<TableLock>,
        held: Option<TableMode>,
        mode: TableMode,
    ) -> Result<(), LockError> {
        let (locks, slot) = (Arc::clone(&self.locks), self.slot);
        let started = Instant::now();
        let wait = locks.slots[slot as usize].next_wait();
        let contested = match table.enter(&locks.slots, (slot, wait), held, mode, &self.park) {
            table::Entered::Granted => return Ok(()),
            table::Entered::Queued { contested } => contested,
        };
        let wait = self.wait(
            wait,
            started,
            Target::Table {
                lock: Arc::clone(table),
                mode,
            },
            contested,
        );
        self.settled(wait, || table.leave(&locks.slots, slot, held))
    }

    /// Locks an interval of an index in mode S, both ends inclusive. Call it before reading the index there. It never waits.
    /// With `lo > hi` there is nothing to lock.
    ///
    /// A transaction with very many intervals in one index gets some of them joined, with what lies between.
    ///
    /// Errors: the limits of locks.
    pub fn range(&mut self, ranges: &Arc<RangeLocks>, lo: &RangeKey, hi: &RangeKey) -> Result<(), LockError> {
        let known = self.held.ranges.iter().any(|held| Arc::ptr_eq(held, ranges));
        if lo > hi || known && ranges.covers(self.slot, lo, hi) {
            return Ok(());
        }
        self.charge()?;
        let registered = ranges.register(self.slot, self.marks, lo, hi);
        if registered.first {
            self.held.ranges.push(Arc::clone(ranges));
        }
        // Joined intervals give their share back.
        self.held.intervals = self.held.intervals.saturating_add_signed(registered.more);
        self.budget = self.budget.saturating_add_signed((1 - registered.more) as i32);
        Ok(())
    }

    /// For an inserter whose entry of `key` is in the index already: returns when every other transaction that has locked an
    /// interval with this key has ended. (Later ones find the entry.)
    ///
    /// Errors: [`LockError::Timeout`], [`LockError::Deadlock`]; take the entry back then.
    #[inline]
    pub fn pass(&mut self, ranges: &Arc<RangeLocks>, key: &RangeKey) -> Result<(), LockError> {
        if ranges.passes() {
            return Ok(());
        }
        self.pass_slowly(ranges, key)
    }

    #[cold]
    fn pass_slowly(&mut self, ranges: &Arc<RangeLocks>, key: &RangeKey) -> Result<(), LockError> {
        let (locks, slot) = (Arc::clone(&self.locks), self.slot);
        let wait = locks.slots[slot as usize].next_wait();
        if ranges.enter((slot, wait), key, &self.park) {
            return Ok(());
        }
        let wait = self.wait(
            wait,
            Instant::now(),
            Target::Key {
                ranges: Arc::clone(ranges),
                key: *key,
            },
            false,
        );
        let passed = self.settled(wait, || ranges.leave(slot));
        self.unwind();
        passed
    }

    /// Ends the transaction: lets go of everything and hands it to those who wait.
    ///
    /// `word` finds the word of a row that this transaction has locked, the same that was handed to [`Self::row`]. It is asked
    /// once for each row. If it panics, that row stays locked; call this again for the others.
    pub fn release_all<'w>(&mut self, word: impl Fn(RowName) -> &'w LockWord) {
        let owned = u64::from(self.budget) + self.held.len() as u64;
        self.turn();
        self.held.clear_shared();
        while let Some(key) = self.held.pop_row() {
            self.release_row(key, word(RowName::of_key(key)));
        }
        self.release_others();
        self.locks.slots[self.slot as usize].close();
        self.birth = 0;
        self.marks = 0;
        // What is kept serves the next transaction; see `budget`.
        let keep = owned.min(u64::from(
            self.locks.batch.min(self.locks.options.locks_per_transaction_max),
        ));
        self.budget = keep as u32;
        if owned > keep {
            self.locks.take_back(owned - keep);
        }
    }

    #[inline]
    pub(super) fn release_row(&mut self, key: u64, word: &LockWord) {
        let mine = if word.peek() & OWNER == number(self.slot) {
            number(self.slot)
        } else {
            SHARED
        };
        if word.leave(mine) & WAITERS != 0 {
            self.locks.rows.settle(&self.locks.slots, key, word);
        }
    }

    fn release_others(&mut self) {
        for ranges in self.held.ranges.drain(..) {
            ranges.release(&self.locks.slots, self.slot, 0);
        }
        self.held.intervals = 0;
        for table in &mut self.held.tables {
            if let Some(mode) = table.mode.take() {
                table.lock.lower(&self.locks.slots, self.slot, mode, None);
            }
        }
        self.held.tables_len = 0;
        self.held.table_steps.clear();
        self.held.tables.truncate(TABLES_KEPT);
    }

    /// One lock more.
    #[inline]
    fn charge(&mut self) -> Result<(), LockError> {
        if self.budget == 0 {
            self.borrow()?;
        }
        self.budget -= 1;
        Ok(())
    }

    #[cold]
    fn borrow(&mut self) -> Result<(), LockError> {
        let limit = self.locks.options.locks_per_transaction_max;
        let left = limit.saturating_sub(u32::try_from(self.held.len()).unwrap_or(u32::MAX));
        if left == 0 {
            return Err(LockError::TooManyLocksInTransaction { limit });
        }
        self.budget = self.locks.lend(left.min(self.locks.batch));
        match self.budget {
            0 => Err(LockError::TooManyLocks {
                limit: self.locks.options.locks_max,
            }),
            _ => Ok(()),
        }
    }
}

/// Refuses to wait for a row that another transaction of the calling thread has changed: it goes on when this thread does. On a user-level
/// thread it may be another's, who goes on meanwhile. Who else has the row shared is not known.
fn refuse_own_thread(locks: &Locks, key: u64, word: &LockWord, mode: RowMode) -> Result<(), LockError> {
    match (word.peek() & OWNER).checked_sub(1) {
        Some(owner) if locks.slots[owner as usize].is_open_here() && !corun_exec::teams::is_member() => {
            Err(LockError::SameThread {
                what: LockName::Row(RowName::of_key(key)),
                mode: mode.name(),
                slot: owner as u32,
            })
        }
        _ => Ok(()),
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let (tables, intervals) = (self.held.tables_len, self.held.intervals);
        self.release_others();
        self.locks.slots[self.slot as usize].close();
        self.locks
            .take_back(u64::from(self.budget) + (tables + intervals) as u64);
        if !self.held.has_rows() {
            self.locks.end(self.slot);
        }
    }
}
