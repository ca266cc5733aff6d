//! [`Count`]: a number many threads change and few read, without a line they all fight for.
//!
//! Each thread adds to one of a few lines; the sum is taken when somebody asks. What it is not: a snapshot. The sum is exact
//! once the threads that changed it are waited for.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Lines. More threads than these share some.
const LINES: usize = 8;

#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicI64);

/// The sum of the lines.
#[derive(Default)]
pub(super) struct Count {
    lines: [Line; LINES],
}

static NEXT_LINE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LINE: usize = NEXT_LINE.fetch_add(1, Ordering::Relaxed) % LINES;
}

impl Count {
    /// Adds a number, which may be negative. Relaxed: nothing else is read because of it.
    #[inline]
    pub(super) fn add(&self, number: i64) {
        // A thread that is ending has lost its line and takes the first.
        let line = LINE.try_with(|&line| line).unwrap_or(0);
        self.lines[line].0.fetch_add(number, Ordering::Relaxed);
    }

    /// The sum, never below zero.
    pub(super) fn get(&self) -> usize {
        let sum: i64 = self.lines.iter().map(|line| line.0.load(Ordering::Relaxed)).sum();
        usize::try_from(sum).unwrap_or(0)
    }
}
