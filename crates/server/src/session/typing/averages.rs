//! `avg` and `sum`: those of integers and `numeric` are `numeric`. An average is a sum by a count, divided as numbers are
//! ([`super::arithmetic`]); over a window, DataFusion's average of numbers with more digits.

use super::arithmetic::Operation;
use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Cast, Expr, ExprSchemable, LogicalPlan, Projection};
use std::sync::Arc;

/// Digits behind the point that an average of a window begins with; DataFusion adds four.
const SCALE: i8 = 12;

/// Digits of a number that is no float: in all, and behind the point.
pub(super) fn digits(of: &DataType) -> Option<(u8, i8)> {
    match of {
        DataType::Int8 | DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal128(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

/// Gives an aggregate's argument the type that makes its result PostgreSQL's.
///
/// # Errors
/// None that is known.
pub(super) fn widened(name: &str, args: &mut [Expr], schema: &DFSchema, window: bool) -> Result<()> {
    let [argument] = args else {
        return Ok(());
    };
    let Ok(of) = argument.get_type(schema) else {
        return Ok(());
    };
    let to = match (name, &of, digits(&of)) {
        ("sum", DataType::Int64, _) => DataType::Decimal128(19, 0),
        ("avg", _, Some((precision, scale))) if window && scale < SCALE => {
            let more = (SCALE - scale).unsigned_abs();
            DataType::Decimal128((precision + more).min(34), SCALE)
        }
        _ => return Ok(()),
    };
    let argument = &mut args[0];
    *argument = Expr::Cast(Cast::new(Box::new(argument.clone()), to));
    Ok(())
}

/// An `Aggregate` whose averages of numbers that are no floats are divided above it.
///
/// # Errors
/// None that is known.
pub(super) fn divided(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(plan);
    };
    let schema = Arc::clone(aggregate.input.schema());
    let average = |of: &Expr| match of.clone().unalias() {
        Expr::AggregateFunction(AggregateFunction { func, params }) if func.name() == "avg" => {
            let [argument] = params.args.as_slice() else {
                return None;
            };
            let of = argument.get_type(&schema).ok()?;
            digits(&of).map(|_| (of, params))
        }
        _ => None,
    };
    if !aggregate.aggr_expr.iter().any(|of| average(of).is_some()) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let mut shown: Vec<Expr> = aggregate
        .schema
        .iter()
        .take(groups)
        .map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))))
        .collect();
    let named = aggregate.schema.iter().skip(groups);
    let mut wanted = Vec::new();
    for (of, (qualifier, field)) in aggregate.aggr_expr.iter().zip(named) {
        let Some((data_type, mut params)) = average(of) else {
            wanted.push(of.clone());
            shown.push(Expr::Column(Column::from((qualifier, field))));
            continue;
        };
        let name = |what: &str| format!("\u{1}{what} {}", field.name());
        let count = AggregateFunction {
            func: count_udaf(),
            params: params.clone(),
        };
        if data_type == DataType::Int64 {
            params.args = vec![Expr::Cast(Cast::new(
                Box::new(params.args.remove(0)),
                DataType::Decimal128(19, 0),
            ))];
        }
        let sum = AggregateFunction {
            func: sum_udaf(),
            params,
        };
        wanted.push(Expr::AggregateFunction(sum).alias(name("sum")));
        wanted.push(Expr::AggregateFunction(count).alias(name("count")));
        let column = |what: &str| Expr::Column(Column::new_unqualified(name(what)));
        // A count is zero where there is nothing to divide.
        let count = Expr::Cast(Cast::new(Box::new(column("count")), DataType::Decimal128(19, 0)));
        let sum = match data_type {
            DataType::Decimal128(..) | DataType::Int64 => column("sum"),
            _ => Expr::Cast(Cast::new(Box::new(column("sum")), DataType::Decimal128(19, 0))),
        };
        let quotient = Operation::Divide.of(sum, count);
        shown.push(match qualifier {
            Some(qualifier) => quotient.alias_qualified(Some(qualifier.clone()), field.name()),
            None => quotient.alias(field.name()),
        });
    }
    let inner = Aggregate::try_new(aggregate.input, aggregate.group_expr, wanted)?;
    let outer = Projection::try_new(shown, Arc::new(LogicalPlan::Aggregate(inner)))?;
    Ok(LogicalPlan::Projection(outer))
}
