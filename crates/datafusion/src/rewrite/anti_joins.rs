//! `LEFT JOIN ... WHERE key IS NULL` as the anti join that it is.

use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, lit};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// A filter over an outer join, with nothing but a projection between them.
struct OverJoin<'a> {
    join: &'a Join,
    projection: Option<&'a Projection>,
    /// Conditions that do not ask for rows without a partner.
    others: Vec<&'a Expr>,
}

/// The join below `filter`, if rows pass only without a partner in it: a key of the right side is NULL, which no partner's is.
fn join_below(filter: &Filter) -> Option<OverJoin<'_>> {
    let (join, projection) = match filter.input.as_ref() {
        LogicalPlan::Join(join) => (join, None),
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Join(join) => (join, Some(projection)),
            _ => return None,
        },
        _ => return None,
    };
    if join.join_type != JoinType::Left || join.null_equality != NullEquality::NullEqualsNothing {
        return None;
    }
    // The column of the join that a column here is.
    let source = |column: &Column| match projection {
        Some(projection) => {
            let index = projection.schema.maybe_index_of_column(column)?;
            match projection.expr[index].clone().unalias() {
                Expr::Column(source) => Some(source),
                _ => None,
            }
        }
        None => Some(column.clone()),
    };
    let is_key = |column: &Column| {
        let mut keys = join.on.iter();
        keys.any(|(_, right)| matches!(right, Expr::Column(key) if key == column))
    };
    let asks_for_none = |condition: &&Expr| match condition {
        Expr::IsNull(key) => match key.as_ref() {
            Expr::Column(column) => source(column).is_some_and(|source| is_key(&source)),
            _ => false,
        },
        _ => false,
    };
    let (asking, others): (Vec<&Expr>, _) = split_conjunction(&filter.predicate)
        .into_iter()
        .partition(asks_for_none);
    (!asking.is_empty()).then_some(OverJoin {
        join,
        projection,
        others,
    })
}

/// The rows of the left side without a partner, with NULLs as the right side's columns.
pub(super) fn anti_join(filter: &Filter) -> Result<Option<LogicalPlan>> {
    let Some(OverJoin {
        join,
        projection,
        others,
    }) = join_below(filter)
    else {
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
    let mut plan = LogicalPlanBuilder::from(LogicalPlan::Join(rows)).project(columns)?;
    if let Some(projection) = projection {
        plan = plan.project(projection.expr.clone())?;
    }
    if let Some(others) = conjunction(others.into_iter().cloned()) {
        plan = plan.filter(others)?;
    }
    plan.build().map(Some)
}
