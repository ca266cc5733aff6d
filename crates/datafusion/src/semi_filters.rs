//! [`FiltersBelowSemiJoins`]: the rule that asks conditions before the semi and anti joins that `EXISTS`, `IN` and their negations have become.
//!
//! `FROM a, b, c WHERE a.x = c.x AND b.y = c.y AND NOT EXISTS (...)` is planned as a filter above an anti join above the product of the three
//! tables. DataFusion's rule that makes joins of such a product looks at filters right above it only, and so finds none here; later rules
//! push the conditions down, but the tables stay in the order in which they were written, and `a` times `b` stays a product. A row that
//! leaves a semi or an anti join is a row of one of its sides as it was, so that a condition may as well be asked below. This rule runs
//! before DataFusion's. What it is not: for mark and outer joins, which add columns.

use datafusion::common::JoinType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rule of DataFusion before which it runs.
pub(crate) const BEFORE: &str = "eliminate_cross_join";

/// See [`self`].
#[derive(Debug)]
pub(crate) struct FiltersBelowSemiJoins;

impl OptimizerRule for FiltersBelowSemiJoins {
    fn name(&self) -> &str {
        "corun_filters_below_semi_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else {
            return Ok(Transformed::no(plan));
        };
        let LogicalPlan::Join(join) = filter.input.as_ref() else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let keeps_left = match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => true,
            JoinType::RightSemi | JoinType::RightAnti => false,
            _ => return Ok(Transformed::no(LogicalPlan::Filter(filter))),
        };
        // Asked for other rows, it may say something else.
        if filter.predicate.is_volatile() {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let mut join = join.clone();
        let side = if keeps_left {
            &mut join.left
        } else {
            &mut join.right
        };
        let below = Filter::try_new(filter.predicate, Arc::clone(side))?;
        *side = Arc::new(LogicalPlan::Filter(below));
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn tables_of_a_statement_with_not_exists_are_joined_by_their_conditions() {
        let state = SessionStateBuilder::new().with_default_features();
        let context = SessionContext::new_with_state(crate::install(state).build());
        for table in [
            "create table a as select * from (values (1), (2), (3)) as a (x)",
            "create table b as select * from (values (1), (2), (3)) as b (y)",
            "create table c as select * from (values (1, 2), (2, 3), (3, 1)) as c (x, y)",
            "create table d as select * from (values (2)) as d (x)",
        ] {
            context.sql(table).await.unwrap().collect().await.unwrap();
        }
        for (condition, left) in [
            (
                "not exists (select * from d where d.x = a.x)",
                "| 1 | 2 |\n| 3 | 1 |",
            ),
            ("exists (select * from d where d.x = a.x)", "| 2 | 3 |"),
            (
                "b.y in (select d.x from d) and exists (select * from d where d.x > a.x)",
                "| 1 | 2 |",
            ),
            ("b.y not in (select d.x from d)", "| 2 | 3 |\n| 3 | 1 |"),
        ] {
            // Neither `a` and `b` nor `a` and `d` have a condition.
            let sql = format!(
                "select a.x, b.y from a, b, c where a.x = c.x and b.y = c.y and {condition} order by a.x"
            );
            let frame = context.sql(&sql).await.unwrap();
            let plan = frame
                .clone()
                .into_optimized_plan()
                .unwrap()
                .display_indent()
                .to_string();
            assert!(!plan.contains("Cross Join"), "{sql}\n{plan}");
            let rows = pretty_format_batches(&frame.collect().await.unwrap())
                .unwrap()
                .to_string();
            assert!(rows.contains(left), "{sql}\n{rows}");
            assert_eq!(rows.lines().count(), 4 + left.lines().count(), "{sql}\n{rows}");
        }
    }
}
