//! Rows of the store as record batches with the columns of `"\u{1}t"`, and as texts; the rows that a SELECT has found, their locks, and the run of
//! a statement that changes them ([`run`]).

use super::types::declared_batch;
use super::{Changed, TableInfo};
use crate::session::{
    ClientSession, Isolation, StoreFailure, StoreTransaction, Zone, cells_as, plain_columns,
    refusal_of_datafusion,
};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::UInt32Type;
use corun_datafusion::store::batch_of;
use corun_store::{Lock, Rid, RowBuf, RowRef, Snapshot, Table, Transaction};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Format, Kind, Value};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Rows that are made, checked and written together: their memory is bounded, and the cost of a batch is spread. Unmeasured.
pub(super) const TOGETHER: usize = 4096;

/// How often a statement is run again because others have changed its rows. Its locks are kept from run to run, so that few are needed.
pub(super) const RUNS_MAX: usize = 100;

/// Bytes of a field that errors show; PostgreSQL's number.
const SHOWN_BYTES_MAX: usize = 64;

/// Rows with their numbers, as a scan of `"\u{1}t"` gives them.
///
/// # Errors
/// None that rows of the table can cause.
pub(super) fn batch(info: &TableInfo, rows: &[(Rid, RowRef<'_>)]) -> Result<RecordBatch, Refusal> {
    let batch = batch_of(&info.table, rows, true).map_err(|error| refusal_of_datafusion(&error, ""))?;
    declared_batch(info, &batch)
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

/// A row that a SELECT has found: its number, and where the SELECT's row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FoundRow {
    pub(super) rid: Rid,
    pub(super) batch: usize,
    pub(super) row: usize,
}

/// The row numbers in a column of batches, where there are any.
pub(super) fn numbers(batches: &[RecordBatch], column: usize) -> Result<Vec<FoundRow>, Refusal> {
    let mut found = Vec::new();
    for (batch, rows) in batches.iter().enumerate() {
        let Some(numbers) = rows.column(column).as_primitive_opt::<UInt32Type>() else {
            let what = "the column of row numbers has another type";
            return Err(Refusal::new(code::INTERNAL_ERROR, what));
        };
        let of_batch = (0..rows.num_rows()).filter(|row| numbers.is_valid(*row));
        found.extend(of_batch.map(|row| FoundRow {
            rid: Rid(numbers.value(row)),
            batch,
            row,
        }));
    }
    Ok(found)
}

/// Each row once, its first match counts; in the order of the numbers, in which all statements lock rows.
pub(super) fn once(mut found: Vec<FoundRow>) -> Vec<FoundRow> {
    let mut seen = HashSet::with_capacity(found.len());
    found.retain(|row| seen.insert(row.rid));
    found.sort_unstable();
    found
}

/// Locks rows. False: somebody has changed one of them since the snapshot.
///
/// # Errors
/// Locks that are not granted.
pub(super) fn lock_all(
    transaction: &Transaction<'_>,
    snapshot: &Snapshot,
    table: &Table,
    rids: impl Iterator<Item = Rid>,
    lock: Lock,
) -> Result<bool, StoreFailure> {
    for rid in rids {
        transaction.get(table, rid, lock)?;
        if !snapshot.is_newest(table, rid)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A run of a statement: what its SELECT has given, and when.
pub(super) struct Run<'a, F> {
    pub(super) found: F,
    pub(super) batches: &'a [RecordBatch],
    /// The same without encodings.
    pub(super) plain: Vec<Vec<ArrayRef>>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) parameters: &'a [ScalarValue],
    pub(super) zone: Zone,
}

/// What a statement does to the rows that it has found, part by part: others run between the parts, and a cancel ends it there.
pub(super) trait Parts: Sync {
    /// Of its tag.
    const VERB: &'static str;
    /// Rows that it has found.
    type Found: Send + Sync;

    /// The rows that are to be written.
    fn find(&self, batches: &[RecordBatch]) -> Result<Self::Found, Refusal>;

    /// How many they are.
    fn count(found: &Self::Found) -> usize;

    /// Whether it has a result.
    fn returns(&self) -> bool {
        false
    }

    /// Locks rows; `None`: others have changed one of them. What it returns stands in the result before what others return.
    fn lock(
        &self,
        run: &Run<'_, Self::Found>,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<Option<RecordBatch>>, StoreFailure>;

    /// Writes rows that are locked.
    fn write(
        &self,
        run: &Run<'_, Self::Found>,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<RecordBatch>, StoreFailure>;
}

/// Runs a statement whose SELECT this is: again, if others have changed its rows meanwhile.
///
/// # Errors
/// What speaks against a row; rows that others have changed, where the transaction's level does not let it look again.
pub(super) async fn run<P: Parts>(
    session: &mut ClientSession,
    statement: &P,
    plan: &LogicalPlan,
    parameters: &[ScalarValue],
) -> Result<Changed, Refusal> {
    for _ in 0..RUNS_MAX {
        let (batches, snapshot) = session.read_all(plan.clone(), parameters).await?;
        let run = Run {
            found: statement.find(&batches)?,
            plain: batches.iter().map(plain_columns).collect::<Result<_, _>>()?,
            batches: &batches,
            snapshot,
            parameters,
            zone: session.zone(),
        };
        let rows = P::count(&run.found);
        let returned = match rows {
            0 => Some(Vec::new()),
            _ => run_parts(session, statement, &run).await?,
        };
        if let Some(returned) = returned {
            return Ok(Changed {
                verb: P::VERB,
                rows: rows as u64,
                returned: statement.returns().then_some(returned),
            });
        }
    }
    Err(StoreTransaction::changed_meanwhile())
}

/// Locks all rows, then writes them. `None`: others have changed one of them since the snapshot, and the statement has to run again.
async fn run_parts<P: Parts>(
    session: &mut ClientSession,
    statement: &P,
    run: &Run<'_, P::Found>,
) -> Result<Option<Vec<RecordBatch>>, Refusal> {
    let count = P::count(&run.found);
    let store = session.store_transaction()?;
    let done = match count <= TOGETHER {
        true => store.run(|transaction| {
            let Some(first) = statement.lock(run, transaction, 0..count)? else {
                return Ok(None);
            };
            transaction.defer_foreign_keys()?;
            let second = statement.write(run, transaction, 0..count)?;
            transaction.check_foreign_keys()?;
            Ok(Some(first.into_iter().chain(second).collect()))
        })?,
        false => in_parts(store, statement, run).await?,
    };
    match done {
        None if store.isolation() != Isolation::ReadCommitted => Err(StoreTransaction::changed_meanwhile()),
        done => Ok(done),
    }
}

async fn in_parts<P: Parts>(
    store: &mut StoreTransaction,
    statement: &P,
    run: &Run<'_, P::Found>,
) -> Result<Option<Vec<RecordBatch>>, Refusal> {
    let count = P::count(&run.found);
    let parts = || {
        let begins = (0..count).step_by(TOGETHER);
        begins.map(|begin| begin..count.min(begin + TOGETHER))
    };
    let mut returned = Vec::new();
    for part in parts() {
        match store.run(|transaction| statement.lock(run, transaction, part.clone()))? {
            Some(rows) => returned.extend(rows),
            None => return Ok(None),
        }
        tokio::task::yield_now().await;
    }
    store.run(|transaction| Ok(transaction.defer_foreign_keys()?))?;
    for part in parts() {
        returned.extend(store.run(|transaction| statement.write(run, transaction, part.clone()))?);
        tokio::task::yield_now().await;
    }
    store.run(|transaction| Ok(transaction.check_foreign_keys()?))?;
    Ok(Some(returned))
}

/// What a SELECT has given, value by value.
pub(super) struct Values<'a>(Vec<Vec<Cell<'a>>>);

type Cell<'a> = Box<dyn Fn(usize) -> Result<Option<Value<'a>>, Refusal> + 'a>;

impl<'a> Values<'a> {
    /// `kinds` of the columns, as far as they are asked for.
    ///
    /// # Errors
    /// A type without values.
    pub(super) fn new(batches: &'a [Vec<ArrayRef>], kinds: &[Kind]) -> Result<Values<'a>, Refusal> {
        let of_batch = |columns: &'a Vec<ArrayRef>| {
            let cells = columns.iter().zip(kinds);
            cells
                .map(|(array, kind)| cells_as(array.as_ref(), *kind))
                .collect()
        };
        Ok(Values(
            batches.iter().map(of_batch).collect::<Result<_, Refusal>>()?,
        ))
    }

    /// The value of a column in a row.
    ///
    /// # Errors
    /// A value that PostgreSQL does not have.
    pub(super) fn get(&self, at: FoundRow, column: usize) -> Result<Option<Value<'a>>, Refusal> {
        match self.0.get(at.batch).and_then(|columns| columns.get(column)) {
            Some(cell) => cell(at.row),
            None => Ok(None),
        }
    }
}

/// Rows with further columns behind them, which stand in those rows of batches that `found` says: `None` is a column that nobody asks for.
///
/// # Errors
/// None that is known.
pub(super) fn widened(
    rows: RecordBatch,
    batches: &[RecordBatch],
    found: &[FoundRow],
    further: &[Option<usize>],
) -> Result<Vec<ArrayRef>, Refusal> {
    let mut columns = rows.columns().to_vec();
    let places: Vec<(usize, usize)> = found.iter().map(|found| (found.batch, found.row)).collect();
    for further in further {
        let column = match further {
            Some(at) if !batches.is_empty() => {
                let arrays: Vec<&dyn Array> =
                    batches.iter().map(|batch| batch.column(*at).as_ref()).collect();
                interleave(&arrays, &places).map_err(|error| refusal_of_datafusion(&error.into(), ""))?
            }
            _ => new_null_array(&arrow::datatypes::DataType::Null, rows.num_rows()),
        };
        columns.push(column);
    }
    Ok(columns)
}
