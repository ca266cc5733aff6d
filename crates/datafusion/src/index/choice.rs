//! [`choose`]: may a hash join be a join through an index, and should it?
//!
//! May it: see [`side`]. Should it: [`corun_model::operators::index_join`] compares estimated times; without estimates the hash join stays.
//! This module builds no plan.

use super::access::Access;
use super::join::{IndexedSide, kind};
use crate::CorunOptions;
use crate::caches;
use crate::rule::Relied;
use crate::sides::estimate;
use corun_model::operators::index_join::{Inputs, gain_ns};
use datafusion::common::{JoinSide, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// The index `join` should be done through; `None` when the hash join stays. With `always`, any possible one will do.
///
/// # Errors
/// Errors of rewriting expressions.
pub fn choose(
    join: &HashJoinExec,
    relied: Relied,
    always: bool,
    config: &ConfigOptions,
) -> Result<Option<IndexedSide>> {
    let mut best: Option<(f64, IndexedSide)> = None;
    for inner in [JoinSide::Left, JoinSide::Right] {
        let Some(side) = side(join, relied, inner)? else {
            continue;
        };
        let gain = match inputs(join, &side, config) {
            Some(inputs) => gain_ns(&inputs),
            None if always => f64::MIN,
            None => continue,
        };
        if (always || gain > 0.0) && best.as_ref().is_none_or(|(other, _)| gain > *other) {
            best = Some((gain, side));
        }
    }
    Ok(best.map(|(_, side)| side))
}

/// The join through an index of its side `inner`; `None` when that is impossible:
///
/// - rows of that side are preserved, or NULL keys match something;
/// - there is more than filters, plain projections and exchanges between the join and an indexed scan;
/// - no equality compares an indexed column itself with a key of its type, or another one compares more than a column;
/// - somebody above relies on the order or the partitions of that side.
fn side(join: &HashJoinExec, relied: Relied, inner: JoinSide) -> Result<Option<IndexedSide>> {
    let Some(kind) = kind(*join.join_type(), inner) else {
        return Ok(None);
    };
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let collected = *join.partition_mode() == PartitionMode::CollectLeft;
    // A single partition holds all rows whichever side it follows.
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
    let single = partitions(join.left()) == 1 && partitions(join.right()) == 1;
    let relied_on_right = (relied == Relied::Partitions && collected && !single)
        || join.properties().output_ordering().is_some();
    if inner == JoinSide::Right && relied_on_right {
        return Ok(None);
    }
    let plan = match inner {
        JoinSide::Left => join.left(),
        _ => join.right(),
    };
    let Some(access) = Access::of(plan)? else {
        return Ok(None);
    };
    let mut index = None;
    let mut other_keys = Vec::new();
    for (left, right) in join.on() {
        let (indexed, outer) = match inner {
            JoinSide::Left => (left, right),
            _ => (right, left),
        };
        let Some(column) = access.table_column(indexed) else {
            return Ok(None);
        };
        let outer: PhysicalExprRef = Arc::clone(outer);
        match access.indexed.index_of(column) {
            Some(found) if index.is_none() => index = Some((Arc::clone(found), outer)),
            _ => other_keys.push((column, outer)),
        }
    }
    Ok(index.map(|(index, key)| IndexedSide {
        inner,
        kind,
        access,
        index,
        key,
        other_keys,
    }))
}

/// What the decision rests on; `None` where some input's rows are unknown.
fn inputs(join: &HashJoinExec, side: &IndexedSide, config: &ConfigOptions) -> Option<Inputs> {
    let (build, probe) = (estimate(join.left())?, estimate(join.right())?);
    let options = CorunOptions::of(config);
    Some(Inputs {
        build_rows: build.rows,
        probe_rows: probe.rows,
        indexed_builds: side.inner == JoinSide::Left,
        table_rows: side.access.indexed.rows() as f64,
        tree_bytes: side.index.tree.bytes(),
        l2_bytes: caches::l2_bytes(&options),
        llc_bytes: caches::llc_bytes(&options),
    })
}
