//! Values of rows in a key-value store, and rows from keys and values.
//!
//! A key is the columns of the primary key, big-endian; a value is the other columns, in the order of [`crate::tpcc::row`]'s lists: first
//! those that transactions change, at fixed places (`Stock::PLACE`, `Customer::PLACE`, ...), so that a change is made in place, without
//! taking the row apart:
//!
//! ```text
//! customer  | balance 8 | ytd_payment 8 | payments 4 | deliveries 4 | limit 8 | since 8 | discount 2 | texts ... data |
//! stock     | quantity 4 | ytd 8 | orders 4 | remotes 4 | 10 x (length 2, 24) | data |
//! district  | next_order 4 | ytd 8 | tax 2 | texts ... |
//! warehouse | ytd 8 | tax 2 | texts ... |
//! order     | carrier 1 | customer 4 | entry 8 | lines 1 | all_local 1 |
//! line      | delivery 8 | amount 8 | item 4 | supply 2 | quantity 1 | district_info |
//! ```
//!
//! Integers of values are little-endian; a text is its length in two bytes and its bytes. NULL is the smallest integer.

use std::convert::Infallible;
use std::ops::Add;

use crate::engine::TxError;
use crate::text::Text;
use crate::tpcc::columns::{ColumnReader, ColumnWriter, Integer, damaged, padded_bytes};

/// Bytes of one of a stock's ten texts.
pub(super) const DISTRICT_BYTES: usize = padded_bytes(24);

/// A row as a key and a value.
pub(in crate::tpcc) trait KeyValue: Sized {
    /// Adds the columns of the primary key.
    fn push_key(&self, key: &mut Vec<u8>);

    /// Adds the other columns.
    fn push_value(&self, value: &mut Vec<u8>);

    /// The row of a key and a value.
    fn from_key_value(from: &mut KeyValueReader<'_>) -> Result<Self, TxError>;
}

/// Writes a row's key and value.
pub(super) fn encode(row: &impl KeyValue, key: &mut Vec<u8>, value: &mut Vec<u8>) {
    key.clear();
    value.clear();
    row.push_key(key);
    row.push_value(value);
}

/// The row of a key and a value.
pub(super) fn decode<R: KeyValue>(key: &[u8], value: &[u8]) -> Result<R, TxError> {
    R::from_key_value(&mut KeyValueReader::new(key, value))
}

/// Adds to the integer at a place.
pub(super) fn add<T: Integer + Add<Output = T>>(value: &mut [u8], at: usize, by: T) -> Result<(), TxError> {
    (T::read(value, at)? + by).write(value, at)
}

/// The text at a place.
pub(super) fn text_at(value: &[u8], at: usize) -> Result<&[u8], TxError> {
    let length = i16::read(value, at)? as usize;
    value.get(at + 2..at + 2 + length).ok_or_else(damaged)
}

/// Adds columns at the end of a value.
pub(in crate::tpcc) struct ValueWriter<'a>(pub &'a mut Vec<u8>);

impl ColumnWriter for ValueWriter<'_> {
    type Error = Infallible;

    #[inline]
    fn integer<T: Integer>(&mut self, value: T) -> Result<(), Infallible> {
        value.push(self.0);
        Ok(())
    }

    #[inline]
    fn integer_or_null<T: Integer>(&mut self, value: Option<T>) -> Result<(), Infallible> {
        self.integer(value.unwrap_or(T::MIN))
    }

    #[inline]
    fn flag(&mut self, value: bool) -> Result<(), Infallible> {
        self.integer(i8::from(value))
    }

    #[inline]
    fn text<const MAX: usize>(&mut self, text: &Text<MAX>) -> Result<(), Infallible> {
        self.integer(text.len() as i16)?;
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }

    #[inline]
    fn padded_text<const MAX: usize>(&mut self, text: &Text<MAX>) -> Result<(), Infallible> {
        self.text(text)?;
        self.0.resize(self.0.len() + MAX - text.len(), 0);
        Ok(())
    }
}

/// Reads the columns of a key and of a value one after the other.
pub(in crate::tpcc) struct KeyValueReader<'a> {
    key: &'a [u8],
    key_at: usize,
    value: &'a [u8],
    value_at: usize,
}

impl<'a> KeyValueReader<'a> {
    /// From the first columns on.
    pub fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        Self {
            key,
            key_at: 0,
            value,
            value_at: 0,
        }
    }

    /// The next column of the key.
    #[inline]
    pub fn key<T: Integer>(&mut self) -> Result<T, TxError> {
        let column = T::read_key(self.key, self.key_at)?;
        self.key_at += size_of::<T>();
        Ok(column)
    }
}

impl ColumnReader for KeyValueReader<'_> {
    #[inline]
    fn integer<T: Integer>(&mut self) -> Result<T, TxError> {
        let column = T::read(self.value, self.value_at)?;
        self.value_at += size_of::<T>();
        Ok(column)
    }

    #[inline]
    fn integer_or_null<T: Integer>(&mut self) -> Result<Option<T>, TxError> {
        let column: T = self.integer()?;
        Ok((column != T::MIN).then_some(column))
    }

    #[inline]
    fn flag(&mut self) -> Result<bool, TxError> {
        Ok(self.integer::<i8>()? != 0)
    }

    #[inline]
    fn text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError> {
        let bytes = text_at(self.value, self.value_at)?;
        self.value_at += 2 + bytes.len();
        Ok(Text::from_bytes(bytes)?)
    }

    #[inline]
    fn padded_text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError> {
        let bytes = text_at(self.value, self.value_at)?;
        self.value_at += padded_bytes(MAX);
        Ok(Text::from_bytes(bytes)?)
    }
}

#[cfg(test)]
mod tests;
