//! Looking up one code line by line, for staged operators: they wait between naming a line and reading it.
//!
//! ```text
//!   spot ──▶ line ──▶ look ──▶ Absent | Row | List ──▶ list
//!                      │ ▲
//!                      ▼ │ GoOn: the next line
//! ```
//!
//! Lines are compared with portable code: between two steps of one code come those of others, so there is no loop to compile
//! for an instruction set, and a call for each line would cost what the wide compare saves. Batches are [`super::probe`]'s.

use super::hash::{partition, reduce};
use super::kernel::{DenseView, Lookup};
use super::layout::{Line, SEVERAL, passed_bit};
use super::simd::{Compare, Portable};
use super::{Index, JoinTable};
use crate::stage::Reference;

/// What a line says about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// No row has it.
    Absent,
    /// One row has it.
    Row(u32),
    /// Several rows have it: those of [`JoinTable::step_list`].
    List(u32),
    /// Another line may have it.
    GoOn(usize),
}

impl JoinTable {
    /// The line (or element of a dense index) to look at first.
    #[inline(always)]
    pub(crate) fn step_first(&self, code: u64) -> usize {
        match &self.index {
            Index::Dense { values } => DenseView {
                values,
                min: self.bounds.map_or(0, |(min, _)| min),
            }
            .stage(code),
            Index::Lines32 { lines, .. } => reduce(self.mixer.mix(code), lines.len()),
            Index::Lines64 { lines, .. } => reduce(self.mixer.mix(code), lines.len()),
        }
    }

    /// The memory of a line and how many bytes of it are looked at.
    #[inline(always)]
    pub(crate) fn step_memory(&self, line: usize) -> (Reference<'_>, usize) {
        match &self.index {
            Index::Dense { values } => (Reference::to(&values[line]), 4),
            Index::Lines32 { lines, .. } => (Reference::to(&lines[line]), 64),
            Index::Lines64 { lines, .. } => (Reference::to(&lines[line]), 64),
        }
    }

    /// Looks for a code in a line that [`JoinTable::step_first`] or the look before gave for it.
    #[inline(always)]
    pub(crate) fn step_look(&self, code: u64, line: usize) -> Looked {
        match &self.index {
            Index::Dense { values } => found(values[line]),
            Index::Lines32 { lines, bits } => self.look_in(lines, *bits, code, line),
            Index::Lines64 { lines, bits } => self.look_in(lines, *bits, code, line),
        }
    }

    #[inline(always)]
    fn look_in<L: Line>(&self, lines: &[L], bits: u32, code: u64, line: usize) -> Looked
    where
        Portable: Compare<L>,
    {
        let (min, max) = self.bounds.unwrap_or((0, 0));
        if size_of::<L::Key>() < size_of::<u64>() && code.wrapping_sub(min) > max - min {
            return Looked::Absent;
        }
        let here = &lines[line];
        // SAFETY: every processor has the portable instruction set.
        let mask = unsafe { <Portable as Compare<L>>::matching(here, L::key(code, min)) };
        let word = here.value_or_passed(mask);
        if mask != 0 {
            return found(word);
        }
        let mixed = self.mixer.mix(code);
        if word >> passed_bit(mixed) & 1 == 0 {
            return Looked::Absent;
        }
        let per_partition = lines.len() >> bits;
        let first = partition(mixed, bits) * per_partition;
        let next = line + 1;
        let next = if next == first + per_partition {
            first
        } else {
            next
        };
        // Once around the partition: a table this full has no line that was not passed.
        if next == reduce(mixed, lines.len()) {
            return Looked::Absent;
        }
        Looked::GoOn(next)
    }

    /// The count before a list and the list's rows.
    #[inline(always)]
    pub(crate) fn step_list(&self, offset: u32) -> (&u32, &[u32]) {
        (&self.duplicates[offset as usize], self.list(offset))
    }
}

/// What a value means; 0 is a free slot, as for a key 0 that is not there.
#[inline(always)]
fn found(value: u32) -> Looked {
    match value {
        0 => Looked::Absent,
        row if row & SEVERAL == 0 => Looked::Row(row - 1),
        several => Looked::List(several & !SEVERAL),
    }
}
