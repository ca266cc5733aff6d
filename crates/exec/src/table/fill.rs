//! The third pass: fills one partition of the index, privately and in cache, and then its duplicate lists.
//!
//! While a partition is filled, the value of a key with several rows is `SEVERAL | count`. [`place`] then replaces the
//! count by an offset and writes the rows. A key's rows lie together, ascending: chains of rows, as in chained hash
//! joins, would cost a miss for each.

use super::hash::{Mixer, reduce};
use super::layout::{Line, SEVERAL, passed_bit};
use super::simd::{Compare, Loop};
use crate::huge::Plain;
use crate::prefetch::prefetch_read;

/// A partition holds more keys near one place than is good for probes, or more than it has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowded;

/// What a filled partition contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Different keys.
    pub(crate) distinct: usize,
    /// Elements its duplicate lists need, counts included.
    pub(crate) duplicates_length: usize,
}

/// What is done with each row that reached its value.
pub(crate) trait Entry {
    /// Takes the value of the row's key; 0 if the key is new.
    fn enter(&mut self, value: &mut u32, row: u32);
}

/// Counts: the first pass.
impl Entry for Filled {
    #[inline(always)]
    fn enter(&mut self, value: &mut u32, row: u32) {
        if *value == 0 {
            *value = row + 1;
            self.distinct += 1;
        } else if *value & SEVERAL == 0 {
            *value = SEVERAL | 2;
            self.duplicates_length += 3;
        } else {
            *value += 1;
            self.duplicates_length += 1;
        }
    }
}

/// The duplicate lists of a partition: the second pass.
pub(crate) struct Lists<'a> {
    /// Room for what [`Filled::duplicates_length`] announced.
    pub(crate) lists: &'a mut [u32],
    /// The offset of `lists` in the table's duplicates.
    pub(crate) first: u32,
}

impl Lists<'_> {
    /// Replaces the counts in values by offsets of lists, which are empty then.
    pub(crate) fn assign<P: Part>(&mut self, part: &mut P) {
        let mut next = 0_usize;
        part.for_each_value(|value| {
            if *value & SEVERAL != 0 {
                let count = *value & !SEVERAL;
                self.lists[next] = 0;
                *value = SEVERAL | (self.first + next as u32);
                next += 1 + count as usize;
            }
        });
        assert_eq!(
            next,
            self.lists.len(),
            "duplicate lists and their counts disagree"
        );
    }
}

impl Entry for Lists<'_> {
    #[inline(always)]
    fn enter(&mut self, value: &mut u32, row: u32) {
        if *value & SEVERAL != 0 {
            let offset = ((*value & !SEVERAL) - self.first) as usize;
            let written = self.lists[offset] as usize + 1;
            self.lists[offset + written] = row;
            self.lists[offset] = written as u32;
        }
    }
}

/// A partition of an index being built.
pub(crate) trait Part {
    /// What is compared.
    type Key: Plain;

    /// Where a key was found or a free slot for it was, if that was easy: what [`Part::visit`] takes.
    type Place: Copy + Default;

    /// Looks for a key or its free slot.
    ///
    /// # Safety
    /// The processor must have the part's instruction set, and the key belong to this partition.
    unsafe fn look(&self, key: Self::Key) -> Self::Place;

    /// The value of a key; 0 if it was not there before (its slot is taken now). `place` must come from [`Part::look`]
    /// of this key; other keys may have been entered since.
    ///
    /// # Safety
    /// As [`Part::look`].
    unsafe fn visit(&mut self, key: Self::Key, place: Self::Place) -> Result<&mut u32, Crowded>;

    /// All values.
    fn for_each_value(&mut self, visit: impl FnMut(&mut u32));
}

/// A stretch of a dense index.
pub(crate) struct DensePart<'a> {
    pub(crate) values: &'a mut [u32],
    /// The offset of the first element.
    pub(crate) first: u32,
}

impl Part for DensePart<'_> {
    type Key = u32;

    type Place = ();

    #[inline(always)]
    unsafe fn look(&self, _key: u32) {}

    #[inline(always)]
    unsafe fn visit(&mut self, key: u32, _place: ()) -> Result<&mut u32, Crowded> {
        Ok(&mut self.values[(key - self.first) as usize])
    }

    fn for_each_value(&mut self, visit: impl FnMut(&mut u32)) {
        self.values.iter_mut().for_each(visit);
    }
}

/// The lines of one partition.
pub(crate) struct LinePart<'a, L: Line, C: Compare<L>> {
    pub(crate) lines: &'a mut [L],
    /// The number of the first line.
    pub(crate) first: usize,
    /// Lines of the whole table.
    pub(crate) total: usize,
    pub(crate) mixer: Mixer,
    pub(crate) min: u64,
    /// Lines a key may pass before the partition counts as crowded.
    pub(crate) passed_max: usize,
    pub(crate) compare: std::marker::PhantomData<C>,
}

impl<L: Line, C: Compare<L>> LinePart<'_, L, C> {
    /// [`Part::look`] for a key whose first line, counted from the partition's first, is known. Asks for the next line if
    /// the first is full.
    ///
    /// # Safety
    /// As [`Part::look`].
    #[inline(always)]
    pub(crate) unsafe fn look_at(&self, line: usize, key: L::Key) -> usize {
        // SAFETY: the instruction set is there by the caller's promise.
        let slot = unsafe { slot_of::<L, C>(&self.lines[line], key) };
        prefetch_read(
            self.lines
                .as_ptr()
                .wrapping_add(line + usize::from(slot == L::SLOTS)),
        );
        line << 3 | slot
    }

    /// [`Part::visit`] from the key's first line on.
    ///
    /// # Safety
    /// As [`Part::look`].
    #[inline(always)]
    unsafe fn visit_slowly(&mut self, key: L::Key) -> Result<&mut u32, Crowded> {
        let mixed = self.mixer.mix(L::code(key, self.min));
        let mut place = reduce(mixed, self.total) - self.first;
        for _ in 0..=self.passed_max {
            let line = &mut self.lines[place];
            // SAFETY: the instruction set is there by the caller's promise.
            let slot = unsafe { slot_of::<L, C>(line, key) };
            if slot < L::SLOTS {
                return Ok(self.lines[place].take(slot, key));
            }
            line.pass(passed_bit(mixed));
            place = if place + 1 == self.lines.len() {
                0
            } else {
                place + 1
            };
        }
        Err(Crowded)
    }
}

/// The slot that has the key, or the first free one, or [`Line::SLOTS`].
///
/// # Safety
/// The processor must have the instruction set.
#[inline(always)]
unsafe fn slot_of<L: Line, C: Compare<L>>(line: &L, key: L::Key) -> usize {
    // SAFETY: the caller's promise.
    let (filled, matching) = unsafe { (C::filled(line), C::matching(line, key)) };
    // Slots fill from the left, so the first that is free or has the key is what is wanted: a free one that seems to have
    // key 0 comes after all filled ones.
    let wanted = !filled | matching;
    (wanted | 1 << L::SLOTS).trailing_zeros() as usize
}

impl<L: Line, C: Compare<L>> Part for LinePart<'_, L, C> {
    type Key = L::Key;

    /// The line, and the slot in the low three bits.
    type Place = usize;

    #[inline(always)]
    unsafe fn look(&self, key: L::Key) -> usize {
        let place = reduce(self.mixer.mix(L::code(key, self.min)), self.total) - self.first;
        // SAFETY: the instruction set is there by the caller's promise.
        place << 3 | unsafe { slot_of::<L, C>(&self.lines[place], key) }
    }

    #[inline(always)]
    unsafe fn visit(&mut self, key: L::Key, place: usize) -> Result<&mut u32, Crowded> {
        let (line, slot) = (place >> 3, place & 7);
        // The slot may have been taken by another key since.
        if slot < L::SLOTS && (self.lines[line].values()[slot] == 0 || self.lines[line].has(slot, key)) {
            return Ok(self.lines[line].take(slot, key));
        }
        // SAFETY: the caller's promise.
        unsafe { self.visit_slowly(key) }
    }

    fn for_each_value(&mut self, mut visit: impl FnMut(&mut u32)) {
        for line in self.lines.iter_mut() {
            line.values_mut().iter_mut().for_each(&mut visit);
        }
    }
}

/// Rows whose places are looked for before the first is entered. Entering each at once was measured and rejected: its
/// store goes where the comparison says, so the next row's load cannot be known not to overlap it, and waits.
const AHEAD: usize = 32;

/// Enters a partition's rows.
pub(crate) struct Fill<'a, P: Part> {
    pub(crate) part: P,
    pub(crate) keys: &'a [P::Key],
    pub(crate) rows: &'a [u32],
}

impl<P: Part> Loop for Fill<'_, P> {
    type Output = Result<Filled, Crowded>;

    #[inline(always)]
    unsafe fn run(mut self) -> Self::Output {
        let mut filled = Filled::default();
        let mut places = [P::Place::default(); AHEAD];
        for (keys, rows) in self.keys.chunks(AHEAD).zip(self.rows.chunks(AHEAD)) {
            for (place, &key) in places.iter_mut().zip(keys) {
                // SAFETY: the caller's promise.
                *place = unsafe { self.part.look(key) };
            }
            for ((&key, &row), &place) in keys.iter().zip(rows).zip(&places) {
                // SAFETY: the caller's promise.
                let value = unsafe { self.part.visit(key, place)? };
                filled.enter(value, row);
            }
        }
        Ok(filled)
    }
}

/// Writes the duplicate lists of a partition that [`Fill`] has filled, after [`Lists::assign`].
pub(crate) struct Place<'a, P: Part> {
    pub(crate) part: P,
    pub(crate) keys: &'a [P::Key],
    pub(crate) rows: &'a [u32],
    pub(crate) lists: Lists<'a>,
}

impl<P: Part> Loop for Place<'_, P> {
    type Output = ();

    #[inline(always)]
    unsafe fn run(mut self) {
        for (&key, &row) in self.keys.iter().zip(self.rows) {
            // SAFETY: the caller's promise.
            let Ok(value) = (unsafe { self.part.visit(key, self.part.look(key)) }) else {
                unreachable!("the partition took this key before");
            };
            self.lists.enter(value, row);
        }
    }
}
