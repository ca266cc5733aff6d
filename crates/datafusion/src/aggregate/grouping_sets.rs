//! Grouping sets, such as those of `ROLLUP`, from the groups of the finest set.
//!
//! ```text
//!   Aggregate, sets (a, b), (a), ()        Aggregate, sets (a, b), (a), ()   merges states
//!       └─ rows                      =>        └─ Aggregate by a, b          makes states
//!                                                  └─ rows
//! ```
//!
//! DataFusion looks each row up once for each set. Below the sets, rows are looked up once; the sets then have the finest groups to look up.
//! Where those are hardly fewer than the rows, the lower aggregate notices it and passes states of single rows on, as any aggregate of a first
//! step does.

use crate::options::{CorunOptions, JoinChoice};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::logical_expr::Aggregate;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

/// Lets the grouping sets of a plan begin with their finest groups.
///
/// Not with a limited pool: what such sets spilled they could not read back, because DataFusion leaves the set's number out.
pub(crate) fn from_finest(
    plan: Arc<dyn ExecutionPlan>,
    options: &CorunOptions,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let limited = matches!(pool.memory_limit(), MemoryLimit::Finite(_));
    if limited || !options.finest_groups || options.join == JoinChoice::Off {
        return Ok(plan);
    }
    plan.transform_up(|node| {
        let aggregate = node.downcast_ref::<AggregateExec>();
        Ok(match aggregate.map(in_two_steps).transpose()?.flatten() {
            Some(steps) => Transformed::yes(steps),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// The same aggregate over its finest groups, if it has grouping sets and they contain all columns of one of them.
fn in_two_steps(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sets = aggregate.group_expr();
    let finest_is_asked_for = sets.groups().iter().any(|nulls| !nulls.contains(&true));
    let functions = aggregate.aggr_expr();
    let may = sets.groups().len() > 1
        && finest_is_asked_for
        && matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single)
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.limit_options().is_none()
        && functions.iter().all(|function| !function.is_distinct() && function.order_bys().is_empty());
    if !may {
        return Ok(None);
    }
    let step = |mode, groups, filters, input| {
        let raw = aggregate.input_schema();
        AggregateExec::try_new(mode, groups, functions.to_vec(), filters, input, raw).map(Arc::new)
    };
    let unfiltered = vec![None; functions.len()];
    let finest = step(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(sets.expr().to_vec()),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
    )?;
    let over_finest = sets.expr().iter().enumerate().map(|(index, (_, name))| {
        let column: PhysicalExprRef = Arc::new(Column::new(name, index));
        (column, name.clone())
    });
    let groups = PhysicalGroupBy::new(
        over_finest.collect(),
        sets.null_expr().to_vec(),
        sets.groups().to_vec(),
        sets.has_grouping_set(),
    );
    let merged = step(
        AggregateMode::PartialReduce,
        groups,
        unfiltered.clone(),
        with_room_for_number(finest, sets.expr().len())?,
    )?;
    let steps = match aggregate.mode() {
        AggregateMode::Single => step(AggregateMode::Final, sets.as_final(), unfiltered, merged)?,
        _ => merged,
    };
    let same = steps.schema() == aggregate.schema();
    Ok(same.then_some(steps as _))
}

/// States are looked for behind the groups' columns and the set's number, which the finest groups do not have.
fn with_room_for_number(finest: Arc<AggregateExec>, groups: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = finest.schema();
    let columns = schema.fields().iter().enumerate().map(|(index, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), index)),
        alias: field.name().clone(),
    });
    let mut columns: Vec<ProjectionExpr> = columns.collect();
    let number = ProjectionExpr {
        expr: lit(0_u8),
        alias: Aggregate::INTERNAL_GROUPING_ID.to_owned(),
    };
    columns.insert(groups, number);
    Ok(Arc::new(ProjectionExec::try_new(columns, finest)?))
}
