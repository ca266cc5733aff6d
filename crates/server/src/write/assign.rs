//! PostgreSQL's assignment casts: values into rows of the store ([`assign`]), values as the store has them ([`stored`], [`store_value`]), and
//! fields as values ([`value_of`]).
//!
//! ```text
//!   Value ─► cast to the column's type (numbers, texts, moments, arrays) ─► its limits ─► Stored ─► RowBuf
//!   RowRef ─► shown ─► Value
//! ```
//!
//! A text is read as a literal of unknown type is: whoever knows that an expression was a text and no literal refuses it. Integers and texts
//! that fit are not copied. What it is not: PostgreSQL's implicit casts, nor those of `CAST`; whether all columns without NULL have a value, which
//! is asked at the end of a row.

mod arrays;
mod moments;
mod numbers;
mod shown;
mod stored;
mod texts;

use super::column::{Column, Declared};
use super::types;
use crate::session::refusal_of;
use corun_store::{Constant, RowBuf, RowError, RowRef, StoreError};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Format, Kind, TimeZone, Type, Value};

pub(crate) use stored::Stored;

/// Gives a column of a row a value, as an assignment does. `zone` is the session's.
///
/// # Errors
/// A value of a type that is not cast by assignment (42804), or beyond what the column takes (22001, 22003, 22008, ...); a text that is no value
/// of its type (22P02, 22007); NULL where there is none (23502, without the table's name).
#[inline]
pub(crate) fn assign(
    column: &Column,
    at: usize,
    value: Option<&Value<'_>>,
    zone: &dyn TimeZone,
    row: &mut RowBuf,
) -> Result<(), Refusal> {
    let Some(value) = value else {
        return row
            .set(at, corun_store::Value::Null)
            .map_err(|error| refused(column, error));
    };
    put(column, at, &stored(column, value, zone)?, row)
}

/// Gives a column of a row a value that is its own.
///
/// # Errors
/// One that is longer than the store takes.
#[inline]
pub(crate) fn put(column: &Column, at: usize, value: &Stored<'_>, row: &mut RowBuf) -> Result<(), Refusal> {
    row.set(at, value.value()).map_err(|error| refused(column, error))
}

/// A value as a column keeps it, for its default or for a key that equals it exactly. A key must be of the column's own type: `WHERE i = 1.5`
/// is no question for 2.
///
/// # Errors
/// As [`assign`]; whether it is too long for the column, the store says.
pub(crate) fn store_value(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Constant, Refusal> {
    stored(column, value, zone).map(|stored| Constant::from(stored.value()))
}

/// The same without a copy.
///
/// # Errors
/// As there.
pub(crate) fn stored<'v>(
    column: &Column,
    value: &'v Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    if column.declared.of.array {
        return arrays::array(column, value, zone);
    }
    match column.declared.of.kind {
        Kind::Int2 | Kind::Int4 | Kind::Int8 => numbers::whole(column, value, zone),
        Kind::Oid => numbers::oid(column, value, zone),
        Kind::Float4 | Kind::Float8 => numbers::float(column, value, zone),
        Kind::Numeric => numbers::numeric(column, value, zone),
        Kind::Bool => match value {
            Value::Bool(value) => Ok(Stored::Bool(*value)),
            Value::Text(text) => read_again(column, text, zone),
            other => Err(mismatch(column, other)),
        },
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name | Kind::Unknown | Kind::Void => {
            texts::text(column, value, zone)
        }
        Kind::Json | Kind::Jsonb => texts::json(column, value),
        Kind::Inet => match value {
            Value::Inet(address) => Ok(Stored::Text(std::borrow::Cow::Borrowed(address))),
            Value::Text(text) => read_again(column, text, zone),
            other => Err(mismatch(column, other)),
        },
        Kind::Bytea => match value {
            Value::Bytea(bytes) => Ok(Stored::Bytes(bytes.as_ref().into())),
            Value::Text(text) => read_again(column, text, zone),
            other => Err(mismatch(column, other)),
        },
        Kind::Uuid => match value {
            Value::Uuid(bytes) => Ok(Stored::Sixteen(*bytes)),
            Value::Text(text) => read_again(column, text, zone),
            // What the planner has computed of UUIDs is bytes for it.
            Value::Bytea(bytes) => match <[u8; 16]>::try_from(bytes.as_ref()) {
                Ok(bytes) => Ok(Stored::Sixteen(bytes)),
                Err(_) => Err(mismatch(column, value)),
            },
            other => Err(mismatch(column, other)),
        },
        Kind::Date => moments::date(column, value, zone),
        Kind::Time => moments::time(column, value, zone),
        Kind::Timestamp => moments::timestamp(column, value, zone),
        Kind::Timestamptz => moments::timestamptz(column, value, zone),
        Kind::Interval => moments::interval(column, value, zone),
    }
}

/// A field as PostgreSQL's value; `None`: it is NULL.
#[inline]
pub(crate) fn value_of<'r>(column: &Column, at: usize, row: RowRef<'r>) -> Option<Value<'r>> {
    shown::value(&column.declared, column.stored, row.value(at))
}

/// Reads a text as a literal of the column's type, and assigns that.
fn read_again<'v>(column: &Column, text: &str, zone: &dyn TimeZone) -> Result<Stored<'v>, Refusal> {
    let value = read(column.declared.of, text, zone)?;
    // Of a type of its own it is no text, and so not read again.
    Ok(stored(column, &value, zone)?.into_owned())
}

fn read<'t>(of: Type, text: &'t str, zone: &dyn TimeZone) -> Result<Value<'t>, Refusal> {
    Value::read(of, Format::Text, text.as_bytes(), zone)
}

/// 42804.
#[cold]
fn mismatch(column: &Column, value: &Value<'_>) -> Refusal {
    wrong_type(column, type_of(value))
}

/// The same of a type.
#[cold]
pub(crate) fn wrong_type(column: &Column, of: impl std::fmt::Display) -> Refusal {
    let what = format!(
        "column \"{}\" is of type {} but expression is of type {of}",
        column.name,
        column.declared.unlimited(),
    );
    Refusal::new("42804", what).hint("You will need to rewrite or cast the expression.")
}

/// The type of a value as PostgreSQL calls it.
fn type_of(value: &Value<'_>) -> Declared {
    Declared::plain(match value {
        Value::Bool(_) => Kind::Bool,
        Value::Int2(_) => Kind::Int2,
        Value::Int4(_) => Kind::Int4,
        Value::Int8(_) => Kind::Int8,
        Value::Oid(_) => Kind::Oid,
        Value::Float4(_) => Kind::Float4,
        Value::Float8(_) => Kind::Float8,
        Value::Numeric(_) => Kind::Numeric,
        Value::Text(_) => Kind::Text,
        Value::Bytea(_) => Kind::Bytea,
        Value::Date(_) => Kind::Date,
        Value::Time(_) => Kind::Time,
        Value::Timestamp(_) => Kind::Timestamp,
        Value::Timestamptz(_) => Kind::Timestamptz,
        Value::Interval(_) => Kind::Interval,
        Value::Uuid(_) => Kind::Uuid,
        Value::Json(_) => Kind::Json,
        Value::Jsonb(_) => Kind::Jsonb,
        Value::Inet(_) => Kind::Inet,
        Value::Void => Kind::Void,
        Value::Array(array) => {
            let plain = Declared::plain(array.kind);
            let of = Type::array_of(array.kind).unwrap_or(plain.of);
            return Declared { of, ..plain };
        }
    })
}

/// What is told of a value that a row does not take.
#[cold]
fn refused(column: &Column, error: RowError) -> Refusal {
    match error {
        RowError::Length { expected, bytes, .. } => too_long(column, expected, bytes),
        RowError::Range { .. } => match column.declared.of.kind {
            Kind::Numeric => numbers::field_overflow(column),
            kind => numbers::out_of_range(kind),
        },
        error => refusal_of(&StoreError::Row(error)),
    }
}

/// What is told of a text or bytes that are longer than a column, or of another length than it has.
#[cold]
fn too_long(column: &Column, expected: corun_store::Type, bytes: usize) -> Refusal {
    let most = expected.bytes_max();
    if most >= corun_store::ROW_BYTES_MAX {
        let what = format!(
            "value of column \"{}\" is too big: size {bytes}, maximum size {most}",
            column.name
        );
        return Refusal::new(code::PROGRAM_LIMIT, what);
    }
    let what = match bytes > most {
        true => format!("value too long for type {}", column.declared),
        false => format!("value too short for type {}", column.declared),
    };
    let exactly = match expected {
        corun_store::Type::FixedBytes { .. } => "exactly",
        _ => "at most",
    };
    Refusal::new("22001", what).detail(format!(
        "Column \"{}\" takes {exactly} {most} bytes; the value has {bytes}.",
        column.name
    ))
}

#[cfg(test)]
mod tests;
