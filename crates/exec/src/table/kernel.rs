//! The probe loop: codes in, (value, probe row) out.
//!
//! One loop serves every index ([`Lookup`]), every way rows come in ([`Source`]) and every way results go out
//! ([`Sink`]); it is compiled with and without prefetching, and once per instruction set. With prefetching, row `i + D`
//! is hashed and its line asked for before row `i` is compared: the rolling form of group prefetching (Chen et al.,
//! ICDE 2004), which unlike fixed groups never drains inside a batch. Interleaving state machines (AMAC) was rejected:
//! there is one dereference a probe, and second lines are rare.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use corun_model::cache::reuse::Reuse;

use super::hash::{Mixer, partition, reduce};
use super::layout::{Line, passed_bit};
use super::simd::{Compare, Instructions, Loop};
use crate::prefetch::{Ask, Kept, LINE_BYTES, Near, ONCE_AHEAD_BYTES, Passing, prefetch_once};

/// How many rows ahead lines are asked for. Measured with `examples/probe_floor.rs` (EPYC VM), CPU ns a probe row of 16 M random 64-bit
/// keys at 16, 32, 64 and 128 rows: 14.3, 11.1, 10.1, 10.0; at 1 M: 9.8, 7.2, 6.7, 6.7.
pub(crate) const PREFETCH_ROWS: usize = 64;

const _: () = assert!(PREFETCH_ROWS.is_power_of_two());

/// Rows between two visits of the few whose first line was not enough: one bit each in a word.
pub(crate) const BLOCK_ROWS: usize = u64::BITS as usize;

/// An index being read.
pub(crate) trait Lookup: Copy {
    /// What is computed from a code ahead of the comparison.
    type Staged: Copy;

    /// Computes it.
    fn stage(&self, code: u64) -> Self::Staged;

    /// Asks for the memory the comparison will read.
    fn prefetch<A: Ask>(&self, staged: Self::Staged);

    /// Can [`Lookup::find`] answer "go on"?
    const GOES_ON: bool;

    /// The code's value, 0 when absent, and whether (1 or 0) it is only known after [`Lookup::find_further`].
    ///
    /// # Safety
    /// `staged` must come from [`Lookup::stage`] of this code, and the processor have the view's instruction set.
    unsafe fn find(&self, code: u64, staged: Self::Staged) -> (u32, u32);

    /// Asks for the memory [`Lookup::find_further`] will read first.
    fn prefetch_further<A: Ask>(&self, code: u64);

    /// The value of a code that goes on, 0 when absent.
    ///
    /// # Safety
    /// As [`Lookup::find`].
    unsafe fn find_further(&self, code: u64) -> u32;
}

/// `values[code - min]`, with one more element, 0, for all codes out of range.
#[derive(Clone, Copy)]
pub(crate) struct DenseView<'a> {
    pub(crate) values: &'a [u32],
    pub(crate) min: u64,
}

impl Lookup for DenseView<'_> {
    type Staged = usize;
    const GOES_ON: bool = false;

    #[inline(always)]
    fn stage(&self, code: u64) -> usize {
        (code.wrapping_sub(self.min)).min(self.values.len() as u64 - 1) as usize
    }

    #[inline(always)]
    fn prefetch<A: Ask>(&self, staged: usize) {
        A::ask(self.values.as_ptr().wrapping_add(staged));
    }

    #[inline(always)]
    unsafe fn find(&self, _code: u64, staged: usize) -> (u32, u32) {
        // SAFETY: `stage` limits the index to the last element.
        (unsafe { *self.values.get_unchecked(staged) }, 0)
    }

    #[inline(always)]
    fn prefetch_further<A: Ask>(&self, _code: u64) {}

    #[inline(always)]
    unsafe fn find_further(&self, code: u64) -> u32 {
        self.values[self.stage(code)]
    }
}

/// Lines of slots.
pub(crate) struct LineView<'a, L: Line, C: Compare<L>> {
    pub(crate) lines: &'a [L],
    /// Partitions, as a power of two.
    pub(crate) bits: u32,
    pub(crate) mixer: Mixer,
    pub(crate) min: u64,
    /// Largest code minus smallest, for lines that store less than the code.
    pub(crate) range: u64,
    pub(crate) compare: PhantomData<C>,
}

impl<L: Line, C: Compare<L>> Clone for LineView<'_, L, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Line, C: Compare<L>> Copy for LineView<'_, L, C> {}

impl<L: Line, C: Compare<L>> LineView<'_, L, C> {
    /// Would this code be mistaken for another, because the lines store less than all of it?
    #[inline(always)]
    fn is_outside(&self, code: u64) -> bool {
        size_of::<L::Key>() < size_of::<u64>() && code.wrapping_sub(self.min) > self.range
    }
}

impl<L: Line, C: Compare<L>> Lookup for LineView<'_, L, C> {
    type Staged = u64;
    const GOES_ON: bool = true;

    #[inline(always)]
    fn stage(&self, code: u64) -> u64 {
        self.mixer.mix(code)
    }

    #[inline(always)]
    fn prefetch<A: Ask>(&self, staged: u64) {
        A::ask(self.lines.as_ptr().wrapping_add(reduce(staged, self.lines.len())));
    }

    #[inline(always)]
    unsafe fn find(&self, code: u64, staged: u64) -> (u32, u32) {
        let key = L::key(code, self.min);
        // SAFETY: `reduce` is below the number of lines.
        let line = unsafe { self.lines.get_unchecked(reduce(staged, self.lines.len())) };
        // SAFETY: the instruction set is there by the caller's promise.
        let mask = unsafe { C::matching(line, key) };
        let word = line.value_or_passed(mask);
        let absent = u32::from(mask == 0);
        let further = absent & word >> passed_bit(staged);
        let value = word & absent.wrapping_sub(1);
        (if self.is_outside(code) { 0 } else { value }, further)
    }

    #[inline(always)]
    fn prefetch_further<A: Ask>(&self, code: u64) {
        // Only a hint, so the end of a partition does not matter.
        let line = reduce(self.stage(code), self.lines.len());
        A::ask(self.lines.as_ptr().wrapping_add(line + 1));
    }

    #[inline(always)]
    unsafe fn find_further(&self, code: u64) -> u32 {
        if self.is_outside(code) {
            return 0;
        }
        let key = L::key(code, self.min);
        let mixed = self.stage(code);
        let per_partition = self.lines.len() >> self.bits;
        let first = partition(mixed, self.bits) * per_partition;
        let mut place = reduce(mixed, self.lines.len()) - first;
        // Bounded: at most once around the partition.
        for _ in 1..per_partition {
            place = if place + 1 == per_partition { 0 } else { place + 1 };
            // SAFETY: `place` stays inside the partition, which is a run of the lines.
            let line = unsafe { self.lines.get_unchecked(first + place) };
            // SAFETY: the instruction set is there by the caller's promise.
            let mask = unsafe { C::matching(line, key) };
            let word = line.value_or_passed(mask);
            if mask != 0 {
                return word;
            }
            if word >> passed_bit(mixed) & 1 == 0 {
                return 0;
            }
        }
        0
    }
}

/// Where probe rows come from.
pub(crate) trait Source: Copy {
    /// Rows.
    fn len(&self) -> usize;

    /// The code of the `index`-th row.
    ///
    /// # Safety
    /// `index` must be below [`Source::len`].
    unsafe fn code(&self, index: usize) -> u64;

    /// Asks for the codes some blocks after the one that begins at `start`, if they are read only once.
    fn read_ahead(&self, start: usize);

    /// The numbers of `start..end`, a block; perhaps written to `buffer`.
    ///
    /// # Safety
    /// `end` must be at most [`Source::len`], and the block not be longer than the buffer.
    unsafe fn rows(&self, start: usize, end: usize, buffer: &mut [u32; BLOCK_ROWS]) -> *const u32;
}

/// What is done with the rows of a source, whatever its kind.
pub(crate) trait Visit {
    /// The answer.
    type Output;

    /// Does it.
    ///
    /// # Safety
    /// What implementations ask for.
    unsafe fn visit<S: Source>(self, source: S) -> Self::Output;
}

/// Values of codes: 64 or 32 bits.
pub(crate) trait Value: Copy {
    /// The code of this value; `bias` is zero-extended.
    fn code(self, bias: u64) -> u64;
}

impl Value for u64 {
    #[inline(always)]
    fn code(self, bias: u64) -> u64 {
        self ^ bias
    }
}

impl Value for u32 {
    #[inline(always)]
    fn code(self, bias: u64) -> u64 {
        u64::from(self) ^ bias
    }
}

/// Consecutive rows.
#[derive(Clone, Copy)]
pub(crate) struct Consecutive<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) bias: u64,
    pub(crate) first_row: u32,
    /// The values are read from memory and not again: keep them out of the outer caches.
    pub(crate) once: bool,
}

impl<T: Value> Source for Consecutive<'_, T> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.values.len()
    }

    #[inline(always)]
    unsafe fn code(&self, index: usize) -> u64 {
        // SAFETY: the caller keeps `index` in range.
        unsafe { self.values.get_unchecked(index).code(self.bias) }
    }

    #[inline(always)]
    fn read_ahead(&self, start: usize) {
        if self.once {
            let first = self
                .values
                .as_ptr()
                .wrapping_add(start)
                .wrapping_byte_add(ONCE_AHEAD_BYTES);
            for line in 0..BLOCK_ROWS * size_of::<T>() / LINE_BYTES {
                prefetch_once(first.wrapping_byte_add(line * LINE_BYTES));
            }
        }
    }

    #[inline(always)]
    unsafe fn rows(&self, start: usize, _end: usize, buffer: &mut [u32; BLOCK_ROWS]) -> *const u32 {
        for (index, row) in buffer.iter_mut().enumerate() {
            *row = self.first_row.wrapping_add((start + index) as u32);
        }
        buffer.as_ptr()
    }
}

/// Rows of a selection vector, all of which must be in range of the values.
#[derive(Clone, Copy)]
pub(crate) struct Selected<'a, T> {
    values: &'a [T],
    bias: u64,
    rows: &'a [u32],
}

impl<'a, T: Value> Selected<'a, T> {
    /// # Panics
    /// When a selected row is out of range.
    pub(crate) fn new(values: &'a [T], bias: u64, rows: &'a [u32]) -> Self {
        let largest = rows.iter().copied().max();
        assert!(
            largest.is_none_or(|row| (row as usize) < values.len()),
            "selected probe row out of range"
        );
        Selected { values, bias, rows }
    }
}

impl<T: Value> Source for Selected<'_, T> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    unsafe fn code(&self, index: usize) -> u64 {
        // SAFETY: the caller keeps `index` in range, the constructor checked the rows.
        unsafe {
            self.values
                .get_unchecked(*self.rows.get_unchecked(index) as usize)
                .code(self.bias)
        }
    }

    #[inline(always)]
    fn read_ahead(&self, _start: usize) {}

    #[inline(always)]
    unsafe fn rows(&self, start: usize, end: usize, _buffer: &mut [u32; BLOCK_ROWS]) -> *const u32 {
        self.rows[start..end].as_ptr()
    }
}

/// Where results go.
pub(crate) trait Sink {
    /// Takes a block of rows and their values (0: not found).
    ///
    /// # Safety
    /// The sink must have room for `count` more results and [`PACK_SLACK`], `rows` and `values` hold `count` elements, and
    /// the processor have the instruction set.
    unsafe fn put<I: Instructions>(&mut self, rows: *const u32, values: *const u32, count: usize);
}

/// Found values and their rows.
pub(crate) struct ValueSink {
    /// Room for one element a source row, and [`PACK_SLACK`].
    pub(crate) values: *mut u32,
    /// Room for one element a source row, and [`PACK_SLACK`].
    pub(crate) rows: *mut u32,
    pub(crate) count: usize,
    /// Subtracted from found values: 1 turns the value of a unique key into its row.
    pub(crate) minus: u32,
}

impl Sink for ValueSink {
    #[inline(always)]
    unsafe fn put<I: Instructions>(&mut self, rows: *const u32, values: *const u32, count: usize) {
        // SAFETY: the caller's promise; as many were written to both as are counted.
        unsafe {
            I::pack(values, values, count, self.minus, self.values.add(self.count));
            self.count += I::pack(values, rows, count, 0, self.rows.add(self.count));
        }
    }
}

/// Rows that were found.
pub(crate) struct RowSink {
    /// Room for one element a source row, and [`PACK_SLACK`].
    pub(crate) rows: *mut u32,
    pub(crate) count: usize,
}

impl Sink for RowSink {
    #[inline(always)]
    unsafe fn put<I: Instructions>(&mut self, rows: *const u32, values: *const u32, count: usize) {
        // SAFETY: as in `ValueSink`.
        unsafe { self.count += I::pack(values, rows, count, 0, self.rows.add(self.count)) };
    }
}

/// A block of probe rows, compared with their first lines.
struct Block {
    start: usize,
    end: usize,
    values: [u32; BLOCK_ROWS],
    /// Rows whose value is only known after [`Lookup::find_further`].
    further: u64,
}

impl Block {
    const EMPTY: Block = Block {
        start: 0,
        end: 0,
        values: [0; BLOCK_ROWS],
        further: 0,
    };

    /// Follows the few keys that went on, and hands the values to the sink.
    ///
    /// # Safety
    /// The block must be in range of the source, the sink have room for it, and the processor have the instruction set.
    #[inline(always)]
    unsafe fn complete<V: Lookup, S: Source, K: Sink, I: Instructions>(
        &mut self,
        view: V,
        source: S,
        sink: &mut K,
    ) {
        let mut row_buffer = [0_u32; BLOCK_ROWS];
        // SAFETY: the caller's promise.
        unsafe {
            while self.further != 0 {
                let offset = self.further.trailing_zeros() as usize;
                *self.values.get_unchecked_mut(offset) = view.find_further(source.code(self.start + offset));
                self.further &= self.further - 1;
            }
            let rows = source.rows(self.start, self.end, &mut row_buffer);
            sink.put::<I>(rows, self.values.as_ptr(), self.end - self.start);
        }
    }
}

/// Codes staged ahead of the comparison; unused when the index is near.
type Ring<V> = [MaybeUninit<<V as Lookup>::Staged>; PREFETCH_ROWS];

/// Looks up every row of the source and hands the answers to the sink, with one instruction set.
pub(crate) struct Probe<V, S, K, I> {
    pub(crate) view: V,
    pub(crate) source: S,
    pub(crate) sink: K,
    /// With prefetching, and whether what is asked for stays.
    pub(crate) far: Option<Reuse>,
    pub(crate) instructions: PhantomData<I>,
}

impl<V: Lookup, S: Source, K: Sink, I: Instructions> Loop for Probe<V, S, K, I> {
    type Output = K;

    /// Also asks that the sink has room for every row of the source, and [`PACK_SLACK`].
    #[inline(always)]
    unsafe fn run(self) -> K {
        // SAFETY: the caller's promise.
        unsafe {
            match self.far {
                None => self.run_at::<Near>(),
                Some(Reuse::Keep) => self.run_at::<Kept>(),
                Some(Reuse::Once) => self.run_at::<Passing>(),
            }
        }
    }
}

impl<V: Lookup, S: Source, K: Sink, I: Instructions> Probe<V, S, K, I> {
    /// Block by block: compares all first lines, then, a block later, follows the few keys that went on, then writes what was found.
    ///
    /// Writing found rows directly was measured and rejected: the place of a store then depends on the comparisons
    /// before it, so the loads after it cannot be known not to overlap it, and whole runs degraded to one probe's
    /// latency each (17 ns a row instead of 7 at a million rows).
    ///
    /// # Safety
    /// As [`Probe::run`].
    #[inline(always)]
    unsafe fn run_at<A: Ask>(self) -> K {
        let Probe {
            view,
            source,
            mut sink,
            ..
        } = self;
        let rows = source.len();
        let mut ring: Ring<V> = [MaybeUninit::uninit(); PREFETCH_ROWS];
        if A::ASKS {
            for (index, place) in ring[..rows.min(PREFETCH_ROWS)].iter_mut().enumerate() {
                // SAFETY: the index is in range.
                let staged = view.stage(unsafe { source.code(index) });
                view.prefetch::<A>(staged);
                place.write(staged);
            }
        }
        // Second lines are asked for when a block was compared, and are there a block later.
        let behind = usize::from(A::ASKS && V::GOES_ON);
        let mut blocks = [Block::EMPTY; 2];
        let mut number = 0;
        let mut start = 0;
        while start < rows {
            let end = rows.min(start + BLOCK_ROWS);
            source.read_ahead(start);
            // Up to here, later rows are staged on the way.
            let lead_end = end.min(rows.saturating_sub(PREFETCH_ROWS)).max(start);
            let block = &mut blocks[number % 2];
            let mut further = 0_u64;
            // A macro, because a closure called twice is not always inlined, and then lacks the instruction set.
            macro_rules! take {
                ($index:expr, $code:expr, $staged:expr) => {{
                    let (value, goes_on) = view.find($code, $staged);
                    *block.values.get_unchecked_mut($index - start) = value;
                    if V::GOES_ON {
                        further |= u64::from(goes_on & 1) << ($index - start);
                    }
                }};
            }
            // SAFETY: indexes are in range, and places of the ring were written for them; the instruction set is the
            // caller's promise.
            unsafe {
                if A::ASKS {
                    for index in start..lead_end {
                        let place = ring.get_unchecked_mut(index % PREFETCH_ROWS);
                        let staged = place.assume_init();
                        let later = view.stage(source.code(index + PREFETCH_ROWS));
                        view.prefetch::<A>(later);
                        place.write(later);
                        take!(index, source.code(index), staged);
                    }
                    for index in lead_end..end {
                        let staged = ring.get_unchecked(index % PREFETCH_ROWS).assume_init();
                        take!(index, source.code(index), staged);
                    }
                } else {
                    for index in start..end {
                        let code = source.code(index);
                        take!(index, code, view.stage(code));
                    }
                }
            }
            (block.start, block.end, block.further) = (start, end, further);
            if A::ASKS {
                while further != 0 {
                    let index = start + further.trailing_zeros() as usize;
                    // SAFETY: a bit is set for an index of the block.
                    view.prefetch_further::<A>(unsafe { source.code(index) });
                    further &= further - 1;
                }
            }
            if number >= behind {
                // SAFETY: the block was compared; the rest is the caller's promise.
                unsafe { blocks[(number - behind) % 2].complete::<V, S, K, I>(view, source, &mut sink) };
            }
            number += 1;
            start = end;
        }
        if behind > 0 && number > 0 {
            // SAFETY: as above.
            unsafe { blocks[(number - 1) % 2].complete::<V, S, K, I>(view, source, &mut sink) };
        }
        sink
    }
}
