//! The count of latches: inside one, CTX points are passed by (paper 003, section 4.1.3).
//!
//! One count for each OS thread is enough: a member never switches while it is not zero. What it is not: the latch itself.

use std::marker::PhantomData;

use super::{local, mark};

/// Counts a latch that the caller is about to take. Pairs with [`latch_leave`].
#[inline(always)]
pub fn latch_enter() {
    mark::latch_enter();
    local::with(|local| local.gate.set(local.gate.get() + 1));
}

/// Counts a latch off that the caller has let go.
#[inline(always)]
pub fn latch_leave() {
    local::with(|local| {
        debug_assert!(local.gate.get() & local::LATCHES > 0, "no latch is counted");
        local.gate.set(local.gate.get() - 1);
    });
    mark::latch_leave();
}

/// A latch that is counted until this is dropped.
#[must_use = "the latch is counted off when this is dropped"]
pub struct Latch(PhantomData<*mut ()>);

/// Counts a latch.
#[inline(always)]
pub fn latch() -> Latch {
    latch_enter();
    Latch(PhantomData)
}

impl Drop for Latch {
    #[inline(always)]
    fn drop(&mut self) {
        latch_leave();
    }
}
