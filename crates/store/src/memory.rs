//! [`Memory`]: what all rows, slots and indexes take, against a limit for what makes that more.
//!
//! Sessions count for themselves and settle with the shared count now and then, so that it is not touched for every row; the
//! limit may therefore be passed by [`SHARE_BYTES`] for each session. Slots and indexes are measured when a session settles. What does not
//! make a row longer is counted and never refused: otherwise nobody could delete anything from a store that is full.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::{Result, StoreError};

/// What a session counts before it settles, in bytes.
const SHARE_BYTES: i64 = 64 << 10;

/// Bytes that a store takes.
#[derive(Debug)]
pub(crate) struct Memory {
    /// All versions of all rows.
    rows: AtomicI64,
    /// Slots and indexes.
    structures: AtomicI64,
    /// Bytes; 0: no limit.
    limit: u64,
}

impl Memory {
    /// Nothing is used yet.
    pub(crate) fn new(limit: u64) -> Self {
        Memory {
            rows: AtomicI64::new(0),
            structures: AtomicI64::new(0),
            limit,
        }
    }

    /// Counts versions that no session counted, or no longer.
    pub(crate) fn add(&self, bytes: i64) {
        self.rows.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts what slots and indexes take more than before.
    pub(crate) fn add_structures(&self, bytes: i64) {
        self.structures.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn rows(&self) -> u64 {
        u64::try_from(self.rows.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(crate) fn structures(&self) -> u64 {
        u64::try_from(self.structures.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Whether there is room for more.
    ///
    /// # Errors
    /// [`StoreError::MemoryFull`].
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.limit == 0 {
            return Ok(());
        }
        let used = self.rows() + self.structures();
        if used > self.limit {
            return Err(StoreError::MemoryFull {
                limit: self.limit,
                used,
            });
        }
        Ok(())
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn settle(&self, share: &mut i64) {
        self.add(std::mem::take(share));
    }
}

/// A session's share.
#[derive(Debug, Default)]
pub(crate) struct Share(i64);

impl Share {
    /// Counts a new version. True: it was settled, and slots and indexes are to be measured.
    #[inline]
    pub(crate) fn take(&mut self, memory: &Memory, bytes: usize) -> bool {
        self.0 += bytes as i64;
        let settles = self.0 >= SHARE_BYTES || (memory.limit > 0 && memory.limit < (SHARE_BYTES as u64) << 4);
        if settles {
            memory.settle(&mut self.0);
        }
        settles
    }

    /// Counts a version that is gone.
    #[inline]
    pub(crate) fn give(&mut self, memory: &Memory, bytes: usize) {
        self.0 -= bytes as i64;
        if self.0 <= -SHARE_BYTES {
            memory.settle(&mut self.0);
        }
    }

    /// Settles all.
    pub(crate) fn end(&mut self, memory: &Memory) {
        memory.settle(&mut self.0);
    }
}
