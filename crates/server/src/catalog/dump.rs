//! [`for_dump`]: pg_dump's questions about the system tables, answered with what there is of a user's.
//!
//! pg_dump asks each system table for `tableoid` and `oid` first, of all rows, and leaves out what is the system's own. Here:
//!
//! - `tableoid` of a table becomes the number that PostgreSQL's system table of this name has; no table has it as a column;
//! - questions that begin with these two columns about tables whose rows are the system's alone ([`OF_THE_SYSTEM`]: functions, operators, types,
//!   ...) become questions without an answer, since nothing of that kind can be made here;
//! - `acldefault(...)` is null: rights are in the server's file of users, and no dump has them.
//!
//! Poolers ask, too: they write comparisons as `OPERATOR(pg_catalog.=)`.
//!
//! What it is not: a way to ask these tables otherwise; whoever asks for other columns is shown the rows.

use super::rewrite::last;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, Value, VisitMut,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Tables with things that can be made here, and their numbers.
const NUMBERS: &[(&str, u32)] = &[
    ("pg_attrdef", 2604),
    ("pg_class", 1259),
    ("pg_constraint", 2606),
    ("pg_namespace", 2615),
];

/// Tables without any.
const OF_THE_SYSTEM: &[&str] = &[
    "pg_am",
    "pg_cast",
    "pg_collation",
    "pg_conversion",
    "pg_default_acl",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_language",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_rewrite",
    "pg_statistic_ext",
    "pg_subscription",
    "pg_transform",
    "pg_trigger",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_type",
];

/// Tables that have no rows, of which pg_dump asks these columns first, with functions that are not here.
const EMPTY: &[(&str, &str)] = &[("pg_partitioned_table", "partrelid"), ("pg_seclabels", "label")];

const TABLE_NUMBER: &str = "tableoid";

/// Whether it has changed anything.
pub(super) fn for_dump(sql: &mut ast::Statement) -> bool {
    let mut questions = Questions { changed: false };
    _ = sql.visit(&mut questions);
    questions.changed
}

struct Questions {
    changed: bool,
}

impl VisitorMut for Questions {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_mut() {
            if let Some(names) = unanswered(select) {
                select.projection = names.into_iter().map(null_named).collect();
                select.from.clear();
                select.selection = Some(Expr::Value(Value::Boolean(false).into()));
                query.order_by = None;
                self.changed = true;
            } else {
                self.changed |= number(select);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, of: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = of
            && last(&function.name).is_some_and(|name| name == "acldefault")
        {
            *of = Expr::Value(Value::Null.into());
            self.changed = true;
        }
        if let Expr::BinaryOp { op, .. } = of
            && let Some(plain) = plain(op)
        {
            *op = plain;
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// A comparison that names PostgreSQL's own operator: `OPERATOR(pg_catalog.=)`.
fn plain(op: &BinaryOperator) -> Option<BinaryOperator> {
    let BinaryOperator::PGCustomBinaryOperator(parts) = op else {
        return None;
    };
    let [schema, sign] = parts.as_slice() else {
        return None;
    };
    let plain = match sign.as_str() {
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        _ => return None,
    };
    (schema == "pg_catalog").then_some(plain)
}

/// The tables of a `FROM` with the names that the rest knows them by.
fn tables(select: &Select) -> Vec<(String, String)> {
    let joined = |from: &ast::TableWithJoins| {
        let joins = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation)
            .chain(joins)
            .filter_map(table)
            .collect::<Vec<_>>()
    };
    select.from.iter().flat_map(joined).collect()
}

fn table(of: &TableFactor) -> Option<(String, String)> {
    // With arguments it is a function.
    let TableFactor::Table {
        name,
        alias,
        args: None,
        ..
    } = of
    else {
        return None;
    };
    let schema = name.0.iter().rev().nth(1).and_then(|part| part.as_ident());
    if schema.is_some_and(|schema| schema.value != "pg_catalog") {
        return None;
    }
    let name = last(name)?;
    let known_by = alias
        .as_ref()
        .map_or_else(|| name.clone(), |alias| alias.name.value.clone());
    Some((known_by, name))
}

/// The column that an item of a list is, if it is one.
fn column(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::UnnamedExpr(of) | SelectItem::ExprWithAlias { expr: of, .. } => match of {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        },
        _ => None,
    }
}

/// Names of the columns of a question about what cannot be made here.
fn unanswered(select: &Select) -> Option<Vec<Ident>> {
    let found = tables(select);
    // Before it may be a list of the tables that are dumped.
    let (_, first) = found.first()?;
    let is_column = |at: usize, name: &str| {
        select
            .projection
            .get(at)
            .and_then(column)
            .is_some_and(|column| column.value == name)
    };
    let either = is_column(0, TABLE_NUMBER) && is_column(1, "oid")
        || is_column(0, "oid") && is_column(1, TABLE_NUMBER);
    // Of triggers the table's number comes later.
    let any = || (0..select.projection.len()).any(|at| is_column(at, TABLE_NUMBER));
    let of_the_system = OF_THE_SYSTEM.contains(&first.as_str()) && (either || first == "pg_trigger" && any());
    let empty = EMPTY
        .iter()
        .any(|(table, column)| first == table && is_column(0, column));
    if !of_the_system && !empty {
        return None;
    }
    let names = select.projection.iter().map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        other => column(other).cloned(),
    });
    names.collect()
}

fn null_named(name: Ident) -> SelectItem {
    SelectItem::ExprWithAlias {
        expr: Expr::Value(Value::Null.into()),
        alias: name,
    }
}

/// Writes numbers for the `tableoid` of tables that have things of users; whether there were any.
fn number(select: &mut Select) -> bool {
    let found = tables(select);
    let of_name = |name: &str| NUMBERS.iter().find(|(known, _)| *known == name).map(|of| of.1);
    let numbered = |of: &Expr| match of {
        Expr::Identifier(name) if name.value == TABLE_NUMBER => of_name(&found.first()?.1),
        Expr::CompoundIdentifier(parts) => {
            let [table, name] = parts.as_slice() else {
                return None;
            };
            let (_, of) = found.iter().find(|(known_by, _)| *known_by == table.value)?;
            of_name(of).filter(|_| name.value == TABLE_NUMBER)
        }
        _ => None,
    };
    let mut changed = false;
    for item in &mut select.projection {
        let (of, alias) = match item {
            SelectItem::UnnamedExpr(of) => (of, Ident::new(TABLE_NUMBER)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
            _ => continue,
        };
        if let Some(number) = numbered(of) {
            *item = SelectItem::ExprWithAlias {
                expr: Expr::Value(Value::Number(number.to_string(), false).into()),
                alias,
            };
            changed = true;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn rewritten(text: &str) -> Option<String> {
        let mut sql = Parser::parse_sql(&PostgreSqlDialect {}, text)
            .expect("SQL")
            .remove(0);
        for_dump(&mut sql).then(|| sql.to_string())
    }

    #[test]
    fn questions_of_pg_dump_are_answered_with_what_users_make() {
        let nothing = rewritten("select tableoid, oid, amname from pg_am order by oid");
        assert_eq!(
            nothing.as_deref(),
            Some("SELECT NULL AS tableoid, NULL AS oid, NULL AS amname WHERE false")
        );
        let namespaces =
            rewritten("select n.tableoid, n.oid, acldefault('n', n.nspowner) as a from pg_namespace n");
        assert_eq!(
            namespaces.as_deref(),
            Some("SELECT 2615 AS tableoid, n.oid, NULL AS a FROM pg_namespace n")
        );
        let joined = rewritten(
            "select t.tableoid, c.tableoid as of_key from unnest(array[1]) as src(n) join pg_class t on true \
             join pg_catalog.pg_constraint c on true",
        );
        assert!(
            joined.is_some_and(|text| text.starts_with("SELECT 1259 AS tableoid, 2606 AS of_key FROM")),
            "the tables behind a list of numbers count"
        );
    }

    #[test]
    fn comparisons_may_name_their_schema() {
        let text = "select 1 from t where a operator(pg_catalog.=) 1 and b operator(pg_catalog.>=) 2";
        assert_eq!(
            rewritten(text).as_deref(),
            Some("SELECT 1 FROM t WHERE a = 1 AND b >= 2")
        );
        assert_eq!(rewritten("select a operator(pg_catalog.~) 'b'"), None);
        assert_eq!(rewritten("select a operator(mine.=) 1"), None);
    }

    #[test]
    fn other_questions_stay() {
        for text in [
            "select oid, amname from pg_am",
            "select amname, tableoid from pg_am",
            "select tableoid, oid from shop.pg_am",
            "select tableoid, oid from mine",
        ] {
            assert_eq!(rewritten(text), None, "{text}");
        }
    }
}
