//! Two folds in one loop: what is read twice otherwise are the positions, and the lines of the records.
//!
//! Only folds of rows that all count are paired, and only the frequent ones: a pair of each kind is a loop of its own.

use std::ops::Range;

use super::fold::{Argument, Values, add_f64};
use super::layout::{Fold, state_of, words_of};

/// A fold that can be one of two, and its values.
#[derive(Clone, Copy)]
pub(super) enum Simple<'a> {
    Count,
    I64(&'a [i64]),
    F64(&'a [f64]),
    I128(&'a [i128]),
}

impl<'a> Simple<'a> {
    /// A fold of these rows of an argument.
    pub(super) fn of(fold: Fold, argument: &Argument<'a>, rows: &Range<usize>) -> Option<Simple<'a>> {
        match (fold, argument.values) {
            _ if argument.valid.is_some() => None,
            (Fold::Count, _) => Some(Simple::Count),
            (Fold::SumI64, Values::I64(values)) => Some(Simple::I64(&values[rows.clone()])),
            (Fold::SumF64, Values::F64(values)) => Some(Simple::F64(&values[rows.clone()])),
            (Fold::SumI128, Values::I128(values)) => Some(Simple::I128(&values[rows.clone()])),
            _ => None,
        }
    }
}

/// Folds each row into the record at its position. Beside a fold is the word of a record that its state begins with.
///
/// # Panics
/// When there is no record at a position.
pub(super) fn fold_pair(
    records: &mut [u64],
    record_words: usize,
    positions: &[u32],
    first: (usize, Simple<'_>),
    second: (usize, Simple<'_>),
) {
    let pair = Pair {
        records,
        record_words,
        positions,
    };
    match first {
        (at, Simple::Count) => pair.with((at, CountRow), second),
        (at, Simple::I64(values)) => pair.with((at, values), second),
        (at, Simple::F64(values)) => pair.with((at, values), second),
        (at, Simple::I128(values)) => pair.with((at, values), second),
    }
}

struct Pair<'a> {
    records: &'a mut [u64],
    record_words: usize,
    positions: &'a [u32],
}

impl Pair<'_> {
    fn with<A: Step>(self, first: (usize, A), second: (usize, Simple<'_>)) {
        match second {
            (at, Simple::Count) => self.fold(first, (at, CountRow)),
            (at, Simple::I64(values)) => self.fold(first, (at, values)),
            (at, Simple::F64(values)) => self.fold(first, (at, values)),
            (at, Simple::I128(values)) => self.fold(first, (at, values)),
        }
    }

    fn fold<A: Step, B: Step>(self, (at, first): (usize, A), (second_at, second): (usize, B)) {
        for (row, &position) in self.positions.iter().enumerate() {
            let start = position as usize * self.record_words;
            let record = &mut self.records[start..start + self.record_words];
            first.step(&mut record[at..], row);
            second.step(&mut record[second_at..], row);
        }
    }
}

/// How a row is folded into the state that `state` begins with.
trait Step: Copy {
    fn step(self, state: &mut [u64], row: usize);
}

#[derive(Clone, Copy)]
struct CountRow;

impl Step for CountRow {
    #[inline(always)]
    fn step(self, state: &mut [u64], _: usize) {
        state[0] = state[0].wrapping_add(1);
    }
}

impl Step for &[i64] {
    #[inline(always)]
    fn step(self, state: &mut [u64], row: usize) {
        state[0] = state[0].wrapping_add(self[row] as u64);
    }
}

impl Step for &[f64] {
    #[inline(always)]
    fn step(self, state: &mut [u64], row: usize) {
        state[0] = add_f64(state[0], self[row]);
    }
}

impl Step for &[i128] {
    #[inline(always)]
    fn step(self, state: &mut [u64], row: usize) {
        if let Some(state) = state.first_chunk_mut::<2>() {
            *state = words_of(state_of(*state).wrapping_add(self[row]));
        }
    }
}
