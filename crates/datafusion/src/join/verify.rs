//! Real key equality for the candidate pairs that hashed codes gave, and conditions beyond the keys.
//!
//! Equality is DataFusion's: -0.0 equals 0.0, NaN equals the same NaN. Columns of numbers, strings and bytes are compared in typed loops, one
//! column after the other; other types go through DataFusion's own comparator.

use super::output::{Assembler, Columns, Rows};
use super::prefetch::ask_for_rows;
use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, ByteView, GenericByteArray, GenericByteViewArray,
    RecordBatch, UInt32Array, downcast_primitive,
};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{
    ArrowPrimitiveType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, LargeBinaryType,
    LargeUtf8Type, StringViewType, Utf8Type,
};
use corun_exec::table::Pairs;
use datafusion::common::NullEquality;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::utils::JoinKeyComparator;

/// So many rows are asked for before they are compared: their lines, three a row of text, are a part of the L2. Measured only beside whole
/// batches of 8,192 rows, which took some 5 % longer.
const ASK_ROWS: usize = 1024;

/// Drops the pairs whose keys are not equal, keeping the order of the others.
///
/// `build` and `probe` are the key columns of the whole build side and of the probe batch, `nulls_are` what two NULLs are.
///
/// # Errors
/// A key type that DataFusion cannot compare.
pub fn retain_equal(
    pairs: &mut Pairs,
    build: &[ArrayRef],
    probe: &[ArrayRef],
    nulls_are: NullEquality,
) -> Result<()> {
    for (build, probe) in build.iter().zip(probe) {
        if pairs.build.is_empty() {
            break;
        }
        retain_equal_column(pairs, build, probe, nulls_are)?;
    }
    Ok(())
}

fn retain_equal_column(
    pairs: &mut Pairs,
    build: &ArrayRef,
    probe: &ArrayRef,
    nulls_are: NullEquality,
) -> Result<()> {
    macro_rules! numbers {
        ($type:ty) => {
            retain_numbers::<$type>(pairs, build, probe, nulls_are)
        };
    }
    if build.data_type() == probe.data_type() {
        downcast_primitive! {
            build.data_type() => (numbers),
            DataType::Utf8 => retain_bytes::<Utf8Type>(pairs, build, probe, nulls_are),
            DataType::LargeUtf8 => retain_bytes::<LargeUtf8Type>(pairs, build, probe, nulls_are),
            DataType::Binary => retain_bytes::<BinaryType>(pairs, build, probe, nulls_are),
            DataType::LargeBinary => retain_bytes::<LargeBinaryType>(pairs, build, probe, nulls_are),
            DataType::Utf8View => retain_views::<StringViewType>(pairs, build, probe, nulls_are),
            DataType::BinaryView => retain_views::<BinaryViewType>(pairs, build, probe, nulls_are),
            _ => retain_compared(pairs, build, probe, nulls_are)?,
        }
        return Ok(());
    }
    retain_compared(pairs, build, probe, nulls_are)
}

/// By DataFusion's comparator, which goes through a call for each pair.
fn retain_compared(
    pairs: &mut Pairs,
    build: &ArrayRef,
    probe: &ArrayRef,
    nulls_are: NullEquality,
) -> Result<()> {
    let (build, probe) = (std::slice::from_ref(build), std::slice::from_ref(probe));
    let ascending = [SortOptions::default()];
    let comparator = JoinKeyComparator::new(build, probe, &ascending, nulls_are)?;
    retain(pairs, &build[0], |b, p| comparator.is_equal(b, p));
    Ok(())
}

/// Drops the pairs for which a condition is not true, keeping the order of the others.
///
/// `assembler` makes the condition's intermediate batch from the build columns and the probe batch.
///
/// # Errors
/// Errors of the condition.
pub fn retain_true(
    pairs: &mut Pairs,
    condition: &PhysicalExprRef,
    assembler: &Assembler,
    build_columns: Columns<'_>,
    batch: &RecordBatch,
) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let build = Rows::Indices(UInt32Array::from(std::mem::take(&mut pairs.build)));
    let probe = Rows::Indices(UInt32Array::from(std::mem::take(&mut pairs.probe)));
    let rows = build.listed();
    let candidates = assembler.assemble(rows, (build_columns, &build), (Some(batch), &probe), None)?;
    let verdict = condition.evaluate(&candidates)?.into_array(rows)?;
    let verdict = verdict.as_boolean();
    (pairs.build, pairs.probe) = (build.into_vec(), probe.into_vec());
    let keep = |row: usize| verdict.is_valid(row) && verdict.value(row);
    let mut kept = 0;
    for row in 0..rows {
        pairs.build[kept] = pairs.build[row];
        pairs.probe[kept] = pairs.probe[row];
        kept += usize::from(keep(row));
    }
    pairs.build.truncate(kept);
    pairs.probe.truncate(kept);
    Ok(())
}

/// Drops pairs that are not equal; what `equal` reads of the build column is asked for ahead.
fn retain(pairs: &mut Pairs, build: &ArrayRef, equal: impl Fn(usize, usize) -> bool) {
    let (rows, mut kept) = (pairs.build.len(), 0);
    for start in (0..rows).step_by(ASK_ROWS) {
        let end = rows.min(start + ASK_ROWS);
        ask_for_rows(build, &pairs.build[start..end]);
        for i in start..end {
            let (b, p) = (pairs.build[i], pairs.probe[i]);
            pairs.build[kept] = b;
            pairs.probe[kept] = p;
            kept += usize::from(equal(b as usize, p as usize));
        }
    }
    pairs.build.truncate(kept);
    pairs.probe.truncate(kept);
}

/// Drops pairs of different values. The values of NULLs may be anything.
fn retain_values(
    pairs: &mut Pairs,
    build: &ArrayRef,
    probe: &ArrayRef,
    nulls_are: NullEquality,
    equal: impl Fn(usize, usize) -> bool,
) {
    let nulls_are_equal = nulls_are == NullEquality::NullEqualsNull;
    let (build_nulls, probe_nulls) = (build.nulls(), probe.nulls());
    let is_null = |nulls: Option<&NullBuffer>, row| nulls.is_some_and(|nulls| nulls.is_null(row));
    match (build_nulls, probe_nulls) {
        (None, None) => retain(pairs, build, equal),
        _ => retain(pairs, build, |b, p| {
            match (is_null(build_nulls, b), is_null(probe_nulls, p)) {
                (false, false) => equal(b, p),
                (build, probe) => nulls_are_equal && build && probe,
            }
        }),
    }
}

fn retain_numbers<T: ArrowPrimitiveType>(
    pairs: &mut Pairs,
    build: &ArrayRef,
    probe: &ArrayRef,
    nulls_are: NullEquality,
) {
    let (build_values, probe_values) = (
        build.as_primitive::<T>().values(),
        probe.as_primitive::<T>().values(),
    );
    retain_values(pairs, build, probe, nulls_are, |b, p| {
        let (b_value, p_value) = (build_values[b], probe_values[p]);
        // Of floats `is_eq` compares bits, and the zeros have different ones.
        b_value == p_value || b_value.is_eq(p_value)
    });
}

fn retain_bytes<T: ByteArrayType>(
    pairs: &mut Pairs,
    build: &ArrayRef,
    probe: &ArrayRef,
    nulls_are: NullEquality,
) {
    let (build_values, probe_values): (&GenericByteArray<T>, &GenericByteArray<T>) =
        (build.as_bytes(), probe.as_bytes());
    retain_values(pairs, build, probe, nulls_are, |b, p| {
        are_equal(build_values.value(b).as_ref(), probe_values.value(p).as_ref())
    });
}

fn retain_views<T: ByteViewType>(
    pairs: &mut Pairs,
    build: &ArrayRef,
    probe: &ArrayRef,
    nulls_are: NullEquality,
) {
    let (build_values, probe_values): (&GenericByteViewArray<T>, &GenericByteViewArray<T>) =
        (build.as_byte_view(), probe.as_byte_view());
    let (build_views, probe_views) = (build_values.views(), probe_values.views());
    retain_values(pairs, build, probe, nulls_are, |b, p| {
        let (b_view, p_view) = (build_views[b], probe_views[p]);
        // Length and the first four bytes stand in the low half of a view; short values are in it whole.
        if b_view as u64 != p_view as u64 {
            false
        } else if ByteView::from(b_view).length <= 12 {
            b_view == p_view
        } else {
            are_equal(build_values.value(b).as_ref(), probe_values.value(p).as_ref())
        }
    });
}

/// Equality of bytes, without a call where they are as few as keys usually are.
#[inline(always)]
fn are_equal(a: &[u8], b: &[u8]) -> bool {
    fn same<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk::<N>() && a.last_chunk::<N>() == b.last_chunk::<N>()
    }
    a.len() == b.len()
        && match a.len() {
            8..=16 => same::<8>(a, b),
            17..=32 => same::<16>(a, b),
            _ => a == b,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Float64Array, Int32Array, StringArray, StringViewArray};
    use std::sync::Arc;

    fn check(build: Vec<ArrayRef>, probe: Vec<ArrayRef>, want: &[(u32, u32)]) {
        check_with(NullEquality::NullEqualsNothing, build, probe, want);
    }

    fn check_with(nulls_are: NullEquality, build: Vec<ArrayRef>, probe: Vec<ArrayRef>, want: &[(u32, u32)]) {
        let (nb, np) = (build[0].len() as u32, probe[0].len() as u32);
        let mut pairs = Pairs::default();
        for p in 0..np {
            for b in 0..nb {
                pairs.build.push(b);
                pairs.probe.push(p);
            }
        }
        retain_equal(&mut pairs, &build, &probe, nulls_are).unwrap();
        let got: Vec<(u32, u32)> = pairs
            .build
            .iter()
            .copied()
            .zip(pairs.probe.iter().copied())
            .collect();
        assert_eq!(got, want);
    }

    const NULLS_EQUAL: NullEquality = NullEquality::NullEqualsNull;

    #[test]
    fn strings_of_every_layout() {
        let (a, b) = (
            vec![Some("x"), None, Some("a string longer than twelve")],
            vec!["a string longer than twelvE", "x"],
        );
        check(
            vec![Arc::new(StringArray::from(a.clone()))],
            vec![Arc::new(StringArray::from(b.clone()))],
            &[(0, 1)],
        );
        check(
            vec![Arc::new(StringViewArray::from(a.clone()))],
            vec![Arc::new(StringViewArray::from(b))],
            &[(0, 1)],
        );
        let same: ArrayRef = Arc::new(StringViewArray::from(a));
        check(vec![same.clone()], vec![same.clone()], &[(0, 0), (2, 2)]);
        check_with(
            NULLS_EQUAL,
            vec![same.clone()],
            vec![same],
            &[(0, 0), (1, 1), (2, 2)],
        );
    }

    #[test]
    fn an_empty_string_is_not_null() {
        let build: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None]));
        let probe: ArrayRef = Arc::new(StringArray::from(vec![""]));
        check(vec![build], vec![probe], &[(0, 0)]);
    }

    #[test]
    fn floats_follow_sql() {
        let build: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN]));
        let probe: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, f64::NAN, 1.0, -f64::NAN]));
        check(vec![build], vec![probe], &[(0, 0), (1, 1)]);
    }

    #[test]
    fn numbers_and_their_nulls() {
        let build: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(0)]));
        let probe: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(0), Some(1)]));
        check(vec![build.clone()], vec![probe.clone()], &[(2, 1), (0, 2)]);
        check_with(NULLS_EQUAL, vec![build], vec![probe], &[(1, 0), (2, 1), (0, 2)]);
    }

    #[test]
    fn other_types_are_compared_by_datafusion() {
        let build: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
        let probe: ArrayRef = Arc::new(BooleanArray::from(vec![Some(false), None]));
        check(vec![build.clone()], vec![probe.clone()], &[(2, 0)]);
        check_with(NULLS_EQUAL, vec![build], vec![probe], &[(2, 0), (1, 1)]);
    }

    #[test]
    fn several_columns_must_all_be_equal() {
        let a: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![1, 1])),
            Arc::new(StringArray::from(vec!["p", "q"])),
        ];
        let b: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![1])),
            Arc::new(StringArray::from(vec!["q"])),
        ];
        check(a, b, &[(1, 0)]);
    }
}
