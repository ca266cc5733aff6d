//! What is written differently in a statement before it is planned, once DataFusion has optimized it.

mod anti_joins;
mod conditions;
mod constant_groups;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use std::borrow::Cow;

/// The plan with conditions in the order of their cost, groups without their constants, and anti joins where outer joins ask for rows without
/// a partner.
pub(crate) fn rewritten(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        any |= match node {
            LogicalPlan::Filter(filter) => {
                anti_joins::is_anti(filter)
                    || conditions::ordered(&filter.predicate, filter.input.schema()).is_some()
            }
            LogicalPlan::Aggregate(aggregate) => constant_groups::has_some(aggregate),
            _ => false,
        };
        Ok(match any {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    if !any {
        return Ok(Cow::Borrowed(plan));
    }
    let rewritten = plan.clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => Ok(match constant_groups::without(&aggregate)? {
            Some(fewer) => Transformed::yes(fewer),
            None => Transformed::no(LogicalPlan::Aggregate(aggregate)),
        }),
        LogicalPlan::Filter(mut filter) => {
            if let Some(rows) = anti_joins::anti_join(&filter)? {
                return Ok(Transformed::yes(rows));
            }
            Ok(
                match conditions::ordered(&filter.predicate, filter.input.schema()) {
                    Some(predicate) => {
                        filter.predicate = predicate;
                        Transformed::yes(LogicalPlan::Filter(filter))
                    }
                    None => Transformed::no(LogicalPlan::Filter(filter)),
                },
            )
        }
        other => Ok(Transformed::no(other)),
    });
    rewritten.data().map(Cow::Owned)
}
