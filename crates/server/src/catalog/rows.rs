//! System tables written as data: a text of columns (`oid:oid relname:name`), and rows of [`Value`]s.

use super::typed::metadata_of;
use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, Int64Array, ListArray, ListBuilder,
    RecordBatch, StringArray, StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int16Type, Int32Type, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::Result;
use datafusion_pg_catalog::pg_catalog::oid_field::oid_field;
use std::sync::Arc;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f32),
    Text(String),
    Ints(Vec<i32>),
    Texts(Vec<String>),
}

macro_rules! from {
    ($($of:ty => $to:expr),* $(,)?) => {
        $(impl From<$of> for Value {
            fn from(of: $of) -> Self {
                let to: fn($of) -> Value = $to;
                to(of)
            }
        })*
    };
}

from! {
    bool => Value::Bool,
    i16 => |value| Value::Int(value.into()),
    i32 => |value| Value::Int(value.into()),
    i64 => Value::Int,
    f32 => Value::Float,
    &str => |value| Value::Text(value.to_owned()),
    String => Value::Text,
    Vec<i32> => Value::Ints,
    Vec<String> => Value::Texts,
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(of: Option<T>) -> Self {
        of.map_or(Value::Null, Into::into)
    }
}

/// A row of anything that has values.
macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$($crate::catalog::rows::Value::from($value)),*] };
}
pub(crate) use row;

fn field(column: &str) -> Field {
    let (name, kind) = column.split_once(':').unwrap_or((column, "text"));
    let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
    let data_type = match kind {
        "oid" | "regclass" | "regnamespace" | "regtype" | "regproc" => return oid_field(name, kind, true),
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" => DataType::Int64,
        "float4" => DataType::Float32,
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "int2[]" => list(DataType::Int16),
        // Clients are shown a text: `1 2`.
        "int2vector" => {
            return Field::new(name, list(DataType::Int16), true).with_metadata(metadata_of(22, -1));
        }
        "oidvector" => {
            return Field::new(name, list(DataType::Int32), true).with_metadata(metadata_of(30, -1));
        }
        "oid[]" => list(DataType::Int32),
        "text[]" => list(DataType::Utf8),
        _ => DataType::Utf8,
    };
    Field::new(name, data_type, true)
}

/// The schema that a text of columns describes.
pub(crate) fn schema(columns: &str) -> SchemaRef {
    Arc::new(Schema::new(
        columns.split_whitespace().map(field).collect::<Vec<_>>(),
    ))
}

/// A table of these rows; columns that a row is too short for are null.
///
/// # Errors
/// None that is known.
pub(crate) fn table(columns: &str, rows: &[Vec<Value>]) -> Result<Arc<dyn TableProvider>> {
    let schema = schema(columns);
    let arrays = schema.fields().iter().enumerate();
    let arrays: Vec<ArrayRef> = arrays
        .map(|(at, field)| array(field.data_type(), rows, at))
        .collect();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

fn array(of: &DataType, rows: &[Vec<Value>], at: usize) -> ArrayRef {
    let values = || rows.iter().map(|row| row.get(at).unwrap_or(&Value::Null));
    let ints = || {
        values().map(|value| match value {
            Value::Int(value) => Some(*value),
            _ => None,
        })
    };
    let lists = || {
        values().map(|value| match value {
            Value::Ints(values) => Some(values.clone()),
            _ => None,
        })
    };
    match of {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(values().map(|value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }))),
        DataType::Int16 => Arc::new(Int16Array::from_iter(
            ints().map(|value| value.map(|value| value as i16)),
        )),
        DataType::Int32 => Arc::new(Int32Array::from_iter(
            ints().map(|value| value.map(|value| value as i32)),
        )),
        DataType::Int64 => Arc::new(Int64Array::from_iter(ints())),
        DataType::Timestamp(..) => {
            Arc::new(TimestampMicrosecondArray::from_iter(ints()).with_timezone("UTC"))
        }
        DataType::Float32 => Arc::new(Float32Array::from_iter(values().map(|value| match value {
            Value::Float(value) => Some(*value),
            _ => None,
        }))),
        DataType::List(item) if *item.data_type() == DataType::Int16 => {
            let lists = lists().map(|list| {
                list.map(|list| {
                    list.into_iter()
                        .map(|value| Some(value as i16))
                        .collect::<Vec<_>>()
                })
            });
            Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>(lists))
        }
        DataType::List(item) if *item.data_type() == DataType::Int32 => {
            let lists = lists().map(|list| list.map(|list| list.into_iter().map(Some).collect::<Vec<_>>()));
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
        }
        DataType::List(_) => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for value in values() {
                match value {
                    Value::Texts(texts) => lists.append_value(texts.iter().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        _ => Arc::new(StringArray::from_iter(values().map(|value| match value {
            Value::Text(value) => Some(value.as_str()),
            _ => None,
        }))),
    }
}
