//! The columns that a statement gives values for, and a row that is filled with them.

use crate::catalog::folded;
use crate::session::Zone;
use crate::write::{Column, ColumnDefault, Stored, TableInfo, assign, put, value_of};
use corun_store::{RowBuf, RowRef};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Format, Value};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

/// Bytes of a value that are shown of a row that is refused, as with PostgreSQL.
const SHOWN_BYTES: usize = 64;

/// Positions of the columns that a list names; all of a table where it names none.
///
/// # Errors
/// 42703 of one that is not there, 42701 of one that is there twice.
pub(crate) fn positions<'n>(
    info: &TableInfo,
    names: impl ExactSizeIterator<Item = &'n Ident>,
) -> Result<Vec<usize>, Refusal> {
    if names.len() == 0 {
        return Ok((0..info.columns.len()).collect());
    }
    let mut found: Vec<usize> = Vec::with_capacity(names.len());
    let mut seen = vec![false; info.columns.len()];
    for name in names {
        let at = position(info, name)?;
        if std::mem::replace(&mut seen[at], true) {
            let what = format!("column \"{}\" specified more than once", info.columns[at].name);
            return Err(Refusal::new("42701", what));
        }
        found.push(at);
    }
    Ok(found)
}

/// The position of a column.
///
/// # Errors
/// 42703.
pub(crate) fn position(info: &TableInfo, name: &Ident) -> Result<usize, Refusal> {
    let name = folded(name);
    info.column(&name).ok_or_else(|| {
        let what = format!("column \"{name}\" of relation \"{}\" does not exist", info.name);
        Refusal::new("42703", what)
    })
}

/// A name in a list of columns or constraints, which has no table before it.
///
/// # Errors
/// A name of several parts.
pub(crate) fn column_name<'n>(info: &TableInfo, name: &'n ObjectName) -> Result<&'n Ident, Refusal> {
    let first = name.0.first().and_then(|part| part.as_ident());
    match (name.0.len(), first) {
        (1, Some(name)) => Ok(name),
        (_, Some(first)) => Err(no_column(info, &folded(first))),
        (_, None) => Err(Refusal::new(
            code::SYNTAX_ERROR,
            format!("{name} is no name of a column"),
        )),
    }
}

fn no_column(info: &TableInfo, name: &str) -> Refusal {
    let what = format!("column \"{name}\" of relation \"{}\" does not exist", info.name);
    Refusal::new("42703", what)
}

/// Fills rows of a table, one after the other, and sees that no column is NULL that cannot be.
pub(crate) struct Filler<'a> {
    info: &'a TableInfo,
    zone: Zone,
    row: RowBuf,
    /// Columns that are NULL unless they are set, and cannot be.
    unset: Vec<usize>,
    nulls: Vec<usize>,
    is_used: bool,
}

impl<'a> Filler<'a> {
    /// `given` are the columns that each row sets.
    pub(crate) fn new(info: &'a TableInfo, zone: Zone, given: &[usize]) -> Self {
        let is_unset = |at: &usize| {
            let Column {
                nullable, default, ..
            } = &info.columns[*at];
            !nullable && matches!(default, ColumnDefault::None) && !given.contains(at)
        };
        Filler {
            info,
            zone,
            row: info.table.new_row(),
            unset: (0..info.columns.len()).filter(is_unset).collect(),
            nulls: Vec::new(),
            is_used: false,
        }
    }

    /// Another row: its columns have their constant defaults, or are NULL.
    pub(crate) fn begin(&mut self) {
        if std::mem::replace(&mut self.is_used, true) {
            self.row.clear();
        }
        self.nulls.clear();
        self.nulls.extend_from_slice(&self.unset);
    }

    /// Gives a column a value.
    ///
    /// # Errors
    /// One that it does not take.
    #[inline]
    pub(crate) fn set(&mut self, at: usize, value: Option<&Value<'_>>) -> Result<(), Refusal> {
        let column = &self.info.columns[at];
        if value.is_none() && !column.nullable {
            self.nulls.push(at);
            return Ok(());
        }
        assign(column, at, value, &self.zone, &mut self.row)
    }

    /// Gives a column a value that is its own.
    ///
    /// # Errors
    /// One that is longer than the store takes.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, value: &Stored<'_>) -> Result<(), Refusal> {
        put(&self.info.columns[at], at, value, &mut self.row)
    }

    /// A column keeps its default: the constant, or NULL.
    pub(crate) fn leave(&mut self, at: usize) {
        let Column {
            nullable, default, ..
        } = &self.info.columns[at];
        if !nullable && matches!(default, ColumnDefault::None) {
            self.nulls.push(at);
        }
    }

    /// The row.
    ///
    /// # Errors
    /// 23502.
    pub(crate) fn finish(&self) -> Result<&RowBuf, Refusal> {
        match self.nulls.iter().min() {
            None => Ok(&self.row),
            Some(first) => Err(self.null(*first)),
        }
    }

    /// Gives away the row that was finished, for another that may be used.
    pub(crate) fn exchange(&mut self, other: &mut RowBuf) {
        std::mem::swap(&mut self.row, other);
        self.is_used = true;
    }

    #[cold]
    fn null(&self, at: usize) -> Refusal {
        null_refused(self.info, at, self.row.row(), &self.nulls, self.zone)
    }
}

/// What is told of a NULL in a column that has none.
pub(crate) fn null_refused(
    info: &TableInfo,
    at: usize,
    row: RowRef<'_>,
    nulls: &[usize],
    zone: Zone,
) -> Refusal {
    let what = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        info.columns[at].name, info.name
    );
    Refusal::new("23502", what).detail(failing_row(info, row, nulls, zone))
}

/// `Failing row contains (1, null).` `nulls` are columns that were to be NULL, and cannot in the row.
pub(crate) fn failing_row(info: &TableInfo, row: RowRef<'_>, nulls: &[usize], zone: Zone) -> String {
    let shown = info.columns.iter().enumerate().map(|(at, column)| {
        let value = match nulls.contains(&at) {
            true => None,
            false => value_of(column, at, row),
        };
        let Some(value) = value else {
            return "null".to_owned();
        };
        let text = text_of(&value, zone);
        match text.len() > SHOWN_BYTES {
            true => format!("{}...", &text[..text.floor_char_boundary(SHOWN_BYTES)]),
            false => text,
        }
    });
    format!("Failing row contains ({}).", shown.collect::<Vec<_>>().join(", "))
}

/// A value as clients see it.
pub(crate) fn text_of(value: &Value<'_>, zone: Zone) -> String {
    let mut text = Vec::new();
    value.write(&mut text, Format::Text, &zone);
    String::from_utf8_lossy(&text).into_owned()
}
