//! The rule that finds equal parts of a statement.

use super::table::{SharedPart, SharedTable};
use crate::options::{CorunOptions, JoinChoice};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ident};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::collections::HashMap;
use std::sync::Arc;

/// Puts scans of one shared table in place of equal parts.
#[derive(Debug, Default)]
pub(crate) struct SharedParts {}

impl OptimizerRule for SharedParts {
    fn name(&self) -> &str {
        "corun_shared_parts"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let options = CorunOptions::of(&config.options());
        if options.join == JoinChoice::Off || !options.share_parts || !some_table_is_read_twice(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let readers = readers(&plan)?;
        let mut parts: HashMap<LogicalPlan, (Arc<SharedPart>, usize)> = HashMap::new();
        for (part, readers) in readers {
            if readers > 1 {
                let shared = SharedPart::new(part.clone(), readers);
                parts.insert(part.clone(), (Arc::new(shared), 0));
            }
        }
        if parts.is_empty() {
            return Ok(Transformed::no(plan));
        }
        plan.transform_down(|node| {
            if matches!(node, LogicalPlan::RecursiveQuery(_)) {
                return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
            }
            let Some((part, reader)) = parts.get_mut(&node) else {
                return Ok(Transformed::no(node));
            };
            let table = SharedTable::new(Arc::clone(part), *reader);
            *reader += 1;
            Ok(Transformed::new(
                scan(&node, table)?,
                true,
                TreeNodeRecursion::Jump,
            ))
        })
    }
}

/// Whether two scans read the same table: otherwise no parts are equal.
fn some_table_is_read_twice(plan: &LogicalPlan) -> Result<bool> {
    let mut names: Vec<TableReference> = Vec::new();
    let mut twice = false;
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            twice |= names.contains(&scan.table_name);
            names.push(scan.table_name.clone());
        }
        Ok(match twice {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(twice)
}

/// The largest parts that may be shared, with how often each is there.
fn readers(plan: &LogicalPlan) -> Result<HashMap<&LogicalPlan, usize>> {
    let mut all: HashMap<&LogicalPlan, usize> = HashMap::new();
    plan.apply(|node| {
        if worth_sharing(node) {
            *all.entry(node).or_default() += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    // Of equal parts within equal parts only the outer ones count.
    let mut largest: HashMap<&LogicalPlan, usize> = HashMap::new();
    plan.apply(|node| {
        if all.get(node).is_some_and(|count| *count > 1) && may_be_shared(node)? {
            *largest.entry(node).or_default() += 1;
            return Ok(TreeNodeRecursion::Jump);
        }
        // A recursive query runs its parts more than once.
        Ok(match node {
            LogicalPlan::RecursiveQuery(_) => TreeNodeRecursion::Jump,
            _ => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(largest)
}

fn worth_sharing(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Join(_) | LogicalPlan::Window(_)
    )
}

/// Whether a part gives the same rows each time it runs within a statement, and is made of what queries are made of.
fn may_be_shared(part: &LogicalPlan) -> Result<bool> {
    let odd = part.exists(|node| {
        let known = matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Union(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_)
                | LogicalPlan::EmptyRelation(_)
        );
        let mut odd = !known;
        node.apply_expressions(|expression| {
            odd |= expression.is_volatile()
                || expression.exists(|part| {
                    Ok(matches!(
                        part,
                        Expr::OuterReferenceColumn(..)
                            | Expr::ScalarSubquery(_)
                            | Expr::InSubquery(_)
                            | Expr::Exists(_)
                            | Expr::Placeholder(_)
                    ))
                })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(odd)
    })?;
    Ok(!odd)
}

/// A scan of the table that gives the columns of `part` their names.
fn scan(part: &LogicalPlan, table: SharedTable) -> Result<LogicalPlan> {
    let name = table.part().name().to_owned();
    let columns = part
        .schema()
        .iter()
        .enumerate()
        .map(|(index, (relation, field))| {
            let column = ident(SharedPart::column(index));
            column.alias_qualified(relation.cloned(), field.name())
        });
    let columns: Vec<Expr> = columns.collect();
    let scan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None)?;
    let plan = scan.project(columns)?.build()?;
    debug_assert_eq!(plan.schema().columns(), part.schema().columns());
    Ok(plan)
}
