//! DELETE: rows are found by one SELECT, then locked and deleted by number.

use super::returning::{Chosen, Listed};
use super::rows::{self, FoundRow, Parts, Run};
use super::select::{Target, push};
use super::{Change, PreparedChange};
use crate::session::{ClientSession, StoreFailure, StoreTransaction};
use crate::users::WriteRight;
use arrow::array::RecordBatch;
use corun_store::{Lock, Transaction};
use corun_wire::error::{Refusal, code};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, FromTable, With};
use std::ops::Range;

/// A statement that is ready to run.
#[derive(Debug)]
pub(crate) struct Delete {
    pub(super) target: Target,
    /// Its first column is the row number.
    pub(super) plan: LogicalPlan,
    pub(super) returning: Option<Listed>,
}

/// Plans it, with the queries of a `WITH`.
pub(super) async fn prepare(
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
    let chosen = Chosen {
        with,
        others: &others,
        selection: of.selection,
        returning: of.returning.as_deref(),
    };
    let planned = chosen.plan(session, &target, &mut items, (types, text)).await?;
    Ok(PreparedChange {
        parameters: planned.parameters,
        columns: planned.returning.as_ref().map(Listed::columns),
        change: Change::Delete(Delete {
            target,
            plan: planned.plan,
            returning: planned.returning,
        }),
    })
}

impl Parts for Delete {
    const VERB: &'static str = "DELETE";
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

    /// The result is made here, before any row is deleted: that may delete others, whose foreign keys refer to it.
    fn lock(
        &self,
        run: &Run<'_, Vec<FoundRow>>,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<Option<RecordBatch>>, StoreFailure> {
        let info = self.target.info.as_ref();
        let found = &run.found[part];
        let rids = found.iter().map(|found| found.rid);
        if !rows::lock_all(transaction, &run.snapshot, &info.table, rids, Lock::Exclusive)? {
            return Ok(None);
        }
        let Some(returning) = &self.returning else {
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
            run.batches,
            found,
            run.parameters,
        )?)))
    }

    fn write(
        &self,
        run: &Run<'_, Vec<FoundRow>>,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<RecordBatch>, StoreFailure> {
        for found in &run.found[part] {
            transaction.delete(&self.target.info.table, found.rid)?;
        }
        Ok(None)
    }
}
