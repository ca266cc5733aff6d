//! [`Value`]: one value of any type.

use std::borrow::Cow;

use super::array::Array;
use super::calendar::{Date, Time, Timestamp};
use super::interval::Interval;
use super::kind::{Format, Type};
use super::numeric::Numeric;
use super::zone::TimeZone;
use super::{inet, read_binary, read_text, write};
use crate::error::Refusal;

/// A value that is not NULL.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `oid`
    Oid(u32),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Numeric),
    /// `text`, `varchar`, `character`, `name`, and a literal of unknown type
    Text(Cow<'a, str>),
    /// `bytea`
    Bytea(Cow<'a, [u8]>),
    /// `date`
    Date(Date),
    /// `time`
    Time(Time),
    /// `timestamp`
    Timestamp(Timestamp),
    /// `timestamptz`
    Timestamptz(Timestamp),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// `json`: the text as it came. Whether it is JSON nobody has looked at.
    Json(Cow<'a, str>),
    /// `jsonb`, likewise.
    Jsonb(Cow<'a, str>),
    /// `inet`, as PostgreSQL writes it.
    Inet(Cow<'a, str>),
    /// `void`
    Void,
    /// An array.
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// Reads a value, such as a parameter of a Bind. Texts of dates and times are read in ISO style, `zone` is that of a `timestamptz`
    /// that names none.
    ///
    /// # Errors
    /// What PostgreSQL refuses, with its SQLSTATE; in few cases, such as dates in words, also what it takes.
    pub fn read(of: Type, format: Format, bytes: &'a [u8], zone: &dyn TimeZone) -> Result<Self, Refusal> {
        match format {
            Format::Text => read_text::value(of, bytes, zone),
            Format::Binary => read_binary::value(of, bytes),
        }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>, format: Format, zone: &dyn TimeZone) {
        match self {
            Self::Bool(value) => write::bool(out, format, *value),
            Self::Int2(value) => write::int2(out, format, *value),
            Self::Int4(value) => write::int4(out, format, *value),
            Self::Int8(value) => write::int8(out, format, *value),
            Self::Oid(value) => write::oid(out, format, *value),
            Self::Float4(value) => write::float4(out, format, *value),
            Self::Float8(value) => write::float8(out, format, *value),
            Self::Numeric(value) => write::numeric(out, format, value),
            Self::Text(value) | Self::Json(value) => write::text(out, value),
            Self::Bytea(value) => write::bytea(out, format, value),
            Self::Date(value) => write::date(out, format, *value),
            Self::Time(value) => write::time(out, format, *value),
            Self::Timestamp(value) => write::timestamp(out, format, *value),
            Self::Timestamptz(value) => write::timestamptz(out, format, *value, zone),
            Self::Interval(value) => write::interval(out, format, value),
            Self::Uuid(value) => write::uuid(out, format, value),
            Self::Jsonb(value) => write::jsonb(out, format, value),
            Self::Inet(value) => inet::write(out, format, value),
            Self::Void => {}
            Self::Array(value) => match format {
                Format::Text => value.write(out, zone),
                Format::Binary => value.write_binary(out, zone),
            },
        }
    }

    /// The same, with texts of its own.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::Int2(value) => Value::Int2(value),
            Self::Int4(value) => Value::Int4(value),
            Self::Int8(value) => Value::Int8(value),
            Self::Oid(value) => Value::Oid(value),
            Self::Float4(value) => Value::Float4(value),
            Self::Float8(value) => Value::Float8(value),
            Self::Numeric(value) => Value::Numeric(value),
            Self::Text(value) => Value::Text(Cow::Owned(value.into_owned())),
            Self::Bytea(value) => Value::Bytea(Cow::Owned(value.into_owned())),
            Self::Date(value) => Value::Date(value),
            Self::Time(value) => Value::Time(value),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::Timestamptz(value) => Value::Timestamptz(value),
            Self::Interval(value) => Value::Interval(value),
            Self::Uuid(value) => Value::Uuid(value),
            Self::Json(value) => Value::Json(Cow::Owned(value.into_owned())),
            Self::Jsonb(value) => Value::Jsonb(Cow::Owned(value.into_owned())),
            Self::Inet(value) => Value::Inet(Cow::Owned(value.into_owned())),
            Self::Void => Value::Void,
            Self::Array(array) => Value::Array(Array {
                kind: array.kind,
                dimensions: array.dimensions,
                elements: array
                    .elements
                    .into_iter()
                    .map(|element| element.map(Value::into_owned))
                    .collect(),
            }),
        }
    }
}
