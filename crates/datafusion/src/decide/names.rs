//! [`Names`]: what the tables of a statement are called. Physical plans have forgotten it.

use super::decision::JoinOrder;
use crate::join_order::Noted;
use arrow::datatypes::SchemaRef;
use corun_model::operators::join_order::JoinTree;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
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

    /// The tables below a plan, each once: `fact+part`.
    pub fn below(&self, plan: &Arc<dyn ExecutionPlan>) -> String {
        let mut names = Vec::new();
        let mut left = vec![plan];
        while let Some(plan) = left.pop() {
            let inputs = plan.children();
            if inputs.is_empty() {
                let name = self.of(None, &plan.schema());
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            left.extend(inputs.into_iter().rev());
        }
        names.join("+")
    }

    /// The order of a region's joins, in words.
    pub fn order(&self, noted: &Noted) -> JoinOrder {
        JoinOrder {
            joins: self.joins(&noted.tree, &noted.relations),
            why: noted.why.clone(),
        }
    }

    fn joins(&self, tree: &JoinTree, relations: &[Arc<dyn ExecutionPlan>]) -> String {
        let inner = |tree: &JoinTree| match tree {
            JoinTree::Relation(_) => self.joins(tree, relations),
            JoinTree::Join(..) => format!("({})", self.joins(tree, relations)),
        };
        match tree {
            JoinTree::Relation(relation) => self.below(&relations[*relation]),
            JoinTree::Join(left, right) => format!("{} join {}", inner(left), inner(right)),
        }
    }
}
