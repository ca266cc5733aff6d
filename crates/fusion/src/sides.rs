//! The rule that puts the clearly smaller input on the build side where DataFusion could not tell.
//!
//! DataFusion's `JoinSelection` compares statistics, which a join over in-memory tables does not have: a chain of joins
//! then builds its table from the fact table. This rule runs right after it, estimates rows with
//! [`model::cardinality`], and swaps inner joins whose build side is far larger. It never reorders joins.

use crate::options::{CorunOptions, JoinChoice};
use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use model::cardinality::{Cardinality, swap_pays};
use std::sync::Arc;

/// Swaps the inputs of inner hash joins that would build on the far larger one.
#[derive(Debug, Default)]
pub struct SmallerBuildSide {}

impl SmallerBuildSide {
    /// The rule; it has no state.
    pub fn new() -> Self {
        SmallerBuildSide {}
    }
}

impl PhysicalOptimizerRule for SmallerBuildSide {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = CorunOptions::of(config);
        if options.join == JoinChoice::Off || !options.join_build_side || !config.optimizer.join_reordering {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            if *join.join_type() != JoinType::Inner || *join.partition_mode() == PartitionMode::Auto {
                return Ok(Transformed::no(node));
            }
            match (estimate(join.left()), estimate(join.right())) {
                (Some(build), Some(probe)) if swap_pays(build, probe) => {
                    let collect_rows = config.optimizer.hash_join_single_partition_threshold_rows as f64;
                    let mode = if probe.rows <= collect_rows {
                        PartitionMode::CollectLeft
                    } else {
                        PartitionMode::Partitioned
                    };
                    Ok(Transformed::yes(join.swap_inputs(mode)?))
                }
                _ => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "corun_smaller_build_side"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rows a plan will give; `None` where nothing is known about some input.
fn estimate(plan: &Arc<dyn ExecutionPlan>) -> Option<Cardinality> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let (left, right) = (estimate(join.left())?, estimate(join.right())?);
        return Some(match join.join_type() {
            JoinType::LeftSemi => left.semi_joined(right),
            JoinType::RightSemi => right.semi_joined(left),
            JoinType::LeftAnti | JoinType::LeftMark => left,
            JoinType::RightAnti | JoinType::RightMark => right,
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => left.joined(right),
        });
    }
    let children = plan.children();
    if children.is_empty() {
        let statistics = StatisticsContext::new()
            .compute(plan.as_ref(), &StatisticsArgs::new())
            .ok()?;
        return statistics
            .num_rows
            .get_value()
            .map(|rows| Cardinality::of_table(*rows as f64));
    }
    let passes_rows_on = matches!(
        plan.name(),
        "ProjectionExec"
            | "RepartitionExec"
            | "CoalescePartitionsExec"
            | "CoalesceBatchesExec"
            | "CooperativeExec"
    );
    match children.as_slice() {
        [input] if plan.is::<FilterExec>() => Some(estimate(input)?.filtered()),
        [input] if passes_rows_on && plan.fetch().is_none() => estimate(input),
        _ => None,
    }
}
