//! [`label`]: columns without an alias get the names that PostgreSQL gives them (`FigureColname` of its parser), not those of DataFusion.
//!
//! The name becomes an alias, so that queries around a subquery know it, too. DataFusion wants the names of one SELECT to differ: where one is
//! there twice, or may be meant by something else, it gets [`MARK`] and a number, which [`shown`] takes away before a client sees it.

use super::scopes::folded;
use crate::data::DataError;
use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, ArrayElemTypeDef, DataType, ExactNumberInfo, Expr, Ident, ObjectName, OrderByKind,
    Query, Select, SelectItem, SetExpr, TimezoneInfo, TrimWhereField, Value, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What PostgreSQL calls a column that no rule names.
const UNNAMED: &str = "?column?";
/// Begins what is not part of a name; no client writes it.
const MARK: char = '\u{1}';

/// Columns that one SELECT may list; PostgreSQL's number. Their names are compared with each other.
const COLUMNS_MAX: usize = 1664;

/// Gives all columns of a statement without an alias theirs.
///
/// # Errors
/// More than [`COLUMNS_MAX`] columns of one SELECT.
pub(super) fn label(statement: &mut ast::Statement) -> Result<(), DataError> {
    match VisitMut::visit(statement, &mut Labels { outermost: true }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(columns) => {
            let what = format!("a SELECT lists {columns} columns, more than {COLUMNS_MAX}");
            Err(DataError::new("54011", what))
        }
    }
}

/// Gives the outermost columns of `to` the names that they have in `from`, where both have as many.
pub(super) fn label_as(from: &ast::Statement, to: &mut ast::Statement) {
    let (ast::Statement::Query(from), ast::Statement::Query(to)) = (from, to) else {
        return;
    };
    let (SetExpr::Select(from), SetExpr::Select(to)) = (from.body.as_ref(), to.body.as_mut()) else {
        return;
    };
    if from.projection.len() != to.projection.len() {
        return;
    }
    for (from, to) in from.projection.iter().zip(&mut to.projection) {
        if let (SelectItem::ExprWithAlias { alias, .. }, SelectItem::UnnamedExpr(_)) = (from, &*to) {
            give(to, alias.clone());
        }
    }
}

/// A column's name as clients see it.
pub(crate) fn shown(name: &str) -> &str {
    // An alias would keep DataFusion from unnesting structures.
    match name.starts_with("unnest(") {
        true => "unnest",
        false => name.split(MARK).next().unwrap_or(name),
    }
}

/// A text with names in it as clients see them.
pub(crate) fn shown_in(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(MARK);
    let first = parts.next().unwrap_or(text);
    if first.len() == text.len() {
        return Cow::Borrowed(text);
    }
    let rest = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    Cow::Owned(std::iter::once(first).chain(rest).collect())
}

struct Labels {
    outermost: bool,
}

impl VisitorMut for Labels {
    type Break = usize;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<usize> {
        label_body(&mut query.body, self.outermost)?;
        self.outermost = false;
        order_distinct(query);
        ControlFlow::Continue(())
    }
}

/// `SELECT DISTINCT f(a) ... ORDER BY f(a)` is ordered by the alias: DataFusion no longer sees that both are the same.
fn order_distinct(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else {
        return;
    };
    let OrderByKind::Expressions(by) = &mut order.kind else {
        return;
    };
    for by in by.iter_mut().filter(|_| select.distinct.is_some()) {
        let alias = select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if *expr == by.expr => Some(alias.clone()),
            _ => None,
        });
        if let Some(alias) = alias {
            by.expr = Expr::Identifier(alias);
        }
    }
}

fn label_body(body: &mut SetExpr, outermost: bool) -> ControlFlow<usize> {
    match body {
        SetExpr::Select(select) if select.projection.len() > COLUMNS_MAX => {
            ControlFlow::Break(select.projection.len())
        }
        SetExpr::Select(select) => {
            label_select(select, outermost);
            ControlFlow::Continue(())
        }
        SetExpr::SetOperation { left, right, .. } => {
            label_body(left, outermost)?;
            label_body(right, outermost)
        }
        _ => ControlFlow::Continue(()),
    }
}

fn label_select(select: &mut Select, outermost: bool) {
    let items = &select.projection;
    let names: Vec<Option<String>> = items.iter().map(name_of).collect();
    let wild = names.iter().any(Option::is_none);
    let elsewhere = Mentioned::of(select);
    let mut aliases = Vec::new();
    for (at, (item, name)) in items.iter().zip(&names).enumerate() {
        let (SelectItem::UnnamedExpr(of), Some(name)) = (item, name) else {
            continue;
        };
        let again = items[..at].iter().any(|before| same_column(before, item))
            || is_column(of) && items.iter().any(|wild| may_have(wild, of, outermost));
        if is_unnest(of) || is_column(of) && !again {
            continue;
        }
        let twice = names.iter().flatten().filter(|other| *other == name).count() > 1;
        let alias = match again || wild || twice || elsewhere.contains(name) {
            true => format!("{name}{MARK}{at}"),
            false => name.clone(),
        };
        aliases.push((at, alias));
    }
    for (at, alias) in aliases {
        give(&mut select.projection[at], Ident::with_quote('"', alias));
    }
}

fn give(item: &mut SelectItem, alias: Ident) {
    if let SelectItem::UnnamedExpr(expr) = item {
        let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// `None`: it stands for several columns.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(of) => Some(figured(of).map_or_else(|| UNNAMED.to_owned(), |(name, _)| name)),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

/// Whether two items may be the same column, which DataFusion takes once only.
fn same_column(one: &SelectItem, other: &SelectItem) -> bool {
    let bare = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(_)));
    let column = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(of) if is_column(of));
    let may_be = column(one) && column(other) && (bare(one) || bare(other));
    one == other || may_be && name_of(one) == name_of(other)
}

/// Whether `*` or `t.*` may have a column that stands beside it. Queries around a subquery must find the column by its name, so there only what
/// surely is there twice counts.
fn may_have(wild: &SelectItem, column: &Expr, outermost: bool) -> bool {
    match (wild, column) {
        (SelectItem::Wildcard(_), _) => true,
        (SelectItem::QualifiedWildcard(..), Expr::Identifier(_)) => outermost,
        (SelectItem::QualifiedWildcard(of, _), Expr::CompoundIdentifier(parts)) => {
            of.to_string().to_lowercase() == format!("{}.*", folded(&parts[0]))
                || of.to_string() == folded(&parts[0])
        }
        _ => false,
    }
}

/// What DataFusion names as PostgreSQL does; a longer one may be a field of a structure.
fn is_column(of: &Expr) -> bool {
    match of {
        // A call without parentheses.
        Expr::Identifier(name) => {
            name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("current_schema")
        }
        Expr::CompoundIdentifier(parts) => parts.len() == 2,
        _ => false,
    }
}

fn is_unnest(of: &Expr) -> bool {
    matches!(of, Expr::Function(function) if last(&function.name) == "unnest")
}

/// Names in HAVING and QUALIFY: columns for PostgreSQL, also aliases for DataFusion.
#[derive(Default)]
struct Mentioned(HashSet<String>);

impl Mentioned {
    fn of(select: &Select) -> HashSet<String> {
        let mut mentioned = Mentioned::default();
        for of in [&select.having, &select.qualify].into_iter().flatten() {
            _ = of.visit(&mut mentioned);
        }
        mentioned.0
    }
}

impl Visitor for Mentioned {
    type Break = ();

    fn pre_visit_expr(&mut self, of: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = of {
            self.0.insert(folded(name));
        }
        ControlFlow::Continue(())
    }
}

fn last(name: &ObjectName) -> String {
    let ident = name.0.last().and_then(|part| part.as_ident());
    ident.map(folded).unwrap_or_default()
}

/// An expression's name, and whether it counts more than the type that it is cast to.
fn figured(of: &Expr) -> Option<(String, bool)> {
    let good = |name: &str| Some((name.to_owned(), true));
    let weak = |name: String| Some((name, false));
    let good_of = |of: &Expr| figured(of).filter(|(_, good)| *good);
    match of {
        Expr::Identifier(name) => good(&folded(name)),
        Expr::CompoundIdentifier(parts) => good(&folded(parts.last()?)),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            field.map_or_else(|| figured(root), |name| good(&name))
        }
        Expr::Nested(inner) => figured(inner),
        Expr::Collate { expr, .. } => figured(expr),
        Expr::Cast { expr, data_type, .. } => good_of(expr).or_else(|| weak(type_name(data_type))),
        Expr::TypedString(of) => weak(type_name(&of.data_type)),
        Expr::Interval(_) => weak("interval".to_owned()),
        Expr::Case { else_result, .. } => {
            let result = else_result.as_deref().and_then(good_of);
            result.or_else(|| weak("case".to_owned()))
        }
        Expr::Function(function) => good(&last(&function.name)),
        Expr::Subquery(query) => good(&name_of(first(&query.body)?)?),
        Expr::Exists { negated: false, .. } => good("exists"),
        Expr::Array(_) => good("array"),
        Expr::Tuple(_) => good("row"),
        Expr::Extract { .. } => good("extract"),
        Expr::AtTimeZone { .. } => good("timezone"),
        Expr::Ceil { .. } => good("ceil"),
        Expr::Floor { .. } => good("floor"),
        Expr::Position { .. } => good("position"),
        Expr::Overlay { .. } => good("overlay"),
        Expr::Substring { shorthand, .. } => good(if *shorthand { "substr" } else { "substring" }),
        Expr::Trim { trim_where, .. } => good(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

/// The first column of a query.
fn first(body: &SetExpr) -> Option<&SelectItem> {
    match body {
        SetExpr::Select(select) => select.projection.first(),
        SetExpr::SetOperation { left, .. } => first(left),
        SetExpr::Query(query) => first(&query.body),
        _ => None,
    }
}

/// A type's own name, which SQL may write differently.
fn type_name(of: &DataType) -> String {
    let zoned = |of: &TimezoneInfo| match of {
        TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => "tz",
        _ => "",
    };
    let name = match of {
        DataType::Char(_) | DataType::Character(_) => "bpchar",
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => "varchar",
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric",
        DataType::SmallInt(_) | DataType::Int2(_) => "int2",
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4",
        DataType::BigInt(_) | DataType::Int8(_) => "int8",
        DataType::Float(ExactNumberInfo::Precision(1..=24)) | DataType::Real | DataType::Float4 => "float4",
        DataType::Float(_) | DataType::Float8 | DataType::Double(_) | DataType::DoublePrecision => "float8",
        DataType::Bool | DataType::Boolean => "bool",
        DataType::Bit(_) => "bit",
        DataType::BitVarying(_) | DataType::VarBit(_) => "varbit",
        DataType::Interval { .. } => "interval",
        DataType::Time(_, zone) => return format!("time{}", zoned(zone)),
        DataType::Timestamp(_, zone) => return format!("timestamp{}", zoned(zone)),
        DataType::Custom(name, _) => return last(name),
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(of, _)
            | ArrayElemTypeDef::AngleBracket(of)
            | ArrayElemTypeDef::Parenthesis(of),
        ) => return type_name(of),
        other => {
            let text = other.to_string().to_lowercase();
            return text.split('(').next().unwrap_or(&text).to_owned();
        }
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn labelled(sql: &str) -> String {
        let mut parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        label(&mut parsed).unwrap();
        parsed.to_string().replace(MARK, "#")
    }

    #[test]
    fn names_that_are_there_twice_are_marked() {
        assert_eq!(
            labelled("SELECT 1, 2, a, t.a, a FROM t"),
            "SELECT 1 AS \"?column?#0\", 2 AS \"?column?#1\", a, t.a AS \"a#3\", a AS \"a#4\" FROM t"
        );
        assert_eq!(
            labelled("SELECT *, a, upper(b) FROM t"),
            "SELECT *, a AS \"a#1\", upper(b) AS \"upper#2\" FROM t"
        );
        assert_eq!(
            labelled("SELECT b, max(a::INT) FROM t GROUP BY b HAVING max > 1"),
            "SELECT b, max(a::INT) AS \"max#1\" FROM t GROUP BY b HAVING max > 1"
        );
    }

    #[test]
    fn inner_queries_have_names_too() {
        assert_eq!(
            labelled("SELECT count FROM (SELECT count(*) FROM t) AS s UNION ALL SELECT (SELECT 1)::TEXT"),
            "SELECT count FROM (SELECT count(*) AS \"count\" FROM t) AS s UNION ALL \
             SELECT (SELECT 1 AS \"?column?\")::TEXT AS \"?column?\""
        );
    }

    #[test]
    fn clients_see_no_mark() {
        assert_eq!(shown("a\u{1}12"), "a");
        assert_eq!(shown_in("x: a\u{1}12, b\u{1}3"), "x: a, b");
        assert_eq!(shown_in("plain"), "plain");
    }
}
