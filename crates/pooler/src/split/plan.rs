//! [`Plan`]: what a text alone says about whether it may be split.

use std::ops::Range;

use pg_query::protobuf as pb;
use pg_query::protobuf::a_const::Val;
use pg_query::{Node, NodeEnum};

use super::Refusal;
use super::allow::Seen;
use super::partial::ROWS;
use super::text::MARK_TEXT;
use crate::keys::Column;
use crate::understand::{TableName, guarded_parse, names};

/// Bytes of a text beyond which it is not looked into.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;

/// A table in FROM.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub table: TableName,
    /// The name columns are qualified by.
    pub visible: String,
}

/// A join by names of columns.
#[derive(Clone, Debug)]
pub(super) struct Using {
    pub left: Range<usize>,
    pub right: Range<usize>,
    pub columns: Vec<String>,
    /// Equal in every joined row.
    pub holds: bool,
}

/// FROM, in the order of its tables.
#[derive(Clone, Debug, Default)]
pub(super) struct From {
    pub sources: Vec<Source>,
    pub using: Vec<Using>,
    /// Conditions of joins that every joined row meets.
    pub holds: Vec<Node>,
    /// By table: rows without it may be joined.
    optional: Vec<bool>,
}

/// LIMIT or OFFSET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    None,
    Constant(i64),
    Parameter(i32),
}

/// A query that may be split as far as its text says.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) select: Box<pb::SelectStmt>,
    pub(super) key: Column,
    pub(super) seen: Seen,
    pub(super) from: From,
    /// The key's table among the sources.
    pub(super) key_source: usize,
    pub(super) limit: Bound,
    pub(super) offset: Bound,
}

/// Looks into a text; it may have parameters.
///
/// # Errors
/// Why it runs whole.
pub fn plan(text: &str, key: &Column) -> Result<Plan, Refusal> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Refusal::TooLong(TEXT_BYTES_MAX));
    }
    let parsed = guarded_parse(text).ok_or(Refusal::NotUnderstood)?;
    let mut statements = parsed.stmts.into_iter();
    let (Some(first), None) = (statements.next(), statements.next()) else {
        return Err(Refusal::NotPlainSelect("not one statement"));
    };
    let Some(NodeEnum::SelectStmt(select)) = first.stmt.and_then(|node| node.node) else {
        return Err(Refusal::NotPlainSelect("another kind of statement"));
    };
    if text.contains(MARK_TEXT) {
        return Err(Refusal::Construct("a parameter of an impossible number"));
    }
    let seen = Seen::of(&select)?;
    if seen.tables.iter().any(|table| *table.name == *ROWS) {
        return Err(Refusal::Construct(
            "a table named as the rows of the final statement are",
        ));
    }
    let mut from = From::default();
    for item in &select.from_clause {
        from.add(item, false)?;
    }
    let is_key = |source: &&Source| {
        let table = &source.table;
        key.is(table.schema.as_deref(), &table.name, &key.column)
    };
    let count = from.sources.iter().filter(is_key).count();
    let key_source = from
        .sources
        .iter()
        .position(|source| is_key(&source))
        .filter(|_| count == 1)
        .ok_or(Refusal::KeyTable(count))?;
    if from.optional[key_source] {
        return Err(Refusal::KeyOptional);
    }
    if select.distinct_clause.iter().any(|node| node.node.is_some()) {
        return Err(Refusal::NotPlainSelect("DISTINCT ON"));
    }
    if select.limit_option() == pb::LimitOption::WithTies {
        return Err(Refusal::WithTies);
    }
    let limit = bound(select.limit_count.as_deref())?;
    let offset = bound(select.limit_offset.as_deref())?;
    Ok(Plan {
        select,
        key: key.clone(),
        seen,
        from,
        key_source,
        limit,
        offset,
    })
}

fn bound(node: Option<&Node>) -> Result<Bound, Refusal> {
    match node.and_then(|node| node.node.as_ref()) {
        None => Ok(Bound::None),
        Some(NodeEnum::AConst(constant)) if constant.isnull => Ok(Bound::None),
        Some(NodeEnum::AConst(constant)) => match &constant.val {
            Some(Val::Ival(value)) if value.ival >= 0 => Ok(Bound::Constant(value.ival.into())),
            Some(Val::Fval(value)) => value
                .fval
                .parse()
                .map(Bound::Constant)
                .map_err(|_| Refusal::LimitExpression),
            _ => Err(Refusal::LimitExpression),
        },
        Some(NodeEnum::ParamRef(parameter)) => Ok(Bound::Parameter(parameter.number)),
        Some(_) => Err(Refusal::LimitExpression),
    }
}

impl From {
    /// FROM of a sub-select, where any kind of join may stand.
    pub fn of_sub_select(items: &[Node]) -> Self {
        let mut from = From::default();
        for item in items {
            from.add_any(item);
        }
        from
    }

    fn table(&mut self, table: &pb::RangeVar, optional: bool) -> Range<usize> {
        let alias = table.alias.as_ref().map(|alias| &alias.aliasname);
        self.sources.push(Source {
            table: TableName::of(table),
            visible: alias.unwrap_or(&table.relname).clone(),
        });
        self.optional.push(optional);
        self.sources.len() - 1..self.sources.len()
    }

    /// `optional`: rows without it may be joined.
    fn add(&mut self, item: &Node, optional: bool) -> Result<Range<usize>, Refusal> {
        let join = match &item.node {
            Some(NodeEnum::RangeVar(table)) => return Ok(self.table(table, optional)),
            Some(NodeEnum::JoinExpr(join)) => join,
            _ => return Err(Refusal::From("something else")),
        };
        let (Some(left), Some(right)) = (&join.larg, &join.rarg) else {
            return Err(Refusal::NotUnderstood);
        };
        if join.is_natural {
            return Err(Refusal::From("a natural join"));
        }
        let inner = match join.jointype() {
            pb::JoinType::JoinInner => true,
            pb::JoinType::JoinLeft => false,
            _ => return Err(Refusal::From("a right or full join")),
        };
        let left = self.add(left, optional)?;
        let right = self.add(right, optional || !inner)?;
        let holds = inner && !optional;
        if holds {
            self.holds.extend(join.quals.as_deref().cloned());
        }
        self.using(join, &left, &right, holds);
        Ok(left.start..right.end)
    }

    fn using(&mut self, join: &pb::JoinExpr, left: &Range<usize>, right: &Range<usize>, holds: bool) {
        if !join.using_clause.is_empty() {
            self.using.push(Using {
                left: left.clone(),
                right: right.clone(),
                columns: names(&join.using_clause).into_iter().map(str::to_owned).collect(),
                holds,
            });
        }
    }

    fn add_any(&mut self, item: &Node) -> Range<usize> {
        match &item.node {
            Some(NodeEnum::RangeVar(table)) => self.table(table, true),
            Some(NodeEnum::JoinExpr(join)) => {
                let start = self.sources.len();
                let mut sides = [&join.larg, &join.rarg].map(|side| match side {
                    Some(side) => self.add_any(side),
                    None => start..start,
                });
                let [left, right] = &mut sides;
                self.using(join, left, right, false);
                start..self.sources.len()
            }
            _ => self.sources.len()..self.sources.len(),
        }
    }
}

impl Plan {
    /// Tables of the whole text, in the order [`Plan::questions`] numbers them.
    pub(super) fn tables(&self) -> Vec<&TableName> {
        self.seen.tables.iter().collect()
    }
}
