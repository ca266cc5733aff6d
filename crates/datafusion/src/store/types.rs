//! Types and values of the store as Arrow's, and literals of SQL as the store's values.
//!
//! | store | SQL |
//! |---|---|
//! | `Bool`, `I8` .. `I64`, `F32`, `F64` | `Boolean`, `Int8` .. `Int64`, `Float32`, `Float64` |
//! | `Decimal` | `Decimal128` of the same digits |
//! | `Date`, `Timestamp`, `TimestampTz` | `Date32`, `Timestamp` in microseconds without a zone, and in that of UTC |
//! | `Text` | `Utf8View`, as texts of Parquet files |
//! | `FixedText` | `Utf8View` without the blanks it is filled up with, so that it equals what was stored |
//! | `Bytes`, `FixedBytes`, `Uuid` | `Binary`, `FixedSizeBinary` |

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use corun_store::{TableDef, Type, Value};
use datafusion::common::ScalarValue;
use std::sync::Arc;

/// The zone of moments.
pub const UTC: &str = "UTC";

/// A column's type in SQL.
pub fn arrow_type(data_type: Type) -> DataType {
    match data_type {
        Type::Bool => DataType::Boolean,
        Type::I8 => DataType::Int8,
        Type::I16 => DataType::Int16,
        Type::I32 => DataType::Int32,
        Type::I64 => DataType::Int64,
        Type::F32 => DataType::Float32,
        Type::F64 => DataType::Float64,
        Type::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
        Type::Date => DataType::Date32,
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        Type::Text { .. } | Type::FixedText { .. } => DataType::Utf8View,
        Type::Bytes { .. } => DataType::Binary,
        Type::Uuid => DataType::FixedSizeBinary(16),
        Type::FixedBytes { bytes } => DataType::FixedSizeBinary(i32::try_from(bytes).unwrap_or(i32::MAX)),
    }
}

/// A table's schema in SQL.
pub fn arrow_schema(definition: &TableDef) -> SchemaRef {
    let fields: Vec<Field> = definition
        .columns
        .iter()
        .map(|column| Field::new(&column.name, arrow_type(column.data_type), column.nullable))
        .collect();
    Arc::new(Schema::new(fields))
}

/// The name of the column with the row's number ([`super::StoreTable::with_row_numbers`]), which nobody writes by chance.
pub const ROW_NUMBER: &str = "\u{1}rid";

/// A schema with the row's number behind its columns.
pub(super) fn with_row_numbers(schema: &Schema) -> SchemaRef {
    let number = Arc::new(Field::new(ROW_NUMBER, DataType::UInt32, false));
    let fields: Vec<_> = schema.fields().iter().cloned().chain([number]).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A field as SQL shows it; `None` if it is NULL.
pub fn scalar(value: Value<'_>, data_type: Type) -> Option<ScalarValue> {
    Some(match (value, data_type) {
        (Value::Bool(value), _) => ScalarValue::Boolean(Some(value)),
        (Value::Int(value), Type::I8) => ScalarValue::Int8(Some(value as i8)),
        (Value::Int(value), Type::I16) => ScalarValue::Int16(Some(value as i16)),
        (Value::Int(value), Type::I32) => ScalarValue::Int32(Some(value as i32)),
        (Value::Int(value), Type::I64) => ScalarValue::Int64(Some(value)),
        (Value::Int(value), Type::Date) => ScalarValue::Date32(Some(value as i32)),
        (Value::Int(value), Type::Timestamp) => ScalarValue::TimestampMicrosecond(Some(value), None),
        (Value::Int(value), Type::TimestampTz) => {
            ScalarValue::TimestampMicrosecond(Some(value), Some(UTC.into()))
        }
        (Value::Int(value), Type::Decimal { precision, scale }) => {
            ScalarValue::Decimal128(Some(i128::from(value)), precision, scale as i8)
        }
        (Value::Decimal(value), Type::Decimal { precision, scale }) => {
            ScalarValue::Decimal128(Some(value), precision, scale as i8)
        }
        (Value::Float(value), Type::F32) => ScalarValue::Float32(Some(value as f32)),
        (Value::Float(value), _) => ScalarValue::Float64(Some(value)),
        (Value::Text(text), _) => ScalarValue::Utf8View(Some(text.to_owned())),
        (Value::Bytes(bytes), Type::FixedBytes { .. } | Type::Uuid) => {
            ScalarValue::FixedSizeBinary(bytes.len() as i32, Some(bytes.to_vec()))
        }
        (Value::Bytes(bytes), _) => ScalarValue::Binary(Some(bytes.to_vec())),
        _ => return None,
    })
}

/// A value that a statement holds on to.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Literal {
    /// A truth value.
    Bool(bool),
    /// An integer, an unscaled decimal of at most 18 digits, a date or a timestamp.
    Int(i64),
    /// A longer decimal, unscaled.
    Decimal(i128),
    /// A number that is neither NaN nor zero of the wrong sign: see [`super::conditions`].
    Float(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Literal {
    /// A literal compared with a column of this type; `None` if it is NULL, or if the two cannot be compared as the store does.
    pub fn of(value: &ScalarValue, data_type: Type) -> Option<Literal> {
        use ScalarValue as S;
        Some(match (value, data_type) {
            (S::Boolean(Some(value)), Type::Bool) => Literal::Bool(*value),
            (S::Int8(Some(value)), Type::I8) => Literal::Int(i64::from(*value)),
            (S::Int16(Some(value)), Type::I16) => Literal::Int(i64::from(*value)),
            (S::Int32(Some(value)), Type::I32) => Literal::Int(i64::from(*value)),
            (S::Int64(Some(value)), Type::I64) => Literal::Int(*value),
            (S::Date32(Some(value)), Type::Date) => Literal::Int(i64::from(*value)),
            (S::TimestampMicrosecond(Some(value), None), Type::Timestamp)
            | (S::TimestampMicrosecond(Some(value), Some(_)), Type::TimestampTz) => Literal::Int(*value),
            (S::Decimal128(Some(value), _, digits), Type::Decimal { scale, .. })
                if *digits == scale as i8 =>
            {
                match data_type.is_wide() {
                    true => Literal::Decimal(*value),
                    false => Literal::Int(i64::try_from(*value).ok()?),
                }
            }
            (S::Float64(Some(value)), Type::F64) if !value.is_nan() => Literal::Float(*value),
            (S::Float32(Some(value)), Type::F32) if !value.is_nan() => Literal::Float((*value).into()),
            (
                S::Utf8(Some(text)) | S::Utf8View(Some(text)) | S::LargeUtf8(Some(text)),
                Type::Text { .. } | Type::FixedText { .. },
            ) => Literal::Text(text.clone()),
            (
                S::Binary(Some(bytes)) | S::BinaryView(Some(bytes)) | S::LargeBinary(Some(bytes)),
                Type::Bytes { .. } | Type::FixedBytes { .. } | Type::Uuid,
            )
            | (
                S::FixedSizeBinary(_, Some(bytes)),
                Type::Bytes { .. } | Type::FixedBytes { .. } | Type::Uuid,
            ) => Literal::Bytes(bytes.clone()),
            _ => return None,
        })
    }

    /// It as the store takes it.
    pub fn value(&self) -> Value<'_> {
        match self {
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Int(value) => Value::Int(*value),
            Literal::Decimal(value) => Value::Decimal(*value),
            Literal::Float(value) => Value::Float(*value),
            Literal::Text(text) => Value::Text(text),
            Literal::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}
