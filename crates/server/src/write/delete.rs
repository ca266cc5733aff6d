//! DELETE: rows are found by one SELECT, then locked and deleted by number.

use super::rows::{self, FoundRow, Parts, RUNS_MAX};
use super::select::{Target, alone, push, statement};
use super::update::{Listed, given, longer};
use super::{Change, Changed, PreparedChange};
use crate::session::{ClientSession, StoreFailure, StoreTransaction};
use crate::users::WriteRight;
use arrow::array::RecordBatch;
use corun_store::{Lock, Snapshot, Transaction};
use corun_wire::error::{Refusal, code};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, FromTable, With};
use std::ops::Range;
use std::sync::Arc;

/// A statement that is ready to run.
#[derive(Debug)]
pub(crate) struct Delete {
    pub(super) target: Target,
    /// Its first column is the row number.
    pub(super) plan: LogicalPlan,
    pub(super) returning: Option<Listed>,
}

/// Plans it.
pub(super) async fn prepare(
    session: &ClientSession,
    of: &ast::Delete,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    prepare_with(session, None, of, types, text).await
}

/// Plans it with the queries of a `WITH`.
pub(super) async fn prepare_with(
    session: &ClientSession,
    with: Option<&With>,
    of: &ast::Delete,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    let wrong = |what: &str| Refusal::new(code::SYNTAX_ERROR, what);
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &of.from;
    let [table] = from.as_slice() else {
        return Err(wrong("DELETE takes one table; others go to USING"));
    };
    if !table.joins.is_empty() || !of.tables.is_empty() {
        return Err(wrong("DELETE takes one table; others go to USING"));
    }
    if of.output.is_some() || !of.order_by.is_empty() || of.limit.is_some() {
        return Err(wrong("DELETE takes no OUTPUT, ORDER BY or LIMIT"));
    }
    let target = Target::of(session, &table.relation, WriteRight::Delete)?;
    let mut of = of.clone();
    target.unqualify(&mut of);
    let others = of.using.unwrap_or_default();
    let mut items = Vec::new();
    push(&mut items, target.rid());
    let list = of.returning.as_deref();
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
        let mut again = items[..1].to_vec();
        let types = (planned.parameters.as_slice(), text);
        returning = Listed::plan(session, &target, sources, list, &mut again, types).await?;
    }
    let listed = returning.as_ref();
    Ok(PreparedChange {
        parameters: longer(planned.parameters, listed.map(|listed| listed.list.parameters())),
        columns: listed.map(|listed| listed.list.columns()),
        change: Change::Delete(Delete {
            target,
            plan: planned.plan,
            returning,
        }),
    })
}

impl Delete {
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
                    delete: self,
                    batches: &batches,
                    found: &found,
                    snapshot,
                    parameters,
                };
                match rows::run_parts(session, &work).await? {
                    Some(rows) => returned = rows,
                    None => continue,
                }
            }
            return Ok(Changed {
                verb: "DELETE",
                rows: found.len() as u64,
                returned: self.returning.as_ref().map(|_| returned),
            });
        }
        Err(StoreTransaction::changed_meanwhile())
    }
}

/// A run of the statement.
struct Work<'a> {
    delete: &'a Delete,
    batches: &'a [RecordBatch],
    found: &'a [FoundRow],
    snapshot: Arc<Snapshot>,
    parameters: &'a [ScalarValue],
}

impl Parts for Work<'_> {
    fn count(&self) -> usize {
        self.found.len()
    }

    /// The result is made here, before any row is deleted: that may delete others, whose foreign keys refer to it.
    fn lock(
        &self,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<Option<RecordBatch>>, StoreFailure> {
        let info = self.delete.target.info.as_ref();
        let found = &self.found[part];
        let rids = found.iter().map(|found| found.rid);
        if !rows::lock_all(transaction, &self.snapshot, &info.table, rids, Lock::Exclusive)? {
            return Ok(None);
        }
        let Some(returning) = &self.delete.returning else {
            return Ok(Some(None));
        };
        let mut old = Vec::with_capacity(found.len());
        for found in found {
            let row = transaction.get(&info.table, found.rid, Lock::Exclusive)?;
            old.push((found.rid, row.ok_or_else(StoreTransaction::changed_meanwhile)?));
        }
        let old = rows::batch(info, &old)?;
        Ok(Some(Some(returning.rows(
            old,
            self.batches,
            found,
            self.parameters,
        )?)))
    }

    fn write(
        &self,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<RecordBatch>, StoreFailure> {
        for found in &self.found[part] {
            transaction.delete(&self.delete.target.info.table, found.rid)?;
        }
        Ok(None)
    }
}
