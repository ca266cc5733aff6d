//! Values from PostgreSQL's binary format.

use std::borrow::Cow;

use super::array::{Array, DIMENSIONS_MAX, Dimension, ELEMENTS_MAX};
use super::calendar::{Date, Time, Timestamp};
use super::inet;
use super::interval::Interval;
use super::kind::{Kind, Type};
use super::numeric::Numeric;
use super::value::Value;
use crate::error::{Refusal, code};

/// Reads a value.
pub(super) fn value(of: Type, bytes: &[u8]) -> Result<Value<'_>, Refusal> {
    if of.array {
        return array(of, bytes);
    }
    let out_of_range = |of: &str| {
        let what = format!("{of} out of range");
        Err(Refusal::new(code::DATETIME_FIELD_OVERFLOW, what))
    };
    Ok(match of.kind {
        Kind::Bool => {
            let [byte] = fixed(bytes)?;
            Value::Bool(byte != 0)
        }
        Kind::Int2 => Value::Int2(i16::from_be_bytes(fixed(bytes)?)),
        Kind::Int4 => Value::Int4(i32::from_be_bytes(fixed(bytes)?)),
        Kind::Int8 => Value::Int8(i64::from_be_bytes(fixed(bytes)?)),
        Kind::Oid => Value::Oid(u32::from_be_bytes(fixed(bytes)?)),
        Kind::Float4 => Value::Float4(f32::from_be_bytes(fixed(bytes)?)),
        Kind::Float8 => Value::Float8(f64::from_be_bytes(fixed(bytes)?)),
        Kind::Numeric => Value::Numeric(Numeric::read_binary(bytes)?),
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name | Kind::Unknown => Value::Text(text(bytes)?),
        Kind::Json => Value::Json(text(bytes)?),
        Kind::Jsonb => match bytes.split_first() {
            Some((1, json)) => Value::Jsonb(text(json)?),
            Some((version, _)) => {
                let what = format!("unsupported jsonb version number {version}");
                return Err(Refusal::new(code::INTERNAL_ERROR, what));
            }
            None => return Err(too_short()),
        },
        Kind::Inet => match inet::read_binary(bytes) {
            Some(text) => Value::Inet(text.into()),
            None => return Err(wrong("invalid address in external \"inet\" value")),
        },
        Kind::Bytea => Value::Bytea(Cow::Borrowed(bytes)),
        Kind::Date => {
            let date = Date(i32::from_be_bytes(fixed(bytes)?));
            match date {
                Date::INFINITY | Date::NEGATIVE_INFINITY => Value::Date(date),
                date if date.exists() => Value::Date(date),
                _ => return out_of_range("date"),
            }
        }
        Kind::Time => match Time::new(i64::from_be_bytes(fixed(bytes)?)) {
            Some(time) => Value::Time(time),
            None => return out_of_range("time"),
        },
        Kind::Timestamp | Kind::Timestamptz => {
            let moment = Timestamp(i64::from_be_bytes(fixed(bytes)?));
            let infinite = matches!(moment, Timestamp::INFINITY | Timestamp::NEGATIVE_INFINITY);
            if !infinite && !moment.exists() {
                return out_of_range("timestamp");
            }
            match of.kind {
                Kind::Timestamp => Value::Timestamp(moment),
                _ => Value::Timestamptz(moment),
            }
        }
        Kind::Interval => {
            let all: [u8; 16] = fixed(bytes)?;
            let mut all = Body(&all);
            Value::Interval(Interval {
                microseconds: i64::from_be_bytes(all.take()?),
                days: i32::from_be_bytes(all.take()?),
                months: i32::from_be_bytes(all.take()?),
            })
        }
        Kind::Uuid => Value::Uuid(fixed(bytes)?),
        Kind::Void => Value::Void,
    })
}

fn too_short() -> Refusal {
    Refusal::new(code::PROTOCOL_VIOLATION, "insufficient data left in message")
}

fn wrong(what: &str) -> Refusal {
    Refusal::new(code::INVALID_BINARY_REPRESENTATION, what)
}

/// All of a value of fixed length.
fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Refusal> {
    if bytes.len() > N {
        return Err(wrong("incorrect binary data format").detail("The value is longer than its type."));
    }
    bytes.try_into().map_err(|_| too_short())
}

fn text(bytes: &[u8]) -> Result<Cow<'_, str>, Refusal> {
    super::read_text::utf8(bytes).map(Cow::Borrowed)
}

struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A value behind its length; `None` is NULL.
    fn value(&mut self) -> Result<Option<&'a [u8]>, Refusal> {
        let length = i32::from_be_bytes(self.take()?);
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| too_short())?;
        let (value, rest) = self.0.split_at_checked(length).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(Some(value))
    }
}

fn array(of: Type, bytes: &[u8]) -> Result<Value<'_>, Refusal> {
    let mut body = Body(bytes);
    let count = i32::from_be_bytes(body.take()?);
    let count = usize::try_from(count).map_err(|_| wrong("invalid number of dimensions"))?;
    if count > DIMENSIONS_MAX {
        let what =
            format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
        return Err(Refusal::new(code::PROGRAM_LIMIT, what));
    }
    if i32::from_be_bytes(body.take()?) & !1 != 0 {
        return Err(wrong("invalid array flags"));
    }
    let element = u32::from_be_bytes(body.take()?);
    if element != Type::single(of.kind).oid() {
        let what = format!(
            "binary data has array element type {element}, not {}",
            Type::single(of.kind).oid()
        );
        return Err(Refusal::new("42804", what));
    }
    let (mut dimensions, mut all) = (Vec::with_capacity(count), usize::from(count > 0));
    for _ in 0..count {
        let length = i32::from_be_bytes(body.take()?);
        let lower = i32::from_be_bytes(body.take()?);
        let length = u32::try_from(length).map_err(|_| wrong("invalid array dimension"))?;
        if lower.checked_add_unsigned(length).is_none() {
            return Err(wrong("array lower bound is too large"));
        }
        all = all.saturating_mul(length as usize);
        dimensions.push(Dimension { length, lower });
    }
    // Each element has at least its length.
    if all > (body.0.len() / 4).min(ELEMENTS_MAX) {
        return Err(too_short());
    }
    let mut elements = Vec::with_capacity(all);
    for _ in 0..all {
        let element = body.value()?;
        elements.push(
            element
                .map(|bytes| value(Type::single(of.kind), bytes))
                .transpose()?,
        );
    }
    if !body.0.is_empty() {
        return Err(wrong("incorrect binary data format").detail("Something follows the last element."));
    }
    if elements.is_empty() {
        dimensions.clear();
    }
    Ok(Value::Array(Array {
        kind: of.kind,
        dimensions,
        elements,
    }))
}
