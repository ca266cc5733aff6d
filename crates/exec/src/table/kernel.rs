//! The probe loop: codes in, (value, probe row) out.
//!
//! One loop serves every index ([`Lookup`]), every way rows come in ([`Source`]) and every way results go out
//! ([`Sink`]); it is compiled with and without prefetching, and once per instruction set. With prefetching, row `i + D`
//! is hashed and its line asked for before row `i` is compared: the rolling form of group prefetching (Chen et al.,
//! ICDE 2004), which unlike fixed groups never drains inside a batch. Interleaving state machines (AMAC) was rejected:
//! there is one dereference a probe, and second lines are rare.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::hash::{Mixer, reduce};
use super::layout::{Line, passed_bit};
use super::simd::{Compare, Loop};
use crate::prefetch::prefetch_read;

/// How many rows ahead lines are asked for; see `examples/probe_floor.rs`.
pub(crate) const PREFETCH_ROWS: usize = 32;

const _: () = assert!(PREFETCH_ROWS.is_power_of_two());

/// An index being read.
pub(crate) trait Lookup: Copy {
    /// What is computed from a code ahead of the comparison.
    type Staged: Copy;

    /// Computes it.
    fn stage(&self, code: u64) -> Self::Staged;

    /// Asks for the memory the comparison will read.
    fn prefetch(&self, staged: Self::Staged);

    /// The code's value, 0 when absent.
    ///
    /// # Safety
    /// `staged` must come from [`Lookup::stage`] of this code, and the processor have the view's instruction set.
    unsafe fn find(&self, code: u64, staged: Self::Staged) -> u32;
}

/// `values[code - min]`, with one more element, 0, for all codes out of range.
#[derive(Clone, Copy)]
pub(crate) struct DenseView<'a> {
    pub(crate) values: &'a [u32],
    pub(crate) min: u64,
}

impl Lookup for DenseView<'_> {
    type Staged = usize;

    #[inline(always)]
    fn stage(&self, code: u64) -> usize {
        (code.wrapping_sub(self.min)).min(self.values.len() as u64 - 1) as usize
    }

    #[inline(always)]
    fn prefetch(&self, staged: usize) {
        prefetch_read(self.values.as_ptr().wrapping_add(staged));
    }

    #[inline(always)]
    unsafe fn find(&self, _code: u64, staged: usize) -> u32 {
        // SAFETY: `stage` limits the index to the last element.
        unsafe { *self.values.get_unchecked(staged) }
    }
}

/// Lines of slots.
pub(crate) struct LineView<'a, L: Line, C: Compare<L>> {
    pub(crate) lines: &'a [L],
    pub(crate) per_partition: usize,
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
    /// Follows a key past its first line.
    ///
    /// # Safety
    /// As [`Lookup::find`].
    #[cold]
    #[inline(never)]
    unsafe fn find_further(&self, key: L::Key, mixed: u64) -> u32 {
        let home = reduce(mixed, self.lines.len());
        let first = home / self.per_partition * self.per_partition;
        let mut place = home - first;
        // Bounded: at most once around the partition.
        for _ in 1..self.per_partition {
            place = if place + 1 == self.per_partition {
                0
            } else {
                place + 1
            };
            let line = &self.lines[first + place];
            // SAFETY: the instruction set is there by the caller's promise.
            let value = line.value_of(unsafe { C::matching(line, key) });
            if value != 0 || line.passed() & passed_bit(mixed) == 0 {
                return value;
            }
        }
        0
    }
}

impl<L: Line, C: Compare<L>> Lookup for LineView<'_, L, C> {
    type Staged = u64;

    #[inline(always)]
    fn stage(&self, code: u64) -> u64 {
        self.mixer.mix(code)
    }

    #[inline(always)]
    fn prefetch(&self, staged: u64) {
        prefetch_read(self.lines.as_ptr().wrapping_add(reduce(staged, self.lines.len())));
    }

    #[inline(always)]
    unsafe fn find(&self, code: u64, staged: u64) -> u32 {
        let key = L::key(code, self.min);
        // SAFETY: `reduce` is below the number of lines.
        let line = unsafe { self.lines.get_unchecked(reduce(staged, self.lines.len())) };
        // SAFETY: the instruction set is there by the caller's promise.
        let mut value = line.value_of(unsafe { C::matching(line, key) });
        if value == 0 && line.passed() & passed_bit(staged) != 0 {
            // SAFETY: as above.
            value = unsafe { self.find_further(key, staged) };
        }
        if size_of::<L::Key>() < size_of::<u64>() && code.wrapping_sub(self.min) > self.range {
            0
        } else {
            value
        }
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

    /// The number of the `index`-th row.
    ///
    /// # Safety
    /// `index` must be below [`Source::len`].
    unsafe fn row(&self, index: usize) -> u32;
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
    unsafe fn row(&self, index: usize) -> u32 {
        self.first_row + index as u32
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
    unsafe fn row(&self, index: usize) -> u32 {
        // SAFETY: the caller keeps `index` in range.
        unsafe { *self.rows.get_unchecked(index) }
    }
}

/// Where results go. `put` is called once for each row of the source, found or not.
pub(crate) trait Sink {
    /// Takes a row and its value (0: not found).
    ///
    /// # Safety
    /// The sink must have room for one more result.
    unsafe fn put(&mut self, row: u32, value: u32);
}

/// Found values and their rows, written without a branch: every result is stored, the next overwrites a miss.
pub(crate) struct ValueSink {
    /// Room for one element a source row.
    pub(crate) values: *mut u32,
    /// Room for one element a source row.
    pub(crate) rows: *mut u32,
    pub(crate) count: usize,
    /// Subtracted from found values: 1 turns the value of a unique key into its row.
    pub(crate) minus: u32,
}

impl Sink for ValueSink {
    #[inline(always)]
    unsafe fn put(&mut self, row: u32, value: u32) {
        // SAFETY: the caller made room for all rows of the source, and at most one result a row was counted so far.
        unsafe {
            self.values.add(self.count).write(value.wrapping_sub(self.minus));
            self.rows.add(self.count).write(row);
        }
        self.count += usize::from(value != 0);
    }
}

/// Rows that were found.
pub(crate) struct RowSink {
    /// Room for one element a source row.
    pub(crate) rows: *mut u32,
    pub(crate) count: usize,
}

impl Sink for RowSink {
    #[inline(always)]
    unsafe fn put(&mut self, row: u32, value: u32) {
        // SAFETY: as in `ValueSink`.
        unsafe { self.rows.add(self.count).write(row) };
        self.count += usize::from(value != 0);
    }
}

/// The loop without prefetching, for indexes inside the private caches.
///
/// # Safety
/// The sink must have room for every row of the source, and the processor have the view's instruction set.
#[inline(always)]
unsafe fn run_near<V: Lookup, S: Source, K: Sink>(view: V, source: S, sink: &mut K) {
    for index in 0..source.len() {
        // SAFETY: the index is in range; the rest is the caller's promise.
        unsafe {
            let code = source.code(index);
            let value = view.find(code, view.stage(code));
            sink.put(source.row(index), value);
        }
    }
}

/// The loop with prefetching.
///
/// # Safety
/// As [`run_near`].
#[inline(always)]
unsafe fn run_far<V: Lookup, S: Source, K: Sink>(view: V, source: S, sink: &mut K) {
    let rows = source.len();
    let lead = rows.min(PREFETCH_ROWS);
    let mut ring = [MaybeUninit::<V::Staged>::uninit(); PREFETCH_ROWS];
    for (index, place) in ring[..lead].iter_mut().enumerate() {
        // SAFETY: the index is in range.
        let staged = view.stage(unsafe { source.code(index) });
        view.prefetch(staged);
        place.write(staged);
    }
    for index in 0..rows - lead {
        let place = &mut ring[index % PREFETCH_ROWS];
        // SAFETY: both indexes are in range; the place was written for this index `PREFETCH_ROWS` rows ago.
        unsafe {
            let staged = place.assume_init();
            let later = view.stage(source.code(index + PREFETCH_ROWS));
            view.prefetch(later);
            place.write(later);
            let value = view.find(source.code(index), staged);
            sink.put(source.row(index), value);
        }
    }
    for index in rows - lead..rows {
        // SAFETY: the index is in range; its place was written by one of the loops above.
        unsafe {
            let value = view.find(source.code(index), ring[index % PREFETCH_ROWS].assume_init());
            sink.put(source.row(index), value);
        }
    }
}

/// Looks up every row of the source and hands the answers to the sink.
pub(crate) struct Probe<'s, V, S, K> {
    pub(crate) view: V,
    pub(crate) source: S,
    pub(crate) sink: &'s mut K,
    /// With prefetching.
    pub(crate) far: bool,
}

impl<V: Lookup, S: Source, K: Sink> Loop for Probe<'_, V, S, K> {
    type Output = ();

    /// Also asks that the sink has room for every row of the source.
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.far {
                run_far(self.view, self.source, self.sink)
            } else {
                run_near(self.view, self.source, self.sink)
            }
        }
    }
}
