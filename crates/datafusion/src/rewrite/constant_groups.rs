//! Groups without the columns that a condition below makes constant.
//!
//! `WHERE d_year = 2000 GROUP BY d_year, item` groups by `item` alone: less to hash and to compare, and DataFusion does not take the constant
//! for an order that its aggregates then keep to at the cost of their speed.

use datafusion::common::{Column, DFSchema, ExprSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator, lit,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

type Constants = Vec<(Column, ScalarValue)>;

/// Columns of the groups that are constant; none if all are, because without any there is a group even of no rows.
fn some(aggregate: &Aggregate) -> Constants {
    let groups = &aggregate.group_expr;
    // Reading through a plan for columns costs; most groups have nothing to find.
    if groups.len() < 2 || matches!(groups.as_slice(), [Expr::GroupingSet(_), ..]) {
        return Constants::new();
    }
    let mut known = constants(&aggregate.input);
    known.retain(|(column, _)| groups.iter().any(|group| is_column(group, column)));
    let left = groups
        .iter()
        .filter(|group| !known.iter().any(|(column, _)| is_column(group, column)));
    match left.count() {
        0 => Constants::new(),
        _ => known,
    }
}

fn is_column(expression: &Expr, column: &Column) -> bool {
    matches!(expression, Expr::Column(other) if other == column)
}

/// The same groups with the constants put in afterwards.
pub(super) fn without(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let known = some(aggregate);
    if known.is_empty() {
        return Ok(None);
    }
    let value = |expression: &Expr| known.iter().find(|(column, _)| is_column(expression, column));
    let groups = aggregate.group_expr.iter().filter(|group| value(group).is_none());
    let fewer = Aggregate::try_new(
        Arc::clone(&aggregate.input),
        groups.cloned().collect(),
        aggregate.aggr_expr.clone(),
    )?;
    let columns = aggregate
        .schema
        .iter()
        .enumerate()
        .map(
            |(index, (qualifier, field))| match aggregate.group_expr.get(index).and_then(value) {
                Some((_, value)) => lit(value.clone()).alias_qualified(qualifier.cloned(), field.name()),
                None => Expr::Column(Column::from((qualifier, field))),
            },
        );
    let columns: Vec<Expr> = columns.collect();
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(fewer)).project(columns)?;
    plan.build().map(Some)
}

/// Columns that have one value in all rows of a plan.
fn constants(plan: &LogicalPlan) -> Constants {
    match plan {
        LogicalPlan::Filter(filter) => {
            let mut known = constants(&filter.input);
            let schema = filter.input.schema();
            known.extend(
                split_conjunction(&filter.predicate)
                    .into_iter()
                    .filter_map(|condition| equality(condition, schema)),
            );
            known
        }
        LogicalPlan::Join(join) => of_join(join),
        LogicalPlan::Projection(projection) => {
            let below = constants(&projection.input);
            let outputs = projection.schema.iter().zip(&projection.expr);
            let known = outputs.filter_map(|((qualifier, field), expression)| {
                let value = match expression.clone().unalias() {
                    Expr::Column(column) => below.iter().find(|(known, _)| *known == column)?.1.clone(),
                    _ => return None,
                };
                Some((Column::from((qualifier, field)), value))
            });
            known.collect()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let below = constants(&alias.input);
            let columns = alias
                .input
                .schema()
                .columns()
                .into_iter()
                .zip(alias.schema.columns());
            let known = columns.filter_map(|(inner, outer)| {
                let (_, value) = below.iter().find(|(column, _)| *column == inner)?;
                Some((outer, value.clone()))
            });
            known.collect()
        }
        LogicalPlan::Sort(sort) => constants(&sort.input),
        LogicalPlan::Limit(limit) => constants(&limit.input),
        _ => Constants::new(),
    }
}

fn of_join(join: &Join) -> Constants {
    let (left, right) = match join.join_type {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
        JoinType::Full => (false, false),
    };
    let mut known = Constants::new();
    for (keeps, input) in [(left, &join.left), (right, &join.right)] {
        if keeps {
            known.extend(constants(input));
        }
    }
    known
}

/// The column that a condition makes constant. Values of one type that are equal are the same but for floats.
fn equality(condition: &Expr, schema: &DFSchema) -> Option<(Column, ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return None;
    };
    let (column, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) | (Expr::Literal(value, _), Expr::Column(column)) => {
            (column, value)
        }
        _ => return None,
    };
    let field = schema.field_from_column(column).ok()?;
    let same =
        *field.data_type() == value.data_type() && !value.data_type().is_floating() && !value.is_null();
    same.then(|| (column.clone(), value.clone()))
}
