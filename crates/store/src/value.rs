//! [`Type`] of a column and [`Value`] of a field.
//!
//! What they are not: arithmetic. A decimal is its unscaled integer, a timestamp its microseconds; the scale is the
//! column's, and only who shows a value needs it.

use std::fmt;

use crate::row::RowError;
use crate::schema::ROW_BYTES_MAX;

/// Most digits of a decimal.
pub(crate) const DIGITS_MAX: u8 = 38;
/// Most digits of one that is kept as an `i64`.
const LONG_DIGITS: u8 = 18;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// True or false.
    Bool,
    /// 8-bit integer with sign.
    I8,
    /// 16-bit integer with sign.
    I16,
    /// 32-bit integer with sign.
    I32,
    /// 64-bit integer with sign.
    I64,
    /// 32-bit floating-point number.
    F32,
    /// 64-bit floating-point number.
    F64,
    /// Exact decimal, kept as an integer of `precision` digits of which `scale` stand after the point: in 8 bytes up to 18 digits, in 16 beyond.
    Decimal {
        /// Digits, 1 to 38.
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01 00:00, of a clock that says no time zone.
    Timestamp,
    /// Microseconds since 1970-01-01 00:00 UTC: a moment.
    TimestampTz,
    /// 16 bytes, which are a UUID.
    Uuid,
    /// Text of at most `max` bytes of UTF-8, kept with its length.
    Text {
        /// Bytes.
        max: u32,
    },
    /// Text of exactly `bytes` bytes: shorter text is filled up with blanks, which come back.
    FixedText {
        /// Bytes.
        bytes: u32,
    },
    /// At most `max` bytes, kept with their length.
    Bytes {
        /// Bytes.
        max: u32,
    },
    /// Exactly `bytes` bytes.
    FixedBytes {
        /// Bytes.
        bytes: u32,
    },
}

impl Type {
    /// Text as long as a row has room for.
    pub const TEXT: Type = Type::Text {
        max: ROW_BYTES_MAX as u32,
    };

    /// Bytes, as many as a row has room for.
    pub const BYTES: Type = Type::Bytes {
        max: ROW_BYTES_MAX as u32,
    };

    /// Bytes a field takes in every row, or none for those kept with their length.
    pub fn fixed_bytes(self) -> Option<usize> {
        Some(match self {
            Type::Bool | Type::I8 => 1,
            Type::I16 => 2,
            Type::I32 | Type::F32 | Type::Date => 4,
            Type::Decimal { .. } if self.is_wide() => 16,
            Type::I64 | Type::F64 | Type::Decimal { .. } | Type::Timestamp | Type::TimestampTz => 8,
            Type::Uuid => 16,
            Type::FixedText { bytes } | Type::FixedBytes { bytes } => bytes as usize,
            Type::Text { .. } | Type::Bytes { .. } => return None,
        })
    }

    /// Most bytes of a field.
    pub fn bytes_max(self) -> usize {
        match self {
            Type::Text { max } | Type::Bytes { max } => max as usize,
            _ => self.fixed_bytes().expect("the other types are fixed"),
        }
    }

    /// Whether fields are [`Value::Int`].
    pub fn is_integer(self) -> bool {
        match self {
            Type::I8
            | Type::I16
            | Type::I32
            | Type::I64
            | Type::Date
            | Type::Timestamp
            | Type::TimestampTz => true,
            Type::Decimal { .. } => !self.is_wide(),
            _ => false,
        }
    }

    /// Whether fields are [`Value::Decimal`]: of decimals of more than 18 digits.
    pub fn is_wide(self) -> bool {
        matches!(self, Type::Decimal { precision, .. } if precision > LONG_DIGITS)
    }

    /// Whether fields are [`Value::Float`].
    pub fn is_float(self) -> bool {
        matches!(self, Type::F32 | Type::F64)
    }

    /// Whether fields are [`Value::Text`].
    pub fn is_text(self) -> bool {
        matches!(self, Type::Text { .. } | Type::FixedText { .. })
    }

    /// Whether fields are [`Value::Bytes`].
    pub fn is_bytes(self) -> bool {
        matches!(self, Type::Bytes { .. } | Type::FixedBytes { .. } | Type::Uuid)
    }

    /// Smallest and largest integer it takes; of types that hold no integers, none.
    pub(crate) fn integer_range(self) -> Option<(i64, i64)> {
        Some(match self {
            Type::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
            Type::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Type::I32 | Type::Date => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Type::I64 | Type::Timestamp | Type::TimestampTz => (i64::MIN, i64::MAX),
            Type::Decimal { precision, .. } if precision <= LONG_DIGITS => {
                let most = 10_i64.pow(u32::from(precision)) - 1;
                (-most, most)
            }
            _ => return None,
        })
    }

    /// The same of integers and all decimals.
    pub(crate) fn number_range(self) -> Option<(i128, i128)> {
        match self {
            Type::Decimal { precision, .. } if self.is_wide() => {
                let most = 10_i128.pow(u32::from(precision.min(DIGITS_MAX))) - 1;
                Some((-most, most))
            }
            _ => self
                .integer_range()
                .map(|(least, most)| (least.into(), most.into())),
        }
    }

    /// Bytes that a field has exactly, if it is one of bytes and they are fixed.
    pub(crate) fn exact_bytes(self) -> Option<usize> {
        match self {
            Type::FixedBytes { .. } | Type::Uuid => self.fixed_bytes(),
            _ => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("bool"),
            Type::I8 => f.write_str("i8"),
            Type::I16 => f.write_str("i16"),
            Type::I32 => f.write_str("i32"),
            Type::I64 => f.write_str("i64"),
            Type::F32 => f.write_str("f32"),
            Type::F64 => f.write_str("f64"),
            Type::Decimal { precision, scale } => write!(f, "decimal({precision}, {scale})"),
            Type::Date => f.write_str("date"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::TimestampTz => f.write_str("timestamp with time zone"),
            Type::Uuid => f.write_str("uuid"),
            Type::Text { max } => write!(f, "text({max})"),
            Type::FixedText { bytes } => write!(f, "fixed text({bytes})"),
            Type::Bytes { max } => write!(f, "bytes({max})"),
            Type::FixedBytes { bytes } => write!(f, "fixed bytes({bytes})"),
        }
    }
}

/// One field.
///
/// Integers, floats, `bool`, text and bytes turn into one with `into`, `None` into NULL; `u64` and `usize`, which may be too large, with
/// `try_from`.
///
/// ```
/// use corun_store::Value;
///
/// assert_eq!(Value::from(7_u32), Value::Int(7));
/// assert_eq!(Value::from(b"ab"), Value::Bytes(&[97, 98]));
/// assert_eq!(Value::try_from(7_u64)?, Value::Int(7));
/// let refused = Value::try_from(u64::MAX).unwrap_err();
/// assert!(refused.to_string().starts_with("18446744073709551615 is out of the range of integers"));
/// # Ok::<(), corun_store::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// Of [`Type::Bool`].
    Bool(bool),
    /// Of the integer types, of decimals of at most 18 digits (unscaled), dates and timestamps.
    Int(i64),
    /// Of longer decimals, unscaled. Columns of these take [`Value::Int`], too.
    Decimal(i128),
    /// Of [`Type::F64`] and [`Type::F32`].
    Float(f64),
    /// Of the text types.
    Text(&'a str),
    /// Of the byte types.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// An integer or decimal.
    pub(crate) fn number(&self) -> Option<i128> {
        match *self {
            Value::Int(value) => Some(value.into()),
            Value::Decimal(value) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Decimal(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Text(value) => write!(f, "'{value}'"),
            Value::Bytes(value) => {
                f.write_str("x'")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("'")
            }
        }
    }
}

macro_rules! from_integer {
    ($($t:ty),*) => {$(
        impl From<$t> for Value<'_> {
            fn from(value: $t) -> Self {
                Value::Int(i64::from(value))
            }
        }
    )*};
}
from_integer!(i8, i16, i32, i64, u8, u16, u32);

macro_rules! try_from_integer {
    ($($t:ty),*) => {$(
        /// Of a number that an `i64` holds.
        ///
        /// # Errors
        /// [`RowError::Unsigned`] beyond that.
        impl TryFrom<$t> for Value<'_> {
            type Error = RowError;

            fn try_from(value: $t) -> Result<Self, RowError> {
                let refused = |_| RowError::Unsigned { value: value as u64 };
                i64::try_from(value).map(Value::Int).map_err(refused)
            }
        }
    )*};
}
try_from_integer!(u64, usize);

impl From<i128> for Value<'_> {
    fn from(value: i128) -> Self {
        Value::Decimal(value)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<f32> for Value<'_> {
    fn from(value: f32) -> Self {
        Value::Float(value.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Text(value)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Value::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Value::Bytes(value)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        Value::Bytes(value)
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(value: &'a Vec<u8>) -> Self {
        Value::Bytes(value)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}
