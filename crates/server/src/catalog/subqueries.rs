//! [`Before`]: what the general rewriting of a statement about the system tables would lose, written otherwise before it: mostly subqueries that
//! depend on the row, for which there are functions here.
//!
//! What it is not: a way to plan them; what no rule here knows becomes null later ([`super::rewrite`]).

use super::rewrite::{call, last, literal, type_name};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, SelectItem,
    SetExpr, TableFactor, Value, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What the other rewrites would lose: `'schema.table'::regclass`, which they take for a table of that name, and do not look at in statements of
/// users; and what reads a column's default from `pg_attrdef` or the columns of a key or an index, which they make null or leave to DataFusion,
/// which cannot plan it.
#[derive(Default)]
pub(super) struct Before {
    changed: bool,
}

impl Before {
    pub(super) fn has_changed(&self) -> bool {
        self.changed
    }
}

impl VisitorMut for Before {
    type Break = ();

    fn pre_visit_expr(&mut self, of: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = of {
            sequence_by_name(function);
        }
        if let Expr::Cast { expr, data_type, .. } = of
            && type_name(data_type) == "regclass"
            && literal(expr).is_some_and(|text| !is_number(text))
        {
            let argument = std::mem::replace(expr.as_mut(), Expr::Value(Value::Null.into()));
            *of = call("regclass_of", vec![argument]);
            self.changed = true;
        }
        let written = match of {
            Expr::Subquery(query) => {
                let default = column_of_default(query).map(|column| call("attribute_default", column));
                let key = || Some(call("referenced_column", column_of_key(query)?));
                let identity = || Some(call("identity_options", column_of_identity(query)?));
                default.or_else(key).or_else(identity)
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated: false,
            } if asks_for_ancestors(subquery) => ancestor(expr, subquery),
            Expr::Function(function) => names_of_key(function).map(|key| call("attribute_names", key)),
            _ => None,
        };
        if let Some(written) = written {
            *of = written;
            self.changed = true;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, of: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = of
            && let SetExpr::Select(select) = subquery.body.as_mut()
            && let [index, keys] = select.from.as_mut_slice()
            && matches!(&keys.relation, TableFactor::UNNEST { with_ordinality: true, array_exprs, .. } if array_exprs.len() == 2)
            && let TableFactor::Table { name, .. } = &mut index.relation
            && last(name).is_some_and(|name| name == "pg_index")
        {
            *name = ObjectName::from(vec![Ident::new("pg_catalog"), Ident::new("corun_index_keys")]);
            select.from.truncate(1);
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// Table and numbers of the columns whose names `array(SELECT attname FROM unnest(conkey) WITH ORDINALITY ...)` lists.
fn names_of_key(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::Subquery(query) = &function.args else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let TableFactor::UNNEST { array_exprs, .. } = &select.from.first()?.relation else {
        return None;
    };
    let mut columns = Columns::default();
    _ = ast::Visit::visit(select.selection.as_ref()?, &mut columns);
    Some(vec![columns.named("conrelid")?, array_exprs.first()?.clone()])
}

/// Columns of the condition of a subquery that reads this table alone.
fn condition_over(query: &ast::Query, table: &str) -> Option<Columns> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [from] = select.from.as_slice() else {
        return None;
    };
    let TableFactor::Table { name, .. } = &from.relation else {
        return None;
    };
    if last(name)? != table || !from.joins.is_empty() {
        return None;
    }
    let mut columns = Columns::default();
    _ = ast::Visit::visit(select.selection.as_ref()?, &mut columns);
    Some(columns)
}

/// Table and number of the column whose default a subquery over `pg_attrdef` reads.
fn column_of_default(query: &ast::Query) -> Option<Vec<Expr>> {
    let columns = condition_over(query, "pg_attrdef")?;
    Some(vec![columns.named("attrelid")?, columns.named("attnum")?])
}

/// Table and name of the column whose sequence a subquery over `pg_sequence` describes as JSON.
fn column_of_identity(query: &ast::Query) -> Option<Vec<Expr>> {
    let columns = condition_over(query, "pg_sequence")?;
    Some(vec![columns.named("attrelid")?, columns.named("attname")?])
}

/// Table and numbers of the columns whose first a subquery names, as `table.column`.
fn column_of_key(query: &ast::Query) -> Option<Vec<Expr>> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [SelectItem::UnnamedExpr(shown) | SelectItem::ExprWithAlias { expr: shown, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let mut names = Columns::default();
    _ = ast::Visit::visit(shown, &mut names);
    names.named("relname").and(names.named("attname"))?;
    let mut columns = Columns::default();
    _ = ast::Visit::visit(select.selection.as_ref()?, &mut columns);
    Some(vec![columns.named("confrelid")?, columns.named("confkey")?])
}

/// `SELECT pg_partition_ancestors(x) UNION ALL VALUES (x::regclass)`: there are no partitions, and it is `x` alone.
fn asks_for_ancestors(query: &ast::Query) -> bool {
    let SetExpr::SetOperation { left, .. } = query.body.as_ref() else {
        return false;
    };
    let SetExpr::Select(select) = left.as_ref() else {
        return false;
    };
    match select.projection.as_slice() {
        [
            SelectItem::UnnamedExpr(Expr::Function(function))
            | SelectItem::ExprWithAlias {
                expr: Expr::Function(function),
                ..
            },
        ] => last(&function.name).is_some_and(|name| name == "pg_partition_ancestors"),
        _ => false,
    }
}

fn ancestor(of: &Expr, query: &ast::Query) -> Option<Expr> {
    let SetExpr::SetOperation { right, .. } = query.body.as_ref() else {
        return None;
    };
    let SetExpr::Values(values) = right.as_ref() else {
        return None;
    };
    let mut itself = values.rows.first()?.first()?;
    if let Expr::Cast { expr, .. } = itself {
        itself = expr.as_ref();
    }
    Some(Expr::BinaryOp {
        left: Box::new(of.clone()),
        op: ast::BinaryOperator::Eq,
        right: Box::new(itself.clone()),
    })
}

/// `nextval('s'::regclass)` as `nextval('s')`: sequences are asked by their names.
fn sequence_by_name(function: &mut Function) {
    let name = last(&function.name).unwrap_or_default();
    if let FunctionArguments::List(list) = &mut function.args
        && matches!(name.as_str(), "nextval" | "currval" | "setval")
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) = list.args.first_mut()
        && let Expr::Cast { expr, data_type, .. } = argument
        && type_name(data_type) == "regclass"
        && literal(expr).is_some_and(|text| !is_number(text))
    {
        *argument = expr.as_ref().clone();
    }
}

/// Columns with the names of their tables.
#[derive(Default)]
struct Columns(Vec<(String, Expr)>);

impl Columns {
    fn named(&self, name: &str) -> Option<Expr> {
        let (_, column) = self.0.iter().find(|(known, _)| known == name)?;
        Some(column.clone())
    }
}

impl Visitor for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, of: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = of
            && let Some(last) = parts.last()
        {
            self.0.push((last.value.to_ascii_lowercase(), of.clone()));
        }
        // `c.confkey[1]`
        if let Expr::CompoundFieldAccess { root, access_chain } = of
            && let Expr::Identifier(table) = root.as_ref()
            && let Some(ast::AccessExpr::Dot(Expr::Identifier(column))) = access_chain.first()
        {
            let names = vec![table.clone(), column.clone()];
            let name = column.value.to_ascii_lowercase();
            self.0.push((name, Expr::CompoundIdentifier(names)));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::parse;

    #[track_caller]
    fn check(sql: &str, wanted: &str) {
        let found = parse(sql).expect("SQL");
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.join("; ").contains(wanted), "{found:?}");
    }

    #[test]
    fn subqueries_of_clients_are_calls() {
        check(
            "SELECT (SELECT k.relname || '.' || a.attname FROM pg_attribute AS a JOIN pg_class AS k ON a.attrelid = k.oid \
             WHERE a.attrelid = c.confrelid AND a.attnum = c.confkey[1]) AS r FROM pg_constraint c",
            "referenced_column(c.confrelid, c.confkey) AS r",
        );
        check(
            "SELECT CASE WHEN a.attidentity <> '' THEN (SELECT json_build_object('start', pg_sequence.seqstart) FROM pg_sequence \
             WHERE pg_sequence.seqrelid = pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass::oid) END AS i \
             FROM pg_attribute a",
            "THEN identity_options(a.attrelid, a.attname) END AS i",
        );
        check(
            "SELECT conname FROM pg_constraint c WHERE confrelid IN (SELECT pg_catalog.pg_partition_ancestors('7') \
             UNION ALL VALUES ('7'::pg_catalog.regclass)) AND contype = 'f'",
            "WHERE confrelid = '7' AND contype = 'f'",
        );
        check("SELECT nextval('s'::regclass) AS n", "SELECT nextval('s') AS n");
        check(
            "SELECT nextval('a.s'::pg_catalog.regclass) AS n",
            "SELECT nextval('a.s') AS n",
        );
    }
}
