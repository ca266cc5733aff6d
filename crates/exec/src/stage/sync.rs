//! The atomics that main thread and helper share through a set's array: the standard library's, or `loom`'s when the model
//! checker explores their interleavings (`make loom`).

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicPtr, Ordering};
