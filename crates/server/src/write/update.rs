//! UPDATE: rows are found and their new values computed by one SELECT, then locked, checked and written by number.

use super::checks::Checks;
use super::conflict::told;
use super::insert::null_refused;
use super::returning::Returning;
use super::rows::{self, FoundRow, Parts, RUNS_MAX, Values};
use super::select::{Assigned, Source, Target, alone, push, statement};
use super::{Change, Changed, ColumnDefault, PreparedChange, TableInfo, assign};
use crate::session::{ClientSession, StoreFailure, StoreTransaction, Zone};
use crate::users::WriteRight;
use arrow::array::{ArrayRef, RecordBatch};
use corun_store::{Lock, Rid, RowBuf, Snapshot, Transaction};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Kind, Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, SelectItem, TableWithJoins, UpdateTableFromKind, With};
use std::ops::Range;
use std::sync::Arc;

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

/// RETURNING of a statement that reads other relations, too.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) list: Returning,
    /// Where the columns of the other relations are in the SELECT.
    pub(super) carried: Vec<Option<usize>>,
}

impl Listed {
    /// Plans the list; what it asks of other relations goes to the end of the SELECT list.
    pub(super) async fn plan(
        session: &ClientSession,
        target: &Target,
        (with, others): (Option<&With>, &[TableWithJoins]),
        list: Option<&[SelectItem]>,
        items: &mut Vec<SelectItem>,
        (types, text): (&[Type], &str),
    ) -> Result<Option<Listed>, Refusal> {
        let Some(list) = list else {
            return Ok(None);
        };
        let mut from = vec![alone(target.relation())];
        from.extend_from_slice(others);
        let with = with.filter(|_| !others.is_empty()).cloned();
        let list = Returning::plan(session, with, list, from, types, text).await?;
        let carried = list.carry(target.info.columns.len() + 1, items);
        Ok(Some(Listed { list, carried }))
    }

    /// The result of rows that were found there.
    pub(super) fn rows(
        &self,
        rows: RecordBatch,
        batches: &[RecordBatch],
        found: &[FoundRow],
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch, Refusal> {
        let count = rows.num_rows();
        let columns = rows::widened(rows, batches, found, &self.carried)?;
        self.list.of_columns(&columns, count, parameters)
    }
}

/// The types of parameters that two parts of a statement know: the longer list.
pub(super) fn longer(one: Vec<Type>, other: Option<&[Type]>) -> Vec<Type> {
    match other {
        Some(other) if other.len() > one.len() => {
            let rest = other[one.len()..].iter().copied();
            one.into_iter().chain(rest).collect()
        }
        _ => one,
    }
}

/// The types that the client gives, as those of a list; `None` where it does not say all.
pub(super) fn given(types: &[u32]) -> Vec<Type> {
    let known = types
        .iter()
        .map_while(|oid| Type::of(*oid).filter(|_| *oid != 705));
    known.collect()
}

/// Plans it.
pub(super) async fn prepare(
    session: &ClientSession,
    of: &ast::Update,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    prepare_with(session, None, of, types, text).await
}

/// Plans it with the queries of a `WITH`.
pub(super) async fn prepare_with(
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
    let list = of.returning.as_deref();
    let before = items.len();
    let sources = (with, others.as_slice());
    let mut returning =
        Listed::plan(session, &target, sources, list, &mut items, (&given(types), text)).await?;
    let mut from = vec![alone(target.relation())];
    from.extend(others.iter().cloned());
    let select = super::select::select(items.clone(), from, of.selection);
    let planned = session
        .plan_ast(statement(with.cloned(), select), types, text)
        .await?;
    if let Some(first) = &returning
        && !first.list.parameters().is_empty()
        && !planned.parameters.is_empty()
    {
        let mut again = items[..before].to_vec();
        let types = (planned.parameters.as_slice(), text);
        returning = Listed::plan(session, &target, sources, list, &mut again, types).await?;
    }
    let columns = session.columns(&planned.plan)?;
    target.check_types(&columns, &items, &assigned)?;
    let update = Update {
        kinds: target.kinds(&columns, &assigned),
        checks: Checks::plan(session, &target.info).await?,
        plan: planned.plan,
        target,
        assigned,
        returning,
    };
    let listed = update.returning.as_ref();
    Ok(PreparedChange {
        parameters: longer(planned.parameters, listed.map(|listed| listed.list.parameters())),
        columns: listed.map(|listed| listed.list.columns()),
        change: Change::Update(update),
    })
}

impl Update {
    /// Runs it.
    pub(super) async fn run(
        &self,
        session: &mut ClientSession,
        parameters: &[ScalarValue],
    ) -> Result<Changed, Refusal> {
        for _ in 0..RUNS_MAX {
            let (batches, snapshot) = session.read_all(self.plan.clone(), parameters).await?;
            let found = rows::once(rows::numbers(&batches, 0)?);
            let mut returned = Vec::new();
            if !found.is_empty() {
                let work = Work {
                    update: self,
                    plain: rows::plain_batches(&batches)?,
                    batches: &batches,
                    found: &found,
                    snapshot,
                    parameters,
                    zone: session.zone(),
                };
                match rows::run_parts(session, &work).await? {
                    Some(rows) => returned = rows,
                    None => continue,
                }
            }
            return Ok(Changed {
                verb: "UPDATE",
                rows: found.len() as u64,
                returned: self.returning.as_ref().map(|_| returned),
            });
        }
        Err(StoreTransaction::changed_meanwhile())
    }
}

/// A run of the statement.
struct Work<'a> {
    update: &'a Update,
    batches: &'a [RecordBatch],
    plain: Vec<Vec<ArrayRef>>,
    found: &'a [FoundRow],
    snapshot: Arc<Snapshot>,
    parameters: &'a [ScalarValue],
    zone: Zone,
}

impl Parts for Work<'_> {
    fn count(&self) -> usize {
        self.found.len()
    }

    fn lock(
        &self,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<Option<RecordBatch>>, StoreFailure> {
        let table = &self.update.target.info.table;
        let rids = self.found[part].iter().map(|found| found.rid);
        let is_newest = rows::lock_all(transaction, &self.snapshot, table, rids, Lock::Exclusive)?;
        Ok(is_newest.then_some(None))
    }

    fn write(
        &self,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<RecordBatch>, StoreFailure> {
        let Update {
            target,
            assigned,
            checks,
            returning,
            ..
        } = self.update;
        let info = target.info.as_ref();
        let found = &self.found[part];
        let values = Values::new(&self.plain, &self.update.kinds)?;
        let whole = !checks.is_empty() || returning.is_some();
        let mut new: Vec<(Rid, RowBuf)> = Vec::with_capacity(found.len());
        for &found in found {
            let mut row = match whole {
                true => current(transaction, info, found.rid)?,
                false => info.table.new_row(),
            };
            if assign_all(info, assigned, &values, found, &self.zone, &mut row)?.is_some() {
                row = current(transaction, info, found.rid)?;
                fill(info, assigned, &values, found, &self.zone, &mut row)?;
            }
            new.push((found.rid, row));
        }
        let mut returned = None;
        if whole {
            let batch = rows::batch_of_new(info, new.iter().map(|(rid, row)| (*rid, row)))?;
            checks.check(info, &batch, &self.zone)?;
            if let Some(returning) = returning {
                returned = Some(returning.rows(batch, self.batches, found, self.parameters)?);
            }
        }
        for (rid, new) in &new {
            write_assigned(transaction, info, *rid, assigned, new, (whole, self.zone))?;
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
