//! The physical optimizer rule that puts corun's joins in place of the stock ones.
//!
//! It runs last, when DataFusion has chosen sides, pushed filters, projections and limits, and distributed the data. For
//! each `HashJoinExec` it decides how the table is built:
//!
//! - *shared* where nobody above relies on how the join's output is partitioned: the hash repartitioning of both inputs
//!   is then dropped;
//! - *partitioned* otherwise, over the inputs as they are.
//!
//! Where one side is an indexed table, a join through its index may take the place of the hash join ([`crate::index`]).
//! Then it adds prefilters ([`crate::prefilter`]), and groups rows in the caches where that is possible ([`crate::aggregate::in_cache`]). It changes
//! no other node.

use crate::aggregate::in_cache;
use crate::caches::index_probe;
use crate::index::{self, IndexJoinExec, IndexedSide};
use crate::join::{BuildMode, CorunJoinExec, emits_left_at_end};
use crate::options::{CorunOptions, JoinChoice};
use crate::prefilter;
use crate::share;
use crate::sides::{estimate, mode};
use crate::steering::Steering;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary,
};
use std::sync::Arc;

/// Replaces stock hash joins by [`CorunJoinExec`].
#[derive(Debug, Default)]
pub struct CacheConsciousJoins {
    node_by_node: bool,
}

impl CacheConsciousJoins {
    /// The rule for whole plans.
    pub fn new() -> Self {
        CacheConsciousJoins { node_by_node: false }
    }

    /// The rule for a part of a plan whose other parts run elsewhere: each node is replaced by one node with the same partitions, and none
    /// is added or taken away.
    pub fn keeping_partitions() -> Self {
        CacheConsciousJoins { node_by_node: true }
    }
}

impl PhysicalOptimizerRule for CacheConsciousJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = CorunOptions::of(config);
        if options.join == JoinChoice::Off {
            return Ok(plan);
        }
        if self.node_by_node {
            return replace_node_by_node(plan);
        }
        // Whoever runs the plan may count its partitions only.
        let plan = replace(&plan, Relied::Nothing, &options, config)?;
        let plan = match options.join_prefilter {
            true => prefilter::add(plan)?,
            false => plan,
        };
        let plan = match options.aggregate {
            JoinChoice::Off => plan,
            JoinChoice::Auto | JoinChoice::On => in_cache::rule::replace(&plan, Relied::Nothing)?,
        };
        share::show_parts(plan)
    }

    fn name(&self) -> &str {
        "corun_cache_conscious_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What the operators above rely on in a node's output partitioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relied {
    /// Nothing: any number of partitions with any rows will do.
    Nothing,
    /// Which rows are in which partition, or how many partitions there are.
    Partitions,
}

fn replace(
    plan: &Arc<dyn ExecutionPlan>,
    relied: Relied,
    options: &CorunOptions,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && is_replaceable(join)
    {
        let chosen = match Steering::of(config, join).unwrap_or(options.index_join) {
            JoinChoice::Off => None,
            JoinChoice::Auto => index::choose(join, relied, false, config)?,
            JoinChoice::On => index::choose(join, relied, true, config)?,
        };
        return match chosen {
            Some(side) => replace_by_index_join(join, side, relied, options, config),
            None => replace_join(join, relied, options, config),
        };
    }
    let distributions = plan.input_distribution_requirements().into_per_child();
    let children = plan
        .children()
        .into_iter()
        .zip(distributions)
        .map(|(child, distribution)| {
            let relied = relied_on_child(plan, relied, &distribution);
            replace(child, relied, options, config)
        })
        .collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// What `plan` and those above it rely on in the partitioning of a child it requires `distribution` of.
pub(crate) fn relied_on_child(
    plan: &Arc<dyn ExecutionPlan>,
    relied: Relied,
    distribution: &Distribution,
) -> Relied {
    if !matches!(distribution, Distribution::UnspecifiedDistribution) {
        // A single partition is made by a coalescing node below, which is asked in its turn.
        return Relied::Partitions;
    }
    if plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<SortPreservingMergeExec>()
    {
        return Relied::Nothing;
    }
    let passes_on = plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<SortExec>()
        || plan.is::<prefilter::CorunPrefilterExec>()
        || plan.name() == "CooperativeExec"
        || plan.name() == "CoalesceBatchesExec";
    let partial_aggregate = plan.name() == "AggregateExec";
    if passes_on || partial_aggregate {
        relied
    } else {
        Relied::Partitions
    }
}

/// Each join by one over the same inputs.
fn replace_node_by_node(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(join) = node
            .downcast_ref::<HashJoinExec>()
            .filter(|join| is_replaceable(join))
        else {
            return Ok(Transformed::no(node));
        };
        let mode = match join.partition_mode() {
            PartitionMode::Partitioned => BuildMode::Partitioned,
            _ => BuildMode::Shared,
        };
        let join = CorunJoinExec::try_new(join, Arc::clone(join.left()), Arc::clone(join.right()), mode)?;
        Ok(Transformed::yes(Arc::new(join.named_in_metrics())))
    })
    .data()
}

fn is_replaceable(join: &HashJoinExec) -> bool {
    let (left, right) = (join.left().schema(), join.right().schema());
    let same_types = join
        .on()
        .iter()
        .all(|(l, r)| match (l.data_type(&left), r.data_type(&right)) {
            (Ok(l), Ok(r)) => l == r,
            _ => false,
        });
    let bounded = !join.left().boundedness().is_unbounded() && !join.right().boundedness().is_unbounded();
    same_types && bounded && *join.partition_mode() != PartitionMode::Auto
}

fn replace_join(
    join: &HashJoinExec,
    relied: Relied,
    options: &CorunOptions,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let partitioned = *join.partition_mode() == PartitionMode::Partitioned;
    let several = join.right().output_partitioning().partition_count() > 1;
    // What one stream emits of the build side at the end should be little; of a full join nothing is gained by it, whose keys are not
    // looked up early.
    let emits_little = || {
        let is_small = || {
            estimate(join.left()).is_some_and(|left| mode(left.rows, config) == PartitionMode::CollectLeft)
        };
        !emits_left_at_end(*join.join_type()) || *join.join_type() != JoinType::Full && is_small()
    };
    let share = if partitioned {
        options.join_shared_build && (!several || (relied == Relied::Nothing && emits_little()))
    } else {
        true
    };
    if !share {
        let left = replace(join.left(), Relied::Partitions, options, config)?;
        let right = replace(join.right(), Relied::Partitions, options, config)?;
        return Ok(Arc::new(CorunJoinExec::try_new(
            join,
            left,
            right,
            BuildMode::Partitioned,
        )?));
    }
    let below_left = below_exchange(join.left());
    let left = replace(&below_left, Relied::Nothing, options, config)?;
    // A collected build's probe side already has the partitions that those above know, and so has a single one they rely on:
    // below its exchange there may be several.
    let right = if partitioned && relied == Relied::Nothing {
        let wanted = join.right().output_partitioning().partition_count();
        spread(
            replace(&below_exchange(join.right()), Relied::Nothing, options, config)?,
            wanted,
        )?
    } else {
        replace(join.right(), relied, options, config)?
    };
    Ok(Arc::new(CorunJoinExec::try_new(
        join,
        left,
        right,
        BuildMode::Shared,
    )?))
}

/// The index join that stands for `join`. The outer side's exchange only served the hash join, unless somebody above
/// relies on the partitions it makes.
fn replace_by_index_join(
    join: &HashJoinExec,
    side: IndexedSide,
    relied: Relied,
    options: &CorunOptions,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let outer = match side.inner {
        JoinSide::Left => join.right(),
        _ => join.left(),
    };
    let lookup = index_probe(
        config,
        side.index.tree.bytes(),
        side.index.tree.levels(),
        side.access.bytes(),
    );
    let (outer, mode) = if relied == Relied::Nothing {
        let below = below_exchange(outer);
        let many = estimate(&below).is_some_and(|rows| rows.rows > config.execution.batch_size.get() as f64);
        let mut outer = replace(&below, Relied::Nothing, options, config)?;
        if many {
            outer = spread(outer, join.right().output_partitioning().partition_count())?;
        }
        (outer, PartitionMode::CollectLeft)
    } else {
        (replace(outer, relied, options, config)?, *join.partition_mode())
    };
    Ok(Arc::new(IndexJoinExec::try_new(join, side, outer, mode, lookup)?))
}

/// The plan over at least `partitions` partitions: the exchange that was dropped may have been what spread a single file
/// over the threads.
fn spread(plan: Arc<dyn ExecutionPlan>, partitions: usize) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.output_partitioning().partition_count() >= partitions || plan.output_ordering().is_some() {
        return Ok(plan);
    }
    Ok(Arc::new(RepartitionExec::try_new(
        plan,
        Partitioning::RoundRobinBatch(partitions),
    )?))
}

/// The input of the exchange that only served the operator above, or the plan itself.
pub(crate) fn below_exchange(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if let Some(repartition) = plan.downcast_ref::<RepartitionExec>()
        && matches!(repartition.partitioning(), Partitioning::Hash(_, _))
        && !repartition.preserve_order()
        && repartition.fetch().is_none()
    {
        return Arc::clone(repartition.input());
    }
    if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>()
        && coalesce.fetch().is_none()
    {
        return Arc::clone(coalesce.input());
    }
    Arc::clone(plan)
}
