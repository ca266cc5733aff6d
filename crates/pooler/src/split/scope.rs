//! [`Scope`]: which column a name means, in a statement and in the sub-selects of it.

use pg_query::protobuf as pb;
use pg_query::{Node, NodeEnum};

use super::Refusal;
use super::allow::is_aggregate;
use super::catalog::{Catalog, CatalogColumn};
use super::kinds;
use super::names::ends_in_star;
use super::plan::From;
use super::walk::{self, visit, visit_select, walk};
use crate::understand::{TableName, Tree, names};

/// A column of a table in FROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Column {
    /// Which source.
    pub source: usize,
    /// Which column of its table.
    pub column: usize,
}

/// The names of one FROM.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub catalog: &'a Catalog,
    /// The tables of the text, as the catalog is numbered.
    tables: &'a [&'a TableName],
    pub from: &'a From,
}

impl<'a> Scope<'a> {
    pub fn new(catalog: &'a Catalog, tables: &'a [&'a TableName], from: &'a From) -> Self {
        Scope {
            catalog,
            tables,
            from,
        }
    }

    /// The table of a source.
    pub fn table(&self, source: usize) -> Option<&'a super::catalog::CatalogTable> {
        let name = &self.from.sources.get(source)?.table;
        let number = self.tables.iter().position(|table| *table == name)?;
        self.catalog.tables.get(number)
    }

    /// What the catalog says of a column.
    pub fn of(&self, column: Column) -> Option<&'a CatalogColumn> {
        self.table(column.source)?.columns.get(column.column)
    }

    /// Whether some table has a column of this name.
    pub fn has(&self, name: &str) -> bool {
        (0..self.from.sources.len()).any(|source| {
            self.table(source)
                .is_some_and(|table| table.column(name).is_some())
        })
    }

    /// The column a name means, if it is one and only one.
    pub fn find(&self, reference: &pb::ColumnRef) -> Option<Column> {
        let parts = names(&reference.fields);
        if parts.len() != reference.fields.len() {
            return None;
        }
        let of = |source: usize, name: &str| {
            let column = self.table(source)?.column(name)?;
            Some(Column { source, column })
        };
        let sources = 0..self.from.sources.len();
        match parts.as_slice() {
            [name] => {
                let found: Vec<Column> = sources.filter_map(|source| of(source, name)).collect();
                match found.as_slice() {
                    [only] => Some(*only),
                    // Merged by USING, it is the one of the first table; the others must be merged into it.
                    [first, rest @ ..] => rest
                        .iter()
                        .all(|other| self.merged(first.source, other.source, name))
                        .then_some(*first),
                    [] => None,
                }
            }
            [table, name] => {
                let mut found = sources.filter(|source| self.from.sources[*source].visible == *table);
                match (found.next(), found.next()) {
                    (Some(source), None) => of(source, name),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether USING makes one column of those of this name in two tables.
    fn merged(&self, first: usize, other: usize, name: &str) -> bool {
        self.from.using.iter().any(|using| {
            using.left.contains(&first)
                && using.right.contains(&other)
                && using.columns.iter().any(|column| column == name)
        })
    }

    /// An expression whose names are qualified and which has no locations, so that equal ones compare equal.
    pub fn canonical(&self, node: &Node) -> Node {
        let mut node = walk::without_locations(node.clone());
        walk(&mut node, &mut |node| {
            match &node.node {
                Some(NodeEnum::ColumnRef(reference)) => {
                    if let Some(found) = self.find(reference)
                        && let Some(column) = self.of(found)
                    {
                        *node = walk::column(&self.from.sources[found.source].visible, &column.name);
                    }
                    false
                }
                // What is in there may mean columns of its own.
                Some(NodeEnum::SelectStmt(_)) => false,
                _ => true,
            }
        });
        node
    }

    /// The columns in an expression, those of sub-selects aside.
    ///
    /// # Errors
    /// A name that is no column in reach.
    pub fn columns(&self, node: &Node) -> Result<Vec<Column>, Refusal> {
        let mut found = Vec::new();
        let mut unknown = None;
        visit(node, &mut |tree| match tree {
            Tree::Node(NodeEnum::ColumnRef(reference)) => {
                match self.find(reference) {
                    Some(column) => found.push(column),
                    None if ends_in_star(reference) => {}
                    None => unknown = Some(shown(reference)),
                }
                false
            }
            Tree::Select(_) => false,
            _ => true,
        });
        unknown.map_or(Ok(found), |name| Err(Refusal::Column(name)))
    }

    /// How far out a sub-select reaches, and whether its names are known.
    pub fn reach(&self, select: &pb::SelectStmt) -> Result<Reach, Refusal> {
        let mut reach = Reach {
            correlated: false,
            settled: Ok(()),
        };
        self.look(select, &[*self], &mut reach)?;
        Ok(reach)
    }

    fn look(&self, select: &pb::SelectStmt, outer: &[Scope<'_>], reach: &mut Reach) -> Result<(), Refusal> {
        let from = From::of_sub_select(&select.from_clause);
        let inner = Scope::new(self.catalog, self.tables, &from);
        let limited = select.limit_count.is_some() || select.limit_offset.is_some();
        let first_of_each = select.distinct_clause.iter().any(|node| node.node.is_some());
        if limited || first_of_each {
            reach.settled = Err(Refusal::SubSelect("LIMIT, OFFSET or DISTINCT ON"));
        }
        let mut chain: Vec<Scope<'_>> = outer.to_vec();
        chain.push(inner);
        let here = chain.len() - 1;
        let level =
            |reference: &pb::ColumnRef| chain.iter().rposition(|scope| scope.find(reference).is_some());
        let mut failed = None;
        let mut inside = Vec::new();
        let mut correlated = false;
        let mut floats = false;
        let mut adds = false;
        visit_select(select, &mut |tree| match tree {
            Tree::Node(NodeEnum::ColumnRef(reference)) => {
                match level(reference) {
                    Some(level) => {
                        correlated |= level == 0;
                        let scope = &chain[level];
                        floats |= scope
                            .find(reference)
                            .and_then(|column| scope.of(column))
                            .is_some_and(|column| kinds::is_float(column.kind));
                    }
                    None if ends_in_star(reference) => {}
                    None => failed = Some(Refusal::Column(shown(reference))),
                }
                false
            }
            Tree::Node(NodeEnum::FuncCall(call)) => {
                if is_aggregate(call) {
                    adds |= matches!(names(&call.funcname).last(), Some(&("sum" | "avg")));
                    let mut levels = Vec::new();
                    for argument in &call.args {
                        visit(argument, &mut |tree| {
                            if let Tree::Node(NodeEnum::ColumnRef(reference)) = tree {
                                levels.extend(level(reference));
                            }
                            true
                        });
                    }
                    if levels.iter().max().is_some_and(|level| *level < here) {
                        failed = Some(Refusal::SubSelect("an aggregate of the query around it"));
                    }
                }
                true
            }
            Tree::Node(NodeEnum::TypeCast(cast)) => {
                floats |= cast
                    .type_name
                    .as_ref()
                    .is_some_and(|kind| matches!(names(&kind.names).last(), Some(&("float4" | "float8"))));
                true
            }
            Tree::Select(select) => {
                inside.push(select);
                false
            }
            _ => true,
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        reach.correlated |= correlated;
        if floats && adds && reach.settled.is_ok() {
            reach.settled = Err(Refusal::SubSelect("a sum of floating-point numbers"));
        }
        inside
            .into_iter()
            .try_for_each(|select| self.look(select, &chain, reach))
    }
}

/// What is known of a sub-select.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// It reads columns of the query around it.
    pub correlated: bool,
    /// Whether it gives the same each time it is evaluated on a snapshot.
    pub settled: Result<(), Refusal>,
}

fn shown(reference: &pb::ColumnRef) -> String {
    names(&reference.fields).join(".")
}
