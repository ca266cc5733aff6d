//! The rule that puts the clearly smaller input on the build side where DataFusion could not tell.
//!
//! DataFusion's `JoinSelection` compares statistics, which a join over in-memory tables does not have: a chain of joins
//! then builds its table from the fact table. This rule runs right after it, estimates rows with
//! [`corun_model::operators::cardinality`] and what statistics there are of tables' columns, and swaps inner, semi and anti joins whose build side is far larger. It never reorders joins.

use crate::options::{CorunOptions, JoinChoice};
use arrow::datatypes::DataType;
use corun_model::operators::cardinality::{Cardinality, ValueRange, swap_pays};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ColumnStatistics, JoinSide, JoinType, ScalarValue, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Swaps the inputs of hash joins that would build on the far larger one.
#[derive(Debug, Default)]
pub struct SmallerBuildSide {
    travels: bool,
}

impl SmallerBuildSide {
    /// The rule for one process.
    pub fn new() -> Self {
        SmallerBuildSide::default()
    }

    /// The rule for plans that are cut into stages. A build side that is not divided is sent to every worker there, so it has to be small whatever
    /// its filters leave.
    pub fn of_plans_that_travel() -> Self {
        SmallerBuildSide { travels: true }
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
            if !may_swap(join) {
                return Ok(Transformed::no(node));
            }
            match (estimate(join.left()), estimate(join.right())) {
                (Some(build), Some(probe)) if swap_pays(build, probe) => {
                    let rows = match self.travels {
                        true => probe.unfiltered_rows,
                        false => probe.rows,
                    };
                    Ok(Transformed::yes(join.swap_inputs(mode(rows, config))?))
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

/// Joins whose sides can change places at no cost; outer and mark joins would have to emit the large side at the end.
fn may_swap(join: &HashJoinExec) -> bool {
    use JoinType::*;
    matches!(
        join.join_type(),
        Inner | LeftSemi | RightSemi | LeftAnti | RightAnti
    ) && !join.null_aware
        && *join.partition_mode() != PartitionMode::Auto
}

/// The rows that a filter leaves of those that come to it. A comparison of a column whose least and largest value are known with a constant
/// keeps its share of them; both ends of a range count as one condition.
pub(crate) fn filtered(rows: Cardinality, filter: &FilterExec) -> Cardinality {
    let known = statistics_of_table(filter.input());
    let bounds = |column: usize| bounds(known.as_ref()?.column_statistics.get(column)?);
    let mut equalities = 0;
    let mut others = Vec::new();
    let mut ranges: BTreeMap<usize, ValueRange> = BTreeMap::new();
    for condition in split_conjunction(filter.predicate()) {
        let compared = comparison(condition);
        if let Some((column, kept)) = &compared
            && bounds(*column).is_some()
        {
            let range = ranges.entry(*column).or_insert(ValueRange::ALL);
            *range = range.within(*kept);
            continue;
        }
        let columns = collect_columns(condition);
        if equals_constant(condition) {
            equalities += 1;
        } else if !others.contains(&columns) {
            others.push(columns);
        }
    }
    let shares = ranges.iter().filter_map(|(column, kept)| {
        let (all, step) = bounds(*column)?;
        Some(all.share(*kept, step))
    });
    rows.kept(shares.product())
        .filtered(equalities, others.len() as u32)
}

/// Whether a condition is that something equals a constant.
fn equals_constant(condition: &Arc<dyn PhysicalExpr>) -> bool {
    condition.downcast_ref::<BinaryExpr>().is_some_and(|binary| {
        *binary.op() == Operator::Eq && (binary.right().is::<Literal>() || binary.left().is::<Literal>())
    })
}

/// The column that a condition compares with a constant number or time, and the values it keeps.
fn comparison(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, ValueRange)> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (column, op, constant) = match binary.left().downcast_ref::<Column>() {
        Some(column) => (column, *binary.op(), binary.right()),
        None => (
            binary.right().downcast_ref::<Column>()?,
            binary.op().swap()?,
            binary.left(),
        ),
    };
    let (constant, step) = number(constant.downcast_ref::<Literal>()?.value())?;
    let (from, to) = match op {
        Operator::Lt => (f64::NEG_INFINITY, constant - step),
        Operator::LtEq => (f64::NEG_INFINITY, constant),
        Operator::Gt => (constant + step, f64::INFINITY),
        Operator::GtEq => (constant, f64::INFINITY),
        // How often a value comes that has others beside it, only the whole numbers tell.
        Operator::Eq if step > 0.0 => (constant, constant),
        _ => return None,
    };
    Some((column.index(), ValueRange { from, to }))
}

/// A number or a time as a number, and what lies between it and the next one: 1 of whole numbers and days, else 0.
fn number(value: &ScalarValue) -> Option<(f64, f64)> {
    let of = |data_type: &DataType| match value.cast_to(data_type).ok()? {
        ScalarValue::Int64(number) => Some(number? as f64),
        ScalarValue::Float64(number) => number.filter(|number| number.is_finite()),
        _ => None,
    };
    match value.data_type() {
        DataType::Date32 => Some((of(&DataType::Int64)?, 1.0)),
        whole if whole.is_integer() => Some((of(&DataType::Float64)?, 1.0)),
        number if number.is_numeric() => Some((of(&DataType::Float64)?, 0.0)),
        time if time.is_temporal() => Some((of(&DataType::Int64)?, 0.0)),
        _ => None,
    }
}

/// The least and the largest value of a column of numbers or times, and what lies between neighbours.
fn bounds(column: &ColumnStatistics) -> Option<(ValueRange, f64)> {
    let (from, step) = number(column.min_value.get_value()?)?;
    let (to, _) = number(column.max_value.get_value()?)?;
    Some((ValueRange { from, to }, step))
}

/// What is known of the columns of a plan that reads one table.
fn statistics_of_table(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
    // Beyond joins its columns are not those of one table.
    let is_table = !plan.exists(|node| Ok(node.children().len() > 1)).unwrap_or(true);
    let statistics =
        is_table.then(|| StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()));
    statistics?.ok()
}

/// Whether the column by which `join` finds rows of a side can be the key of its table, by the least and largest value there.
fn holds_key(join: &HashJoinExec, side: JoinSide, rows: Cardinality) -> bool {
    let [(left, right)] = join.on() else {
        return false;
    };
    let (input, key) = match side {
        JoinSide::Left => (join.left(), left),
        _ => (join.right(), right),
    };
    let Some(column) = key.downcast_ref::<Column>() else {
        return false;
    };
    let range = statistics_of_table(input)
        .and_then(|statistics| range(statistics.column_statistics.get(column.index())?));
    range.is_some_and(|range| rows.may_be_key(range))
}

/// Whole numbers, or days, from the least to the largest value of a column; `None` of other columns, and where the values are not known.
pub(crate) fn range(column: &ColumnStatistics) -> Option<f64> {
    let (all, step) = bounds(column)?;
    (step > 0.0).then_some(all.to - all.from + step)
}

/// How a join with so many rows on its build side is distributed.
pub(crate) fn mode(build_rows: f64, config: &ConfigOptions) -> PartitionMode {
    if build_rows <= config.optimizer.hash_join_single_partition_threshold_rows as f64 {
        PartitionMode::CollectLeft
    } else {
        PartitionMode::Partitioned
    }
}

/// Rows a plan will give; `None` where nothing is known about some input.
pub(crate) fn estimate(plan: &Arc<dyn ExecutionPlan>) -> Option<Cardinality> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let (left, right) = (estimate(join.left())?, estimate(join.right())?);
        let right_is_larger = right.unfiltered_rows > left.unfiltered_rows;
        return Some(match join.join_type() {
            JoinType::LeftSemi => left.semi_joined(right),
            JoinType::RightSemi => right.semi_joined(left),
            JoinType::LeftAnti | JoinType::LeftMark => left,
            JoinType::RightAnti | JoinType::RightMark => right,
            JoinType::Inner if right_is_larger && holds_key(join, JoinSide::Right, right) => {
                left.semi_joined(right)
            }
            JoinType::Inner if !right_is_larger && holds_key(join, JoinSide::Left, left) => {
                right.semi_joined(left)
            }
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
    let [input] = children.as_slice() else { return None };
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(filtered(estimate(input)?, filter));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        if aggregate.group_expr().is_empty() {
            return Some(Cardinality::of_table(1.0));
        }
        // The second of two stages gets groups already.
        let rows = estimate(input)?;
        return Some(if input.is::<AggregateExec>() {
            rows
        } else {
            rows.grouped()
        });
    }
    if passes_rows_on && plan.fetch().is_none() {
        estimate(input)
    } else {
        None
    }
}
