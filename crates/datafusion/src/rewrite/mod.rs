//! What is written differently in a statement before it is planned, once DataFusion has optimized it.

mod anti_joins;
mod conditions;
mod constant_groups;
mod outer_joins;
mod scalar_aggregates;

use crate::options::{CorunOptions, JoinChoice};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use std::borrow::Cow;
use std::sync::Arc;

/// Plans what a statement is rewritten to.
#[derive(Debug)]
pub(crate) struct RewritingPlanner(pub(crate) Arc<dyn QueryPlanner + Send + Sync>);

#[async_trait]
impl QueryPlanner for RewritingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = CorunOptions::of(session.config_options());
        let plan = match options.rewrite && options.join != JoinChoice::Off {
            true => rewritten(plan, false)?,
            false => Cow::Borrowed(plan),
        };
        self.0.create_physical_plan(&plan, session).await
    }
}

/// The plan with conditions in the order of their cost, groups without their constants, and no outer joins where others do: anti joins for
/// rows without a partner, inner joins where those are dropped. Where equal parts run once (`share_parts`), aggregates without groups over
/// one table are made one part.
pub(crate) fn rewritten(plan: &LogicalPlan, share_parts: bool) -> Result<Cow<'_, LogicalPlan>> {
    let together = match share_parts {
        true => scalar_aggregates::together(plan)?,
        false => None,
    };
    match together {
        Some(plan) => Ok(Cow::Owned(node_by_node(&plan)?.into_owned())),
        None => node_by_node(plan),
    }
}

/// The plan with each node written as it costs least.
fn node_by_node(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        any = cheaper(node)?.is_some();
        Ok(match any {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    if !any {
        return Ok(Cow::Borrowed(plan));
    }
    let rewritten = plan.clone().transform_up_with_subqueries(|node| {
        Ok(match cheaper(&node)? {
            Some(cheaper) => Transformed::yes(cheaper),
            None => Transformed::no(node),
        })
    });
    rewritten.data().map(Cow::Owned)
}

/// What gives the rows of a node at less cost, if that is known.
fn cheaper(node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match node {
        LogicalPlan::Aggregate(aggregate) => constant_groups::without(aggregate),
        LogicalPlan::Filter(filter) => {
            if let Some(rows) = anti_joins::anti_join(filter)? {
                return Ok(Some(rows));
            }
            let ordered = conditions::ordered(&filter.predicate, filter.input.schema());
            Ok(ordered.map(|predicate| {
                let mut filter = filter.clone();
                filter.predicate = predicate;
                LogicalPlan::Filter(filter)
            }))
        }
        LogicalPlan::Join(join) => outer_joins::fewer(join),
        _ => Ok(None),
    }
}

/// Whether an expression has the same value for a row wherever it is evaluated.
pub(crate) fn is_plain(expr: &Expr) -> Result<bool> {
    let odd = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::Placeholder(_)
        ))
    })?;
    Ok(!odd && !expr.is_volatile())
}
