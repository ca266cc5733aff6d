//! A dense index written directly, without partitions, for keys that look unique.
//!
//! Threads store row numbers at `code - min` with plain (relaxed atomic) stores, in no order. Whether two rows met in one
//! place shows afterwards: then fewer places are taken than rows were stored. Compare-and-swap would notice at once but
//! was rejected, because each one drains the core's pending loads and so serialises the misses that prefetching overlaps.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::BuildError;
use crate::codes::{Chunk, Span};
use crate::huge::{HugeBuf, Unwritten};
use crate::prefetch::prefetch_far;
use crate::workers::{Workers, collect};

/// Elements zeroed or counted by one task.
const PIECE: usize = 1 << 18;

/// Rows between asking for a place and storing there.
const AHEAD: usize = 32;

/// The array of `slots` places and a last one that stays 0, or `None` if some rows have equal codes.
///
/// # Errors
/// Out of memory, or cancelled.
pub(crate) fn build_unique(
    chunks: &[Chunk<'_>],
    runs: &[Vec<Span>],
    (min, slots): (u64, usize),
    far: bool,
    workers: &dyn Workers,
    cancel: &AtomicBool,
) -> Result<Option<HugeBuf<u32>>, BuildError> {
    let elements = slots + 1;
    let memory = Unwritten::<u32>::new(elements)?;
    let pieces = elements.div_ceil(PIECE);
    let piece = |number: usize| number * PIECE..elements.min((number + 1) * PIECE);
    workers.run(pieces, &|number| {
        let range = piece(number);
        // SAFETY: pieces are disjoint and inside the array.
        unsafe { memory.as_ptr().add(range.start).write_bytes(0, range.len()) };
    });
    // SAFETY: every element was written, and `run` orders those writes before this; `u32` and `AtomicU32` have the same
    // layout, and nothing else looks at the memory while this view is used.
    let places = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<AtomicU32>(), slots) };

    let stored = collect(workers, runs.len(), |task| {
        let mut stored = 0_usize;
        let mut ring = [(0_usize, 0_u32); AHEAD];
        for span in &runs[task] {
            if cancel.load(Ordering::Relaxed) {
                return 0;
            }
            chunks[span.chunk].for_each(span.start, span.end, |code, row| {
                let offset = (code - min) as usize;
                if far {
                    prefetch_far(places.as_ptr().wrapping_add(offset));
                    let waiting = &mut ring[stored % AHEAD];
                    if stored >= AHEAD {
                        places[waiting.0].store(waiting.1, Ordering::Relaxed);
                    }
                    *waiting = (offset, row + 1);
                } else {
                    places[offset].store(row + 1, Ordering::Relaxed);
                }
                stored += 1;
            });
        }
        if far {
            for &(offset, value) in &ring[..stored.min(AHEAD)] {
                places[offset].store(value, Ordering::Relaxed);
            }
        }
        stored
    });
    let taken = collect(workers, pieces, |number| {
        let range = piece(number);
        let range = range.start..range.end.min(slots);
        places[range]
            .iter()
            .filter(|place| place.load(Ordering::Relaxed) != 0)
            .count()
    });
    if cancel.load(Ordering::Relaxed) {
        return Err(BuildError::Cancelled);
    }
    let unique = stored.iter().sum::<usize>() == taken.iter().sum::<usize>();
    // SAFETY: every element was written.
    Ok(unique.then(|| unsafe { memory.assume_written() }))
}
