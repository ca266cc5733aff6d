//! Grouping columns as words of 64 bits, exactly: equal words are equal keys, and a key is read back from its words.
//!
//! A column takes as many bits as its values have, and one more where it may be NULL; several columns share a word where they fit. A key of one
//! column has no bit for NULL: the rows without a value are a group of their own there. Texts have two words ([`texts`]).

use super::functions::validity;
use super::texts::{self, Known, Texts, is_text};
use crate::join::keys::raw;
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use corun_exec::Validity;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;

/// Longer keys make records too large for the caches to matter. Unmeasured.
const WORDS_MAX: usize = 8;

/// Where a column's bits are.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    data_type: DataType,
    /// Bits of a value; those of 128 take two whole words.
    bits: u32,
    word: usize,
    shift: u32,
    /// Word and bit that is set where the value is NULL.
    null: Option<(usize, u32)>,
}

/// How keys become words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyWords {
    /// In the order of the columns.
    places: Vec<Place>,
    words: usize,
}

/// The words of a batch's keys.
pub(super) struct Keys {
    /// By word, one a row.
    pub(super) words: Vec<ScalarBuffer<u64>>,
    /// Rows that are not in the group of NULL; `None`: all.
    pub(super) valid: Option<NullBuffer>,
}

impl Keys {
    /// As the kernel takes them.
    pub(super) fn words(&self) -> Vec<&[u64]> {
        self.words.iter().map(|word| &word[..]).collect()
    }

    /// As the kernel takes it.
    pub(super) fn valid(&self) -> Option<Validity<'_>> {
        self.valid.as_ref().map(validity)
    }
}

/// Bits of a column's values, if these are their keys.
fn bits_of(data_type: &DataType) -> Option<u32> {
    use DataType::*;
    Some(match data_type {
        Boolean => 1,
        Int8 | UInt8 => 8,
        Int16 | UInt16 => 16,
        Int32 | UInt32 | Date32 | Time32(_) | Decimal32(_, _) => 32,
        Int64 | UInt64 | Date64 | Time64(_) | Timestamp(_, _) | Duration(_) | Decimal64(_, _) => 64,
        Decimal128(_, _) | Utf8 | LargeUtf8 | Utf8View => 128,
        _ => return None,
    })
}

/// Bits taken from each word so far.
struct Used(Vec<u32>);

impl Used {
    /// Takes bits of the first word that has so many left.
    fn take(&mut self, bits: u32) -> (usize, u32) {
        let word = match self.0.iter().position(|taken| taken + bits <= 64) {
            Some(word) => word,
            None => {
                self.0.push(0);
                self.0.len() - 1
            }
        };
        let shift = self.0[word];
        self.0[word] += bits;
        (word, shift)
    }
}

impl KeyWords {
    /// The words of columns of these types, each with whether it may be NULL; `None` where a type has no such bits, and of too many columns.
    pub(super) fn of(columns: &[(DataType, bool)]) -> Option<KeyWords> {
        let single = columns.len() == 1;
        let mut by_size: Vec<usize> = (0..columns.len()).collect();
        let bits: Vec<u32> = columns
            .iter()
            .map(|(data_type, _)| bits_of(data_type))
            .collect::<Option<_>>()?;
        by_size.sort_by_key(|column| std::cmp::Reverse(bits[*column]));
        let mut used = Used(Vec::new());
        let mut places: Vec<Option<Place>> = vec![None; columns.len()];
        for column in by_size {
            let (word, shift) = match bits[column] {
                128 => {
                    used.0.extend([64, 64]);
                    (used.0.len() - 2, 0)
                }
                bits => used.take(bits),
            };
            places[column] = Some(Place {
                data_type: columns[column].0.clone(),
                bits: bits[column],
                word,
                shift,
                null: None,
            });
        }
        let mut places: Vec<Place> = places.into_iter().collect::<Option<_>>()?;
        for (place, (_, nullable)) in places.iter_mut().zip(columns) {
            if *nullable && !single {
                place.null = Some(used.take(1));
            }
        }
        let words = used.0.len();
        (words > 0 && words <= WORDS_MAX).then_some(KeyWords { places, words })
    }

    /// Words of a key.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// The types of the columns.
    pub(super) fn types(&self) -> impl Iterator<Item = &DataType> {
        self.places.iter().map(|place| &place.data_type)
    }

    /// The words of these columns' rows.
    pub(super) fn encode(&self, columns: &[ArrayRef], texts: &mut Known) -> Keys {
        if let ([place], [column]) = (self.places.as_slice(), columns) {
            let valid = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            if place.bits == 64 {
                let words = vec![raw::<u64>(column)];
                return Keys { words, valid };
            }
            let mut words = vec![vec![0u64; column.len()]; self.words];
            place.write(column, valid.as_ref(), &mut words, texts);
            let words = words.into_iter().map(ScalarBuffer::from).collect();
            return Keys { words, valid };
        }
        let rows = columns.first().map_or(0, |column| column.len());
        let mut words: Vec<Vec<u64>> = (0..self.words).map(|_| vec![0u64; rows]).collect();
        for (place, column) in self.places.iter().zip(columns) {
            let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            place.write(column, nulls.as_ref(), &mut words, texts);
            if let (Some((word, bit)), Some(nulls)) = (place.null, &nulls) {
                for (row, slot) in words[word].iter_mut().enumerate() {
                    *slot |= u64::from(nulls.is_null(row)) << bit;
                }
            }
        }
        Keys {
            words: words.into_iter().map(ScalarBuffer::from).collect(),
            valid: None,
        }
    }

    /// The columns of keys with these words, by word; `null`: of a key of one column that is NULL in every row.
    ///
    /// # Errors
    /// Values that are no array of the column's type, which would be a defect.
    pub(super) fn decode(&self, words: &[Vec<u64>], null: bool, texts: &Texts) -> Result<Vec<ArrayRef>> {
        let read = |place: &Place| place.read(words, null, texts);
        self.places.iter().map(read).collect()
    }
}

impl Place {
    /// Puts the values of a column where they belong, zero where one is NULL.
    fn write(
        &self,
        column: &ArrayRef,
        nulls: Option<&NullBuffer>,
        words: &mut [Vec<u64>],
        texts: &mut Known,
    ) {
        let (word, shift) = (self.word, self.shift);
        let has = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        match self.bits {
            1 => {
                let bits = column.as_boolean().values();
                for (row, slot) in words[word].iter_mut().enumerate() {
                    *slot |= u64::from(has(row) && bits.value(row)) << shift;
                }
            }
            8 => or_in(&raw::<u8>(column), nulls, shift, &mut words[word]),
            16 => or_in(&raw::<u16>(column), nulls, shift, &mut words[word]),
            32 => or_in(&raw::<u32>(column), nulls, shift, &mut words[word]),
            64 => or_in(&raw::<u64>(column), nulls, shift, &mut words[word]),
            _ if is_text(&self.data_type) => {
                let (low, high) = words.split_at_mut(word + 1);
                texts.write(column, nulls, &mut low[word], &mut high[0]);
            }
            _ => {
                for (row, value) in raw::<i128>(column).iter().enumerate() {
                    if has(row) {
                        words[word][row] = *value as u64;
                        words[word + 1][row] = (*value >> 64) as u64;
                    }
                }
            }
        }
    }

    fn read(&self, words: &[Vec<u64>], null: bool, texts: &Texts) -> Result<ArrayRef> {
        let here = &words[self.word];
        let rows = here.len();
        let nulls = match (self.null, null) {
            (Some((word, bit)), _) => {
                let valid = words[word].iter().map(|word| word >> bit & 1 == 0);
                Some(valid.collect::<BooleanBuffer>())
            }
            (None, true) => Some(BooleanBuffer::new_unset(rows)),
            (None, false) => None,
        };
        let nulls = nulls.map(NullBuffer::new).filter(|nulls| nulls.null_count() > 0);
        let shifted = || here.iter().map(|word| word >> self.shift);
        let values = match self.bits {
            1 => {
                let bits = shifted().map(|word| word & 1 == 1).collect();
                return Ok(std::sync::Arc::new(BooleanArray::new(bits, nulls)));
            }
            8 => Buffer::from_vec(shifted().map(|word| word as u8).collect()),
            16 => Buffer::from_vec(shifted().map(|word| word as u16).collect()),
            32 => Buffer::from_vec(shifted().map(|word| word as u32).collect()),
            64 => Buffer::from_vec(here.clone()),
            _ if is_text(&self.data_type) => {
                let high = &words[self.word + 1];
                return texts::read(&self.data_type, here, high, nulls.as_ref(), texts);
            }
            _ => {
                let high = &words[self.word + 1];
                let both = here.iter().zip(high);
                let values = both.map(|(low, high)| i128::from(*high as i64) << 64 | i128::from(*low));
                Buffer::from_vec(values.collect())
            }
        };
        array(&self.data_type, rows, values, nulls)
    }
}

/// An array of fixed-width values.
///
/// # Errors
/// Values that are not as wide as the type says.
pub(super) fn array(
    data_type: &DataType,
    rows: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone())
        .len(rows)
        .nulls(nulls)
        .add_buffer(values);
    let data = data
        .build()
        .map_err(|error| internal_datafusion_err!("groups are no {data_type}: {error}"))?;
    Ok(make_array(data))
}

fn or_in<T: Copy + Into<u64>>(values: &[T], nulls: Option<&NullBuffer>, shift: u32, words: &mut [u64]) {
    match nulls {
        None => {
            for (slot, value) in words.iter_mut().zip(values) {
                *slot |= (*value).into() << shift;
            }
        }
        Some(nulls) => {
            for (row, (slot, value)) in words.iter_mut().zip(values).enumerate() {
                if nulls.is_valid(row) {
                    *slot |= (*value).into() << shift;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Decimal128Array, Int8Array, Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray,
    };
    use std::sync::Arc;

    /// Encodes and decodes columns as keys that may be NULL.
    fn there_and_back(columns: &[ArrayRef]) -> Vec<ArrayRef> {
        let types: Vec<(DataType, bool)> = columns
            .iter()
            .map(|column| (column.data_type().clone(), true))
            .collect();
        let words = KeyWords::of(&types).expect("types with bits");
        let texts = Arc::new(Texts::default());
        let keys = words.encode(columns, &mut Known::new(Arc::clone(&texts)));
        assert_eq!(keys.words.len(), words.words());
        let copied: Vec<Vec<u64>> = keys.words.iter().map(|word| word.to_vec()).collect();
        assert!(keys.valid.is_none());
        words.decode(&copied, false, &texts).unwrap()
    }

    fn there_and_back_alone(column: &ArrayRef) {
        for row in (0..column.len()).filter(|row| column.is_valid(*row)) {
            let value = column.slice(row, 1);
            assert_eq!(there_and_back(&[Arc::clone(&value)]), [value]);
        }
    }

    #[test]
    fn every_width_is_read_back_with_its_nulls() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            Arc::new(Int8Array::from(vec![Some(-1), Some(i8::MIN), None])),
            Arc::new(Int32Array::from(vec![None, Some(-7), Some(i32::MAX)])),
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(-1)])),
            Arc::new(Decimal128Array::from(vec![Some(i128::MIN), Some(-1), None])),
        ];
        assert_eq!(there_and_back(&columns), columns);
        columns.iter().for_each(there_and_back_alone);
        let sliced: Vec<ArrayRef> = columns.iter().map(|column| column.slice(1, 2)).collect();
        assert_eq!(there_and_back(&sliced), sliced);
    }

    #[test]
    fn texts_of_every_length_are_read_back() {
        let texts = vec![
            Some(""),
            None,
            Some("a"),
            Some("twelve bytes"),
            Some("thirteen byte"),
            Some("thirteen bytf"),
            Some("müßte länger sein als zwölf"),
            Some("thirteen byte"),
        ];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(texts.clone())),
            Arc::new(LargeStringArray::from(texts.clone())),
            Arc::new(StringViewArray::from(texts)),
        ];
        assert_eq!(there_and_back(&columns), columns);
        columns.iter().for_each(there_and_back_alone);
        let sliced: Vec<ArrayRef> = columns.iter().map(|column| column.slice(1, 5)).collect();
        assert_eq!(there_and_back(&sliced), sliced);
    }

    #[test]
    fn equal_texts_have_equal_words_in_all_inputs() {
        let words = KeyWords::of(&[(DataType::Utf8View, false)]).unwrap();
        let texts = Arc::new(Texts::default());
        let encode = |values: Vec<&str>| {
            let column: ArrayRef = Arc::new(StringViewArray::from(values));
            words.encode(&[column], &mut Known::new(Arc::clone(&texts))).words
        };
        let one = encode(vec!["short", "a text of many bytes", "another of many bytes"]);
        let other = encode(vec!["another of many bytes", "a text of many bytes", "short"]);
        for (one, other) in one.iter().zip(&other) {
            let reversed: Vec<u64> = other.iter().rev().copied().collect();
            assert_eq!(one.to_vec(), reversed);
        }
    }

    #[test]
    fn a_single_column_leaves_its_nulls_out() {
        let texts = Arc::new(Texts::default());
        let mut known = Known::new(Arc::clone(&texts));
        for column in [
            Arc::new(Int32Array::from(vec![Some(0), None])) as ArrayRef,
            Arc::new(StringArray::from(vec![Some(""), None])),
        ] {
            let words = KeyWords::of(&[(column.data_type().clone(), true)]).unwrap();
            let keys = words.encode(&[column], &mut known);
            assert_eq!(keys.valid.unwrap().null_count(), 1);
            let null = &words.decode(&vec![vec![7]; words.words()], true, &texts).unwrap()[0];
            assert_eq!(null.null_count(), 1);
        }
    }

    #[test]
    fn null_is_no_value_of_its_column() {
        let zero_or_null: ArrayRef = Arc::new(Int32Array::from(vec![Some(0), None]));
        let words = KeyWords::of(&[(DataType::Int32, true), (DataType::Int32, true)]).unwrap();
        let columns = [Arc::clone(&zero_or_null), zero_or_null];
        let keys = words.encode(&columns, &mut Known::new(Arc::default()));
        assert!(keys.words.iter().any(|word| word[0] != word[1]));
    }

    #[test]
    fn small_columns_share_a_word() {
        let two = [(DataType::Int32, false), (DataType::Date32, false)];
        assert_eq!(KeyWords::of(&two).unwrap().words(), 1);
        let nullable = [(DataType::Int32, true), (DataType::Date32, true)];
        assert_eq!(KeyWords::of(&nullable).unwrap().words(), 2);
        let long = [(DataType::Decimal128(38, 2), false), (DataType::Int8, true)];
        assert_eq!(KeyWords::of(&long).unwrap().words(), 3);
        assert_eq!(KeyWords::of(&[(DataType::Utf8, false)]).unwrap().words(), 2);
        assert_eq!(KeyWords::of(&[(DataType::Float64, false)]), None);
        assert_eq!(KeyWords::of(&[]), None);
    }
}
