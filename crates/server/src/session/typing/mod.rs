//! [`typed`]: a plan of a statement in a database that is a store, with PostgreSQL's types of expressions.
//!
//! ```text
//!   planned by DataFusion ─► constants (literals) ─► arithmetic, aggregates ─► NOT IN (membership) ─► analyzed, optimized as all plans
//! ```
//!
//! | expression | here, as in PostgreSQL |
//! | --- | --- |
//! | an integer | `integer` where it fits, else `bigint` |
//! | a text beside a value of a type | read as that type |
//! | `+ - * / %` of integers and floats | 22003 beyond the type, 22012 by zero |
//! | `numeric / numeric`, `avg` of numbers that are no floats, `sum` of `bigint` | `numeric` |
//! | a number as an integer | rounded |
//! | `NULL NOT IN (SELECT ...)` below an `OR` | NULL |
//!
//! What it is not: for databases of files, whose statements keep DataFusion's types.

mod arithmetic;
mod averages;
mod literals;
mod membership;
mod moments;
mod origin;

use super::zone::Zone;
use arithmetic::Operation;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{
    AggregateFunction, Alias, Between, Case, InList, InSubquery, ScalarFunction, WindowFunction,
    WindowFunctionDefinition,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};
use literals::{is_untyped, narrowed};

#[cfg(test)]
pub(crate) use arithmetic::function_of;
pub(crate) use arithmetic::operator_of;
pub(crate) use moments::planned as planned_moments;
pub(super) use origin::origin;

/// Functions whose arguments are all of one type, which is that of their result.
const OF_ONE_TYPE: &[&str] = &["coalesce", "nullif", "greatest", "least", "make_array"];

/// The plan with PostgreSQL's types.
///
/// # Errors
/// A constant that its type does not have.
pub(super) fn typed(plan: LogicalPlan, zone: Zone, zone_name: &str) -> Result<LogicalPlan> {
    // The rows of a recursive query go round between plans that are typed already.
    let recursive = plan.exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))?;
    let typing = Typing {
        zone,
        zone_name,
        narrows: !recursive,
    };
    let typed = plan.transform_up_with_subqueries(|node| typing.node(node))?;
    Ok(typed.data)
}

struct Typing<'z> {
    zone: Zone,
    zone_name: &'z str,
    /// Whether integers that fit are `integer`.
    narrows: bool,
}

impl Typing<'_> {
    fn node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let plan = match plan {
            LogicalPlan::Limit(_) | LogicalPlan::Statement(_) | LogicalPlan::TableScan(_) => {
                return Ok(Transformed::no(plan));
            }
            LogicalPlan::Values(values) => {
                return match self.narrows {
                    true => literals::narrowed_rows(values).map(Transformed::yes),
                    false => Ok(Transformed::no(LogicalPlan::Values(values))),
                };
            }
            LogicalPlan::Filter(filter) => LogicalPlan::Filter(membership::three_valued(filter)?),
            plan => plan,
        };
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::Join(join) = &plan {
            schema = join.left.schema().join(join.right.schema()).unwrap_or(schema);
        }
        let shown = matches!(plan, LogicalPlan::Projection(_));
        let names = NamePreserver::new(&plan);
        let changed = plan.map_expressions(|expression| {
            let name = names.save(&expression);
            let typed = expression.transform_up(|of| self.expression(of, &schema))?;
            let typed = typed.update_data(|of| match shown {
                true => self.narrowed(of),
                false => of,
            });
            Ok(typed.update_data(|of| name.restore(of)))
        })?;
        let plan = changed.data.recompute_schema()?;
        averages::divided(plan).map(Transformed::yes)
    }

    fn narrowed(&self, of: Expr) -> Expr {
        match self.narrows {
            true => narrowed(of),
            false => of,
        }
    }

    /// An operand beside another: a text is of the type of that, an integer no wider than that needs.
    fn beside(&self, of: Expr, other: &Expr, schema: &DFSchema) -> Result<Expr> {
        if is_untyped(other) {
            return Ok(self.narrowed(of));
        }
        let Ok((_, field)) = other.to_field(schema) else {
            return Ok(of);
        };
        if is_untyped(&of) {
            return literals::read(of, &field, self.zone);
        }
        let of = match of.get_type(schema) {
            Ok(own) => moments::beside(of, &own, field.data_type(), self.zone_name),
            Err(_) => of,
        };
        Ok(match field.data_type() {
            DataType::Int64 => of,
            DataType::Float32 | DataType::Float64 => literals::as_float(self.narrowed(of), schema),
            other if other.is_numeric() || other.is_null() => self.narrowed(of),
            _ => of,
        })
    }

    fn both(&self, left: Expr, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
        match (literals::is_integer(&left), literals::is_integer(&right)) {
            (true, true) => Ok((self.narrowed(left), self.narrowed(right))),
            _ => {
                let typed = self.beside(left, &right, schema)?;
                let right = self.beside(right, &typed, schema)?;
                Ok((typed, right))
            }
        }
    }

    /// Values of which one is chosen: of the type of the first that has one.
    fn alike(&self, values: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
        let has_type = |of: &&Expr| {
            !is_untyped(of)
                && !literals::is_integer(of)
                && of.get_type(schema).is_ok_and(|found| !found.is_null())
        };
        let integer = || values.iter().find(|of| literals::is_integer(of));
        let Some(model) = values.iter().find(has_type).or_else(integer).cloned() else {
            return Ok(values);
        };
        let model = self.narrowed(model);
        let values = values.into_iter().map(|of| self.beside(of, &model, schema));
        let values = values.collect::<Result<Vec<_>>>()?;
        let is_float = |of: &Expr| of.get_type(schema).is_ok_and(|of| of.is_floating());
        Ok(match values.iter().any(is_float) {
            true => values
                .into_iter()
                .map(|of| literals::as_float(of, schema))
                .collect(),
            false => values,
        })
    }

    fn expression(&self, of: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(Transformed::yes(match of {
            Expr::Literal(..) => literals::plain(of),
            Expr::Alias(Alias {
                expr,
                relation,
                name,
                metadata,
            }) => Expr::Alias(Alias {
                expr: Box::new(self.narrowed(*expr)),
                relation,
                name,
                metadata,
            }),
            Expr::BinaryExpr(of) => self.binary(of, schema)?,
            Expr::Negative(inner) => match *inner {
                inner if inner.get_type(schema).is_ok_and(|of| of.is_signed_integer()) => {
                    let inner = self.narrowed(inner);
                    let zero = ScalarValue::new_zero(&inner.get_type(schema)?)?;
                    Operation::Subtract.of(Expr::Literal(zero, None), inner)
                }
                inner => Expr::Negative(Box::new(inner)),
            },
            Expr::Between(Between {
                expr,
                negated,
                low,
                high,
            }) => {
                let model = if is_untyped(&expr) { &low } else { &expr }.as_ref().clone();
                let low = self.beside(*low, &model, schema)?;
                let high = self.beside(*high, &model, schema)?;
                let expr = self.beside(*expr, &low, schema)?;
                let [expr, low, high] = moments::compared([expr, low, high], schema);
                Expr::Between(Between::new(
                    Box::new(expr),
                    negated,
                    Box::new(low),
                    Box::new(high),
                ))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let list = list.into_iter().map(|item| self.beside(item, &expr, schema));
                let list = list.collect::<Result<Vec<_>>>()?;
                let float = list
                    .iter()
                    .find(|of| of.get_type(schema).is_ok_and(|of| of.is_floating()));
                let expr = match float.or(list.first()) {
                    Some(first) => Box::new(self.beside(*expr, first, schema)?),
                    None => expr,
                };
                Expr::InList(InList { expr, list, negated })
            }
            Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            }) => {
                let expr = match subquery.subquery.schema().fields().first() {
                    Some(field) if is_untyped(&expr) => literals::read(*expr, field, self.zone)?,
                    Some(field) if *field.data_type() == DataType::Int32 => self.narrowed(*expr),
                    _ => *expr,
                };
                Expr::InSubquery(InSubquery::new(Box::new(expr), subquery, negated))
            }
            Expr::Case(of) => Expr::Case(self.case(of, schema)?),
            Expr::Cast(Cast { expr, field }) => {
                let expr = moments::cast(*expr, field.data_type(), schema, self.zone_name);
                literals::cast(expr, field, schema, self.zone)?
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if moments::IN_ZONE.contains(&func.name()) =>
            {
                let args = moments::in_zone(args, schema, self.zone_name);
                Expr::ScalarFunction(ScalarFunction { func, args })
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) if OF_ONE_TYPE.contains(&func.name()) => {
                let args = self.alike(args, schema)?;
                Expr::ScalarFunction(ScalarFunction { func, args })
            }
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                averages::widened(func.name(), &mut params.args, schema, false)?;
                Expr::AggregateFunction(AggregateFunction { func, params })
            }
            Expr::WindowFunction(of) => {
                let WindowFunction { fun, mut params } = *of;
                if let WindowFunctionDefinition::AggregateUDF(function) = &fun {
                    averages::widened(function.name(), &mut params.args, schema, true)?;
                }
                Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
            }
            other => return Ok(Transformed::no(other)),
        }))
    }

    fn binary(&self, BinaryExpr { left, op, right }: BinaryExpr, schema: &DFSchema) -> Result<Expr> {
        let is_arithmetic = Operation::of_sign(op);
        let compares = matches!(
            op,
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom
        );
        if is_arithmetic.is_none() && !compares {
            return Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }));
        }
        if is_arithmetic.is_some()
            && let Some(computed) = moments::computed(&left, op, &right, schema)
        {
            return Ok(computed);
        }
        let is_number = |of: &Expr| {
            is_untyped(of)
                || of
                    .get_type(schema)
                    .is_ok_and(|of| of.is_numeric() || of.is_null())
        };
        if !(compares || is_number(&left) && is_number(&right)) {
            return Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }));
        }
        let (mut left, mut right) = self.both(*left, *right, schema)?;
        if compares {
            [left, right] = moments::compared([left, right], schema);
        }
        if let Some(operation) = is_arithmetic
            && let (Ok(one), Ok(other)) = (left.get_type(schema), right.get_type(schema))
            && operation.is_for(&one, &other)
        {
            return Ok(operation.of(left, right));
        }
        Ok(Expr::BinaryExpr(BinaryExpr {
            left: Box::new(left),
            op,
            right: Box::new(right),
        }))
    }

    fn case(&self, of: Case, schema: &DFSchema) -> Result<Case> {
        let (mut whens, thens): (Vec<Expr>, Vec<Expr>) = of
            .when_then_expr
            .into_iter()
            .map(|(when, then)| (*when, *then))
            .unzip();
        if let Some(expr) = &of.expr {
            let typed = whens.into_iter().map(|when| self.beside(when, expr, schema));
            whens = typed.collect::<Result<_>>()?;
        }
        let count = thens.len();
        let mut values: Vec<Expr> = thens;
        values.extend(of.else_expr.map(|of| *of));
        let mut values = self.alike(values, schema)?;
        let else_expr = values.split_off(count).pop().map(Box::new);
        let pairs = whens.into_iter().zip(values);
        Ok(Case {
            expr: of.expr,
            when_then_expr: pairs
                .map(|(when, then)| (Box::new(when), Box::new(then)))
                .collect(),
            else_expr,
        })
    }
}
