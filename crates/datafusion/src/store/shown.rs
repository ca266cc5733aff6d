//! [`shown_as`]: columns of the store that a schema shows as another type of the same bytes.
//!
//! | store | Arrow's own | may be shown as |
//! |---|---|---|
//! | `I64` | `Int64` | `Time64` in microseconds |
//! | `FixedBytes` of 16 | `FixedSizeBinary(16)` | `Interval` of months, days, nanoseconds: 4, 4 and 8 bytes, little-endian |
//!
//! What it is not: a cast. Nothing is copied, and a column whose bytes are something else is shown as something else.

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalUnit, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use std::sync::Arc;

/// Bytes of an interval.
const INTERVAL_BYTES: usize = 16;

/// Whether a column of the store may be shown so.
pub(super) fn may_be_shown(own: &DataType, told: &DataType) -> bool {
    matches!(
        (own, told),
        (DataType::Int64, DataType::Time64(TimeUnit::Microsecond))
            | (
                DataType::FixedSizeBinary(16),
                DataType::Interval(IntervalUnit::MonthDayNano)
            )
    )
}

/// A column as a field of this type has it; one that cannot be shown so stays as it is.
///
/// # Errors
/// None that is known.
pub(super) fn shown(array: ArrayRef, told: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == told || !may_be_shown(array.data_type(), told) {
        return Ok(array);
    }
    match told {
        DataType::Interval(_) => {
            let bytes = array.as_fixed_size_binary();
            let values: Buffer = bytes.values().slice_with_length(0, bytes.len() * INTERVAL_BYTES);
            // Arrow wants them where integers of 16 bytes may lie.
            let values = match (values.as_ptr() as usize).is_multiple_of(INTERVAL_BYTES) {
                true => values,
                false => Buffer::from_slice_ref(values.as_slice()),
            };
            let values = ScalarBuffer::new(values, 0, bytes.len());
            let nulls = bytes.nulls().cloned();
            Ok(Arc::new(IntervalMonthDayNanoArray::try_new(values, nulls)?))
        }
        told => cast(&array, told),
    }
}

/// A batch of rows of a table ([`super::batch_of`]) under another schema: with other metadata, or columns shown as other types of the same bytes.
///
/// # Errors
/// A schema of other columns.
pub fn shown_as(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| shown(Arc::clone(array), field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{FixedSizeBinaryBuilder, Int64Array, Time64MicrosecondArray};
    use arrow::datatypes::IntervalMonthDayNano;

    #[test]
    fn times_and_intervals() {
        let times: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let told = DataType::Time64(TimeUnit::Microsecond);
        let found = shown(Arc::clone(&times), &told).expect("times");
        let wanted: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![Some(7), None]));
        assert_eq!(&found, &wanted);

        let mut bytes = FixedSizeBinaryBuilder::new(16);
        let mut value = [0u8; 16];
        value[..4].copy_from_slice(&3i32.to_le_bytes());
        value[4..8].copy_from_slice(&(-2i32).to_le_bytes());
        value[8..].copy_from_slice(&5_000i64.to_le_bytes());
        bytes.append_null();
        bytes.append_value(value).expect("16 bytes");
        bytes.append_null();
        let bytes: ArrayRef = Arc::new(bytes.finish());
        let told = DataType::Interval(IntervalUnit::MonthDayNano);
        for array in [Arc::clone(&bytes), bytes.slice(1, 2)] {
            let found = shown(Arc::clone(&array), &told).expect("intervals");
            let found = found
                .as_any()
                .downcast_ref::<IntervalMonthDayNanoArray>()
                .expect("intervals");
            assert_eq!(found.len(), array.len());
            let values: Vec<Option<IntervalMonthDayNano>> = found.iter().flatten().map(Some).collect();
            assert_eq!(values, [Some(IntervalMonthDayNano::new(3, -2, 5_000))]);
            assert_eq!(found.null_count(), array.null_count());
        }
        // Others stay.
        assert_eq!(
            shown(Arc::clone(&times), &DataType::Utf8)
                .expect("as it is")
                .data_type(),
            &DataType::Int64
        );
        assert_eq!(shown(bytes.slice(0, 0), &told).expect("none").len(), 0);
    }
}
