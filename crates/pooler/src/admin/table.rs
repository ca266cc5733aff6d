//! Rows of the console as messages of the protocol.

use corun_wire::build;

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// No value.
    Null,
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
}

impl Cell {
    /// As text.
    pub fn text(&self) -> Option<String> {
        match self {
            Cell::Null => None,
            Cell::Text(text) => Some(text.clone()),
            Cell::Number(number) => Some(number.to_string()),
        }
    }

    /// As it is sent: numbers are binary if the client wants them so, and the binary format of text is the text.
    fn bytes(&self, binary: bool) -> Option<Vec<u8>> {
        match self {
            Cell::Number(number) if binary => Some(number.to_be_bytes().to_vec()),
            cell => cell.text().map(String::into_bytes),
        }
    }
}

/// Types that can stand in a column.
pub trait Value {
    /// Whether it is a number.
    const NUMBER: bool;

    /// The cell.
    fn cell(&self) -> Cell;

    /// The value of a cell as another proxy's console sent it, `None` being NULL. `None`: it is none of this type.
    fn read(text: Option<&str>) -> Option<Self>
    where
        Self: Sized;
}

impl Value for String {
    const NUMBER: bool = false;

    fn read(text: Option<&str>) -> Option<Self> {
        text.map(str::to_owned)
    }

    fn cell(&self) -> Cell {
        // A zero byte would end the value's text in clients written in C.
        Cell::Text(self.replace('\0', " "))
    }
}

impl Value for u64 {
    const NUMBER: bool = true;

    fn read(text: Option<&str>) -> Option<Self> {
        text?.parse().ok()
    }

    fn cell(&self) -> Cell {
        Cell::Number(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

/// 0 or 1, as PgBouncer shows it.
impl Value for bool {
    const NUMBER: bool = true;

    fn read(text: Option<&str>) -> Option<Self> {
        match text? {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    fn cell(&self) -> Cell {
        Cell::Number(i64::from(*self))
    }
}

impl<T: Value> Value for Option<T> {
    const NUMBER: bool = T::NUMBER;

    fn read(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(None),
            Some(_) => T::read(text).map(Some),
        }
    }

    fn cell(&self) -> Cell {
        self.as_ref().map_or(Cell::Null, T::cell)
    }
}

/// A row of one of the console's tables.
pub trait Row {
    /// Names of the columns, and whether each is a number.
    const COLUMNS: &'static [(&'static str, bool)];

    /// A value for each column.
    fn cells(&self) -> Vec<Cell>;

    /// The row of `values`, whose columns are called `names`: what [`Row::cells`] wrote, perhaps in another version. Columns not
    /// known here are passed over, those that are missing have their default.
    ///
    /// # Errors
    /// The name of a column whose value is not of its type.
    fn read(names: &[String], values: &[Option<String>]) -> Result<Self, &'static str>
    where
        Self: Sized;
}

/// The name of a field without the mark of words that Rust keeps for itself.
pub(super) const fn strip_raw(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Makes a struct and its columns out of one list.
macro_rules! row {
    ($( $(#[$outer:meta])* $name:ident { $( $(#[$inner:meta])* $field:ident: $type:ty, )* } )*) => { $(
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name {
            $( $(#[$inner])* pub $field: $type, )*
        }

        impl $crate::admin::table::Row for $name {
            const COLUMNS: &'static [(&'static str, bool)] =
                &[ $( ($crate::admin::table::strip_raw(stringify!($field)), <$type as $crate::admin::table::Value>::NUMBER), )* ];

            fn cells(&self) -> Vec<$crate::admin::table::Cell> {
                vec![ $( $crate::admin::table::Value::cell(&self.$field), )* ]
            }

            fn read(names: &[String], values: &[Option<String>]) -> Result<Self, &'static str> {
                let mut row = Self::default();
                $(
                    let name = $crate::admin::table::strip_raw(stringify!($field));
                    let at = names.iter().position(|known| known == name);
                    if let Some(value) = at.and_then(|at| values.get(at)) {
                        row.$field = $crate::admin::table::Value::read(value.as_deref()).ok_or(name)?;
                    }
                )*
                Ok(row)
            }
        }
    )* };
}
pub(super) use row;

/// Columns and rows, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Name, and whether it holds numbers.
    pub columns: Vec<(&'static str, bool)>,
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The table of some rows.
    pub fn of<R: Row>(rows: &[R]) -> Table {
        Table {
            columns: R::COLUMNS.to_vec(),
            rows: rows.iter().map(R::cells).collect(),
        }
    }

    /// Appends description, rows as text, and the end of the command `tag`; not yet that the console is ready.
    pub fn encode(&self, out: &mut Vec<u8>, tag: &str) {
        describe(out, &self.columns, &[]);
        self.encode_rows(out, &[]);
        build::command_complete(out, tag);
    }

    /// Appends the rows, with the formats a client asked for in its Bind.
    pub fn encode_rows(&self, out: &mut Vec<u8>, formats: &[i16]) {
        for row in &self.rows {
            let cells = row.iter().enumerate();
            build::data_row(out, cells.map(|(at, cell)| cell.bytes(is_binary(formats, at))));
        }
    }
}

/// Whether a Bind's formats make this column binary: none means text, one holds for all.
fn is_binary(formats: &[i16], column: usize) -> bool {
    match formats {
        [one] => *one == 1,
        formats => formats.get(column) == Some(&1),
    }
}

/// Appends the description of columns, with the formats a client asked for.
pub(super) fn describe(out: &mut Vec<u8>, columns: &[(&str, bool)], formats: &[i16]) {
    let columns = columns.iter().enumerate().map(|(at, &(name, number))| {
        let oid = if number { build::INT8_OID } else { build::TEXT_OID };
        (name, oid, i16::from(is_binary(formats, at)))
    });
    build::row_description(out, columns);
}
