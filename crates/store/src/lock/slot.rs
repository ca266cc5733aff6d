//! [`Slot`]: what others may know of one holder: whether it waits, for what, and what it holds meanwhile.

use super::error::LockName;
use super::held::Held;
use super::mode::{RowMode, RowName, TableMode};
use super::range::{RangeKey, RangeLocks};
use super::table::TableLock;
use crate::park::Park;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a holder waits for.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Row { key: u64, mode: RowMode },
    Table { lock: Arc<TableLock>, mode: TableMode },
    Key { ranges: Arc<RangeLocks>, key: RangeKey },
}

impl Target {
    pub fn name(&self) -> LockName {
        match self {
            Target::Row { key, .. } => LockName::Row(RowName::of_key(*key)),
            Target::Table { lock, .. } => LockName::Table(lock.number()),
            Target::Key { ranges, key } => LockName::Key {
                index: ranges.number(),
                key: key[0],
            },
        }
    }

    pub fn mode(&self) -> &'static str {
        match self {
            Target::Row { mode, .. } => mode.name(),
            Target::Table { mode, .. } => mode.name(),
            Target::Key { .. } => "an entry",
        }
    }
}

/// What a holder hands over for as long as it waits. Nothing of it changes meanwhile.
pub(super) struct Waiting {
    pub wait: u64,
    pub target: Target,
    pub held: Held,
    /// Greater is younger: counted when a transaction waits for the first time.
    pub birth: u64,
    pub park: Arc<dyn Park>,
    /// The circle that this holder was chosen to break.
    pub parties: Vec<u32>,
}

/// One holder as others see it. Waits are numbered, from 1, and no number is used twice in a slot.
///
/// ```text
///   in a queue ──► waiting (published) ──► granted = wait    by who hands over, under the queue's mutex
///                        │                 doomed  = wait    by the detector; the holder then leaves the queue itself,
///                        │                                   unless it was granted meanwhile
///                        └───────────────► leaves at its deadline, unless it was granted meanwhile
/// ```
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Slot {
    /// The number of the latest wait. Written by the holder only.
    wait: AtomicU64,
    granted: AtomicU64,
    doomed: AtomicU64,
    /// The number of the thread on which a transaction runs; 0: none does; or `NO_THREAD`. Written by the holder only.
    open_on: AtomicU64,
    /// How often a transaction ended, or took back what a snapshot of it showed. Written by the holder only.
    turns: AtomicU64,
    /// `Some` while the holder waits.
    pub waiting: Mutex<Option<Box<Waiting>>>,
}

impl Slot {
    /// A transaction begins, or goes on, on the calling thread, where it stays. By the holder. Relaxed: it guards nothing.
    pub fn open(&self) {
        self.open_on.store(thread_number(), Ordering::Relaxed);
    }

    /// It may go on on any thread. By the holder.
    pub fn suspend(&self) {
        self.open_on.store(NO_THREAD, Ordering::Relaxed);
    }

    /// What the transaction has written is no longer so. By the holder, before it lets go of a lock: who reads, by Acquire, what another writes
    /// under such a lock then, reads the new number afterwards.
    pub fn turn(&self) {
        let turns = self.turns.load(Ordering::Relaxed) + 1;
        self.turns.store(turns, Ordering::Release);
    }

    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    /// It has ended. By the holder.
    pub fn close(&self) {
        self.open_on.store(0, Ordering::Relaxed);
    }

    pub fn is_open(&self) -> bool {
        self.open_on.load(Ordering::Relaxed) != 0
    }

    /// Whether a transaction runs on the calling thread. As exact as it can be: only this thread begins and ends it.
    pub fn is_open_here(&self) -> bool {
        self.open_on.load(Ordering::Relaxed) == thread_number()
    }

    /// Begins a wait: its number. By the holder.
    pub fn next_wait(&self) -> u64 {
        let wait = self.wait.load(Ordering::Relaxed) + 1;
        self.wait.store(wait, Ordering::Relaxed);
        wait
    }

    /// The wait ends with the lock. Under the queue's mutex, after the lock was made the waiter's: Release hands that on, and
    /// what the former holders did, which the caller has acquired.
    pub fn grant(&self, wait: u64) {
        self.granted.store(wait, Ordering::Release);
    }

    pub fn is_granted(&self, wait: u64) -> bool {
        self.granted.load(Ordering::Acquire) == wait
    }

    /// The waiter shall give way. Under the detector's mutex. Nothing is read on account of it, and the mutex of `waiting`,
    /// which carries the circle, orders the rest.
    pub fn doom(&self, wait: u64) {
        self.doomed.store(wait, Ordering::Release);
    }

    pub fn is_doomed(&self, wait: u64) -> bool {
        self.doomed.load(Ordering::Acquire) == wait
    }
}

/// Where a suspended transaction is open.
const NO_THREAD: u64 = u64::MAX;

/// A number of the calling thread that no other has, from 1.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
