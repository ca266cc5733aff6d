//! What a store says of itself: what opening it read, what a checkpoint wrote, and counts of one moment.

use crate::lock::LockCounts;
use crate::ts::Ts;

/// What opening a store read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered {
    /// Rows of the checkpoint.
    pub checkpoint_rows: u64,
    /// Commits of the log behind it.
    pub commits: u64,
    /// Changes in those commits.
    pub records: u64,
    /// Time reading the checkpoint took.
    pub checkpoint_time: std::time::Duration,
    /// Time reading and applying the log took.
    pub log_time: std::time::Duration,
    /// Time building the indexes took.
    pub index_time: std::time::Duration,
}

/// What a checkpoint wrote.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointDone {
    /// It holds all commits up to this one.
    pub ts: Ts,
    /// Rows written: those that had changed since the checkpoint before, and those beside which they had to be written again.
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Counts of a store at one moment.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Newest commit.
    pub last: Ts,
    /// Newest commit on disk.
    pub durable: Ts,
    /// Bytes of all row versions, about.
    pub row_bytes: u64,
    /// Bytes of slots and indexes, about.
    pub structure_bytes: u64,
    /// The limit of both; 0 for none.
    pub bytes_max: u64,
    /// Bytes of log on disk.
    pub log_bytes: u64,
    /// Open snapshots.
    pub snapshots: usize,
    /// Waits for locks, and who waits now.
    pub locks: LockCounts,
    /// Why the last checkpoint in the background failed, if it did.
    pub checkpoint_failure: Option<String>,
}
