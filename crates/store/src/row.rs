//! Rows as bytes: [`Layout`], [`RowRef`] to read one, [`RowBuf`] to make one. Columns are named by [`RowIndex`].
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

mod buffer;
mod error;
mod from_field;
mod row_index;

use std::fmt;

pub use buffer::RowBuf;
pub use error::RowError;
pub use from_field::FromField;
pub use row_index::RowIndex;

use crate::schema::{ColumnDef, TableDef};
use crate::value::{Type, Value};

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
    /// A bit for each column that has no NULL, 64 to a word.
    required: Vec<u64>,
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
        let mut required = vec![0; fields.len().div_ceil(64)];
        for (column, _) in fields
            .iter()
            .enumerate()
            .filter(|(_, field)| field.null_bit == NEVER)
        {
            required[column / 64] |= 1 << (column % 64);
        }
        Layout {
            fields,
            ends_at: offset,
            end_bytes,
            variables,
            empty,
            required,
        }
    }

    #[cold]
    fn no_column(&self, column: String) -> RowError {
        RowError::NoColumn {
            column,
            columns: self.fields.iter().map(|field| field.name.clone()).collect(),
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

/// A row that can be read. Columns are named by position or by name ([`RowIndex`]).
///
/// [`RowRef::get`] checks everything and returns errors. The others are the fast path, for columns that the program knows: they panic
/// where there is no such column or it holds something else, and return a default for NULL; [`RowRef::is_null`] tells it apart.
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

    /// As [`Layout::bytes_min`].
    pub(crate) fn bytes_min(self) -> usize {
        self.layout.bytes_min()
    }

    /// Columns.
    pub fn columns(self) -> usize {
        self.layout.columns()
    }

    /// What a column holds.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn data_type(self, column: impl RowIndex) -> Type {
        self.layout.data_type(self.position(column))
    }

    #[inline(always)]
    fn position(self, column: impl RowIndex) -> usize {
        column
            .position(self.layout)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The field of a column that holds what `fits` wants.
    #[inline(always)]
    fn field(self, column: usize, wanted: &str, fits: impl Fn(&Field) -> bool) -> &'a Field {
        let field = &self.layout.fields[column];
        assert!(
            fits(field),
            "column {column} ({:?}) holds {}, no {wanted}",
            field.name,
            field.data_type
        );
        field
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
    pub fn is_null(self, column: impl RowIndex) -> bool {
        let bit = self.layout.fields[self.position(column)].null_bit;
        bit != NEVER && self.bytes[bit as usize / 8] & (1 << (bit % 8)) != 0
    }

    /// A field of an integer type, a decimal (unscaled), a date or a timestamp; 0 if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    #[inline]
    pub fn int(self, column: impl RowIndex) -> i64 {
        let field = self.field(self.position(column), "integer", |field| field.is_integer);
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
    pub fn boolean(self, column: impl RowIndex) -> bool {
        let column = self.position(column);
        self.field(column, "bool", |field| field.data_type == Type::Bool);
        self.raw(column)[0] != 0
    }

    /// A field of [`Type::F64`]; 0 if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    pub fn float(self, column: impl RowIndex) -> f64 {
        let column = self.position(column);
        self.field(column, "f64", |field| field.data_type == Type::F64);
        f64::from_le_bytes(array(self.raw(column), 0))
    }

    /// A field of a text type; empty (or blanks) if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    pub fn text(self, column: impl RowIndex) -> &'a str {
        let column = self.position(column);
        self.field(column, "text", |field| field.data_type.is_text());
        // SAFETY: fields of text are only set from `&str`, and rows read from files are checked by `Layout::accepts`.
        unsafe { std::str::from_utf8_unchecked(self.raw(column)) }
    }

    /// A field of a byte type, or the bytes of a text; empty (or zeros) if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    pub fn bytes(self, column: impl RowIndex) -> &'a [u8] {
        let column = self.position(column);
        self.field(column, "bytes", |field| {
            field.data_type.is_bytes() || field.data_type.is_text()
        });
        self.raw(column)
    }

    /// Any field, as it is kept; [`Value::Null`] if NULL.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn value(self, column: impl RowIndex) -> Value<'a> {
        let column = self.position(column);
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

    /// A field as a Rust type; NULL as the `None` of an `Option`.
    ///
    /// ```
    /// # use corun_store::{Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let table = store.create_table(
    /// #     TableDef::new("t").column("id", Type::I64).nullable("name", Type::Text { max: 9 }).primary_key(&["id"]),
    /// # )?;
    /// let mut row = table.new_row();
    /// row.set("id", 7)?;
    /// let row = row.row();
    /// assert_eq!(row.get::<i64>("id")?, 7);
    /// assert_eq!(row.get::<Option<&str>>("name")?, None);
    /// let refused = row.get::<&str>("name").unwrap_err();
    /// assert_eq!(refused.to_string(), "column \"name\" is NULL; read it as Option<&str>");
    /// let refused = row.get::<bool>("id").unwrap_err();
    /// assert_eq!(refused.to_string(), "column \"id\" holds i64, which cannot be read as bool");
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`RowError::NoColumn`]; [`RowError::Read`] if the column's type is none that [`FromField`] lists for the type;
    /// [`RowError::IsNull`] if the field is NULL and the type is no `Option`; [`RowError::ReadRange`].
    pub fn get<T: FromField<'a>>(self, column: impl RowIndex) -> Result<T, RowError> {
        let column = column.position(self.layout)?;
        let Some(field) = self.layout.fields.get(column) else {
            return Err(self.layout.no_column(column.to_string()));
        };
        let (name, asked) = (|| field.name.clone(), T::NAME);
        if !T::reads(field.data_type) {
            return Err(RowError::Read {
                column: name(),
                holds: field.data_type,
                asked,
            });
        }
        let value = self.value(column);
        T::of(value).ok_or_else(|| match value {
            Value::Int(value) => RowError::ReadRange {
                column: name(),
                value,
                asked,
            },
            _ => RowError::IsNull {
                column: name(),
                asked,
            },
        })
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
