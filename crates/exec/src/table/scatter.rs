//! The second pass over the build rows: copies (key, row) to the row's partition, in row order inside each partition.
//!
//! ```text
//! keys   | partition 0: task 0's, task 1's, .. | partition 1: task 0's, .. | ..
//! rows   | the same places                                                |
//! starts   0                                     first of partition 1        .. number of rows
//! ```
//!
//! Each task knows from the histograms where its rows of a partition go, so no two tasks write the same place and there
//! is nothing to lock.

use std::sync::atomic::{AtomicBool, Ordering};

use super::BuildError;
use crate::codes::{Chunk, Span};
use crate::huge::{HugeBuf, Plain, Unwritten};
use crate::workers::{Workers, collect};

/// Keys and row numbers by partition.
pub(crate) struct Scattered<K: Plain> {
    keys: HugeBuf<K>,
    rows: HugeBuf<u32>,
    starts: Vec<usize>,
}

impl<K: Plain> Scattered<K> {
    /// Partitions.
    pub(crate) fn partitions(&self) -> usize {
        self.starts.len() - 1
    }

    /// The keys and rows of a partition.
    pub(crate) fn partition(&self, number: usize) -> (&[K], &[u32]) {
        let range = self.starts[number]..self.starts[number + 1];
        (&self.keys[range.clone()], &self.rows[range])
    }
}

/// Scatters the valid rows of `runs`, one task each. `histograms` holds what each run has for each partition, as counted
/// with the same `place` (a code's partition); `key` is what is kept of a code.
///
/// # Errors
/// Out of memory, or cancelled.
///
/// # Panics
/// When a histogram does not agree with the rows.
pub(crate) fn scatter<K: Plain>(
    chunks: &[Chunk<'_>],
    runs: &[Vec<Span>],
    histograms: &[Vec<u32>],
    place: impl Fn(u64) -> usize + Sync,
    key: impl Fn(u64) -> K + Sync,
    workers: &dyn Workers,
    cancel: &AtomicBool,
) -> Result<Scattered<K>, BuildError> {
    assert_eq!(runs.len(), histograms.len());
    let partitions = histograms.first().map_or(1, Vec::len);
    let mut starts = Vec::with_capacity(partitions + 1);
    let mut positions = vec![Vec::with_capacity(partitions); runs.len()];
    let mut next = 0;
    for partition in 0..partitions {
        starts.push(next);
        for (task, histogram) in histograms.iter().enumerate() {
            positions[task].push(next);
            next += histogram[partition] as usize;
        }
    }
    starts.push(next);

    let keys = Unwritten::<K>::new(next)?;
    let rows = Unwritten::<u32>::new(next)?;
    let complete = collect(workers, runs.len(), |task| {
        let mut positions = positions[task].clone();
        for span in &runs[task] {
            if cancel.load(Ordering::Relaxed) {
                return false;
            }
            chunks[span.chunk].for_each(span.start, span.end, |code, row| {
                let position = &mut positions[place(code)];
                assert!(*position < next, "histogram too small");
                // SAFETY: the position is in range, and the histograms give each task its own positions.
                unsafe {
                    keys.as_ptr().add(*position).write(key(code));
                    rows.as_ptr().add(*position).write(row);
                }
                *position += 1;
            });
        }
        // Each position now stands where the next task's (or the next partition's) rows begin.
        positions
            .iter()
            .enumerate()
            .all(|(partition, &position)| position == end(&starts, &histograms[task + 1..], partition))
    });
    if cancel.load(Ordering::Relaxed) {
        return Err(BuildError::Cancelled);
    }
    assert!(
        complete.into_iter().all(|complete| complete),
        "histogram and rows disagree"
    );
    // SAFETY: all tasks wrote exactly the rows their histograms announced, which fill both arrays.
    let (keys, rows) = unsafe { (keys.assume_written(), rows.assume_written()) };
    Ok(Scattered { keys, rows, starts })
}

/// Where a partition's rows end for a task that is followed by the tasks of `later` histograms.
fn end(starts: &[usize], later: &[Vec<u32>], partition: usize) -> usize {
    starts[partition + 1]
        - later
            .iter()
            .map(|histogram| histogram[partition] as usize)
            .sum::<usize>()
}
