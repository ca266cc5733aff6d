//! Where in a statement literals stand that may be lifted.
//!
//! Only places are listed where a parameter of the same type is the same: beside a comparison whose other side is no constant, as
//! the value of a column, in the arithmetic of SET, and under a cast at such a place. Everything else is kept: select lists, ORDER
//! BY, GROUP BY, LIMIT, arguments of functions, patterns, rows, arrays, CASE. An expression of constants alone is kept because the
//! server computes it while it plans, and with it the errors.

use pg_query::protobuf as pb;
use pg_query::protobuf::a_const::Val;
use pg_query::{Node, NodeEnum};

use super::lifted::Use;
use crate::understand::names;

/// A literal that may be lifted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'a> {
    /// Byte at which it begins.
    pub(super) location: usize,
    /// What the parser read.
    pub(super) value: &'a Val,
    pub(super) used: Use,
}

/// The places of one statement.
pub(super) fn sites(statement: &NodeEnum) -> Vec<Site<'_>> {
    let mut found = Sites(Vec::new());
    match statement {
        NodeEnum::SelectStmt(select) => found.query(select),
        NodeEnum::InsertStmt(insert) => found.insert(insert),
        NodeEnum::UpdateStmt(update) => {
            found.update(update);
        }
        NodeEnum::DeleteStmt(delete) => {
            found.ctes(&delete.with_clause);
            found.sources(&delete.using_clause);
            found.condition(delete.where_clause.as_deref());
        }
        _ => {}
    }
    found.0
}

struct Sites<'a>(Vec<Site<'a>>);

impl<'a> Sites<'a> {
    fn query(&mut self, select: &'a pb::SelectStmt) {
        self.ctes(&select.with_clause);
        for side in [&select.larg, &select.rarg].into_iter().flatten() {
            self.query(side);
        }
        self.sources(&select.from_clause);
        self.condition(select.where_clause.as_deref());
        self.condition(select.having_clause.as_deref());
    }

    fn ctes(&mut self, with: &'a Option<pb::WithClause>) {
        for cte in with.iter().flat_map(|with| &with.ctes) {
            if let Some(NodeEnum::CommonTableExpr(cte)) = &cte.node {
                self.subquery(cte.ctequery.as_deref());
            }
        }
    }

    /// A query inside; statements that write are left as they are.
    fn subquery(&mut self, node: Option<&'a Node>) {
        if let Some(NodeEnum::SelectStmt(select)) = node.and_then(|node| node.node.as_ref()) {
            self.query(select);
        }
    }

    fn sources(&mut self, items: &'a [Node]) {
        for item in items {
            self.source(Some(item));
        }
    }

    fn source(&mut self, item: Option<&'a Node>) {
        match item.and_then(|item| item.node.as_ref()) {
            Some(NodeEnum::JoinExpr(join)) => {
                self.source(join.larg.as_deref());
                self.source(join.rarg.as_deref());
                self.condition(join.quals.as_deref());
            }
            Some(NodeEnum::RangeSubselect(range)) => self.subquery(range.subquery.as_deref()),
            _ => {}
        }
    }

    fn insert(&mut self, insert: &'a pb::InsertStmt) {
        self.ctes(&insert.with_clause);
        let Some(NodeEnum::SelectStmt(select)) =
            insert.select_stmt.as_ref().and_then(|node| node.node.as_ref())
        else {
            return;
        };
        if select.values_lists.is_empty() {
            self.query(select);
            return;
        }
        // INSERT INTO t (a[1]) gives the parameter another type than the column's.
        let whole = |column: &Node| matches!(&column.node, Some(NodeEnum::ResTarget(target)) if target.indirection.is_empty());
        if !insert.cols.iter().all(whole) {
            return;
        }
        for row in &select.values_lists {
            if let Some(NodeEnum::List(row)) = &row.node {
                row.items
                    .iter()
                    .for_each(|value| self.literal(value, Use::Inserted));
            }
        }
    }

    fn update(&mut self, update: &'a pb::UpdateStmt) {
        self.ctes(&update.with_clause);
        for target in &update.target_list {
            let Some(NodeEnum::ResTarget(target)) = &target.node else {
                continue;
            };
            let (Some(value), true) = (target.val.as_deref(), target.indirection.is_empty()) else {
                continue;
            };
            self.literal(value, Use::Updated);
            // A column of another table may turn out to be a constant.
            if update.from_clause.is_empty() && update.with_clause.is_none() {
                self.arithmetic(value);
            }
        }
        self.sources(&update.from_clause);
        self.condition(update.where_clause.as_deref());
    }

    /// `column + literal` and the like, nested.
    fn arithmetic(&mut self, node: &'a Node) {
        let Some(NodeEnum::AExpr(expr)) = &node.node else {
            return;
        };
        let (Some(left), Some(right)) = (expr.lexpr.as_deref(), expr.rexpr.as_deref()) else {
            return;
        };
        let known = matches!(names(&expr.name).as_slice(), ["+" | "-" | "*" | "/" | "%"]);
        if expr.kind() != pb::AExprKind::AexprOp || !known {
            return;
        }
        for (this, other) in [(left, right), (right, left)] {
            if varies(other) && is_number(this) {
                self.literal(this, Use::Arithmetic);
            }
            self.arithmetic(this);
        }
    }

    fn condition(&mut self, node: Option<&'a Node>) {
        match node.and_then(|node| node.node.as_ref()) {
            Some(NodeEnum::BoolExpr(expr)) => expr.args.iter().for_each(|arg| self.condition(Some(arg))),
            Some(NodeEnum::SubLink(link)) => self.subquery(link.subselect.as_deref()),
            Some(NodeEnum::AExpr(expr)) => self.comparison(expr),
            _ => {}
        }
    }

    fn comparison(&mut self, expr: &'a pb::AExpr) {
        use pb::AExprKind as Kind;
        let (Some(left), Some(right)) = (expr.lexpr.as_deref(), expr.rexpr.as_deref()) else {
            return;
        };
        match expr.kind() {
            Kind::AexprOp | Kind::AexprDistinct | Kind::AexprNotDistinct => {
                if matches!(
                    names(&expr.name).as_slice(),
                    ["=" | "<>" | "<" | "<=" | ">" | ">="]
                ) {
                    for (this, other) in [(left, right), (right, left)] {
                        if varies(other) {
                            self.literal(this, Use::Compared);
                        }
                        if matches!(&this.node, Some(NodeEnum::SubLink(_))) {
                            self.condition(Some(this));
                        }
                    }
                }
            }
            Kind::AexprIn
            | Kind::AexprBetween
            | Kind::AexprNotBetween
            | Kind::AexprBetweenSym
            | Kind::AexprNotBetweenSym => {
                if let (true, Some(NodeEnum::List(list))) = (varies(left), &right.node) {
                    list.items
                        .iter()
                        .for_each(|item| self.literal(item, Use::Compared));
                }
            }
            _ => {}
        }
    }

    /// A literal, or one under a cast.
    fn literal(&mut self, node: &'a Node, used: Use) {
        match &node.node {
            Some(NodeEnum::AConst(constant)) => self.constant(constant, used),
            Some(NodeEnum::TypeCast(cast)) => {
                let (Some(NodeEnum::AConst(constant)), Some(kind)) = (
                    cast.arg.as_ref().and_then(|arg| arg.node.as_ref()),
                    &cast.type_name,
                ) else {
                    return;
                };
                // Not DATE '...', whose type stands before it; not with a modifier, which may refuse the value; not arrays.
                let behind = kind.location > constant.location;
                let plain =
                    kind.typmods.is_empty() && kind.array_bounds.is_empty() && !kind.pct_type && !kind.setof;
                let number_kept = is_number_constant(constant)
                    && !matches!(
                        names(&kind.names).as_slice(),
                        ["pg_catalog", "int4" | "int8" | "float8" | "numeric"]
                    );
                if behind && plain && !number_kept {
                    self.constant(constant, Use::Cast);
                }
            }
            _ => {}
        }
    }

    fn constant(&mut self, constant: &'a pb::AConst, used: Use) {
        if let (Some(value), Ok(location), false) =
            (&constant.val, usize::try_from(constant.location), constant.isnull)
        {
            self.0.push(Site {
                location,
                value,
                used,
            });
        }
    }
}

fn is_number_constant(constant: &pb::AConst) -> bool {
    matches!(constant.val, Some(Val::Ival(_) | Val::Fval(_)))
}

fn is_number(node: &Node) -> bool {
    matches!(&node.node, Some(NodeEnum::AConst(constant)) if is_number_constant(constant))
}

/// Whether an expression certainly depends on rows, so that the server cannot compute it while it plans.
fn varies(node: &Node) -> bool {
    let one = |node: &Option<Box<Node>>| node.as_deref().is_some_and(varies);
    match &node.node {
        Some(NodeEnum::ColumnRef(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => one(&cast.arg),
        Some(NodeEnum::CollateClause(collate)) => one(&collate.arg),
        Some(NodeEnum::AExpr(expr)) => {
            expr.kind() == pb::AExprKind::AexprOp && (one(&expr.lexpr) || one(&expr.rexpr))
        }
        Some(NodeEnum::FuncCall(call)) => call.agg_star || call.args.iter().any(varies),
        _ => false,
    }
}
