//! [`PlainChange`]: an `UPDATE` or `DELETE` of which nothing is asked but to change rows of one table, and perhaps to return them: without CHECK
//! constraints. [`PreparedChange::plain_lock`]: a `SELECT ... FOR UPDATE` of one table that waits.
//!
//! For the short path ([`crate::short`]), which finds the row itself. What it is not: run here.

use super::select::{Source, alone, select, statement};
use super::{Change, PreparedChange, TableInfo};
use corun_store::Lock;
use corun_wire::values::Kind;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Statement;
use std::sync::Arc;

/// See [`self`].
#[derive(Debug)]
pub(crate) struct PlainChange {
    pub(crate) info: Arc<TableInfo>,
    /// How the columns of the SELECT are taken; `None`: the row is deleted.
    pub(crate) kinds: Option<Vec<Kind>>,
    /// Columns of the table, and the columns of the SELECT that they get; `None`: the default.
    pub(crate) assigned: Vec<(usize, Option<usize>)>,
}

impl PlainChange {
    /// Of its tag.
    pub(crate) fn verb(&self) -> &'static str {
        match self.kinds {
            Some(_) => "UPDATE",
            None => "DELETE",
        }
    }
}

impl PreparedChange {
    /// The SELECT, whose first column is the row's number, and what is done with its rows; `None`: more than that.
    pub(crate) fn plain(&self) -> Option<(&LogicalPlan, PlainChange)> {
        match &self.change {
            Change::Update(update) if update.checks.is_empty() => {
                let assigned = update.assigned.iter().map(|assigned| match assigned.to {
                    Source::Item(item) => (assigned.column, Some(item)),
                    Source::Default => (assigned.column, None),
                });
                let change = PlainChange {
                    info: Arc::clone(&update.target.info),
                    kinds: Some(update.kinds.clone()),
                    assigned: assigned.collect(),
                };
                Some((&update.plan, change))
            }
            Change::Delete(delete) => {
                let change = PlainChange {
                    info: Arc::clone(&delete.target.info),
                    kinds: None,
                    assigned: Vec::new(),
                };
                Some((&delete.plan, change))
            }
            _ => None,
        }
    }

    /// The query for what a plain change returns, over the rows that it finds; `None`: it returns nothing, or that of other tables, too.
    pub(crate) fn returned(&self, of: &Statement) -> Option<Statement> {
        let (target, mut items, from, mut selection) = match (&self.change, of) {
            (Change::Update(update), Statement::Update(of)) => (
                &update.target,
                of.returning.clone()?,
                of.from.is_some(),
                of.selection.clone(),
            ),
            (Change::Delete(delete), Statement::Delete(of)) => (
                &delete.target,
                of.returning.clone()?,
                of.using.is_some(),
                of.selection.clone(),
            ),
            _ => return None,
        };
        if from {
            return None;
        }
        items.iter_mut().for_each(|item| target.unqualify(item));
        selection.iter_mut().for_each(|of| target.unqualify(of));
        Some(statement(
            None,
            select(items, vec![alone(target.relation())], selection),
        ))
    }

    /// The SELECT, the lock, and the columns of the SELECT that are its result.
    pub(crate) fn plain_lock(&self) -> Option<(&LogicalPlan, Lock, &[usize])> {
        match &self.change {
            Change::Lock(of) => of.plain(),
            _ => None,
        }
    }

    /// Whether it inserts values that need no planner, and returns none.
    pub(crate) fn inserts_values(&self) -> bool {
        matches!(&self.change, Change::Insert(insert) if self.columns.is_none() && insert.is_of_values())
    }
}
