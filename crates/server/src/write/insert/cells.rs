//! [`Values`]: the rows of `INSERT ... VALUES`.
//!
//! ```text
//!   literal, typed literal, signed number ─► a value of the column, read and checked once, before any row
//!   $n                                    ─► a parameter of the column's type
//!   DEFAULT, now()                        ─► such
//!   anything else                         ─► planned, with others, as a query without tables
//! ```

use super::super::select::{check_type, is_default};
use super::plans::{OneRow, TOGETHER};
use super::target::Filler;
use crate::session::{ClientSession, Zone, byte_of, cells_as};
use crate::write::{Column, Stored, TableInfo, store_type, stored};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Format, Kind, Numeric, Type, Value};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArguments, Parens, UnaryOperator, Value as SqlValue, ValueWithSpan,
};
use std::borrow::Cow;

/// A field of a row.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Default,
    /// It is not taken: the column gives its own value.
    Ignored,
    Null,
    /// As its column keeps it.
    Constant(Stored<'static>),
    /// By its position.
    Parameter(usize),
    /// The moment at which the statement runs.
    Now,
    /// By its position among those that are planned.
    Planned(usize),
}

/// Rows of `VALUES`.
#[derive(Debug)]
pub(super) struct Values {
    rows: usize,
    /// Columns of the table, in the order of the cells of a row.
    columns: Vec<usize>,
    /// Row by row.
    cells: Vec<Cell>,
    planned: Vec<OneRow>,
    /// The first constant that its column does not take.
    wrong: Option<Refusal>,
}

/// What cells become when the statement runs.
pub(super) struct Evaluated<'p> {
    pub(super) now: Value<'static>,
    parameters: Vec<Option<Value<'p>>>,
    planned: Vec<Option<Value<'static>>>,
}

impl Values {
    /// One row of defaults.
    pub(super) fn of_defaults() -> Self {
        Values {
            rows: 1,
            columns: Vec::new(),
            cells: Vec::new(),
            planned: Vec::new(),
            wrong: None,
        }
    }

    /// Reads rows for these columns; those of `ignored` get nothing from them. Types of parameters that are found are added to `types`.
    ///
    /// # Errors
    /// Rows of different lengths; too many or too few cells; a literal that a column cannot read; what cannot be planned.
    pub(super) async fn read(
        session: &ClientSession,
        info: &TableInfo,
        (columns, is_listed): (&[usize], bool),
        ignored: &[usize],
        rows: &[Parens<Vec<Expr>>],
        types: &mut Vec<u32>,
        text: &str,
    ) -> Result<Values, Refusal> {
        let width = rows.first().map_or(0, |row| row.content.len());
        if rows.iter().any(|row| row.content.len() != width) {
            return Err(Refusal::new(
                code::SYNTAX_ERROR,
                "VALUES lists must all be the same length",
            ));
        }
        check_width(columns.len(), width, is_listed)?;
        let columns = columns[..width].to_vec();
        let zone = session.zone();
        let mut cells = Vec::with_capacity(rows.len() * width);
        let mut expressions: Vec<(usize, Expr)> = Vec::new();
        let mut wrong = None;
        for row in rows {
            for (expression, at) in row.content.iter().zip(&columns) {
                let mut reader = CellReader {
                    column: &info.columns[*at],
                    zone,
                    types,
                    text,
                    wrong: &mut wrong,
                };
                let cell = match reader.cell(expression)? {
                    Cell::Default => Cell::Default,
                    _ if ignored.contains(at) => Cell::Ignored,
                    Cell::Planned(_) => {
                        expressions.push((*at, expression.clone()));
                        Cell::Planned(expressions.len() - 1)
                    }
                    cell => cell,
                };
                cells.push(cell);
            }
        }
        let mut planned = Vec::new();
        for part in expressions.chunks(TOGETHER) {
            let of_part = part.iter().map(|(_, expression)| expression.clone());
            let row = OneRow::plan(session, of_part.collect(), types, text).await?;
            for ((at, _), of) in part.iter().zip(row.types()) {
                check_type(&info.columns[*at], of)?;
            }
            planned.push(row);
        }
        Ok(Values {
            rows: rows.len(),
            columns,
            cells,
            planned,
            wrong,
        })
    }

    /// # Errors
    /// A constant that its column does not take: PostgreSQL says so when all else is known to be right.
    pub(super) fn check_constants(&self) -> Result<(), Refusal> {
        self.wrong.clone().map_or(Ok(()), Err)
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether nothing of them is planned.
    pub(super) fn is_plain(&self) -> bool {
        self.planned.is_empty()
    }

    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether all rows have `DEFAULT` for a column.
    pub(super) fn is_default(&self, at: usize) -> bool {
        let width = self.columns.len();
        self.cells
            .iter()
            .skip(at)
            .step_by(width.max(1))
            .all(|cell| *cell == Cell::Default)
    }

    /// Whether a row uses the default of the column of a cell.
    pub(super) fn uses_default(&self, row: usize, at: usize) -> bool {
        let cell = self.cells.get(row * self.columns.len() + at);
        matches!(cell, Some(Cell::Default | Cell::Ignored))
    }

    /// Evaluates what has to be.
    ///
    /// # Errors
    /// Whatever fails.
    pub(super) async fn evaluate<'p>(
        &self,
        session: &mut ClientSession,
        types: &[Type],
        parameters: &'p [ScalarValue],
    ) -> Result<Evaluated<'p>, Refusal> {
        let mut values = vec![None; parameters.len()];
        let mut is_read = vec![false; parameters.len()];
        for cell in &self.cells {
            match cell {
                Cell::Parameter(at) if !is_read.get(*at).copied().unwrap_or(true) => {
                    is_read[*at] = true;
                    let of = types.get(*at).copied().unwrap_or(Type::TEXT);
                    values[*at] = parameter(of, &parameters[*at], session.zone())?;
                }
                _ => {}
            }
        }
        let mut planned = Vec::new();
        for part in &self.planned {
            planned.extend(part.values(session, parameters).await?);
        }
        Ok(Evaluated {
            now: moment()?,
            parameters: values,
            planned,
        })
    }

    /// Sets the columns of a row that are no defaults.
    ///
    /// # Errors
    /// A value that a column does not take.
    pub(super) fn set(
        &self,
        row: usize,
        evaluated: &Evaluated<'_>,
        filler: &mut Filler<'_>,
    ) -> Result<(), Refusal> {
        let begin = row * self.columns.len();
        let cells = self.cells.iter().skip(begin);
        for (cell, at) in cells.zip(&self.columns) {
            match cell {
                Cell::Default | Cell::Ignored => filler.leave(*at),
                Cell::Null => filler.set(*at, None)?,
                Cell::Constant(value) => filler.put(*at, value)?,
                Cell::Now => filler.set(*at, Some(&evaluated.now))?,
                Cell::Parameter(number) => {
                    let value = evaluated.parameters.get(*number).and_then(Option::as_ref);
                    filler.set(*at, value)?;
                }
                Cell::Planned(number) => {
                    let value = evaluated.planned.get(*number).and_then(Option::as_ref);
                    filler.set(*at, value)?;
                }
            }
        }
        Ok(())
    }
}

/// # Errors
/// More values than columns, or fewer where the columns are listed.
pub(crate) fn check_width(columns: usize, values: usize, is_listed: bool) -> Result<(), Refusal> {
    let wrong = |what| Err(Refusal::new(code::SYNTAX_ERROR, what));
    match values {
        values if values > columns => wrong("INSERT has more expressions than target columns"),
        values if values < columns && is_listed => wrong("INSERT has more target columns than expressions"),
        _ => Ok(()),
    }
}

/// The position of a parameter, if an expression is one.
pub(crate) fn placeholder(of: &Expr) -> Option<usize> {
    match of {
        Expr::Value(value) => match &value.value {
            SqlValue::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                number.checked_sub(1).filter(|at| *at < usize::from(u16::MAX))
            }
            _ => None,
        },
        Expr::Nested(inner) => placeholder(inner),
        _ => None,
    }
}

/// The text of a literal that has no type of its own.
fn untyped(of: &SqlValue) -> Option<&str> {
    match of {
        SqlValue::SingleQuotedString(text)
        | SqlValue::EscapedStringLiteral(text)
        | SqlValue::UnicodeStringLiteral(text)
        | SqlValue::NationalStringLiteral(text) => Some(text),
        SqlValue::DollarQuotedString(text) => Some(&text.value),
        _ => None,
    }
}

/// What an expression is for a column that it is assigned to.
pub(crate) enum Literal {
    /// No constant.
    None,
    /// One that the column takes.
    Fits,
    /// One that it does not take, which PostgreSQL tells when all else is known to be right.
    Wrong(Refusal),
}

impl Literal {
    /// # Errors
    /// A constant of a type that is not assigned to such a column, or a text that is none of its values.
    pub(crate) fn of(
        column: &Column,
        expression: &Expr,
        (zone, text): (Zone, &str),
    ) -> Result<Literal, Refusal> {
        let mut wrong = None;
        let mut reader = CellReader {
            column,
            zone,
            types: &mut Vec::new(),
            text,
            wrong: &mut wrong,
        };
        Ok(match (reader.cell(expression)?, wrong) {
            (_, Some(refusal)) => Literal::Wrong(refusal),
            (Cell::Constant(_) | Cell::Null, None) => Literal::Fits,
            _ => Literal::None,
        })
    }
}

/// Reads cells of a column.
struct CellReader<'a> {
    column: &'a Column,
    zone: Zone,
    types: &'a mut Vec<u32>,
    text: &'a str,
    /// The first constant that a column does not take.
    wrong: &'a mut Option<Refusal>,
}

impl CellReader<'_> {
    /// A value as the column keeps it.
    fn constant(&mut self, value: &Value<'_>) -> Result<Cell, Refusal> {
        match stored(self.column, value, &self.zone) {
            Ok(stored) => Ok(Cell::Constant(stored.into_owned())),
            // Of another type.
            Err(refusal) if refusal.code.starts_with("42") => Err(refusal),
            Err(refusal) => {
                self.wrong.get_or_insert(refusal);
                Ok(Cell::Null)
            }
        }
    }

    fn number(&mut self, digits: &str) -> Result<Cell, Refusal> {
        match number(digits) {
            Some(value) => self.constant(&value),
            None => Ok(Cell::Planned(usize::MAX)),
        }
    }

    /// [`Cell::Planned`] of what needs the planner.
    fn cell(&mut self, expression: &Expr) -> Result<Cell, Refusal> {
        const PLANNED: Cell = Cell::Planned(usize::MAX);
        Ok(match expression {
            Expr::Nested(inner) => self.cell(inner)?,
            Expr::Value(value) => self.value(value)?,
            Expr::UnaryOp { op, expr } => match (op, expr.as_ref()) {
                (UnaryOperator::Minus, Expr::Value(value)) => match &value.value {
                    SqlValue::Number(digits, _) => self.number(&format!("-{digits}"))?,
                    _ => PLANNED,
                },
                (UnaryOperator::Plus, Expr::Value(value)) => match &value.value {
                    SqlValue::Number(digits, _) => self.number(digits)?,
                    _ => PLANNED,
                },
                _ => PLANNED,
            },
            Expr::TypedString(typed) => match untyped(&typed.value.value) {
                Some(text) => self.cast(text, &typed.data_type, &typed.value)?,
                None => PLANNED,
            },
            Expr::Cast {
                expr,
                data_type,
                format: None,
                array: false,
                ..
            } => self.cast_of(expr, data_type)?,
            Expr::Function(function) if is_now(function) => Cell::Now,
            other if is_default(other) => Cell::Default,
            _ => PLANNED,
        })
    }

    fn value(&mut self, value: &ValueWithSpan) -> Result<Cell, Refusal> {
        if let Some(text) = untyped(&value.value) {
            let read = self.read(self.column.declared.of, text, value)?;
            return self.constant(&read);
        }
        Ok(match &value.value {
            SqlValue::Null => Cell::Null,
            SqlValue::Boolean(value) => self.constant(&Value::Bool(*value))?,
            SqlValue::Number(digits, _) => self.number(digits)?,
            SqlValue::Placeholder(_) => match placeholder(&Expr::Value(value.clone())) {
                Some(at) => self.parameter(at, self.column.declared.of),
                None => Cell::Planned(usize::MAX),
            },
            _ => Cell::Planned(usize::MAX),
        })
    }

    /// A parameter, whose type is that of the column unless it has one.
    fn parameter(&mut self, at: usize, of: Type) -> Cell {
        if self.types.len() <= at {
            self.types.resize(at + 1, 0);
        }
        if matches!(self.types[at], 0 | 705) {
            self.types[at] = of.oid();
        }
        Cell::Parameter(at)
    }

    /// A literal or parameter that is cast to a type. The planner does what is not as simple as that.
    fn cast_of(&mut self, of: &Expr, to: &DataType) -> Result<Cell, Refusal> {
        let Expr::Value(value) = of else {
            return Ok(Cell::Planned(usize::MAX));
        };
        if let Some(text) = untyped(&value.value) {
            return self.cast(text, to, value);
        }
        let Some(of) = plain_type(to) else {
            return Ok(Cell::Planned(usize::MAX));
        };
        Ok(match &value.value {
            SqlValue::Null => Cell::Null,
            SqlValue::Number(digits, _) => match Value::read(of, Format::Text, digits.as_bytes(), &self.zone)
            {
                Ok(value) => self.constant_of(of, &value)?,
                Err(_) => Cell::Planned(usize::MAX),
            },
            SqlValue::Placeholder(_) => match placeholder(&Expr::Value(value.clone())) {
                Some(at) => match self.parameter(at, of) {
                    cell if self.types[at] == of.oid() => cell,
                    _ => Cell::Planned(usize::MAX),
                },
                None => Cell::Planned(usize::MAX),
            },
            _ => Cell::Planned(usize::MAX),
        })
    }

    fn cast(&mut self, text: &str, to: &DataType, value: &ValueWithSpan) -> Result<Cell, Refusal> {
        match plain_type(to) {
            Some(of) => {
                let read = self.read(of, text, value)?;
                self.constant_of(of, &read)
            }
            None => Ok(Cell::Planned(usize::MAX)),
        }
    }

    /// A constant that has a type: a text is no literal of another.
    fn constant_of(&mut self, of: Type, value: &Value<'_>) -> Result<Cell, Refusal> {
        check_type(self.column, of)?;
        self.constant(value)
    }

    fn read(&self, of: Type, text: &str, value: &ValueWithSpan) -> Result<Value<'static>, Refusal> {
        let read = Value::read(of, Format::Text, text.as_bytes(), &self.zone);
        match read {
            Ok(value) => Ok(value.into_owned()),
            Err(refusal) if value.span.start.line == 0 => Err(refusal),
            Err(refusal) => Err(refusal.at(self.text, byte_of(self.text, value.span.start))),
        }
    }
}

/// The type that a cast names, where it has no length and no digits.
fn plain_type(of: &DataType) -> Option<Type> {
    let (declared, _) = store_type(of).ok()?;
    let is_plain = declared.length.is_none() && declared.precision.is_none();
    (is_plain && !declared.of.array && declared.of.kind != Kind::Bpchar).then_some(declared.of)
}

/// A number as PostgreSQL types it.
fn number(digits: &str) -> Option<Value<'static>> {
    if let Ok(value) = digits.parse() {
        return Some(Value::Int4(value));
    }
    if let Ok(value) = digits.parse() {
        return Some(Value::Int8(value));
    }
    Numeric::parse(digits).ok().map(Value::Numeric)
}

/// `now()`, `CURRENT_TIMESTAMP`.
pub(super) fn is_now(function: &datafusion::sql::sqlparser::ast::Function) -> bool {
    let name = match function.name.0.as_slice() {
        [only] => only.as_ident(),
        _ => None,
    };
    let Some(name) = name.filter(|name| name.quote_style.is_none()) else {
        return false;
    };
    let is_empty = match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty() && list.clauses.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    let known = ["now", "current_timestamp", "transaction_timestamp"];
    is_empty && function.over.is_none() && known.iter().any(|known| name.value.eq_ignore_ascii_case(known))
}

/// The moment at which a statement runs.
///
/// # Errors
/// A clock beyond PostgreSQL's times.
pub(crate) fn moment() -> Result<Value<'static>, Refusal> {
    let microseconds = chrono::Utc::now().timestamp_micros();
    corun_wire::values::Timestamp::from_unix_microseconds(microseconds)
        .map(Value::Timestamptz)
        .ok_or_else(|| Refusal::new(code::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
}

/// A parameter as PostgreSQL's value.
///
/// # Errors
/// A text that is none of its type.
pub(crate) fn parameter(of: Type, scalar: &ScalarValue, zone: Zone) -> Result<Option<Value<'_>>, Refusal> {
    if scalar.is_null() {
        return Ok(None);
    }
    Ok(Some(match scalar {
        ScalarValue::Boolean(Some(value)) => Value::Bool(*value),
        ScalarValue::Int16(Some(value)) => Value::Int2(*value),
        ScalarValue::Int32(Some(value)) => Value::Int4(*value),
        ScalarValue::Int64(Some(value)) => Value::Int8(*value),
        ScalarValue::Float32(Some(value)) => Value::Float4(*value),
        ScalarValue::Float64(Some(value)) => Value::Float8(*value),
        ScalarValue::Binary(Some(bytes)) => Value::Bytea(Cow::Borrowed(bytes)),
        ScalarValue::Utf8(Some(text)) if of.array => Value::read(of, Format::Text, text.as_bytes(), &zone)?,
        ScalarValue::Utf8(Some(text)) => match of.kind {
            // DataFusion has these as texts.
            Kind::Uuid | Kind::Json | Kind::Jsonb | Kind::Inet | Kind::Interval | Kind::Time => {
                Value::read(of, Format::Text, text.as_bytes(), &zone)?
            }
            _ => Value::Text(Cow::Borrowed(text)),
        },
        other => {
            let array = other
                .to_array()
                .map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))?;
            let value = cells_as(array.as_ref(), of.kind)?(0)?;
            return Ok(value.map(Value::into_owned));
        }
    }))
}

/// Types of parameters that were found, those that nothing is known of as text.
///
/// # Errors
/// A type that values cannot have here.
pub(super) fn decided(types: &[u32]) -> Result<Vec<Type>, Refusal> {
    let decided = types.iter().map(|oid| match oid {
        0 | 705 => Ok(Type::TEXT),
        oid => Type::of(*oid).ok_or_else(|| {
            let what = format!("parameters of the type with the number {oid} are not supported");
            Refusal::new(code::NOT_SUPPORTED, what)
                .hint("Send the parameter as text and cast it in the statement.")
        }),
    });
    decided.collect()
}
