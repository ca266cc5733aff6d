//! [`Locks`]: the lock manager of one store.

use super::error::LockError;
use super::holder::Holder;
use super::rows::RowQueues;
use super::slot::Slot;
use crate::park::Park;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Limits and times of a [`Locks`].
#[derive(Debug, Clone)]
pub struct LockOptions {
    /// Holders at once, at most. At least 1 is taken.
    pub transactions_max: u32,
    /// Locks of all holders together. Holders draw on it in batches of up to 64 locks and keep one batch between their
    /// transactions, so the limit may be met when up to a quarter of it is not in use. 0 allows none.
    pub locks_max: u64,
    /// Locks of one transaction: rows, tables and intervals. 0 allows none.
    pub locks_per_transaction_max: u32,
    /// How long one wait may take; more than a day counts as a day. [`Holder::set_timeout`] changes it for one holder.
    pub timeout: Duration,
    /// How long a wait takes before the waiter looks for a deadlock.
    pub detect_after: Duration,
}

impl Default for LockOptions {
    fn default() -> Self {
        LockOptions {
            transactions_max: 1024,
            locks_max: 1 << 24,
            locks_per_transaction_max: 1 << 20,
            timeout: Duration::from_secs(1),
            detect_after: Duration::from_millis(2),
        }
    }
}

/// What has happened since the start, and who waits now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Holders that wait at this moment.
    pub waiting: u32,
    /// Waits that were more than a brief spin.
    pub waits: u64,
    /// Waits that took too long.
    pub timeouts: u64,
    /// Transactions that had to give way in a deadlock.
    pub deadlocks: u64,
}

/// Locks of one transaction's batch, at most. Unmeasured: it makes the shared counter's cost vanish in small transactions.
const BATCH_MAX: u64 = 64;

/// The lock manager of one store.
pub struct Locks {
    pub(super) options: LockOptions,
    pub(super) batch: u32,
    pub(super) slots: Box<[Slot]>,
    pub(super) rows: RowQueues,
    /// Slots below this have been in use.
    pub(super) slots_used: AtomicU32,
    /// Slots not in use; small numbers are given out first.
    free: Mutex<Vec<u32>>,
    /// Locks that holders have, or may take without asking.
    lent: AtomicU64,
    pub(super) births: AtomicU64,
    pub(super) detector: Mutex<()>,
    pub(super) waiting: AtomicU32,
    pub(super) waits: AtomicU64,
    pub(super) timeouts: AtomicU64,
    pub(super) deadlocks: AtomicU64,
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks")
            .field("options", &self.options)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Locks {
    /// Nobody holds anything yet.
    pub fn new(options: LockOptions) -> Self {
        // Numbers of holders must fit into lock words, and so must as many of them in mode S.
        let transactions = options.transactions_max.clamp(1, 1 << 20);
        let batch = (options.locks_max / (4 * u64::from(transactions))).clamp(1, BATCH_MAX) as u32;
        Locks {
            batch,
            slots: (0..transactions).map(|_| Slot::default()).collect(),
            rows: RowQueues::new(),
            slots_used: AtomicU32::new(0),
            free: Mutex::new((0..transactions).rev().collect()),
            lent: AtomicU64::new(0),
            births: AtomicU64::new(0),
            detector: Mutex::new(()),
            waiting: AtomicU32::new(0),
            waits: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
            options: LockOptions {
                transactions_max: transactions,
                ..options
            },
        }
    }

    /// A slot for a client, in which it runs one transaction after the other. It waits through `park`.
    ///
    /// Errors: [`LockError::TooManyTransactions`].
    pub fn begin(self: &Arc<Self>, park: Arc<dyn Park>) -> Result<Holder, LockError> {
        let slot = self.free.lock().pop();
        let slot = slot.ok_or(LockError::TooManyTransactions {
            limit: self.options.transactions_max,
        })?;
        // A detector that still reads the old bound misses this holder once; waiters look again and again.
        self.slots_used.fetch_max(slot + 1, Ordering::AcqRel);
        Ok(Holder::new(Arc::clone(self), slot, park))
    }

    /// What has happened since the start, and who waits now.
    pub fn counts(&self) -> LockCounts {
        LockCounts {
            waiting: self.waiting.load(Ordering::Acquire),
            waits: self.waits.load(Ordering::Relaxed),
            timeouts: self.timeouts.load(Ordering::Relaxed),
            deadlocks: self.deadlocks.load(Ordering::Relaxed),
        }
    }

    /// Transactions that have begun ([`Holder::begin`]) and not ended: those that the caller knows of, and of the others about.
    pub fn open(&self) -> usize {
        let used = self.slots_used.load(Ordering::Acquire) as usize;
        self.slots[..used].iter().filter(|slot| slot.is_open()).count()
    }

    /// How often a transaction of a slot has ended, or gone back to a savepoint.
    pub(crate) fn turns(&self, slot: u32) -> u64 {
        self.slots[slot as usize].turns()
    }

    pub(super) fn end(&self, slot: u32) {
        self.free.lock().push(slot);
    }

    /// Lends out up to `wanted` locks; 0 when none are left.
    pub(super) fn lend(&self, wanted: u32) -> u32 {
        // A plain count that guards no other memory: Relaxed.
        let mut lent = self.lent.load(Ordering::Relaxed);
        loop {
            let more = u64::from(wanted).min(self.options.locks_max.saturating_sub(lent));
            match self
                .lent
                .compare_exchange_weak(lent, lent + more, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return more as u32,
                Err(now) => lent = now,
            }
        }
    }

    pub(super) fn take_back(&self, locks: u64) {
        self.lent.fetch_sub(locks, Ordering::Relaxed);
    }
}
