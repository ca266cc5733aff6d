//! How rows are written and read, column after column.
//!
//! A place where rows are kept implements [`ColumnWriter`] and [`ColumnReader`]. A row's `write` and `read`, which `tables!`
//! derives from a list of columns, call them with all columns in order. Nothing is dispatched at run time: every kind of row has code of its
//! own for every place.
//!
//! What it is not: the choice of indexes, which engines make.

use std::fmt::Display;
use std::str::FromStr;

use corun_store::{ColumnDef, Type};

use crate::engine::TxError;
use crate::text::Text;

/// Takes the columns of a row one after the other. Every method fails where the next column does not take the value.
pub trait ColumnWriter {
    /// Why a column is refused.
    type Error;

    /// Takes an integer.
    fn integer<T: Integer>(&mut self, value: T) -> Result<(), Self::Error>;

    /// Takes an integer or NULL.
    fn integer_or_null<T: Integer>(&mut self, value: Option<T>) -> Result<(), Self::Error>;

    /// Takes true or false.
    fn flag(&mut self, value: bool) -> Result<(), Self::Error>;

    /// Takes a text.
    fn text<const MAX: usize>(&mut self, text: &Text<MAX>) -> Result<(), Self::Error>;

    /// Takes one of several texts, where each may be given room for the longest.
    fn padded_text<const MAX: usize>(&mut self, text: &Text<MAX>) -> Result<(), Self::Error> {
        self.text(text)
    }
}

/// Returns the columns of a row one after the other. Every method fails where the next column is not what is asked for.
pub trait ColumnReader {
    /// An integer.
    fn integer<T: Integer>(&mut self) -> Result<T, TxError>;

    /// An integer, or `None` for NULL.
    fn integer_or_null<T: Integer>(&mut self) -> Result<Option<T>, TxError>;

    /// True or false.
    fn flag(&mut self) -> Result<bool, TxError>;

    /// A text.
    fn text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError>;

    /// A text that was written as [`ColumnWriter::padded_text`].
    fn padded_text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError> {
        self.text()
    }
}

/// A field of a row: one column, or several.
pub trait Field: Sized {
    /// Number of columns.
    const COLUMNS: usize;
    /// Bytes in the value of a key-value store; `usize::MAX` where they differ from row to row.
    const BYTES: usize;

    /// Adds its columns. `name` is the name, or what all names begin with; `data_type` replaces the usual type.
    fn describe(name: &str, data_type: Option<Type>, columns: &mut Vec<ColumnDef>);

    /// Writes its columns.
    fn write<W: ColumnWriter>(&self, to: &mut W) -> Result<(), W::Error>;

    /// Reads its columns.
    fn read<R: ColumnReader>(from: &mut R) -> Result<Self, TxError>;
}

/// An integer of a row, and of bytes; a place beyond their end is an error.
pub trait Integer: Copy + PartialEq + Display + FromStr + TryFrom<i64> + Into<i64> {
    /// The smallest one: NULL in key-value stores.
    const MIN: Self;

    /// The integer at a place of bytes, little-endian.
    fn read(bytes: &[u8], at: usize) -> Result<Self, TxError>;

    /// Replaces the integer at a place.
    fn write(self, bytes: &mut [u8], at: usize) -> Result<(), TxError>;

    /// Adds it at the end.
    fn push(self, bytes: &mut Vec<u8>);

    /// The integer at a place of a key, big-endian: keys order as the integers do, which are not negative.
    fn read_key(key: &[u8], at: usize) -> Result<Self, TxError>;

    /// Adds it at the end of a key.
    fn push_key(self, key: &mut Vec<u8>);
}

/// The error of a value or key that ends too early.
pub(super) fn damaged() -> TxError {
    TxError::failed("a stored row is shorter than its columns: it was not written by this version")
}

/// A field of one column, which one method writes and reads.
macro_rules! field {
    ($field:ty [$($max:ident)?], $bytes:expr, $data_type:expr, null $nullable:literal, $method:ident($($by_value:tt)?)) => {
        impl$(<const $max: usize>)? Field for $field {
            const COLUMNS: usize = 1;
            const BYTES: usize = $bytes;

            fn describe(name: &str, data_type: Option<Type>, columns: &mut Vec<ColumnDef>) {
                columns.push(ColumnDef {
                    name: name.to_owned(),
                    data_type: data_type.unwrap_or($data_type),
                    nullable: $nullable,
                    default: None,
                });
            }

            #[inline]
            fn write<W: ColumnWriter>(&self, to: &mut W) -> Result<(), W::Error> {
                to.$method($($by_value)? self)
            }

            #[inline]
            fn read<R: ColumnReader>(from: &mut R) -> Result<Self, TxError> {
                from.$method()
            }
        }
    };
}

macro_rules! integers {
    ($($integer:ty = $data_type:expr;)*) => {$(
        field!($integer [], size_of::<$integer>(), $data_type, null false, integer(*));
        field!(Option<$integer> [], size_of::<$integer>(), $data_type, null true, integer_or_null(*));

        impl Integer for $integer {
            const MIN: Self = <$integer>::MIN;

            #[inline]
            fn read(bytes: &[u8], at: usize) -> Result<Self, TxError> {
                let place = bytes.get(at..).and_then(|rest| rest.first_chunk());
                place.map(|place| Self::from_le_bytes(*place)).ok_or_else(damaged)
            }

            #[inline]
            fn write(self, bytes: &mut [u8], at: usize) -> Result<(), TxError> {
                let place = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
                *place.ok_or_else(damaged)? = self.to_le_bytes();
                Ok(())
            }

            #[inline]
            fn push(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn read_key(key: &[u8], at: usize) -> Result<Self, TxError> {
                let place = key.get(at..).and_then(|rest| rest.first_chunk());
                place.map(|place| Self::from_be_bytes(*place)).ok_or_else(damaged)
            }

            #[inline]
            fn push_key(self, key: &mut Vec<u8>) {
                key.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

integers! {
    i8 = Type::I8;
    i16 = Type::I16;
    i32 = Type::I32;
    i64 = Type::I64;
}
field!(bool [], 1, Type::Bool, null false, flag(*));
field!(Text<MAX> [MAX], usize::MAX, Type::Text { max: MAX as u32 }, null false, text());

/// Columns whose names end with their numbers, from 01.
impl<const MAX: usize, const COUNT: usize> Field for [Text<MAX>; COUNT] {
    const COLUMNS: usize = COUNT;
    const BYTES: usize = COUNT * padded_bytes(MAX);

    fn describe(name: &str, data_type: Option<Type>, columns: &mut Vec<ColumnDef>) {
        for number in 1..=COUNT {
            Text::<MAX>::describe(&format!("{name}{number:02}"), data_type, columns);
        }
    }

    #[inline]
    fn write<W: ColumnWriter>(&self, to: &mut W) -> Result<(), W::Error> {
        self.iter().try_for_each(|text| to.padded_text(text))
    }

    #[inline]
    fn read<R: ColumnReader>(from: &mut R) -> Result<Self, TxError> {
        let mut texts = [Text::default(); COUNT];
        for text in &mut texts {
            *text = from.padded_text()?;
        }
        Ok(texts)
    }
}

/// Bytes of a padded text in the value of a key-value store: two of its length, and room for the longest.
pub(super) const fn padded_bytes(max: usize) -> usize {
    2 + max
}
