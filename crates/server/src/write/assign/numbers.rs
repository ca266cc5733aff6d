//! Assignments to columns of numbers.

use super::{Stored, mismatch, read, read_again};
use crate::write::column::Column;
use corun_store::Type;
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Decimal, Format, Kind, Numeric, TimeZone, Value};

/// Digits that a float keeps when it becomes a `numeric`.
const DIGITS_OF_FLOAT8: usize = 15;
const DIGITS_OF_FLOAT4: usize = 6;

/// 22003, by the type's name in PostgreSQL's words.
#[cold]
pub(super) fn out_of_range(kind: Kind) -> Refusal {
    let what = match kind {
        Kind::Oid => "OID out of range".to_owned(),
        kind => format!("{} out of range", kind.name()),
    };
    Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, what)
}

/// `smallint`, `integer`, `bigint`.
#[inline]
pub(super) fn whole<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let kind = column.declared.of.kind;
    let number = match value {
        Value::Int2(value) => i64::from(*value),
        Value::Int4(value) => i64::from(*value),
        Value::Int8(value) => *value,
        other => return whole_of_other(column, other, zone),
    };
    in_range(kind, number).map(Stored::Int)
}

#[inline]
fn in_range(kind: Kind, number: i64) -> Result<i64, Refusal> {
    let fits = match kind {
        Kind::Int2 => i16::try_from(number).is_ok(),
        Kind::Int4 => i32::try_from(number).is_ok(),
        _ => true,
    };
    match fits {
        true => Ok(number),
        false => Err(out_of_range(kind)),
    }
}

fn whole_of_other<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let kind = column.declared.of.kind;
    let number = match value {
        Value::Float4(value) => whole_of_float(kind, f64::from(*value))?,
        Value::Float8(value) => whole_of_float(kind, *value)?,
        Value::Numeric(value) => whole_of_numeric(kind, value)?,
        Value::Oid(number) => match kind {
            Kind::Int8 => i64::from(*number),
            // The same bits.
            Kind::Int4 => i64::from(*number as i32),
            _ => return Err(mismatch(column, value)),
        },
        Value::Text(text) => return read_again(column, text, zone),
        other => return Err(mismatch(column, other)),
    };
    in_range(kind, number).map(Stored::Int)
}

/// Halves to the even one.
fn whole_of_float(kind: Kind, value: f64) -> Result<i64, Refusal> {
    let rounded = value.round_ties_even();
    // Both ends are floats exactly; the upper one is the first that does not fit.
    let end = -(i64::MIN as f64);
    match rounded >= i64::MIN as f64 && rounded < end {
        true => Ok(rounded as i64),
        false => Err(out_of_range(kind)),
    }
}

fn whole_of_numeric(kind: Kind, value: &Numeric) -> Result<i64, Refusal> {
    let none = |what: &str| {
        let what = format!("cannot convert {what} to {}", kind.name());
        Err(Refusal::new(code::NOT_SUPPORTED, what))
    };
    match value {
        Numeric::NaN => none("NaN"),
        Numeric::Infinity | Numeric::NegativeInfinity => none("infinity"),
        Numeric::Finite(decimal) => {
            let rounded = decimal.rounded(0).and_then(|number| i64::try_from(number).ok());
            rounded.ok_or_else(|| out_of_range(kind))
        }
    }
}

/// `oid`, of which a negative `integer` is another name.
pub(super) fn oid<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let number = match value {
        Value::Oid(number) => *number,
        Value::Int2(number) => i32::from(*number) as u32,
        Value::Int4(number) => *number as u32,
        Value::Int8(number) => u32::try_from(*number).map_err(|_| out_of_range(Kind::Oid))?,
        Value::Text(text) => return read_again(column, text, zone),
        other => return Err(mismatch(column, other)),
    };
    Ok(Stored::Int(i64::from(number)))
}

/// `real` and `double precision`.
pub(super) fn float<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let kind = column.declared.of.kind;
    let single = kind == Kind::Float4;
    let number = match value {
        Value::Float8(number) => *number,
        Value::Float4(number) => f64::from(*number),
        Value::Int2(number) => f64::from(*number),
        // Rounded once, not to a double first.
        Value::Int4(number) if single => f64::from(*number as f32),
        Value::Int4(number) => f64::from(*number),
        Value::Int8(number) if single => f64::from(*number as f32),
        Value::Int8(number) => *number as f64,
        Value::Numeric(number) => {
            let mut text = Vec::new();
            number.write(&mut text);
            return read_again(column, &String::from_utf8_lossy(&text), zone);
        }
        Value::Text(text) => return read_again(column, text, zone),
        other => return Err(mismatch(column, other)),
    };
    if single {
        let narrow = number as f32;
        let wrong = match (
            narrow.is_infinite() && number.is_finite(),
            narrow == 0.0 && number != 0.0,
        ) {
            (true, _) => "value out of range: overflow",
            (_, true) => "value out of range: underflow",
            _ => return Ok(Stored::Float(f64::from(narrow))),
        };
        return Err(Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, wrong));
    }
    Ok(Stored::Float(number))
}

/// `numeric`: rounded to the digits that are declared behind the point, halves away from zero. Without declared digits nothing is rounded.
pub(super) fn numeric<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    match value {
        Value::Numeric(number) => of_numeric(column, number),
        Value::Int2(number) => of_whole(column, i128::from(*number)),
        Value::Int4(number) => of_whole(column, i128::from(*number)),
        Value::Int8(number) => of_whole(column, i128::from(*number)),
        Value::Float8(number) => of_float(column, *number, DIGITS_OF_FLOAT8),
        Value::Float4(number) => of_float(column, f64::from(*number), DIGITS_OF_FLOAT4),
        Value::Text(text) => match read(column.declared.of, text, zone)? {
            Value::Numeric(number) => of_numeric(column, &number),
            other => Err(mismatch(column, &other)),
        },
        other => Err(mismatch(column, other)),
    }
}

fn of_float<'v>(column: &Column, number: f64, digits: usize) -> Result<Stored<'v>, Refusal> {
    let number = match number {
        number if number.is_nan() => Numeric::NaN,
        f64::INFINITY => Numeric::Infinity,
        f64::NEG_INFINITY => Numeric::NegativeInfinity,
        number => Numeric::parse(&format!("{number:.*e}", digits - 1))?,
    };
    of_numeric(column, &number)
}

fn of_numeric<'v>(column: &Column, number: &Numeric) -> Result<Stored<'v>, Refusal> {
    let scale = scale_of(column);
    let unscaled = match (number, column.declared.precision) {
        (Numeric::Finite(decimal), Some(_)) => decimal.rounded(scale),
        (Numeric::Finite(decimal), None) => decimal.to_i128(scale),
        _ => return Err(not_finite(column, number)),
    };
    in_digits(column, unscaled)
}

fn of_whole<'v>(column: &Column, number: i128) -> Result<Stored<'v>, Refusal> {
    let power = 10i128.checked_pow(u32::from(scale_of(column)));
    in_digits(column, power.and_then(|power| number.checked_mul(power)))
}

fn scale_of(column: &Column) -> u8 {
    match column.stored {
        Type::Decimal { scale, .. } => scale,
        _ => 0,
    }
}

/// An unscaled number, if it has no more digits than the column.
fn in_digits<'v>(column: &Column, unscaled: Option<i128>) -> Result<Stored<'v>, Refusal> {
    let kept = match column.stored {
        Type::Decimal { precision, .. } => precision,
        _ => 0,
    };
    let digits = column
        .declared
        .precision
        .map_or(kept, |(precision, _)| precision.min(kept));
    let end = 10u128.checked_pow(u32::from(digits)).unwrap_or(u128::MAX);
    match unscaled {
        Some(number) if number.unsigned_abs() < end => Ok(match i64::try_from(number) {
            Ok(number) if !column.stored.is_wide() => Stored::Int(number),
            _ => Stored::Decimal(number),
        }),
        _ => Err(field_overflow(column)),
    }
}

/// 22003, with what fits.
#[cold]
pub(super) fn field_overflow(column: &Column) -> Refusal {
    let refusal = Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow");
    match column.declared.precision {
        Some((precision, scale)) => {
            let limit = match i16::from(precision) - i16::from(scale) {
                0 => "1".to_owned(),
                digits => format!("10^{digits}"),
            };
            refusal.detail(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
            ))
        }
        None => {
            let scale = scale_of(column);
            let before = 38 - scale;
            refusal
                .detail(format!(
                    "A column of type numeric without digits keeps {before} before the point and {scale} behind it, and rounds nothing."
                ))
                .hint("Round the value, or declare numeric(p, s) of at most 38 digits.")
        }
    }
}

#[cold]
fn not_finite(column: &Column, number: &Numeric) -> Refusal {
    let refusal = Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow");
    let what = match number {
        Numeric::NaN => "NaN",
        _ => "an infinite value",
    };
    match column.declared.precision {
        Some((precision, scale)) => refusal.detail(format!(
            "A field with precision {precision}, scale {scale} cannot hold {what}."
        )),
        None => refusal.detail(format!("A column of type numeric cannot hold {what} here.")),
    }
    .hint("Use double precision.")
}

/// The decimal's text, for columns of texts.
pub(super) fn text_of(value: &Value<'_>, zone: &dyn TimeZone) -> String {
    let mut text = Vec::new();
    value.write(&mut text, Format::Text, zone);
    String::from_utf8_lossy(&text).into_owned()
}

/// Its zeros at the end are not kept by a column without digits.
pub(super) fn trimmed(unscaled: i128, scale: u8) -> Numeric {
    Numeric::Finite(Decimal::from_i128(unscaled, scale).trimmed())
}
