//! Conditions of a filter in the order of what they cost, and how many rows they leave.
//!
//! A condition is evaluated for the rows that those before it left, once these are few. Conditions that could fail, such as a division
//! behind the comparison that guards it, stay behind all others in the order in which they were written.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

/// The conditions in the order in which they are best evaluated; `None` if they are in it.
pub(super) fn ordered(predicate: &Expr, schema: &DFSchema) -> Option<Expr> {
    let conditions = split_conjunction(predicate);
    if conditions.len() < 2 || conditions.iter().any(|condition| condition.is_volatile()) {
        return None;
    }
    let mut ranked: Vec<(Rank, &Expr)> = conditions
        .into_iter()
        .map(|condition| (rank(condition, schema), condition))
        .collect();
    if ranked.is_sorted_by_key(|(rank, _)| *rank) {
        return None;
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    conjunction(ranked.into_iter().map(|(_, condition)| condition.clone()))
}

/// What conditions leave that drop little.
const LEFT_MAX: u32 = 95;

/// Least first: what it costs to drop ten thousand rows, as far as the kind of condition says. With that order the conditions of all rows
/// together cost least, where each is only evaluated for what those before it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Plain { cost_of_dropping: u32 },
    MayFail,
}

fn rank(condition: &Expr, schema: &DFSchema) -> Rank {
    match cost(condition, schema) {
        Some(cost) => Rank::Plain {
            cost_of_dropping: 10_000 * cost / (100 - rows_left(condition)),
        },
        None => Rank::MayFail,
    }
}

/// Whether a condition might fail for rows that others keep away from it.
pub(super) fn may_fail(condition: &Expr, schema: &DFSchema) -> bool {
    cost(condition, schema).is_none()
}

/// Comparisons of numbers that one row costs; `None` for what might fail.
fn cost(condition: &Expr, schema: &DFSchema) -> Option<u32> {
    let mut total = 0;
    let mut known = true;
    let walked = condition.apply(|part| {
        let own = match part {
            Expr::Column(_) | Expr::Literal(..) | Expr::Not(_) | Expr::Alias(_) => Some(0),
            Expr::IsNull(_) | Expr::IsNotNull(_) => Some(1),
            Expr::BinaryExpr(BinaryExpr { left, op, .. }) => match op {
                Operator::And | Operator::Or => Some(0),
                Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom => comparison(left, schema),
                // Arithmetic overflows, patterns may be wrong.
                _ => None,
            },
            Expr::Between(Between { expr, .. }) => comparison(expr, schema).map(|one| 2 * one),
            Expr::InList(InList { expr, list, .. }) => {
                let one = comparison(expr, schema);
                one.map(|one| one * (list.len() as u32).clamp(1, 8))
            }
            Expr::Like(_) => Some(20),
            _ => None,
        };
        Ok(match own {
            Some(own) => {
                total += own;
                TreeNodeRecursion::Continue
            }
            None => {
                known = false;
                TreeNodeRecursion::Stop
            }
        })
    });
    (known && walked.is_ok()).then_some(total)
}

fn comparison(of: &Expr, schema: &DFSchema) -> Option<u32> {
    Some(match of.get_type(schema).ok()? {
        DataType::Decimal128(..) | DataType::Decimal256(..) => 2,
        data_type if data_type.is_primitive() || data_type == DataType::Boolean => 1,
        _ => 4,
    })
}

/// Rows of a hundred; at most [`LEFT_MAX`].
fn rows_left(condition: &Expr) -> u32 {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let constant = matches!(**left, Expr::Literal(..)) || matches!(**right, Expr::Literal(..));
            match op {
                Operator::Eq => 5,
                Operator::And => rows_left(left).min(rows_left(right)),
                Operator::Or => (rows_left(left) + rows_left(right)).min(LEFT_MAX),
                Operator::NotEq | Operator::IsDistinctFrom => LEFT_MAX,
                _ if constant => 33,
                _ => 50,
            }
        }
        Expr::Between(_) => 20,
        Expr::InList(list) if !list.negated => 20,
        Expr::IsNull(_) => 10,
        Expr::Not(_) | Expr::IsNotNull(_) => LEFT_MAX,
        _ => 50,
    }
}
