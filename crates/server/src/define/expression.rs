//! Expressions of definitions: defaults and conditions, looked at before they are kept as text.
//!
//! What it is not: their evaluation, which is the writing statements' ([`crate::write`]).

use super::error;
use super::seen::{Relation, Seen, quoted_at};
use crate::catalog::{folded, quoted};
use crate::session::{ClientSession, Zone, columns_of as results_of};
use crate::write::sequences::name_parts;
use crate::write::{Column, ColumnDefault, store_type, store_value};
use arrow::datatypes::DataType as ArrowType;
use corun_wire::error::Refusal;
use corun_wire::values::{Format, Numeric, Type, Value};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Statement, UnaryOperator,
    Value as Literal, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// What an expression has in it.
#[derive(Default)]
struct Parts {
    /// Without repetition, in order.
    columns: Vec<String>,
    subquery: bool,
    aggregate: Option<String>,
    window: bool,
}

/// Functions that are no values of one row.
pub(crate) const AGGREGATES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "array_agg",
    "string_agg",
    "bool_and",
    "bool_or",
    "every",
    "stddev",
    "variance",
];

impl Visitor for Parts {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.subquery = true;
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let column = match expr {
            Expr::Identifier(name) => Some(folded(name)),
            Expr::CompoundIdentifier(parts) => parts.last().map(folded),
            Expr::Function(function) => {
                let name = function.name.to_string().to_lowercase();
                self.window |= function.over.is_some();
                if AGGREGATES.contains(&name.as_str()) {
                    self.aggregate = Some(name);
                }
                None
            }
            _ => None,
        };
        if let Some(column) = column.filter(|column| !self.columns.contains(column)) {
            self.columns.push(column);
        }
        ControlFlow::Continue(())
    }
}

fn parts(expr: &Expr) -> Parts {
    let mut parts = Parts::default();
    _ = expr.visit(&mut parts);
    parts
}

/// The columns of a condition of `CHECK`.
///
/// # Errors
/// What has no place in one.
pub(super) fn check_condition(expr: &Expr) -> Result<Vec<String>, Refusal> {
    let parts = parts(expr);
    if parts.subquery {
        return Err(Refusal::new("0A000", "cannot use subquery in check constraint"));
    }
    if parts.aggregate.is_some() {
        let what = "aggregate functions are not allowed in check constraints";
        return Err(Refusal::new("42803", what));
    }
    if parts.window {
        let what = "window functions are not allowed in check constraints";
        return Err(Refusal::new("42P20", what));
    }
    Ok(parts.columns)
}

struct Unqualified<'t>(&'t str);

impl VisitorMut for Unqualified<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [.., table, column] = parts.as_slice()
            && folded(table) == self.0
        {
            *expr = Expr::Identifier(column.clone());
        }
        ControlFlow::Continue(())
    }
}

/// The same without the table's name before columns, so that it stands when the table gets another one.
pub(super) fn unqualified(expr: &Expr, table: &str) -> Expr {
    let mut expr = expr.clone();
    _ = VisitMut::visit(&mut expr, &mut Unqualified(table));
    expr
}

struct Renamed<'t> {
    from: &'t str,
    to: &'t str,
}

impl VisitorMut for Renamed<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && folded(name) == self.from
        {
            *name = Ident::with_quote('"', self.to);
        }
        ControlFlow::Continue(())
    }
}

/// The columns that a kept condition is about; none of one that cannot be read.
pub(super) fn columns_of(text: &str) -> Vec<String> {
    parse(text).map_or_else(|_| Vec::new(), |expr| parts(&expr).columns)
}

/// A kept condition when a column has another name.
///
/// # Errors
/// One that cannot be read.
pub(super) fn renamed(text: &str, from: &str, to: &str) -> Result<String, Refusal> {
    let mut expr = parse(text)?;
    _ = VisitMut::visit(&mut expr, &mut Renamed { from, to });
    Ok(expr.to_string())
}

fn parse(text: &str) -> Result<Expr, Refusal> {
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).try_with_sql(text);
    let expr = parser.and_then(|mut parser| parser.parse_expr());
    expr.map_err(|error| error::syntax(error.to_string()))
}

/// A statement of text that is made here.
///
/// # Errors
/// A text that is none.
pub(super) fn statement(text: &str) -> Result<Statement, Refusal> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text);
    let parsed = parsed.map_err(|error| error::syntax(error.to_string()))?;
    parsed
        .into_iter()
        .next()
        .ok_or_else(|| error::syntax("syntax error at end of input"))
}

/// Whether the session can evaluate a default.
///
/// # Errors
/// What the planner says of it.
pub(super) async fn check_default(session: &ClientSession, text: &str) -> Result<(), Refusal> {
    let statement = statement(&format!("SELECT {text}"))?;
    session.plan_ast(statement, &[], "").await.map(drop)
}

/// Whether the session can evaluate a condition over a table that is there.
///
/// # Errors
/// What the planner says of it; 42804 of one that is no condition.
pub(super) async fn check_check(
    session: &ClientSession,
    (schema, table): (&str, &str),
    text: &str,
) -> Result<(), Refusal> {
    let (schema, table) = (quoted(schema), quoted(table));
    let statement = statement(&format!("SELECT ({text}) FROM {schema}.{table}"))?;
    let planned = session.plan_ast(statement, &[], "").await?;
    let of = planned.plan.schema().field(0).data_type().clone();
    match of {
        ArrowType::Boolean | ArrowType::Null => Ok(()),
        _ => {
            let results = results_of(planned.plan.schema().as_arrow());
            let of = results
                .first()
                .map_or_else(String::new, |result| result.of.to_string());
            let what = format!("argument of CHECK must be type boolean, not type {of}");
            Err(Refusal::new(error::MISMATCH, what))
        }
    }
}

/// A default as it is kept, and, of one that is a constant, its value: none where it is NULL.
///
/// # Errors
/// What has no place in one, or does not fit the column.
pub(super) fn default_of(
    expr: &Expr,
    column: &Column,
    zone: &Zone,
    seen: &Seen,
) -> Result<ColumnDefault, Refusal> {
    match constant(expr, column, zone) {
        Some(Ok(None)) => return Ok(ColumnDefault::None),
        Some(Ok(Some(value))) => {
            return store_value(column, &value, zone).map(ColumnDefault::Constant);
        }
        Some(Err(refusal)) => return Err(refusal),
        None => {}
    }
    let parts = parts(expr);
    let refused = |what: &str| Refusal::new("0A000", format!("cannot use {what} in DEFAULT expression"));
    if parts.subquery {
        return Err(refused("subquery"));
    }
    if !parts.columns.is_empty() {
        return Err(refused("column reference"));
    }
    if parts.aggregate.is_some() {
        let what = "aggregate functions are not allowed in DEFAULT expressions";
        return Err(Refusal::new("42803", what));
    }
    let mut expr = expr.clone();
    let mut sequences = Sequences { seen, refused: None };
    _ = VisitMut::visit(&mut expr, &mut sequences);
    match sequences.refused {
        Some(refusal) => Err(refusal),
        None => Ok(ColumnDefault::Expression(expr.to_string())),
    }
}

/// Names the sequences of `nextval` with their schemas, as PostgreSQL keeps their numbers.
struct Sequences<'s> {
    seen: &'s Seen,
    refused: Option<Refusal>,
}

impl VisitorMut for Sequences<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        let name = function.name.to_string().to_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        if !matches!(name, "nextval" | "currval") {
            return ControlFlow::Continue(());
        }
        let FunctionArguments::List(list) = &mut function.args else {
            return ControlFlow::Continue(());
        };
        if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_mut_slice()
            && let Some(text) = text_of(argument)
        {
            match sequence_named(self.seen, &text) {
                Ok(text) => {
                    *argument = Expr::Value(Literal::SingleQuotedString(text).into());
                    function.name = ast::ObjectName::from(vec![Ident::new(name)]);
                }
                Err(refusal) => {
                    self.refused = Some(refusal);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The text of a literal, perhaps with a cast.
fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text)
            | Literal::EscapedStringLiteral(text)
            | Literal::NationalStringLiteral(text)
            | Literal::UnicodeStringLiteral(text) => Some(text.clone()),
            Literal::DollarQuotedString(text) => Some(text.value.clone()),
            _ => None,
        },
        Expr::Nested(inner) => text_of(inner),
        Expr::Cast { expr, .. } => text_of(expr),
        _ => None,
    }
}

fn sequence_named(seen: &Seen, text: &str) -> Result<String, Refusal> {
    let mut parts = name_parts(text)?;
    let name = parts.pop().unwrap_or_default();
    match seen.find(&(parts.pop(), name.clone())) {
        Some((at, Relation::Sequence)) => Ok(quoted_at(&at)),
        Some(_) => Err(error::not_a("sequence", &name)),
        None => Err(error::no_relation(text)),
    }
}

type Constant = Option<Value<'static>>;

/// The value of an expression that is one; the inner `None` is NULL.
fn constant(expr: &Expr, column: &Column, zone: &Zone) -> Option<Result<Constant, Refusal>> {
    let read = |text: &str, of: Type| {
        let value = Value::read(of, Format::Text, text.as_bytes(), zone);
        value.map(|value| Some(value.into_owned()))
    };
    let number = |text: &str| match text.parse::<i64>() {
        Ok(number) => Ok(Some(Value::Int8(number))),
        Err(_) => Numeric::parse(text).map(|number| Some(Value::Numeric(number))),
    };
    match expr {
        Expr::Nested(inner) => constant(inner, column, zone),
        Expr::Value(value) => match &value.value {
            Literal::Null => Some(Ok(None)),
            Literal::Boolean(value) => Some(Ok(Some(Value::Bool(*value)))),
            Literal::Number(text, _) => Some(number(&text.to_string())),
            _ => text_of(expr).map(|text| read(&text, column.declared.of)),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match &**expr {
            Expr::Value(value) => match &value.value {
                Literal::Number(text, _) => Some(number(&format!("-{text}"))),
                _ => None,
            },
            _ => None,
        },
        Expr::Cast { expr, data_type, .. } => {
            let of = store_type(data_type).ok()?.0;
            match &**expr {
                Expr::Value(value) if matches!(value.value, Literal::Null) => Some(Ok(None)),
                Expr::Value(_) => match text_of(expr) {
                    Some(text) => Some(read(&text, of.of)),
                    // `0::numeric`: what becomes of it the column's type says.
                    None => constant(expr, column, zone),
                },
                Expr::UnaryOp { .. } | Expr::Nested(_) if text_of(expr).is_none() => {
                    constant(expr, column, zone)
                }
                _ => None,
            }
        }
        Expr::TypedString(typed) => {
            let of = store_type(&typed.data_type).ok()?.0;
            let text = text_of(&Expr::Value(typed.value.clone()))?;
            Some(read(&text, of.of))
        }
        _ => None,
    }
}
