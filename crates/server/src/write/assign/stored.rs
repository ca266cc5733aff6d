//! [`Stored`]: a value as a column keeps it.

use corun_store::Value;
use std::borrow::Cow;

/// A value of the store that may be its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stored<'v> {
    Bool(bool),
    Int(i64),
    Decimal(i128),
    Float(f64),
    Text(Cow<'v, str>),
    Bytes(Cow<'v, [u8]>),
    /// A UUID or an interval.
    Sixteen([u8; 16]),
}

impl Stored<'_> {
    /// It as the store takes it.
    #[inline]
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Stored::Bool(value) => Value::Bool(*value),
            Stored::Int(value) => Value::Int(*value),
            Stored::Decimal(value) => Value::Decimal(*value),
            Stored::Float(value) => Value::Float(*value),
            Stored::Text(text) => Value::Text(text),
            Stored::Bytes(bytes) => Value::Bytes(bytes),
            Stored::Sixteen(bytes) => Value::Bytes(bytes),
        }
    }

    /// The same, with a copy of what it borrows.
    pub(crate) fn into_owned<'o>(self) -> Stored<'o> {
        match self {
            Stored::Bool(value) => Stored::Bool(value),
            Stored::Int(value) => Stored::Int(value),
            Stored::Decimal(value) => Stored::Decimal(value),
            Stored::Float(value) => Stored::Float(value),
            Stored::Text(text) => Stored::Text(Cow::Owned(text.into_owned())),
            Stored::Bytes(bytes) => Stored::Bytes(Cow::Owned(bytes.into_owned())),
            Stored::Sixteen(bytes) => Stored::Sixteen(bytes),
        }
    }
}
