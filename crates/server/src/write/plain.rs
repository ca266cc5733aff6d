//! [`PlainChange`]: an `UPDATE` or `DELETE` of which nothing is asked but to change rows of one table: without CHECK constraints or RETURNING.
//!
//! For the short path ([`crate::short`]), which finds the row itself. What it is not: run here.

use super::select::Source;
use super::{Change, PreparedChange, TableInfo};
use corun_wire::values::Kind;
use datafusion::logical_expr::LogicalPlan;
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
            Change::Update(update) if update.checks.is_empty() && update.returning.is_none() => {
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
            Change::Delete(delete) if delete.returning.is_none() => {
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

    /// Whether it inserts values that need no planner, and returns none.
    pub(crate) fn inserts_values(&self) -> bool {
        matches!(&self.change, Change::Insert(insert) if self.columns.is_none() && insert.is_of_values())
    }
}
