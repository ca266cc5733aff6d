//! Where the keys of a join can be looked up: the paths from its probe side down to the inputs that the keys come from.
//!
//! A row may be dropped below if every row of the result that depends on it has the same keys, or NULL keys, at the join whose
//! table is looked up: that join drops those rows anyway. So keys pass
//!
//! - any join, to the side whose columns they are. Where that side's rows may be replaced by NULLs, only plain columns pass: a
//!   NULL key finds nothing, the value of an expression over NULLs may;
//! - an equality of a join, from one side's column to the other's: all rows that lose their partner have the same key;
//! - aggregates, if they are columns of the groups, and windows, if they are columns of each partition: all of a group goes;
//! - projections, filters, sorts, unions and exchanges.
//!
//! Anything with a limit ends a path. This module decides only; nothing here runs.

use super::Lookup;
use crate::index::IndexJoinExec;
use crate::join::{CorunJoinExec, output_sources};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use std::sync::Arc;

/// A node's child, by the node's address in the plan as it was and the child's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) parent: usize,
    pub(super) child: usize,
}

/// A place where keys can be looked up.
pub(super) struct Place {
    pub(super) edge: Edge,
    pub(super) lookup: Lookup,
    /// Whether rows dropped here are spared an operator that costs more than a lookup: a join, an aggregate, a sort.
    pub(super) spares: bool,
}

/// What names a node while its plan is borrowed.
pub(super) fn address(node: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(node).cast::<()>() as usize
}

/// The lowest places below `top`'s probe side where `lookup`, whose keys are over that side's columns, can happen.
pub(super) fn places(top: &Arc<dyn ExecutionPlan>, join: &CorunJoinExec, lookup: Lookup) -> Vec<Place> {
    let mut places = Vec::new();
    let keys = lookup.keys.clone();
    let edge = Edge {
        parent: address(top),
        child: 1,
    };
    let highest = Place {
        edge,
        lookup,
        spares: false,
    };
    follow(join.stock().right(), keys, highest, &mut places);
    places
}

/// One step down: the child, the keys over its columns, and what the step means for the place.
struct Step {
    child: usize,
    keys: Vec<PhysicalExprRef>,
    passes: Passes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passes {
    /// An operator that is cheaper than a lookup: the place stays above it.
    Cheap,
    /// An exchange or a union: a row dropped below is not moved.
    Exchange,
    /// An operator that dropped rows are spared.
    Operator,
}

fn follow(node: &Arc<dyn ExecutionPlan>, keys: Vec<PhysicalExprRef>, place: Place, places: &mut Vec<Place>) {
    let steps = match node.fetch() {
        Some(_) => Vec::new(),
        None => steps(node, &keys),
    };
    if steps.is_empty() {
        places.push(place);
        return;
    }
    for step in steps {
        let below = match step.passes {
            Passes::Cheap => Place {
                lookup: place.lookup.clone(),
                ..place
            },
            Passes::Exchange | Passes::Operator => Place {
                edge: Edge {
                    parent: address(node),
                    child: step.child,
                },
                lookup: place.lookup.over(step.keys.clone()),
                spares: place.spares || step.passes == Passes::Operator,
            },
        };
        follow(node.children()[step.child], step.keys, below, places);
    }
}

fn steps(node: &Arc<dyn ExecutionPlan>, keys: &[PhysicalExprRef]) -> Vec<Step> {
    if let Some(join) = JoinColumns::of(node) {
        return join.steps(keys);
    }
    let step = |keys: Option<Vec<PhysicalExprRef>>, passes| {
        let step = |keys| Step {
            child: 0,
            keys,
            passes,
        };
        keys.map(step).into_iter().collect()
    };
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let below = substitute(keys, |column| {
            let source = projection.expr().get(column.index())?;
            Some(Arc::clone(&source.expr))
        });
        step(below, Passes::Cheap)
    } else if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let projection = filter.projection().clone();
        let below = substitute(keys, |column| match projection.as_ref() {
            Some(projection) => Some(renumbered(column, *projection.get(column.index())?)),
            None => Some(Arc::new(column.clone())),
        });
        step(below, Passes::Cheap)
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let whole_groups = groups.is_single() && aggregate.limit_options().is_none();
        let below = substitute(keys, |column| {
            let (group, _) = groups.expr().get(column.index()).filter(|_| whole_groups)?;
            Some(Arc::clone(group))
        });
        step(below, Passes::Operator)
    } else if let Some(windows) = windows(node) {
        let partitions = |column: &Column| {
            windows.iter().all(|window| {
                let mut by = window.partition_by().iter();
                by.any(|key| key.downcast_ref::<Column>() == Some(column))
            })
        };
        let below = keys
            .iter()
            .all(|key| collect_columns(key).iter().all(partitions))
            .then(|| keys.to_vec());
        step(below, Passes::Operator)
    } else if node.is::<SortExec>() || node.is::<SortPreservingMergeExec>() {
        step(Some(keys.to_vec()), Passes::Operator)
    } else if let Some(exchange) = node.downcast_ref::<RepartitionExec>() {
        // What is dealt out in turns is dealt out so that more threads share the work above.
        let passes = match exchange.partitioning() {
            Partitioning::Hash(_, _) => Passes::Exchange,
            _ => Passes::Cheap,
        };
        step(Some(keys.to_vec()), passes)
    } else if node.is::<CoalescePartitionsExec>() {
        step(Some(keys.to_vec()), Passes::Exchange)
    } else if node.is::<UnionExec>() || node.is::<InterleaveExec>() {
        let every = (0..node.children().len()).map(|child| Step {
            child,
            keys: keys.to_vec(),
            passes: Passes::Exchange,
        });
        every.collect()
    } else if matches!(node.name(), "CooperativeExec" | "CoalesceBatchesExec") {
        step(Some(keys.to_vec()), Passes::Cheap)
    } else {
        Vec::new()
    }
}

fn windows(node: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn WindowExpr>]> {
    if let Some(node) = node.downcast_ref::<WindowAggExec>() {
        return Some(node.window_expr());
    }
    Some(node.downcast_ref::<BoundedWindowAggExec>()?.window_expr())
}

/// Where the columns of a join's output come from.
struct JoinColumns {
    join_type: JoinType,
    /// Output columns by side and index.
    sources: Vec<ColumnIndex>,
    /// Columns of both sides that the join makes equal.
    equal: Vec<(Column, Column)>,
    null_aware: bool,
    /// Children, with their sides.
    children: Vec<JoinSide>,
}

impl JoinColumns {
    fn of(node: &Arc<dyn ExecutionPlan>) -> Option<JoinColumns> {
        if let Some(join) = node.downcast_ref::<CorunJoinExec>() {
            return Some(JoinColumns::of_hash_join(
                join.stock(),
                vec![JoinSide::Left, JoinSide::Right],
            ));
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            return Some(JoinColumns::of_hash_join(
                join,
                vec![JoinSide::Left, JoinSide::Right],
            ));
        }
        if let Some(join) = node.downcast_ref::<IndexJoinExec>() {
            let outer = match join.inner() {
                JoinSide::Left => JoinSide::Right,
                _ => JoinSide::Left,
            };
            return Some(JoinColumns::of_hash_join(join.stock(), vec![outer]));
        }
        let (left, right, join_type, projection) =
            if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                (
                    join.left(),
                    join.right(),
                    *join.join_type(),
                    join.projection().as_deref(),
                )
            } else {
                let join = node.downcast_ref::<CrossJoinExec>()?;
                (join.left(), join.right(), JoinType::Inner, None)
            };
        let (_, mut sources) = build_join_schema(&left.schema(), &right.schema(), &join_type);
        if let Some(projection) = projection {
            sources = projection.iter().map(|index| sources[*index].clone()).collect();
        }
        Some(JoinColumns {
            join_type,
            sources,
            equal: Vec::new(),
            null_aware: false,
            children: vec![JoinSide::Left, JoinSide::Right],
        })
    }

    fn of_hash_join(join: &HashJoinExec, children: Vec<JoinSide>) -> JoinColumns {
        let (left, right) = (join.left().schema(), join.right().schema());
        let equal = join.on().iter().filter_map(|(l, r)| {
            let (l, r) = (l.downcast_ref::<Column>()?, r.downcast_ref::<Column>()?);
            let data_type = left.field(l.index()).data_type();
            // Joins differ in which floats they call equal.
            let same = data_type == right.field(r.index()).data_type() && !data_type.is_floating();
            same.then(|| (l.clone(), r.clone()))
        });
        JoinColumns {
            join_type: *join.join_type(),
            sources: output_sources(join),
            equal: equal.collect(),
            null_aware: join.null_aware,
            children,
        }
    }

    /// Whether rows of this side may be replaced by NULLs.
    fn null_extends(&self, side: JoinSide) -> bool {
        match side {
            JoinSide::Left => matches!(self.join_type, JoinType::Right | JoinType::Full),
            _ => matches!(self.join_type, JoinType::Left | JoinType::Full),
        }
    }

    /// The column of `side` that output column `column` is, or is equal to in all rows that join; with whether it is its own.
    fn on_side(&self, side: JoinSide, column: &Column) -> Option<(PhysicalExprRef, bool)> {
        let source = self.sources.get(column.index())?;
        if source.side == side {
            return Some((renumbered(column, source.index), true));
        }
        let partner = self.equal.iter().find_map(|(left, right)| match source.side {
            JoinSide::Left => (left.index() == source.index).then_some(right),
            JoinSide::Right => (right.index() == source.index).then_some(left),
            JoinSide::None => None,
        });
        Some((Arc::new(partner?.clone()), false))
    }

    fn steps(&self, keys: &[PhysicalExprRef]) -> Vec<Step> {
        let plain = keys.iter().all(|key| key.is::<Column>());
        let step = |(child, side): (usize, &JoinSide)| {
            let mut own = true;
            let keys = substitute(keys, |column| {
                let (column, is_own) = self.on_side(*side, column)?;
                own &= is_own;
                Some(column)
            })?;
            // By an equality only plain columns pass, because equal values may still look different to an expression. A NULL on
            // the other side of NOT IN counts for all rows.
            let may = (plain || (own && !self.null_extends(*side))) && (own || !self.null_aware);
            may.then_some(Step {
                child,
                keys,
                passes: Passes::Operator,
            })
        };
        self.children.iter().enumerate().filter_map(step).collect()
    }
}

fn renumbered(column: &Column, index: usize) -> PhysicalExprRef {
    Arc::new(Column::new(column.name(), index))
}

/// The keys over the columns below, `None` when one of them does not come from there or may differ each time it is computed.
fn substitute(
    keys: &[PhysicalExprRef],
    mut below: impl FnMut(&Column) -> Option<PhysicalExprRef>,
) -> Option<Vec<PhysicalExprRef>> {
    let mut substituted = Vec::with_capacity(keys.len());
    for key in keys {
        let mut known = true;
        let key = Arc::clone(key).transform_down(|part: Arc<dyn PhysicalExpr>| {
            let Some(column) = part.downcast_ref::<Column>() else {
                return Ok(Transformed::no(part));
            };
            match below(column) {
                Some(source) => Ok(Transformed::new(source, true, TreeNodeRecursion::Jump)),
                None => {
                    known = false;
                    Ok(Transformed::new(part, false, TreeNodeRecursion::Stop))
                }
            }
        });
        let key = key.ok()?.data;
        if !known || is_volatile(&key) {
            return None;
        }
        substituted.push(key);
    }
    Some(substituted)
}
