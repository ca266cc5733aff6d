//! A table whose rows are written again in other columns, by who has it locked exclusively: for what rows cannot be read through.
//!
//! ```text
//! gone: rows as the transaction sees them ──columns found by name──► came: the same row numbers, the same indexes, one version each
//! ```
//!
//! Snapshots go on with the table that is gone. The log has the definition alone: who replays it writes the same rows again. What it is not: a
//! change of rows, of which each would be a version over the one before.

use std::sync::Arc;

use crate::definitions::make_index;
use crate::error::{Result, StoreError};
use crate::index::Made;
use crate::row::{Layout, RowBuf, RowError, RowRef};
use crate::schema::TableDef;
use crate::slots::Rid;
use crate::store::StoreInner;
use crate::table::{Table, TableInner};
use crate::ts::Ts;
use crate::version::VersionPtr;

/// Rows between two looks at the memory.
const ROWS_BETWEEN: u32 = 1024;

/// The table of a definition that was checked with the rows of `gone`, as of the commit `filled`.
pub(crate) fn rewrite(
    store: &StoreInner,
    gone: &Table,
    id: u32,
    definition: &TableDef,
    filled: Ts,
) -> Result<Table> {
    {
        let mut catalog = store.catalog.write();
        catalog.next_id = catalog.next_id.max(id);
    }
    let inner = TableInner::new(id, definition, store.options.workers, Arc::clone(&store.memory));
    let came = Table::new(Arc::new(inner));
    let old = gone.0.layouts.newest().definitions();
    let from: Vec<Option<usize>> = (definition.columns.iter())
        .map(|column| old.iter().position(|old| old.name == column.name))
        .collect();
    for rid in 0..gone.rid_end() {
        if rid % ROWS_BETWEEN == 0 {
            came.0.measure();
            store.memory.check()?;
        }
        let version = gone.0.slots.find(Rid(rid)).and_then(|slot| slot.newest());
        // SAFETY: the caller has the table locked exclusively, so that nobody replaces what is there.
        let Some(row) = version.and_then(|version| unsafe { gone.0.layouts.row(version) }) else {
            continue;
        };
        let row = convert(row, came.0.layouts.newest(), &from)?;
        let bytes = row.row().encoded();
        let layout = came.0.layouts.newest().number();
        let version = VersionPtr::new(None, None, Some(bytes), layout, 0)
            .ok_or(StoreError::OutOfMemory { bytes: bytes.len() })?;
        version.commit(filled);
        let slot = came
            .0
            .slots
            .claim(Rid(rid))
            .ok_or_else(|| StoreError::TooManyRows {
                table: definition.name.clone(),
            })?;
        slot.set(Some(version));
        // At once: who drops the table takes off what is there.
        came.0.row_bytes.add(0, version.bytes() as i64);
        store.memory.add(version.bytes() as i64);
    }
    came.0.rows.add(0, came.0.slots.sweep() as i64);
    for index in &definition.indexes {
        let made = make_index(&came, index, Made::Within(filled))?;
        let added = came.0.add_index(made);
        debug_assert!(added.is_some(), "a new table has room for the indexes of another");
    }
    Ok(came)
}

/// A row in other columns: `from` says which of its columns each of these is.
pub(crate) fn convert(
    row: RowRef<'_>,
    layout: &Arc<Layout>,
    from: &[Option<usize>],
) -> Result<RowBuf, RowError> {
    let mut converted = RowBuf::new(layout);
    for (column, from) in from.iter().enumerate() {
        if let Some(from) = from {
            converted.set(column, row.value(*from))?;
        }
    }
    Ok(converted)
}
