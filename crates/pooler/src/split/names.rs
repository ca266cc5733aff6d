//! Names of output columns, as PostgreSQL makes them up, and what ORDER BY and GROUP BY mean by a name or a number.

use pg_query::protobuf as pb;
use pg_query::protobuf::a_const::Val;
use pg_query::{Node, NodeEnum};

use super::Refusal;
use super::text::once_of;
use crate::understand::names;

/// What an item of ORDER BY or GROUP BY stands for.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// The output column of this number, counted from zero.
    Output(usize),
    /// An expression over the tables.
    Expression(Box<Node>),
}

/// The name of an output column.
enum Output<'a> {
    Named(&'a str),
    /// `*`, or `t.*`.
    Star,
    /// Not worth telling.
    Unsure,
}

fn output(target: &Node) -> Output<'_> {
    let Some(NodeEnum::ResTarget(target)) = &target.node else {
        return Output::Unsure;
    };
    if !target.name.is_empty() {
        return Output::Named(&target.name);
    }
    let Some(value) = target.val.as_deref() else {
        return Output::Unsure;
    };
    if matches!(&value.node, Some(NodeEnum::ColumnRef(column)) if ends_in_star(column)) {
        return Output::Star;
    }
    match figured(value) {
        Figured::Own(name) | Figured::Weak(name) => Output::Named(name),
        Figured::Nothing => Output::Named("?column?"),
        Figured::Unsure => Output::Unsure,
    }
}

/// Whether it is `*` or `t.*`.
pub(super) fn ends_in_star(column: &pb::ColumnRef) -> bool {
    let last = column.fields.last().and_then(|field| field.node.as_ref());
    matches!(last, Some(NodeEnum::AStar(_)))
}

/// What PostgreSQL finds in an expression to name it by.
enum Figured<'a> {
    /// A name of its own.
    Own(&'a str),
    /// One that gives way to that of a cast around it.
    Weak(&'a str),
    Nothing,
    Unsure,
}

fn figured(value: &Node) -> Figured<'_> {
    let last = |parts| names(parts).last().copied();
    match &value.node {
        Some(NodeEnum::ColumnRef(column)) => last(&column.fields).map_or(Figured::Unsure, Figured::Own),
        Some(NodeEnum::FuncCall(call)) => last(&call.funcname).map_or(Figured::Unsure, Figured::Own),
        Some(NodeEnum::AExpr(expr)) if expr.kind() == pb::AExprKind::AexprNullif => Figured::Own("nullif"),
        Some(NodeEnum::CoalesceExpr(_)) => Figured::Own("coalesce"),
        // The sub-select that stood there had a name of its own.
        Some(NodeEnum::ParamRef(parameter)) if once_of(parameter.number).is_some() => Figured::Unsure,
        Some(
            NodeEnum::AExpr(_)
            | NodeEnum::AConst(_)
            | NodeEnum::ParamRef(_)
            | NodeEnum::BoolExpr(_)
            | NodeEnum::NullTest(_)
            | NodeEnum::BooleanTest(_),
        ) => Figured::Nothing,
        Some(NodeEnum::TypeCast(cast)) => match cast.arg.as_deref().map(figured) {
            Some(Figured::Own(name)) => Figured::Own(name),
            Some(Figured::Unsure) => Figured::Unsure,
            _ => {
                let kind = cast.type_name.as_ref().and_then(|kind| last(&kind.names));
                kind.map_or(Figured::Unsure, Figured::Weak)
            }
        },
        Some(NodeEnum::CollateClause(collate)) => collate.arg.as_deref().map_or(Figured::Unsure, figured),
        Some(NodeEnum::CaseExpr(case)) => match case.defresult.as_deref().map(figured) {
            Some(Figured::Own(name)) => Figured::Own(name),
            Some(Figured::Unsure) => Figured::Unsure,
            _ => Figured::Weak("case"),
        },
        _ => Figured::Unsure,
    }
}

/// The name in an expression that is nothing but a name.
pub(super) fn bare_name(node: &Node) -> Option<&str> {
    match &node.node {
        Some(NodeEnum::ColumnRef(column)) => match names(&column.fields).as_slice() {
            [name] if column.fields.len() == 1 => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// The output column a name means, if any.
fn named(targets: &[Node], name: &str) -> Result<Option<usize>, Refusal> {
    let mut unsure = false;
    for (number, target) in targets.iter().enumerate() {
        match output(target) {
            Output::Named(this) if this == name => return Ok(Some(number)),
            Output::Unsure => unsure = true,
            _ => {}
        }
    }
    if unsure {
        return Err(Refusal::SortName(name.to_owned()));
    }
    // A column that `*` stands for is the column of the table of that name.
    Ok(None)
}

/// What a number in ORDER BY or GROUP BY means.
fn numbered(targets: &[Node], number: i32) -> Result<Item, Refusal> {
    let at = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    at.filter(|at| *at < targets.len() && !targets[..=*at].iter().any(is_star))
        .map(Item::Output)
        .ok_or(Refusal::Construct(
            "a number in ORDER BY or GROUP BY that counts past a star",
        ))
}

fn constant_number(node: &Node) -> Option<i32> {
    match node.node.as_ref()? {
        NodeEnum::AConst(pb::AConst {
            val: Some(Val::Ival(number)),
            ..
        }) => Some(number.ival),
        _ => None,
    }
}

/// What ORDER BY or GROUP BY means by an expression. `output`: a name may be that of an output column. In ORDER BY it is one first;
/// in GROUP BY a column of a table of that name comes first.
pub(super) fn meant(targets: &[Node], node: &Node, output: bool) -> Result<Item, Refusal> {
    if let Some(number) = constant_number(node) {
        return numbered(targets, number);
    }
    if let Some(name) = bare_name(node)
        && output
        && let Some(number) = named(targets, name)?
    {
        return Ok(Item::Output(number));
    }
    Ok(Item::Expression(Box::new(node.clone())))
}

/// The expression of an output column.
pub(super) fn value(targets: &[Node], number: usize) -> Option<&Node> {
    match &targets.get(number)?.node {
        Some(NodeEnum::ResTarget(target)) => target.val.as_deref(),
        _ => None,
    }
}

/// Whether an output column is a star.
pub(super) fn is_star(target: &Node) -> bool {
    matches!(output(target), Output::Star)
}
