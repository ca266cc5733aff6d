//! Parameters of statements: which types they have, and their values as DataFusion's.
//!
//! A client's type counts; else what the planner finds out; else the type that the text casts the parameter to; else text, as PostgreSQL
//! takes literals of unknown type.

use super::values::type_of;
use crate::catalog::{cast_by, pg_type_of};
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNano, TimeUnit};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Date, Format, Kind, Numeric, TimeZone, Timestamp, Type, Value};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as SqlType, ExactNumberInfo, Expr, LimitClause, Query, TimezoneInfo,
    Value as SqlValue, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Most parameters, the protocol's number.
const PARAMETERS_MAX: usize = 65_535;
/// Digits behind the point of a `numeric` whose value has fewer.
pub(crate) const SCALE: i8 = 10;

/// A type by a name of SQL.
pub(super) fn type_named(name: &str) -> Option<Type> {
    let name = name.trim().to_ascii_lowercase();
    let (name, array) = match name.strip_suffix("[]") {
        Some(element) => (element.trim(), true),
        None => (name.as_str(), false),
    };
    let name = name.split('(').next().unwrap_or_default().trim();
    let kind = match name {
        "bool" | "boolean" => Kind::Bool,
        "bytea" => Kind::Bytea,
        "int8" | "bigint" => Kind::Int8,
        "int2" | "smallint" => Kind::Int2,
        "int" | "int4" | "integer" => Kind::Int4,
        "text" => Kind::Text,
        "varchar" | "character varying" => Kind::Varchar,
        "char" | "character" | "bpchar" => Kind::Bpchar,
        "name" => Kind::Name,
        "oid" | "regclass" => Kind::Oid,
        "float4" | "real" => Kind::Float4,
        "float8" | "double precision" | "double" | "float" => Kind::Float8,
        "date" => Kind::Date,
        "time" | "time without time zone" => Kind::Time,
        "timestamp" | "timestamp without time zone" => Kind::Timestamp,
        "timestamptz" | "timestamp with time zone" => Kind::Timestamptz,
        "interval" => Kind::Interval,
        "numeric" | "decimal" => Kind::Numeric,
        "uuid" => Kind::Uuid,
        "json" => Kind::Json,
        "jsonb" => Kind::Jsonb,
        "inet" => Kind::Inet,
        _ => return None,
    };
    match array {
        true => Type::array_of(kind),
        false => Some(Type::single(kind)),
    }
}

/// The statement with `x = ANY($1)` as `x = $1`, which tells the planner the type of the elements, and the numbers of these parameters.
pub(super) fn elements(statement: &Statement) -> Option<(Statement, Vec<usize>)> {
    let Statement::Statement(sql) = statement else {
        return None;
    };
    let mut sql = sql.clone();
    let mut found = Elements(Vec::new());
    _ = VisitMut::visit(sql.as_mut(), &mut found);
    (!found.0.is_empty()).then_some((Statement::Statement(sql), found.0))
}

struct Elements(Vec<usize>);

impl VisitorMut for Elements {
    type Break = ();

    fn pre_visit_expr(&mut self, of: &mut Expr) -> ControlFlow<()> {
        if let Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        }
        | Expr::AllOp {
            left,
            compare_op,
            right,
        } = of
            && let Some(number) = placeholder(right)
        {
            self.0.push(number);
            *of = Expr::BinaryOp {
                left: left.clone(),
                op: compare_op.clone(),
                right: right.clone(),
            };
        }
        ControlFlow::Continue(())
    }
}

/// How many parameters a statement has, and what it casts them to.
///
/// # Errors
/// A number beyond the protocol's.
pub(super) fn find(statement: &Statement) -> Result<Vec<Option<Type>>, Refusal> {
    let mut found = Found::default();
    if let Statement::Statement(sql) = statement
        && let ControlFlow::Break(refusal) = sql.visit(&mut found)
    {
        return Err(refusal);
    }
    Ok((0..found.count).map(|at| found.casts.get(&at).copied()).collect())
}

#[derive(Default)]
struct Found {
    count: usize,
    casts: HashMap<usize, Type>,
}

fn placeholder(of: &Expr) -> Option<usize> {
    match of {
        Expr::Value(value) => match &value.value {
            SqlValue::Placeholder(name) => name.strip_prefix('$')?.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => placeholder(inner),
        _ => None,
    }
}

impl Visitor for Found {
    type Break = Refusal;

    /// Numbers of rows, which the planner takes for nothing else.
    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Refusal> {
        let rows = match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                [limit.as_ref(), offset.as_ref().map(|of| &of.value)]
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => [Some(limit), Some(offset)],
            None => [None, None],
        };
        let fetched = query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref());
        for number in rows
            .into_iter()
            .chain([fetched])
            .flatten()
            .filter_map(placeholder)
        {
            self.casts.entry(number.saturating_sub(1)).or_insert(Type::INT8);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, of: &Expr) -> ControlFlow<Refusal> {
        if let Some(number) = placeholder(of) {
            if number == 0 || number > PARAMETERS_MAX {
                return ControlFlow::Break(Refusal::new("42P02", format!("there is no parameter ${number}")));
            }
            self.count = self.count.max(number);
        }
        if let Expr::Cast { expr, data_type, .. } = of
            && let (Some(number), Some(of)) = (placeholder(expr), type_named(&data_type.to_string()))
        {
            self.casts.entry(number.saturating_sub(1)).or_insert(of);
        }
        if let Expr::Function(function) = of
            && let Some((inner, oid)) = cast_by(function)
            && let (Some(number), Some(of)) = (placeholder(inner), Type::of(oid))
        {
            self.casts.entry(number.saturating_sub(1)).or_insert(of);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, of: &ValueWithSpan) -> ControlFlow<Refusal> {
        if let SqlValue::Placeholder(name) = &of.value
            && let Some(number) = name
                .strip_prefix('$')
                .and_then(|number| number.parse::<usize>().ok())
            && number <= PARAMETERS_MAX
        {
            self.count = self.count.max(number);
        }
        ControlFlow::Continue(())
    }
}

/// The types of parameters that the planner has found out, by their names.
pub(super) fn inferred(plan: &LogicalPlan) -> HashMap<String, Type> {
    let fields = plan.get_parameter_fields().unwrap_or_default();
    let of = |(name, field): (String, Option<FieldRef>)| {
        let field = field.filter(|field| *field.data_type() != DataType::Null)?;
        let told = Type::of(pg_type_of(&field).oid.unsigned_abs());
        let plain = type_of(field.data_type());
        // Arrays that are kept as texts are compared as these.
        let told = told.filter(|told| told.array == plain.array);
        Some((name, told.unwrap_or(plain)))
    };
    fields.into_iter().filter_map(of).collect()
}

/// The types: given, found by the planner, cast to, text.
///
/// # Errors
/// A type that values cannot have here.
pub(super) fn decide(
    given: &[u32],
    inferred: &HashMap<String, Type>,
    casts: &[Option<Type>],
) -> Result<Vec<Type>, Refusal> {
    let count = casts.len().max(given.len());
    let decided = (0..count).map(|at| {
        match given.get(at).copied().unwrap_or(0) {
            // A literal of unknown type is no type.
            0 | 705 => {}
            oid => {
                return Type::of(oid).ok_or_else(|| {
                    let what = format!("parameters of the type with the number {oid} are not supported");
                    Refusal::new(code::NOT_SUPPORTED, what)
                        .hint("Send the parameter as text and cast it in the statement.")
                });
            }
        }
        let inferred = inferred.get(&format!("${}", at + 1)).copied();
        let cast = casts.get(at).copied().flatten();
        Ok(cast.or(inferred).unwrap_or(Type::TEXT))
    });
    decided.collect()
}

/// The type as `PREPARE` names it for the planner.
pub(super) fn sql_type(of: Type) -> SqlType {
    let single = match of.kind {
        Kind::Bool => SqlType::Boolean,
        Kind::Bytea => SqlType::Bytea,
        Kind::Int2 => SqlType::SmallInt(None),
        Kind::Int4 => SqlType::Integer(None),
        Kind::Int8 | Kind::Oid => SqlType::BigInt(None),
        Kind::Float4 => SqlType::Real,
        Kind::Float8 => SqlType::DoublePrecision,
        Kind::Date => SqlType::Date,
        Kind::Time => SqlType::Time(None, TimezoneInfo::None),
        Kind::Timestamp => SqlType::Timestamp(None, TimezoneInfo::None),
        Kind::Timestamptz => SqlType::Timestamp(None, TimezoneInfo::WithTimeZone),
        Kind::Interval => SqlType::Interval {
            fields: None,
            precision: None,
        },
        Kind::Numeric => SqlType::Numeric(ExactNumberInfo::PrecisionAndScale(38, i64::from(SCALE))),
        _ => SqlType::Text,
    };
    match of.array {
        true => SqlType::Array(ArrayElemTypeDef::AngleBracket(Box::new(single))),
        false => single,
    }
}

fn arrow_type(kind: Kind) -> DataType {
    match kind {
        Kind::Bool => DataType::Boolean,
        Kind::Bytea => DataType::Binary,
        Kind::Int2 => DataType::Int16,
        Kind::Int4 => DataType::Int32,
        Kind::Int8 | Kind::Oid => DataType::Int64,
        Kind::Float4 => DataType::Float32,
        Kind::Float8 => DataType::Float64,
        Kind::Date => DataType::Date32,
        Kind::Time => DataType::Time64(TimeUnit::Microsecond),
        Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Kind::Interval => DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano),
        Kind::Numeric => DataType::Decimal128(38, SCALE),
        _ => DataType::Utf8,
    }
}

/// A parameter's value as DataFusion's.
///
/// # Errors
/// A value that DataFusion's type does not have.
pub(super) fn scalar(of: Type, value: Option<Value<'_>>) -> Result<ScalarValue, Refusal> {
    let Some(value) = value else {
        let null = match of.array {
            true => DataType::List(Arc::new(arrow::datatypes::Field::new_list_field(
                arrow_type(of.kind),
                true,
            ))),
            false => arrow_type(of.kind),
        };
        return ScalarValue::try_from(&null)
            .map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()));
    };
    let range = |what: &str| Refusal::new(code::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"));
    Ok(match value {
        Value::Bool(value) => ScalarValue::Boolean(Some(value)),
        Value::Int2(value) => ScalarValue::Int16(Some(value)),
        Value::Int4(value) => ScalarValue::Int32(Some(value)),
        Value::Int8(value) => ScalarValue::Int64(Some(value)),
        Value::Oid(value) => ScalarValue::Int64(Some(i64::from(value))),
        Value::Float4(value) => ScalarValue::Float32(Some(value)),
        Value::Float8(value) => ScalarValue::Float64(Some(value)),
        Value::Numeric(value) => numeric(&value)?,
        Value::Text(value) | Value::Json(value) | Value::Jsonb(value) | Value::Inet(value) => {
            ScalarValue::Utf8(Some(value.into_owned()))
        }
        Value::Bytea(value) => ScalarValue::Binary(Some(value.into_owned())),
        // Infinite ones are the ends of what Arrow has, as the store keeps them.
        Value::Date(Date::INFINITY) => ScalarValue::Date32(Some(i32::MAX)),
        Value::Date(Date::NEGATIVE_INFINITY) => ScalarValue::Date32(Some(i32::MIN)),
        Value::Date(value) => ScalarValue::Date32(Some(value.unix_days().ok_or_else(|| range("date"))?)),
        Value::Time(value) => ScalarValue::Time64Microsecond(Some(value.0)),
        Value::Timestamp(value) => {
            let at = microseconds(value).ok_or_else(|| range("timestamp"))?;
            ScalarValue::TimestampMicrosecond(Some(at), None)
        }
        Value::Timestamptz(value) => {
            let at = microseconds(value).ok_or_else(|| range("timestamp"))?;
            ScalarValue::TimestampMicrosecond(Some(at), Some("+00:00".into()))
        }
        Value::Interval(value) => {
            let nanoseconds = value
                .microseconds
                .checked_mul(1000)
                .ok_or_else(|| range("interval"))?;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(
                value.months,
                value.days,
                nanoseconds,
            )))
        }
        Value::Uuid(_) => {
            let mut text = Vec::new();
            value.write(&mut text, Format::Text, &corun_wire::values::FixedOffset::UTC);
            ScalarValue::Utf8(Some(String::from_utf8_lossy(&text).into_owned()))
        }
        Value::Void => ScalarValue::Null,
        Value::Array(array) => {
            if array.dimensions.len() > 1 {
                return Err(Refusal::new(
                    code::NOT_SUPPORTED,
                    "parameters that are arrays of several dimensions are not supported",
                ));
            }
            let kind = array.kind;
            let elements = array
                .elements
                .into_iter()
                .map(|element| scalar(Type::single(kind), element));
            let mut elements = elements.collect::<Result<Vec<_>, _>>()?;
            if kind == Kind::Numeric {
                elements = elements
                    .iter()
                    .map(|element| element.cast_to(&arrow_type(kind)))
                    .collect::<Result<_, _>>()
                    .map_err(|error| {
                        Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, error.strip_backtrace())
                    })?;
            }
            ScalarValue::List(ScalarValue::new_list_nullable(&elements, &arrow_type(kind)))
        }
    })
}

/// A parameter in text format; `None`: its type has no such value.
pub(crate) fn read_scalar(of: Type, text: &str, zone: &dyn TimeZone) -> Option<ScalarValue> {
    // Blanks at its end do not count.
    let text = match of {
        Type {
            kind: Kind::Bpchar,
            array: false,
        } => text.trim_end_matches(' '),
        _ => text,
    };
    let value = Value::read(of, Format::Text, text.as_bytes(), zone).ok()?;
    scalar(of, Some(value)).ok()
}

fn microseconds(of: Timestamp) -> Option<i64> {
    match of {
        Timestamp::INFINITY => Some(i64::MAX),
        Timestamp::NEGATIVE_INFINITY => Some(i64::MIN),
        of => of.unix_microseconds(),
    }
}

/// A number with the digits that it has; more than 38 become a float.
fn numeric(value: &Numeric) -> Result<ScalarValue, Refusal> {
    let not_finite = |value: f64| Ok(ScalarValue::Float64(Some(value)));
    let decimal = match value {
        Numeric::NaN => return not_finite(f64::NAN),
        Numeric::Infinity => return not_finite(f64::INFINITY),
        Numeric::NegativeInfinity => return not_finite(f64::NEG_INFINITY),
        Numeric::Finite(decimal) => decimal,
    };
    let mut text = Vec::new();
    value.write(&mut text);
    let text = String::from_utf8_lossy(&text);
    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let most = 10i128.pow(38);
    if let Ok(scale @ 0..=38) = u8::try_from(digits)
        && let Some(unscaled) = decimal.to_i128(scale).filter(|unscaled| unscaled.abs() < most)
    {
        let scale = i8::try_from(scale).unwrap_or(SCALE);
        return Ok(ScalarValue::Decimal128(Some(unscaled), 38, scale));
    }
    let float = text
        .parse()
        .map_err(|_| Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format"))?;
    Ok(ScalarValue::Float64(Some(float)))
}
