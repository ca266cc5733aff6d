//! Attempts: each under a guard of its own, again until nothing came between.
//!
//! What groups leave behind waits until every thread that was reading then has finished. A thread that lost the processor
//! while it read may hold that up for long, and writers would fill memory meanwhile: so they give the processor away between
//! two attempts while too much waits. What it is not: a lock; the wait is bounded and then the writer goes on.

use crossbeam_epoch::Guard;

use super::version::Patience;
use super::{SharedCsbTree, Stop};
use crate::huge::OutOfMemory;
use crate::teams;

/// Bytes of a tree that may wait for readers before its writers slow down. Unmeasured; a small part of any large tree.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// How often a writer gives the processor away for that at a time. Unmeasured; more than the threads that share a processor.
const YIELDS: usize = 64;

impl<const W: usize> SharedCsbTree<W> {
    /// Repeats an attempt that may change the tree.
    pub(super) fn repeat<T>(
        &self,
        mut attempt: impl FnMut(&Guard) -> Result<T, Stop>,
    ) -> Result<T, OutOfMemory> {
        let mut patience = Patience::default();
        loop {
            match attempt(&teams::pin()) {
                Ok(answer) => return Ok(answer),
                Err(Stop::Memory(error)) => return Err(error),
                Err(Stop::Changed) => patience.wait(),
            }
            // Whatever moved nodes has come here: it ends its attempt as changed.
            self.let_readers_finish();
        }
    }

    /// Repeats an attempt that only reads.
    #[inline(always)]
    pub(super) fn read<T>(&self, mut attempt: impl FnMut(&Guard) -> Result<T, Stop>) -> T {
        let mut patience = Patience::default();
        loop {
            match attempt(&teams::pin()) {
                Ok(answer) => return answer,
                // Reading takes no memory, so something has changed.
                Err(_) => patience.wait(),
            }
        }
    }

    /// Waits a while if much of this tree waits for readers.
    pub(super) fn let_readers_finish(&self) {
        for _ in 0..YIELDS {
            if self.arena.waiting_bytes() <= WAITING_BYTES_MAX {
                return;
            }
            // The caller reads nothing now. What it has retired itself is handed over, and what can be reused is. Readers may be
            // other members of its team.
            teams::pin().flush();
            teams::yield_now();
        }
    }
}
