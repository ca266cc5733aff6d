//! Output batches from row numbers.
//!
//! Large build columns are gathered with software prefetch, arrow's `take` being asked where they have NULLs or texts; probe columns are
//! passed through untouched when every probe row matched exactly once.

use super::prefetch::ask_for_rows;
use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, make_array,
    new_null_array,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, SchemaRef};
use corun_model::cache::reuse::Reuse;
use datafusion::common::{JoinSide, internal_err};
use datafusion::error::Result;
use datafusion::physical_plan::joins::utils::ColumnIndex;

/// Which rows of one input an output batch takes.
pub enum Rows {
    /// All rows in order.
    All,
    /// No row of this side: NULLs.
    Null,
    /// These rows.
    Indices(UInt32Array),
}

impl Rows {
    /// Selected rows, where they are listed.
    pub fn listed(&self) -> usize {
        match self {
            Rows::Indices(indices) => indices.len(),
            Rows::All | Rows::Null => 0,
        }
    }

    /// The row numbers' memory back, for the next step; empty if somebody else holds it.
    pub fn into_vec(self) -> Vec<u32> {
        match self {
            Rows::Indices(indices) => indices.into_parts().1.into(),
            Rows::All | Rows::Null => Vec::new(),
        }
    }
}

/// Columns that batches take rows of at random.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// By number; `None` where nothing reads the column.
    pub arrays: &'a [Option<ArrayRef>],
    /// Whether their lines are worth a place in the outer caches. Followed for fixed-width columns without NULLs.
    pub reuse: Reuse,
}

/// Assembles batches of one schema from both sides.
#[derive(Clone)]
pub struct Assembler {
    /// Output schema.
    pub schema: SchemaRef,
    /// For each output column where it comes from; `JoinSide::None` is the mark column.
    pub sources: Vec<ColumnIndex>,
}

impl Assembler {
    /// One batch of `rows` rows. `build` holds the left columns that are needed, `mark` the mark column.
    ///
    /// # Errors
    /// Arrow's errors (offset overflow of huge string columns).
    pub fn assemble(
        &self,
        rows: usize,
        build: (Columns<'_>, &Rows),
        probe: (Option<&RecordBatch>, &Rows),
        mark: Option<&BooleanArray>,
    ) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.sources.len());
        for (source, field) in self.sources.iter().zip(self.schema.fields()) {
            let column = match source.side {
                JoinSide::None => match mark {
                    Some(mark) => std::sync::Arc::new(mark.clone()) as ArrayRef,
                    None => return internal_err!("a mark column without marks"),
                },
                JoinSide::Left => match build {
                    (_, Rows::Null) => new_null_array(field.data_type(), rows),
                    (columns, selection) => match &columns.arrays[source.index] {
                        Some(column) => select(column, selection, columns.reuse)?,
                        None => return internal_err!("build column {} was not kept", source.index),
                    },
                },
                JoinSide::Right => match probe {
                    (_, Rows::Null) | (None, _) => new_null_array(field.data_type(), rows),
                    (Some(batch), selection) => select(batch.column(source.index), selection, Reuse::Keep)?,
                },
            };
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            SchemaRef::clone(&self.schema),
            columns,
            &options,
        )?)
    }
}

fn select(column: &ArrayRef, rows: &Rows, reuse: Reuse) -> Result<ArrayRef> {
    match rows {
        Rows::All => Ok(ArrayRef::clone(column)),
        Rows::Null => internal_err!("NULL columns have no rows to select"),
        // An empty build side has only NULL indices, which `take` would look up all the same.
        Rows::Indices(indices) if column.is_empty() => Ok(new_null_array(column.data_type(), indices.len())),
        Rows::Indices(indices) => {
            let plain = column.null_count() == 0 && indices.null_count() == 0;
            if plain && let Some(gathered) = gather_fixed_width(column, indices.values(), reuse) {
                return gathered;
            }
            ask_for_rows(column, indices.values());
            Ok(take(column.as_ref(), indices, None)?)
        }
    }
}

/// The rows of a primitive column without NULLs, read with prefetch; `None` for widths `exec` does not gather.
fn gather_fixed_width(column: &ArrayRef, rows: &[u32], reuse: Reuse) -> Option<Result<ArrayRef>> {
    let data = column.to_data();
    let buffer = match column.data_type().primitive_width()? {
        1 => gather_as::<u8>(&data, rows, reuse),
        2 => gather_as::<u16>(&data, rows, reuse),
        4 => gather_as::<u32>(&data, rows, reuse),
        8 => gather_as::<u64>(&data, rows, reuse),
        16 => gather_as::<u128>(&data, rows, reuse),
        _ => return None,
    };
    let array = ArrayData::builder(column.data_type().clone())
        .len(rows.len())
        .add_buffer(buffer)
        .build();
    Some(array.map(make_array).map_err(Into::into))
}

fn gather_as<T: ArrowNativeType + corun_exec::huge::Plain>(
    data: &ArrayData,
    rows: &[u32],
    reuse: Reuse,
) -> Buffer {
    let source = ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len());
    let mut out = Vec::new();
    corun_exec::gather(&source, rows, reuse, &mut out);
    Buffer::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::super::prefetch::ASK_FROM_ROWS;
    use super::*;
    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, Int16Array, Int64Array, StringArray, StringViewArray,
    };
    use std::sync::Arc;

    #[test]
    fn every_width_selects_what_take_selects() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int16Array::from(vec![1, 2, 3, 4]).slice(1, 3)),
            Arc::new(Int64Array::from(vec![10, 20, 30])),
            Arc::new(Int64Array::from(vec![Some(10), None, Some(30)])),
            Arc::new(Date32Array::from(vec![100, 200, 300])),
            Arc::new(
                Decimal128Array::from(vec![1, 2, 3])
                    .with_precision_and_scale(20, 2)
                    .unwrap(),
            ),
            Arc::new(StringArray::from(vec!["a", "b", "c"])),
            Arc::new(BooleanArray::from(vec![true, false, true])),
        ];
        for column in columns {
            for indices in [
                UInt32Array::from(vec![2, 0, 2, 1]),
                UInt32Array::from(vec![Some(1), None]),
            ] {
                let want = take(column.as_ref(), &indices, None).unwrap();
                let rows = Rows::Indices(indices);
                for reuse in [Reuse::Keep, Reuse::Once] {
                    assert_eq!(&select(&column, &rows, reuse).unwrap(), &want);
                }
            }
        }
    }

    #[test]
    fn large_columns_that_are_asked_for_are_taken_right() {
        let rows = ASK_FROM_ROWS as i64 + 5;
        let text = |row| (row % 5 > 0).then(|| "x".repeat(row as usize % 30));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(
                (0..rows)
                    .map(|row| (row % 3 > 0).then_some(row))
                    .collect::<Int64Array>(),
            ),
            Arc::new((0..rows).map(text).collect::<StringArray>()),
            Arc::new((0..rows).map(text).collect::<StringViewArray>()),
            Arc::new((0..rows).map(|row| Some(row % 3 > 0)).collect::<BooleanArray>()),
        ];
        let scattered = || (0..1_000_u32).map(|row| row * 65_537 % rows as u32);
        for column in columns {
            for indices in [
                UInt32Array::from_iter_values(scattered()),
                scattered().map(|row| (row % 2 > 0).then_some(row)).collect(),
            ] {
                let want = take(column.as_ref(), &indices, None).unwrap();
                let rows = Rows::Indices(indices);
                assert_eq!(&select(&column, &rows, Reuse::Keep).unwrap(), &want);
            }
        }
    }

    #[test]
    fn an_empty_column_gives_nulls() {
        let column: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
        let indices = UInt32Array::from(vec![None, None]);
        let selected = select(&column, &Rows::Indices(indices), Reuse::Keep).unwrap();
        assert_eq!(selected.null_count(), 2);
    }
}
