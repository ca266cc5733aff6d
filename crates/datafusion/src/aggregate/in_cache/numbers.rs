//! Numbers for keys whose columns have few values: the kernel finds the groups of numbers in an array, without a hash.
//!
//! ```text
//! row's key  -> number of its value in each column            -> one number: each column has bits of its own, and one for NULL
//! (7, "b")   -> 7 - 5 = 2; "b" is the second of four texts, 1  -> 2 << 2 | 1 = 9
//! ```
//!
//! Integers are numbered by their distance from the least, texts in the order they come up. A value beyond a column's bits makes these more,
//! and all numbers others; where they become too many, keys have none any more. Integers far from each other have no numbers: to look these
//! up in a hash table takes as long as to group the rows by one.

use super::texts::{is_short, is_text, short_text};
use crate::join::keys::{CodeBuffer, integer_codes, is_integer_like};
use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;

/// What numbering a batch has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// The numbers are those of before.
    Same,
    /// All keys have other numbers than before.
    Anew,
    /// The keys have too many values.
    TooMany,
}

/// The numbers of an input's keys.
pub(super) struct Numbers {
    columns: Vec<Column>,
    /// At most so many bits of all columns together.
    bits_max: u32,
    /// A number a row of the last batch.
    rows: Vec<u32>,
    is_new: bool,
}

impl Numbers {
    /// Of keys with these types; there are fewer than `1 << bits_max`. `None` where a type's values have no numbers.
    ///
    /// # Panics
    /// Of more than 31 bits.
    pub(super) fn of<'t>(types: impl Iterator<Item = &'t DataType>, bits_max: u32) -> Option<Numbers> {
        assert!(bits_max < u32::BITS);
        Some(Numbers {
            columns: types.map(Column::of).collect::<Option<_>>()?,
            bits_max,
            rows: Vec::new(),
            is_new: true,
        })
    }

    /// Numbers the rows of a batch.
    ///
    /// # Panics
    /// Of other columns than those of [`Numbers::of`].
    pub(super) fn number(&mut self, columns: &[ArrayRef]) -> Numbering {
        let nulls: Vec<Option<NullBuffer>> = columns
            .iter()
            .map(|column| column.logical_nulls().filter(|nulls| nulls.null_count() > 0))
            .collect();
        let mut anew = std::mem::take(&mut self.is_new);
        loop {
            self.rows.clear();
            self.rows
                .resize(columns.first().map_or(0, |column| column.len()), 0);
            let mut fit = true;
            for ((kind, column), nulls) in self.columns.iter_mut().zip(columns).zip(&nulls) {
                if !kind.number(column, nulls.as_ref(), &mut self.rows) {
                    fit = false;
                    kind.widen(column, nulls.as_ref());
                }
                if kind.bits() > self.bits_max {
                    return Numbering::TooMany;
                }
            }
            if fit {
                return if anew { Numbering::Anew } else { Numbering::Same };
            }
            if self.bits() > self.bits_max {
                return Numbering::TooMany;
            }
            anew = true;
        }
    }

    /// A number a row of the last batch.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    fn bits(&self) -> u32 {
        self.columns.iter().map(Column::bits).sum()
    }

    /// All numbers are below.
    pub(super) fn len(&self) -> usize {
        1 << self.bits()
    }

    /// Has the next batch numbered anew, as whoever knew the numbers has forgotten them.
    pub(super) fn forget(&mut self) {
        self.is_new = true;
    }

    /// Bytes that the texts take.
    pub(super) fn bytes(&self) -> usize {
        let of = |column: &Column| match &column.values {
            Values::Texts(texts) => texts.bytes,
            Values::Integers { .. } | Values::Booleans => 0,
        };
        self.columns.iter().map(of).sum()
    }
}

/// How a column's values are numbered, in `bits` bits, and a bit for NULL above these where there are NULLs.
struct Column {
    values: Values,
    bits: u32,
    has_nulls: bool,
}

enum Values {
    Booleans,
    /// By the distance of their codes from the least one; `None`: none has come up.
    Integers {
        least: Option<u64>,
    },
    Texts(TextNumbers),
}

impl Column {
    fn of(data_type: &DataType) -> Option<Column> {
        let values = match data_type {
            DataType::Boolean => Values::Booleans,
            integer if is_integer_like(integer) => Values::Integers { least: None },
            text if is_text(text) => Values::Texts(TextNumbers::default()),
            _ => return None,
        };
        Some(Column {
            bits: u32::from(matches!(values, Values::Booleans)),
            values,
            has_nulls: false,
        })
    }

    fn bits(&self) -> u32 {
        self.bits + u32::from(self.has_nulls)
    }

    /// Appends the bits of the rows' values to their numbers. `false` where some have none: see [`Column::widen`].
    fn number(&mut self, column: &ArrayRef, nulls: Option<&NullBuffer>, rows: &mut [u32]) -> bool {
        if nulls.is_some() && !self.has_nulls {
            return false;
        }
        let to = Appending {
            rows,
            nulls,
            bits: self.bits,
            has_nulls: self.has_nulls,
        };
        match &mut self.values {
            Values::Booleans => {
                let values = column.as_boolean().values();
                to.append(values.iter(), u32::from) >> self.bits == 0
            }
            Values::Integers { least } => {
                let least = least.unwrap_or(0);
                let beyond = match integer_codes(column) {
                    CodeBuffer::U64(values, bias) => {
                        to.append(values.iter(), |value| (value ^ bias).wrapping_sub(least))
                    }
                    CodeBuffer::U32(values, bias) => {
                        let least = least as u32;
                        to.append(values.iter(), |value| (value ^ bias).wrapping_sub(least))
                            .into()
                    }
                };
                beyond >> self.bits == 0
            }
            Values::Texts(texts) => {
                texts.number(column, to);
                texts.len() <= 1 << self.bits
            }
        }
    }

    /// Takes as many bits as the values of these rows need besides.
    fn widen(&mut self, column: &ArrayRef, nulls: Option<&NullBuffer>) {
        self.has_nulls |= nulls.is_some();
        match &mut self.values {
            Values::Booleans => {}
            Values::Integers { least } => {
                let codes = integer_codes(column);
                let codes = codes.codes();
                let valid = |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
                let before = least.map(|least| (least, least + ((1 << self.bits) - 1)));
                let (mut low, mut high) = before.unwrap_or((u64::MAX, 0));
                for code in (0..codes.len()).filter(valid).map(|row| codes.code(row)) {
                    low = low.min(code);
                    high = high.max(code);
                }
                if low > high {
                    return;
                }
                self.bits = bits_for(high - low);
                // Beyond the values there is room where they have come up last.
                let room = u64::MAX.unbounded_shr(u64::BITS - self.bits);
                *least = Some(match before.is_some_and(|(least, _)| low < least) {
                    true => high.saturating_sub(room),
                    false => low.min(u64::MAX - room),
                });
            }
            Values::Texts(texts) => self.bits = bits_for(texts.len().saturating_sub(1) as u64),
        }
    }
}

/// Bits of numbers up to `greatest`.
fn bits_for(greatest: u64) -> u32 {
    u64::BITS - greatest.leading_zeros()
}

/// Numbers of rows that the bits of one more column are appended to.
struct Appending<'a> {
    rows: &'a mut [u32],
    nulls: Option<&'a NullBuffer>,
    bits: u32,
    has_nulls: bool,
}

impl Appending<'_> {
    /// Appends the number of each value that is not NULL. Returns which bits any of them has.
    #[inline(always)]
    fn append<V, T: Number>(self, values: impl Iterator<Item = V>, mut number: impl FnMut(V) -> T) -> T {
        let shift = self.bits + u32::from(self.has_nulls);
        let mut any = T::default();
        match self.nulls {
            None => {
                for (row, value) in self.rows.iter_mut().zip(values) {
                    let number = number(value);
                    any = any | number;
                    *row = *row << shift | number.low();
                }
            }
            Some(nulls) => {
                for ((row, value), valid) in self.rows.iter_mut().zip(values).zip(nulls) {
                    let number = if valid { number(value) } else { T::default() };
                    any = any | number;
                    *row = *row << shift | u32::from(!valid) << self.bits | number.low();
                }
            }
        }
        any
    }
}

/// A number in the making.
trait Number: Copy + Default + std::ops::BitOr<Output = Self> {
    fn low(self) -> u32;
}

impl Number for u32 {
    #[inline(always)]
    fn low(self) -> u32 {
        self
    }
}

impl Number for u64 {
    #[inline(always)]
    fn low(self) -> u32 {
        self as u32
    }
}

/// Texts by number, in the order they have come up.
#[derive(Default)]
struct TextNumbers {
    short: HashTable<(u128, u32)>,
    long: HashTable<(Box<str>, u32)>,
    hasher: RandomState,
    bytes: usize,
}

impl TextNumbers {
    fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    fn number(&mut self, column: &ArrayRef, to: Appending<'_>) {
        match column.data_type() {
            DataType::Utf8View => {
                let texts = column.as_string_view();
                to.append(texts.views().iter().enumerate(), |(row, view)| {
                    match is_short(*view) {
                        true => self.of_short(*view),
                        false => self.of_long(texts.value(row)),
                    }
                });
            }
            DataType::LargeUtf8 => {
                let texts = column.as_string::<i64>();
                to.append(0..texts.len(), |row| self.of(texts, row));
            }
            _ => {
                let texts = column.as_string::<i32>();
                to.append(0..texts.len(), |row| self.of(texts, row));
            }
        }
    }

    fn of<O: OffsetSizeTrait>(&mut self, texts: &GenericStringArray<O>, row: usize) -> u32 {
        match short_text(texts, row) {
            Some(view) => self.of_short(view),
            None => self.of_long(texts.value(row)),
        }
    }

    fn of_short(&mut self, view: u128) -> u32 {
        match self
            .short
            .find(self.hasher.hash_one(view), |known| known.0 == view)
        {
            Some(known) => known.1,
            None => self.add_short(view),
        }
    }

    /// Apart from the look-up, so that the loop around that stays small.
    #[cold]
    fn add_short(&mut self, view: u128) -> u32 {
        let (next, hasher) = (self.len() as u32, &self.hasher);
        let hash = |known: &(u128, u32)| hasher.hash_one(known.0);
        self.short
            .insert_unique(hasher.hash_one(view), (view, next), hash);
        next
    }

    fn of_long(&mut self, text: &str) -> u32 {
        let (next, hasher) = (self.len() as u32, &self.hasher);
        let equal = |known: &(Box<str>, u32)| *known.0 == *text;
        match self
            .long
            .entry(hasher.hash_one(text), equal, |known| hasher.hash_one(&*known.0))
        {
            Entry::Occupied(known) => known.get().1,
            Entry::Vacant(new) => {
                self.bytes += text.len() + size_of::<(Box<str>, u32)>();
                new.insert((text.into(), next));
                next
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BooleanArray, Date32Array, Int8Array, Int64Array, StringArray, StringViewArray, UInt64Array,
    };
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::sync::Arc;

    /// Numbers batches one after the other, and checks that within each numbering equal keys and only they have one number.
    fn check(batches: &[Vec<ArrayRef>], bits_max: u32) -> Vec<Numbering> {
        let types: Vec<DataType> = batches[0]
            .iter()
            .map(|column| column.data_type().clone())
            .collect();
        let mut numbers = Numbers::of(types.iter(), bits_max).expect("types with numbers");
        let (mut by_key, mut by_number) = (HashMap::new(), HashMap::new());
        let mut seen = Vec::new();
        for columns in batches {
            let numbering = numbers.number(columns);
            seen.push(numbering);
            if numbering == Numbering::TooMany {
                break;
            }
            if numbering == Numbering::Anew {
                by_key.clear();
                by_number.clear();
            }
            assert_eq!(numbers.rows().len(), columns[0].len());
            for (row, &number) in numbers.rows().iter().enumerate() {
                assert!((number as usize) < numbers.len());
                let key: Vec<String> = columns
                    .iter()
                    .map(|column| format!("{:?}", column.slice(row, 1)))
                    .collect();
                assert_eq!(*by_key.entry(key.clone()).or_insert(number), number);
                assert_eq!(*by_number.entry(number).or_insert(key.clone()), key);
            }
        }
        seen
    }

    fn texts(values: Vec<Option<&str>>) -> [ArrayRef; 2] {
        [
            Arc::new(StringArray::from(values.clone())),
            Arc::new(StringViewArray::from(values)),
        ]
    }

    #[test]
    fn keys_of_every_kind_have_numbers() {
        let long = "a text of more than twelve bytes";
        let [utf8, view] = texts(vec![
            Some("b"),
            Some(long),
            None,
            Some("b"),
            Some(""),
            Some("twelve bytes"),
        ]);
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![
            Some(i64::MAX),
            None,
            Some(i64::MAX - 3),
            None,
            None,
            None,
        ]));
        let small: ArrayRef = Arc::new(Int8Array::from(vec![-3, -3, 2, 7, -3, 2]));
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![
            Some(9000),
            Some(9001),
            None,
            None,
            Some(9000),
            Some(9000),
        ]));
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![
            Some(true),
            None,
            Some(false),
            None,
            Some(true),
            Some(true),
        ]));
        let columns = vec![utf8, view, integers, small, dates, flags];
        let halves = [0, 3].map(|from| {
            columns
                .iter()
                .map(|column| column.slice(from, 3))
                .collect::<Vec<_>>()
        });
        assert_eq!(check(&halves, 31)[0], Numbering::Anew);
        check(&[halves[1].clone(), halves[0].clone(), columns], 31);
    }

    #[test]
    fn numbers_stay_while_values_fit() {
        let of = |values: Vec<i64>| -> Vec<ArrayRef> { vec![Arc::new(Int64Array::from(values))] };
        let batches = [
            of(vec![5, 12]),
            of(vec![7, 6]),
            of(vec![4]),
            of(vec![-3]),
            of(vec![-4]),
            of(vec![300]),
        ];
        use Numbering::*;
        assert_eq!(check(&batches, 8), [Anew, Same, Anew, Same, Anew, TooMany]);
        let extremes: [Vec<ArrayRef>; 2] =
            [u64::MAX, 0].map(|value| vec![Arc::new(UInt64Array::from(vec![value])) as ArrayRef]);
        assert_eq!(check(&extremes, 8), [Anew, TooMany]);
    }

    #[test]
    fn too_many_texts_have_none() {
        let names: Vec<String> = (0..17).map(|name| format!("name {name}")).collect();
        let of = |names: &[String]| -> Vec<ArrayRef> { vec![Arc::new(StringArray::from_iter_values(names))] };
        assert_eq!(
            check(&[of(&names[..16]), of(&names)], 4),
            [Numbering::Anew, Numbering::TooMany]
        );
        assert!(Numbers::of([DataType::Decimal128(38, 2)].iter(), 4).is_none());
    }

    proptest! {
        #[test]
        fn equal_keys_and_only_they_have_one_number(
            rows in prop::collection::vec((prop::option::of(-20i64..90), prop::option::of("[a-c]{0,2}|[a-b]{13,14}")), 1..60),
            cuts in prop::collection::vec(0usize..60, 0..4),
            bits_max in 3u32..14,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (rows.len() + 1)).chain([0, rows.len()]).collect();
            cuts.sort_unstable();
            let batches: Vec<Vec<ArrayRef>> = cuts
                .windows(2)
                .map(|cut| {
                    let rows = &rows[cut[0]..cut[1]];
                    let numbers: Int64Array = rows.iter().map(|(number, _)| *number).collect();
                    let names: StringViewArray = rows.iter().map(|(_, name)| name.clone()).collect();
                    vec![Arc::new(numbers) as ArrayRef, Arc::new(names)]
                })
                .collect();
            check(&batches, bits_max);
        }
    }
}
