//! What clients that are many, or slow to read, cost in memory.
//!
//! A program of its own: the memory that is measured is the whole process's. Its tests take turns for the same reason.

#[path = "../all/common/mod.rs"]
mod common;
mod heavy_queue;
mod slow;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
