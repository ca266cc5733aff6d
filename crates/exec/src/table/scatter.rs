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

use std::mem::MaybeUninit;
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
    let combine = partitions >= COMBINE_FROM_PARTITIONS;
    let complete = collect(workers, runs.len(), |task| {
        let mut writer = Writer {
            keys: keys.as_ptr(),
            rows: rows.as_ptr(),
            positions: positions[task].clone(),
            ends: (0..partitions)
                .map(|partition| end(&starts, &histograms[task + 1..], partition))
                .collect(),
            firsts: positions[task].clone(),
            blocks: if combine {
                vec![Block::new(); partitions]
            } else {
                Vec::new()
            },
        };
        for span in &runs[task] {
            if cancel.load(Ordering::Relaxed) {
                return false;
            }
            let chunk = &chunks[span.chunk];
            // SAFETY: the histograms give each task its own positions, inside the arrays; the writer checks their ends.
            unsafe {
                if combine {
                    chunk.for_each(span.start, span.end, |code, row| {
                        writer.combine(place(code), key(code), row);
                    });
                } else {
                    chunk.for_each(span.start, span.end, |code, row| {
                        writer.write(place(code), key(code), row);
                    });
                }
            }
        }
        // SAFETY: as above.
        unsafe { writer.finish() }
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

/// From this many partitions on, rows are gathered into whole lines before they are written: the lines being written
/// then outnumber what L1 and its TLB hold. Measured at 16 M rows and 256 partitions (Sapphire Rapids, other work beside it):
/// 6.0 against 7.8 CPU ns a row, page faults included; at 16 partitions plain writes take 2.3.
const COMBINE_FROM_PARTITIONS: usize = 64;

/// Rows gathered: one line of row numbers, one or two of keys.
const BLOCK_ROWS: usize = 16;

/// Rows of one partition on their way: software write-combining (Wassenberg and Sanders, Euro-Par 2011).
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Block<K: Plain> {
    keys: [MaybeUninit<K>; BLOCK_ROWS],
    rows: [MaybeUninit<u32>; BLOCK_ROWS],
}

impl<K: Plain> Block<K> {
    fn new() -> Self {
        Block {
            keys: [MaybeUninit::uninit(); BLOCK_ROWS],
            rows: [MaybeUninit::uninit(); BLOCK_ROWS],
        }
    }
}

/// One task's view of the output.
struct Writer<K: Plain> {
    keys: *mut K,
    rows: *mut u32,
    /// Where the next row of each partition goes.
    positions: Vec<usize>,
    /// Where this task's rows of each partition begin and end.
    firsts: Vec<usize>,
    ends: Vec<usize>,
    blocks: Vec<Block<K>>,
}

impl<K: Plain> Writer<K> {
    /// Writes a row.
    ///
    /// # Safety
    /// This task alone must write `firsts..ends` of each partition, which must lie in the output.
    #[inline(always)]
    unsafe fn write(&mut self, partition: usize, key: K, row: u32) {
        let position = self.positions[partition];
        assert!(position < self.ends[partition], "histogram too small");
        // SAFETY: the position is this task's own.
        unsafe {
            self.keys.add(position).write(key);
            self.rows.add(position).write(row);
        }
        self.positions[partition] = position + 1;
    }

    /// Gathers a row, and writes the block it fills.
    ///
    /// # Safety
    /// As [`Writer::write`].
    #[inline(always)]
    unsafe fn combine(&mut self, partition: usize, key: K, row: u32) {
        let position = self.positions[partition];
        let block = &mut self.blocks[partition];
        block.keys[position % BLOCK_ROWS].write(key);
        block.rows[position % BLOCK_ROWS].write(row);
        self.positions[partition] = position + 1;
        if position % BLOCK_ROWS == BLOCK_ROWS - 1 {
            // SAFETY: the caller's promise.
            unsafe { self.flush(partition, position + 1) };
        }
    }

    /// Writes what was gathered of a partition up to `end`, where the block is full or the task ends.
    ///
    /// # Safety
    /// As [`Writer::write`].
    #[inline(always)]
    unsafe fn flush(&mut self, partition: usize, end: usize) {
        assert!(end <= self.ends[partition], "histogram too small");
        let block_start = (end - 1) / BLOCK_ROWS * BLOCK_ROWS;
        // The first block may begin with rows of the partition or task before.
        let start = block_start.max(self.firsts[partition]);
        let block = &self.blocks[partition];
        // SAFETY: the rows from `start` to `end` are this task's and were gathered; whole blocks are whole lines, because
        // both arrays are aligned to lines.
        unsafe {
            if end - start == BLOCK_ROWS {
                write_lines(block.keys.as_ptr().cast(), self.keys.add(start));
                write_lines(block.rows.as_ptr().cast(), self.rows.add(start));
            } else {
                let (offset, count) = (start - block_start, end - start);
                let (keys, rows) = (block.keys.as_ptr().cast::<K>(), block.rows.as_ptr().cast::<u32>());
                self.keys
                    .add(start)
                    .copy_from_nonoverlapping(keys.add(offset), count);
                self.rows
                    .add(start)
                    .copy_from_nonoverlapping(rows.add(offset), count);
            }
        }
    }

    /// Writes what is left and tells whether all rows the histograms announced were written.
    ///
    /// # Safety
    /// As [`Writer::write`].
    unsafe fn finish(mut self) -> bool {
        for partition in 0..self.blocks.len() {
            let position = self.positions[partition];
            if !position.is_multiple_of(BLOCK_ROWS) && position > self.firsts[partition] {
                // SAFETY: the caller's promise.
                unsafe { self.flush(partition, position) };
            }
        }
        write_fence();
        self.positions == self.ends
    }
}

/// Copies [`BLOCK_ROWS`] elements past the caches: they are read again only when their partition's turn comes, and would
/// be read from memory before being overwritten. On x86-64 these are streaming stores, on aarch64 pairs stored with the hint that
/// they are not used soon (`stnp`; unmeasured).
///
/// # Safety
/// Both must be valid for as many elements, whole lines, and aligned to lines.
#[inline(always)]
unsafe fn write_lines<T: Plain>(from: *const T, to: *mut T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
        let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
        debug_assert!(from.is_aligned() && (to as usize).is_multiple_of(64));
        for part in 0..BLOCK_ROWS * size_of::<T>() / 16 {
            // SAFETY: in range and aligned by the caller's promise; SSE2 is part of x86-64.
            unsafe { _mm_stream_si128(to.add(part), _mm_load_si128(from.add(part))) };
        }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let (from, to) = (from.cast::<u8>(), to.cast::<u8>());
        debug_assert!((to as usize).is_multiple_of(64));
        for byte in (0..BLOCK_ROWS * size_of::<T>()).step_by(PAIR_BYTES) {
            // SAFETY: in range by the caller's promise; whole lines are whole pairs. The two registers are named as destroyed.
            unsafe {
                core::arch::asm!(
                    "ldp {low:q}, {high:q}, [{from}]",
                    "stnp {low:q}, {high:q}, [{to}]",
                    from = in(reg) from.add(byte),
                    to = in(reg) to.add(byte),
                    low = out(vreg) _,
                    high = out(vreg) _,
                    options(nostack, preserves_flags)
                );
            }
        }
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(from, BLOCK_ROWS)
    };
}

/// Bytes that one `stnp` writes: a pair of vector registers.
#[cfg(all(target_arch = "aarch64", not(miri)))]
const PAIR_BYTES: usize = 32;

/// Orders the writes of [`write_lines`] before later ones. Only those of x86-64 need it: they pass by its order of stores. `stnp`
/// is ordered as any other store of aarch64, by the release with which the task's end is published.
fn write_fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_sfence()
    };
}

/// Where a partition's rows end for a task that is followed by the tasks of `later` histograms.
fn end(starts: &[usize], later: &[Vec<u32>], partition: usize) -> usize {
    starts[partition + 1]
        - later
            .iter()
            .map(|histogram| histogram[partition] as usize)
            .sum::<usize>()
}
