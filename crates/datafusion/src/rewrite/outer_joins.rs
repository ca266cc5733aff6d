//! Outer joins whose rows without a partner a join above drops: they are inner joins.
//!
//! ```sql
//! sales LEFT JOIN returns ON ... JOIN reasons ON r_reason = reason   -- no reason is NULL: only sales with a return are left
//! ```
//!
//! DataFusion sees it where a filter stands above, not where a join does.

use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use std::sync::Arc;

/// `join` over inputs without the rows that its keys drop because they are NULL, if fewer outer joins are left then.
pub(super) fn fewer(join: &Join) -> Result<Option<LogicalPlan>> {
    if join.null_equality != NullEquality::NullEqualsNothing || join.null_aware {
        return Ok(None);
    }
    let (drops_left, drops_right) = match join.join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Left | JoinType::LeftAnti => (false, true),
        JoinType::Right | JoinType::RightAnti => (true, false),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => (false, false),
    };
    let keys = |drops: bool, of: fn(&(Expr, Expr)) -> &Expr| -> Vec<Column> {
        let keys = join.on.iter().filter(|_| drops).map(of);
        keys.filter_map(null_with).cloned().collect()
    };
    let left = without_nulls(&join.left, &keys(drops_left, |(left, _)| left))?;
    let right = without_nulls(&join.right, &keys(drops_right, |(_, right)| right))?;
    if left.is_none() && right.is_none() {
        return Ok(None);
    }
    let mut join = join.clone();
    join.left = left.map_or(join.left, Arc::new);
    join.right = right.map_or(join.right, Arc::new);
    Ok(Some(LogicalPlan::Join(join)))
}

/// The column that makes `expr` NULL where it is NULL.
fn null_with(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => null_with(&alias.expr),
        Expr::Cast(cast) => null_with(&cast.expr),
        _ => None,
    }
}

/// What gives the rows of `plan` of which none of the columns is NULL, and perhaps some others, by fewer outer joins.
fn without_nulls(plan: &LogicalPlan, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let (input, columns): (_, Vec<Column>) = match plan {
        LogicalPlan::Projection(projection) => {
            let source = |column| {
                let index = projection.schema.maybe_index_of_column(column)?;
                null_with(&projection.expr[index]).cloned()
            };
            (&projection.input, columns.iter().filter_map(source).collect())
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let source = |column| {
                let index = alias.schema.maybe_index_of_column(column)?;
                Some(Column::from(alias.input.schema().qualified_field(index)))
            };
            (&alias.input, columns.iter().filter_map(source).collect())
        }
        LogicalPlan::Filter(filter) => (&filter.input, columns.to_vec()),
        LogicalPlan::Join(join) => return join_without_nulls(join, columns),
        _ => return Ok(None),
    };
    let input = without_nulls(input, &columns)?;
    let over = |input| plan.with_new_exprs(plan.expressions(), vec![input]);
    input.map(over).transpose()
}

fn join_without_nulls(join: &Join, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    let of = |input: &LogicalPlan| -> Vec<Column> {
        let here = columns.iter().filter(|column| input.schema().has_column(column));
        here.cloned().collect()
    };
    // A semi or anti join has one side's columns, which may be called like the other's.
    let (left_columns, right_columns) = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (of(&join.left), Vec::new()),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (Vec::new(), of(&join.right)),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            (of(&join.left), of(&join.right))
        }
    };
    let dropped = (!left_columns.is_empty(), !right_columns.is_empty());
    let join_type = match (join.join_type, dropped) {
        (JoinType::Left, (_, true)) | (JoinType::Right, (true, _)) | (JoinType::Full, (true, true)) => {
            JoinType::Inner
        }
        (JoinType::Full, (true, false)) => JoinType::Left,
        (JoinType::Full, (false, true)) => JoinType::Right,
        (unchanged, _) => unchanged,
    };
    // Rows dropped before a join are dropped after it, but for a side whose rows without a partner come back as NULLs.
    let left = without_nulls(&join.left, &left_columns)?;
    let right = without_nulls(&join.right, &right_columns)?;
    if join_type == join.join_type && left.is_none() && right.is_none() {
        return Ok(None);
    }
    let join = Join::try_new(
        left.map_or_else(|| Arc::clone(&join.left), Arc::new),
        right.map_or_else(|| Arc::clone(&join.right), Arc::new),
        join.on.clone(),
        join.filter.clone(),
        join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    // As an inner join its own keys drop more.
    let rows = fewer(&join)?;
    Ok(Some(rows.unwrap_or(LogicalPlan::Join(join))))
}
