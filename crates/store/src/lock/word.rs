//! [`LockWord`]: the lock of one row, in the row's slot.

use std::sync::atomic::{AtomicU64, Ordering};

/// Somebody waits: the row has a queue. Set and cleared under the mutex of the queue's shard only.
pub(super) const WAITERS: u64 = 1 << 63;
/// One holder in mode S.
pub(super) const SHARED: u64 = 1 << 32;
/// The number of the holder in mode X; 0: nobody.
pub(super) const OWNER: u64 = u32::MAX as u64;

/// The lock of one row: eight bytes in its slot. All zeros is free.
///
/// ```text
///   63       62 ........ 32   31 ........ 0
///   waiters  S holders        X holder's number, 0: nobody
/// ```
///
/// Orderings: taking acquires, letting go releases, and each step is a read-modify-write of this one word, so that every
/// taker sees what all former holders did. While the waiters bit is set nobody takes the lock but through the queue, so the
/// word then only sinks (holders leave, or go from X to S), except under the mutex of the queue.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LockWord(AtomicU64);

impl LockWord {
    /// A free lock.
    pub const fn new() -> Self {
        LockWord(AtomicU64::new(0))
    }

    /// Whether nobody holds it or waits for it at this moment.
    pub fn is_free(&self) -> bool {
        self.load() == 0
    }

    /// Whether the holder of this slot has it exclusively. Who is told so sees what all former holders did.
    #[inline]
    pub(crate) fn is_owned_by(&self, slot: u32) -> bool {
        self.load() & OWNER == super::rows::number(slot)
    }

    pub(super) fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// A hint, or a question about the caller's own hold.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes the lock: from the state `now` to `then`. May fail without reason.
    #[inline]
    pub(super) fn take(&self, now: u64, then: u64) -> Result<u64, u64> {
        self.0
            .compare_exchange_weak(now, then, Ordering::Acquire, Ordering::Relaxed)
    }

    /// Lets go of `what`; the state before.
    #[inline]
    pub(super) fn leave(&self, what: u64) -> u64 {
        self.0.fetch_sub(what, Ordering::Release)
    }

    /// From mode X, of the holder with this number, to S; the state before. As with [`Self::leave`], more may go than before.
    pub(super) fn lower(&self, number: u64) -> u64 {
        self.0.fetch_add(SHARED.wrapping_sub(number), Ordering::Release)
    }

    /// Under the queue's mutex: announces waiters; the state before.
    pub(super) fn announce(&self) -> u64 {
        self.0.fetch_or(WAITERS, Ordering::AcqRel)
    }

    /// Under the queue's mutex: nobody waits any more.
    pub(super) fn quiet(&self) {
        self.0.fetch_and(!WAITERS, Ordering::AcqRel);
    }

    /// Under the queue's mutex and announced: hands `what` to one who waited, who gives `back` in return.
    pub(super) fn hand(&self, what: u64, back: u64) {
        self.0.fetch_add(what.wrapping_sub(back), Ordering::AcqRel);
    }
}
