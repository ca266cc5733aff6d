//! Moments and spans of time beside each other: a `timestamp` or `date` beside a `timestamptz` is of the session's time zone; intervals are
//! compared by their length, with months of 30 days and days of 24 hours; they are multiplied and divided by numbers; a `date` less a `date` is
//! a number of days.

use super::arithmetic::Operation;
use crate::catalog::{moment_text, timezone};
use crate::data::DataError;
use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, IntervalMonthDayNanoArray};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{DFSchema, ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY_NS: i128 = 86_400_000_000_000;
const DAYS_OF_MONTH: i32 = 30;

fn as_type(of: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(of), to))
}

fn is_span(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_))
}

/// An operand beside one of another type.
pub(super) fn beside(of: Expr, own: &DataType, other: &DataType, zone: &str) -> Expr {
    use DataType as D;
    let zoned = || D::Timestamp(TimeUnit::Microsecond, Some(zone.into()));
    match (own, other) {
        (D::Timestamp(_, None), D::Timestamp(_, Some(_))) => as_type(of, zoned()),
        (D::Date32, D::Timestamp(_, Some(_))) => {
            as_type(as_type(of, D::Timestamp(TimeUnit::Microsecond, None)), zoned())
        }
        (D::Time64(TimeUnit::Nanosecond), D::Time64(TimeUnit::Microsecond)) => as_type(of, other.clone()),
        _ => of,
    }
}

/// Functions that look at the local time of a moment.
pub(super) const IN_ZONE: &[&str] = &["date_part", "date_trunc"];

/// Their arguments: moments are in the session's time zone.
pub(super) fn in_zone(mut arguments: Vec<Expr>, schema: &DFSchema, zone: &str) -> Vec<Expr> {
    if let [_, moment] = arguments.as_mut_slice()
        && matches!(moment.get_type(schema), Ok(DataType::Timestamp(_, Some(_))))
    {
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into()));
        let inner = std::mem::take(moment);
        *moment = as_type(inner, zoned);
    }
    arguments
}

/// What is cast to another type: a moment as the local time that it is, or as the text that shows it.
pub(super) fn cast(of: Expr, to: &DataType, schema: &DFSchema, zone: &str) -> Expr {
    use DataType as D;
    let own = of.get_type(schema);
    let zone = || Expr::Literal(ScalarValue::from(zone), None);
    match (own, to) {
        (Ok(D::Timestamp(_, Some(_))), D::Date32 | D::Time64(_) | D::Timestamp(_, None)) => {
            timezone().call(vec![zone(), of])
        }
        (Ok(D::Timestamp(..)), D::Utf8 | D::Utf8View | D::LargeUtf8) => moment_text().call(vec![zone(), of]),
        _ => of,
    }
}

/// Values that are compared: intervals as their lengths.
pub(super) fn compared<const N: usize>(values: [Expr; N], schema: &DFSchema) -> [Expr; N] {
    let types = values.each_ref().map(|of| of.get_type(schema));
    let spans = types.iter().any(|of| of.as_ref().is_ok_and(is_span));
    let all = types
        .iter()
        .all(|of| of.as_ref().is_ok_and(|of| is_span(of) || of.is_null()));
    if !spans || !all {
        return values;
    }
    values.map(|of| ScalarUDF::new_from_impl(Spans::new(Does::Measures)).call(vec![of]))
}

/// Arithmetic that Arrow has not, or with another result.
pub(super) fn computed(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    use DataType as D;
    let (one, other) = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
    let scaled = |does, span: &Expr, by: &Expr| {
        let arguments = vec![as_type(span.clone(), INTERVAL), as_type(by.clone(), D::Float64)];
        Some(ScalarUDF::new_from_impl(Spans::new(does)).call(arguments))
    };
    let days = |of: &Expr| as_type(of.clone(), D::Int32);
    match (&one, op, &other) {
        (one, Operator::Multiply, other) if is_span(one) && other.is_numeric() => {
            scaled(Does::Multiplies, left, right)
        }
        (one, Operator::Multiply, other) if one.is_numeric() && is_span(other) => {
            scaled(Does::Multiplies, right, left)
        }
        (one, Operator::Divide, other) if is_span(one) && other.is_numeric() => {
            scaled(Does::Divides, left, right)
        }
        (D::Date32, Operator::Minus, D::Date32) => Some(Operation::Subtract.of(days(left), days(right))),
        (D::Date32, Operator::Plus | Operator::Minus, other) if other.is_signed_integer() => {
            let operation = Operation::of_sign(op)?;
            Some(as_type(operation.of(days(left), days(right)), D::Date32))
        }
        _ => None,
    }
}

/// What DataFusion's planner refuses before types are looked at: intervals times numbers, times and moments of different precision.
pub(crate) fn planned(left: &Expr, op: &BinaryOperator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    use BinaryOperator as B;
    use DataType as D;
    let (one, other) = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
    let operator = match op {
        B::Multiply => Operator::Multiply,
        B::Divide => Operator::Divide,
        B::Minus => Operator::Minus,
        B::Eq => Operator::Eq,
        B::NotEq => Operator::NotEq,
        B::Lt => Operator::Lt,
        B::LtEq => Operator::LtEq,
        B::Gt => Operator::Gt,
        B::GtEq => Operator::GtEq,
        _ => return None,
    };
    let to = match (&one, operator, &other) {
        (one, Operator::Multiply | Operator::Divide, other) if is_span(one) || is_span(other) => {
            return computed(left, operator, right, schema);
        }
        (_, Operator::Multiply | Operator::Divide, _) => return None,
        (D::Time64(one), _, D::Time64(other)) if one != other => D::Time64(TimeUnit::Microsecond),
        (D::Timestamp(one, Some(_)), Operator::Minus, D::Timestamp(other, Some(_))) if one != other => {
            D::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
        }
        _ => return None,
    };
    let [left, right] = [left, right].map(|of| as_type(of.clone(), to.clone()));
    Some(datafusion::logical_expr::binary_expr(left, operator, right))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Does {
    Measures,
    Multiplies,
    Divides,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spans {
    does: Does,
    signature: Signature,
}

impl Spans {
    fn new(does: Does) -> Spans {
        Spans {
            does,
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

fn out_of_range() -> DataError {
    DataError::new("22008", "interval out of range")
}

/// As PostgreSQL does it: what is left of months goes to days, what is left of these to the time.
fn times(of: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    let whole = |value: f64| {
        let fits = value.is_finite() && value.abs() <= f64::from(i32::MAX);
        fits.then_some(value as i32)
    };
    // What is less than a microsecond is of the float, not of the value.
    let near = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let months = f64::from(of.months) * factor;
    let days = f64::from(of.days) * factor;
    let (whole_months, whole_days) = (whole(months)?, whole(days)?);
    let left_days = near((months - f64::from(whole_months)) * f64::from(DAYS_OF_MONTH));
    let spilt = whole(left_days)?;
    let left = near((days - f64::from(whole_days) + left_days - f64::from(spilt)) * 86_400.0);
    let more = whole(left / 86_400.0)?;
    let seconds = left - f64::from(more) * 86_400.0;
    let microseconds = (of.nanoseconds as f64 / 1000.0 * factor + seconds * 1e6).round_ties_even();
    let nanoseconds = microseconds * 1000.0;
    let fits = nanoseconds.is_finite() && nanoseconds.abs() < i64::MAX as f64;
    fits.then_some(IntervalMonthDayNano::new(
        whole_months,
        whole_days.checked_add(spilt)?.checked_add(more)?,
        (microseconds as i64).checked_mul(1000)?,
    ))
}

fn length(of: IntervalMonthDayNano) -> i128 {
    let days = i128::from(of.months) * i128::from(DAYS_OF_MONTH) + i128::from(of.days);
    days * DAY_NS + i128::from(of.nanoseconds)
}

fn spans(of: &ColumnarValue, rows: usize) -> Result<IntervalMonthDayNanoArray> {
    let array = of.to_array(rows)?;
    Ok(cast_array(&array, &INTERVAL)?
        .as_primitive::<IntervalMonthDayNanoType>()
        .clone())
}

fn numbers(of: &ColumnarValue, rows: usize) -> Result<Float64Array> {
    let array = of.to_array(rows)?;
    Ok(cast_array(&array, &DataType::Float64)?
        .as_primitive::<Float64Type>()
        .clone())
}

impl ScalarUDFImpl for Spans {
    fn name(&self) -> &str {
        match self.does {
            Does::Measures => "corun_interval_length",
            Does::Multiplies => "corun_interval_times",
            Does::Divides => "corun_interval_by",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.does {
            Does::Measures => DataType::Decimal128(38, 0),
            Does::Multiplies | Does::Divides => INTERVAL,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let made: ArrayRef = match (self.does, arguments.args.as_slice()) {
            (Does::Measures, [of]) => {
                let lengths = spans(of, rows)?
                    .iter()
                    .map(|of| of.map(length))
                    .collect::<Decimal128Array>();
                Arc::new(lengths.with_precision_and_scale(38, 0)?)
            }
            (does, [of, by]) => {
                let (of, by) = (spans(of, rows)?, numbers(by, rows)?);
                let scaled = of.iter().zip(&by).map(|(of, by)| match (of, by) {
                    (Some(_), Some(0.0)) if does == Does::Divides => {
                        Err(DataError::new("22012", "division by zero"))
                    }
                    (Some(of), Some(by)) => {
                        let factor = if does == Does::Divides { 1.0 / by } else { by };
                        times(of, factor).map(Some).ok_or_else(out_of_range)
                    }
                    _ => Ok(None),
                });
                Arc::new(scaled.collect::<std::result::Result<IntervalMonthDayNanoArray, _>>()?)
            }
            _ => return exec_err!("{} takes other arguments", self.name()),
        };
        Ok(ColumnarValue::Array(made))
    }
}

#[cfg(test)]
mod tests {
    use super::{IntervalMonthDayNano, length, times};

    #[test]
    fn intervals_are_multiplied_as_postgresql_does() {
        let of =
            |months, days, seconds: i64| IntervalMonthDayNano::new(months, days, seconds * 1_000_000_000);
        assert_eq!(times(of(0, 1, 0), 2.0), Some(of(0, 2, 0)));
        assert_eq!(times(of(1, 0, 0), 1.5), Some(of(1, 15, 0)));
        assert_eq!(times(of(0, 1, 0), 0.5), Some(of(0, 0, 43_200)));
        assert_eq!(times(of(0, 0, 90), -1.0), Some(of(0, 0, -90)));
        assert_eq!(times(of(1, 0, 0), f64::INFINITY), None);
        assert_eq!(times(of(0, 0, 1), 1e12), None);
    }

    #[test]
    fn intervals_are_compared_by_length() {
        let day = IntervalMonthDayNano::new(0, 1, 0);
        let hours = IntervalMonthDayNano::new(0, 0, 25 * 3_600_000_000_000);
        assert!(length(day) < length(hours));
        assert!(length(IntervalMonthDayNano::new(1, 0, 0)) == 30 * length(day));
    }
}
