//! [`Fields`]: a column of a record batch as values of the store, row by row.
//!
//! Conversions keep the value or are refused: smaller integers and decimals become larger ones, dictionaries their texts,
//! single-precision floats double ones. What does not fit (an integer out of range, a text too long) is found by the row it is
//! set in, which knows the limits.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    StringArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;
use corun_store::{RowBuf, RowError, Type, Value};

/// Nanoseconds of a microsecond.
const NANOS: i64 = 1000;

/// One column of a batch.
pub enum Fields {
    /// NULLs only.
    Nulls,
    /// Truth values.
    Bools(BooleanArray),
    /// Integers, dates, timestamps.
    Ints(Int64Array),
    /// Timestamps in nanoseconds.
    Nanos(Int64Array),
    /// Numbers.
    Floats(Float64Array),
    /// Decimals with the scale of the column.
    Decimals(Decimal128Array),
    /// Texts.
    Texts(StringArray),
    /// Bytes.
    Bytes(BinaryArray),
}

/// Whether values of an Arrow type can be loaded into a column of the store.
pub fn is_loadable(from: &DataType, to: Type) -> bool {
    use DataType as D;
    if let D::Dictionary(_, values) = from {
        return is_loadable(values, to);
    }
    if matches!(from, D::Null) {
        return true;
    }
    match to {
        Type::Bool => matches!(from, D::Boolean),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => from.is_integer(),
        Type::F32 => matches!(from, D::Float16 | D::Float32),
        Type::F64 => from.is_floating(),
        Type::Decimal { scale, .. } => match from {
            D::Decimal32(_, digits) | D::Decimal64(_, digits) | D::Decimal128(_, digits) => {
                *digits <= scale as i8
            }
            other => other.is_integer(),
        },
        Type::Date => matches!(from, D::Date32),
        Type::Timestamp => match from {
            D::Timestamp(_, zone) => zone.as_deref().is_none_or(is_utc),
            _ => false,
        },
        // A zone says how a moment is shown, and no other moment.
        Type::TimestampTz => matches!(from, D::Timestamp(_, Some(_))),
        Type::Text { .. } | Type::FixedText { .. } => matches!(from, D::Utf8 | D::LargeUtf8 | D::Utf8View),
        Type::Bytes { .. } | Type::FixedBytes { .. } | Type::Uuid => {
            matches!(
                from,
                D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_)
            )
        }
    }
}

/// Whether a time zone is the one timestamps of the store count in.
pub fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "utc" | "Z" | "+00:00" | "+0000" | "Etc/UTC")
}

impl Fields {
    /// A column that [`is_loadable`].
    ///
    /// # Errors
    /// Values that are out of range of all integers or decimals of the store.
    pub fn new(array: &ArrayRef, to: Type) -> Result<Fields, ArrowError> {
        let cast = |to: &DataType| {
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            cast_with_options(array, to, &options)
        };
        if array.data_type() == &DataType::Null {
            return Ok(Fields::Nulls);
        }
        Ok(match to {
            Type::Bool => Fields::Bools(cast(&DataType::Boolean)?.as_boolean().clone()),
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
                Fields::Ints(cast(&DataType::Int64)?.as_primitive().clone())
            }
            Type::F32 | Type::F64 => Fields::Floats(cast(&DataType::Float64)?.as_primitive().clone()),
            Type::Decimal { scale, .. } => Fields::Decimals(
                cast(&DataType::Decimal128(38, scale as i8))?
                    .as_primitive()
                    .clone(),
            ),
            Type::Date => {
                let days = cast(&DataType::Int32)?;
                let options = CastOptions::default();
                Fields::Ints(
                    cast_with_options(&days, &DataType::Int64, &options)?
                        .as_primitive()
                        .clone(),
                )
            }
            Type::Timestamp | Type::TimestampTz => match array.data_type() {
                DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                    Fields::Nanos(cast(&DataType::Int64)?.as_primitive().clone())
                }
                _ => {
                    let micros = cast(&DataType::Timestamp(TimeUnit::Microsecond, None))?;
                    let options = CastOptions::default();
                    Fields::Ints(
                        cast_with_options(&micros, &DataType::Int64, &options)?
                            .as_primitive()
                            .clone(),
                    )
                }
            },
            Type::Text { .. } | Type::FixedText { .. } => {
                Fields::Texts(cast(&DataType::Utf8)?.as_string().clone())
            }
            Type::Bytes { .. } | Type::FixedBytes { .. } | Type::Uuid => {
                Fields::Bytes(cast(&DataType::Binary)?.as_binary().clone())
            }
        })
    }

    /// Sets a column of a row of the store from a row of the batch.
    ///
    /// # Errors
    /// A value the column does not take, as text.
    pub fn set(&self, row: usize, to: &mut RowBuf, column: usize) -> Result<(), String> {
        let value = match self {
            Fields::Nulls => Value::Null,
            Fields::Bools(array) if array.is_valid(row) => Value::Bool(array.value(row)),
            Fields::Ints(array) if array.is_valid(row) => Value::Int(array.value(row)),
            Fields::Nanos(array) if array.is_valid(row) => {
                let nanos = array.value(row);
                if nanos % NANOS != 0 {
                    return Err(format!(
                        "a timestamp of {nanos} ns since 1970 is not one of whole microseconds"
                    ));
                }
                Value::Int(nanos / NANOS)
            }
            Fields::Floats(array) if array.is_valid(row) => Value::Float(array.value(row)),
            Fields::Decimals(array) if array.is_valid(row) => {
                let value = array.value(row);
                // Most fit, and rows take those at once.
                i64::try_from(value).map_or(Value::Decimal(value), Value::Int)
            }
            Fields::Texts(array) if array.is_valid(row) => Value::Text(array.value(row)),
            Fields::Bytes(array) if array.is_valid(row) => Value::Bytes(array.value(row)),
            _ => Value::Null,
        };
        to.set(column, value).map_err(|error: RowError| error.to_string())
    }
}
