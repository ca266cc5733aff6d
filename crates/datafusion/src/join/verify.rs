//! Real key equality for the candidate pairs that hashed codes gave, and conditions beyond the keys.
//!
//! Equality is DataFusion's: -0.0 equals 0.0, NaN equals NaN, NULL equals NULL only where the join says so. The
//! common case, one string or binary column, compares bytes in a typed loop; everything else goes through DataFusion's
//! own comparator.

use super::output::{Assembler, Columns, Rows};
use arrow::array::{
    Array, ArrayRef, AsArray, ByteView, GenericByteArray, GenericByteViewArray, RecordBatch, UInt32Array,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, LargeBinaryType, LargeUtf8Type,
    StringViewType, Utf8Type,
};
use corun_exec::table::Pairs;
use datafusion::common::NullEquality;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::utils::JoinKeyComparator;

/// Drops the pairs whose keys are not equal, keeping the order of the others.
///
/// `build` and `probe` are the key columns of the whole build side and of the probe batch.
///
/// # Errors
/// A key type that DataFusion cannot compare.
pub fn retain_equal(
    pairs: &mut Pairs,
    build: &[ArrayRef],
    probe: &[ArrayRef],
    null_equality: NullEquality,
) -> Result<()> {
    if pairs.build.is_empty() {
        return Ok(());
    }
    if let ([build], [probe]) = (build, probe)
        && (build.null_count() == 0 || probe.null_count() == 0)
        && build.data_type() == probe.data_type()
    {
        // At most one side has NULLs and its values under NULL slots may be anything.
        let nullable = if build.null_count() > 0 {
            Some((true, build.logical_nulls()))
        } else {
            None
        };
        let nullable = nullable.or_else(|| (probe.null_count() > 0).then(|| (false, probe.logical_nulls())));
        let live = |b: usize, p: usize| match &nullable {
            Some((true, Some(nulls))) => nulls.is_valid(b),
            Some((false, Some(nulls))) => nulls.is_valid(p),
            _ => true,
        };
        match build.data_type() {
            DataType::Utf8 => return retain_bytes::<Utf8Type>(pairs, build, probe, live),
            DataType::LargeUtf8 => return retain_bytes::<LargeUtf8Type>(pairs, build, probe, live),
            DataType::Binary => return retain_bytes::<BinaryType>(pairs, build, probe, live),
            DataType::LargeBinary => return retain_bytes::<LargeBinaryType>(pairs, build, probe, live),
            DataType::Utf8View => return retain_views::<StringViewType>(pairs, build, probe, live),
            DataType::BinaryView => return retain_views::<BinaryViewType>(pairs, build, probe, live),
            _ => {}
        }
    }
    let comparator = JoinKeyComparator::new(
        build,
        probe,
        &vec![SortOptions::default(); build.len()],
        null_equality,
    )?;
    retain(pairs, |b, p| comparator.is_equal(b, p));
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

fn retain(pairs: &mut Pairs, equal: impl Fn(usize, usize) -> bool) {
    let mut kept = 0;
    for i in 0..pairs.build.len() {
        let (b, p) = (pairs.build[i], pairs.probe[i]);
        pairs.build[kept] = b;
        pairs.probe[kept] = p;
        kept += usize::from(equal(b as usize, p as usize));
    }
    pairs.build.truncate(kept);
    pairs.probe.truncate(kept);
}

fn retain_bytes<T: ByteArrayType>(
    pairs: &mut Pairs,
    build: &ArrayRef,
    probe: &ArrayRef,
    live: impl Fn(usize, usize) -> bool,
) -> Result<()> {
    let (build, probe): (&GenericByteArray<T>, &GenericByteArray<T>) = (build.as_bytes(), probe.as_bytes());
    retain(pairs, |b, p| {
        let (b_value, p_value): (&[u8], &[u8]) = (build.value(b).as_ref(), probe.value(p).as_ref());
        b_value == p_value && live(b, p)
    });
    Ok(())
}

fn retain_views<T: ByteViewType>(
    pairs: &mut Pairs,
    build: &ArrayRef,
    probe: &ArrayRef,
    live: impl Fn(usize, usize) -> bool,
) -> Result<()> {
    let (build, probe): (&GenericByteViewArray<T>, &GenericByteViewArray<T>) =
        (build.as_byte_view(), probe.as_byte_view());
    let (build_views, probe_views) = (build.views(), probe.views());
    retain(pairs, |b, p| {
        let (b_view, p_view) = (build_views[b], probe_views[p]);
        // Length and the first four bytes stand in the low half of a view; short values are in it whole.
        let equal = if b_view as u64 != p_view as u64 {
            false
        } else if ByteView::from(b_view).length <= 12 {
            b_view == p_view
        } else {
            let (b_value, p_value): (&[u8], &[u8]) = (build.value(b).as_ref(), probe.value(p).as_ref());
            b_value == p_value
        };
        equal && live(b, p)
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringArray, StringViewArray};
    use std::sync::Arc;

    fn check(build: Vec<ArrayRef>, probe: Vec<ArrayRef>, null_equality: NullEquality, want: &[(u32, u32)]) {
        let (nb, np) = (build[0].len() as u32, probe[0].len() as u32);
        let mut pairs = Pairs::default();
        for p in 0..np {
            for b in 0..nb {
                pairs.build.push(b);
                pairs.probe.push(p);
            }
        }
        retain_equal(&mut pairs, &build, &probe, null_equality).unwrap();
        let got: Vec<(u32, u32)> = pairs
            .build
            .iter()
            .copied()
            .zip(pairs.probe.iter().copied())
            .collect();
        assert_eq!(got, want);
    }

    const PLAIN: NullEquality = NullEquality::NullEqualsNothing;

    #[test]
    fn strings_of_every_layout() {
        let (a, b) = (
            vec![Some("x"), None, Some("a string longer than twelve")],
            vec!["a string longer than twelvE", "x"],
        );
        check(
            vec![Arc::new(StringArray::from(a.clone()))],
            vec![Arc::new(StringArray::from(b.clone()))],
            PLAIN,
            &[(0, 1)],
        );
        check(
            vec![Arc::new(StringViewArray::from(a.clone()))],
            vec![Arc::new(StringViewArray::from(b))],
            PLAIN,
            &[(0, 1)],
        );
        let same: ArrayRef = Arc::new(StringViewArray::from(a));
        check(vec![same.clone()], vec![same.clone()], PLAIN, &[(0, 0), (2, 2)]);
        check(
            vec![same.clone()],
            vec![same],
            NullEquality::NullEqualsNull,
            &[(0, 0), (1, 1), (2, 2)],
        );
    }

    #[test]
    fn an_empty_string_is_not_null() {
        let build: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None]));
        let probe: ArrayRef = Arc::new(StringArray::from(vec![""]));
        check(vec![build], vec![probe], PLAIN, &[(0, 0)]);
    }

    #[test]
    fn floats_follow_sql() {
        let build: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN]));
        let probe: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, f64::NAN, 1.0]));
        check(vec![build], vec![probe], PLAIN, &[(0, 0), (1, 1)]);
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
        check(a, b, PLAIN, &[(1, 0)]);
    }
}
