//! Rows of TPC-C to and from rows of the store.

use corun_store::{RowBuf, RowError, RowRef};

use crate::engine::TxError;
use crate::text::Text;
use crate::tpcc::columns::{ColumnReader, ColumnWriter, Field, Integer};

/// Sets columns one after the other.
pub(super) struct Filler<'a> {
    buffer: &'a mut RowBuf,
    column: usize,
}

impl<'a> Filler<'a> {
    /// From the first column on of `buffer`, which becomes as new.
    pub fn new(buffer: &'a mut RowBuf) -> Self {
        buffer.clear();
        Self { buffer, column: 0 }
    }

    #[inline]
    fn put<'v>(&mut self, value: impl Into<corun_store::Value<'v>>) -> Result<(), RowError> {
        self.buffer.set(self.column, value)?;
        self.column += 1;
        Ok(())
    }
}

impl ColumnWriter for Filler<'_> {
    type Error = RowError;

    #[inline]
    fn integer<T: Integer>(&mut self, value: T) -> Result<(), RowError> {
        self.put(value.into())
    }

    #[inline]
    fn integer_or_null<T: Integer>(&mut self, value: Option<T>) -> Result<(), RowError> {
        self.put(value.map(T::into))
    }

    #[inline]
    fn flag(&mut self, value: bool) -> Result<(), RowError> {
        self.put(value)
    }

    #[inline]
    fn text<const MAX: usize>(&mut self, text: &Text<MAX>) -> Result<(), RowError> {
        self.put(text.as_str())
    }
}

/// Reads columns one after the other.
pub(super) struct Reader<'a> {
    pub row: RowRef<'a>,
    /// The next one.
    pub column: usize,
}

impl Reader<'_> {
    #[inline]
    fn next(&mut self) -> usize {
        self.column += 1;
        self.column - 1
    }
}

impl ColumnReader for Reader<'_> {
    #[inline]
    fn integer<T: Integer>(&mut self) -> Result<T, TxError> {
        let column = self.next();
        let value = self.row.int(column);
        T::try_from(value)
            .map_err(|_| TxError::failed(format!("column {column} holds {value}, beyond its type")))
    }

    #[inline]
    fn integer_or_null<T: Integer>(&mut self) -> Result<Option<T>, TxError> {
        if self.row.is_null(self.column) {
            self.column += 1;
            Ok(None)
        } else {
            self.integer().map(Some)
        }
    }

    #[inline]
    fn flag(&mut self) -> Result<bool, TxError> {
        let column = self.next();
        Ok(self.row.boolean(column))
    }

    #[inline]
    fn text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError> {
        let column = self.next();
        Ok(Text::from_bytes(self.row.bytes(column))?)
    }
}

/// The field whose first column is `column`.
#[inline]
pub(super) fn field<T: Field>(row: RowRef<'_>, column: usize) -> Result<T, TxError> {
    T::read(&mut Reader { row, column })
}
