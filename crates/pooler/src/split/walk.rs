//! Changing trees: every node below one, locations taken out so that equal expressions compare equal, and small nodes made.
//!
//! Only kinds that [`super::allow`] admits are walked; others have been refused before.

use pg_query::protobuf as pb;
use pg_query::{Node, NodeEnum};

/// Hands every node to `each`, the outer before the inner. `false` from it: do not look below.
pub(super) fn walk(node: &mut Node, each: &mut dyn FnMut(&mut Node) -> bool) {
    if each(node) {
        below(node, each);
    }
}

fn one(node: &mut Option<Box<Node>>, each: &mut dyn FnMut(&mut Node) -> bool) {
    if let Some(node) = node {
        walk(node, each);
    }
}

pub(super) fn all(nodes: &mut [Node], each: &mut dyn FnMut(&mut Node) -> bool) {
    nodes.iter_mut().for_each(|node| walk(node, each));
}

/// The same for everything below a node.
pub(super) fn below(node: &mut Node, each: &mut dyn FnMut(&mut Node) -> bool) {
    let Some(node) = &mut node.node else { return };
    match node {
        NodeEnum::List(list) => all(&mut list.items, each),
        NodeEnum::ResTarget(target) => one(&mut target.val, each),
        NodeEnum::AExpr(expr) => {
            one(&mut expr.lexpr, each);
            one(&mut expr.rexpr, each);
        }
        NodeEnum::BoolExpr(expr) => all(&mut expr.args, each),
        NodeEnum::NullTest(test) => one(&mut test.arg, each),
        NodeEnum::BooleanTest(test) => one(&mut test.arg, each),
        NodeEnum::CaseExpr(case) => {
            one(&mut case.arg, each);
            all(&mut case.args, each);
            one(&mut case.defresult, each);
        }
        NodeEnum::CaseWhen(when) => {
            one(&mut when.expr, each);
            one(&mut when.result, each);
        }
        NodeEnum::CoalesceExpr(expr) => all(&mut expr.args, each),
        NodeEnum::MinMaxExpr(expr) => all(&mut expr.args, each),
        NodeEnum::FuncCall(call) => {
            all(&mut call.args, each);
            one(&mut call.agg_filter, each);
        }
        NodeEnum::TypeCast(cast) => one(&mut cast.arg, each),
        NodeEnum::CollateClause(collate) => one(&mut collate.arg, each),
        NodeEnum::AArrayExpr(array) => all(&mut array.elements, each),
        NodeEnum::RowExpr(row) => all(&mut row.args, each),
        NodeEnum::SubLink(link) => {
            one(&mut link.testexpr, each);
            one(&mut link.subselect, each);
        }
        NodeEnum::SortBy(sort) => one(&mut sort.node, each),
        NodeEnum::JoinExpr(join) => {
            one(&mut join.larg, each);
            one(&mut join.rarg, each);
            one(&mut join.quals, each);
        }
        NodeEnum::SelectStmt(select) => select_below(select, each),
        _ => {}
    }
}

/// Everything in a SELECT without set operations.
pub(super) fn select_below(select: &mut pb::SelectStmt, each: &mut dyn FnMut(&mut Node) -> bool) {
    all(&mut select.distinct_clause, each);
    all(&mut select.target_list, each);
    all(&mut select.from_clause, each);
    one(&mut select.where_clause, each);
    all(&mut select.group_clause, each);
    one(&mut select.having_clause, each);
    all(&mut select.sort_clause, each);
    one(&mut select.limit_offset, each);
    one(&mut select.limit_count, each);
}

/// Takes the locations out of an expression.
pub(super) fn without_locations(mut node: Node) -> Node {
    walk(&mut node, &mut |node| {
        match &mut node.node {
            Some(NodeEnum::ColumnRef(node)) => node.location = 0,
            Some(NodeEnum::AConst(node)) => node.location = 0,
            Some(NodeEnum::ParamRef(node)) => node.location = 0,
            Some(NodeEnum::ResTarget(node)) => node.location = 0,
            Some(NodeEnum::AExpr(node)) => {
                (node.location, node.rexpr_list_start, node.rexpr_list_end) = (0, 0, 0);
            }
            Some(NodeEnum::BoolExpr(node)) => node.location = 0,
            Some(NodeEnum::NullTest(node)) => node.location = 0,
            Some(NodeEnum::BooleanTest(node)) => node.location = 0,
            Some(NodeEnum::CaseExpr(node)) => node.location = 0,
            Some(NodeEnum::CaseWhen(node)) => node.location = 0,
            Some(NodeEnum::CoalesceExpr(node)) => node.location = 0,
            Some(NodeEnum::MinMaxExpr(node)) => node.location = 0,
            Some(NodeEnum::FuncCall(node)) => node.location = 0,
            Some(NodeEnum::TypeCast(node)) => {
                node.location = 0;
                if let Some(kind) = &mut node.type_name {
                    kind.location = 0;
                    for modifier in &mut kind.typmods {
                        *modifier = without_locations(std::mem::take(modifier));
                    }
                }
            }
            Some(NodeEnum::CollateClause(node)) => node.location = 0,
            Some(NodeEnum::AArrayExpr(node)) => {
                (node.location, node.list_start, node.list_end) = (0, 0, 0);
            }
            Some(NodeEnum::RowExpr(node)) => node.location = 0,
            Some(NodeEnum::SubLink(node)) => node.location = 0,
            Some(NodeEnum::SortBy(node)) => node.location = 0,
            Some(NodeEnum::RangeVar(node)) => node.location = 0,
            _ => {}
        }
        true
    });
    node
}

/// A node.
pub(super) fn node(kind: NodeEnum) -> Node {
    Node { node: Some(kind) }
}

/// A part of a name.
pub(super) fn string(text: &str) -> Node {
    node(NodeEnum::String(pb::String {
        sval: text.to_owned(),
    }))
}

/// `table.column`.
pub(super) fn column(table: &str, column: &str) -> Node {
    node(NodeEnum::ColumnRef(pb::ColumnRef {
        fields: vec![string(table), string(column)],
        location: 0,
    }))
}

/// `$number`.
pub(super) fn parameter(number: i32) -> Node {
    node(NodeEnum::ParamRef(pb::ParamRef { number, location: 0 }))
}

/// An integer as it stands in a text.
pub(super) fn integer(value: i32) -> Node {
    node(NodeEnum::AConst(pb::AConst {
        isnull: false,
        location: 0,
        val: Some(pb::a_const::Val::Ival(pb::Integer { ival: value })),
    }))
}

/// An item of a select list.
pub(super) fn target(name: &str, value: Node) -> Node {
    node(NodeEnum::ResTarget(Box::new(pb::ResTarget {
        name: name.to_owned(),
        indirection: Vec::new(),
        val: Some(Box::new(value)),
        location: 0,
    })))
}

/// The expression that `text` is, with `{0}`, `{1}` in it replaced by these.
///
/// `None` where the text does not read as one expression, which would be a mistake of the caller.
pub(super) fn expression(text: &str, parts: &[Node]) -> Option<Node> {
    let mut select = text.to_owned();
    for number in 0..parts.len() {
        select = select.replace(&format!("{{{number}}}"), &format!("${}", number + 1));
    }
    let parsed =
        crate::understand::guarded_parse(&format!("select {select}"), crate::understand::Dialect::default())?;
    let statement = parsed.stmts.into_iter().next()?.stmt?.node?;
    let NodeEnum::SelectStmt(mut select) = statement else {
        return None;
    };
    let NodeEnum::ResTarget(target) = select.target_list.pop()?.node? else {
        return None;
    };
    let mut value = without_locations(*target.val?);
    walk(&mut value, &mut |node| {
        if let Some(NodeEnum::ParamRef(reference)) = &node.node {
            let at = usize::try_from(reference.number - 1).unwrap_or(usize::MAX);
            if let Some(part) = parts.get(at) {
                *node = part.clone();
            }
            return false;
        }
        true
    });
    Some(value)
}

/// The select inside a node.
pub(super) fn as_select(node: &Node) -> Option<&pb::SelectStmt> {
    match &node.node {
        Some(NodeEnum::SelectStmt(select)) => Some(select),
        _ => None,
    }
}
