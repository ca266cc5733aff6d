//! Grouping sets, such as those of `ROLLUP`, from the groups of the finest set.
//!
//! ```text
//!   Aggregate, sets (a, b), (a), ()        Aggregate by a, b, set       merges states
//!       └─ rows                      =>        └─ CorunExpand           each group once for each set
//!                                                  └─ Aggregate by a, b          makes states
//!                                                      └─ rows
//! ```
//!
//! DataFusion looks each row up once for each set. Below the sets, rows are looked up once; the sets then have the finest groups to look up.
//! Where those are hardly fewer than the rows, the lower aggregate notices it and passes states of single rows on, as any aggregate of a first
//! step does.

use super::by_first_columns;
use super::expand::{self, CorunExpandExec};
use datafusion::error::Result;
use datafusion::logical_expr::Aggregate;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use std::sync::Arc;

/// The same partial aggregate over its finest groups, if it has grouping sets.
pub(super) fn from_finest(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let groups = aggregate.group_expr();
    if !expand::is_possible(groups) || groups.groups().len() < 2 {
        return Ok(None);
    }
    let finest = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(groups.expr().to_vec()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let sets = over_groups(Arc::new(finest), aggregate)?;
    let same = sets.schema() == aggregate.schema();
    Ok(same.then_some(sets as _))
}

/// The states of `aggregate`'s grouping sets from those of its finest groups, which `finest` gives: the groups' columns, then states.
pub(super) fn over_groups(
    finest: Arc<dyn ExecutionPlan>,
    aggregate: &AggregateExec,
) -> Result<Arc<AggregateExec>> {
    let sets = aggregate.group_expr();
    let names = sets.expr().iter().map(|(_, name)| name.as_str());
    let groups = by_first_columns(names.chain([Aggregate::INTERNAL_GROUPING_ID]));
    let (without, functions) = (sets.groups().to_vec(), aggregate.aggr_expr());
    let expanded = CorunExpandExec::of_states(finest, without, functions, &aggregate.input_schema())?;
    merged(groups, Arc::new(expanded), aggregate)
}

/// `aggregate`'s states by `groups`, from an input that has states behind the columns of the groups.
pub(super) fn merged(
    groups: PhysicalGroupBy,
    input: Arc<dyn ExecutionPlan>,
    aggregate: &AggregateExec,
) -> Result<Arc<AggregateExec>> {
    let functions = aggregate.aggr_expr().to_vec();
    let filters = vec![None; functions.len()];
    let mode = AggregateMode::PartialReduce;
    AggregateExec::try_new(mode, groups, functions, filters, input, aggregate.input_schema()).map(Arc::new)
}
