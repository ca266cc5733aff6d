//! [`origin`]: the column of `char(n)` that a column of a result comes from, through what keeps its type: the field that DataFusion has of it
//! is a text.

use crate::catalog::{PgType, pg_type_of};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{AggregateFunction, Case, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

/// The number of `char(n)`.
const BPCHAR: i32 = 1042;
/// Plans within each other that are looked through.
const DEPTH_MAX: usize = 64;

/// The type of a plan's column, where it is `char(n)`. Constants beside such columns are shown as long as these.
pub(in crate::session) fn origin(plan: &LogicalPlan, at: usize) -> Option<PgType> {
    of_plan(plan, at, DEPTH_MAX)
}

fn of_plan(plan: &LogicalPlan, at: usize, depth: usize) -> Option<PgType> {
    let field = plan.schema().fields().get(at)?;
    let of = pg_type_of(field);
    if of.oid == BPCHAR {
        return Some(of);
    }
    let depth = depth.checked_sub(1)?;
    match plan {
        LogicalPlan::Projection(projection) => {
            of_expression(projection.expr.get(at)?, &projection.input, depth)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let all = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
            // Sets of groups have columns of their own.
            let is_plain = aggregate.schema.fields().len() == all.clone().count();
            of_expression(all.clone().nth(at).filter(|_| is_plain)?, &aggregate.input, depth)
        }
        LogicalPlan::Window(window) => {
            let before = window.input.schema().fields().len();
            match at.checked_sub(before) {
                None => of_plan(&window.input, at, depth),
                Some(at) => of_expression(window.window_expr.get(at)?, &window.input, depth),
            }
        }
        LogicalPlan::Filter(filter) => of_plan(&filter.input, at, depth),
        LogicalPlan::Sort(sort) => of_plan(&sort.input, at, depth),
        LogicalPlan::Limit(limit) => of_plan(&limit.input, at, depth),
        LogicalPlan::Distinct(Distinct::All(input)) => of_plan(input, at, depth),
        LogicalPlan::SubqueryAlias(alias) => of_plan(&alias.input, at, depth),
        LogicalPlan::Union(union) => union
            .inputs
            .iter()
            .map(|input| of_plan(input, at, depth))
            .reduce(same)?,
        _ => None,
    }
}

fn same(one: Option<PgType>, other: Option<PgType>) -> Option<PgType> {
    one.filter(|_| one == other)
}

fn of_expression(of: &Expr, input: &LogicalPlan, depth: usize) -> Option<PgType> {
    let depth = depth.checked_sub(1)?;
    let all = |values: &mut dyn Iterator<Item = &Expr>| {
        values
            .filter(|of| !is_constant(of))
            .map(|of| of_expression(of, input, depth))
            .reduce(same)?
    };
    match of {
        Expr::Alias(alias) => of_expression(&alias.expr, input, depth),
        Expr::Column(column) => {
            let at = input.schema().maybe_index_of_column(column)?;
            of_plan(input, at, depth)
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) if is_one_of_them(func.name()) => {
            all(&mut params.args.iter().take(1))
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, params } = window.as_ref();
            let name = fun.name();
            let is_one = is_one_of_them(name) || ["lag", "lead"].contains(&name);
            all(&mut params.args.iter().take(1).filter(|_| is_one))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
            "nullif" => all(&mut args.iter().take(1)),
            "coalesce" | "greatest" | "least" => all(&mut args.iter()),
            _ => None,
        },
        Expr::Case(Case {
            when_then_expr,
            else_expr,
            ..
        }) => {
            let values = when_then_expr.iter().map(|(_, then)| then.as_ref());
            all(&mut values.chain(else_expr.as_deref()))
        }
        Expr::ScalarSubquery(subquery) => of_plan(&subquery.subquery, 0, depth),
        _ => None,
    }
}

fn is_one_of_them(name: &str) -> bool {
    ["min", "max", "first_value", "last_value", "nth_value"].contains(&name)
}

fn is_constant(of: &Expr) -> bool {
    matches!(
        of,
        Expr::Literal(
            ScalarValue::Null | ScalarValue::Utf8(_) | ScalarValue::Utf8View(_),
            _
        )
    )
}
