//! [`statement_id`]: statements that differ in their constants only are one statement.

use corun_model::cache::slowdown::StatementId;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

/// The fingerprint of a statement with its literals blanked: operators, tables, columns and functions in order.
///
/// # Errors
/// Those of visiting a plan, of which there are none here.
pub fn statement_id(plan: &LogicalPlan) -> Result<StatementId> {
    // Its keys are constants, so the same statement has the same fingerprint in every process of one build.
    let mut hasher = DefaultHasher::new();
    plan.apply_with_subqueries(|node| {
        discriminant(node).hash(&mut hasher);
        match node {
            LogicalPlan::TableScan(scan) => scan.table_name.to_string().hash(&mut hasher),
            LogicalPlan::Join(join) => join.join_type.hash(&mut hasher),
            _ => {}
        }
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                discriminant(part).hash(&mut hasher);
                match part {
                    Expr::Column(column) => column.flat_name().hash(&mut hasher),
                    Expr::BinaryExpr(binary) => binary.op.hash(&mut hasher),
                    Expr::ScalarFunction(call) => call.func.name().hash(&mut hasher),
                    Expr::AggregateFunction(call) => call.func.name().hash(&mut hasher),
                    Expr::WindowFunction(call) => call.fun.name().hash(&mut hasher),
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(StatementId(hasher.finish()))
}
