//! [`Memory`]: what all rows take, against a limit.
//!
//! Sessions count for themselves and settle with the shared count now and then, so that it is not touched for every row; the
//! limit may therefore be passed by [`SHARE_BYTES`] for each session. Slots and indexes are not counted here.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::{Result, StoreError};

/// What a session counts before it settles, in bytes.
const SHARE_BYTES: i64 = 64 << 10;

/// Bytes of all versions of all rows.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicI64,
    /// Bytes; 0: no limit.
    limit: u64,
}

impl Memory {
    /// A count that begins with what is there already.
    pub(crate) fn with_used(limit: u64, used: u64) -> Self {
        Memory {
            used: AtomicI64::new(used as i64),
            limit,
        }
    }

    pub(crate) fn used(&self) -> u64 {
        u64::try_from(self.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn settle(&self, share: &mut i64) {
        self.used.fetch_add(std::mem::take(share), Ordering::Relaxed);
    }
}

/// A session's share.
#[derive(Debug, Default)]
pub(crate) struct Share(i64);

impl Share {
    /// Counts a new version.
    #[inline]
    pub(crate) fn take(&mut self, memory: &Memory, bytes: usize) -> Result<()> {
        self.0 += bytes as i64;
        if self.0 >= SHARE_BYTES || (memory.limit > 0 && memory.limit < (SHARE_BYTES as u64) << 4) {
            memory.settle(&mut self.0);
        }
        if memory.limit > 0 && memory.used() > memory.limit {
            self.give(memory, bytes);
            return Err(StoreError::MemoryFull {
                limit: memory.limit,
                used: memory.used(),
            });
        }
        Ok(())
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
