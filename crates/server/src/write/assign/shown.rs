//! Fields as PostgreSQL's values.

use super::moments::interval_of;
use super::numbers::trimmed;
use super::read;
use super::types::declared as natural;
use crate::session::padded;
use crate::write::column::Declared;
use corun_store::{Type, Value as Kept};
use corun_wire::values::{Date, FixedOffset, Kind, Numeric, Time, Timestamp, Value};
use std::borrow::Cow;

/// A field of a column that was declared so; `None`: it is NULL.
#[inline]
pub(super) fn value<'r>(of: &Declared, stored: Type, kept: Kept<'r>) -> Option<Value<'r>> {
    // Where a dictionary says something that the store cannot have kept, the store is right.
    fitting(of, stored, kept).or_else(|| fitting(&natural(stored), stored, kept))
}

fn fitting<'r>(of: &Declared, stored: Type, kept: Kept<'r>) -> Option<Value<'r>> {
    if of.of.array {
        let Kept::Text(text) = kept else {
            return None;
        };
        return read(of.of, text, &FixedOffset::UTC).ok().map(Value::into_owned);
    }
    Some(match (kept, of.of.kind) {
        (Kept::Null, _) => return None,
        (Kept::Int(number), kind) => match (kind, stored) {
            (Kind::Int4, _) => Value::Int4(i32::try_from(number).ok()?),
            (Kind::Int8, _) => Value::Int8(number),
            (Kind::Int2, _) => Value::Int2(i16::try_from(number).ok()?),
            (Kind::Oid, _) => Value::Oid(u32::try_from(number).ok()?),
            (Kind::Numeric, Type::Decimal { scale, .. }) => numeric(of, i128::from(number), scale),
            (Kind::Date, _) => Value::Date(match i32::try_from(number).ok()? {
                i32::MAX => Date::INFINITY,
                i32::MIN => Date::NEGATIVE_INFINITY,
                days => Date::from_unix_days(days)?,
            }),
            (Kind::Time, _) => Value::Time(Time::new(number)?),
            (Kind::Timestamp, _) => Value::Timestamp(moment(number)?),
            (Kind::Timestamptz, _) => Value::Timestamptz(moment(number)?),
            _ => return None,
        },
        (Kept::Text(text), kind) => match kind {
            Kind::Text | Kind::Varchar | Kind::Name => Value::Text(Cow::Borrowed(text)),
            Kind::Bpchar => padded(
                Value::Text(Cow::Borrowed(text.trim_end_matches(' '))),
                of.length.unwrap_or(0),
            ),
            Kind::Json => Value::Json(Cow::Borrowed(text)),
            Kind::Jsonb => Value::Jsonb(Cow::Borrowed(text)),
            Kind::Inet => Value::Inet(Cow::Borrowed(text)),
            _ => return None,
        },
        (Kept::Bool(value), Kind::Bool) => Value::Bool(value),
        (Kept::Float(value), Kind::Float8) => Value::Float8(value),
        (Kept::Float(value), Kind::Float4) => Value::Float4(value as f32),
        (Kept::Decimal(number), Kind::Numeric) => match stored {
            Type::Decimal { scale, .. } => numeric(of, number, scale),
            _ => return None,
        },
        (Kept::Bytes(bytes), kind) => match kind {
            Kind::Bytea => Value::Bytea(Cow::Borrowed(bytes)),
            Kind::Uuid => Value::Uuid(bytes.try_into().ok()?),
            Kind::Interval => Value::Interval(interval_of(bytes)?),
            _ => return None,
        },
        _ => return None,
    })
}

fn numeric<'r>(of: &Declared, unscaled: i128, scale: u8) -> Value<'r> {
    Value::Numeric(match of.precision {
        Some(_) => Numeric::from_i128(unscaled, scale),
        None => trimmed(unscaled, scale),
    })
}

fn moment(microseconds: i64) -> Option<Timestamp> {
    match microseconds {
        i64::MAX => Some(Timestamp::INFINITY),
        i64::MIN => Some(Timestamp::NEGATIVE_INFINITY),
        finite => Timestamp::from_unix_microseconds(finite),
    }
}
