//! Indexes, constraints, defaults and comments of relations, and what depends on what, as the system tables show them.

use super::oids;
use super::quoting::named;
use super::relations::{Index, Relation};
use super::rows::{Value, row};
use super::tables::{Rows, Source};

/// The numbers of system tables, as PostgreSQL has them.
const PG_CLASS: i32 = 1259;
const PG_ATTRDEF: i32 = 2604;
const PG_CONSTRAINT: i32 = 2606;

pub(super) fn pg_index(source: &Source<'_>) -> Rows {
    let of = |(relation, index): (&Relation, &Index)| {
        let columns = index.columns.len();
        let zeros = vec![0; columns];
        row![
            index.oid,
            relation.oid,
            columns as i64,
            columns as i64,
            index.unique,
            false,
            index.primary,
            false,
            true,
            false,
            true,
            false,
            true,
            true,
            false,
            index.columns.clone(),
            zeros.clone(),
            zeros.clone(),
            zeros
        ]
    };
    source.indexes().map(of).collect()
}

pub(super) fn corun_index_keys(source: &Source<'_>) -> Rows {
    let keys = source.indexes().flat_map(|(relation, index)| {
        let keys = index.columns.iter().zip(1i64..);
        keys.map(|(column, at)| {
            row![
                index.oid,
                relation.oid,
                index.unique,
                index.primary,
                Value::Null,
                *column,
                0,
                at
            ]
        })
    });
    keys.collect()
}

/// A constraint, with what all kinds have.
struct Constraint<'c> {
    oid: i32,
    name: &'c str,
    kind: &'static str,
    deferrable: bool,
    deferred: bool,
    index: i32,
    columns: &'c [i32],
}

fn constraint(source: &Source<'_>, relation: &Relation, of: &Constraint<'_>) -> Vec<Value> {
    row![
        of.oid,
        of.name,
        source.schema(&relation.schema),
        of.kind,
        of.deferrable,
        of.deferred,
        true,
        true,
        relation.oid,
        0,
        of.index,
        0,
        0,
        " ",
        " ",
        " ",
        true,
        0,
        of.kind != "c",
        false,
        of.columns.to_vec()
    ]
}

pub(super) fn pg_constraint(source: &Source<'_>) -> Rows {
    let of_indexes = source.indexes().filter_map(|(relation, index)| {
        let of = Constraint {
            oid: index.constraint?,
            name: &index.name,
            kind: if index.primary { "p" } else { "u" },
            deferrable: false,
            deferred: false,
            index: index.oid,
            columns: &index.columns,
        };
        Some(constraint(source, relation, &of))
    });
    let of_checks = source.relations.iter().flat_map(|relation| {
        relation.checks.iter().map(|check| {
            let of = Constraint {
                oid: check.oid,
                name: &check.name,
                kind: "c",
                deferrable: false,
                deferred: false,
                index: 0,
                columns: &check.columns,
            };
            let mut row = constraint(source, relation, &of);
            row.resize(27, Value::Null);
            row.push(check.clause.clone().into());
            row
        })
    });
    let of_keys = source.relations.iter().flat_map(|relation| {
        relation.foreign_keys.iter().map(|key| {
            let of = Constraint {
                oid: key.oid,
                name: &key.name,
                kind: "f",
                deferrable: key.deferrable,
                deferred: key.deferred,
                index: key.index.0,
                columns: &key.columns,
            };
            let mut row = constraint(source, relation, &of);
            let referring = row![key.parent.0, key.on_update, key.on_delete, "s"];
            row.splice(12..16, referring);
            row.push(key.referenced.clone().into());
            row
        })
    });
    of_indexes.chain(of_checks).chain(of_keys).collect()
}

/// The number of a column's default.
fn default_oid(source: &Source<'_>, relation: &Relation, column: &str) -> i32 {
    let name = format!("{}/{column}", relation.name);
    oids::of(source.catalog, "default", &relation.schema, &name)
}

pub(super) fn pg_attrdef(source: &Source<'_>) -> Rows {
    let of = |relation: &Relation| {
        let columns = relation.columns.iter().enumerate();
        let defaults = columns.filter_map(|(at, column)| {
            let text = column.default.clone()?;
            let oid = default_oid(source, relation, &column.name);
            Some(row![oid, relation.oid, at as i64 + 1, text])
        });
        defaults.collect::<Rows>()
    };
    source.relations.iter().flat_map(of).collect()
}

/// Sequences depend on the columns that own them, defaults on their columns.
pub(super) fn pg_depend(source: &Source<'_>) -> Rows {
    let sequences = source.sequences.iter().filter_map(|sequence| {
        let (table, column, identity) = sequence.owner?;
        let kind = if identity { "i" } else { "a" };
        Some(row![PG_CLASS, sequence.oid, 0, PG_CLASS, table, column, kind])
    });
    let defaults = source.relations.iter().flat_map(|relation| {
        let columns = relation.columns.iter().zip(1i64..);
        let with_default = columns.filter(|(column, _)| column.default.is_some());
        with_default.map(|(column, at)| {
            let oid = default_oid(source, relation, &column.name);
            row![PG_ATTRDEF, oid, 0, PG_CLASS, relation.oid, at, "a"]
        })
    });
    // A default that takes numbers needs its sequence first.
    let numbered = source.sequences.iter().flat_map(|sequence| {
        let name = named(&sequence.schema, &sequence.name, &source.path);
        let call = format!("nextval('{}'::regclass)", name.replace('\'', "''"));
        let columns = source.relations.iter().flat_map(|relation| {
            let columns = relation.columns.iter();
            columns.map(move |column| (relation, column))
        });
        columns
            .filter(move |(_, column)| {
                let default = column.default.as_deref();
                default.is_some_and(|default| default.contains(&call))
            })
            .map(move |(relation, column)| {
                let oid = default_oid(source, relation, &column.name);
                row![PG_ATTRDEF, oid, 0, PG_CLASS, sequence.oid, 0, "n"]
            })
    });
    let keys = source.relations.iter().flat_map(|relation| {
        let keys = relation.foreign_keys.iter();
        keys.map(|key| row![PG_CONSTRAINT, key.oid, 0, PG_CLASS, key.parent.0, 0, "n"])
    });
    let indexes = source.indexes().filter_map(|(_, index)| {
        let constraint = index.constraint?;
        Some(row![PG_CLASS, index.oid, 0, PG_CONSTRAINT, constraint, 0, "i"])
    });
    sequences
        .chain(defaults)
        .chain(numbered)
        .chain(keys)
        .chain(indexes)
        .collect()
}

/// Comments on relations, their columns, indexes and constraints.
pub(super) fn pg_description(source: &Source<'_>) -> Rows {
    let one = |oid: i32, at: i64, comment: &Option<String>| {
        let comment = comment.as_deref()?;
        Some(row![oid, PG_CLASS, at, comment])
    };
    let of_constraint = |oid: i32, comment: &Option<String>| {
        let comment = comment.as_deref()?;
        Some(row![oid, PG_CONSTRAINT, 0, comment])
    };
    let of_relations = source.relations.iter().flat_map(|relation| {
        let own = one(relation.oid, 0, &relation.comment);
        let columns = relation.columns.iter().zip(1i64..);
        let columns = columns.filter_map(|(column, at)| one(relation.oid, at, &column.comment));
        let keys = relation.foreign_keys.iter();
        let keys = keys.filter_map(|key| of_constraint(key.oid, &key.comment));
        let checks = relation.checks.iter();
        let checks = checks.filter_map(|check| of_constraint(check.oid, &check.comment));
        own.into_iter()
            .chain(columns)
            .chain(keys)
            .chain(checks)
            .collect::<Rows>()
    });
    let of_indexes = source
        .indexes()
        .filter_map(|(_, index)| one(index.oid, 0, &index.comment));
    let of_keys = source
        .indexes()
        .filter_map(|(_, index)| of_constraint(index.constraint?, &index.constraint_comment));
    of_relations.chain(of_indexes).chain(of_keys).collect()
}

pub(super) fn pg_indexes(source: &Source<'_>) -> Rows {
    let of = |(relation, index): (&Relation, &Index)| {
        row![
            relation.schema.clone(),
            relation.name.clone(),
            index.name.clone(),
            Value::Null,
            index.definition.clone()
        ]
    };
    source.indexes().map(of).collect()
}
