//! From key columns to the 64-bit *codes* the join table stores.
//!
//! ```text
//! one column of numbers      -> its bits, those of integers without a copy (exact: equal codes are equal keys)
//! several columns of numbers -> packed by the ranges seen on the build side, if the product fits 63 bits (exact)
//! anything else              -> DataFusion's 64-bit row hash (not exact: matches are verified, see `verify`)
//! ```
//!
//! The encoder is chosen once from the build side ([`KeyEncoder::choose`]) and then encodes probe batches. It decides
//! nothing about tables and never compares keys.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, UInt8Type, UInt16Type,
};
use corun_exec::{Codes, Validity};
use datafusion::common::NullEquality;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;

/// Codes of a batch, borrowed from its key column where that is possible.
#[derive(Debug, Clone)]
pub enum CodeBuffer {
    /// 64-bit values; a row's code is `value ^ bias`.
    U64(ScalarBuffer<u64>, u64),
    /// 32-bit values, zero-extended after `^ bias`.
    U32(ScalarBuffer<u32>, u32),
}

impl CodeBuffer {
    /// The view the table takes.
    pub fn codes(&self) -> Codes<'_> {
        match self {
            CodeBuffer::U64(values, bias) => Codes::U64 { values, bias: *bias },
            CodeBuffer::U32(values, bias) => Codes::U32 { values, bias: *bias },
        }
    }

    /// Code of one row.
    pub(crate) fn get(&self, row: usize) -> u64 {
        match self {
            CodeBuffer::U64(values, bias) => values[row] ^ bias,
            CodeBuffer::U32(values, bias) => u64::from(values[row] ^ bias),
        }
    }

    /// Rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            CodeBuffer::U64(values, _) => values.len(),
            CodeBuffer::U32(values, _) => values.len(),
        }
    }
}

/// Codes with the rows that can match at all.
#[derive(Debug, Clone)]
pub struct Encoded {
    codes: CodeBuffer,
    /// Rows whose key can match; `None`: all.
    valid: Option<NullBuffer>,
}

impl Encoded {
    /// The codes.
    pub fn codes(&self) -> Codes<'_> {
        self.codes.codes()
    }

    /// Rows that can match, in the form the table takes.
    pub fn validity(&self) -> Option<Validity<'_>> {
        let nulls = self.valid.as_ref()?;
        Some(Validity::new(nulls.validity(), nulls.offset(), nulls.len()))
    }
}

/// One packed column: its smallest code on the build side and how many codes it spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    min: u64,
    span: u64,
}

/// How key columns become codes. Chosen from the build side.
#[derive(Debug, Clone)]
pub enum KeyEncoder {
    /// One column of numbers.
    Number,
    /// Several columns of numbers whose ranges multiply to at most 2^63 codes.
    Packed(Vec<Span>),
    /// Row hashes.
    Hashed {
        /// Seeds of the row hash.
        state: RandomState,
        /// Whether NULL keys match NULL keys.
        nulls_match: bool,
    },
}

impl KeyEncoder {
    /// Looks at all build batches' key columns and picks the cheapest encoding that is right.
    ///
    /// `batches[i][c]` is key column `c` of batch `i`; all batches have the same types.
    pub fn choose(batches: &[Vec<ArrayRef>], null_equality: NullEquality) -> KeyEncoder {
        let nulls_match = null_equality == NullEquality::NullEqualsNull;
        let hashed = || KeyEncoder::Hashed {
            state: RandomState::with_seed(0x0c0_2fe),
            nulls_match,
        };
        let Some(first) = batches.first() else {
            return hashed();
        };
        let numbers = first.iter().all(|column| has_codes(column.data_type()));
        // A NULL build key that must match NULL probe keys has no code, nor has a decimal beyond 64 bits.
        let without_code =
            |column: &ArrayRef| nulls_match && column.null_count() > 0 || is_beyond_codes(column);
        if !numbers || batches.iter().flatten().any(without_code) {
            return hashed();
        }
        if first.len() == 1 {
            return KeyEncoder::Number;
        }
        let spans: Option<Vec<Span>> = (0..first.len()).map(|column| span_of(batches, column)).collect();
        let product = spans.as_ref().and_then(|spans| {
            spans.iter().try_fold(1u64, |product, s| {
                product.checked_mul(s.span).filter(|p| *p <= 1 << 63)
            })
        });
        match (spans, product) {
            (Some(spans), Some(_)) => KeyEncoder::Packed(spans),
            _ => hashed(),
        }
    }

    /// Whether equal codes mean equal keys; if not, matches must be verified.
    pub fn is_exact(&self) -> bool {
        !matches!(self, KeyEncoder::Hashed { .. })
    }

    /// Name for plans and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            KeyEncoder::Number => "number",
            KeyEncoder::Packed(_) => "packed",
            KeyEncoder::Hashed { .. } => "hashed",
        }
    }

    /// Codes of one batch's key columns.
    ///
    /// # Errors
    /// A key type DataFusion cannot hash.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Encoded> {
        match self {
            KeyEncoder::Number => {
                let (codes, valid) = codes_of(&columns[0]);
                Ok(Encoded { codes, valid })
            }
            KeyEncoder::Packed(spans) => Ok(pack(columns, spans)),
            KeyEncoder::Hashed { state, nulls_match } => {
                let mut hashes = vec![0u64; columns[0].len()];
                create_hashes(columns, state, &mut hashes)?;
                let valid = if *nulls_match { None } else { nulls_of(columns) };
                Ok(Encoded {
                    codes: CodeBuffer::U64(hashes.into(), 0),
                    valid,
                })
            }
        }
    }
}

/// Types whose equality is equality of at most 64 bits.
pub fn is_integer_like(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Int8 | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(_, _)
            | Duration(_)
            | Decimal32(_, _)
            | Decimal64(_, _)
    )
}

/// Types whose values have codes of at most 64 bits, long decimals as far as they fit.
pub fn has_codes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Float32 | Float64 | Decimal128(_, _)) || is_integer_like(data_type)
}

/// Whether a column has decimals beyond 64 bits.
fn is_beyond_codes(column: &ArrayRef) -> bool {
    let DataType::Decimal128(_, _) = column.data_type() else {
        return false;
    };
    let mut values = column.as_primitive::<Decimal128Type>().iter().flatten();
    values.any(|value| i64::try_from(value).is_err())
}

/// Ordered codes of a column of numbers, and which rows have one: not NULL, nor decimals beyond 64 bits. `None`: all.
///
/// Equal codes are equal keys as DataFusion compares them: -0.0 is 0.0, and NaNs are told apart by sign and payload.
///
/// # Panics
/// If the type has no codes ([`has_codes`]).
pub(crate) fn codes_of(column: &ArrayRef) -> (CodeBuffer, Option<NullBuffer>) {
    let nulls = || column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    match column.data_type() {
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().values().iter();
            let codes = values.map(|value| ordered_32((value + 0.0).to_bits()));
            (CodeBuffer::U32(codes.collect::<Vec<_>>().into(), 0), nulls())
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values().iter();
            let codes = values.map(|value| ordered_64((value + 0.0).to_bits()));
            (CodeBuffer::U64(codes.collect::<Vec<_>>().into(), 0), nulls())
        }
        DataType::Decimal128(_, _) => {
            let decimals = column.as_primitive::<Decimal128Type>();
            let values = decimals.values().iter();
            let codes: Vec<u64> = values.map(|value| *value as i64 as u64).collect();
            let valid = match is_beyond_codes(column) {
                false => nulls(),
                true => {
                    let fits = decimals
                        .iter()
                        .map(|value| value.is_some_and(|value| i64::try_from(value).is_ok()));
                    Some(fits.collect::<Vec<bool>>().into())
                }
            };
            (CodeBuffer::U64(codes.into(), SIGN_64), valid)
        }
        _ => (integer_codes(column), nulls()),
    }
}

/// Bits of a float in the order of floats: negative ones fall with their magnitude.
fn ordered_32(bits: u32) -> u32 {
    if bits & SIGN_32 == 0 {
        bits | SIGN_32
    } else {
        !bits
    }
}

fn ordered_64(bits: u64) -> u64 {
    if bits & SIGN_64 == 0 {
        bits | SIGN_64
    } else {
        !bits
    }
}

/// The bits of the float with this code.
pub(crate) fn bits_32(code: u32) -> u32 {
    if code & SIGN_32 == 0 {
        !code
    } else {
        code & !SIGN_32
    }
}

/// The bits of the float with this code.
pub(crate) fn bits_64(code: u64) -> u64 {
    if code & SIGN_64 == 0 {
        !code
    } else {
        code & !SIGN_64
    }
}

/// NULLs of any key column; `None` when there are none.
fn nulls_of(columns: &[ArrayRef]) -> Option<NullBuffer> {
    columns
        .iter()
        .fold(None, |all: Option<NullBuffer>, column| {
            NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref())
        })
        .filter(|nulls| nulls.null_count() > 0)
}

const SIGN_32: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

/// Order-preserving codes of an integer-like column: signed types flip the sign bit.
///
/// # Panics
/// If the type is not [`is_integer_like`].
pub(crate) fn integer_codes(column: &ArrayRef) -> CodeBuffer {
    use DataType::*;
    match column.data_type() {
        Int8 => widen(
            column
                .as_primitive::<Int8Type>()
                .values()
                .iter()
                .map(|v| i32::from(*v)),
        ),
        Int16 => widen(
            column
                .as_primitive::<Int16Type>()
                .values()
                .iter()
                .map(|v| i32::from(*v)),
        ),
        UInt8 => widen(
            column
                .as_primitive::<UInt8Type>()
                .values()
                .iter()
                .map(|v| i32::from(*v)),
        ),
        UInt16 => widen(
            column
                .as_primitive::<UInt16Type>()
                .values()
                .iter()
                .map(|v| i32::from(*v)),
        ),
        UInt32 => CodeBuffer::U32(raw(column), 0),
        Int32 | Date32 | Time32(_) | Decimal32(_, _) => CodeBuffer::U32(raw(column), SIGN_32),
        UInt64 => CodeBuffer::U64(raw(column), 0),
        Int64 | Date64 | Time64(_) | Timestamp(_, _) | Duration(_) | Decimal64(_, _) => {
            CodeBuffer::U64(raw(column), SIGN_64)
        }
        other => unreachable!("{other} keys are hashed"),
    }
}

fn widen(values: impl Iterator<Item = i32>) -> CodeBuffer {
    CodeBuffer::U32(
        values.map(i32::cast_unsigned).collect::<Vec<u32>>().into(),
        SIGN_32,
    )
}

/// The values of a primitive column as unsigned numbers of the same width, without a copy.
pub(crate) fn raw<T: arrow::datatypes::ArrowNativeType>(column: &ArrayRef) -> ScalarBuffer<T> {
    let data = column.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// Range of one key column over all build batches, NULLs left out; `None` when it spans the whole domain.
fn span_of(batches: &[Vec<ArrayRef>], column: usize) -> Option<Span> {
    let (mut min, mut max) = (u64::MAX, 0u64);
    for batch in batches {
        let (codes, valid) = codes_of(&batch[column]);
        for row in 0..codes.len() {
            if valid.as_ref().is_none_or(|valid| valid.is_valid(row)) {
                let code = codes.get(row);
                min = min.min(code);
                max = max.max(code);
            }
        }
    }
    if min > max {
        return Some(Span { min: 0, span: 1 });
    }
    (max - min).checked_add(1).map(|span| Span { min, span })
}

/// Row-major packing: `((c0 - min0) * span1 + (c1 - min1)) * span2 + ...`, and the rows that have no NULL. A row outside the build side's
/// ranges gets `u64::MAX`, which no build row has because the spans multiply to at most 2^63.
fn pack(columns: &[ArrayRef], spans: &[Span]) -> Encoded {
    let mut packed = vec![0u64; columns[0].len()];
    let mut all_valid: Option<NullBuffer> = None;
    for (column, Span { min, span }) in columns.iter().zip(spans) {
        let step = |value: u64, slot: &mut u64| {
            let code = value.wrapping_sub(*min);
            *slot = if code < *span && *slot != u64::MAX {
                *slot * span + code
            } else {
                u64::MAX
            };
        };
        let (codes, valid) = codes_of(column);
        all_valid = NullBuffer::union(all_valid.as_ref(), valid.as_ref());
        match codes {
            CodeBuffer::U64(values, bias) => {
                values
                    .iter()
                    .zip(&mut packed)
                    .for_each(|(value, slot)| step(value ^ bias, slot));
            }
            CodeBuffer::U32(values, bias) => {
                values
                    .iter()
                    .zip(&mut packed)
                    .for_each(|(value, slot)| step(u64::from(value ^ bias), slot));
            }
        }
    }
    Encoded {
        codes: CodeBuffer::U64(packed.into(), 0),
        valid: all_valid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn codes(encoded: &Encoded) -> Vec<u64> {
        (0..encoded.codes.len())
            .map(|row| encoded.codes.get(row))
            .collect()
    }

    #[test]
    fn integer_codes_keep_the_order_of_signed_values() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 1, i64::MAX]));
        let encoder = KeyEncoder::choose(&[vec![column.clone()]], NullEquality::NullEqualsNothing);
        assert!(matches!(encoder, KeyEncoder::Number));
        let codes = codes(&encoder.encode(&[column]).unwrap());
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
    }

    #[test]
    fn a_sliced_column_keeps_its_offset() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![7, 8, 9, 10]).slice(1, 2));
        let encoded = KeyEncoder::Number.encode(&[column]).unwrap();
        assert_eq!(
            codes(&encoded),
            vec![u64::from(8u32 ^ SIGN_32), u64::from(9u32 ^ SIGN_32)]
        );
    }

    #[test]
    fn packed_codes_are_injective_and_out_of_range_rows_match_nothing() {
        let a: ArrayRef = Arc::new(Int32Array::from(vec![-3, -3, 5, 5]));
        let b: ArrayRef = Arc::new(Int64Array::from(vec![100, 101, 100, 101]));
        let encoder = KeyEncoder::choose(&[vec![a.clone(), b.clone()]], NullEquality::NullEqualsNothing);
        assert!(matches!(encoder, KeyEncoder::Packed(_)), "{encoder:?}");
        let mut all = codes(&encoder.encode(&[a, b]).unwrap());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
        let a: ArrayRef = Arc::new(Int32Array::from(vec![-4, 6, 0, 0]));
        let b: ArrayRef = Arc::new(Int64Array::from(vec![100, 100, 99, 102]));
        assert_eq!(codes(&encoder.encode(&[a, b]).unwrap()), vec![u64::MAX; 4]);
    }

    #[test]
    fn codes_of_floats_sort_as_floats_and_zeros_are_one() {
        let values = [
            -f64::NAN,
            f64::NEG_INFINITY,
            -1.5,
            -5e-324,
            0.0,
            5e-324,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        let encoder = KeyEncoder::choose(&[vec![column.clone()]], NullEquality::NullEqualsNothing);
        assert!(encoder.is_exact());
        let ordered = codes(&encoder.encode(&[column]).unwrap());
        assert!(ordered.windows(2).all(|pair| pair[0] < pair[1]), "{ordered:?}");
        let read = ordered.iter().map(|code| bits_64(*code));
        assert!(read.eq(values.iter().map(|value| value.to_bits())));
        let column: ArrayRef = Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, -f32::NAN, f32::NAN]));
        let of_32 = codes(&KeyEncoder::Number.encode(&[column]).unwrap());
        assert!(of_32[0] == of_32[1] && of_32[2] == of_32[4] && of_32[3] < of_32[0] && of_32[0] < of_32[2]);
    }

    #[test]
    fn decimals_have_codes_as_far_as_they_fit() {
        let array = |values: Vec<Option<i128>>| -> ArrayRef {
            let array = Decimal128Array::from(values);
            Arc::new(array.with_precision_and_scale(38, 2).unwrap())
        };
        let beyond = i128::from(i64::MAX) + 1;
        let fits = array(vec![
            Some(i128::from(i64::MIN)),
            Some(-7),
            None,
            Some(7),
            Some(i128::from(i64::MAX)),
        ]);
        let encoder = KeyEncoder::choose(&[vec![fits.clone()]], NullEquality::NullEqualsNothing);
        assert!(encoder.is_exact());
        let encoded = encoder.encode(&[fits]).unwrap();
        let sorted = codes(&encoded);
        assert!(
            sorted[0] < sorted[1] && sorted[1] < sorted[3] && sorted[3] < sorted[4],
            "{sorted:?}"
        );
        let probe = encoder
            .encode(&[array(vec![Some(beyond), Some(7), None, Some(-beyond - 1)])])
            .unwrap();
        let valid = probe.valid.unwrap();
        assert_eq!(
            (0..4).map(|row| valid.is_valid(row)).collect::<Vec<_>>(),
            [false, true, false, false]
        );
        let wide = array(vec![Some(beyond)]);
        assert!(!KeyEncoder::choose(&[vec![wide]], NullEquality::NullEqualsNothing).is_exact());
    }

    #[test]
    fn wide_ranges_and_strings_are_hashed() {
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]));
        let choice = KeyEncoder::choose(&[vec![wide.clone(), wide]], NullEquality::NullEqualsNothing);
        assert!(!choice.is_exact());
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        assert!(!KeyEncoder::choose(&[vec![text]], NullEquality::NullEqualsNothing).is_exact());
    }

    #[test]
    fn null_keys_that_match_need_hashes_and_stay_valid() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let encoder = KeyEncoder::choose(&[vec![column.clone()]], NullEquality::NullEqualsNull);
        assert!(!encoder.is_exact());
        assert!(
            encoder
                .encode(std::slice::from_ref(&column))
                .unwrap()
                .valid
                .is_none()
        );
        let encoder = KeyEncoder::choose(&[vec![column.clone()]], NullEquality::NullEqualsNothing);
        assert_eq!(encoder.encode(&[column]).unwrap().valid.unwrap().null_count(), 1);
    }
}
