//! Aggregates: in the caches ([`in_cache`]), and in more steps than DataFusion plans, so that what is dear is done for fewer rows.
//!
//! Upper steps merge states that a first step has made (`AggregateMode::PartialReduce`); a first step that does not make the rows fewer gives up
//! by itself.

mod before_joins;
pub(crate) mod expand;
mod grouping_sets;
pub(crate) mod in_cache;

use crate::options::{CorunOptions, JoinChoice};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

/// The rule. It runs where sides of joins have been chosen and nothing is distributed yet.
#[derive(Debug, Default)]
pub(crate) struct AggregateInSteps {
    grouping_sets_only: bool,
}

impl AggregateInSteps {
    /// The rule that leaves other groups where they are.
    pub(crate) fn of_grouping_sets() -> Self {
        AggregateInSteps {
            grouping_sets_only: true,
        }
    }
}

impl PhysicalOptimizerRule for AggregateInSteps {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = CorunOptions::of(config);
        if options.join == JoinChoice::Off {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(node));
            };
            if !may_be_split(aggregate) {
                return Ok(Transformed::no(node));
            }
            let mut steps = None;
            if options.group_before_joins && !self.grouping_sets_only {
                steps = before_joins::grouped_early(aggregate)?;
            }
            if steps.is_none() && options.finest_groups {
                steps = grouping_sets::from_finest(aggregate)?;
            }
            Ok(match steps {
                Some(steps) => Transformed::yes(steps),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "corun_aggregate_in_steps"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether this is a first step whose states add up in any order and any number of steps.
fn may_be_split(aggregate: &AggregateExec) -> bool {
    let states_add_up = |function: &Arc<AggregateFunctionExpr>| {
        !function.is_distinct() && !function.is_reversed() && function.order_bys().is_empty()
    };
    *aggregate.mode() == AggregateMode::Partial
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.limit_options().is_none()
        && aggregate.aggr_expr().iter().all(states_add_up)
}

/// Groups by the first columns of an input, which have these names.
fn by_first_columns<'n>(names: impl Iterator<Item = &'n str>) -> PhysicalGroupBy {
    let columns = names.enumerate().map(|(index, name)| {
        let column: PhysicalExprRef = Arc::new(Column::new(name, index));
        (column, name.to_owned())
    });
    PhysicalGroupBy::new_single(columns.collect())
}
