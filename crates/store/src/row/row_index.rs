//! [`RowIndex`]: columns by position or by name.

use super::{Layout, RowError};

mod sealed {
    use crate::row::{Layout, RowError};

    /// What [`super::RowIndex`] is made of; nobody else implements it.
    pub trait Sealed: Copy {
        /// The column's position. A position is returned as it is: whoever uses it finds out whether there is such a column.
        fn position(self, layout: &Layout) -> Result<usize, RowError>;
    }
}

use sealed::Sealed;

/// What names a column of a row: its position (`usize`), or its name (`&str`, `&String`).
///
/// A position costs nothing. A name is compared with the names of the table's columns, one after another: where that counts, ask
/// [`crate::Table::column`] for the position once.
///
/// ```
/// use corun_store::{Options, Store, TableDef, Type};
///
/// let store = Store::in_memory(Options::default())?;
/// let definition = TableDef::new("t").column("id", Type::I64).column("size", Type::I32);
/// let table = store.create_table(definition.primary_key(&["id"]))?;
/// let mut row = table.new_row();
/// row.set("id", 1)?;
/// row.set(1, 42)?;
/// assert_eq!(row.row().int("size"), 42);
/// let refused = row.set("sice", 42).unwrap_err();
/// assert_eq!(refused.to_string(), "there is no column \"sice\"; the table has id, size");
/// # Ok::<(), corun_store::StoreError>(())
/// ```
pub trait RowIndex: Sealed {}

impl RowIndex for usize {}
impl RowIndex for &str {}
impl RowIndex for &String {}

impl Sealed for usize {
    #[inline(always)]
    fn position(self, _: &Layout) -> Result<usize, RowError> {
        Ok(self)
    }
}

impl Sealed for &str {
    fn position(self, layout: &Layout) -> Result<usize, RowError> {
        layout.position(self)
    }
}

impl Sealed for &String {
    fn position(self, layout: &Layout) -> Result<usize, RowError> {
        self.as_str().position(layout)
    }
}
