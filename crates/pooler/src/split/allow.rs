//! [`Seen`]: what a statement consists of, all of which must be known to give the same in every part.
//!
//! Lists of what is admitted, never of what is not: a later grammar's constructs are refused by themselves.

use std::collections::BTreeSet;

use pg_query::protobuf as pb;
use pg_query::protobuf::a_const::Val;
use pg_query::{Node, NodeEnum};

use super::{Refusal, reads_the_clock};
use crate::understand::{TableName, Tree, children, names, runs_in_parts};

/// Aggregates that are admitted.
pub(super) const AGGREGATES: &[&str] = &[
    "avg", "bool_and", "bool_or", "count", "every", "max", "min", "sum",
];

/// Operators of PostgreSQL's own types, all of which are immutable. Sorted.
const OPERATORS: &[&str] = &[
    "!=", "!~", "!~*", "!~~", "!~~*", "#", "%", "&", "&&", "*", "+", "-", "->", "->>", "/", "<", "<<", "<=",
    "<>", "<@", "=", ">", ">=", ">>", "?", "@>", "^", "|", "||", "~", "~*", "~~", "~~*",
];

/// Types a value may be cast to. Sorted.
const TYPES: &[&str] = &[
    "bool",
    "bpchar",
    "bytea",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "interval",
    "numeric",
    "oid",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "varchar",
];

/// Bounds what is asked of a catalog.
const NAMES_MAX: usize = 200;

/// What stands in a statement.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub functions: BTreeSet<String>,
    pub operators: BTreeSet<String>,
    /// Types named without a schema.
    pub types: BTreeSet<String>,
    pub tables: BTreeSet<TableName>,
    /// Last parts of column names.
    pub columns: BTreeSet<String>,
}

impl Seen {
    /// Looks through a statement.
    ///
    /// # Errors
    /// Anything that is not on the lists.
    pub fn of(select: &pb::SelectStmt) -> Result<Self, Refusal> {
        let mut seen = Seen::default();
        // The split predicate's own.
        seen.operators.extend(["<", ">=", "="].map(str::to_owned));
        seen.select(select)?;
        let count = seen.functions.len() + seen.operators.len() + seen.types.len() + seen.tables.len();
        if count + seen.columns.len() > NAMES_MAX {
            return Err(Refusal::Construct("too many names"));
        }
        Ok(seen)
    }

    fn select(&mut self, select: &pb::SelectStmt) -> Result<(), Refusal> {
        if let Some(why) = not_plain(select) {
            return Err(Refusal::NotPlainSelect(why));
        }
        for item in &select.from_clause {
            self.from(item)?;
        }
        let mut below = Vec::new();
        children(Tree::Select(select), &mut |child| below.push(child));
        for child in below {
            match child {
                Tree::Table(_) => {}
                Tree::Node(NodeEnum::JoinExpr(join)) => {
                    let mut quals = Vec::new();
                    join_quals(join, &mut quals);
                    for node in quals {
                        self.node(node)?;
                    }
                }
                other => self.tree(other)?,
            }
        }
        Ok(())
    }

    /// Sources: tables and joins of tables.
    fn from(&mut self, item: &Node) -> Result<(), Refusal> {
        match &item.node {
            Some(NodeEnum::RangeVar(table)) => self.table(table),
            Some(NodeEnum::JoinExpr(join)) => {
                if join.alias.is_some() || join.join_using_alias.is_some() {
                    return Err(Refusal::From("a join with an alias"));
                }
                for side in [&join.larg, &join.rarg].into_iter().flatten() {
                    self.from(side)?;
                }
                Ok(())
            }
            Some(NodeEnum::RangeSubselect(_)) => Err(Refusal::From("a sub-select")),
            Some(NodeEnum::RangeFunction(_)) => Err(Refusal::From("a function")),
            Some(NodeEnum::RangeTableSample(_)) => Err(Refusal::From("TABLESAMPLE")),
            _ => Err(Refusal::From("something else")),
        }
    }

    fn table(&mut self, table: &pb::RangeVar) -> Result<(), Refusal> {
        if !table.catalogname.is_empty() {
            return Err(Refusal::From("a table named with its database"));
        }
        if table
            .alias
            .as_ref()
            .is_some_and(|alias| !alias.colnames.is_empty())
        {
            return Err(Refusal::From("a table with an alias for its columns"));
        }
        self.tables.insert(TableName::of(table));
        Ok(())
    }

    fn node(&mut self, node: &Node) -> Result<(), Refusal> {
        Tree::of(node).map_or(Ok(()), |tree| self.tree(tree))
    }

    fn tree(&mut self, tree: Tree<'_>) -> Result<(), Refusal> {
        let node = match tree {
            Tree::Select(select) => return self.select(select),
            Tree::Table(_) => return Err(Refusal::Construct("a table in an expression")),
            Tree::Node(node) => node,
        };
        match node {
            NodeEnum::ColumnRef(column) => {
                if let Some(name) = names(&column.fields).last() {
                    self.columns.insert((*name).to_owned());
                }
            }
            NodeEnum::AConst(constant) => match &constant.val {
                Some(Val::Sval(text)) if reads_the_clock(text.sval.as_bytes()) => return Err(Refusal::Clock),
                _ => {}
            },
            NodeEnum::FuncCall(call) => self.call(call)?,
            NodeEnum::AExpr(expr) => self.expr(expr)?,
            NodeEnum::TypeCast(cast) => self.cast(cast)?,
            NodeEnum::CaseExpr(_) => self.operator("=")?,
            NodeEnum::SubLink(link) => self.link(link)?,
            NodeEnum::CollateClause(collate) => {
                if names(&collate.collname).len() != collate.collname.len() || collate.collname.len() > 2 {
                    return Err(Refusal::Construct("a collation"));
                }
            }
            NodeEnum::ResTarget(target) => {
                if !target.indirection.is_empty() {
                    return Err(Refusal::Construct("a subscript"));
                }
            }
            NodeEnum::SortBy(sort) => {
                if !sort.use_op.is_empty() {
                    return Err(Refusal::Construct("ORDER BY ... USING"));
                }
            }
            NodeEnum::ParamRef(parameter) => {
                if parameter.number < 1 {
                    return Err(Refusal::Construct("a parameter without a number"));
                }
            }
            NodeEnum::BoolExpr(_)
            | NodeEnum::NullTest(_)
            | NodeEnum::BooleanTest(_)
            | NodeEnum::CaseWhen(_)
            | NodeEnum::CoalesceExpr(_)
            | NodeEnum::MinMaxExpr(_)
            | NodeEnum::AArrayExpr(_)
            | NodeEnum::RowExpr(_)
            | NodeEnum::List(_)
            | NodeEnum::AStar(_)
            | NodeEnum::String(_)
            | NodeEnum::Integer(_) => {}
            NodeEnum::SqlvalueFunction(_) => {
                return Err(Refusal::Construct(
                    "the time, the user or the schema of this moment",
                ));
            }
            NodeEnum::GroupingSet(_) | NodeEnum::GroupingFunc(_) => {
                return Err(Refusal::Construct("GROUPING SETS, CUBE or ROLLUP"));
            }
            NodeEnum::AIndirection(_) => return Err(Refusal::Construct("a subscript or a field of a value")),
            _ => return Err(Refusal::Construct("a construct that is not on the list")),
        }
        let mut below = Vec::new();
        if !children(tree, &mut |child| below.push(child)) {
            return Err(Refusal::Construct("a construct that is not on the list"));
        }
        below.into_iter().try_for_each(|child| self.tree(child))
    }

    fn call(&mut self, call: &pb::FuncCall) -> Result<(), Refusal> {
        let parts = names(&call.funcname);
        let name = match parts.as_slice() {
            [name] => {
                self.functions.insert((*name).to_owned());
                *name
            }
            ["pg_catalog", name] => *name,
            _ => return Err(Refusal::Function(parts.join("."))),
        };
        let aggregate = AGGREGATES.binary_search(&name).is_ok();
        if !aggregate && !runs_in_parts(name) {
            return Err(Refusal::Function(name.to_owned()));
        }
        if call.over.is_some() {
            return Err(Refusal::Construct("a window function"));
        }
        if call.agg_within_group || !call.agg_order.is_empty() || call.func_variadic {
            return Err(Refusal::Construct("an aggregate with an order, or VARIADIC"));
        }
        // Only count has a star, and every aggregate has an argument otherwise.
        if call.agg_star && name != "count" || aggregate && !call.agg_star && call.args.len() != 1 {
            return Err(Refusal::Function(name.to_owned()));
        }
        Ok(())
    }

    fn operator(&mut self, name: &str) -> Result<(), Refusal> {
        if OPERATORS.binary_search(&name).is_err() {
            return Err(Refusal::Operator(name.to_owned()));
        }
        self.operators.insert(name.to_owned());
        Ok(())
    }

    fn named_operator(&mut self, name: &[Node]) -> Result<(), Refusal> {
        match names(name).as_slice() {
            [name] => self.operator(name),
            ["pg_catalog", name] if OPERATORS.binary_search(name).is_ok() => Ok(()),
            other => Err(Refusal::Operator(other.join("."))),
        }
    }

    fn expr(&mut self, expr: &pb::AExpr) -> Result<(), Refusal> {
        use pb::AExprKind as Kind;
        match expr.kind() {
            Kind::AexprBetween | Kind::AexprNotBetween | Kind::AexprBetweenSym | Kind::AexprNotBetweenSym => {
                ["<", ">", "<=", ">="]
                    .into_iter()
                    .try_for_each(|name| self.operator(name))
            }
            Kind::Undefined => Err(Refusal::Construct("a construct that is not on the list")),
            _ => self.named_operator(&expr.name),
        }
    }

    fn cast(&mut self, cast: &pb::TypeCast) -> Result<(), Refusal> {
        let Some(kind) = &cast.type_name else {
            return Err(Refusal::Cast("nothing".to_owned()));
        };
        let parts = names(&kind.names);
        let known = |name: &str| TYPES.binary_search(&name).is_ok() && !kind.setof && !kind.pct_type;
        match parts.as_slice() {
            [name] if known(name) => {
                self.types.insert((*name).to_owned());
                Ok(())
            }
            ["pg_catalog", name] if known(name) => Ok(()),
            _ => Err(Refusal::Cast(parts.join("."))),
        }
    }

    fn link(&mut self, link: &pb::SubLink) -> Result<(), Refusal> {
        use pb::SubLinkType as Kind;
        match link.sub_link_type() {
            Kind::ExistsSublink | Kind::ExprSublink => Ok(()),
            Kind::AnySublink | Kind::AllSublink if link.oper_name.is_empty() => self.operator("="),
            Kind::AnySublink | Kind::AllSublink => self.named_operator(&link.oper_name),
            _ => Err(Refusal::Construct("an array or a row made of a sub-select")),
        }
    }
}

/// What makes a SELECT one that is not looked into.
fn not_plain(select: &pb::SelectStmt) -> Option<&'static str> {
    let found = [
        (
            select.op() != pb::SetOperation::SetopNone,
            "UNION, INTERSECT or EXCEPT",
        ),
        (select.with_clause.is_some(), "WITH"),
        (select.into_clause.is_some(), "INTO"),
        (!select.locking_clause.is_empty(), "FOR UPDATE or FOR SHARE"),
        (!select.window_clause.is_empty(), "WINDOW"),
        (!select.values_lists.is_empty(), "VALUES"),
        (select.group_distinct, "GROUP BY DISTINCT"),
    ];
    found.into_iter().find_map(|(is, why)| is.then_some(why))
}

/// Conditions of a join and of the joins in it.
fn join_quals<'a>(join: &'a pb::JoinExpr, quals: &mut Vec<&'a Node>) {
    for side in [&join.larg, &join.rarg].into_iter().flatten() {
        if let Some(NodeEnum::JoinExpr(inner)) = &side.node {
            join_quals(inner, quals);
        }
    }
    quals.extend(join.quals.as_deref());
}

/// Whether a call is one of an aggregate.
pub(super) fn is_aggregate(call: &pb::FuncCall) -> bool {
    names(&call.funcname)
        .last()
        .is_some_and(|name| AGGREGATES.binary_search(name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        for list in [AGGREGATES, OPERATORS, TYPES] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
        }
    }
}
