//! Which aggregates are made in the caches: those of rows in no order, by numbers, with functions that are folds.

use super::{CorunAggregateExec, over};
use crate::join::{BuildMode, CorunJoinExec};
use crate::rule::{Relied, below_exchange, relied_on_child};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, InputOrderMode, replace_children_if_necessary,
};
use std::sync::Arc;

/// Puts [`CorunAggregateExec`] in the place of stock aggregates; `relied` is what those above rely on.
///
/// # Errors
/// Of the nodes that get other children.
pub(crate) fn replace(plan: &Arc<dyn ExecutionPlan>, relied: Relied) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(steps) = Steps::of(plan)
        && steps.are_possible(relied)
    {
        let input = replace(steps.first.input(), Relied::Nothing)?;
        return steps.in_cache(input, relied);
    }
    if let Some(join) = plan.downcast_ref::<CorunJoinExec>()
        && join.mode() == BuildMode::Shared
        && let [left, right] = plan.children().as_slice()
    {
        // One table is built from any partitions, and each of the other side's gives one.
        let children = vec![replace(left, Relied::Nothing)?, replace(right, relied)?];
        return replace_children_if_necessary(Arc::clone(plan), children);
    }
    let distributions = plan.input_distribution_requirements().into_per_child();
    let children = plan
        .children()
        .into_iter()
        .zip(distributions)
        .map(|(child, distribution)| replace(child, relied_on_child(plan, relied, &distribution)))
        .collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// A stock aggregate: the step that reads rows and the one that gives results, which may be the same.
struct Steps {
    first: Arc<AggregateExec>,
    last: Arc<AggregateExec>,
}

impl Steps {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Steps> {
        let last = aggregate(plan)?;
        let first = match last.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => Arc::clone(&last),
            AggregateMode::Final | AggregateMode::FinalPartitioned => {
                let first = aggregate(&below_exchange(last.input()))?;
                (*first.mode() == AggregateMode::Partial).then_some(first)?
            }
            _ => return None,
        };
        let plain = |step: &AggregateExec| {
            *step.input_order_mode() == InputOrderMode::Linear && step.limit_options().is_none()
        };
        let groups = first.group_expr();
        let possible = plain(&first)
            && plain(&last)
            && groups.is_single()
            && !groups.is_empty()
            && !first.input().boundedness().is_unbounded();
        possible.then_some(Steps { first, last })
    }

    fn is_one(&self) -> bool {
        Arc::ptr_eq(&self.first, &self.last)
    }

    /// Whether there is a node that gives what those above rely on.
    fn are_possible(&self, relied: Relied) -> bool {
        let partitions = self.last.properties().output_partitioning();
        let as_relied = relied == Relied::Nothing
            || partitions.partition_count() == 1
            || !self.is_one() && matches!(partitions, Partitioning::Hash(_, _));
        as_relied && CorunAggregateExec::new(&self.first, &self.last, 1).is_some()
    }

    /// The node over another input.
    fn in_cache(&self, input: Arc<dyn ExecutionPlan>, relied: Relied) -> Result<Arc<dyn ExecutionPlan>> {
        let first = over(&self.first, vec![input])?;
        let last = if self.is_one() { &first } else { &self.last };
        let partitions = self.last.properties().output_partitioning().clone();
        let Some(node) = CorunAggregateExec::new(&first, last, partitions.partition_count()) else {
            return internal_err!("an aggregate's input has other types than before");
        };
        let node: Arc<dyn ExecutionPlan> = Arc::new(node);
        if relied == Relied::Nothing || partitions.partition_count() == 1 {
            return Ok(node);
        }
        // Those above want each group where its hash says.
        Ok(Arc::new(RepartitionExec::try_new(node, partitions)?))
    }
}

fn aggregate(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<AggregateExec>> {
    let node = plan.downcast_ref::<AggregateExec>()?;
    Some(Arc::new(node.clone()))
}
