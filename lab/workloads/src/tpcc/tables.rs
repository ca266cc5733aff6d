//! [`tables!`]: everything about tables that follows from the list of their columns.
//!
//! A table is its documentation, name, row, the fields of its key, its other fields in their order in the value of a key-value store, and
//! its columns. A column is a line: its name (or what the names of several begin with), the row's field, its type, the store's where that is
//! not the usual one, and a note.
//!
//! Derived are the rows' structs, [`super::Row`], [`super::TableName`], where each column is, and how rows are written and read.

macro_rules! tables {
    ($(
        $(#[doc = $doc:literal])*
        $table:ident = $name:literal, $row:ident, key [$($key:ident)*], value [$($value:ident)*] {
            $($column:literal $field:ident: $type:ty $(as $data_type:expr)? $(, $note:literal)?;)*
        }
    )*) => {
        /// The nine tables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum TableName {
            $($(#[doc = $doc])* $table,)*
        }

        impl TableName {
            /// All of them.
            pub const ALL: [TableName; 9] = [$(TableName::$table),*];

            /// The name in SQL.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(TableName::$table => $name,)*
                }
            }

            /// The columns, in the order of the row's fields.
            pub fn columns(self) -> Vec<ColumnDef> {
                let mut columns = Vec::new();
                match self {
                    $(TableName::$table => {
                        $(<$type>::describe($column, Option::<Type>::None$(.or(Some($data_type)))?, &mut columns);)*
                    })*
                }
                columns
            }

            /// The names of the primary key's columns; none of `history`.
            pub fn key(self) -> &'static [&'static str] {
                match self {
                    $(TableName::$table => $row::KEY,)*
                }
            }
        }

        /// A row of any table.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(clippy::large_enum_variant, reason = "rows are handed over one at a time")]
        pub enum Row {
            $(#[doc = concat!("A row of `", $name, "`.")] $row($row),)*
        }

        impl Row {
            /// The table it belongs to.
            pub fn table(&self) -> TableName {
                match self {
                    $(Row::$row(_) => TableName::$table,)*
                }
            }

            /// Writes all columns.
            pub fn write<W: ColumnWriter>(&self, to: &mut W) -> Result<(), W::Error> {
                match self {
                    $(Row::$row(row) => row.write(to),)*
                }
            }

            /// Reads all columns of a row of `table`.
            pub fn read<R: ColumnReader>(table: TableName, from: &mut R) -> Result<Self, TxError> {
                match table {
                    $(TableName::$table => $row::read(from).map(Row::$row),)*
                }
            }

            /// Adds the key and the value in a key-value store; see [`KeyValue`].
            pub(super) fn push_key_value(&self, key: &mut Vec<u8>, value: &mut Vec<u8>) {
                match self {
                    $(Row::$row(row) => {
                        row.push_key(key);
                        row.push_value(value);
                    })*
                }
            }

            /// The row of a key and a value.
            pub(super) fn from_key_value(table: TableName, from: &mut KeyValueReader<'_>) -> Result<Self, TxError> {
                match table {
                    $(TableName::$table => $row::from_key_value(from).map(Row::$row),)*
                }
            }
        }

        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
            pub struct $row {
                $(
                    #[doc = concat!("`", $column, "`" $(, ", ", $note)?)]
                    pub $field: $type,
                )*
            }

            impl $row {
                /// Writes all columns.
                #[inline]
                pub fn write<W: ColumnWriter>(&self, to: &mut W) -> Result<(), W::Error> {
                    $(Field::write(&self.$field, to)?;)*
                    Ok(())
                }

                /// Reads all columns.
                #[inline]
                pub fn read<R: ColumnReader>(from: &mut R) -> Result<Self, TxError> {
                    Ok(Self { $($field: Field::read(from)?,)* })
                }
            }

            #[allow(unused_variables, reason = "not every table has a key, or more than a key")]
            impl KeyValue for $row {
                #[inline]
                fn push_key(&self, key: &mut Vec<u8>) {
                    $(Integer::push_key(self.$key, key);)*
                }

                #[inline]
                fn push_value(&self, value: &mut Vec<u8>) {
                    let to = &mut ValueWriter(value);
                    $(let Ok(()) = Field::write(&self.$value, to);)*
                }

                #[inline]
                fn from_key_value(from: &mut KeyValueReader<'_>) -> Result<Self, TxError> {
                    Ok(Self {
                        $($key: from.key()?,)*
                        $($value: Field::read(from)?,)*
                    })
                }
            }

            const _: () = {
                /// One for each field.
                #[derive(Clone, Copy)]
                pub struct Each<T> {
                    $(#[doc = concat!("`", stringify!($field), "`")] pub $field: T,)*
                }

                impl $row {
                    /// The names of the primary key's columns.
                    const KEY: &'static [&'static str] = {
                        let _names = Each { $($field: $column,)* };
                        &[$(_names.$key,)*]
                    };

                    /// Where each field's first column is among the table's columns.
                    pub const COLUMN: Each<usize> = {
                        let mut next = 0;
                        Each { $($field: { next += <$type>::COLUMNS; next - <$type>::COLUMNS },)* }
                    };

                    /// Where each field begins in the value of a key-value store; `usize::MAX`, beyond all values, for fields of the
                    /// key and those behind one whose length differs from row to row.
                    #[allow(unused_mut, unused_variables, unused_assignments, reason = "not every table has more than a key")]
                    pub const PLACE: Each<usize> = {
                        let bytes = Each { $($field: <$type>::BYTES,)* };
                        let (mut place, mut next) = (Each { $($field: usize::MAX,)* }, 0_usize);
                        $(
                            place.$value = next;
                            next = next.saturating_add(bytes.$value);
                        )*
                        place
                    };
                }
            };
        )*
    };
}
pub(super) use tables;
