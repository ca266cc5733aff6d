//! From an indexed column or a key column to the ordered codes that the tree holds.
//!
//! They are those of the hash join (`join::keys`): every code sorts as its value does, and equal codes are equal keys. NULLs have no
//! code; they are told apart beside the codes. Of decimals only short ones are indexed, whose values all have codes.

use crate::join::keys::{CodeBuffer, codes_of, has_codes};
use arrow::array::{ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type};

/// Digits of the longest decimal whose values all fit 63 bits and a sign.
const DECIMAL_DIGITS_MAX: u8 = 18;

/// Whether columns of this type have codes.
pub fn is_indexable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal128(digits, _) => *digits <= DECIMAL_DIGITS_MAX,
        other => has_codes(other),
    }
}

/// The codes of a column and the rows that have one (`None`: all); `None` when the type has no codes.
pub fn codes(column: &ArrayRef) -> Option<(CodeBuffer, Option<NullBuffer>)> {
    is_indexable(column.data_type()).then(|| codes_of(column))
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
    use arrow::array::{Decimal128Array, StringArray};
    use std::sync::Arc;

    fn of(column: ArrayRef) -> Vec<u64> {
        let (codes, _) = codes(&column).unwrap();
        (0..codes.len()).map(|row| codes.get(row)).collect()
    }

    #[test]
    fn decimals_sort_and_too_large_ones_are_found() {
        let array = |values: Vec<i128>| -> ArrayRef {
            let array = Decimal128Array::from(values);
            Arc::new(array.with_precision_and_scale(18, 2).unwrap())
        };
        let sorted = of(array(vec![-7, 0, 7, 10_i128.pow(18) - 1]));
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]), "{sorted:?}");
        assert!(!exceeds_its_type(&array(vec![10_i128.pow(18) - 1])));
        assert!(exceeds_its_type(&array(vec![-(10_i128.pow(18))])));
        let (_, valid) = codes(&array(vec![i128::MAX])).unwrap();
        assert!(valid.unwrap().is_null(0), "it has no code");
    }

    #[test]
    fn texts_have_no_codes() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(codes(&text).is_none());
    }
}
