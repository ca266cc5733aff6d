//! [`Checkpointer`]: when checkpoints are made, and which chunks the last one left.
//!
//! What it is not: what a checkpoint writes is in [`crate::image`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::checkpoint::{Busy, CheckpointMap};
use crate::counts::CheckpointDone;
use crate::error::{Result, StoreError};
use crate::image::{self, Target};
use crate::snapshot::Snapshot;
use crate::store::StoreInner;

/// How often the log's length is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Clients are taken to go on committing for so long after a commit.
const BUSY_FOR: Duration = Duration::from_millis(10);
/// How many looks pass before a checkpoint that failed is tried again.
const LOOKS_AFTER_FAILURE: u32 = 10;

/// What the thread that makes checkpoints shares with others.
pub(crate) struct Checkpointer {
    stopped: Mutex<bool>,
    wake: Condvar,
    /// What its last attempt said, if it failed.
    failed: Mutex<Option<String>>,
    /// What is in force. Only changed by who holds `defining`.
    map: Mutex<CheckpointMap>,
}

impl Checkpointer {
    pub(crate) fn new(map: CheckpointMap) -> Self {
        Checkpointer {
            stopped: Mutex::default(),
            wake: Condvar::new(),
            failed: Mutex::default(),
            map: Mutex::new(map),
        }
    }

    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.wake.notify_all();
    }

    /// Why the last checkpoint in the background failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failed.lock().clone()
    }

    /// Waits for the next look. False: it was stopped.
    fn wait(&self) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.wake.wait_for(&mut stopped, LOOK_EVERY);
        }
        !*stopped
    }
}

/// Bytes of log behind a checkpoint before the next: reading them must not take long beside reading the rows, and writing what has changed
/// should pay.
fn log_bytes_between(least: u64, row_bytes: u64) -> u64 {
    least.max(row_bytes / 4)
}

impl StoreInner {
    pub(crate) fn checkpoint(self: &Arc<Self>) -> Result<Option<CheckpointDone>> {
        let Some(home) = &self.home else {
            return Ok(None);
        };
        // A log that has failed is found before all rows are written in vain.
        self.log.flush()?;
        // Definitions stay as they are until it is written.
        let _defining = self.defining.lock();
        let snapshot = Snapshot::for_checkpoint(self)?;
        let mut map = self.checkpointer.map.lock().clone();
        let target = Target {
            storage: &home.storage,
            store_id: self.store_id,
            threads: self.options.writing_threads(),
            busy: self.clients_commit(),
        };
        // The log must not be shorter than the checkpoint.
        let flush = || Ok(self.log.flush().map(drop)?);
        let catalog = self.catalog.read().clone();
        let done = image::write(&target, &catalog, &snapshot, &mut map, flush)?;
        *self.checkpointer.map.lock() = map;
        self.log
            .remove_before(snapshot.ts())
            .map_err(|source| StoreError::Storage {
                what: "remove old log segments of",
                place: home.storage.place(),
                source,
            })?;
        Ok(Some(done))
    }

    /// Whether clients have committed in the last moments, so that the disk is to be left to them; not where the log has little room left,
    /// and waits for the checkpoint.
    pub(crate) fn clients_commit(self: &Arc<Self>) -> Busy {
        let store = Arc::clone(self);
        let seen = Mutex::new((self.log.last(), Instant::now()));
        Arc::new(move || {
            let last = store.log.last();
            let mut seen = seen.lock();
            if seen.0 < last {
                *seen = (last, Instant::now());
            }
            let limit = store.options.log_bytes_max;
            let is_urgent = limit > 0 && store.log.bytes() > limit / 4 * 3;
            seen.1.elapsed() < BUSY_FOR && !is_urgent && !store.is_closed()
        })
    }

    /// Makes a checkpoint whenever the log has grown enough, until the store is closed.
    pub(crate) fn keep_checkpoints(self: &Arc<Self>) {
        let least = self.options.checkpoint_log_bytes;
        // Before commits are refused, however much the last checkpoint left of the log.
        let half = match self.options.log_bytes_max {
            0 => u64::MAX,
            limit => limit / 2,
        };
        let (mut base, mut rest) = (0, 0);
        let mut archive_failed = false;
        while self.checkpointer.wait() {
            let archived = self.log.archive_closed();
            if archived.is_err() || archive_failed {
                archive_failed = archived.is_err();
                *self.checkpointer.failed.lock() = archived.err().map(|error| error.to_string());
            }
            let bytes = self.log.bytes();
            let every = log_bytes_between(least, self.memory.rows());
            if least == 0 || bytes <= base || bytes < (base + every).min(half) {
                continue;
            }
            if rest > 0 {
                rest -= 1;
                continue;
            }
            let outcome = self.checkpoint();
            match &outcome {
                // What is left of the log is no reason for the next one.
                Ok(_) => base = self.log.bytes(),
                Err(_) => rest = LOOKS_AFTER_FAILURE,
            }
            *self.checkpointer.failed.lock() = outcome.err().map(|error| error.to_string());
        }
    }
}
