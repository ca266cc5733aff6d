//! Where there is no switch: [`Scheduler::new`](crate::teams::Scheduler::new) returns
//! [`TeamError::Unsupported`](crate::teams::TeamError::Unsupported), so nobody comes here.

use std::cell::Cell;

use crate::teams::ring::Node;

/// See [`switch`](super).
///
/// # Safety
/// None is needed: it panics.
pub(in crate::teams) unsafe fn switch(
    _from: *mut Node,
    _to: *mut Node,
    _running: &Cell<*mut Node>,
    _member: *mut Node,
) {
    unreachable!("no scheduler can be made here");
}

/// See [`switch`](super).
///
/// # Safety
/// None is needed: it panics.
pub(in crate::teams) unsafe fn switch_float(
    _from: *mut Node,
    _to: *mut Node,
    _running: &Cell<*mut Node>,
    _member: *mut Node,
) {
    unreachable!("no scheduler can be made here");
}

/// See [`switch`](super).
///
/// # Safety
/// None is needed: it panics.
pub(in crate::teams) unsafe fn prepare(_top: *mut u8, _main: extern "C" fn() -> !) -> *mut u8 {
    unreachable!("no scheduler can be made here");
}
