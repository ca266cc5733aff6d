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
mod layout;
mod layouts;
mod row_index;
mod typed;

use std::fmt;

pub use buffer::RowBuf;
pub use error::RowError;
pub use from_field::FromField;
pub use layout::Layout;
pub(crate) use layouts::{Layouts, SHAPES_MAX};
pub use row_index::RowIndex;
pub use typed::{Row, RowField};

use crate::value::{Type, Value};
use layout::{Field, NEVER};

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

    /// Whether it is of this layout.
    #[inline]
    pub(crate) fn has_layout(self, layout: &Layout) -> bool {
        std::ptr::eq(self.layout, layout)
    }

    /// Number of its layout among those of its table.
    #[inline]
    pub(crate) fn layout_number(self) -> u16 {
        self.layout.number()
    }

    /// As [`Layout::bytes_min`].
    pub(crate) fn bytes_min(self) -> usize {
        self.layout.bytes_min()
    }

    /// Columns, those that were added to the table after it was written too.
    pub fn columns(self) -> usize {
        self.layout.whole().columns()
    }

    /// What a column holds.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn data_type(self, column: impl RowIndex) -> Type {
        let column = self.position(column);
        self.that_has(column).layout.data_type(column)
    }

    #[inline(always)]
    fn position(self, column: impl RowIndex) -> usize {
        column
            .position(self.layout)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// This row, or for a column that was added since the one that has its default.
    #[inline]
    fn that_has(self, column: usize) -> RowRef<'a> {
        match column < self.layout.fields.len() {
            true => self,
            false => self.layout.later(column),
        }
    }

    /// The row that has a column ([`RowRef::that_has`]) and its field there, which holds what `fits` wants.
    #[inline(always)]
    fn field(self, column: usize, wanted: &str, fits: impl Fn(&Field) -> bool) -> (RowRef<'a>, &'a Field) {
        let row = self.that_has(column);
        let field = &row.layout.fields[column];
        assert!(
            fits(field),
            "column {column} ({:?}) holds {}, no {wanted}",
            field.name,
            field.data_type
        );
        (row, field)
    }

    /// Bytes of a field as kept.
    #[inline]
    pub(crate) fn raw(self, column: usize) -> &'a [u8] {
        let row = self.that_has(column);
        let (at, length) = row.layout.span(row.bytes, column);
        &row.bytes[at..at + length]
    }

    /// Whether a field is NULL.
    ///
    /// # Panics
    /// If there is no such column.
    #[inline]
    pub fn is_null(self, column: impl RowIndex) -> bool {
        let column = self.position(column);
        let row = self.that_has(column);
        let bit = row.layout.fields[column].null_bit;
        bit != NEVER && row.bytes[bit as usize / 8] & (1 << (bit % 8)) != 0
    }

    /// A field of an integer type, a decimal of at most 18 digits (unscaled), a date or a timestamp; 0 if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    #[inline]
    pub fn int(self, column: impl RowIndex) -> i64 {
        let (row, field) = self.field(self.position(column), "integer", |field| field.is_integer);
        let at = field.at as usize;
        match field.width {
            1 => i64::from(row.bytes[at] as i8),
            2 => i64::from(i16::from_le_bytes(array(row.bytes, at))),
            4 => i64::from(i32::from_le_bytes(array(row.bytes, at))),
            _ => i64::from_le_bytes(array(row.bytes, at)),
        }
    }

    /// A field as [`RowRef::int`] reads it, or a longer decimal; 0 if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    #[inline]
    pub fn decimal(self, column: impl RowIndex) -> i128 {
        let column = self.position(column);
        let (row, field) = self.field(column, "number", |field| {
            field.is_integer || field.data_type.is_wide()
        });
        match field.is_integer {
            true => row.int(column).into(),
            false => i128::from_le_bytes(array(row.bytes, field.at as usize)),
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

    /// A field of [`Type::F64`] or [`Type::F32`]; 0 if NULL.
    ///
    /// # Panics
    /// If there is no such column, or it holds something else.
    pub fn float(self, column: impl RowIndex) -> f64 {
        let column = self.position(column);
        let (row, field) = self.field(column, "float", |field| field.data_type.is_float());
        match field.width {
            4 => f32::from_le_bytes(array(row.raw(column), 0)).into(),
            _ => f64::from_le_bytes(array(row.raw(column), 0)),
        }
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
            other if other.is_float() => Value::Float(self.float(column)),
            other if other.is_wide() => Value::Decimal(self.decimal(column)),
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
        if column >= self.layout.fields.len() && column >= self.columns() {
            return Err(self.layout.no_column(column.to_string()));
        }
        let field = &self.that_has(column).layout.fields[column];
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
            Value::Int(_) | Value::Decimal(_) => RowError::ReadRange {
                column: name(),
                value: value.number().expect("it is one of both"),
                asked,
            },
            _ => RowError::IsNull {
                column: name(),
                asked,
            },
        })
    }
}

impl RowRef<'_> {
    /// The row as a struct.
    ///
    /// # Errors
    /// As [`RowRef::get`], for each of its columns.
    pub fn read<T: Row>(self) -> Result<T, RowError> {
        T::read(self)
    }
}

impl PartialEq for RowRef<'_> {
    /// Rows of one layout are equal if their bytes are, others of one table if the values of all columns are.
    fn eq(&self, other: &Self) -> bool {
        if self.has_layout(other.layout) {
            return self.bytes == other.bytes;
        }
        let columns = self.columns();
        columns == other.columns() && (0..columns).all(|column| self.value(column) == other.value(column))
    }
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}
