//! Filling an index of lines straight from the chunks, without scattering, for keys that look unique and few threads.
//!
//! Each row costs one miss, asked for ahead, instead of a copy to its partition and back into a cache, and no memory for
//! the copy is taken. For one thread: with two, each would read and hash all rows and enter its half, which was measured
//! and rejected (21.3 against 20.2 CPU ns a row by partitions, 16 M random 64-bit keys). With many duplicates the second
//! pass over all codes, which writes their lists, would miss again for each: left to [`super::scatter`] too.
//!
//! ```text
//! chunks --stage--> queue of (line, key, row), lines asked for --look, visit--> lines
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use super::fill::{Crowded, Entry, LinePart, Part};
use super::hash::reduce;
use super::layout::Line;
use super::simd::{Compare, Loop};
use crate::codes::{Chunk, Span};
use crate::prefetch::prefetch_far;

/// Rows staged, and rows entered, at once. Measured (Sapphire Rapids, other work beside it, one thread, 16 M random 64-bit
/// keys), CPU ns a row entered: 8 rows 13.7, 16 rows 13.3; asking for the lines of 32 or 16 rows in one go, not between
/// comparisons, 17.6 and 14.5.
const BLOCK_ROWS: usize = 16;

/// Rows whose lines were asked for and are waited for. Measured as above: 32, 48 and 64 rows 13.3, 13.7, 13.5.
const AHEAD_ROWS: usize = 32;

/// Places in the queue.
const QUEUE_ROWS: usize = 128;

const _: () = assert!(QUEUE_ROWS.is_power_of_two() && QUEUE_ROWS >= AHEAD_ROWS + 2 * BLOCK_ROWS);

/// A row on its way to its line.
#[derive(Clone, Copy, Default)]
struct Staged<K> {
    key: K,
    line: u32,
    row: u32,
}

/// Brings all rows to their values.
pub(crate) struct Direct<'a, L: Line, C: Compare<L>, E: Entry> {
    pub(crate) chunks: &'a [Chunk<'a>],
    pub(crate) runs: &'a [Vec<Span>],
    /// The only partition.
    pub(crate) part: LinePart<'a, L, C>,
    pub(crate) entry: E,
    pub(crate) cancel: &'a AtomicBool,
}

impl<L: Line, C: Compare<L>, E: Entry> Loop for Direct<'_, L, C, E> {
    /// What became of the entry; [`Crowded`] also when cancelled.
    type Output = Result<E, Crowded>;

    #[inline(always)]
    unsafe fn run(mut self) -> Self::Output {
        let chunks = self.chunks;
        let (mixer, min, total) = (self.part.mixer, self.part.min, self.part.total);
        let mut queue = [Staged::<L::Key>::default(); QUEUE_ROWS];
        // Rows that left and rows that joined the queue.
        let (mut head, mut tail) = (0_usize, 0_usize);
        for span in self.runs.iter().flatten() {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(Crowded);
            }
            let mut start = span.start;
            while start < span.end {
                let end = span.end.min(start + BLOCK_ROWS);
                chunks[span.chunk].for_each(start, end, |code, row| {
                    let mixed = mixer.mix(code);
                    queue[tail % QUEUE_ROWS] = Staged {
                        key: L::key(code, min),
                        line: reduce(mixed, total) as u32,
                        row,
                    };
                    tail += 1;
                });
                if tail - head >= AHEAD_ROWS + BLOCK_ROWS {
                    // SAFETY: the caller's promise; the part is everything.
                    unsafe {
                        enter_block::<_, _, _, true>(
                            &mut self.part,
                            &mut self.entry,
                            &queue,
                            head,
                            BLOCK_ROWS,
                        )?
                    };
                    head += BLOCK_ROWS;
                }
                start = end;
            }
        }
        while head < tail {
            let count = BLOCK_ROWS.min(tail - head);
            // SAFETY: as above.
            unsafe { enter_block::<_, _, _, false>(&mut self.part, &mut self.entry, &queue, head, count)? };
            head += count;
        }
        Ok(self.entry)
    }
}

/// Enters `count` rows, at most [`BLOCK_ROWS`], of the queue from `head` on.
///
/// All places are looked for before the first row is entered, see [`super::fill`]. `ASK`: meanwhile asks for the lines of
/// the rows [`AHEAD_ROWS`] later, which must be in the queue.
///
/// # Safety
/// The processor must have the part's instruction set, and the rows belong to the part.
#[inline(always)]
unsafe fn enter_block<L: Line, C: Compare<L>, E: Entry, const ASK: bool>(
    part: &mut LinePart<'_, L, C>,
    entry: &mut E,
    queue: &[Staged<L::Key>; QUEUE_ROWS],
    head: usize,
    count: usize,
) -> Result<(), Crowded> {
    let mut places = [0_usize; BLOCK_ROWS];
    for (index, place) in places[..count].iter_mut().enumerate() {
        if ASK {
            let line = queue[(head + AHEAD_ROWS + index) % QUEUE_ROWS].line as usize;
            prefetch_far(part.lines.as_ptr().wrapping_add(line));
        }
        let staged = &queue[(head + index) % QUEUE_ROWS];
        // SAFETY: the caller's promise.
        *place = unsafe { part.look_at(staged.line as usize, staged.key) };
    }
    for (index, &place) in places[..count].iter().enumerate() {
        let staged = &queue[(head + index) % QUEUE_ROWS];
        // SAFETY: the caller's promise.
        let value = unsafe { part.visit(staged.key, place)? };
        entry.enter(value, staged.row);
    }
    Ok(())
}
