//! `IN` with a subquery where it matters whether it is false or NULL: below `NOT`, or negated, and not a condition of its own.
//!
//! DataFusion makes such a condition a mark of the row, true or false; conditions of their own are joins that know NULL.
//!
//! ```text
//!   x IN (S)  ─►  x IN (S) OR (NULL AND (x IS NULL AND EXISTS (S) OR EXISTS (S WHERE it IS NULL)))
//! ```

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlanBuilder, Operator, Subquery, not};
use std::sync::Arc;

/// The filter with NULL where PostgreSQL has it.
///
/// # Errors
/// None that is known.
pub(super) fn three_valued(filter: Filter) -> Result<Filter> {
    let has = filter
        .predicate
        .exists(|of| Ok(matches!(of, Expr::InSubquery(_))))?;
    if !has {
        return Ok(filter);
    }
    let conditions = split_conjunction_owned(filter.predicate.clone());
    let conditions = conditions.into_iter().map(|condition| match condition {
        Expr::InSubquery(_) => Ok(condition),
        Expr::Not(inner) if matches!(*inner, Expr::InSubquery(_)) => Ok(Expr::Not(inner)),
        other => marked(other),
    });
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    let predicate = conjunction(conditions).unwrap_or(filter.predicate);
    Filter::try_new(predicate, filter.input)
}

/// Below `AND` and `OR` alone, NULL chooses no row, as false does.
fn marked(of: Expr) -> Result<Expr> {
    match of {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(op, Operator::And | Operator::Or) => {
            Ok(Expr::BinaryExpr(BinaryExpr {
                left: Box::new(marked(*left)?),
                op,
                right: Box::new(marked(*right)?),
            }))
        }
        Expr::InSubquery(InSubquery { negated: false, .. }) => Ok(of),
        other => other.transform_up(whole).data(),
    }
}

fn whole(of: Expr) -> Result<Transformed<Expr>> {
    let Expr::InSubquery(InSubquery {
        expr,
        subquery,
        negated,
    }) = of
    else {
        return Ok(Transformed::no(of));
    };
    let column = Expr::Column(subquery.subquery.schema().columns().remove(0));
    let exists = |condition: Option<Expr>| -> Result<Expr> {
        let mut rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
        if let Some(condition) = condition {
            rows = rows.filter(condition)?;
        }
        // One is enough, where there is no row of the query around it to join with.
        if subquery.outer_ref_columns.is_empty() {
            rows = rows.limit(0, Some(1))?;
        }
        Ok(Expr::Exists(Exists {
            subquery: Subquery {
                subquery: Arc::new(rows.build()?),
                outer_ref_columns: subquery.outer_ref_columns.clone(),
                spans: subquery.spans.clone(),
            },
            negated: false,
        }))
    };
    let unknown = expr.as_ref().clone().is_null().and(exists(None)?);
    let unknown = unknown.or(exists(Some(column.is_null()))?);
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    let found = Expr::InSubquery(InSubquery::new(expr, subquery, false));
    let found = found.or(null.and(unknown));
    Ok(Transformed::yes(match negated {
        true => not(found),
        false => found,
    }))
}
