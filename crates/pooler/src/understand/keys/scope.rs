//! [`Scope`]: the tables of one query, its columns, and which of these an inner join makes equal.

use std::collections::BTreeMap;

use pg_query::NodeEnum;
use pg_query::protobuf as pb;

use crate::understand::{TableName, names};

/// Columns of a query that are looked at; those that follow are not known.
const ELEMENTS_MAX: usize = 64;

/// Something in FROM.
pub(super) struct Relation {
    /// The name its columns are qualified by.
    name: String,
    /// The table it is; `None` for sub-selects, names of WITH, functions, and where the columns are named anew.
    pub(super) table: Option<TableName>,
}

impl Relation {
    /// A table, unless its name is one of `ctes`.
    pub(super) fn of(table: &pb::RangeVar, ctes: &[String]) -> Relation {
        let alias = table.alias.as_ref();
        let renamed = alias.is_some_and(|alias| !alias.colnames.is_empty());
        let cte = table.schemaname.is_empty() && ctes.contains(&table.relname);
        Relation {
            name: alias.map_or(&table.relname, |alias| &alias.aliasname).clone(),
            table: (!renamed && !cte).then(|| TableName::of(table)),
        }
    }

    /// Anything else.
    pub(super) fn other(alias: Option<&pb::Alias>) -> Relation {
        Relation {
            name: alias.map(|alias| alias.aliasname.clone()).unwrap_or_default(),
            table: None,
        }
    }
}

/// A column, of one of these relations.
#[derive(Clone, PartialEq, Eq)]
struct Element {
    relations: Vec<usize>,
    column: String,
}

/// One query of a text.
#[derive(Default)]
pub(super) struct Scope {
    relations: Vec<Relation>,
    elements: Vec<Element>,
    /// For each element one that it is equal to, nearer to the root of its class; itself at the root.
    towards: Vec<usize>,
    /// Columns that USING made one of two, by their names.
    merged: BTreeMap<String, usize>,
}

impl Scope {
    pub(super) fn add(&mut self, relation: Relation) {
        self.relations.push(relation);
    }

    /// How many relations there are.
    pub(super) fn relations(&self) -> usize {
        self.relations.len()
    }

    /// The class of a column as an expression names it. `None`: it is none of these tables'.
    pub(super) fn class_of(&mut self, column: &pb::ColumnRef) -> Option<usize> {
        let parts = names(&column.fields);
        if parts.len() != column.fields.len() {
            return None;
        }
        let (relations, column) = match parts.as_slice() {
            [column] if self.merged.contains_key(*column) => return Some(self.root(self.merged[*column])),
            [column] => ((0..self.relations.len()).collect(), *column),
            [name, column] => {
                let index = self
                    .relations
                    .iter()
                    .position(|relation| relation.name == *name)?;
                (vec![index], *column)
            }
            [schema, name, column] => {
                let index = self.relations.iter().position(|relation| {
                    relation.name == *name
                        && relation.table.as_ref().is_some_and(|table| {
                            &*table.name == *name && table.schema.as_deref().is_none_or(|own| own == *schema)
                        })
                })?;
                (vec![index], *column)
            }
            _ => return None,
        };
        self.class(relations, column)
    }

    /// The class of a column of one of these relations.
    fn class(&mut self, mut relations: Vec<usize>, column: &str) -> Option<usize> {
        relations.retain(|index| self.relations[*index].table.is_some());
        if relations.is_empty() {
            return None;
        }
        let element = Element {
            relations,
            column: column.to_owned(),
        };
        let index = match self.elements.iter().position(|other| *other == element) {
            Some(index) => index,
            None if self.elements.len() == ELEMENTS_MAX => return None,
            None => {
                self.elements.push(element);
                self.towards.push(self.towards.len());
                self.towards.len() - 1
            }
        };
        Some(self.root(index))
    }

    pub(super) fn root(&self, mut index: usize) -> usize {
        while self.towards[index] != index {
            index = self.towards[index];
        }
        index
    }

    /// Makes two columns equal.
    pub(super) fn equate(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        // The first stays the root, so that classes keep the order of the text.
        self.towards[one.max(other)] = one.min(other);
    }

    /// `JOIN ... USING (column)`: the relations from `begin` on, of which those from `middle` on are the right side.
    pub(super) fn equate_using(&mut self, begin: usize, middle: usize, using: &[pg_query::Node]) {
        for column in using {
            let Some(NodeEnum::String(column)) = &column.node else {
                continue;
            };
            let end = self.relations.len();
            let classes = [begin..middle, middle..end].map(|side| {
                // The left side may have merged it already.
                match self.merged.get(&column.sval) {
                    Some(class) if side.start == 0 => Some(*class),
                    _ => self.class(side.collect(), &column.sval),
                }
            });
            if let [Some(left), Some(right)] = classes {
                self.equate(left, right);
                self.merged.insert(column.sval.clone(), left);
            }
        }
    }

    /// The columns of a class: the tables each may belong to, and its name.
    pub(super) fn columns(&self, class: usize) -> impl Iterator<Item = (Box<[TableName]>, &str)> {
        let of_class = move |index: &usize| self.root(*index) == class;
        (0..self.elements.len())
            .filter(of_class)
            .filter_map(move |index| {
                let element = &self.elements[index];
                // What is known of one table need not be said again of several.
                let said = element.relations.len() > 1
                    && (0..self.elements.len()).filter(of_class).any(|other| {
                        let other = &self.elements[other];
                        other.relations.len() == 1 && other.column == element.column
                    });
                let tables = element
                    .relations
                    .iter()
                    .filter_map(|index| self.relations[*index].table.clone());
                (!said).then(|| (tables.collect(), element.column.as_str()))
            })
    }

    /// Classes in the order in which their first columns were met.
    pub(super) fn classes(&self) -> impl Iterator<Item = usize> {
        (0..self.towards.len()).filter(|index| self.towards[*index] == *index)
    }
}
