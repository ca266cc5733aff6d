//! Rows of the store as record batches with the columns of `"\u{1}t"`, and as texts.

use super::TableInfo;
use crate::session::{Zone, cells_as, refusal_of_datafusion};
use arrow::array::RecordBatch;
use corun_datafusion::store::batch_of;
use corun_store::{Rid, RowBuf, RowRef};
use corun_wire::error::Refusal;
use corun_wire::values::Format;

/// Rows that are made, checked and written together: their memory is bounded, and the cost of a batch is spread.
pub(super) const TOGETHER: usize = 4096;

/// Bytes of a field that errors show; PostgreSQL's number.
const SHOWN_BYTES_MAX: usize = 64;

/// Rows with their numbers, as a scan of `"\u{1}t"` gives them.
///
/// # Errors
/// None that rows of the table can cause.
pub(super) fn batch(info: &TableInfo, rows: &[(Rid, RowRef<'_>)]) -> Result<RecordBatch, Refusal> {
    batch_of(&info.table, rows, true).map_err(|error| refusal_of_datafusion(&error, ""))
}

/// The same of rows that are made and may not be in the table yet; those without a number have number 0.
///
/// # Errors
/// As there.
pub(super) fn batch_of_new<'r>(
    info: &TableInfo,
    rows: impl IntoIterator<Item = (Rid, &'r RowBuf)>,
) -> Result<RecordBatch, Refusal> {
    let rows: Vec<(Rid, RowRef<'_>)> = rows.into_iter().map(|(rid, row)| (rid, row.row())).collect();
    batch(info, &rows)
}

/// A copy of a row, to be changed.
///
/// # Errors
/// None that a row of the table can cause.
pub(super) fn copy(info: &TableInfo, row: RowRef<'_>) -> Result<RowBuf, corun_store::RowError> {
    let mut copy = info.table.new_row();
    for at in 0..row.columns() {
        copy.set(at, row.value(at))?;
    }
    Ok(copy)
}

/// A row of a batch as PostgreSQL shows it in errors: `(1, abc, null)`.
///
/// # Errors
/// Values that cannot be shown.
pub(super) fn shown(
    info: &TableInfo,
    rows: &RecordBatch,
    row: usize,
    zone: &Zone,
) -> Result<String, Refusal> {
    let mut shown = String::from("(");
    for (at, (column, array)) in info.columns.iter().zip(rows.columns()).enumerate() {
        if at > 0 {
            shown.push_str(", ");
        }
        let cells = cells_as(array.as_ref(), column.declared.of.kind)?;
        let Some(value) = cells(row)? else {
            shown.push_str("null");
            continue;
        };
        let mut text = Vec::new();
        value.write(&mut text, Format::Text, zone);
        let text = String::from_utf8_lossy(&text);
        match text.len() > SHOWN_BYTES_MAX {
            true => {
                let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
                shown.push_str(&text[..end]);
                shown.push_str("...");
            }
            false => shown.push_str(&text),
        }
    }
    shown.push(')');
    Ok(shown)
}
