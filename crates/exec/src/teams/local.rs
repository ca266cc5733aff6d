//! What the switch must know of the OS thread it runs on: [`Local`].

use std::cell::Cell;
use std::ptr::null_mut;

use super::core::Core;
use super::ring::Node;

/// State of one OS thread. One cache line: a CTX point reads `member` and `gate`.
#[repr(C, align(64))]
pub(super) struct Local {
    /// The member that runs; null on a thread's own stack. Its links say whether it is in a team.
    pub member: Cell<*mut Node>,
    /// Zero if CTX points may switch at once. The low bits count latches: members never switch inside one, so all of them are the
    /// running member's. The high bits are flags of the scheduler.
    pub gate: Cell<u32>,
    /// The scheduler whose members run.
    pub core: Cell<*mut Core>,
}

/// CTX points do not switch.
pub(super) const CTX_OFF: u32 = 1 << 31;
/// Switches exchange floating-point state.
pub(super) const FLOAT: u32 = 1 << 30;
/// The count of latches.
pub(super) const LATCHES: u32 = FLOAT - 1;

thread_local! {
    static LOCAL: Local = const {
        Local {
            member: Cell::new(null_mut()),
            gate: Cell::new(0),
            core: Cell::new(null_mut()),
        }
    };
}

/// The calling thread's state. Members never move to another thread, so what it gives stays right across switches.
#[inline(always)]
pub(super) fn with<R>(use_it: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(use_it)
}
