//! [`Layout`]: where the fields of a row lie, and what it says of columns that were added after the row was written.
//!
//! ```text
//! shape 0        shape 1            shape 2                  a table's, one more for each change of its columns ([`super::Layouts`])
//!  id, name       id, name, size     id, label, size         a column was added, and one was renamed
//!  │              │                  └── bytes as of shape 1
//!  └──────────────┴─► rows of before: a column that they lack is as in the initial row of the shape in which they are read
//! ```
//!
//! What it is not: in a row's bytes. Which layout a row has is beside them ([`crate::version`]).

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::{RowBuf, RowError, RowRef};
use crate::schema::ColumnDef;
use crate::value::Type;

/// Bit number of fields that are never NULL.
pub(super) const NEVER: u32 = u32::MAX;

/// What is asked of a field for every row is worked out once.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) data_type: Type,
    /// First byte in the row of a fixed field; of the others, their number among those kept with their length.
    pub(super) at: u32,
    /// Bytes of a fixed field; 0 for the others (a fixed field of no bytes lies anywhere).
    pub(super) width: u32,
    pub(super) is_fixed: bool,
    pub(super) is_integer: bool,
    /// Bit that says NULL, or `NEVER`.
    pub(super) null_bit: u32,
    /// Smallest and largest integer.
    pub(super) least: i64,
    pub(super) most: i64,
    pub(super) name: String,
}

/// Where the fields of a table's rows lie.
#[derive(Debug)]
pub struct Layout {
    /// The shape of its table that first had rows of these bytes.
    number: u16,
    /// The shape of its table that it belongs to.
    shape: u16,
    columns: Vec<ColumnDef>,
    pub(super) fields: Vec<Field>,
    /// First byte of the ends.
    pub(super) ends_at: usize,
    /// Bytes of one end: 2 or 4.
    pub(super) end_bytes: usize,
    pub(super) variables: usize,
    /// A row of NULLs, zeros and empty texts.
    pub(super) empty: Vec<u8>,
    /// The same with the defaults of the columns that have one: what a new row begins with.
    pub(super) initial: Vec<u8>,
    /// A bit for each column that has neither NULL nor a default, 64 to a word.
    pub(super) required: Vec<u64>,
    /// Of rows of before: the layout whose columns are shown. Those that these rows lack are behind theirs.
    shown_as: Option<Arc<Layout>>,
    table: Weak<Newest>,
}

/// The layout of a table that is shown to all.
pub(super) type Newest = RwLock<Option<Arc<Layout>>>;

impl Layout {
    /// Of columns that were checked.
    pub(crate) fn new(columns: Vec<ColumnDef>) -> Arc<Self> {
        Layout::of_table(columns, (0, 0), Weak::new())
    }

    /// Of columns that were checked: its number, and that of its shape.
    pub(super) fn of_table(
        columns: Vec<ColumnDef>,
        (number, shape): (u16, u16),
        table: Weak<Newest>,
    ) -> Arc<Self> {
        let mut layout = Layout::without_defaults(columns);
        (layout.number, layout.shape, layout.table) = (number, shape, table);
        let mut layout = Arc::new(layout);
        let mut row = RowBuf::new(&layout);
        for (column, definition) in layout.columns.iter().enumerate() {
            if let Some(default) = &definition.default {
                row.set(column, default.value())
                    .expect("a default that was checked");
            }
        }
        let initial = row.into_encoded();
        let only = Arc::get_mut(&mut layout).expect("the row is gone");
        only.initial = initial;
        layout
    }

    fn without_defaults(columns: Vec<ColumnDef>) -> Self {
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
        for (at, column) in columns.iter().enumerate() {
            if !column.nullable && column.default.is_none() {
                required[at / 64] |= 1 << (at % 64);
            }
        }
        Layout {
            number: 0,
            shape: 0,
            columns,
            fields,
            ends_at: offset,
            end_bytes,
            variables,
            initial: empty.clone(),
            empty,
            required,
            shown_as: None,
            table: Weak::new(),
        }
    }

    /// How rows of this layout are read as those of a later shape, whose layout is `shown_as`.
    pub(super) fn shown_as(&self, shown_as: &Arc<Layout>) -> Arc<Layout> {
        let columns = shown_as.columns[..self.columns.len()].to_vec();
        let mut layout = Layout::without_defaults(columns);
        (layout.number, layout.shape) = (self.number, shown_as.shape);
        layout.shown_as = Some(Arc::clone(shown_as));
        Arc::new(layout)
    }

    /// The layout that its table shows to all, if that has come after this one, and this one was not rolled back.
    pub(super) fn newest(&self) -> Option<Arc<Layout>> {
        let newest = self.table.upgrade()?.read().clone()?;
        let same = |(old, new): (&ColumnDef, &ColumnDef)| {
            old.data_type == new.data_type && old.nullable == new.nullable
        };
        let goes_on = newest.shape > self.shape
            && newest.columns.len() >= self.columns.len()
            && self.columns.iter().zip(&newest.columns).all(same);
        goes_on.then_some(newest)
    }

    /// The layout with all columns that are shown.
    pub(super) fn whole(&self) -> &Layout {
        self.shown_as.as_deref().unwrap_or(self)
    }

    /// The row that says what the column of a row of this layout holds that was added later.
    ///
    /// # Panics
    /// If there is no such column.
    #[cold]
    pub(super) fn later(&self, column: usize) -> RowRef<'_> {
        let whole = self.whole();
        assert!(
            column < whole.fields.len(),
            "{}",
            self.no_column(column.to_string())
        );
        RowRef::new(whole, &whole.initial)
    }

    /// What rows of its bytes are marked with.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The shape of its table that it belongs to.
    pub(super) fn shape(&self) -> u16 {
        self.shape
    }

    /// Its columns as defined.
    pub(crate) fn definitions(&self) -> &[ColumnDef] {
        &self.columns
    }

    /// Position of a column that is shown.
    pub(super) fn position(&self, name: &str) -> Result<usize, RowError> {
        let mut fields = self.whole().fields.iter();
        fields
            .position(|field| field.name == name)
            .ok_or_else(|| self.no_column(format!("{name:?}")))
    }

    #[cold]
    pub(super) fn no_column(&self, column: String) -> RowError {
        let fields = &self.whole().fields;
        RowError::NoColumn {
            column,
            columns: fields.iter().map(|field| field.name.clone()).collect(),
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
        let row = RowRef::new(self, bytes);
        let text_is_sound = |column: usize| std::str::from_utf8(row.raw(column)).is_ok();
        (0..self.columns()).all(|column| !self.data_type(column).is_text() || text_is_sound(column))
    }

    #[inline]
    pub(super) fn end(&self, bytes: &[u8], slot: usize) -> usize {
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
    pub(super) fn span(&self, bytes: &[u8], column: usize) -> (usize, usize) {
        let field = &self.fields[column];
        if field.is_fixed {
            return (field.at as usize, field.width as usize);
        }
        let slot = field.at as usize;
        let start = if slot == 0 { 0 } else { self.end(bytes, slot - 1) };
        (self.empty.len() + start, self.end(bytes, slot) - start)
    }
}
