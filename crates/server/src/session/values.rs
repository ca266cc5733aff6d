//! Arrow's columns as PostgreSQL's values.

use crate::catalog::{pg_type, pg_type_of, shown};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Field,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Schema, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow::json::writer::{EncoderOptions, make_encoder};
use corun_wire::error::{Refusal, code};
use corun_wire::server::Column;
use corun_wire::values::{
    self, Date, Dimension, FixedOffset, Format, Interval, Kind, Numeric, Time, Timestamp, Type, Value,
};
use std::borrow::Cow;
use std::sync::Arc;

/// The type that clients see of an Arrow type: the one that the system tables show.
pub(super) fn type_of(of: &DataType) -> Type {
    Type::of(pg_type(of).oid.unsigned_abs()).unwrap_or(Type::TEXT)
}

/// The columns of a result.
pub(crate) fn columns_of(schema: &Schema) -> Vec<Column> {
    let column = |field: &Arc<Field>| {
        let of = pg_type_of(field);
        Column {
            name: shown(field.name()).to_owned(),
            of: Type::of(of.oid.unsigned_abs()).unwrap_or(Type::TEXT),
            modifier: of.modifier,
        }
    };
    schema.fields().iter().map(column).collect()
}

/// The values of one column by row; `None` is NULL.
pub(crate) type Cells<'a> = Box<dyn Fn(usize) -> Result<Option<Value<'a>>, Refusal> + 'a>;

/// A batch whose encoded columns (dictionaries, runs) are plain, so that [`cells`] reads them.
///
/// # Errors
/// None that is known.
pub(crate) fn plain(batch: &RecordBatch) -> Result<Vec<ArrayRef>, Refusal> {
    batch.columns().iter().map(plain_array).collect()
}

fn plain_array(array: &ArrayRef) -> Result<ArrayRef, Refusal> {
    let to = match array.data_type() {
        DataType::Dictionary(_, value) => value.as_ref(),
        DataType::RunEndEncoded(_, value) => value.data_type(),
        _ => return Ok(Arc::clone(array)),
    };
    let cast = cast(array, to).map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))?;
    plain_array(&cast)
}

fn out_of_range(what: &str) -> Refusal {
    Refusal::new(code::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// The values of a column that clients see as this kind: UUIDs and JSON are bytes and texts for Arrow. `array` is [`plain`].
///
/// # Errors
/// An Arrow type that has no values here.
pub(crate) fn cells_as<'a>(array: &'a dyn Array, kind: Kind) -> Result<Cells<'a>, Refusal> {
    let read = cells(array)?;
    if !matches!(
        kind,
        Kind::Uuid | Kind::Json | Kind::Jsonb | Kind::Inet | Kind::Oid
    ) {
        return Ok(read);
    }
    let value = move |value| match (kind, value) {
        (Kind::Uuid, Value::Bytea(bytes)) => match <[u8; 16]>::try_from(bytes.as_ref()) {
            Ok(bytes) => Value::Uuid(bytes),
            Err(_) => Value::Bytea(bytes),
        },
        (Kind::Json, Value::Text(text)) => Value::Json(text),
        (Kind::Jsonb, Value::Text(text)) => Value::Jsonb(text),
        (Kind::Inet, Value::Text(text)) => Value::Inet(text),
        (Kind::Oid, Value::Int8(number)) => u32::try_from(number).map_or(Value::Int8(number), Value::Oid),
        (_, value) => value,
    };
    Ok(Box::new(move |row| Ok(read(row)?.map(value))))
}

/// The same with the type's limits ([`as_told`]).
///
/// # Errors
/// As there.
pub(crate) fn cells_shown<'a>(array: &'a dyn Array, of: &Column) -> Result<Cells<'a>, Refusal> {
    let read = cells_as(array, of.of.kind)?;
    if let (DataType::List(_), Kind::Text, false) = (array.data_type(), of.of.kind, of.of.array) {
        return Ok(Box::new(move |row| Ok(read(row)?.map(vector))));
    }
    if !is_limited(of) {
        return Ok(read);
    }
    let (kind, modifier) = (of.of, of.modifier);
    Ok(Box::new(move |row| {
        read(row)?.map(|value| told(value, kind, modifier)).transpose()
    }))
}

/// A list as `int2vector` and `oidvector` are written.
fn vector(value: Value<'_>) -> Value<'_> {
    let Value::Array(array) = value else {
        return value;
    };
    let numbers = array.elements.iter().map(|element| match element {
        Some(Value::Int2(number)) => number.to_string(),
        Some(Value::Int4(number)) => number.to_string(),
        _ => "0".to_owned(),
    });
    Value::Text(numbers.collect::<Vec<_>>().join(" ").into())
}

fn is_limited(of: &Column) -> bool {
    of.of.array || of.of.kind == Kind::Bpchar || (of.of.kind == Kind::Numeric && of.modifier < 0)
}

/// A value as clients are told it: `char(n)` is filled up with blanks, `numeric` without digits ends with the last that is not zero, and arrays
/// that are kept as texts are arrays.
///
/// # Errors
/// A text that is no array of the type.
#[inline]
pub(crate) fn as_told<'a>(value: Value<'a>, of: &Column) -> Result<Value<'a>, Refusal> {
    match is_limited(of) {
        true => told(value, of.of, of.modifier),
        false => Ok(value),
    }
}

fn told(value: Value<'_>, of: Type, modifier: i32) -> Result<Value<'_>, Refusal> {
    match (value, of.kind, u32::try_from(modifier)) {
        (Value::Text(text) | Value::Json(text) | Value::Jsonb(text), ..) if of.array => {
            let value = Value::read(of, Format::Text, text.as_bytes(), &FixedOffset::UTC)?;
            Ok(value.into_owned())
        }
        (value, Kind::Bpchar, Ok(modifier)) if !of.array => Ok(padded(value, modifier.saturating_sub(4))),
        (value, Kind::Numeric, Err(_)) if !of.array => Ok(without_zeros(value)),
        (value, ..) => Ok(value),
    }
}

/// A text with blanks behind it, so many characters long.
pub(crate) fn padded(value: Value<'_>, characters: u32) -> Value<'_> {
    let Value::Text(text) = value else {
        return value;
    };
    let (characters, found) = (characters as usize, text.chars().count());
    if found >= characters {
        return Value::Text(text);
    }
    let mut text = text.into_owned();
    text.extend(std::iter::repeat_n(' ', characters - found));
    Value::Text(Cow::Owned(text))
}

/// A number without zeros at the end of what is behind its point.
fn without_zeros(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Numeric(Numeric::Finite(decimal)) => Value::Numeric(Numeric::Finite(decimal.trimmed())),
        other => other,
    }
}

/// Cells of a type whose values need no check.
macro_rules! simple {
    ($array:expr, $type:ty, $make:expr) => {{
        let array = $array.as_primitive::<$type>();
        Box::new(move |row| Ok((!array.is_null(row)).then(|| $make(array.value(row)))))
    }};
}

/// Cells of a type of which PostgreSQL lacks some values.
macro_rules! checked {
    ($array:expr, $type:ty, $make:expr, $what:literal) => {{
        let array = $array.as_primitive::<$type>();
        Box::new(move |row| {
            if array.is_null(row) {
                return Ok(None);
            }
            let value = $make(array.value(row)).ok_or_else(|| out_of_range($what))?;
            Ok(Some(value))
        })
    }};
}

macro_rules! texts {
    ($array:expr, $kind:expr) => {{
        let array = $array;
        Box::new(move |row| Ok((!array.is_null(row)).then(|| $kind(Cow::Borrowed(array.value(row))))))
    }};
}

/// The values of a column; `array` is [`plain`].
///
/// # Errors
/// An Arrow type that has no values here.
fn cells<'a>(array: &'a dyn Array) -> Result<Cells<'a>, Refusal> {
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_| Ok(None)),
        DataType::Boolean => {
            let array = array.as_boolean();
            Box::new(move |row| Ok((!array.is_null(row)).then(|| Value::Bool(array.value(row)))))
        }
        DataType::Int8 => simple!(array, Int8Type, |v| Value::Int2(i16::from(v))),
        DataType::Int16 => simple!(array, Int16Type, Value::Int2),
        DataType::Int32 => simple!(array, Int32Type, Value::Int4),
        DataType::Int64 => simple!(array, Int64Type, Value::Int8),
        DataType::UInt8 => simple!(array, UInt8Type, |v| Value::Int2(i16::from(v))),
        DataType::UInt16 => simple!(array, UInt16Type, |v| Value::Int4(i32::from(v))),
        DataType::UInt32 => simple!(array, UInt32Type, |v| Value::Int8(i64::from(v))),
        DataType::UInt64 => simple!(array, UInt64Type, |v| decimal(i128::from(v), 0)),
        DataType::Float16 => simple!(array, Float16Type, |v| Value::Float4(f32::from(v))),
        DataType::Float32 => simple!(array, Float32Type, Value::Float4),
        DataType::Float64 => simple!(array, Float64Type, Value::Float8),
        DataType::Decimal32(_, scale) => {
            let scale = *scale;
            simple!(array, Decimal32Type, move |v| decimal(i128::from(v), scale))
        }
        DataType::Decimal64(_, scale) => {
            let scale = *scale;
            simple!(array, Decimal64Type, move |v| decimal(i128::from(v), scale))
        }
        DataType::Decimal128(_, scale) => {
            let scale = *scale;
            simple!(array, Decimal128Type, move |v| decimal(v, scale))
        }
        DataType::Decimal256(..) => {
            let array = array.as_primitive::<Decimal256Type>();
            Box::new(move |row| match array.is_null(row) {
                true => Ok(None),
                false => Numeric::parse(&array.value_as_string(row)).map(|value| Some(Value::Numeric(value))),
            })
        }
        DataType::Utf8 => texts!(array.as_string::<i32>(), Value::Text),
        DataType::LargeUtf8 => texts!(array.as_string::<i64>(), Value::Text),
        DataType::Utf8View => texts!(array.as_string_view(), Value::Text),
        DataType::Binary => texts!(array.as_binary::<i32>(), Value::Bytea),
        DataType::LargeBinary => texts!(array.as_binary::<i64>(), Value::Bytea),
        DataType::BinaryView => texts!(array.as_binary_view(), Value::Bytea),
        DataType::FixedSizeBinary(_) => texts!(array.as_fixed_size_binary(), Value::Bytea),
        DataType::Date32 => checked!(
            array,
            Date32Type,
            |v| match v {
                // As the store keeps them.
                i32::MAX => Some(Value::Date(Date::INFINITY)),
                i32::MIN => Some(Value::Date(Date::NEGATIVE_INFINITY)),
                v => Date::from_unix_days(v).map(Value::Date),
            },
            "date"
        ),
        DataType::Date64 => checked!(array, Date64Type, date64, "date"),
        DataType::Time32(TimeUnit::Second) => checked!(
            array,
            Time32SecondType,
            |v| time(i64::from(v), TimeUnit::Second),
            "time"
        ),
        DataType::Time32(_) => checked!(
            array,
            Time32MillisecondType,
            |v| time(i64::from(v), TimeUnit::Millisecond),
            "time"
        ),
        DataType::Time64(TimeUnit::Nanosecond) => checked!(
            array,
            Time64NanosecondType,
            |v| time(v, TimeUnit::Nanosecond),
            "time"
        ),
        DataType::Time64(_) => checked!(
            array,
            Time64MicrosecondType,
            |v| time(v, TimeUnit::Microsecond),
            "time"
        ),
        DataType::Timestamp(unit, zone) => {
            let (unit, zoned) = (*unit, zone.is_some());
            let make = move |v| timestamp(v, unit, zoned);
            match unit {
                TimeUnit::Second => checked!(array, TimestampSecondType, make, "timestamp"),
                TimeUnit::Millisecond => checked!(array, TimestampMillisecondType, make, "timestamp"),
                TimeUnit::Microsecond => checked!(array, TimestampMicrosecondType, make, "timestamp"),
                TimeUnit::Nanosecond => checked!(array, TimestampNanosecondType, make, "timestamp"),
            }
        }
        DataType::Duration(unit) => {
            let unit = *unit;
            // As PostgreSQL has the difference of two times: whole days, and the rest.
            let make = move |v| {
                let days_and_rest =
                    |us: i64| Some(interval(0, i32::try_from(us / DAY_US).ok()?, us % DAY_US));
                microseconds(v, unit).and_then(days_and_rest)
            };
            match unit {
                TimeUnit::Second => checked!(array, DurationSecondType, make, "interval"),
                TimeUnit::Millisecond => checked!(array, DurationMillisecondType, make, "interval"),
                TimeUnit::Microsecond => checked!(array, DurationMicrosecondType, make, "interval"),
                TimeUnit::Nanosecond => checked!(array, DurationNanosecondType, make, "interval"),
            }
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            simple!(array, IntervalYearMonthType, |v| interval(v, 0, 0))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            simple!(
                array,
                IntervalDayTimeType,
                |v: arrow::datatypes::IntervalDayTime| {
                    interval(0, v.days, i64::from(v.milliseconds) * 1000)
                }
            )
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            simple!(
                array,
                IntervalMonthDayNanoType,
                |v: arrow::datatypes::IntervalMonthDayNano| {
                    interval(v.months, v.days, v.nanoseconds / 1000)
                }
            )
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            lists(array, Arc::clone(list.values()), move |row| {
                let ends = list.value_offsets();
                (ends[row] as usize, ends[row + 1] as usize)
            })
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            lists(array, Arc::clone(list.values()), move |row| {
                let ends = list.value_offsets();
                (ends[row] as usize, ends[row + 1] as usize)
            })
        }
        DataType::FixedSizeList(_, length) => {
            let list = array.as_fixed_size_list();
            let length = *length as usize;
            lists(array, Arc::clone(list.values()), move |row| {
                (row * length, (row + 1) * length)
            })
        }
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            lists(array, Arc::clone(list.values()), move |row| {
                let begin = list.offsets()[row] as usize;
                (begin, begin + list.sizes()[row] as usize)
            })
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            lists(array, Arc::clone(list.values()), move |row| {
                let begin = list.offsets()[row] as usize;
                (begin, begin + list.sizes()[row] as usize)
            })
        }
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => json(array),
        other => {
            let what = format!("values of the Arrow type {other} cannot be sent");
            return Err(Refusal::new(code::NOT_SUPPORTED, what).hint("Cast the column to text."));
        }
    })
}

/// Lists as arrays, lists of lists as arrays of more dimensions.
fn lists<'a>(
    array: &'a dyn Array,
    values: ArrayRef,
    range: impl Fn(usize) -> (usize, usize) + 'a,
) -> Cells<'a> {
    let kind = type_of(array.data_type()).kind;
    Box::new(move |row| {
        if array.is_null(row) {
            return Ok(None);
        }
        let (begin, end) = range(row);
        let inner = plain_array(&values.slice(begin, end - begin))?;
        let read = cells(inner.as_ref())?;
        let elements = (0..inner.len()).map(|at| Ok(read(at)?.map(Value::into_owned)));
        let elements: Vec<Option<Value<'static>>> = elements.collect::<Result<_, Refusal>>()?;
        Ok(Some(Value::Array(nested(kind, elements)?)))
    })
}

/// An array whose elements may be arrays, which must then all have the same dimensions.
fn nested(kind: Kind, elements: Vec<Option<Value<'static>>>) -> Result<values::Array<'static>, Refusal> {
    if !elements
        .iter()
        .any(|element| matches!(element, Some(Value::Array(_))))
    {
        return Ok(values::Array::of(kind, elements));
    }
    let ragged = || {
        let what = "lists of different lengths within a list are no array";
        Refusal::new(code::NOT_SUPPORTED, what).hint("Cast the column to text.")
    };
    let length = elements.len() as u32;
    let mut dimensions: Option<Vec<Dimension>> = None;
    let mut all = Vec::new();
    for element in elements {
        let Some(Value::Array(inner)) = element else {
            return Err(ragged());
        };
        match &dimensions {
            Some(known) if *known != inner.dimensions => return Err(ragged()),
            Some(_) => {}
            None => dimensions = Some(inner.dimensions),
        }
        all.extend(inner.elements);
    }
    let mut inner = dimensions.unwrap_or_default();
    inner.insert(0, Dimension { length, lower: 1 });
    Ok(values::Array {
        kind,
        dimensions: inner,
        elements: all,
    })
}

/// Structures as JSON, which the system tables say they are.
fn json(array: &dyn Array) -> Cells<'_> {
    let field = Arc::new(Field::new("value", array.data_type().clone(), true));
    let options = EncoderOptions::default().with_explicit_nulls(true);
    Box::new(move |row| {
        if array.is_null(row) {
            return Ok(None);
        }
        let wrong = |what: String| {
            Refusal::new(
                code::NOT_SUPPORTED,
                format!("a structure cannot be written as JSON: {what}"),
            )
        };
        let mut text = Vec::new();
        make_encoder(&field, array, &options)
            .map_err(|error| wrong(error.to_string()))?
            .encode(row, &mut text);
        let text = String::from_utf8(text).map_err(|error| wrong(error.to_string()))?;
        Ok(Some(Value::Json(Cow::Owned(text))))
    })
}

fn decimal<'a>(unscaled: i128, scale: i8) -> Value<'a> {
    let (unscaled, scale) = match u8::try_from(scale) {
        Ok(scale) => (unscaled, scale),
        // Zeros that a negative scale leaves out; those of a number of 38 digits fit no longer, and are kept as text below.
        Err(_) => match 10i128
            .checked_pow(u32::from(scale.unsigned_abs()))
            .and_then(|zeros| unscaled.checked_mul(zeros))
        {
            Some(number) => (number, 0),
            None => {
                let text = format!("{unscaled}{}", "0".repeat(usize::from(scale.unsigned_abs())));
                return Value::Numeric(Numeric::parse(&text).unwrap_or(Numeric::NaN));
            }
        },
    };
    Value::Numeric(Numeric::from_i128(unscaled, scale))
}

fn microseconds(value: i64, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => Some(value.div_euclid(1000)),
    }
}

fn date64<'a>(milliseconds: i64) -> Option<Value<'a>> {
    let days = i32::try_from(milliseconds.div_euclid(86_400_000)).ok()?;
    Date::from_unix_days(days).map(Value::Date)
}

fn time<'a>(value: i64, unit: TimeUnit) -> Option<Value<'a>> {
    Time::new(microseconds(value, unit)?).map(Value::Time)
}

fn timestamp<'a>(value: i64, unit: TimeUnit, zoned: bool) -> Option<Value<'a>> {
    let at = match (value, unit) {
        // As the store keeps them.
        (i64::MAX, TimeUnit::Microsecond) => Timestamp::INFINITY,
        (i64::MIN, TimeUnit::Microsecond) => Timestamp::NEGATIVE_INFINITY,
        _ => Timestamp::from_unix_microseconds(microseconds(value, unit)?)?,
    };
    Some(match zoned {
        true => Value::Timestamptz(at),
        false => Value::Timestamp(at),
    })
}

fn interval<'a>(months: i32, days: i32, microseconds: i64) -> Value<'a> {
    Value::Interval(Interval {
        months,
        days,
        microseconds,
    })
}
