//! `LEFT JOIN ... WHERE key IS NULL` as the anti join that it is.

use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Whether rows pass `filter` only if they have no partner in the join below it: a key of the right side is NULL, which no partner's is.
pub(super) fn is_anti(filter: &Filter) -> bool {
    join_below(filter).is_some()
}

fn join_below(filter: &Filter) -> Option<(&Join, Vec<&Expr>)> {
    let LogicalPlan::Join(join) = filter.input.as_ref() else {
        return None;
    };
    if join.join_type != JoinType::Left || join.null_equality != NullEquality::NullEqualsNothing {
        return None;
    }
    let asks_for_none = |condition: &&Expr| match condition {
        Expr::IsNull(key) => matches!(**key, Expr::Column(_)) && join.on.iter().any(|(_, right)| right == key.as_ref()),
        _ => false,
    };
    let (asking, others): (Vec<&Expr>, _) =
        split_conjunction(&filter.predicate).into_iter().partition(asks_for_none);
    (!asking.is_empty()).then_some((join, others))
}

/// The rows of the left side without a partner, with NULLs as the right side's columns.
pub(super) fn anti_join(filter: &Filter) -> Result<Option<LogicalPlan>> {
    let Some((join, others)) = join_below(filter) else {
        return Ok(None);
    };
    let rows = Join::try_new(
        Arc::clone(&join.left),
        Arc::clone(&join.right),
        join.on.clone(),
        join.filter.clone(),
        JoinType::LeftAnti,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let left_columns = join.left.schema().fields().len();
    let columns = join.schema.iter().enumerate().map(|(index, (qualifier, field))| {
        if index < left_columns {
            return Ok(Expr::Column(Column::from((qualifier, field))));
        }
        let null = ScalarValue::try_from(field.data_type())?;
        Ok(lit(null).alias_qualified(qualifier.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let builder = LogicalPlanBuilder::from(LogicalPlan::Join(rows)).project(columns)?;
    let builder = match conjunction(others.into_iter().cloned()) {
        Some(others) => builder.filter(others)?,
        None => builder,
    };
    builder.build().map(Some)
}
