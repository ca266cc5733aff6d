//! [`Names`]: what the tables of a statement are called. Physical plans have forgotten it.

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;

/// Names and schemas of the tables a statement scans.
pub struct Names(Vec<(SchemaRef, String)>);

impl Names {
    /// The tables of a logical plan.
    ///
    /// # Errors
    /// Those of visiting a plan, of which there are none here.
    pub fn in_plan(plan: &LogicalPlan) -> Result<Names> {
        let mut names = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                names.push((scan.source.schema(), scan.table_name.table().to_string()));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Names(names))
    }

    /// The name of the table behind a scan that gives `schema`: the table whose very schema is known, else the first that
    /// has all these columns, else `rows`. For people only: two tables of one schema may be taken for each other.
    pub fn of(&self, table: Option<&SchemaRef>, schema: &SchemaRef) -> String {
        let same = |known: &SchemaRef| table.is_some_and(|table| Arc::ptr_eq(known, table));
        let has_all = |known: &SchemaRef| {
            schema
                .fields()
                .iter()
                .all(|field| known.column_with_name(field.name()).is_some())
        };
        let exact = self.0.iter().find(|(known, _)| same(known));
        let found = exact.or_else(|| self.0.iter().find(|(known, _)| has_all(known)));
        found.map_or_else(|| "rows".to_string(), |(_, name)| name.clone())
    }
}
