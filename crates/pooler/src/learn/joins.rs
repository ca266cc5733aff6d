//! [`Joins`]: which columns a text joins, groups by and restricts. Pure.
//!
//! Names are looked up for the text as a whole: of an alias that means two tables nothing is known. What is missed costs a proposal,
//! no more.

use std::collections::{BTreeSet, HashMap};

use pg_query::NodeEnum;
use pg_query::protobuf as pb;

use super::schema::{Place, Schema};
use crate::keys::class_of;
use crate::understand::{Tree, children, guarded_parse, names};

/// Nodes looked at in one text.
const NODES_MAX: usize = 20_000;

/// What a text says of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Joins {
    /// Tables, each once, in the order of the text.
    pub tables: Vec<usize>,
    /// Columns that are compared for equality.
    pub equal: Vec<(Place, Place)>,
    /// Columns rows are grouped by.
    pub grouped: BTreeSet<Place>,
    /// Columns that are compared with something that is no column: only a part of their keys is read.
    pub restricted: BTreeSet<Place>,
}

impl Joins {
    /// A column and those that equal it in the rows that are joined.
    pub fn class_of(&self, place: Place) -> BTreeSet<Place> {
        class_of(place, &self.equal)
    }
}

/// Reads a text; nothing where it is not understood.
pub(super) fn joins(schema: &Schema, text: &str) -> Joins {
    let mut joins = Joins::default();
    let Some(parsed) = guarded_parse(text) else {
        return joins;
    };
    let mut nodes: Vec<Tree<'_>> = Vec::new();
    let mut open: Vec<Tree<'_>> = parsed
        .stmts
        .iter()
        .filter_map(|raw| Tree::of(raw.stmt.as_deref()?))
        .collect();
    while let Some(tree) = open.pop() {
        if nodes.len() >= NODES_MAX {
            return Joins::default();
        }
        nodes.push(tree);
        let mut below = Vec::new();
        children(tree, &mut |child| below.push(child));
        // In the order of the text.
        open.extend(below.into_iter().rev());
    }
    let mut aliases: HashMap<&str, Option<usize>> = HashMap::new();
    for tree in &nodes {
        let Tree::Table(table) = tree else { continue };
        let named = Some(table.schemaname.as_str()).filter(|name| !name.is_empty());
        let found = schema.find(named, &table.relname);
        if let Some(found) = found
            && !joins.tables.contains(&found)
        {
            joins.tables.push(found);
        }
        let alias = table
            .alias
            .as_ref()
            .map_or(table.relname.as_str(), |alias| alias.aliasname.as_str());
        aliases
            .entry(alias)
            .and_modify(|known| *known = known.filter(|known| Some(*known) == found))
            .or_insert(found);
    }
    let reading = Reading { schema, aliases };
    for tree in nodes {
        match tree {
            Tree::Select(select) => {
                let columns = select.group_clause.iter().filter_map(|node| node.node.as_ref());
                let grouped: Vec<Place> = columns
                    .filter_map(|node| reading.column(&joins.tables, node))
                    .collect();
                joins.grouped.extend(grouped);
            }
            Tree::Node(NodeEnum::AExpr(expr)) => reading.compared(&mut joins, expr),
            Tree::Node(NodeEnum::JoinExpr(join)) => {
                for name in names(&join.using_clause) {
                    let same: Vec<Place> = joins
                        .tables
                        .iter()
                        .filter_map(|&table| schema.column_of(table, name))
                        .collect();
                    joins.equal.extend(same.windows(2).map(|pair| (pair[0], pair[1])));
                }
            }
            _ => {}
        }
    }
    joins
}

struct Reading<'a> {
    schema: &'a Schema,
    aliases: HashMap<&'a str, Option<usize>>,
}

impl Reading<'_> {
    fn compared(&self, joins: &mut Joins, expr: &pb::AExpr) {
        let names = names(&expr.name);
        let operator = names.last().filter(|_| expr.kind() == pb::AExprKind::AexprOp);
        let compares = match expr.kind() {
            pb::AExprKind::AexprOp => operator.is_some_and(|name| ["=", "<", ">", "<=", ">="].contains(name)),
            pb::AExprKind::AexprIn | pb::AExprKind::AexprBetween | pb::AExprKind::AexprOpAny => true,
            _ => false,
        };
        if !compares {
            return;
        }
        let side = |node: &Option<Box<pg_query::Node>>| {
            let node = node.as_ref()?.node.as_ref()?;
            self.column(&joins.tables, node)
        };
        match (side(&expr.lexpr), side(&expr.rexpr)) {
            (Some(left), Some(right)) if operator == Some(&"=") => joins.equal.push((left, right)),
            (Some(one), None) | (None, Some(one)) => {
                joins.restricted.insert(one);
            }
            _ => {}
        }
    }

    /// The column a node is, if it is one of a table of the text.
    fn column(&self, tables: &[usize], node: &NodeEnum) -> Option<Place> {
        let NodeEnum::ColumnRef(reference) = node else {
            return None;
        };
        match names(&reference.fields).as_slice() {
            [column] => {
                let mut found = tables
                    .iter()
                    .filter_map(|&table| self.schema.column_of(table, column));
                let first = found.next()?;
                found.next().is_none().then_some(first)
            }
            [alias, column] => self.schema.column_of((*self.aliases.get(alias)?)?, column),
            [schema, table, column] => self
                .schema
                .column_of(self.schema.find(Some(schema), table)?, column),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::schema::{Column, Table};
    use super::*;
    use crate::config::KeyType;

    /// Orders of a small shop.
    pub(in crate::learn) fn shop() -> Schema {
        let table = |name: &str, rows: u64, columns: &[&str]| Table {
            schema: "public".to_owned(),
            name: name.to_owned(),
            visible: true,
            rows,
            bytes: rows * 100,
            unreadable: false,
            out_of_reach: false,
            columns: columns
                .iter()
                .enumerate()
                .map(|(at, name)| Column {
                    name: (*name).to_owned(),
                    kind: (!name.ends_with("title")).then_some(KeyType::Integer),
                    zoned: false,
                    leads: at == 0,
                    alone: at == 0 && *name != "ol_o_id",
                })
                .collect(),
        };
        Schema {
            tables: vec![
                table("order_line", 15_000, &["ol_o_id", "ol_i_id", "ol_qty"]),
                table("orders", 5_000, &["o_id", "o_c_id"]),
                table("item", 1_000, &["i_id", "i_title", "i_a_id"]),
            ],
            references: Vec::new(),
        }
    }

    fn place(schema: &Schema, table: &str, column: &str) -> Place {
        schema
            .column_of(schema.find(None, table).expect("a table"), column)
            .expect("a column")
    }

    #[test]
    fn joins_groups_and_restrictions_are_found() {
        let schema = shop();
        let at = |table: &str, column: &str| place(&schema, table, column);
        let found = joins(
            &schema,
            "select i_id, sum(ol_qty) from item i join order_line l on i.i_id = l.ol_i_id \
             where l.ol_o_id > (select max(o_id) - $1 from orders) and i_title = $2 group by i_id order by 2 limit $3",
        );
        assert_eq!(found.tables, [2, 0, 1]);
        assert_eq!(found.equal, [(at("item", "i_id"), at("order_line", "ol_i_id"))]);
        assert_eq!(found.grouped, BTreeSet::from([at("item", "i_id")]));
        assert_eq!(
            found.restricted,
            BTreeSet::from([at("order_line", "ol_o_id"), at("item", "i_title")])
        );
        assert_eq!(found.class_of(at("item", "i_id")).len(), 2);
    }

    #[test]
    fn what_is_ambiguous_or_not_understood_says_nothing() {
        let schema = shop();
        assert_eq!(joins(&schema, "select interval $1"), Joins::default());
        let found = joins(
            &schema,
            "select (select count(*) from item x where x.i_id = 1), (select count(*) from orders x where x.o_id = 1)",
        );
        assert!(found.restricted.is_empty(), "{found:?}");
        assert!(
            joins(&schema, "select 1 from elsewhere where a = b")
                .equal
                .is_empty()
        );
    }
}
