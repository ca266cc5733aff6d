//! UPDATE: rows are found and their new values computed by one SELECT, then locked, checked and written by number.

use super::checks::Checks;
use super::conflict::told;
use super::insert::null_refused;
use super::returning::{Chosen, Listed};
use super::rows::{self, FoundRow, Parts, Run, Values};
use super::select::{Assigned, Source, Target, push};
use super::{Change, ColumnDefault, PreparedChange, TableInfo, assign};
use crate::session::{ClientSession, StoreFailure, StoreTransaction, Zone};
use crate::users::WriteRight;
use arrow::array::RecordBatch;
use corun_store::{Lock, Rid, RowBuf, Transaction};
use corun_wire::error::{Refusal, code};
use corun_wire::values::Kind;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, UpdateTableFromKind, With};
use std::ops::Range;

/// A statement that is ready to run.
#[derive(Debug)]
pub(crate) struct Update {
    pub(super) target: Target,
    /// Its first column is the row number.
    pub(super) plan: LogicalPlan,
    pub(super) kinds: Vec<Kind>,
    pub(super) assigned: Vec<Assigned>,
    pub(super) checks: Checks,
    pub(super) returning: Option<Listed>,
}

/// Plans it, with the queries of a `WITH`.
pub(super) async fn prepare(
    session: &ClientSession,
    with: Option<&With>,
    of: &ast::Update,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    let unsupported = |what: &str| {
        Err(Refusal::new(
            code::SYNTAX_ERROR,
            format!("UPDATE takes no {what}"),
        ))
    };
    if !of.table.joins.is_empty() {
        return unsupported("join before SET");
    }
    if of.output.is_some() || of.or.is_some() || !of.order_by.is_empty() || of.limit.is_some() {
        return unsupported("OUTPUT, OR, ORDER BY or LIMIT");
    }
    let target = Target::of(session, &of.table.relation, WriteRight::Update)?;
    let mut of = of.clone();
    target.unqualify(&mut of);
    let others = match of.from {
        None => Vec::new(),
        Some(UpdateTableFromKind::AfterSet(from)) => from,
        Some(UpdateTableFromKind::BeforeSet(_)) => return unsupported("FROM before SET"),
    };
    let mut items = Vec::new();
    push(&mut items, target.rid());
    let assigned = target.assignments(&of.assignments, &mut items, text)?;
    let chosen = Chosen {
        with,
        others: &others,
        selection: of.selection,
        returning: of.returning.as_deref(),
    };
    let planned = chosen.plan(session, &target, &mut items, (types, text)).await?;
    let columns = session.columns(&planned.plan)?;
    target.check_types(&columns, &items, &assigned, (session.zone(), text))?;
    Ok(PreparedChange {
        parameters: planned.parameters,
        columns: planned.returning.as_ref().map(Listed::columns),
        change: Change::Update(Update {
            kinds: target.kinds(&columns, &assigned),
            checks: Checks::plan(session, &target.info).await?,
            plan: planned.plan,
            returning: planned.returning,
            target,
            assigned,
        }),
    })
}

impl Parts for Update {
    const VERB: &'static str = "UPDATE";
    type Found = Vec<FoundRow>;

    fn find(&self, batches: &[RecordBatch]) -> Result<Vec<FoundRow>, Refusal> {
        rows::numbers(batches, 0).map(rows::once)
    }

    fn count(found: &Vec<FoundRow>) -> usize {
        found.len()
    }

    fn returns(&self) -> bool {
        self.returning.is_some()
    }

    fn lock(
        &self,
        run: &Run<'_, Vec<FoundRow>>,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<Option<RecordBatch>>, StoreFailure> {
        let table = &self.target.info.table;
        let rids = run.found[part].iter().map(|found| found.rid);
        let is_newest = rows::lock_all(transaction, &run.snapshot, table, rids, Lock::Exclusive)?;
        Ok(is_newest.then_some(None))
    }

    fn write(
        &self,
        run: &Run<'_, Vec<FoundRow>>,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<RecordBatch>, StoreFailure> {
        let (info, zone) = (self.target.info.as_ref(), &run.zone);
        let found = &run.found[part];
        let values = Values::new(&run.plain, &self.kinds)?;
        let whole = !self.checks.is_empty() || self.returning.is_some();
        let mut new: Vec<(Rid, RowBuf)> = Vec::with_capacity(found.len());
        for &found in found {
            let mut row = match whole {
                true => current(transaction, info, found.rid)?,
                false => info.table.new_row(),
            };
            if assign_all(info, &self.assigned, &values, found, zone, &mut row)?.is_some() {
                row = current(transaction, info, found.rid)?;
                fill(info, &self.assigned, &values, found, zone, &mut row)?;
            }
            new.push((found.rid, row));
        }
        let mut returned = None;
        if whole {
            let batch = rows::batch_of_new(info, new.iter().map(|(rid, row)| (*rid, row)))?;
            self.checks.check(info, &batch, zone)?;
            if let Some(returning) = &self.returning {
                returned = Some(returning.rows(batch, run.batches, found, run.parameters)?);
            }
        }
        for (rid, new) in &new {
            write_assigned(transaction, info, *rid, &self.assigned, new, (whole, *zone))?;
        }
        Ok(returned)
    }
}

/// A copy of a row as it is now; it is locked.
pub(super) fn current(
    transaction: &Transaction<'_>,
    info: &TableInfo,
    rid: Rid,
) -> Result<RowBuf, StoreFailure> {
    let row = transaction.get(&info.table, rid, Lock::Exclusive)?;
    let row = row.ok_or_else(StoreTransaction::changed_meanwhile)?;
    Ok(rows::copy(info, row)?)
}

/// Puts the values of a row of a SELECT into a row of the store; the first column without NULL that was to be NULL stays as it is, and is
/// returned.
pub(super) fn assign_all(
    info: &TableInfo,
    assigned: &[Assigned],
    values: &Values<'_>,
    found: FoundRow,
    zone: &Zone,
    row: &mut RowBuf,
) -> Result<Option<usize>, StoreFailure> {
    let mut null = None;
    for Assigned { column: at, to } in assigned {
        let column = &info.columns[*at];
        let value = match (to, &column.default) {
            (Source::Item(item), _) => values.get(found, *item)?,
            (Source::Default, ColumnDefault::Constant(value)) => {
                row.set(*at, value.value())?;
                continue;
            }
            (Source::Default, _) => None,
        };
        match value.is_none() && !column.nullable {
            true => null = null.or(Some(*at)),
            false => assign(column, *at, value.as_ref(), zone, row)?,
        }
    }
    Ok(null)
}

/// The same into a row that has a value for all other columns.
///
/// # Errors
/// 23502, with the row.
pub(super) fn fill(
    info: &TableInfo,
    assigned: &[Assigned],
    values: &Values<'_>,
    found: FoundRow,
    zone: &Zone,
    row: &mut RowBuf,
) -> Result<(), StoreFailure> {
    match assign_all(info, assigned, values, found, zone, row)? {
        None => Ok(()),
        Some(at) => Err(null_refused(info, at, row.row(), &[at], *zone).into()),
    }
}

/// Writes the columns that are assigned, which `new` has; whether it has all others, too.
pub(super) fn write_assigned(
    transaction: &Transaction<'_>,
    info: &TableInfo,
    rid: Rid,
    assigned: &[Assigned],
    new: &RowBuf,
    (whole, zone): (bool, Zone),
) -> Result<(), StoreFailure> {
    let values = new.row();
    let written = transaction.update(&info.table, rid, |row| {
        let mut columns = assigned.iter().map(|assigned| assigned.column);
        columns.try_for_each(|column| row.set(column, values.value(column)))
    });
    written.map_err(|error| told(info, whole.then_some(values), zone, error))
}
