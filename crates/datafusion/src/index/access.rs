//! From the plan over an indexed scan to the table columns and conditions behind it.
//!
//! An index gives row numbers of the whole table, so whatever the plan between scan and join does to rows and columns has
//! to be done to the rows found instead: filters become conditions on candidate pairs, projections a renumbering of
//! columns, exchanges nothing. A plan that does anything else cannot be reached through an index.

use super::source::IndexedSource;
use super::table::Indexed;
use crate::join::output::Assembler;
use arrow::array::Array;
use arrow::datatypes::Schema;
use datafusion::common::JoinSide;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::ColumnIndex;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use std::sync::Arc;

/// A condition on candidate pairs and how its intermediate batch is made.
pub struct Condition {
    /// The condition, over the assembler's schema.
    pub expression: PhysicalExprRef,
    /// Table columns are its left ones, columns of the other input its right ones.
    pub assembler: Assembler,
}

/// An indexed table as some plan over its scan shows it.
pub struct Access {
    /// The table.
    pub indexed: Arc<Indexed>,
    /// For each column of the plan its table column.
    pub columns: Vec<usize>,
    /// What the plan filters by, the lowest filter first.
    pub conditions: Vec<Condition>,
}

impl Access {
    /// What `plan` shows of an indexed table; `None` when it is not over one, or does something to rows that cannot be done
    /// to rows found through an index.
    ///
    /// # Errors
    /// Errors of rewriting expressions.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Access>> {
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
            let source = scan.data_source().downcast_ref::<IndexedSource>();
            return Ok(source.filter(|_| plan.fetch().is_none()).map(|source| Access {
                indexed: Arc::clone(source.indexed()),
                columns: source.columns(),
                conditions: Vec::new(),
            }));
        }
        let children = plan.children();
        let ([input], None) = (children.as_slice(), plan.fetch()) else {
            return Ok(None);
        };
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let predicate = filter.predicate();
            if is_volatile(predicate) || is_dynamic(predicate)? {
                return Ok(None);
            }
            let Some(mut access) = Access::of(input)? else {
                return Ok(None);
            };
            let condition = access.condition(predicate)?;
            access.conditions.push(condition);
            if let Some(projection) = filter.projection().as_ref() {
                access.columns = projection.iter().map(|column| access.columns[*column]).collect();
            }
            return Ok(Some(access));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let columns: Option<Vec<usize>> = projection
                .expr()
                .iter()
                .map(|item| Some(item.expr.downcast_ref::<Column>()?.index()))
                .collect();
            let (Some(columns), Some(mut access)) = (columns, Access::of(input)?) else {
                return Ok(None);
            };
            access.columns = columns.into_iter().map(|column| access.columns[column]).collect();
            return Ok(Some(access));
        }
        let passes_rows_on = plan.is::<RepartitionExec>()
            || plan.is::<CoalescePartitionsExec>()
            || plan.name() == "CoalesceBatchesExec"
            || plan.name() == "CooperativeExec";
        if passes_rows_on {
            Access::of(input)
        } else {
            Ok(None)
        }
    }

    /// A predicate over this plan's columns as a condition over the table columns it names.
    fn condition(&self, predicate: &PhysicalExprRef) -> Result<Condition> {
        let mut used: Vec<usize> = collect_columns(predicate)
            .iter()
            .map(|column| self.columns[column.index()])
            .collect();
        used.sort_unstable();
        used.dedup();
        let renumbered = Arc::clone(predicate).transform(|node| {
            let Some(column) = node.downcast_ref::<Column>() else {
                return Ok(Transformed::no(node));
            };
            let place = used.partition_point(|table_column| *table_column < self.columns[column.index()]);
            let renumbered: PhysicalExprRef = Arc::new(Column::new(column.name(), place));
            Ok(Transformed::yes(renumbered))
        });
        let schema = self.indexed.schema();
        let fields: Vec<_> = used
            .iter()
            .map(|column| Arc::clone(&schema.fields()[*column]))
            .collect();
        let sources = used.iter().map(|column| ColumnIndex {
            index: *column,
            side: JoinSide::Left,
        });
        Ok(Condition {
            expression: renumbered.data()?,
            assembler: Assembler {
                schema: Arc::new(Schema::new(fields)),
                sources: sources.collect(),
            },
        })
    }

    /// Bytes of the table columns that the plan shows.
    pub fn bytes(&self) -> usize {
        let mut columns = self.columns.clone();
        columns.sort_unstable();
        columns.dedup();
        let arrays = columns
            .iter()
            .filter_map(|&column| self.indexed.columns()[column].as_ref());
        arrays.map(|array| array.get_array_memory_size()).sum()
    }

    /// The table column behind an expression over this plan; `None` when it is more than a column.
    pub fn table_column(&self, expression: &PhysicalExprRef) -> Option<usize> {
        let column = expression.downcast_ref::<Column>()?;
        self.columns.get(column.index()).copied()
    }

    /// Where columns of a join of this plan, on the side `inner`, come from: table columns become left ones, columns of the
    /// other input right ones.
    pub fn sources(&self, sources: &[ColumnIndex], inner: JoinSide) -> Vec<ColumnIndex> {
        sources
            .iter()
            .map(|source| match source.side {
                JoinSide::None => source.clone(),
                side if side == inner => ColumnIndex {
                    index: self.columns[source.index],
                    side: JoinSide::Left,
                },
                _ => ColumnIndex {
                    index: source.index,
                    side: JoinSide::Right,
                },
            })
            .collect()
    }
}

/// Whether an expression changes while a query runs.
fn is_dynamic(expression: &PhysicalExprRef) -> Result<bool> {
    expression.exists(|node| Ok(node.is::<DynamicFilterPhysicalExpr>()))
}
