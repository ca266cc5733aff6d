//! [`WorkAheadBudget`]: the cache that all running work-ahead sets together may fill (paper 000, section 4.2).
//!
//! Operators of one plan and of concurrent queries take their lines from one budget before they start a set and give
//! them back when they end, so that their sets together stay within the cache.

use std::sync::atomic::{AtomicUsize, Ordering};

use corun_model::units::{Bytes, CacheLines};

/// Lines of cache to share among work-ahead sets.
#[derive(Debug)]
pub struct WorkAheadBudget {
    lines: usize,
    taken: AtomicUsize,
}

/// Lines taken from a budget; they go back when it is dropped.
#[derive(Debug)]
pub struct Lease<'b> {
    budget: &'b WorkAheadBudget,
    lines: usize,
}

impl WorkAheadBudget {
    /// A quarter of an L2 of this size: the main thread's own data needs the rest, and conflict misses start well before
    /// a cache is full (section 4.2).
    pub fn of_l2(l2: Bytes, line: Bytes) -> WorkAheadBudget {
        let CacheLines(lines) = Bytes(l2.0 / 4).whole_lines(line);
        WorkAheadBudget::new(usize::try_from(lines).unwrap_or(usize::MAX))
    }

    /// This many lines.
    pub fn new(lines: usize) -> WorkAheadBudget {
        WorkAheadBudget {
            lines,
            taken: AtomicUsize::new(0),
        }
    }

    /// Takes up to `lines`: what is left when that is less, possibly none.
    pub fn take(&self, lines: usize) -> Lease<'_> {
        let mut given = 0;
        // The count guards no other memory.
        let _ = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                given = lines.min(self.lines - taken);
                Some(taken + given)
            });
        Lease {
            budget: self,
            lines: given,
        }
    }

    /// Lines nobody has.
    pub fn left(&self) -> usize {
        self.lines - self.taken.load(Ordering::Relaxed)
    }
}

impl Lease<'_> {
    /// Lines of this lease.
    pub fn lines(&self) -> usize {
        self.lines
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.lines, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_never_exceed_the_budget_and_come_back() {
        let budget = WorkAheadBudget::of_l2(Bytes::kib(64), Bytes(64));
        assert_eq!(budget.left(), 256);
        let first = budget.take(200);
        let second = budget.take(200);
        let third = budget.take(200);
        assert_eq!((first.lines(), second.lines(), third.lines()), (200, 56, 0));
        drop(first);
        assert_eq!(budget.left(), 200);
        drop((second, third));
        assert_eq!(budget.left(), 256);
    }

    #[test]
    fn concurrent_leases_add_up() {
        let budget = WorkAheadBudget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for lines in 0..500 {
                        let lease = budget.take(lines);
                        assert!(lease.lines() <= lines);
                    }
                });
            }
        });
        assert_eq!(budget.left(), 1000);
    }
}
