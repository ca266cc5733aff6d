//! [`as_counts`]: `SELECT EXISTS (SELECT ...)`, which DataFusion plans in conditions only, becomes `SELECT (SELECT count(*) > 0 ...)`.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor, UnaryOperator, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;
use std::sync::LazyLock;

/// Whether a query has rows, and a place for one that has to stay as it is.
static COUNTED: LazyLock<Option<Query>> = LazyLock::new(|| {
    let text = "SELECT count(*) > 0 FROM (SELECT 1) AS rows_of";
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text);
    parser.ok()?.parse_query().ok().map(|query| *query)
});

/// Rewrites all `EXISTS` of a column; those within its subqueries stay.
pub(super) fn as_counts(column: &mut Expr) {
    _ = VisitMut::visit(column, &mut Columns { depth: 0 });
}

struct Columns {
    /// Queries around the place of the visit.
    depth: usize,
}

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, of: &mut Expr) -> ControlFlow<()> {
        if let Expr::Exists { subquery, negated } = of
            && self.depth == 0
            && let Some(counted) = counted(subquery)
        {
            let counted = Expr::Subquery(Box::new(counted));
            *of = match negated {
                false => counted,
                true => Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(counted),
                },
            };
        }
        ControlFlow::Continue(())
    }
}

fn counted(query: &Query) -> Option<Query> {
    let mut counted = COUNTED.clone()?;
    let SetExpr::Select(outer) = counted.body.as_mut() else {
        return None;
    };
    if let Some(select) = plain(query) {
        // Where it asks about the row outside it must not stand in a FROM.
        let columns = std::mem::take(&mut outer.projection);
        let mut query = query.clone();
        query.order_by = None;
        query.body = Box::new(SetExpr::Select(Box::new(Select {
            projection: columns,
            ..select.clone()
        })));
        return Some(query);
    }
    let TableFactor::Derived { subquery, .. } = &mut outer.from.first_mut()?.relation else {
        return None;
    };
    **subquery = query.clone();
    Some(counted)
}

/// The SELECT of a query that has as many rows as its tables have after `WHERE`.
fn plain(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    let is_plain = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::Wildcard(_)
                | SelectItem::QualifiedWildcard(..)
                | SelectItem::UnnamedExpr(Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                | SelectItem::ExprWithAlias {
                    expr: Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_),
                    ..
                }
        )
    };
    let plain = !grouped
        && !limited
        && select.having.is_none()
        && select.qualify.is_none()
        && select.distinct.is_none()
        && !select.from.is_empty()
        && select.projection.iter().all(is_plain);
    plain.then_some(select)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_and_conditions_stay() {
        for (before, after) in [
            (
                "EXISTS (SELECT * FROM t WHERE t.a = s.a ORDER BY a)",
                "(SELECT count(*) > 0 FROM t WHERE t.a = s.a)",
            ),
            ("NOT EXISTS (SELECT 1 FROM t)", "NOT (SELECT count(*) > 0 FROM t)"),
            (
                "EXISTS (SELECT max(a) FROM t)",
                "(SELECT count(*) > 0 FROM (SELECT max(a) FROM t) AS rows_of)",
            ),
            (
                "EXISTS (SELECT 1 FROM t LIMIT 0)",
                "(SELECT count(*) > 0 FROM (SELECT 1 FROM t LIMIT 0) AS rows_of)",
            ),
            (
                "(SELECT a FROM t WHERE EXISTS (SELECT 1 FROM s))",
                "(SELECT a FROM t WHERE EXISTS (SELECT 1 FROM s))",
            ),
        ] {
            let mut column = Parser::new(&PostgreSqlDialect {})
                .try_with_sql(before)
                .unwrap()
                .parse_expr()
                .unwrap();
            as_counts(&mut column);
            assert_eq!(column.to_string(), after);
        }
    }
}
