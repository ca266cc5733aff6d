//! [`Resolved`]: a plan after the catalog has said what its names mean: what the parts are and how they are put together.

use std::collections::BTreeSet;

use pg_query::protobuf as pb;
use pg_query::{Node, NodeEnum};

use super::kinds;
use super::names::{self, Item};
use super::partial::{Partial, has_aggregate};
use super::plan::Bound;
use super::scope::{Column, Scope};
use super::text::{self, ONCE_MAX, Template};
use super::walk::{self, as_select};
use super::{Plan, Refusal};
use crate::keys::class_of;
use crate::understand::{Tree, own_operator};

/// How an item of ORDER BY puts rows in order.
#[derive(Clone, Debug)]
pub(super) struct SortKey {
    pub descending: bool,
    pub nulls_first: bool,
    /// Under which collation, if it turns out to be text.
    pub collation: SortCollation,
    /// The output column that is the same, where each row is wanted once only.
    pub output: Option<usize>,
}

/// The collation of an item of ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortCollation {
    /// Bytes.
    C,
    /// That of literals.
    Default,
    /// Something else.
    Other,
}

/// A sub-select that may be evaluated once.
#[derive(Clone, Debug)]
pub(super) struct Once {
    pub text: String,
    /// Whether it may stay in the parts instead.
    pub settled: Result<(), Refusal>,
}

/// How the parts are put together, as far as types do not matter.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Any order.
    Concat,
    /// By these hidden columns, which follow those of the output.
    Sorted(Vec<SortKey>),
    /// Each row once, in the order of these.
    Distinct(Vec<SortKey>),
    /// Groups of groups.
    Regrouped(Box<Partial>),
}

/// A query whose names are known. What is left to know are types.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub(super) part: Template,
    pub(super) way: Way,
    pub(super) once: Vec<Once>,
    pub(super) limit: Bound,
    pub(super) offset: Bound,
    /// The key's column as an expression.
    pub(super) key: String,
    pub(super) key_type: u32,
    pub(super) key_not_null: bool,
    /// Text of all tables has the collation of literals, or none.
    pub(super) text_default: bool,
    describe: String,
    leader: String,
}

impl Plan {
    /// Reads the answer to [`Plan::questions`]: its rows, as text.
    ///
    /// # Errors
    /// Why the query runs whole.
    pub fn resolve(&self, rows: &[Vec<Option<String>>]) -> Result<Resolved, Refusal> {
        let catalog = self.catalog(rows)?;
        let tables = self.tables();
        Resolving {
            plan: self,
            scope: Scope::new(&catalog, &tables, &self.from),
            select: (*self.select).clone(),
            once: Vec::new(),
        }
        .run()
    }
}

struct Resolving<'a> {
    plan: &'a Plan,
    scope: Scope<'a>,
    select: pb::SelectStmt,
    once: Vec<Once>,
}

impl Resolving<'_> {
    fn run(mut self) -> Result<Resolved, Refusal> {
        let key = self.key()?;
        self.own_types()?;
        self.mark_sub_selects()?;
        let scope = self.scope;
        let class = self.key_class(key);
        let is_key = |node: &Node| match &node.node {
            Some(NodeEnum::ColumnRef(reference)) => scope
                .find(reference)
                .is_some_and(|column| class.contains(&column)),
            _ => false,
        };
        let targets = self.select.target_list.clone();
        let sorts = self.sorts(&targets)?;
        let groups = self.groups(&targets)?;
        self.names_known(&groups, &sorts)?;

        let aggregated = targets.iter().any(has_aggregate)
            || self.select.having_clause.as_deref().is_some_and(has_aggregate)
            || sorts.iter().any(|sort| has_aggregate(&sort.0));
        let grouped = aggregated || !groups.is_empty() || self.select.having_clause.is_some();
        let distinct = !self.select.distinct_clause.is_empty();
        let limited = self.plan.limit != Bound::None || self.plan.offset != Bound::None;
        let disjoint = groups.iter().any(is_key);
        // One row needs no order.
        if limited && sorts.is_empty() && !(grouped && groups.is_empty()) {
            return Err(Refusal::LimitWithoutOrder);
        }

        let (way, mut part) = if grouped && !disjoint {
            let sorted_by: Vec<&Node> = sorts.iter().map(|sort| &sort.0).collect();
            let partial = Partial::of(&self.select, &groups, &sorted_by, &scope, &is_key)?;
            let part = partial.part.clone();
            (Way::Regrouped(Box::new(partial)), part)
        } else {
            let part = self.ordered_part(&sorts)?;
            let apart = !distinct
                || targets
                    .iter()
                    .any(|target| self.outputs_key(target, &class, &is_key));
            let keys: Vec<SortKey> = sorts.into_iter().map(|sort| sort.1).collect();
            let way = match (apart, keys.is_empty()) {
                (false, _) if keys.iter().any(|key| key.output.is_none()) => {
                    return Err(Refusal::Construct(
                        "DISTINCT with an ORDER BY that is not in the select list",
                    ));
                }
                (false, _) => Way::Distinct(keys),
                (true, true) => Way::Concat,
                (true, false) => Way::Sorted(keys),
            };
            (way, part)
        };
        self.add_predicate(&mut part);
        let part = Template::of(&part)?;
        self.finish(key, way, part)
    }

    fn finish(self, key: Column, way: Way, part: Template) -> Result<Resolved, Refusal> {
        let column = self.scope.of(key).ok_or(Refusal::CatalogAnswer)?;
        let catalog = self.scope.catalog;
        let star = self.select.target_list.iter().any(names::is_star);
        let text_default = catalog
            .tables
            .iter()
            .flat_map(|table| &table.columns)
            .all(|column| {
                !star && !self.plan.seen.columns.contains(&column.name)
                    || catalog.is_default(column.collation)
            });
        let visible = &self.plan.from.sources[key.source].visible;
        let mut leader = "SELECT pg_catalog.pg_export_snapshot()".to_owned();
        for once in &self.once {
            leader.push_str(&format!(", ({})", once.text));
        }
        for bound in [self.plan.limit, self.plan.offset] {
            match bound {
                Bound::Parameter(number) => leader.push_str(&format!(", (${number})::pg_catalog.int8")),
                _ => leader.push_str(", NULL::pg_catalog.int8"),
            }
        }
        Ok(Resolved {
            describe: part.fill("(true)", |number| match self.once.get(number) {
                Some(once) => format!("({})", once.text),
                None => String::new(),
            }),
            part,
            way,
            limit: self.plan.limit,
            offset: self.plan.offset,
            key: text::qualified(Some(visible), &column.name),
            key_type: column.kind,
            key_not_null: column.not_null,
            text_default,
            leader,
            once: self.once,
        })
    }

    /// The key's column.
    fn key(&self) -> Result<Column, Refusal> {
        let source = self.plan.key_source;
        let table = self.scope.table(source).ok_or(Refusal::CatalogAnswer)?;
        if self.scope.catalog.key != table.oid {
            return Err(Refusal::KeyTable(0));
        }
        let name = &self.plan.key.column;
        let column = table
            .column(name)
            .ok_or_else(|| Refusal::NoKeyColumn(name.clone()))?;
        let kind = table.columns[column].kind;
        if !kinds::is_key(kind) {
            return Err(Refusal::KeyType(format!("{}.{name}", self.plan.key.table)));
        }
        Ok(Column { source, column })
    }

    /// Refuses columns whose operators may be anybody's, wherever in the text.
    fn own_types(&self) -> Result<(), Refusal> {
        let columns = self.scope.catalog.tables.iter().flat_map(|table| &table.columns);
        for column in columns {
            if column.own_type && self.plan.seen.columns.contains(&column.name) {
                return Err(Refusal::ColumnType(column.name.clone()));
            }
        }
        Ok(())
    }

    /// Puts marks in the place of sub-selects that can be evaluated once, and checks that the others may stay.
    fn mark_sub_selects(&mut self) -> Result<(), Refusal> {
        let mut outcome = Ok(());
        let scope = self.scope;
        let once = &mut self.once;
        let mut mark = |node: &mut Node| -> bool {
            if outcome.is_err() {
                return false;
            }
            let Some(NodeEnum::SubLink(link)) = &node.node else {
                return true;
            };
            let Some(select) = link.subselect.as_deref().and_then(as_select) else {
                return true;
            };
            let found = scope.reach(select).and_then(|reach| {
                let single = link.sub_link_type() == pb::SubLinkType::ExprSublink;
                if single && !reach.correlated && once.len() < ONCE_MAX {
                    let text = text::written(select)?;
                    Ok(Some(Once {
                        text,
                        settled: reach.settled,
                    }))
                } else {
                    reach.settled.map(|()| None)
                }
            });
            match found {
                Ok(Some(found)) => {
                    // Written twice, it is one value.
                    let number = once
                        .iter()
                        .position(|known| known.text == found.text)
                        .unwrap_or_else(|| {
                            once.push(found);
                            once.len() - 1
                        });
                    *node = walk::parameter(text::once_mark(number));
                }
                Ok(None) => {
                    // What is compared with it may hold another one; what is inside has been looked at.
                    return true;
                }
                Err(refusal) => outcome = Err(refusal),
            }
            false
        };
        let select = &mut self.select;
        let lists = [
            &mut select.target_list,
            &mut select.from_clause,
            &mut select.group_clause,
            &mut select.sort_clause,
        ];
        let conditions = [&mut select.where_clause, &mut select.having_clause];
        let conditions = conditions.into_iter().flatten().map(|node| &mut **node);
        for node in lists.into_iter().flatten().chain(conditions) {
            // Inside a sub-select that stays, names mean other things, so nothing there is marked.
            walk::walk(node, &mut |node| {
                !matches!(&node.node, Some(NodeEnum::SelectStmt(_))) && mark(node)
            });
        }
        outcome
    }

    /// Columns that are equal to the key in every joined row, by the conditions that every joined row meets.
    fn key_class(&self, key: Column) -> BTreeSet<Column> {
        let mut pairs: Vec<(Column, Column)> = Vec::new();
        let mut conditions: Vec<&Node> = self.plan.from.holds.iter().collect();
        conditions.extend(self.select.where_clause.as_deref());
        while let Some(condition) = conditions.pop() {
            match &condition.node {
                Some(NodeEnum::BoolExpr(expr)) if expr.boolop() == pb::BoolExprType::AndExpr => {
                    conditions.extend(&expr.args);
                }
                Some(NodeEnum::AExpr(expr)) => pairs.extend(self.equality(expr)),
                _ => {}
            }
        }
        for using in self.plan.from.using.iter().filter(|using| using.holds) {
            for name in &using.columns {
                let of = |mut sources: std::ops::Range<usize>| {
                    sources.find_map(|source| {
                        let column = self.scope.table(source)?.column(name)?;
                        Some(Column { source, column })
                    })
                };
                if let (Some(left), Some(right)) = (of(using.left.clone()), of(using.right.clone())) {
                    pairs.push((left, right));
                }
            }
        }
        pairs.retain(|(one, other)| self.alike(*one, *other));
        class_of(key, &pairs)
    }

    fn equality(&self, expr: &pb::AExpr) -> Option<(Column, Column)> {
        let column = |side: &Option<Box<Node>>| match side.as_deref().map(|node| &node.node) {
            Some(Some(NodeEnum::ColumnRef(reference))) => self.scope.find(reference),
            _ => None,
        };
        if expr.kind() != pb::AExprKind::AexprOp || own_operator(expr) != Some("=") {
            return None;
        }
        Some((column(&expr.lexpr)?, column(&expr.rexpr)?))
    }

    /// Whether equal values of two columns are in the same place of the order of both.
    fn alike(&self, one: Column, other: Column) -> bool {
        match (self.scope.of(one), self.scope.of(other)) {
            (Some(one), Some(other)) => {
                kinds::share_order(one.kind, other.kind) && one.collation == other.collation
            }
            _ => false,
        }
    }

    /// Expressions of GROUP BY.
    fn groups(&self, targets: &[Node]) -> Result<Vec<Node>, Refusal> {
        let groups = self.select.group_clause.iter().map(|item| {
            let is_column = names::bare_name(item).is_some_and(|name| self.scope.has(name));
            match names::meant(targets, item, !is_column)? {
                Item::Output(number) => names::value(targets, number).cloned().ok_or(Refusal::Rewrite),
                Item::Expression(node) => Ok(*node),
            }
        });
        groups.collect()
    }

    /// Expressions of ORDER BY.
    fn sorts(&self, targets: &[Node]) -> Result<Vec<(Node, SortKey)>, Refusal> {
        let mut sorts = Vec::new();
        for item in &self.select.sort_clause {
            let Some(NodeEnum::SortBy(sort)) = &item.node else {
                return Err(Refusal::Rewrite);
            };
            let node = sort.node.as_deref().ok_or(Refusal::Rewrite)?;
            let descending = sort.sortby_dir() == pb::SortByDir::SortbyDesc;
            let nulls_first = match sort.sortby_nulls() {
                pb::SortByNulls::SortbyNullsFirst => true,
                pb::SortByNulls::SortbyNullsLast => false,
                _ => descending,
            };
            let (value, output) = match names::meant(targets, node, true)? {
                Item::Output(number) => {
                    let value = names::value(targets, number).cloned().ok_or(Refusal::Rewrite)?;
                    (value, Some(number))
                }
                Item::Expression(value) => {
                    let canonical = self.scope.canonical(&value);
                    let output = (0..targets.len()).find(|number| {
                        names::value(targets, *number)
                            .is_some_and(|target| self.scope.canonical(target) == canonical)
                    });
                    (*value, output)
                }
            };
            let past_star = |number: &usize| !targets[..=*number].iter().any(names::is_star);
            let key = SortKey {
                descending,
                nulls_first,
                collation: self.collation(&value),
                output: output.filter(past_star),
            };
            sorts.push((value, key));
        }
        Ok(sorts)
    }

    /// Every name outside of sub-selects is a column of one table.
    fn names_known(&self, groups: &[Node], sorts: &[(Node, SortKey)]) -> Result<(), Refusal> {
        let select = &self.select;
        let conditions = [&select.where_clause, &select.having_clause];
        let targets = select
            .target_list
            .iter()
            .chain(groups)
            .chain(sorts.iter().map(|sort| &sort.0));
        for node in targets
            .chain(conditions.into_iter().filter_map(|node| node.as_deref()))
            .chain(&select.from_clause)
        {
            self.scope.columns(node)?;
        }
        Ok(())
    }

    /// The collation under which an expression would be put in order, if it is text.
    fn collation(&self, node: &Node) -> SortCollation {
        if let Some(NodeEnum::CollateClause(collate)) = &node.node {
            return match crate::understand::names(&collate.collname).as_slice() {
                ["C" | "POSIX"] | ["pg_catalog", "C" | "POSIX"] => SortCollation::C,
                _ => SortCollation::Other,
            };
        }
        let mut plain = true;
        walk::visit(node, &mut |tree| {
            plain &= !matches!(
                tree,
                Tree::Node(NodeEnum::CollateClause(_) | NodeEnum::SubLink(_))
            );
            true
        });
        let Ok(columns) = self.scope.columns(node) else {
            return SortCollation::Other;
        };
        let collations: BTreeSet<u32> = columns
            .into_iter()
            .filter_map(|column| self.scope.of(column))
            .map(|column| column.collation)
            .filter(|collation| *collation != 0)
            .collect();
        let catalog = self.scope.catalog;
        let mut all = collations.iter().copied();
        let one = match (plain, collations.len()) {
            (true, 0) => kinds::COLLATION_DEFAULT,
            (true, 1) => all.next().unwrap_or(kinds::COLLATION_DEFAULT),
            _ => return SortCollation::Other,
        };
        if catalog.is_c(one) {
            SortCollation::C
        } else if catalog.is_default(one) {
            SortCollation::Default
        } else {
            SortCollation::Other
        }
    }

    /// Whether an output column is the key, or a star that stands for it.
    fn outputs_key(&self, target: &Node, class: &BTreeSet<Column>, is_key: &dyn Fn(&Node) -> bool) -> bool {
        let Some(NodeEnum::ResTarget(result)) = &target.node else {
            return false;
        };
        let Some(value) = result.val.as_deref() else {
            return false;
        };
        if !names::is_star(target) {
            return is_key(value);
        }
        let Some(NodeEnum::ColumnRef(reference)) = &value.node else {
            return false;
        };
        match crate::understand::names(&reference.fields).as_slice() {
            [] => true,
            [table] => class
                .iter()
                .any(|column| self.plan.from.sources[column.source].visible == *table),
            _ => false,
        }
    }

    /// The statement with its sort keys as hidden columns behind the others, and as many rows as the whole could take of it.
    fn ordered_part(&self, sorts: &[(Node, SortKey)]) -> Result<pb::SelectStmt, Refusal> {
        let mut part = self.select.clone();
        for (number, (value, _)) in sorts.iter().enumerate() {
            part.target_list
                .push(walk::target(&format!("corun_sort_{number}"), value.clone()));
        }
        part.limit_offset = None;
        part.limit_count = None;
        part.limit_option = pb::LimitOption::Default.into();
        let count = self.select.limit_count.as_deref();
        let offset = self.select.limit_offset.as_deref();
        let limit = match (self.plan.limit, self.plan.offset) {
            (Bound::None, _) => None,
            (_, Bound::None) => count.cloned(),
            (Bound::Constant(limit), Bound::Constant(offset)) => {
                walk::expression(&limit.saturating_add(offset).to_string(), &[])
            }
            _ => {
                let parts = [count, offset].map(|node| node.cloned().unwrap_or_default());
                // Without overflow; NULL is no bound.
                walk::expression(
                    "least({0}::pg_catalog.int8::pg_catalog.numeric operator(pg_catalog.+) \
                     coalesce({1}::pg_catalog.int8, 0)::pg_catalog.numeric, 9223372036854775807)::pg_catalog.int8",
                    &parts,
                )
            }
        };
        if self.plan.limit != Bound::None {
            part.limit_count = Some(Box::new(limit.ok_or(Refusal::Rewrite)?));
            part.limit_option = pb::LimitOption::Count.into();
        }
        Ok(part)
    }

    /// WHERE ... AND the range of the part.
    fn add_predicate(&self, part: &mut pb::SelectStmt) {
        let mark = walk::parameter(text::predicate_mark());
        part.where_clause = Some(Box::new(match part.where_clause.take() {
            None => mark,
            Some(condition) => match condition.node {
                Some(NodeEnum::BoolExpr(mut expr)) if expr.boolop() == pb::BoolExprType::AndExpr => {
                    expr.args.push(mark);
                    walk::node(NodeEnum::BoolExpr(expr))
                }
                other => walk::node(NodeEnum::BoolExpr(Box::new(pb::BoolExpr {
                    xpr: None,
                    boolop: pb::BoolExprType::AndExpr.into(),
                    args: vec![Node { node: other }, mark],
                    location: 0,
                }))),
            },
        }));
    }
}

impl Resolved {
    /// The text of a part without a range, to be parsed, with the parameter types of the original, and described.
    pub fn describe(&self) -> &str {
        &self.describe
    }

    /// The leader's text, to be parsed, with the parameter types of the original, and described.
    pub fn leader(&self) -> &str {
        &self.leader
    }
}
