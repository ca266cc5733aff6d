//! [`RowBuf`]: a row being made.

use std::fmt;
use std::sync::Arc;

use super::layout::NEVER;
use super::{Layout, Layouts, RowError, RowIndex, RowRef};
use crate::schema::ROW_BYTES_MAX;
use crate::value::{Type, Value};

/// A row being made. It begins with the defaults of its columns, or NULL; a column that has neither must be set before the row is inserted.
///
/// One that was made before a column was added to its table still can be inserted: that column has its default then, or what it is set to.
#[derive(Clone)]
pub struct RowBuf {
    layout: Arc<Layout>,
    bytes: Vec<u8>,
    /// A bit for each column that has no NULL and was not set, as `Layout::required`. Empty for a row that was whole from the beginning.
    missing: Vec<u64>,
}

impl fmt::Debug for RowBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row().fmt(f)
    }
}

impl RowBuf {
    /// A row as it begins.
    pub(crate) fn new(layout: &Arc<Layout>) -> Self {
        RowBuf {
            layout: Arc::clone(layout),
            bytes: layout.initial.clone(),
            missing: layout.required.clone(),
        }
    }

    /// Becomes a copy of a row of the table whose newest layout this is.
    pub(crate) fn load(&mut self, layout: &Arc<Layout>, row: RowRef<'_>) {
        if !Arc::ptr_eq(&self.layout, layout) {
            self.layout = Arc::clone(layout);
        }
        if !std::ptr::eq(row.layout, &**layout) {
            *self = RowBuf::upgraded(row, layout);
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(row.bytes);
        self.missing.clear();
    }

    /// A row of an older layout as one of the newest: what was added since has its default.
    #[cold]
    pub(crate) fn upgraded(row: RowRef<'_>, newest: &Arc<Layout>) -> RowBuf {
        RowBuf::upgraded_without(row, newest, &[])
    }

    fn upgraded_without(row: RowRef<'_>, newest: &Arc<Layout>, missing: &[u64]) -> RowBuf {
        let mut buffer = RowBuf::new(newest);
        let is_missing = |column: usize| {
            let bits = missing.get(column / 64).copied().unwrap_or(0);
            bits & 1 << (column % 64) != 0
        };
        for column in (0..row.layout.columns()).filter(|&column| !is_missing(column)) {
            buffer
                .set(column, row.value(column))
                .expect("the column takes what it held");
        }
        buffer
    }

    /// Takes on the newest layout of its table. False if it has that.
    #[cold]
    fn upgrade(&mut self) -> bool {
        let Some(newest) = self.layout.newest() else {
            return false;
        };
        let upgraded = RowBuf::upgraded_without(self.row(), &newest, &self.missing);
        *self = upgraded;
        true
    }

    pub(super) fn into_encoded(self) -> Vec<u8> {
        self.bytes
    }

    /// The row, if it can be one of the table that has these layouts.
    ///
    /// # Errors
    /// [`RowError::OtherTable`], [`RowError::LongRow`], [`RowError::NotSet`].
    pub(crate) fn whole(&self, table: &str, layouts: &Layouts) -> Result<RowRef<'_>, RowError> {
        if !layouts.has(&self.layout) {
            return Err(RowError::OtherTable {
                table: table.to_owned(),
            });
        }
        if self.bytes.len() > ROW_BYTES_MAX {
            return Err(RowError::LongRow {
                bytes: self.bytes.len(),
            });
        }
        let mut missing = self.missing.iter().enumerate();
        match missing.find(|(_, bits)| **bits != 0) {
            None => Ok(self.row()),
            Some((word, bits)) => {
                let column = word * 64 + bits.trailing_zeros() as usize;
                Err(RowError::NotSet {
                    column: self.layout.fields[column].name.clone(),
                })
            }
        }
    }

    /// Becomes as new: nothing is set.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&self.layout.initial);
        self.missing.clear();
        self.missing.extend_from_slice(&self.layout.required);
    }

    /// The row as it is now; 0, empty or blanks where a column without NULL was not set.
    #[inline]
    pub fn row(&self) -> RowRef<'_> {
        RowRef::new(&self.layout, &self.bytes)
    }

    /// Sets a field.
    ///
    /// # Errors
    /// If there is no such column, or it does not take the value: of another type, NULL, too long, out of range. Then the
    /// row is as before.
    #[inline]
    pub fn set<'v>(&mut self, column: impl RowIndex, value: impl Into<Value<'v>>) -> Result<(), RowError> {
        let value = value.into();
        let column = match column.position(&self.layout) {
            Ok(column) => column,
            Err(error) => self.position_now(column).ok_or(error)?,
        };
        if let (Value::Int(value), Some(field)) = (value, self.layout.fields.get(column))
            && (field.least..=field.most).contains(&value)
        {
            let (at, bytes) = (field.at as usize, value.to_le_bytes());
            match field.width {
                1 => self.bytes[at] = bytes[0],
                2 => self.bytes[at..at + 2].copy_from_slice(&bytes[..2]),
                4 => self.bytes[at..at + 4].copy_from_slice(&bytes[..4]),
                _ => self.bytes[at..at + 8].copy_from_slice(&bytes),
            }
            let bit = field.null_bit;
            self.note_set(column, bit);
            return Ok(());
        }
        self.set_other(column, value)
    }

    /// The position of a column that came, or got its name, after the row was begun.
    #[cold]
    fn position_now(&mut self, column: impl RowIndex) -> Option<usize> {
        match self.upgrade() {
            true => column.position(&self.layout).ok(),
            false => None,
        }
    }

    /// The column has a value now.
    #[inline]
    fn note_set(&mut self, column: usize, null_bit: u32) {
        if null_bit != NEVER {
            self.bytes[null_bit as usize / 8] &= !(1 << (null_bit % 8));
        } else if let Some(bits) = self.missing.get_mut(column / 64) {
            *bits &= !(1 << (column % 64));
        }
    }

    /// Sets what is no integer, or refuses one.
    fn set_other(&mut self, column: usize, value: Value<'_>) -> Result<(), RowError> {
        let Some(field) = self.layout.fields.get(column) else {
            // Perhaps it was added after the row was begun.
            return match self.upgrade() {
                true => self.set(column, value),
                false => Err(self.layout.no_column(column.to_string())),
            };
        };
        let name = || field.name.clone();
        let data_type = field.data_type;
        let null_bit = field.null_bit;
        match value {
            Value::Null => {
                if null_bit == NEVER {
                    return Err(RowError::Null { column: name() });
                }
                // The field goes back to its first state, so that equal rows are equal bytes.
                let (at, length) = self.layout.span(&self.layout.empty, column);
                let layout = Arc::clone(&self.layout);
                self.put(column, &layout.empty[at..at + length]);
                self.bytes[null_bit as usize / 8] |= 1 << (null_bit % 8);
                return Ok(());
            }
            Value::Int(value) if field.is_integer => {
                return Err(RowError::Range {
                    column: name(),
                    expected: data_type,
                    value: value.into(),
                });
            }
            Value::Int(_) | Value::Decimal(_) if data_type.number_range().is_some() => {
                let (least, most) = data_type.number_range().expect("it was just asked");
                let value = value.number().expect("it is one of both");
                if !(least..=most).contains(&value) {
                    return Err(RowError::Range {
                        column: name(),
                        expected: data_type,
                        value,
                    });
                }
                // Little-endian: a narrow field takes the first bytes.
                let width = field.width as usize;
                self.put(column, &value.to_le_bytes()[..width]);
            }
            Value::Bool(value) if data_type == Type::Bool => self.put(column, &[u8::from(value)]),
            Value::Float(value) if data_type == Type::F64 => self.put(column, &value.to_le_bytes()),
            // Rounded, as SQL does; what is too large is refused.
            Value::Float(value)
                if data_type == Type::F32 && (value as f32).is_finite() == value.is_finite() =>
            {
                self.put(column, &(value as f32).to_le_bytes());
            }
            Value::Text(text) if data_type.is_text() => self.put_bytes(column, text.as_bytes())?,
            Value::Bytes(bytes) if data_type.is_bytes() => self.put_bytes(column, bytes)?,
            other => return Err(self.wrong(column, other)),
        }
        self.note_set(column, null_bit);
        Ok(())
    }

    fn wrong(&self, column: usize, value: Value<'_>) -> RowError {
        let field = &self.layout.fields[column];
        RowError::Type {
            column: field.name.clone(),
            expected: field.data_type,
            found: value.to_string(),
        }
    }

    /// Text or bytes, if they fit.
    fn put_bytes(&mut self, column: usize, bytes: &[u8]) -> Result<(), RowError> {
        let field = &self.layout.fields[column];
        let data_type = field.data_type;
        let fits = match data_type.exact_bytes() {
            Some(exactly) => bytes.len() == exactly,
            None => bytes.len() <= data_type.bytes_max().min(ROW_BYTES_MAX),
        };
        if !fits {
            return Err(RowError::Length {
                column: field.name.clone(),
                expected: data_type,
                bytes: bytes.len(),
            });
        }
        self.put(column, bytes);
        if let Type::FixedText { bytes: exactly } = data_type {
            let (at, _) = self.layout.span(&self.bytes, column);
            self.bytes[at + bytes.len()..at + exactly as usize].fill(b' ');
        }
        Ok(())
    }

    /// Writes a field's bytes: over the beginning of a fixed one, instead of the others.
    fn put(&mut self, column: usize, bytes: &[u8]) {
        let (at, length) = self.layout.span(&self.bytes, column);
        let field = &self.layout.fields[column];
        if field.is_fixed {
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            return;
        }
        let slot = field.at;
        if length == bytes.len() {
            self.bytes[at..at + length].copy_from_slice(bytes);
            return;
        }
        self.bytes.splice(at..at + length, bytes.iter().copied());
        let layout = &self.layout;
        for later in slot as usize..layout.variables {
            let end = layout.end(&self.bytes, later) + bytes.len() - length;
            let place = layout.ends_at + later * layout.end_bytes;
            self.bytes[place..place + layout.end_bytes]
                .copy_from_slice(&(end as u32).to_le_bytes()[..layout.end_bytes]);
        }
    }
}
