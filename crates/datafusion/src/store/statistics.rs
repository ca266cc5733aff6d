//! What DataFusion's optimizer is told about a scan: rows, bytes, smallest and largest values.
//!
//! Only what a definition says is exact (no NULLs in a column that takes none). The rest is about right: the store counts rows
//! as they are now, not as the snapshot sees them.

use super::columns::NUMBER;
use super::types::{arrow_type, scalar};
use arrow::datatypes::SchemaRef;
use corun_store::{Direction, Index, RowRef, Snapshot, Table, TableDef, Type};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

/// Row numbers looked at to learn how long texts are.
const SAMPLE: u32 = 128;
/// Bytes of the view of a text.
const VIEW_BYTES: usize = 16;

/// Statistics of a scan of these columns that gives `rows` rows; of the whole table when `bounds`.
pub fn statistics(
    table: &Table,
    moment: &Snapshot,
    schema: &SchemaRef,
    columns: &[usize],
    rows: usize,
    bounds: bool,
) -> Statistics {
    let definition = table.definition();
    let indexes = table.indexes();
    let mut statistics = Statistics::new_unknown(schema);
    statistics.num_rows = Precision::Inexact(rows);
    let widths = widths(table, moment, &definition, columns);
    statistics.total_byte_size = Precision::Inexact(rows * widths.iter().sum::<usize>());
    let columns = columns.iter().zip(schema.fields());
    for (((&column, field), width), of_column) in columns.zip(widths).zip(&mut statistics.column_statistics) {
        of_column.byte_size = Precision::Inexact(rows * width);
        if column == NUMBER {
            of_column.null_count = Precision::Exact(0);
            of_column.distinct_count = Precision::Inexact(rows);
            let last = table.rid_end().saturating_sub(1);
            of_column.min_value = Precision::Inexact(ScalarValue::UInt32(Some(0)));
            of_column.max_value = Precision::Inexact(ScalarValue::UInt32(Some(last)));
            continue;
        }
        if !definition.columns[column].nullable {
            of_column.null_count = Precision::Exact(0);
        }
        for index in indexes.iter().filter(|index| index.columns()[0] == column) {
            if index.is_unique() && index.columns().len() == 1 {
                of_column.distinct_count = Precision::Inexact(rows);
            }
            let data_type = definition.columns[column].data_type;
            // Not where it is shown as another type.
            if bounds && *field.data_type() == arrow_type(data_type) {
                find_bounds(of_column, index, moment, data_type);
            }
        }
    }
    statistics
}

/// Sets the smallest and the largest value from the ends of an index that begins with the column.
fn find_bounds(statistics: &mut ColumnStatistics, index: &Index, moment: &Snapshot, data_type: Type) {
    // An index orders these otherwise than SQL.
    if data_type.is_float() || matches!(data_type, Type::FixedText { .. }) {
        return;
    }
    let end = |range, direction| -> Option<ScalarValue> {
        let found = moment.scan(index, &range, direction).ok()?.next()?;
        scalar(found.row.value(index.columns()[0]), data_type)
    };
    // NULLs come first, and are no smallest value.
    let Ok(values) = index.between(&[], std::ops::Bound::Unbounded, std::ops::Bound::Unbounded) else {
        return;
    };
    if let Some(value) = end(values.clone(), Direction::Ascending) {
        statistics.min_value = Precision::Inexact(value);
    }
    if let Some(value) = end(values, Direction::Descending) {
        statistics.max_value = Precision::Inexact(value);
    }
}

/// Bytes of a field of each column in a batch, about.
fn widths(table: &Table, moment: &Snapshot, definition: &TableDef, columns: &[usize]) -> Vec<usize> {
    let fixed = |data_type: Type| match data_type {
        Type::Text { .. } | Type::FixedText { .. } | Type::Bytes { .. } => None,
        other => arrow_type(other)
            .primitive_width()
            .or_else(|| other.fixed_bytes()),
    };
    let fixed: Vec<Option<usize>> = columns
        .iter()
        .map(|&column| match column {
            NUMBER => Some(size_of::<u32>()),
            column => fixed(definition.columns[column].data_type),
        })
        .collect();
    if fixed.iter().all(Option::is_some) {
        return fixed.into_iter().flatten().collect();
    }
    let sample: Vec<RowRef<'_>> = match moment.rows(table, 0..SAMPLE) {
        Ok(rows) => rows.map(|found| found.row).collect(),
        Err(_) => Vec::new(),
    };
    let average = |column: usize| {
        let bytes: usize = sample.iter().map(|row| row.bytes(column).len()).sum();
        VIEW_BYTES + bytes / sample.len().max(1)
    };
    let width = |(&column, fixed): (&usize, Option<usize>)| fixed.unwrap_or_else(|| average(column));
    columns.iter().zip(fixed).map(width).collect()
}
