//! Folding of batches into records: one typed loop a function, over all rows of a batch.

use std::ops::Range;

use super::layout::{Fold, Layout, state_of, words_of};
use super::pairs::{Simple, fold_pair};
use crate::codes::{Codes, Validity};

/// One function's argument, a value a row.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// No values, for [`Fold::Count`] and [`Fold::Skipped`].
    None,
    /// For [`Fold::SumI64`] and [`Fold::SumI128`].
    I32(&'a [i32]),
    /// For [`Fold::SumI64`] and [`Fold::SumI128`].
    I64(&'a [i64]),
    /// For [`Fold::SumF64`].
    F64(&'a [f64]),
    /// For [`Fold::SumI128`], [`Fold::MinI128`] and [`Fold::MaxI128`].
    I128(&'a [i128]),
    /// For [`Fold::Min`] and [`Fold::Max`]: codes in the order of the values.
    Codes(Codes<'a>),
}

/// One function's argument in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    /// The values; [`Fold::Count`] and [`Fold::Skipped`] take any and look at none.
    pub values: Values<'a>,
    /// The rows that count; `None`: all.
    pub valid: Option<Validity<'a>>,
}

impl Argument<'_> {
    /// Panics unless `fold` can take this argument for so many rows.
    pub(super) fn check(&self, fold: Fold, rows: usize) {
        let length = match (fold, self.values) {
            (Fold::Count | Fold::Skipped, _) => rows,
            (Fold::SumI64 | Fold::SumI128, Values::I32(values)) => values.len(),
            (Fold::SumI64 | Fold::SumI128, Values::I64(values)) => values.len(),
            (Fold::SumF64, Values::F64(values)) => values.len(),
            (Fold::SumI128 | Fold::MinI128 | Fold::MaxI128, Values::I128(values)) => values.len(),
            (Fold::Min | Fold::Max, Values::Codes(codes)) => codes.len(),
            (fold, values) => panic!("{fold:?} does not take {values:?}"),
        };
        assert_eq!(length, rows, "an argument and the keys differ in length");
        if let Some(valid) = self.valid {
            assert_eq!(valid.len(), rows, "a validity and the keys differ in length");
        }
    }
}

/// The states of one function that a batch is folded into.
struct States<'a> {
    records: &'a mut [u64],
    record_words: usize,
    offset: usize,
    places: Places<'a>,
}

/// Which records the rows of a batch are folded into.
#[derive(Clone, Copy)]
pub(super) enum Places<'a> {
    /// Each row into the record at its position.
    At(&'a [u32]),
    /// Each row into a record of its own, in the order of the rows. States are overwritten, from those of no rows in
    /// this record on.
    Own(&'a [u64]),
}

impl States<'_> {
    /// Folds a value a row into states of one word.
    #[inline(always)]
    fn narrow<T>(&mut self, values: impl Iterator<Item = T>, step: impl Fn(u64, T) -> u64) {
        let offset = self.offset;
        match self.places {
            Places::At(positions) => {
                let states = &mut self.records[offset..];
                for (&position, value) in positions.iter().zip(values) {
                    let state = &mut states[position as usize * self.record_words];
                    *state = step(*state, value);
                }
            }
            Places::Own(initial) => {
                let initial = initial[offset];
                for (record, value) in self.records.chunks_exact_mut(self.record_words).zip(values) {
                    record[offset] = step(initial, value);
                }
            }
        }
    }

    /// Folds a value a row into states of two words.
    #[inline(always)]
    fn wide<T>(&mut self, values: impl Iterator<Item = T>, step: impl Fn(i128, T) -> i128) {
        let offset = self.offset;
        match self.places {
            Places::At(positions) => {
                let states = &mut self.records[offset..];
                for (&position, value) in positions.iter().zip(values) {
                    let start = position as usize * self.record_words;
                    if let Some(state) = states[start..].first_chunk_mut::<2>() {
                        *state = words_of(step(state_of(*state), value));
                    }
                }
            }
            Places::Own(initial) => {
                let initial = state_of([initial[offset], initial[offset + 1]]);
                for (record, value) in self.records.chunks_exact_mut(self.record_words).zip(values) {
                    if let Some(state) = record[offset..].first_chunk_mut::<2>() {
                        *state = words_of(step(initial, value));
                    }
                }
            }
        }
    }
}

/// The rows of a batch that are folded, and which of them count.
struct Rows<'a> {
    range: Range<usize>,
    valid: Option<Validity<'a>>,
}

impl Rows<'_> {
    #[inline(always)]
    fn narrow<T: Copy>(&self, mut states: States<'_>, values: &[T], step: impl Fn(u64, T) -> u64) {
        let values = values[self.range.clone()].iter().copied();
        match self.valid {
            None => states.narrow(values, step),
            Some(valid) => {
                let counts = self.range.clone().map(|row| valid.is_valid(row));
                states.narrow(values.zip(counts), |state, (value, counts)| {
                    if counts { step(state, value) } else { state }
                });
            }
        }
    }

    #[inline(always)]
    fn wide<T: Copy>(&self, mut states: States<'_>, values: &[T], step: impl Fn(i128, T) -> i128) {
        let values = values[self.range.clone()].iter().copied();
        match self.valid {
            None => states.wide(values, step),
            Some(valid) => {
                let counts = self.range.clone().map(|row| valid.is_valid(row));
                states.wide(values.zip(counts), |state, (value, counts)| {
                    if counts { step(state, value) } else { state }
                });
            }
        }
    }

    #[inline(always)]
    fn codes(&self, states: States<'_>, codes: Codes<'_>, step: impl Fn(u64, u64) -> u64) {
        match codes {
            Codes::U64 { values, bias } => {
                self.narrow(states, values, |state, value| step(state, value ^ bias))
            }
            Codes::U32 { values, bias } => {
                self.narrow(states, values, |state, value| {
                    step(state, u64::from(value ^ bias))
                });
            }
        }
    }

    fn skipped(&self, mut states: States<'_>) {
        match self.valid {
            None if matches!(states.places, Places::At(_)) => {}
            None => states.narrow(self.range.clone(), |state, _| state),
            Some(valid) => states.narrow(self.range.clone(), |state, row| {
                state.wrapping_add(u64::from(!valid.is_valid(row)))
            }),
        }
    }

    fn count(&self, mut states: States<'_>) {
        match self.valid {
            None => states.narrow(self.range.clone(), |state, _| state.wrapping_add(1)),
            Some(valid) => states.narrow(self.range.clone(), |state, row| {
                state.wrapping_add(u64::from(valid.is_valid(row)))
            }),
        }
    }
}

#[inline(always)]
pub(super) fn add_f64(state: u64, value: f64) -> u64 {
    (f64::from_bits(state) + value).to_bits()
}

/// Folds rows into records. The arguments have been checked.
pub(super) fn fold_rows(
    layout: &Layout,
    records: &mut [u64],
    places: Places<'_>,
    arguments: &[Argument<'_>],
    range: Range<usize>,
) {
    let mut waiting: Option<(usize, Simple<'_>)> = None;
    for (number, (&fold, argument)) in layout.folds().iter().zip(arguments).enumerate() {
        match (places, Simple::of(fold, argument, &range)) {
            (Places::At(positions), Some(simple)) => match waiting.take() {
                None => waiting = Some((number, simple)),
                Some((first, other)) => fold_pair(
                    records,
                    layout.record_words(),
                    positions,
                    (layout.offset(first), other),
                    (layout.offset(number), simple),
                ),
            },
            _ => fold_one(layout, records, places, number, argument, range.clone()),
        }
    }
    if let Some((number, _)) = waiting {
        fold_one(layout, records, places, number, &arguments[number], range);
    }
}

/// Folds rows into the states of one function.
fn fold_one(
    layout: &Layout,
    records: &mut [u64],
    places: Places<'_>,
    number: usize,
    argument: &Argument<'_>,
    range: Range<usize>,
) {
    let states = States {
        records,
        record_words: layout.record_words(),
        offset: layout.offset(number),
        places,
    };
    let rows = Rows {
        range,
        valid: argument.valid,
    };
    match (layout.folds()[number], argument.values) {
        (Fold::Count, _) => rows.count(states),
        (Fold::Skipped, _) => rows.skipped(states),
        (Fold::SumI64, Values::I32(values)) => {
            rows.narrow(states, values, |sum, value| {
                sum.wrapping_add(i64::from(value) as u64)
            });
        }
        (Fold::SumI64, Values::I64(values)) => {
            rows.narrow(states, values, |sum, value| sum.wrapping_add(value as u64));
        }
        (Fold::SumF64, Values::F64(values)) => rows.narrow(states, values, add_f64),
        (Fold::SumI128, Values::I32(values)) => {
            rows.wide(states, values, |sum, value| sum.wrapping_add(i128::from(value)));
        }
        (Fold::SumI128, Values::I64(values)) => {
            rows.wide(states, values, |sum, value| sum.wrapping_add(i128::from(value)));
        }
        (Fold::SumI128, Values::I128(values)) => rows.wide(states, values, i128::wrapping_add),
        (Fold::Min, Values::Codes(codes)) => rows.codes(states, codes, u64::min),
        (Fold::Max, Values::Codes(codes)) => rows.codes(states, codes, u64::max),
        (Fold::MinI128, Values::I128(values)) => rows.wide(states, values, i128::min),
        (Fold::MaxI128, Values::I128(values)) => rows.wide(states, values, i128::max),
        _ => unreachable!("arguments are checked before"),
    }
}

/// Folds the states of the records of `from` into the records at `positions`, one each.
pub(super) fn combine_rows(layout: &Layout, records: &mut [u64], positions: &[u32], from: &[u64]) {
    let record_words = layout.record_words();
    for (number, &fold) in layout.folds().iter().enumerate() {
        let offset = layout.offset(number);
        let mut states = States {
            records,
            record_words,
            offset,
            places: Places::At(positions),
        };
        let words = from.chunks_exact(record_words).map(|record| record[offset]);
        let pairs = from
            .chunks_exact(record_words)
            .map(|record| state_of([record[offset], record[offset + 1]]));
        match fold {
            Fold::Count | Fold::Skipped | Fold::SumI64 => states.narrow(words, u64::wrapping_add),
            Fold::SumF64 => states.narrow(words, |state, value| add_f64(state, f64::from_bits(value))),
            Fold::Min => states.narrow(words, u64::min),
            Fold::Max => states.narrow(words, u64::max),
            Fold::SumI128 => states.wide(pairs, i128::wrapping_add),
            Fold::MinI128 => states.wide(pairs, i128::min),
            Fold::MaxI128 => states.wide(pairs, i128::max),
        }
    }
}
