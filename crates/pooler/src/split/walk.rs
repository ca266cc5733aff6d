//! Reading and changing trees: every node below one, locations taken out so that equal expressions compare equal, and small nodes made.
//!
//! Only kinds that [`super::allow`] admits are walked; others have been refused before.

use pg_query::protobuf as pb;
use pg_query::{Node, NodeEnum};

use crate::understand::{Below, Tree, children, children_mut, guarded_parse};

/// Hands every place of an expression to `each`, the outer before the inner. `false` from it: do not look below.
pub(super) fn visit<'a>(node: &'a Node, each: &mut dyn FnMut(Tree<'a>) -> bool) {
    if let Some(tree) = Tree::of(node) {
        visit_tree(tree, each);
    }
}

/// The same for everything in a SELECT.
pub(super) fn visit_select<'a>(select: &'a pb::SelectStmt, each: &mut dyn FnMut(Tree<'a>) -> bool) {
    children(Tree::Select(select), &mut |child| visit_tree(child, each));
}

fn visit_tree<'a>(tree: Tree<'a>, each: &mut dyn FnMut(Tree<'a>) -> bool) {
    if each(tree) {
        children(tree, &mut |child| visit_tree(child, each));
    }
}

/// Hands every node to `each` to be changed, the outer before the inner. `false` from it: do not look below.
pub(super) fn walk(node: &mut Node, each: &mut dyn FnMut(&mut Node) -> bool) {
    if each(node) {
        below(node, each);
    }
}

/// The same for everything below a node.
pub(super) fn below(node: &mut Node, each: &mut dyn FnMut(&mut Node) -> bool) {
    if let Some(node) = &mut node.node {
        children_mut(node, &mut |child| walk(child, each));
    }
}

/// The same for everything in a SELECT.
pub(super) fn select_below(select: &mut pb::SelectStmt, each: &mut dyn FnMut(&mut Node) -> bool) {
    select.below_mut(&mut |child| walk(child, each));
}

/// Sets the location of a node of one of these kinds to 0.
macro_rules! clear_location {
    ($node:expr, $($kind:ident)*) => {
        match $node {
            $(Some(NodeEnum::$kind(node)) => node.location = 0,)*
            _ => {}
        }
    };
}

/// Takes the locations out of a tree, so that equal ones compare equal.
pub(super) fn without_locations(mut node: Node) -> Node {
    walk(&mut node, &mut |node| {
        match &mut node.node {
            Some(NodeEnum::AExpr(expr)) => (expr.rexpr_list_start, expr.rexpr_list_end) = (0, 0),
            Some(NodeEnum::AArrayExpr(array)) => (array.list_start, array.list_end) = (0, 0),
            Some(NodeEnum::TypeCast(cast)) => {
                if let Some(kind) = &mut cast.type_name {
                    kind.location = 0;
                    for modifier in &mut kind.typmods {
                        *modifier = without_locations(std::mem::take(modifier));
                    }
                }
            }
            _ => {}
        }
        clear_location!(
            &mut node.node,
            ColumnRef AConst ParamRef ResTarget AExpr BoolExpr NullTest BooleanTest CaseExpr CaseWhen
            CoalesceExpr MinMaxExpr FuncCall TypeCast CollateClause AArrayExpr RowExpr SubLink SortBy RangeVar
        );
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
    let mut select = parsed_select(&format!("select {select}"))?;
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

/// The select that a text of ours is.
pub(super) fn parsed_select(text: &str) -> Option<Box<pb::SelectStmt>> {
    let parsed = guarded_parse(text)?;
    match parsed.stmts.into_iter().next()?.stmt?.node? {
        NodeEnum::SelectStmt(select) => Some(select),
        _ => None,
    }
}

/// The select inside a node.
pub(super) fn as_select(node: &Node) -> Option<&pb::SelectStmt> {
    match &node.node {
        Some(NodeEnum::SelectStmt(select)) => Some(select),
        _ => None,
    }
}
