//! Rows as bytes: [`Layout`], [`RowRef`] to read one, [`RowBuf`] to make one.
//!
//! ```text
//!  NULL bits        fields of fixed size      ends of the others       their bytes
//! ┌──────────────┬───────┬─────┬──────────┬───────┬───────┬───────┬──────────────┬─────┐
//! │ 1 bit for    │ id    │ ... │ balance  │ end 0 │ end 1 │  ...  │ owner        │ ... │    little-endian,
//! │ each nullable│ 8 B   │     │ 8 B      │ 2/4 B │       │       │              │     │    nothing aligned
//! └──────────────┴───────┴─────┴──────────┴───────┴───────┴───────┴──────────────┴─────┘
//! ```
//!
//! Ends count from the first byte behind them. They take two bytes where no row can be longer than 64 KiB.
//!
//! What it is not: a version. Who wrote a row when is beside its bytes.

use std::fmt;
use std::sync::Arc;

use crate::schema::{ColumnDef, TableDef};
use crate::value::{Type, Value};

/// Why a field could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The column holds something else.
    #[error("column {column:?} holds {expected}, not {found}")]
    Type {
        /// The column.
        column: String,
        /// Its type.
        expected: Type,
        /// What was given.
        found: String,
    },
    /// NULL for a column that has none.
    #[error("column {column:?} cannot be NULL")]
    Null {
        /// The column.
        column: String,
    },
    /// More than the column takes.
    #[error("column {column:?} takes {expected}, not {bytes} bytes")]
    Length {
        /// The column.
        column: String,
        /// Its type.
        expected: Type,
        /// Bytes given.
        bytes: usize,
    },
    /// A number beyond the column's.
    #[error("column {column:?} holds {expected}; {value} is out of its range")]
    Range {
        /// The column.
        column: String,
        /// Its type.
        expected: Type,
        /// What was given.
        value: i64,
    },
    /// No such column.
    #[error("there is no column {position}; the table has {columns}")]
    NoColumn {
        /// Position asked for.
        position: usize,
        /// Columns there are.
        columns: usize,
    },
    /// The row is of another table.
    #[error("the row was made for another table than {table:?}")]
    OtherTable {
        /// The table.
        table: String,
    },
}

/// Bit number of fields that are never NULL.
const NEVER: u32 = u32::MAX;

/// What is asked of a field for every row is worked out once.
#[derive(Clone, Debug)]
struct Field {
    data_type: Type,
    /// First byte in the row of a fixed field; of the others, their number among those kept with their length.
    at: u32,
    /// Bytes of a fixed field; 0 for the others (a fixed field of no bytes lies anywhere).
    width: u32,
    is_fixed: bool,
    is_integer: bool,
    /// Bit that says NULL, or `NEVER`.
    null_bit: u32,
    /// Smallest and largest integer.
    least: i64,
    most: i64,
    name: String,
}

/// Where the fields of a table's rows lie.
#[derive(Debug)]
pub struct Layout {
    fields: Vec<Field>,
    /// First byte of the ends.
    ends_at: usize,
    /// Bytes of one end: 2 or 4.
    end_bytes: usize,
    variables: usize,
    /// A row of NULLs, zeros and empty texts.
    empty: Vec<u8>,
}

impl Layout {
    /// Of a definition that was checked.
    pub(crate) fn new(definition: &TableDef) -> Self {
        let columns = &definition.columns;
        let nullable = columns.iter().filter(|column| column.nullable).count();
        let mut offset = nullable.div_ceil(8);
        let (mut variables, mut bits) = (0_usize, 0_u32);
        let mut field = |column: &ColumnDef| {
            let data_type = column.data_type;
            let width = data_type.fixed_bytes();
            let at = match width {
                Some(bytes) => {
                    offset += bytes;
                    offset - bytes
                }
                None => {
                    variables += 1;
                    variables - 1
                }
            };
            let null_bit = if column.nullable {
                bits += 1;
                bits - 1
            } else {
                NEVER
            };
            let (least, most) = data_type.integer_range().unwrap_or((0, -1));
            Field {
                data_type,
                at: at as u32,
                width: width.unwrap_or(0) as u32,
                is_fixed: width.is_some(),
                is_integer: data_type.is_integer(),
                null_bit,
                least,
                most,
                name: column.name.clone(),
            }
        };
        let fields: Vec<Field> = columns.iter().map(&mut field).collect();
        let longest: usize = columns.iter().map(|column| column.data_type.bytes_max()).sum();
        let end_bytes = if longest <= usize::from(u16::MAX) { 2 } else { 4 };
        let mut empty = vec![0; offset + variables * end_bytes];
        for field in &fields {
            let bit = field.null_bit;
            if bit != NEVER {
                empty[bit as usize / 8] |= 1 << (bit % 8);
            }
            if let Type::FixedText { bytes } = field.data_type {
                empty[field.at as usize..][..bytes as usize].fill(b' ');
            }
        }
        Layout {
            fields,
            ends_at: offset,
            end_bytes,
            variables,
            empty,
        }
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.fields.len()
    }

    /// Bytes of a row without its texts and bytes that are kept with their length.
    pub(crate) fn bytes_min(&self) -> usize {
        self.empty.len()
    }

    /// What a column holds.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn data_type(&self, column: usize) -> Type {
        self.fields[column].data_type
    }

    /// Whether `bytes` can be a row: long enough, its ends in order, its texts UTF-8.
    pub(crate) fn accepts(&self, bytes: &[u8]) -> bool {
        let data_at = self.empty.len();
        if bytes.len() < data_at {
            return false;
        }
        let ends = (0..self.variables).map(|slot| self.end(bytes, slot));
        let last = self
            .variables
            .checked_sub(1)
            .map_or(0, |slot| self.end(bytes, slot));
        if !ends.is_sorted() || last != bytes.len() - data_at {
            return false;
        }
        let row = RowRef { layout: self, bytes };
        let text_is_sound = |column: usize| std::str::from_utf8(row.raw(column)).is_ok();
        (0..self.columns()).all(|column| !self.data_type(column).is_text() || text_is_sound(column))
    }

    #[inline]
    fn end(&self, bytes: &[u8], slot: usize) -> usize {
        if self.end_bytes == 2 {
            let at = self.ends_at + slot * 2;
            usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
        } else {
            let at = self.ends_at + slot * 4;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
        }
    }

    /// First byte and length of a field.
    #[inline]
    fn span(&self, bytes: &[u8], column: usize) -> (usize, usize) {
        let field = &self.fields[column];
        if field.is_fixed {
            return (field.at as usize, field.width as usize);
        }
        let slot = field.at as usize;
        let start = if slot == 0 { 0 } else { self.end(bytes, slot - 1) };
        (self.empty.len() + start, self.end(bytes, slot) - start)
    }
}

/// A row that can be read. Columns are named by position.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
}

impl fmt::Debug for RowRef<'_> {
    /// The values of all columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = (0..self.columns()).map(|column| self.value(column));
        f.debug_list().entries(values).finish()
    }
}

impl<'a> RowRef<'a> {
    /// Of bytes this layout's [`RowBuf`] made, or that it accepts.
    #[inline]
    pub(crate) fn new(layout: &'a Layout, bytes: &'a [u8]) -> Self {
        RowRef { layout, bytes }
    }

    /// The row as it is kept.
    pub fn encoded(self) -> &'a [u8] {
        self.bytes
    }

    /// Columns.
    pub fn columns(self) -> usize {
        self.layout.columns()
    }

    /// What a column holds.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn data_type(self, column: usize) -> Type {
        self.layout.data_type(column)
    }

    /// Bytes of a field as kept.
    #[inline]
    pub(crate) fn raw(self, column: usize) -> &'a [u8] {
        let (at, length) = self.layout.span(self.bytes, column);
        &self.bytes[at..at + length]
    }

    /// Whether a field is NULL.
    ///
    /// # Panics
    /// If there is no such column.
    #[inline]
    pub fn is_null(self, column: usize) -> bool {
        let bit = self.layout.fields[column].null_bit;
        bit != NEVER && self.bytes[bit as usize / 8] & (1 << (bit % 8)) != 0
    }

    /// A field of an integer type, a decimal (unscaled), a date or a timestamp; 0 if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    #[inline]
    pub fn int(self, column: usize) -> i64 {
        let field = &self.layout.fields[column];
        assert!(
            field.is_integer,
            "column {column} ({:?}) holds {}, no integer",
            field.name, field.data_type
        );
        let at = field.at as usize;
        match field.width {
            1 => i64::from(self.bytes[at] as i8),
            2 => i64::from(i16::from_le_bytes(array(self.bytes, at))),
            4 => i64::from(i32::from_le_bytes(array(self.bytes, at))),
            _ => i64::from_le_bytes(array(self.bytes, at)),
        }
    }

    /// A field of [`Type::Bool`]; false if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    pub fn boolean(self, column: usize) -> bool {
        assert_eq!(self.data_type(column), Type::Bool, "column {column}");
        self.raw(column)[0] != 0
    }

    /// A field of [`Type::F64`]; 0 if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    pub fn float(self, column: usize) -> f64 {
        assert_eq!(self.data_type(column), Type::F64, "column {column}");
        f64::from_le_bytes(array(self.raw(column), 0))
    }

    /// A field of a text type; empty (or blanks) if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    pub fn text(self, column: usize) -> &'a str {
        let data_type = self.data_type(column);
        assert!(data_type.is_text(), "column {column} holds {data_type}, no text");
        // SAFETY: fields of text are only set from `&str`, and rows read from files are checked by `Layout::accepts`.
        unsafe { std::str::from_utf8_unchecked(self.raw(column)) }
    }

    /// A field of a byte type, or the bytes of a text; empty (or zeros) if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    pub fn bytes(self, column: usize) -> &'a [u8] {
        let data_type = self.data_type(column);
        let fits = data_type.is_bytes() || data_type.is_text();
        assert!(fits, "column {column} holds {data_type}, no bytes");
        self.raw(column)
    }

    /// Any field.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn value(self, column: usize) -> Value<'a> {
        if self.is_null(column) {
            return Value::Null;
        }
        match self.data_type(column) {
            Type::Bool => Value::Bool(self.boolean(column)),
            Type::F64 => Value::Float(self.float(column)),
            other if other.is_text() => Value::Text(self.text(column)),
            other if other.is_bytes() => Value::Bytes(self.bytes(column)),
            _ => Value::Int(self.int(column)),
        }
    }
}

impl PartialEq for RowRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

/// A row being made. It begins with NULL where that is possible, and with 0, empty or blanks elsewhere.
#[derive(Clone)]
pub struct RowBuf {
    layout: Arc<Layout>,
    bytes: Vec<u8>,
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
            bytes: layout.empty.clone(),
        }
    }

    /// Becomes a copy of bytes this layout accepts.
    pub(crate) fn load(&mut self, layout: &Arc<Layout>, bytes: &[u8]) {
        if !Arc::ptr_eq(&self.layout, layout) {
            self.layout = Arc::clone(layout);
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Becomes as new.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&self.layout.empty);
    }

    /// The row as it is now.
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
    pub fn set<'v>(&mut self, column: usize, value: impl Into<Value<'v>>) -> Result<(), RowError> {
        let value = value.into();
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
            self.not_null(bit);
            return Ok(());
        }
        self.set_other(column, value)
    }

    #[inline]
    fn not_null(&mut self, bit: u32) {
        if bit != NEVER {
            self.bytes[bit as usize / 8] &= !(1 << (bit % 8));
        }
    }

    /// Sets what is no integer, or refuses one.
    fn set_other(&mut self, column: usize, value: Value<'_>) -> Result<(), RowError> {
        let Some(field) = self.layout.fields.get(column) else {
            return Err(RowError::NoColumn {
                position: column,
                columns: self.layout.columns(),
            });
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
                    value,
                });
            }
            Value::Bool(value) if data_type == Type::Bool => self.put(column, &[u8::from(value)]),
            Value::Float(value) if data_type == Type::F64 => self.put(column, &value.to_le_bytes()),
            Value::Text(text) if data_type.is_text() => self.put_bytes(column, text.as_bytes())?,
            Value::Bytes(bytes) if data_type.is_bytes() => self.put_bytes(column, bytes)?,
            other => return Err(self.wrong(column, other)),
        }
        self.not_null(null_bit);
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
        let fits = match data_type {
            Type::FixedBytes { bytes: exactly } => bytes.len() == exactly as usize,
            other => bytes.len() <= other.bytes_max(),
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
