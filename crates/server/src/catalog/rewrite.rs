//! [`parse`]: statements of clients, those about the system tables written so that DataFusion plans them.
//!
//! Statements that name no system table keep their meaning whatever they say; only names of functions lose their schema, and `current_user`
//! and the like become calls. What names one is rewritten by `datafusion-pg-catalog`, which replaces what DataFusion cannot do: a subquery in
//! the list of columns that depends on the row becomes null. That is why users' statements do not go there.

use super::arrays;
use super::dump;
use super::exists::as_counts;
use super::labels::{label, label_as};
use super::scopes::{Scopes, folded};
use super::subqueries::Before;
use super::typed;
use datafusion::error::Result;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, ObjectName, ObjectNamePart, SelectItem, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use datafusion_pg_catalog::sql::rules::{self, SqlStatementRewriteRule, StripCallableQualifier};
use std::cell::LazyCell;
use std::ops::ControlFlow;
use std::sync::LazyLock;

static COMPATIBLE: LazyLock<PostgresCompatibilityParser> = LazyLock::new(PostgresCompatibilityParser::new);

/// What that rewrites, but for the rule that takes each name of a system table for that table, whatever the statement itself calls so.
fn rules_without_names() -> Vec<Box<dyn SqlStatementRewriteRule>> {
    vec![
        Box::new(rules::AliasDuplicatedProjectionRewrite),
        Box::new(rules::ResolveUnqualifiedIdentifier),
        Box::new(rules::RewriteArrayAnyAllOperation),
        Box::new(StripCallableQualifier),
        Box::new(rules::FixArrayLiteral),
        Box::new(rules::CurrentUserVariableToSessionUserFunctionCall),
        Box::new(rules::StripCollate),
        Box::new(rules::RewritePgCatalogOperator),
        Box::new(rules::RewriteRegCastToSubquery::new()),
        Box::new(rules::RemoveSubqueryFromProjection),
        Box::new(rules::FixVersionColumnName),
    ]
}

/// The statements of a text, ready to be planned.
///
/// # Errors
/// A text that is not SQL.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let statements = DFParserBuilder::new(sql)
        .with_dialect(&PostgreSqlDialect {})
        .build()?
        .parse_statements()?;
    let count = statements.len();
    // The same statements, with whole texts of known clients replaced; statements that only DataFusion has are no SQL to that parser.
    let replaced = LazyCell::new(|| {
        let replaced = COMPATIBLE.parse(sql).ok();
        replaced
            .filter(|replaced| replaced.len() == count)
            .unwrap_or_default()
    });
    let rewritten = statements
        .into_iter()
        .enumerate()
        .map(|(at, statement)| match statement {
            Statement::Statement(sql) => {
                let sql = rewritten(*sql, || replaced.get(at).cloned())?;
                Ok(Statement::Statement(Box::new(sql)))
            }
            other => Ok(other),
        });
    rewritten.collect()
}

/// A statement that was made of a client's, ready to be planned.
///
/// # Errors
/// None that is known.
pub(crate) fn plannable(sql: ast::Statement) -> Result<Statement> {
    Ok(Statement::Statement(Box::new(rewritten(sql, || None)?)))
}

/// `replaced` is asked only of statements about the system's tables.
fn rewritten(
    mut sql: ast::Statement,
    replaced: impl FnOnce() -> Option<ast::Statement>,
) -> Result<ast::Statement> {
    let mut names = SystemNames::default();
    _ = sql.visit(&mut names);
    // Columns are named by what the client wrote, not by what becomes of it.
    label(&mut sql)?;
    let mut before = Before::default();
    _ = sql.visit(&mut before);
    let for_dump = dump::for_dump(&mut sql);
    let mut sql = if !names.found {
        StripCallableQualifier.rewrite(sql)
    } else if let Some(mut replaced) =
        replaced().filter(|_| !before.has_changed() && !for_dump && !names.other)
    {
        label_as(&sql, &mut replaced);
        label(&mut replaced)?;
        replaced
    } else if names.other {
        let rules = rules_without_names();
        rules.iter().fold(sql, |sql, rule| rule.rewrite(sql))
    } else {
        COMPATIBLE.rewrite(sql)
    };
    _ = sql.visit(&mut SystemNames::default());
    _ = sql.visit(&mut Shown { system: names.found });
    Ok(sql)
}

/// Gives the system's tables their schema, and sees whether there are any.
#[derive(Default)]
struct SystemNames {
    found: bool,
    /// Whether there are names of the system's tables that mean something else.
    other: bool,
    scopes: Scopes,
}

impl VisitorMut for SystemNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, of: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, .. } = of {
            let parts: Vec<String> = name
                .0
                .iter()
                .filter_map(|part| part.as_ident().map(folded))
                .collect();
            match parts.as_slice() {
                [only] if self.scopes.has(only) => self.other = true,
                [only] if super::schema::system_tables().any(|known| known == only) => {
                    self.found = true;
                    name.0
                        .insert(0, ObjectNamePart::Identifier(Ident::new("pg_catalog")));
                }
                [only] if super::schema::system_tables().any(|known| known.eq_ignore_ascii_case(only)) => {
                    self.other = true;
                }
                [.., schema, _] if schema == "pg_catalog" || schema == "information_schema" => {
                    self.found = true
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let arguments = arguments
        .into_iter()
        .map(|of| FunctionArg::Unnamed(FunctionArgExpr::Expr(of)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        args: FunctionArguments::List(FunctionArgumentList {
            args: arguments.collect(),
            duplicate_treatment: None,
            clauses: vec![],
        }),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// The bare name of a type: `pg_catalog.regclass` is `regclass`.
pub(super) fn type_name(of: &ast::DataType) -> String {
    let name = of.to_string().to_ascii_lowercase();
    name.strip_prefix("pg_catalog.")
        .map(str::to_owned)
        .unwrap_or(name)
}

pub(super) fn literal(of: &Expr) -> Option<&str> {
    match of {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn last(name: &ObjectName) -> Option<String> {
    Some(name.0.last()?.as_ident()?.value.to_ascii_lowercase())
}

/// A subquery that stands for one value, written so that DataFusion sees that it has at most one row.
fn at_most_one(query: &mut ast::Query) {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let aggregates = [
        "array_agg",
        "string_agg",
        "count",
        "max",
        "min",
        "sum",
        "json_agg",
        "bool_or",
        "bool_and",
    ];
    if let ([SelectItem::UnnamedExpr(of) | SelectItem::ExprWithAlias { expr: of, .. }], false) =
        (select.projection.as_mut_slice(), limited)
    {
        let text = of.to_string().to_ascii_lowercase();
        if !aggregates.iter().any(|name| text.contains(&format!("{name}("))) {
            let value = std::mem::replace(of, Expr::Value(Value::Null.into()));
            *of = call("min", vec![value]);
            query.order_by = None;
        }
    }
}

/// Makes subqueries null: in a column's `CASE` they depend on the row, which DataFusion cannot plan there.
struct NoSubqueries;

impl VisitorMut for NoSubqueries {
    type Break = ();

    fn pre_visit_expr(&mut self, of: &mut Expr) -> ControlFlow<()> {
        if matches!(of, Expr::Subquery(_)) {
            *of = Expr::Value(Value::Null.into());
        }
        ControlFlow::Continue(())
    }
}

/// Numbers that a client is to see as names, and what DataFusion writes differently.
struct Shown {
    /// Whether the statement asks the system's tables.
    system: bool,
}

/// `x LIKE 'a/_b' ESCAPE '/'` with the escape that DataFusion has.
pub(super) fn backslash(pattern: &str, escape: char) -> String {
    let mut chars = pattern.chars();
    let mut written = String::new();
    while let Some(c) = chars.next() {
        match c {
            _ if c == escape => {
                written.push('\\');
                written.extend(chars.next());
            }
            '\\' => written.push_str("\\\\"),
            c => written.push(c),
        }
    }
    written
}

/// Functions that DataFusion has as something else.
fn otherwise(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match (last(&function.name)?.as_str(), list.args.as_slice()) {
        ("statement_timestamp" | "transaction_timestamp", []) => Some(call("now", vec![])),
        (
            "mod",
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
            ],
        ) => {
            let within = |of: &Expr| Box::new(Expr::Nested(Box::new(of.clone())));
            Some(Expr::Nested(Box::new(Expr::BinaryOp {
                left: within(left),
                op: ast::BinaryOperator::Modulo,
                right: within(right),
            })))
        }
        _ => None,
    }
}

/// The type that PostgreSQL gives a rank; DataFusion's has no sign, and would be a `numeric`.
fn type_of_rank(function: &Function) -> Option<ast::DataType> {
    function.over.as_ref()?;
    match last(&function.name)?.as_str() {
        "row_number" | "rank" | "dense_rank" => Some(ast::DataType::BigInt(None)),
        "ntile" => Some(ast::DataType::Integer(None)),
        _ => None,
    }
}

fn is_uuid(of: &Expr) -> bool {
    match of {
        Expr::Nested(inner) => is_uuid(inner),
        Expr::Function(function) => last(&function.name).is_some_and(|name| name == "corun_uuid"),
        _ => false,
    }
}

impl Shown {
    /// `x::regclass` as the name of `x`.
    fn name_of(of: &mut Expr) -> Option<Expr> {
        let Expr::Cast { expr, data_type, .. } = of else {
            return None;
        };
        if literal(expr).is_some() {
            return None;
        }
        let shown = match type_name(data_type).as_str() {
            "regclass" => "regclass_name",
            "regnamespace" => "regnamespace_name",
            "regrole" => "pg_get_userbyid",
            "regtype" => "format_type",
            _ => return None,
        };
        let argument = std::mem::replace(expr.as_mut(), Expr::Value(Value::Null.into()));
        let mut arguments = vec![argument];
        if shown == "format_type" {
            arguments.push(Expr::Value(Value::Number("-1".to_owned(), false).into()));
        }
        Some(call(shown, arguments))
    }
}

/// The one column of `generate_series` is called as its alias. Without one it keeps the name that DataFusion gives it.
fn name_column(factor: &mut TableFactor) {
    let TableFactor::Table {
        name,
        args: Some(_),
        alias: Some(alias),
        ..
    } = factor
    else {
        return;
    };
    if last(name).is_some_and(|name| name == "generate_series") && alias.columns.is_empty() {
        alias.columns.push(ast::TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        });
    }
}

impl VisitorMut for Shown {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        name_column(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_mut() {
            for item in &mut select.projection {
                let (SelectItem::UnnamedExpr(of) | SelectItem::ExprWithAlias { expr: of, .. }) = item else {
                    continue;
                };
                if let Some(name) = Shown::name_of(of) {
                    *of = name;
                }
                as_counts(of);
            }
            for item in select.projection.iter_mut().filter(|_| self.system) {
                if let SelectItem::UnnamedExpr(of) | SelectItem::ExprWithAlias { expr: of, .. } = item
                    && matches!(of, Expr::Case { .. })
                {
                    _ = of.visit(&mut NoSubqueries);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, of: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast {
            kind: CastKind::DoubleColon | CastKind::Cast,
            expr,
            data_type,
            ..
        } = of
            && matches!(type_name(data_type).as_str(), "text" | "varchar" | "name")
            && let Some(name) = Shown::name_of(expr)
        {
            *of = name;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, of: &mut Expr) -> ControlFlow<()> {
        let take = |of: &mut Expr| std::mem::replace(of, Expr::Value(Value::Null.into()));
        if let Expr::Function(function) = of
            && let Some(data_type) = type_of_rank(function)
        {
            let expr = Box::new(take(of));
            *of = Expr::Cast {
                kind: CastKind::Cast,
                expr,
                data_type,
                array: false,
                format: None,
            };
        }
        if let Expr::Function(function) = of
            && let Some(written) = otherwise(function)
        {
            *of = written;
        }
        match of {
            Expr::Identifier(name)
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("current_schema") =>
            {
                *of = call("current_schema", vec![]);
            }
            Expr::Function(function) if matches!(function.args, FunctionArguments::None) => {
                match function.name.to_string().to_ascii_lowercase().as_str() {
                    "current_catalog" => *of = call("current_database", vec![]),
                    "user" | "current_role" => *of = call("current_user", vec![]),
                    _ => {}
                }
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                *of = call(super::zones::TIMEZONE, vec![take(time_zone), take(timestamp)]);
            }
            Expr::Subquery(query) if self.system => at_most_one(query),
            Expr::Cast { expr, data_type, .. } => {
                let hex = literal(expr).and_then(|text| text.strip_prefix("\\x"));
                if let (ast::DataType::Bytea, Some(hex)) = (&*data_type, hex) {
                    let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
                    *of = call("decode", vec![text(hex), text("hex")]);
                } else if let Some(name) = typed::cast_to(data_type) {
                    *of = call(name, vec![take(expr)]);
                } else if let Some(array) = arrays::spelled_out(expr, data_type) {
                    **expr = array;
                } else if matches!(type_name(data_type).as_str(), "text" | "varchar") && is_uuid(expr) {
                    *of = call(typed::UUID_TEXT, vec![take(expr)]);
                }
            }
            Expr::TypedString(written) => {
                if let Some(name) = typed::cast_to(&written.data_type) {
                    *of = call(name, vec![Expr::Value(written.value.clone())]);
                }
            }
            Expr::Function(function) if self.system => {
                let name = function.name.0.last().and_then(|part| part.as_ident());
                let name = name
                    .map(|name| name.value.to_ascii_lowercase())
                    .unwrap_or_default();
                match (name.as_str(), &function.args) {
                    ("_pg_expandarray" | "generate_subscripts", _) => *of = call("unnest", vec![take(of)]),
                    // What it would list (members of roles, policies) there is not.
                    ("array", FunctionArguments::Subquery(_)) => *of = call("no_texts", vec![]),
                    _ => {}
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } if self.system => {
                if let [ast::AccessExpr::Dot(Expr::Identifier(field))] = access_chain.as_slice() {
                    let field =
                        Expr::Value(Value::SingleQuotedString(field.value.to_ascii_lowercase()).into());
                    *of = call("get_field", vec![take(root), field]);
                }
            }
            Expr::Like {
                pattern, escape_char, ..
            }
            | Expr::ILike {
                pattern, escape_char, ..
            } => {
                let escape = escape_char.as_ref().and_then(|escape| match &escape.value {
                    Value::SingleQuotedString(text) => text.chars().next(),
                    _ => None,
                });
                let Some(escape) = escape.filter(|escape| *escape != '\\') else {
                    return ControlFlow::Continue(());
                };
                let text = |text: String| Expr::Value(Value::SingleQuotedString(text).into());
                **pattern = match literal(pattern) {
                    Some(given) => text(backslash(given, escape)),
                    None => call("like_pattern", vec![take(pattern), text(escape.to_string())]),
                };
                *escape_char = None;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> String {
        parse(sql)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn statements_of_users_keep_their_subqueries() {
        let sql = "SELECT (SELECT max(b) AS m FROM u WHERE u.a = t.a) AS n FROM t";
        assert_eq!(of(sql), sql);
    }

    #[test]
    fn a_remainder_is_an_operator() {
        for (sql, written) in [
            (
                "SELECT 2 * mod(a + 1, b) FROM t",
                "SELECT 2 * ((a + 1) % (b)) FROM t",
            ),
            ("SELECT mod(a) FROM t", "SELECT mod(a) FROM t"),
        ] {
            let found = of(sql);
            let (written, _) = written.split_once(" FROM").expect("a query");
            assert!(found.starts_with(written), "{found}");
        }
    }

    #[test]
    fn system_tables_get_their_schema() {
        assert_eq!(
            of("SELECT pid FROM pg_stat_activity"),
            "SELECT pid FROM pg_catalog.pg_stat_activity"
        );
        assert_eq!(of("SELECT * FROM pg_mine"), "SELECT * FROM pg_mine");
    }

    #[test]
    fn names_that_a_statement_gives_itself_are_its_own() {
        for own in [
            "WITH pg_user AS (SELECT 1 AS x) SELECT x FROM pg_user",
            "WITH a AS (SELECT 1 AS x), pg_user AS (SELECT x FROM a) SELECT x FROM (SELECT x FROM PG_USER) AS s",
            "WITH pg_user AS (SELECT 1 AS x) SELECT (SELECT max(x) AS m FROM pg_user) AS m",
            "WITH RECURSIVE pg_user AS (SELECT 1 AS x UNION ALL SELECT x + 1 AS x FROM pg_user WHERE x < 3) SELECT x FROM pg_user",
            "SELECT x FROM \"PG_USER\"",
            "WITH \"PG_USER\" AS (SELECT 1 AS x) SELECT x FROM \"PG_USER\"",
        ] {
            assert_eq!(of(own), own);
        }
        // Not before it is given, nor where it is given no more, nor as a part of another name.
        assert_eq!(
            of("WITH pg_user AS (SELECT usename FROM pg_user) SELECT usename FROM pg_user"),
            "WITH pg_user AS (SELECT usename FROM pg_catalog.pg_user) SELECT usename FROM pg_user"
        );
        assert_eq!(
            of("SELECT x FROM (WITH pg_user AS (SELECT 1 AS x) SELECT x FROM pg_user) AS s, pg_user"),
            "SELECT x FROM (WITH pg_user AS (SELECT 1 AS x) SELECT x FROM pg_user) AS s, pg_catalog.pg_user"
        );
        assert_eq!(
            of("WITH pg_user AS (SELECT 1 AS x) SELECT x, u.usename FROM pg_user, pg_catalog.pg_user AS u"),
            "WITH pg_user AS (SELECT 1 AS x) SELECT x, u.usename FROM pg_user, pg_catalog.pg_user AS u"
        );
    }

    #[test]
    fn numbers_are_shown_as_names() {
        assert_eq!(
            of("SELECT oid::regclass FROM pg_class"),
            "SELECT regclass_name(oid) AS \"oid\" FROM pg_catalog.pg_class"
        );
        assert_eq!(
            of("SELECT 'a.b'::regclass AS r"),
            "SELECT regclass_of('a.b') AS r"
        );
        assert_eq!(of("SELECT 'a'::regclass AS r"), "SELECT regclass_of('a') AS r");
    }

    #[test]
    fn defaults_are_asked_of_a_function() {
        assert_eq!(
            of(
                "SELECT (SELECT d.adbin FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum) AS d FROM pg_attribute a"
            ),
            "SELECT attribute_default(a.attrelid, a.attnum) AS d FROM pg_catalog.pg_attribute a"
        );
    }
}
