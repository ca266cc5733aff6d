//! [`Row`]: a struct as a row of a table, and [`RowField`]: what its fields may be.

use super::{RowBuf, RowError, RowRef};
use crate::schema::TableDef;
use crate::value::{Type, Value};

/// A struct as a row of a table. `#[derive(Row)]` implements it for structs with named fields:
///
/// ```
/// use corun_store::{Options, Row, Store, Type};
///
/// #[derive(Row, Debug, PartialEq)]
/// #[row(table = "account", primary_key(id), index(by_owner(owner, id)), unique(by_mail(mail)))]
/// struct Account {
///     id: i64,
///     #[row(type = Type::Text { max: 40 })]
///     owner: String,
///     mail: Option<String>,
///     #[row(name = "cents", type = Type::Decimal { precision: 12, scale: 2 })]
///     balance: i64,
/// }
///
/// let store = Store::in_memory(Options::default())?;
/// let accounts = store.create_table_if_missing(Account::definition())?;
/// let ada = Account { id: 1, owner: "Ada".into(), mail: None, balance: 100_00 };
/// let mut session = store.session_here()?;
/// session.run(|transaction| transaction.insert(&accounts, &accounts.row(&ada)?))?;
/// let found = store.snapshot()?.fetch(&accounts.primary(), &[1.into()])?.unwrap().row.read::<Account>()?;
/// assert_eq!(found, ada);
/// # Ok::<(), corun_store::StoreError>(())
/// ```
///
/// | attribute | of | says |
/// | --- | --- | --- |
/// | `table = "..."` | the struct | the table's name; it must be there |
/// | `primary_key(a, b)`, `index(name(a, b))`, `unique(name(a, b))` | the struct | names of fields, the most significant first |
/// | `name = "..."` | a field | the column's name, if it is another than the field's |
/// | `default = ...` | a field | what rows have that do not set the column: those of before it was added, for example |
/// | `type = Type::...` | a field | the column's type, if it is another than [`RowField::TYPE`] of the field's |
///
/// A field that is not there, or a struct without the table's name, does not compile:
///
/// ```compile_fail
/// #[derive(corun_store::Row)]
/// #[row(table = "t", primary_key(key))]
/// struct Wrong {
///     id: i64,
/// }
/// ```
///
/// ```compile_fail
/// #[derive(corun_store::Row)]
/// struct Nameless {
///     id: i64,
/// }
/// ```
pub trait Row: Sized {
    /// The definition of the table: for [`crate::Store::create_table_if_missing`].
    fn definition() -> TableDef;

    /// The values of a row's columns of these names. Other columns may be there.
    ///
    /// # Errors
    /// As [`RowRef::get`].
    fn read(row: RowRef<'_>) -> Result<Self, RowError>;

    /// Sets the columns of these names.
    ///
    /// # Errors
    /// As [`RowBuf::set`].
    fn write(&self, row: &mut RowBuf) -> Result<(), RowError>;
}

/// What a field of a [`Row`] may be; an `Option` is a column that may be NULL.
pub trait RowField: Sized {
    /// The column's type, if the struct names none.
    const TYPE: Type;
    /// Whether the column may be NULL.
    const NULLABLE: bool = false;

    /// It as a value.
    fn value(&self) -> Value<'_>;

    /// Reads it.
    ///
    /// # Errors
    /// As [`RowRef::get`].
    fn read(row: RowRef<'_>, column: &str) -> Result<Self, RowError>;
}

macro_rules! fields {
    ($($t:ty, $of:expr, $self:ident => $value:expr;)*) => {$(
        impl RowField for $t {
            const TYPE: Type = $of;

            fn value(&$self) -> Value<'_> {
                Value::from($value)
            }

            fn read(row: RowRef<'_>, column: &str) -> Result<Self, RowError> {
                row.get(column)
            }
        }
    )*};
}
fields! {
    bool, Type::Bool, self => *self;
    i8, Type::I8, self => *self;
    i16, Type::I16, self => *self;
    i32, Type::I32, self => *self;
    i64, Type::I64, self => *self;
    i128, Type::Decimal { precision: 38, scale: 0 }, self => *self;
    u8, Type::I16, self => *self;
    u16, Type::I32, self => *self;
    u32, Type::I64, self => *self;
    f64, Type::F64, self => *self;
    String, Type::TEXT, self => self;
    Vec<u8>, Type::BYTES, self => self;
}

impl<const N: usize> RowField for [u8; N] {
    const TYPE: Type = Type::FixedBytes { bytes: N as u32 };

    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }

    fn read(row: RowRef<'_>, column: &str) -> Result<Self, RowError> {
        let bytes: &[u8] = row.get(column)?;
        bytes.try_into().map_err(|_| RowError::Length {
            column: column.to_owned(),
            expected: Self::TYPE,
            bytes: bytes.len(),
        })
    }
}

impl<T: RowField> RowField for Option<T> {
    const TYPE: Type = T::TYPE;
    const NULLABLE: bool = true;

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::value)
    }

    fn read(row: RowRef<'_>, column: &str) -> Result<Self, RowError> {
        match row.get(column)? {
            Value::Null => Ok(None),
            _ => T::read(row, column).map(Some),
        }
    }
}
