//! Constants and options in the parse tree.

use pg_query::protobuf::a_const::Val;
use pg_query::{Node, NodeEnum};

/// A constant, also under a cast.
fn constant(node: &Node) -> Option<&Val> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => constant.val.as_ref(),
        NodeEnum::TypeCast(cast) => constant(cast.arg.as_deref()?),
        _ => None,
    }
}

/// The characters of a string.
pub(super) fn string(node: &Node) -> Option<&str> {
    match constant(node)? {
        Val::Sval(value) => Some(&value.sval),
        _ => None,
    }
}

/// Whether a node is certainly true: what PostgreSQL reads as a true boolean, in the forms people write.
pub(super) fn is_true(node: &Node) -> bool {
    match constant(node) {
        Some(Val::Boolval(value)) => value.boolval,
        Some(Val::Ival(value)) => value.ival == 1,
        Some(Val::Sval(value)) => ["t", "true", "on", "yes", "1"]
            .iter()
            .any(|word| value.sval.eq_ignore_ascii_case(word)),
        _ => false,
    }
}

/// Options of a statement: their names and values.
pub(super) fn options(elements: &[Node]) -> impl Iterator<Item = (&str, Option<&Node>)> {
    elements.iter().filter_map(|element| match &element.node {
        Some(NodeEnum::DefElem(option)) => Some((option.defname.as_str(), option.arg.as_deref())),
        _ => None,
    })
}
