//! Values between DataFusion and the store: what an index is asked for, and what expressions are given of a row.
//!
//! Everything here keeps values exactly. Floats are left out: SQL tells -0 from 0 and orders NaNs by their sign, an index does not.

use arrow::datatypes::{DataType, TimeUnit};
use corun_store::{RowRef, Type, Value};
use datafusion::common::ScalarValue;

/// Whether a value of an Arrow type equals a column of the store just where the store's index says so ([`key_value`]).
pub(super) fn equals_as_index(of: &DataType, stored: Type) -> bool {
    match of {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => is_whole(stored),
        DataType::Decimal128(_, scale) => {
            *scale >= 0 && (is_whole(stored) || matches!(stored, Type::Decimal { .. }))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => stored.is_text(),
        DataType::Boolean => stored == Type::Bool,
        DataType::Date32 => stored == Type::Date,
        DataType::Timestamp(TimeUnit::Microsecond, None) => stored == Type::Timestamp,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => stored == Type::TimestampTz,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            stored.is_bytes()
        }
        _ => false,
    }
}

/// Whether an index sorts a column as SQL does. Fixed text is filled up with blanks in an index.
pub(super) fn sorts_as_index(of: &DataType, stored: Type) -> bool {
    equals_as_index(of, stored) && !matches!(stored, Type::FixedText { .. })
}

fn is_whole(stored: Type) -> bool {
    matches!(stored, Type::I8 | Type::I16 | Type::I32 | Type::I64)
}

/// Whether a cast of a column changes no value and no two of them into one, and never fails.
pub(super) fn keeps_values(from: &DataType, to: &DataType) -> bool {
    if from == to {
        return true;
    }
    match (digits(from), to) {
        (Some(_), DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            from.primitive_width() <= to.primitive_width()
        }
        (Some(digits), DataType::Decimal128(precision, scale)) => {
            *scale >= 0 && i16::from(*precision) - i16::from(*scale) >= digits
        }
        _ => match (from, to) {
            (DataType::Decimal128(precision, scale), DataType::Decimal128(wider, longer)) => {
                longer >= scale
                    && i16::from(*wider) - i16::from(*longer) >= i16::from(*precision) - i16::from(*scale)
            }
            (
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View,
            )
            | (
                DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_),
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView,
            )
            | (
                DataType::Timestamp(TimeUnit::Microsecond, Some(_)),
                DataType::Timestamp(TimeUnit::Microsecond, Some(_)),
            ) => true,
            _ => false,
        },
    }
}

/// Digits of whole numbers of a type.
fn digits(of: &DataType) -> Option<i16> {
    Some(match of {
        DataType::Int8 => 3,
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        DataType::Int64 => 19,
        _ => return None,
    })
}

/// What an index is asked for; `None`: no row has the value, or it is NULL.
pub(super) fn key_value(value: &ScalarValue, stored: Type) -> Option<Value<'_>> {
    use ScalarValue as S;
    Some(match value {
        S::Int8(value) => whole(i128::from((*value)?), 0, stored)?,
        S::Int16(value) => whole(i128::from((*value)?), 0, stored)?,
        S::Int32(value) => whole(i128::from((*value)?), 0, stored)?,
        S::Int64(value) => whole(i128::from((*value)?), 0, stored)?,
        S::Decimal128(value, _, scale) => whole((*value)?, *scale, stored)?,
        S::Boolean(value) => Value::Bool((*value)?),
        S::Date32(value) => Value::Int(i64::from((*value)?)),
        S::TimestampMicrosecond(value, _) => Value::Int((*value)?),
        S::Utf8(text) | S::LargeUtf8(text) | S::Utf8View(text) => Value::Text(text.as_deref()?),
        S::Binary(bytes) | S::LargeBinary(bytes) | S::BinaryView(bytes) | S::FixedSizeBinary(_, bytes) => {
            let bytes = bytes.as_deref()?;
            let exactly = match stored {
                Type::Uuid => Some(16),
                Type::FixedBytes { bytes } => Some(bytes as usize),
                _ => None,
            };
            if exactly.is_some_and(|exactly| exactly != bytes.len()) {
                return None;
            }
            Value::Bytes(bytes)
        }
        _ => return None,
    })
}

/// A number with so many digits behind its point as the store keeps one of the type.
fn whole<'v>(value: i128, scale: i8, stored: Type) -> Option<Value<'v>> {
    let kept = match stored {
        Type::Decimal { scale, .. } => i32::from(scale),
        _ => 0,
    };
    let shift = kept - i32::from(scale);
    let factor = 10_i128.checked_pow(shift.unsigned_abs())?;
    let value = match shift >= 0 {
        true => value.checked_mul(factor)?,
        false if value % factor == 0 => value / factor,
        false => return None,
    };
    match i64::try_from(value) {
        Ok(value) => Some(Value::Int(value)),
        Err(_) if stored.is_wide() => Some(Value::Decimal(value)),
        Err(_) => None,
    }
}

/// Whether [`scalar_of`] has fields of a type of the store as values of an Arrow type.
pub(super) fn reads(stored: Type, to: &DataType) -> bool {
    match to {
        DataType::Boolean => stored == Type::Bool,
        DataType::Int8 => stored == Type::I8,
        DataType::Int16 => stored == Type::I16,
        DataType::Int32 => stored == Type::I32,
        DataType::Int64 => stored == Type::I64,
        DataType::Float32 => stored == Type::F32,
        DataType::Float64 => stored == Type::F64,
        DataType::Decimal128(precision, scale) => matches!(stored, Type::Decimal { precision: p, scale: s }
            if p <= *precision && i8::try_from(s) == Ok(*scale)),
        DataType::Date32 => stored == Type::Date,
        DataType::Timestamp(TimeUnit::Microsecond, None) => stored == Type::Timestamp,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => stored == Type::TimestampTz,
        DataType::Utf8View | DataType::Utf8 => stored.is_text(),
        DataType::Binary => matches!(stored, Type::Bytes { .. }),
        DataType::FixedSizeBinary(16) if stored == Type::Uuid => true,
        DataType::FixedSizeBinary(width) => {
            matches!(stored, Type::FixedBytes { bytes } if u32::try_from(*width) == Ok(bytes))
        }
        _ => false,
    }
}

/// A field as SQL sees it; `None` where it is not one that [`reads`].
pub(super) fn scalar_of(row: RowRef<'_>, column: usize, to: &DataType) -> Option<ScalarValue> {
    if row.is_null(column) {
        return ScalarValue::try_from(to).ok();
    }
    let fixed = matches!(row.data_type(column), Type::FixedText { .. });
    Some(match (row.value(column), to) {
        (Value::Bool(value), DataType::Boolean) => ScalarValue::Boolean(Some(value)),
        (Value::Int(value), DataType::Int8) => ScalarValue::Int8(i8::try_from(value).ok()),
        (Value::Int(value), DataType::Int16) => ScalarValue::Int16(i16::try_from(value).ok()),
        (Value::Int(value), DataType::Int32) => ScalarValue::Int32(i32::try_from(value).ok()),
        (Value::Int(value), DataType::Int64) => ScalarValue::Int64(Some(value)),
        (Value::Int(value), DataType::Date32) => ScalarValue::Date32(i32::try_from(value).ok()),
        (Value::Int(value), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            ScalarValue::TimestampMicrosecond(Some(value), zone.clone())
        }
        (Value::Int(value), DataType::Decimal128(precision, scale)) => {
            ScalarValue::Decimal128(Some(i128::from(value)), *precision, *scale)
        }
        (Value::Decimal(value), DataType::Decimal128(precision, scale)) => {
            ScalarValue::Decimal128(Some(value), *precision, *scale)
        }
        (Value::Float(value), DataType::Float32) => ScalarValue::Float32(Some(value as f32)),
        (Value::Float(value), DataType::Float64) => ScalarValue::Float64(Some(value)),
        (Value::Text(text), DataType::Utf8View | DataType::Utf8) => {
            let text = if fixed { text.trim_end_matches(' ') } else { text };
            match to {
                DataType::Utf8 => ScalarValue::Utf8(Some(text.to_owned())),
                _ => ScalarValue::Utf8View(Some(text.to_owned())),
            }
        }
        (Value::Bytes(bytes), DataType::Binary) => ScalarValue::Binary(Some(bytes.to_vec())),
        (Value::Bytes(bytes), DataType::FixedSizeBinary(width)) => {
            ScalarValue::FixedSizeBinary(*width, Some(bytes.to_vec()))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_keys_exactly_or_find_nothing() {
        let decimal = Type::Decimal {
            precision: 9,
            scale: 2,
        };
        let of = |value, scale| ScalarValue::Decimal128(Some(value), 38, scale);
        assert_eq!(
            key_value(&ScalarValue::Int64(Some(7)), Type::I32),
            Some(Value::Int(7))
        );
        assert_eq!(key_value(&ScalarValue::Int64(None), Type::I32), None);
        assert_eq!(key_value(&of(70, 1), Type::I32), Some(Value::Int(7)));
        assert_eq!(key_value(&of(71, 1), Type::I32), None);
        assert_eq!(key_value(&of(71, 1), decimal), Some(Value::Int(710)));
        assert_eq!(key_value(&of(7101, 3), decimal), None);
        assert_eq!(key_value(&of(i128::MAX, 0), decimal), None);
        let wide = Type::Decimal {
            precision: 30,
            scale: 2,
        };
        let large = 10_i128.pow(20);
        assert_eq!(key_value(&of(large, 0), wide), Some(Value::Decimal(large * 100)));
    }

    #[test]
    fn casts_are_looked_through_where_they_lose_nothing() {
        let decimal = DataType::Decimal128;
        for (from, to, keeps) in [
            (DataType::Int32, DataType::Int64, true),
            (DataType::Int64, DataType::Int32, false),
            (DataType::Int64, DataType::Float64, false),
            (DataType::Int32, decimal(38, 10), true),
            (DataType::Int64, decimal(20, 2), false),
            (decimal(9, 2), decimal(38, 10), true),
            (decimal(9, 2), decimal(9, 1), false),
            (DataType::Utf8View, DataType::Utf8, true),
            (DataType::Int32, DataType::Utf8, false),
            (
                DataType::Date32,
                DataType::Timestamp(TimeUnit::Microsecond, None),
                false,
            ),
        ] {
            assert_eq!(keeps_values(&from, &to), keeps, "{from} to {to}");
        }
    }
}
