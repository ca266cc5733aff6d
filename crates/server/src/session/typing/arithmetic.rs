//! [`Operation`]: arithmetic that refuses what its type does not have, where DataFusion's wraps or has infinity, and PostgreSQL's division of
//! `numeric`.
//!
//! A quotient has as many digits as PostgreSQL's `select_div_scale` gives it, at most [`SCALE`] behind the point; zeros at its end are not
//! shown. They are functions, not operators with a flag: so constants are computed by them, too.

use super::averages::digits;
use crate::catalog::metadata_of;
use crate::data::DataError;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, PrimitiveArray};
use arrow::compute::kernels::numeric::{add, div, mul, rem, sub};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, i256,
};
use arrow::error::ArrowError;
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// Digits behind the point of a quotient, and in all.
const SCALE: u8 = 20;
const PRECISION: u8 = 38;
/// PostgreSQL's digits of a quotient, whatever it is worth.
const DIGITS_MIN: i32 = 16;
/// Digits of a group of PostgreSQL's numbers.
const GROUP: i32 = 4;
/// The number of `numeric`.
const NUMERIC: u32 = 1700;

/// See [`self`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    /// A float as the nearest whole number.
    ToEven,
}

/// The nearest whole number, of two as near the even one.
pub(super) fn to_even(of: Expr) -> Expr {
    ScalarUDF::new_from_impl(Checked::new(Operation::ToEven)).call(vec![of])
}

impl Operation {
    pub(super) fn of_sign(of: Operator) -> Option<Operation> {
        Some(match of {
            Operator::Plus => Operation::Add,
            Operator::Minus => Operation::Subtract,
            Operator::Multiply => Operation::Multiply,
            Operator::Divide => Operation::Divide,
            Operator::Modulo => Operation::Remainder,
            _ => return None,
        })
    }

    /// Whether operands of these types are computed here.
    pub(super) fn is_for(self, left: &DataType, right: &DataType) -> bool {
        match common(left, right) {
            Some(DataType::Decimal128(..)) => self == Operation::Divide,
            found => found.is_some(),
        }
    }

    pub(super) fn of(self, left: Expr, right: Expr) -> Expr {
        ScalarUDF::new_from_impl(Checked::new(self)).call(vec![left, right])
    }
}

/// The sign of the operation that a function is.
pub(crate) fn operator_of(function: &ScalarUDF) -> Option<Operator> {
    let of = function.inner().downcast_ref::<Checked>()?;
    Some(match of.operation {
        Operation::Add => Operator::Plus,
        Operation::Subtract => Operator::Minus,
        Operation::Multiply => Operator::Multiply,
        Operation::Divide => Operator::Divide,
        Operation::Remainder => Operator::Modulo,
        Operation::ToEven => return None,
    })
}

/// The function that computes what an operator does.
#[cfg(test)]
pub(crate) fn function_of(sign: Operator) -> ScalarUDF {
    ScalarUDF::new_from_impl(Checked::new(Operation::of_sign(sign).expect("an operation")))
}

/// The type in which two numbers are computed; of `numeric`, that they are. `None`: not here.
fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType as D;
    let is_float = |of: &DataType| matches!(of, D::Float32 | D::Float64);
    if is_float(left) || is_float(right) {
        let other = |of: &DataType| is_float(of) || digits(of).is_some();
        return match (left, right) {
            (D::Float32, D::Float32) => Some(D::Float32),
            _ => (other(left) && other(right)).then_some(D::Float64),
        };
    }
    let (one, other) = (digits(left)?, digits(right)?);
    if left.is_decimal() || right.is_decimal() {
        return Some(D::Decimal128(one.0.max(other.0), one.1.max(other.1)));
    }
    Some(match one.0.max(other.0) {
        ..=5 => D::Int16,
        6..=10 => D::Int32,
        _ => D::Int64,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation) -> Checked {
        Checked {
            operation,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "int_plus",
            Operation::Subtract => "int_minus",
            Operation::Multiply => "int_times",
            Operation::Divide => "divided",
            Operation::Remainder => "remainder",
            Operation::ToEven => "rounded_to_even",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, of: &[DataType]) -> Result<Vec<DataType>> {
        match of {
            [one] => Ok(vec![one.clone()]),
            [left, right] => match common(left, right) {
                Some(DataType::Decimal128(..)) => {
                    let decimal = |of: &DataType| {
                        let (precision, scale) = digits(of).unwrap_or((PRECISION, 0));
                        DataType::Decimal128(precision, scale)
                    };
                    Ok(vec![decimal(left), decimal(right)])
                }
                Some(both) => Ok(vec![both.clone(), both]),
                None => internal_err!("{} of {left} and {right}", self.name()),
            },
            _ => internal_err!("{} of {} values", self.name(), of.len()),
        }
    }

    fn return_type(&self, of: &[DataType]) -> Result<DataType> {
        match of {
            [one] => Ok(one.clone()),
            [left, right] => match common(left, right) {
                Some(DataType::Decimal128(..)) => Ok(DataType::Decimal128(PRECISION, SCALE as i8)),
                Some(both) => Ok(both),
                None => internal_err!("{} of {left} and {right}", self.name()),
            },
            _ => internal_err!("{} of {} values", self.name(), of.len()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|of| of.data_type().clone()).collect();
        let of = self.return_type(&types)?;
        let field = Field::new(self.name(), of, true);
        Ok(Arc::new(match field.data_type().is_decimal() {
            true => field.with_metadata(metadata_of(NUMERIC, -1)),
            false => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = args.return_field.data_type().clone();
        match args.args.as_slice() {
            [one] => {
                let scalar = matches!(one, ColumnarValue::Scalar(_));
                let array = rounded(one.to_array(1.max(args.number_rows))?);
                back(array, scalar)
            }
            [left, right] if of.is_decimal() => {
                let scalar = matches!(
                    (left, right),
                    (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_))
                );
                let rows = if scalar { 1 } else { args.number_rows };
                let quotients = quotients(&left.to_array(rows)?, &right.to_array(rows)?)?;
                back(Arc::new(quotients), scalar)
            }
            [left, right] => {
                let kernel = match self.operation {
                    Operation::Add => add,
                    Operation::Subtract => sub,
                    Operation::Multiply => mul,
                    Operation::Remainder => rem,
                    Operation::Divide | Operation::ToEven => div,
                };
                let computed = apply(left, right, |left, right| kernel(left, right));
                let computed = computed.map_err(|error| told(error, &of))?;
                if of.is_floating() {
                    self.check_floats(left, right, &computed, args.number_rows)?;
                }
                Ok(computed)
            }
            other => internal_err!("{} of {} values", self.name(), other.len()),
        }
    }
}

fn back(array: ArrayRef, scalar: bool) -> Result<ColumnarValue> {
    match scalar {
        true => Ok(ColumnarValue::Scalar(
            datafusion::common::ScalarValue::try_from_array(&array, 0)?,
        )),
        false => Ok(ColumnarValue::Array(array)),
    }
}

fn division_by_zero() -> DataFusionError {
    DataError::new("22012", "division by zero").into()
}

fn out_of_range(what: &str) -> DataFusionError {
    DataError::new("22003", what).into()
}

/// What Arrow says, in PostgreSQL's words.
fn told(error: DataFusionError, of: &DataType) -> DataFusionError {
    match &error {
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::DivideByZero => division_by_zero(),
            ArrowError::ArithmeticOverflow(_) => out_of_range(match of {
                DataType::Int8 | DataType::Int16 => "smallint out of range",
                DataType::Int32 => "integer out of range",
                DataType::Int64 => "bigint out of range",
                _ => "value overflows numeric format",
            }),
            _ => error,
        },
        _ => error,
    }
}

fn rounded(of: ArrayRef) -> ArrayRef {
    match of.data_type() {
        DataType::Float64 => {
            let of: PrimitiveArray<Float64Type> =
                of.as_primitive::<Float64Type>().unary(f64::round_ties_even);
            Arc::new(of)
        }
        DataType::Float32 => {
            let of: PrimitiveArray<Float32Type> =
                of.as_primitive::<Float32Type>().unary(f32::round_ties_even);
            Arc::new(of)
        }
        _ => of,
    }
}

impl Checked {
    fn check_floats(
        &self,
        left: &ColumnarValue,
        right: &ColumnarValue,
        computed: &ColumnarValue,
        rows: usize,
    ) -> Result<()> {
        // Most have neither; what is not finite is looked at again.
        let scalar = matches!(computed, ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { rows };
        let found = computed.to_array(rows)?;
        let is_finite = match found.data_type() {
            DataType::Float64 => all::<Float64Type>(&found, f64::is_finite),
            _ => all::<Float32Type>(&found, f32::is_finite),
        };
        if is_finite {
            return Ok(());
        }
        let [left, right, found] = [left.to_array(rows)?, right.to_array(rows)?, found]
            .map(|of| arrow::compute::cast(&of, &DataType::Float64));
        let (left, right, found) = (left?, right?, found?);
        let [left, right, found] = [&left, &right, &found].map(|of| of.as_primitive::<Float64Type>());
        let divides = matches!(self.operation, Operation::Divide | Operation::Remainder);
        for row in 0..rows {
            if found.is_null(row) {
                continue;
            }
            let (one, other, found) = (left.value(row), right.value(row), found.value(row));
            if divides && other == 0.0 && !one.is_nan() {
                return Err(division_by_zero());
            }
            if found.is_infinite() && one.is_finite() && other.is_finite() {
                return Err(out_of_range("value out of range: overflow"));
            }
        }
        Ok(())
    }
}

fn all<T: ArrowPrimitiveType>(of: &ArrayRef, holds: impl Fn(T::Native) -> bool) -> bool {
    of.as_primitive::<T>().iter().flatten().all(holds)
}

/// Quotients of two columns of numbers.
fn quotients(left: &ArrayRef, right: &ArrayRef) -> Result<Decimal128Array> {
    let (DataType::Decimal128(_, one), DataType::Decimal128(_, other)) =
        (left.data_type(), right.data_type())
    else {
        return internal_err!("a quotient of {} and {}", left.data_type(), right.data_type());
    };
    let (one, other) = (*one, *other);
    let (left, right) = (
        left.as_primitive::<Decimal128Type>(),
        right.as_primitive::<Decimal128Type>(),
    );
    let quotients = left.iter().zip(right).map(|(left, right)| match (left, right) {
        (Some(_), Some(0)) => Err(division_by_zero()),
        (Some(left), Some(right)) => quotient((left, one), (right, other))
            .map(Some)
            .ok_or_else(|| out_of_range("value overflows numeric format")),
        _ => Ok(None),
    });
    let quotients = quotients.collect::<Result<Decimal128Array>>()?;
    Ok(quotients.with_precision_and_scale(PRECISION, SCALE as i8)?)
}

/// The first group of a number that is not zero, and how many there are before the point behind it.
fn first_group((unscaled, scale): (i128, i8)) -> (u128, i32) {
    let unscaled = unscaled.unsigned_abs();
    let Some(log) = unscaled.checked_ilog10() else {
        return (0, 0);
    };
    let log = i32::try_from(log).unwrap_or(0);
    let weight = (log - i32::from(scale)).div_euclid(GROUP);
    let cut = GROUP * weight + i32::from(scale);
    let power = 10u128.pow(cut.unsigned_abs().min(38));
    let group = match cut >= 0 {
        true => unscaled / power,
        false => unscaled * power,
    };
    (group, weight)
}

/// A quotient with [`SCALE`] digits behind the point, of which those count that PostgreSQL computes.
fn quotient(left: (i128, i8), right: (i128, i8)) -> Option<i128> {
    let ((first, weight), (other_first, other_weight)) = (first_group(left), first_group(right));
    let weight = weight - other_weight - i32::from(first <= other_first);
    let scale = (DIGITS_MIN - weight * GROUP)
        .max(i32::from(left.1))
        .max(i32::from(right.1))
        .clamp(0, i32::from(SCALE));
    // left / 10^a / (right / 10^b) * 10^scale
    let shift = scale + i32::from(right.1) - i32::from(left.1);
    let power = |digits: i32| i256::from_i128(10).checked_pow(digits.unsigned_abs());
    let (mut up, mut down) = (i256::from_i128(left.0), i256::from_i128(right.0));
    match shift >= 0 {
        true => up = up.checked_mul(power(shift)?)?,
        false => down = down.checked_mul(power(shift)?)?,
    }
    let (whole, rest) = (up.checked_div(down)?, up.checked_rem(down)?);
    let absolute = |of: i256| if of < i256::ZERO { of.wrapping_neg() } else { of };
    let is_half = absolute(rest) >= absolute(down).checked_sub(absolute(rest))?;
    let negative = (up < i256::ZERO) != (down < i256::ZERO);
    let rounded = match (is_half, negative) {
        (false, _) => whole,
        (true, false) => whole.checked_add(i256::ONE)?,
        (true, true) => whole.checked_sub(i256::ONE)?,
    };
    let shown = rounded.checked_mul(power(i32::from(SCALE) - scale)?)?.to_i128()?;
    (shown.unsigned_abs() < 10u128.pow(u32::from(PRECISION))).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_arithmetic_are_known_again() {
        for sign in [
            Operator::Plus,
            Operator::Minus,
            Operator::Multiply,
            Operator::Divide,
            Operator::Modulo,
        ] {
            assert_eq!(operator_of(&function_of(sign)), Some(sign));
        }
        let rounded = ScalarUDF::new_from_impl(Checked::new(Operation::ToEven));
        assert_eq!(operator_of(&rounded), None);
    }

    #[test]
    fn quotients_have_the_digits_of_postgresql_s() {
        for (left, right, digits) in [
            ((1, 0), (3, 0), 33_333_333_333_333_333_333i128),
            ((-1, 0), (3, 0), -33_333_333_333_333_333_333),
            ((2, 0), (3, 0), 66_666_666_666_666_666_667),
            ((100, 1), (3, 0), 333_333_333_333_333_330_000),
            ((1_000_000, 1), (3, 0), 3_333_333_333_333_333_300_000_000),
            ((10, 0), (4, 0), 250_000_000_000_000_000_000),
            ((0, 2), (7, 0), 0),
        ] {
            assert_eq!(quotient(left, right), Some(digits), "{left:?} / {right:?}");
        }
        assert_eq!(quotient((i128::MAX, 0), (1, 30)), None);
    }
}
