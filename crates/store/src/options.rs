//! [`Options`] of a store.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Result, StoreError};
pub use crate::log::OnDamage;
use crate::log::{Archive, PAYLOAD_MAX};

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Its changes are on disk when [`crate::Transaction::commit`] returns.
    #[default]
    Durable,
    /// Its changes are on disk at most [`Options::flush_every`] later, unless the disk is slow. A crash loses the newest commits
    /// at most, never one without all that came after it.
    Asynchronous,
}

/// How far opening has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is done now: `checkpoint`, `log` or `indexes`.
    pub phase: &'static str,
    /// Parts done: bytes of the checkpoint or of the log, or indexes.
    pub done: u64,
    /// Parts in all.
    pub of: u64,
}

/// Who hears of progress.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Most bytes of rows that fit the block of one transaction: its records are at most as long as what is counted, which may pass the
/// limit by a few bytes.
pub(crate) const TRANSACTION_BYTES_MAX: usize = PAYLOAD_MAX - 0xffff;

/// How a store is opened. Limits of 0 are none, unless said otherwise.
#[derive(Clone)]
pub struct Options {
    /// Workers (cores) whose sessions have counters and free rows of their own.
    pub workers: usize,
    /// What commits of new sessions wait for.
    pub durability: Durability,
    /// Longest time an asynchronous commit is in memory only.
    pub flush_every: Duration,
    /// Bytes that all rows with their old versions, slots and indexes may take together before rows are refused that are new or become
    /// longer; 0: no limit. Deletions and all other updates go on.
    pub memory_max: u64,
    /// Bytes of log on disk after which a checkpoint is made.
    pub checkpoint_log_bytes: u64,
    /// Bytes of log on disk after which commits are refused: when checkpoints cannot keep up.
    pub log_bytes_max: u64,
    /// Bytes of rows one transaction may write; not 0, and at most 2 GB, which is what a block of the log can hold. What it writes
    /// is in memory twice while it commits: as rows, which count for [`Options::memory_max`], and as its block.
    pub transaction_bytes_max: usize,
    /// Transactions, that is sessions, at a time; not 0.
    pub sessions_max: u32,
    /// Locks of all transactions; 0: no limit.
    pub locks_max: u64,
    /// Locks of one transaction: rows, tables and ranges of keys; 0: no limit.
    pub locks_per_transaction_max: u32,
    /// Longest wait for a lock.
    pub lock_timeout: Duration,
    /// Wait for a lock after which a transaction looks for a deadlock.
    pub detect_after: Duration,
    /// Snapshots at a time; not 0.
    pub snapshots_max: usize,
    /// What to do with damage.
    pub on_damage: OnDamage,
    /// Threads that read checkpoint and log when the store is opened; 0 for one for each CPU the process may use.
    pub recovery_threads: usize,
    /// Keeps the log that checkpoints remove, so that [`crate::restore_to`] can bring a backup to any later moment. Log that it cannot take
    /// stays in the store's folder, up to [`Options::log_bytes_max`].
    pub archive: Option<Archive>,
    /// Hears how far opening has come.
    pub on_progress: Option<OnProgress>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: 1,
            durability: Durability::Durable,
            flush_every: Duration::from_millis(10),
            memory_max: 0,
            checkpoint_log_bytes: 256 << 20,
            log_bytes_max: 4 << 30,
            transaction_bytes_max: 1 << 30,
            sessions_max: 1024,
            locks_max: 16 << 20,
            locks_per_transaction_max: 1 << 20,
            lock_timeout: Duration::from_secs(1),
            detect_after: Duration::from_millis(2),
            snapshots_max: 256,
            on_damage: OnDamage::Refuse,
            recovery_threads: 0,
            archive: None,
            on_progress: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("workers", &self.workers)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Whether they make sense.
    pub(crate) fn check(&self) -> Result<()> {
        let not_zero = [
            ("workers", self.workers == 0),
            ("transaction_bytes_max", self.transaction_bytes_max == 0),
            ("sessions_max", self.sessions_max == 0),
            ("snapshots_max", self.snapshots_max == 0),
        ];
        for (name, zero) in not_zero {
            if zero {
                return Err(StoreError::Option {
                    name,
                    why: "must be at least 1".to_owned(),
                });
            }
        }
        if self.transaction_bytes_max > TRANSACTION_BYTES_MAX {
            return Err(StoreError::Option {
                name: "transaction_bytes_max",
                why: format!(
                    "{} is more than a block of the log can hold; {TRANSACTION_BYTES_MAX} is the most",
                    self.transaction_bytes_max
                ),
            });
        }
        if self.log_bytes_max > 0 && self.checkpoint_log_bytes > self.log_bytes_max {
            return Err(StoreError::Option {
                name: "checkpoint_log_bytes",
                why: format!(
                    "{} is more than log_bytes_max ({}), so commits would be refused before a checkpoint makes room",
                    self.checkpoint_log_bytes, self.log_bytes_max
                ),
            });
        }
        Ok(())
    }

    pub(crate) fn threads(&self) -> usize {
        if self.recovery_threads > 0 {
            return self.recovery_threads;
        }
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Threads that write checkpoints and backups: the others stay free for transactions.
    pub(crate) fn writing_threads(&self) -> usize {
        (self.threads() / 2).max(1)
    }

    pub(crate) fn progress(&self, phase: &'static str, done: u64, of: u64) {
        if let Some(hear) = &self.on_progress {
            hear(Progress { phase, done, of });
        }
    }
}
