//! [`Partial`]: groups that reach over parts. Each part groups its own rows, and a statement over what the parts answer groups again.
//!
//! ```text
//!  select g, avg(x), count(distinct d) from .. group by g having sum(y) > 3 order by 2
//!    part:   select g, d, sum(x), count(x), sum(y) from .. where .. group by 1, 2
//!    final:  select c0, sum(c2) / sum(c3), count(distinct c1) from p group by c0 having sum(c4) > 3 order by 2
//! ```
//! The final statement is run by PostgreSQL itself: how numbers are divided, text is compared and NULLs are put in order is the
//! server's own.

use pg_query::protobuf as pb;
use pg_query::{Node, NodeEnum};

use super::Refusal;
use super::allow::is_aggregate;
use super::kinds;
use super::scope::Scope;
use super::walk::{self, below, column, expression, visit, visit_select};
use crate::understand::{Tree, names};

/// The name of what the parts answered, in the final statement.
pub(super) const ROWS: &str = "corun_parts";
/// The name of a sum whose type is not known yet.
const SUM: &str = "corun_sum";

/// What a column of a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A group key.
    Key,
    /// A count, of type `bigint`.
    Count,
    /// A sum, of type `bigint` or `numeric`.
    Sum,
    /// The least or greatest value.
    Extreme,
    /// A truth value.
    Truth,
}

/// A query in two steps.
#[derive(Clone, Debug)]
pub(super) struct Partial {
    /// What the parts compute, without their predicate.
    pub part: pb::SelectStmt,
    /// What its columns are.
    pub roles: Vec<Role>,
    /// What is computed of all their rows, which stand in [`ROWS`]; sums as [`Partial::typed`] finds them.
    last: pb::SelectStmt,
}

struct Builder<'a> {
    scope: &'a Scope<'a>,
    /// Whether a column is equal to the split key in every joined row.
    is_key: &'a dyn Fn(&Node) -> bool,
    /// Keys of the parts: of groups first, then arguments of DISTINCT aggregates.
    keys: Vec<Node>,
    /// How many of them are groups.
    groups: usize,
    /// Arguments of DISTINCT aggregates are keys of the parts.
    widened: bool,
    values: Vec<(Node, Role)>,
}

impl Partial {
    /// A query whose expressions of GROUP BY and ORDER BY have been found out.
    ///
    /// # Errors
    /// What cannot be put together.
    pub fn of(
        select: &pb::SelectStmt,
        group_keys: &[Node],
        sorted_by: &[&Node],
        scope: &Scope<'_>,
        is_key: &dyn Fn(&Node) -> bool,
    ) -> Result<Self, Refusal> {
        let mut keys: Vec<Node> = Vec::new();
        for key in group_keys {
            if matches!(&key.node, Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_))) {
                return Err(Refusal::Construct("a constant in GROUP BY"));
            }
            let key = scope.canonical(key);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let mut builder = Builder {
            scope,
            is_key,
            groups: keys.len(),
            keys,
            widened: false,
            values: Vec::new(),
        };
        let mut last = select.clone();
        last.where_clause = None;
        for (item, sort) in last.sort_clause.iter_mut().zip(sorted_by) {
            if let Some(expression) = sorted_expression(item) {
                *expression = Some(Box::new((*sort).clone()));
            }
        }
        builder.widen(&last)?;
        for target in &mut last.target_list {
            if let Some(NodeEnum::ResTarget(target)) = &mut target.node {
                builder.rewrite_option(&mut target.val)?;
            }
        }
        builder.rewrite_option(&mut last.having_clause)?;
        for expression in last.sort_clause.iter_mut().filter_map(sorted_expression) {
            builder.rewrite_option(expression)?;
        }
        last.from_clause = vec![walk::node(NodeEnum::RangeVar(pb::RangeVar {
            relname: ROWS.to_owned(),
            inh: true,
            relpersistence: "p".to_owned(),
            ..pb::RangeVar::default()
        }))];
        last.group_clause = (0..builder.groups).map(place).collect();
        if builder.keys.is_empty() && builder.values.is_empty() {
            // A query such as `select 1 from t having true`: one row, whatever the parts.
            return Err(Refusal::Construct("HAVING without a group or an aggregate"));
        }
        let count = builder.keys.len();
        let roles = std::iter::repeat_n(Role::Key, count)
            .chain(builder.values.iter().map(|value| value.1))
            .collect();
        let columns = builder
            .keys
            .into_iter()
            .chain(builder.values.into_iter().map(|value| value.0));
        let part = pb::SelectStmt {
            target_list: columns
                .enumerate()
                .map(|(number, value)| walk::target(&name(number), value))
                .collect(),
            from_clause: select.from_clause.clone(),
            where_clause: select.where_clause.clone(),
            group_clause: (1..=count)
                .filter_map(|number| i32::try_from(number).ok())
                .map(walk::integer)
                .collect(),
            limit_option: pb::LimitOption::Default.into(),
            op: select.op,
            ..pb::SelectStmt::default()
        };
        Ok(Partial { part, roles, last })
    }

    /// The final statement, once the types of the parts' columns are known.
    ///
    /// # Errors
    /// A type whose values are not handed on or added up exactly.
    pub fn typed(&self, types: &[u32]) -> Result<pb::SelectStmt, Refusal> {
        if types.len() != self.roles.len() {
            return Err(Refusal::Shape);
        }
        for (role, kind) in self.roles.iter().zip(types) {
            let (what, fits) = match role {
                Role::Key => ("a group key", kinds::literal_name(*kind).is_some()),
                Role::Count => ("a count", *kind == kinds::INT8),
                Role::Sum => ("a sum", matches!(*kind, kinds::INT8 | kinds::NUMERIC)),
                Role::Extreme => ("a least or greatest value", kinds::literal_name(*kind).is_some()),
                Role::Truth => ("a truth value", *kind == kinds::BOOL),
            };
            if !fits {
                return Err(Refusal::MergeType(what, *kind));
            }
        }
        let mut last = self.last.clone();
        let mut failed = false;
        walk::select_below(&mut last, &mut |node| {
            let Some(number) = sum_place(node) else {
                return true;
            };
            // A sum of sums of bigint is numeric; the sum itself was bigint.
            let text = match types.get(number) {
                Some(&kinds::INT8) => "pg_catalog.sum({0})::pg_catalog.int8",
                _ => "pg_catalog.sum({0})",
            };
            match expression(text, &[place(number)]) {
                Some(sum) => *node = sum,
                None => failed = true,
            }
            false
        });
        if failed { Err(Refusal::Rewrite) } else { Ok(last) }
    }
}

/// The name of a column of what the parts answered.
pub(super) fn name(number: usize) -> String {
    format!("c{number}")
}

/// That column.
pub(super) fn place(number: usize) -> Node {
    column(ROWS, &name(number))
}

fn sum_place(node: &Node) -> Option<usize> {
    let Some(NodeEnum::ColumnRef(reference)) = &node.node else {
        return None;
    };
    match names(&reference.fields).as_slice() {
        [SUM, number] => number.parse().ok(),
        _ => None,
    }
}

/// An aggregate of DISTINCT values that cannot be put together from those of parts as it stands.
fn collects(call: &pb::FuncCall) -> bool {
    call.agg_distinct && matches!(names(&call.funcname).last(), Some(&("count" | "sum" | "avg")))
}

impl Builder<'_> {
    /// Makes the arguments of DISTINCT aggregates keys of the parts, unless each of them is the split key.
    fn widen(&mut self, last: &pb::SelectStmt) -> Result<(), Refusal> {
        let mut arguments = Vec::new();
        let mut filtered = false;
        visit_select(last, &mut |tree| {
            if let Tree::Node(NodeEnum::FuncCall(call)) = tree
                && is_aggregate(call)
            {
                if collects(call) {
                    arguments.extend(call.args.first().map(|argument| self.scope.canonical(argument)));
                    filtered |= call.agg_filter.is_some();
                }
                return false;
            }
            !matches!(tree, Tree::Select(_))
        });
        self.widened = !arguments.iter().all(self.is_key);
        if !self.widened {
            return Ok(());
        }
        if filtered {
            return Err(Refusal::Aggregate("with both DISTINCT and FILTER".to_owned()));
        }
        for argument in arguments {
            if !self.keys.contains(&argument) {
                self.keys.push(argument);
            }
        }
        Ok(())
    }

    fn rewrite_option(&mut self, node: &mut Option<Box<Node>>) -> Result<(), Refusal> {
        node.as_deref_mut().map_or(Ok(()), |node| self.rewrite(node))
    }

    /// Puts columns of the parts in the place of group keys and aggregates.
    fn rewrite(&mut self, node: &mut Node) -> Result<(), Refusal> {
        let canonical = self.scope.canonical(node);
        if let Some(number) = self.keys[..self.groups].iter().position(|key| *key == canonical) {
            *node = place(number);
            return Ok(());
        }
        match &node.node {
            Some(NodeEnum::FuncCall(call)) if is_aggregate(call) => {
                let call = call.clone();
                *node = self.aggregate(&call, canonical)?;
                return Ok(());
            }
            Some(NodeEnum::ColumnRef(reference)) => {
                return Err(Refusal::NotGrouped(names(&reference.fields).join(".")));
            }
            Some(NodeEnum::CollateClause(_)) => return Err(Refusal::Collation),
            Some(NodeEnum::SubLink(_)) => return self.sub_select(node),
            _ => {}
        }
        let mut outcome = Ok(());
        below(node, &mut |inner| {
            if outcome.is_ok() {
                outcome = self.rewrite(inner);
            }
            false
        });
        outcome
    }

    /// A sub-select that reads nothing of the query around it stays; what it is compared with is rewritten.
    fn sub_select(&mut self, node: &mut Node) -> Result<(), Refusal> {
        let Some(NodeEnum::SubLink(link)) = &mut node.node else {
            return Ok(());
        };
        if let Some(select) = link.subselect.as_deref().and_then(walk::as_select)
            && self.scope.reach(select)?.correlated
        {
            return Err(Refusal::NotGrouped("what a sub-select reads".to_owned()));
        }
        let mut test = link.testexpr.take();
        let outcome = self.rewrite_option(&mut test);
        link.testexpr = test;
        outcome
    }

    /// A column of the parts.
    fn value(&mut self, value: Node, role: Role) -> usize {
        let at = match self.values.iter().position(|known| known.0 == value) {
            Some(at) => at,
            None => {
                self.values.push((value, role));
                self.values.len() - 1
            }
        };
        self.keys.len() + at
    }

    fn aggregate(&mut self, call: &pb::FuncCall, canonical: Node) -> Result<Node, Refusal> {
        let name = names(&call.funcname)
            .last()
            .copied()
            .unwrap_or_default()
            .to_owned();
        let made = |text: &str, parts: &[Node]| expression(text, parts).ok_or(Refusal::Rewrite);
        if collects(call) && self.widened {
            let argument = call.args.first().map(|argument| self.scope.canonical(argument));
            let number = self.keys.iter().position(|key| Some(key) == argument.as_ref());
            let number = number.ok_or(Refusal::Rewrite)?;
            return made(&format!("pg_catalog.{name}(distinct {{0}})"), &[place(number)]);
        }
        let again = format!("pg_catalog.{name}({{0}})");
        let (role, text) = match name.as_str() {
            "count" => (Role::Count, "coalesce(pg_catalog.sum({0}), 0)::pg_catalog.int8"),
            "min" | "max" => (Role::Extreme, again.as_str()),
            "bool_and" | "bool_or" | "every" => (Role::Truth, again.as_str()),
            "sum" => {
                let number = self.value(canonical, Role::Sum);
                return Ok(column(SUM, &number.to_string()));
            }
            "avg" => {
                let renamed = |to: &str| {
                    let mut node = canonical.clone();
                    if let Some(NodeEnum::FuncCall(call)) = &mut node.node {
                        call.funcname = vec![walk::string("pg_catalog"), walk::string(to)];
                    }
                    node
                };
                let total = self.value(renamed("sum"), Role::Sum);
                let count = self.value(renamed("count"), Role::Count);
                // As PostgreSQL does: both as numeric, and NULL where there was nothing.
                return made(
                    "pg_catalog.sum({0}) operator(pg_catalog./) nullif(pg_catalog.sum({1}), 0)",
                    &[place(total), place(count)],
                );
            }
            _ => return Err(Refusal::Aggregate(name)),
        };
        let number = self.value(canonical, role);
        made(text, &[place(number)])
    }
}

/// The expression of an item of ORDER BY, unless it is the number of an output column.
fn sorted_expression(item: &mut Node) -> Option<&mut Option<Box<Node>>> {
    match &mut item.node {
        Some(NodeEnum::SortBy(sort)) => {
            let node = sort.node.as_deref().and_then(|node| node.node.as_ref());
            (!matches!(node, Some(NodeEnum::AConst(_)))).then_some(&mut sort.node)
        }
        _ => None,
    }
}

/// Whether an expression holds an aggregate of the query it stands in.
pub(super) fn has_aggregate(node: &Node) -> bool {
    let mut found = false;
    visit(node, &mut |tree| match tree {
        Tree::Node(NodeEnum::FuncCall(call)) => {
            found |= is_aggregate(call);
            true
        }
        Tree::Select(_) => false,
        _ => true,
    });
    found
}
