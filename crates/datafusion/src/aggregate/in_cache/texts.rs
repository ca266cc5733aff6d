//! Text in keys: two words a value. Short texts are in the words themselves, in the layout of Arrow's views; a longer one has a number, the same
//! in all inputs.
//!
//! ```text
//! up to 12 bytes   | length, first 4 bytes | the next 8 bytes, zeros behind the end |
//! more             | LONG                  | number                                 |
//! ```

use arrow::array::{
    Array, ArrayRef, AsArray, GenericStringArray, LargeStringBuilder, OffsetSizeTrait, StringBuilder,
    StringViewBuilder,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::RandomState;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a text that is in its words.
const SHORT_MAX: usize = 12;
/// The first word of a text that is not.
const LONG: u64 = u64::MAX;

type Numbers = HashMap<Arc<str>, u64, RandomState>;

/// The long texts of all inputs, by number.
#[derive(Default)]
pub(super) struct Texts(RwLock<All>);

#[derive(Default)]
struct All {
    numbers: Numbers,
    texts: Vec<Arc<str>>,
}

/// Bytes of a text's entry in a map.
const ENTRY_BYTES: usize = 2 * (size_of::<Arc<str>>() + size_of::<u64>());

impl Texts {
    /// Whether no long text has come up.
    pub(super) fn are_short(&self) -> bool {
        self.0.read().texts.is_empty()
    }

    /// A text and its number, and the bytes it takes here if it is new.
    fn number(&self, text: &str) -> (Arc<str>, u64, usize) {
        let mut all = self.0.write();
        if let Some((text, number)) = all.numbers.get_key_value(text) {
            return (Arc::clone(text), *number, 0);
        }
        let (shared, number) = (Arc::<str>::from(text), all.texts.len() as u64);
        all.numbers.insert(Arc::clone(&shared), number);
        all.texts.push(Arc::clone(&shared));
        let bytes = text.len() + 2 * size_of::<usize>() + size_of::<Arc<str>>() + ENTRY_BYTES;
        (shared, number, bytes)
    }
}

/// The texts that one input has come upon.
pub(super) struct Known {
    all: Arc<Texts>,
    numbers: Numbers,
    bytes: usize,
}

impl Known {
    pub(super) fn new(all: Arc<Texts>) -> Known {
        Known {
            all,
            numbers: Numbers::default(),
            bytes: 0,
        }
    }

    /// Bytes of the texts, those that another input has come upon before left out.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The words of a text of more bytes than are in its words.
    fn long(&mut self, text: &str) -> [u64; 2] {
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => {
                let (text, number, bytes) = self.all.number(text);
                self.bytes += bytes + ENTRY_BYTES;
                self.numbers.insert(text, number);
                number
            }
        };
        [LONG, number]
    }

    /// Writes the words of a column's rows that are not NULL.
    pub(super) fn write(
        &mut self,
        column: &ArrayRef,
        nulls: Option<&NullBuffer>,
        low: &mut [u64],
        high: &mut [u64],
    ) {
        let rows = low.iter_mut().zip(high).enumerate();
        let rows = rows.filter(|(row, _)| nulls.is_none_or(|nulls| nulls.is_valid(*row)));
        match column.data_type() {
            DataType::Utf8View => {
                let texts = column.as_string_view();
                let views = texts.views();
                for (row, (low, high)) in rows {
                    [*low, *high] = match is_short(views[row]) {
                        true => words_of(views[row]),
                        false => self.long(texts.value(row)),
                    };
                }
            }
            DataType::LargeUtf8 => {
                let texts = column.as_string::<i64>();
                rows.for_each(|(row, (low, high))| [*low, *high] = self.words(texts, row));
            }
            _ => {
                let texts = column.as_string::<i32>();
                rows.for_each(|(row, (low, high))| [*low, *high] = self.words(texts, row));
            }
        }
    }

    fn words<O: OffsetSizeTrait>(&mut self, texts: &GenericStringArray<O>, row: usize) -> [u64; 2] {
        match short_text(texts, row) {
            Some(view) => words_of(view),
            None => self.long(texts.value(row)),
        }
    }
}

/// The view of a row's text, if it is so short that it is in its view.
#[inline(always)]
pub(super) fn short_text<O: OffsetSizeTrait>(texts: &GenericStringArray<O>, row: usize) -> Option<u128> {
    let start = texts.value_offsets()[row].as_usize();
    let length = texts.value_offsets()[row + 1].as_usize() - start;
    short_view(&texts.value_data()[start..], length)
}

/// Whether the text of a view is in the view.
pub(super) fn is_short(view: u128) -> bool {
    view as u32 as usize <= SHORT_MAX
}

/// The view of the text that `bytes` begin with, if it is so short that it is in its view.
#[inline(always)]
fn short_view(bytes: &[u8], length: usize) -> Option<u128> {
    if length > SHORT_MAX {
        return None;
    }
    let text = match bytes.first_chunk::<16>() {
        // Bytes behind the text are cut off: to copy only its own ones takes many times as long.
        Some(bytes) => u128::from_le_bytes(*bytes) & ((1 << (8 * length)) - 1),
        None => {
            let mut text = [0; 16];
            text[..length].copy_from_slice(&bytes[..length]);
            u128::from_le_bytes(text)
        }
    };
    Some(text << 32 | length as u128)
}

fn words_of(view: u128) -> [u64; 2] {
    [view as u64, (view >> 64) as u64]
}

/// Whether a column of this type is text.
pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// The column of texts with these words.
///
/// # Errors
/// Words that no text has, which would be a defect.
pub(super) fn read(
    data_type: &DataType,
    low: &[u64],
    high: &[u64],
    nulls: Option<&NullBuffer>,
    texts: &Texts,
) -> Result<ArrayRef> {
    let all = texts.0.read();
    let broken = || internal_datafusion_err!("a group's key is no text");
    let each = |add: &mut dyn FnMut(Option<&str>)| -> Result<()> {
        for (row, (low, high)) in low.iter().zip(high).enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                add(None);
            } else if *low == LONG {
                add(Some(all.texts.get(*high as usize).ok_or_else(broken)?));
            } else {
                let view = (u128::from(*high) << 64 | u128::from(*low)).to_le_bytes();
                let length = *low as u32 as usize;
                let bytes = view.get(4..4 + length).ok_or_else(broken)?;
                add(Some(std::str::from_utf8(bytes).map_err(|_| broken())?));
            }
        }
        Ok(())
    };
    Ok(match data_type {
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::with_capacity(low.len());
            each(&mut |text| builder.append_option(text))?;
            Arc::new(builder.finish())
        }
        DataType::LargeUtf8 => {
            let mut builder = LargeStringBuilder::new();
            each(&mut |text| builder.append_option(text))?;
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = StringBuilder::new();
            each(&mut |text| builder.append_option(text))?;
            Arc::new(builder.finish())
        }
    })
}
