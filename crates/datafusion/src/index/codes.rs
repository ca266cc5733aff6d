//! From an indexed column or a key column to the ordered codes that the tree holds.
//!
//! Integers keep the codes the hash join gives them (`join::keys`), order included. Floats and short decimals get codes of
//! 64 bits here. Every code sorts as its value does, and equal codes are equal keys in DataFusion's sense: -0.0 equals
//! 0.0, NaN equals NaN. NULLs have no code; they are told apart beside the codes.

use crate::join::keys::{CodeBuffer, integer_codes, is_integer_like};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};

/// Digits of the longest decimal whose values all fit 63 bits and a sign.
const DECIMAL_DIGITS_MAX: u8 = 18;

const SIGN: u64 = 1 << 63;

/// Whether columns of this type have codes.
pub fn is_indexable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::Decimal128(digits, _) => *digits <= DECIMAL_DIGITS_MAX,
        other => is_integer_like(other),
    }
}

/// The codes of a column and its NULLs; `None` when the type has no codes.
pub fn codes(column: &ArrayRef) -> Option<(CodeBuffer, Option<NullBuffer>)> {
    if !is_indexable(column.data_type()) {
        return None;
    }
    let wide = |codes: Vec<u64>| CodeBuffer::U64(codes.into(), 0);
    let codes = match column.data_type() {
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().values();
            wide(values.iter().map(|value| float_code(f64::from(*value))).collect())
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values();
            wide(values.iter().map(|value| float_code(*value)).collect())
        }
        DataType::Decimal128(_, _) => {
            let values = column.as_primitive::<Decimal128Type>().values();
            wide(values.iter().map(|value| decimal_code(*value)).collect())
        }
        _ => integer_codes(column),
    };
    let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    Some((codes, nulls))
}

/// Negative floats sort by falling magnitude; all NaN are one, above infinity.
fn float_code(value: f64) -> u64 {
    // Adding zero turns -0.0 into 0.0.
    let number = if value.is_nan() {
        f64::NAN.abs()
    } else {
        value + 0.0
    };
    let bits = number.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Values beyond 64 bits, which a column of so few digits should not hold, get the codes at either end.
fn decimal_code(value: i128) -> u64 {
    let clamped = value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    clamped.cast_unsigned() ^ SIGN
}

/// Whether a decimal column holds values that its type has no digits for: those have no code of their own.
pub fn exceeds_its_type(column: &ArrayRef) -> bool {
    match column.data_type() {
        DataType::Decimal128(digits, _) if *digits <= DECIMAL_DIGITS_MAX => {
            let end = 10_i128.pow(u32::from(*digits));
            let values = column.as_primitive::<Decimal128Type>();
            values.iter().flatten().any(|value| value.abs() >= end)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float32Array, Float64Array, StringArray};
    use std::sync::Arc;

    fn of(column: ArrayRef) -> Vec<u64> {
        let (codes, _) = codes(&column).unwrap();
        (0..codes.len()).map(|row| codes.get(row)).collect()
    }

    #[test]
    fn float_codes_sort_as_floats_and_zeros_are_one() {
        let values = [
            f64::NEG_INFINITY,
            -1.5,
            -5e-324,
            0.0,
            5e-324,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        let codes = of(Arc::new(Float64Array::from(values.to_vec())));
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
        let equal = of(Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, -f32::NAN])));
        assert!(equal[0] == equal[1] && equal[2] == equal[3] && equal[0] < equal[2]);
    }

    #[test]
    fn decimals_sort_and_too_large_ones_are_found() {
        let array = |values: Vec<i128>| -> ArrayRef {
            let array = Decimal128Array::from(values);
            Arc::new(array.with_precision_and_scale(18, 2).unwrap())
        };
        let codes = of(array(vec![-7, 0, 7, 10_i128.pow(18) - 1]));
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
        assert!(!exceeds_its_type(&array(vec![10_i128.pow(18) - 1])));
        assert!(exceeds_its_type(&array(vec![-(10_i128.pow(18))])));
        assert_eq!(of(array(vec![i128::MAX])), [u64::MAX]);
    }

    #[test]
    fn texts_have_no_codes() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(codes(&text).is_none());
    }
}
