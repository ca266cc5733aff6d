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

/// Where a field lies.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// From this byte of the row.
    Fixed { offset: u32 },
    /// In this slot of the fields kept with their length.
    Variable { slot: u32 },
}

#[derive(Clone, Debug)]
struct Field {
    data_type: Type,
    place: Place,
    /// Bit that says NULL, of columns that can be.
    null_bit: Option<u32>,
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
        let (mut variables, mut bits) = (0_u32, 0_u32);
        let mut field = |column: &ColumnDef| {
            let place = match column.data_type.fixed_bytes() {
                Some(bytes) => {
                    let place = Place::Fixed {
                        offset: offset as u32,
                    };
                    offset += bytes;
                    place
                }
                None => {
                    variables += 1;
                    Place::Variable { slot: variables - 1 }
                }
            };
            let null_bit = column.nullable.then(|| {
                bits += 1;
                bits - 1
            });
            Field {
                data_type: column.data_type,
                place,
                null_bit,
                name: column.name.clone(),
            }
        };
        let fields: Vec<Field> = columns.iter().map(&mut field).collect();
        let longest: usize = columns.iter().map(|column| column.data_type.bytes_max()).sum();
        let end_bytes = if longest <= usize::from(u16::MAX) { 2 } else { 4 };
        let variables = variables as usize;
        let mut empty = vec![0; offset + variables * end_bytes];
        for field in &fields {
            if let Some(bit) = field.null_bit {
                empty[bit as usize / 8] |= 1 << (bit % 8);
            }
            if let (Type::FixedText { bytes }, Place::Fixed { offset }) = (field.data_type, field.place) {
                empty[offset as usize..][..bytes as usize].fill(b' ');
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
        let sorted = ends.clone().is_sorted();
        if !sorted || ends.last().unwrap_or(0) != bytes.len() - data_at {
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
        match field.place {
            Place::Fixed { offset } => {
                let bytes = field.data_type.fixed_bytes().expect("placed as fixed");
                (offset as usize, bytes)
            }
            Place::Variable { slot } => {
                let slot = slot as usize;
                let start = if slot == 0 { 0 } else { self.end(bytes, slot - 1) };
                (self.empty.len() + start, self.end(bytes, slot) - start)
            }
        }
    }
}

/// A row that can be read. Columns are named by position.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
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
        match self.layout.fields[column].null_bit {
            None => false,
            Some(bit) => self.bytes[bit as usize / 8] & (1 << (bit % 8)) != 0,
        }
    }

    /// A field of an integer type, a decimal (unscaled), a date or a timestamp; 0 if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    #[inline]
    pub fn int(self, column: usize) -> i64 {
        let field = &self.layout.fields[column];
        let Place::Fixed { offset } = field.place else {
            panic!("column {column} ({:?}) holds {}", field.name, field.data_type);
        };
        let at = offset as usize;
        match field.data_type {
            Type::I8 => i64::from(self.bytes[at] as i8),
            Type::I16 => i64::from(i16::from_le_bytes(array(self.bytes, at))),
            Type::I32 | Type::Date => i64::from(i32::from_le_bytes(array(self.bytes, at))),
            Type::I64 | Type::Decimal { .. } | Type::Timestamp => i64::from_le_bytes(array(self.bytes, at)),
            other => panic!("column {column} ({:?}) holds {other}, no integer", field.name),
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
#[derive(Clone, Debug)]
pub struct RowBuf {
    layout: Arc<Layout>,
    bytes: Vec<u8>,
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
    pub fn set<'v>(&mut self, column: usize, value: impl Into<Value<'v>>) -> Result<(), RowError> {
        let value = value.into();
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
                let Some(bit) = null_bit else {
                    return Err(RowError::Null { column: name() });
                };
                // The field goes back to its first state, so that equal rows are equal bytes.
                let span = self.layout.span(&self.layout.empty, column);
                let layout = Arc::clone(&self.layout);
                self.put(column, &layout.empty[span.0..span.0 + span.1]);
                self.bytes[bit as usize / 8] |= 1 << (bit % 8);
                return Ok(());
            }
            Value::Int(value) => {
                let Some((least, most)) = data_type.integer_range() else {
                    return Err(self.wrong(column, Value::Int(value)));
                };
                if !(least..=most).contains(&value) {
                    return Err(RowError::Range {
                        column: name(),
                        expected: data_type,
                        value,
                    });
                }
                let bytes = data_type.fixed_bytes().expect("integers are fixed");
                self.put(column, &value.to_le_bytes()[..bytes]);
            }
            Value::Bool(value) if data_type == Type::Bool => self.put(column, &[u8::from(value)]),
            Value::Float(value) if data_type == Type::F64 => self.put(column, &value.to_le_bytes()),
            Value::Text(text) if data_type.is_text() => self.put_bytes(column, text.as_bytes())?,
            Value::Bytes(bytes) if data_type.is_bytes() => self.put_bytes(column, bytes)?,
            other => return Err(self.wrong(column, other)),
        }
        if let Some(bit) = null_bit {
            self.bytes[bit as usize / 8] &= !(1 << (bit % 8));
        }
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
        let Place::Variable { slot } = self.layout.fields[column].place else {
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            return;
        };
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
