//! [`Visited`]: which build rows met a probe row, for left semi, anti, mark and outer joins.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::prefetch::prefetch_far;

/// A bitmap over build rows that several threads set at once.
///
/// Bits are only ever set. Setting tests first: a hot build row is written once instead of bouncing its line between
/// cores. All accesses are relaxed; whoever reads the final state must have been ordered after the writers by other
/// means (a join, a channel, a counter with acquire/release).
#[derive(Debug)]
pub struct Visited {
    words: Vec<AtomicU64>,
    rows: usize,
}

impl Visited {
    /// `rows` rows, none visited.
    pub fn new(rows: usize) -> Self {
        Visited {
            words: (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            rows,
        }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// No rows?
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of the bitmap for `rows` rows.
    pub const fn bytes_of(rows: usize) -> usize {
        rows.div_ceil(64) * 8
    }

    /// Sets one row.
    ///
    /// # Panics
    /// When `row` is out of range.
    #[inline(always)]
    pub fn mark(&self, row: u32) {
        assert!((row as usize) < self.rows, "build row out of range");
        let word = &self.words[row as usize / 64];
        let bit = 1_u64 << (row % 64);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Sets several rows.
    ///
    /// # Panics
    /// When a row is out of range.
    pub fn mark_rows(&self, rows: &[u32]) {
        const AHEAD: usize = 16;
        for (index, &row) in rows.iter().enumerate() {
            if let Some(&later) = rows.get(index + AHEAD) {
                prefetch_far(self.words.as_ptr().wrapping_add(later as usize / 64));
            }
            self.mark(row);
        }
    }

    /// Is the row set?
    ///
    /// # Panics
    /// When `row` is out of range.
    #[inline(always)]
    pub fn is_marked(&self, row: u32) -> bool {
        assert!((row as usize) < self.rows, "build row out of range");
        self.words[row as usize / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }

    /// Appends the rows of `range` that are set (`marked`) or not set (`!marked`), ascending.
    ///
    /// # Panics
    /// When the range ends after the last row.
    pub fn select(&self, range: Range<usize>, marked: bool, out: &mut Vec<u32>) {
        assert!(range.end <= self.rows, "build row out of range");
        if range.is_empty() {
            return;
        }
        for number in range.start / 64..range.end.div_ceil(64) {
            let first = number * 64;
            let word = self.words[number].load(Ordering::Relaxed);
            let mut word = if marked { word } else { !word };
            if first < range.start {
                word &= u64::MAX << (range.start - first);
            }
            if range.end - first < 64 {
                word &= (1 << (range.end - first)) - 1;
            }
            while word != 0 {
                out.push(first as u32 + word.trailing_zeros());
                word &= word - 1;
            }
        }
    }

    /// How many rows are set.
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.load(Ordering::Relaxed).count_ones() as usize)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_selects_what_was_marked() {
        let rows = 200;
        let visited = Visited::new(rows);
        let marked = |row: usize| row.is_multiple_of(3) || (64..128).contains(&row);
        visited.mark_rows(
            &(0..rows as u32)
                .filter(|&row| marked(row as usize))
                .collect::<Vec<_>>(),
        );
        for start in 0..=rows {
            for end in start..=rows {
                for want in [true, false] {
                    let mut found = vec![77];
                    visited.select(start..end, want, &mut found);
                    let expected = (start..end)
                        .filter(|&row| marked(row) == want)
                        .map(|row| row as u32);
                    assert_eq!(found, [77].into_iter().chain(expected).collect::<Vec<_>>());
                }
            }
        }
        assert_eq!(visited.count(), (0..rows).filter(|&row| marked(row)).count());
    }

    #[test]
    fn threads_lose_no_bit() {
        let visited = Visited::new(10_000);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let visited = &visited;
                scope.spawn(move || (thread..10_000).step_by(4).for_each(|row| visited.mark(row)));
            }
        });
        assert_eq!(visited.count(), 10_000);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn rows_beyond_the_end_are_refused() {
        Visited::new(65).mark(65);
    }
}
