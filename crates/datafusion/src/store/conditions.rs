//! [`conditions`]: what a filter says about single columns in a form that an index understands.
//!
//! Everything here may let more rows through than the filter, never fewer: DataFusion filters what is read once more. So
//! literals where SQL's order and an index's differ are made wider or left out:
//!
//! - floats: SQL tells -0 from 0 and orders NaNs by their sign, an index has all NaNs above all numbers; zeros become both
//!   zeros, equality with zero is left out, and an upper bound needs a lower one, which leaves negative NaNs out anyway;
//! - fixed text is filled up with blanks in an index, so that only equality means the same there.
//!
//! What it is not: a choice. Which index is used is [`super::access`]'s matter.

use super::types::Literal;
use corun_store::{TableDef, Type};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use std::ops::Bound;

/// Most values of an `IN` that become ranges.
pub const VALUES_MAX: usize = 64;

/// What a filter says about a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Its position in the table.
    pub column: usize,
    /// What is said.
    pub test: Test,
}

/// What a filter says.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// It is one of these.
    In(Vec<Literal>),
    /// It is not below this.
    Low(Bound<Literal>),
    /// It is not above this.
    High(Bound<Literal>),
}

/// The conditions a filter is a conjunction of; those that no index can help with are left out.
pub fn conditions(filter: &Expr, definition: &TableDef) -> Vec<Condition> {
    let mut found = Vec::new();
    collect(filter, definition, &mut found);
    found
}

fn collect(filter: &Expr, definition: &TableDef, found: &mut Vec<Condition>) {
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And,
            right,
        }) => {
            collect(left, definition, found);
            collect(right, definition, found);
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            found.extend(alternatives(filter, definition))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => found.extend(
            compared(left, *op, right, definition).or_else(|| compared(right, op.swap()?, left, definition)),
        ),
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) => {
            found.extend(compared(expr, Operator::GtEq, low, definition));
            found.extend(compared(expr, Operator::LtEq, high, definition));
        }
        Expr::InList(InList {
            expr,
            list,
            negated: false,
        }) => found.extend(listed(expr, list, definition)),
        _ => {}
    }
}

/// Position and type of the column an expression is.
fn column(expression: &Expr, definition: &TableDef) -> Option<(usize, Type)> {
    let Expr::Column(column) = expression else {
        return None;
    };
    let position = definition.position(&column.name)?;
    Some((position, definition.columns[position].data_type))
}

/// `column op literal`.
fn compared(left: &Expr, op: Operator, right: &Expr, definition: &TableDef) -> Option<Condition> {
    let (column, data_type) = column(left, definition)?;
    let Expr::Literal(value, _) = right else {
        return None;
    };
    let literal = Literal::of(value, data_type)?;
    let test = match (op, data_type) {
        (Operator::Eq, _) => Test::In(vec![equal(literal)?]),
        (_, Type::FixedText { .. }) => return None,
        (Operator::Gt, _) => Test::Low(wide(literal, -0.0, Bound::Excluded)),
        (Operator::GtEq, _) => Test::Low(wide(literal, -0.0, Bound::Included)),
        (Operator::Lt, _) => Test::High(wide(literal, 0.0, Bound::Excluded)),
        (Operator::LtEq, _) => Test::High(wide(literal, 0.0, Bound::Included)),
        _ => return None,
    };
    Some(Condition { column, test })
}

/// A literal that equality means the same for in SQL and in an index.
fn equal(literal: Literal) -> Option<Literal> {
    match literal {
        Literal::Float(0.0) => None,
        other => Some(other),
    }
}

/// A bound; at zero it includes both zeros.
fn wide(literal: Literal, zero: f64, bound: impl Fn(Literal) -> Bound<Literal>) -> Bound<Literal> {
    match literal {
        Literal::Float(0.0) => Bound::Included(Literal::Float(zero)),
        other => bound(other),
    }
}

/// `column IN (literals)`. NULLs among them equal nothing.
fn listed(expression: &Expr, list: &[Expr], definition: &TableDef) -> Option<Condition> {
    let (column, data_type) = column(expression, definition)?;
    let mut values = Vec::new();
    for item in list {
        let Expr::Literal(value, _) = item else {
            return None;
        };
        if !value.is_null() {
            values.push(equal(Literal::of(value, data_type)?)?);
        }
    }
    one_of(column, values)
}

fn one_of(column: usize, mut values: Vec<Literal>) -> Option<Condition> {
    if values.len() > VALUES_MAX {
        return None;
    }
    // NaN is not among them, so that all can be compared.
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.dedup();
    Some(Condition {
        column,
        test: Test::In(values),
    })
}

/// `column = a OR column = b ...`, as DataFusion writes short lists.
fn alternatives(filter: &Expr, definition: &TableDef) -> Option<Condition> {
    let (mut column, mut values) = (None, Vec::new());
    let mut pending = vec![filter];
    while let Some(part) = pending.pop() {
        if let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) = part
        {
            pending.extend([left.as_ref(), right.as_ref()]);
            continue;
        }
        let mut found = conditions(part, definition);
        let (Some(condition), true) = (found.pop(), found.is_empty()) else {
            return None;
        };
        let Test::In(more) = condition.test else {
            return None;
        };
        if *column.get_or_insert(condition.column) != condition.column {
            return None;
        }
        values.extend(more);
    }
    one_of(column?, values)
}
