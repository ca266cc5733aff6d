//! [`Constant`]: a value that a definition keeps, such as a column's default.
//!
//! What it is not: checked. Whether a column takes it, [`TableDef::check`](crate::TableDef::check) says.

use std::fmt;

use crate::codec::{Reader, put_bytes, put_number};
use crate::value::Value;

/// A value of its own. Floats are equal if their bits are.
///
/// ```
/// use corun_store::{Constant, Value};
///
/// let constant = Constant::from(Value::Text("new"));
/// assert_eq!(constant.value(), Value::Text("new"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant(Kept);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Null,
    Bool(bool),
    Int(i64),
    Decimal(i128),
    /// The bits.
    Float(u64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Value<'_>> for Constant {
    fn from(value: Value<'_>) -> Self {
        Constant(match value {
            Value::Null => Kept::Null,
            Value::Bool(value) => Kept::Bool(value),
            Value::Int(value) => Kept::Int(value),
            Value::Decimal(value) => Kept::Decimal(value),
            Value::Float(value) => Kept::Float(value.to_bits()),
            Value::Text(text) => Kept::Text(text.to_owned()),
            Value::Bytes(bytes) => Kept::Bytes(bytes.to_vec()),
        })
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

impl Constant {
    /// The value.
    pub fn value(&self) -> Value<'_> {
        match &self.0 {
            Kept::Null => Value::Null,
            Kept::Bool(value) => Value::Bool(*value),
            Kept::Int(value) => Value::Int(*value),
            Kept::Decimal(value) => Value::Decimal(*value),
            Kept::Float(bits) => Value::Float(f64::from_bits(*bits)),
            Kept::Text(text) => Value::Text(text),
            Kept::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        match &self.0 {
            Kept::Null => bytes.push(0),
            Kept::Bool(value) => bytes.extend([1, u8::from(*value)]),
            Kept::Int(value) => {
                bytes.push(2);
                put_number(bytes, value.cast_unsigned());
            }
            Kept::Decimal(value) => {
                bytes.push(6);
                put_bytes(bytes, &value.to_le_bytes());
            }
            Kept::Float(bits) => {
                bytes.push(3);
                put_number(bytes, *bits);
            }
            Kept::Text(text) => {
                bytes.push(4);
                put_bytes(bytes, text.as_bytes());
            }
            Kept::Bytes(value) => {
                bytes.push(5);
                put_bytes(bytes, value);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Constant> {
        Some(Constant(match reader.byte()? {
            0 => Kept::Null,
            1 => Kept::Bool(reader.byte()? != 0),
            2 => Kept::Int(reader.number()?.cast_signed()),
            3 => Kept::Float(reader.number()?),
            4 => Kept::Text(reader.text()?),
            5 => Kept::Bytes(reader.bytes()?.to_vec()),
            6 => Kept::Decimal(i128::from_le_bytes(reader.bytes()?.try_into().ok()?)),
            _ => return None,
        }))
    }
}
