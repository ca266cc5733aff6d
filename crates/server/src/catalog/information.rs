//! `information_schema`, with PostgreSQL's columns. `df_settings` and the like stay DataFusion's: `SHOW` reads them.

use super::relations::Relation;
use super::rows::{Value, row, table};
use super::sequences::sequences;
use super::tables::Source;
use super::types;
use crate::users::TableRight;
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use std::sync::Arc;

type Make = fn(&Source<'_>) -> Vec<Vec<Value>>;

const TABLES: &[(&str, &str, Make)] = &[
    (
        "tables",
        "table_catalog table_schema table_name table_type self_referencing_column_name reference_generation \
         user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed commit_action",
        tables,
    ),
    (
        "columns",
        "table_catalog table_schema table_name column_name ordinal_position:int4 column_default is_nullable data_type \
         character_maximum_length:int4 character_octet_length:int4 numeric_precision:int4 numeric_precision_radix:int4 \
         numeric_scale:int4 datetime_precision:int4 interval_type interval_precision:int4 character_set_catalog character_set_schema \
         character_set_name collation_catalog collation_schema collation_name domain_catalog domain_schema domain_name udt_catalog \
         udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality:int4 dtd_identifier is_self_referencing \
         is_identity identity_generation identity_start identity_increment identity_maximum identity_minimum identity_cycle \
         is_generated generation_expression is_updatable",
        columns,
    ),
    (
        "schemata",
        "catalog_name schema_name schema_owner default_character_set_catalog default_character_set_schema \
         default_character_set_name sql_path",
        schemata,
    ),
    (
        "views",
        "table_catalog table_schema table_name view_definition check_option is_updatable is_insertable_into",
        views,
    ),
    (
        "table_constraints",
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type is_deferrable \
         initially_deferred enforced nulls_distinct",
        table_constraints,
    ),
    (
        "key_column_usage",
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name \
         ordinal_position:int4 position_in_unique_constraint:int4",
        key_column_usage,
    ),
    (
        "constraint_column_usage",
        "table_catalog table_schema table_name column_name constraint_catalog constraint_schema constraint_name",
        constraint_column_usage,
    ),
    (
        "referential_constraints",
        "constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema \
         unique_constraint_name match_option update_rule delete_rule",
        referential_constraints,
    ),
    (
        "check_constraints",
        "constraint_catalog constraint_schema constraint_name check_clause",
        check_constraints,
    ),
    (
        "sequences",
        "sequence_catalog sequence_schema sequence_name data_type numeric_precision:int4 numeric_precision_radix:int4 \
         numeric_scale:int4 start_value minimum_value maximum_value increment cycle_option",
        sequences,
    ),
    (
        "table_privileges",
        "grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy",
        table_privileges,
    ),
    (
        "role_table_grants",
        "grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy",
        table_privileges,
    ),
    (
        "triggers",
        "trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog event_object_schema event_object_table \
         action_statement action_orientation action_timing",
        |_| Vec::new(),
    ),
];

/// Names of the tables.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, ..)| *name)
}

/// One of them.
///
/// # Errors
/// None that is known.
pub(crate) fn make(name: &str, source: &Source<'_>) -> Option<Result<Arc<dyn TableProvider>>> {
    let (_, columns, rows) = TABLES.iter().find(|(known, ..)| *known == name)?;
    Some(table(columns, &rows(source)))
}

fn tables(source: &Source<'_>) -> Vec<Vec<Value>> {
    let of = |schema: &str, name: &str, kind: &str, written: bool| {
        row![
            source.catalog,
            schema,
            name,
            kind,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            if written { "YES" } else { "NO" },
            "NO",
            Value::Null
        ]
    };
    let users = source.relations.iter().map(|relation| {
        let kind = if relation.kind == "v" {
            "VIEW"
        } else {
            "BASE TABLE"
        };
        of(&relation.schema, &relation.name, kind, relation.is_written)
    });
    let system = super::schema::system_tables().map(|name| of("pg_catalog", name, "BASE TABLE", false));
    let own = names().map(|name| of("information_schema", name, "VIEW", false));
    users.chain(system).chain(own).collect()
}

/// Precision, radix and scale of a numeric type.
fn numeric(of: types::PgType) -> (Option<i32>, Option<i32>, Option<i32>) {
    match of.oid {
        21 => (Some(16), Some(2), Some(0)),
        23 => (Some(32), Some(2), Some(0)),
        20 => (Some(64), Some(2), Some(0)),
        700 => (Some(24), Some(2), None),
        701 => (Some(53), Some(2), None),
        1700 if of.modifier >= 4 => {
            let modifier = of.modifier - 4;
            (Some(modifier >> 16), Some(10), Some(modifier & 0x7ff))
        }
        1700 => (None, Some(10), None),
        _ => (None, None, None),
    }
}

fn columns(source: &Source<'_>) -> Vec<Vec<Value>> {
    let of = |relation: &Relation| {
        let columns = relation.columns.iter().enumerate();
        let rows = columns.map(|(at, column)| {
            let (precision, radix, scale) = numeric(column.of);
            let datetime = match column.of.oid {
                1082 => Some(0),
                1083 | 1114 | 1184 | 1186 => Some(6),
                _ => None,
            };
            let limit = (column.of.modifier > 4).then(|| column.of.modifier - 4);
            let (characters, octets) = match (column.of.oid, limit) {
                (1042 | 1043, Some(limit)) => (Some(limit), Some(limit.saturating_mul(4))),
                (25 | 1042 | 1043, _) => (None, Some(1 << 30)),
                _ => (None, None),
            };
            let mut row = row![
                source.catalog,
                relation.schema.clone(),
                relation.name.clone(),
                column.name.clone(),
                at as i64 + 1,
                column.default.clone(),
                if column.nullable { "YES" } else { "NO" },
                types::name(column.of.oid),
                characters,
                octets,
                precision,
                radix,
                scale,
                datetime
            ];
            row.resize(25, Value::Null);
            row.extend(row![
                source.catalog,
                "pg_catalog",
                types::short_name(column.of.oid)
            ]);
            row.resize(32, Value::Null);
            let identity = match column.identity {
                "a" => Some("ALWAYS"),
                "d" => Some("BY DEFAULT"),
                _ => None,
            };
            let is_identity = if identity.is_some() { "YES" } else { "NO" };
            row.extend(row![(at + 1).to_string(), "NO", is_identity, identity]);
            let number = at as i32 + 1;
            let mut sequences = source.sequences.iter();
            let owned = sequences
                .find(|sequence| sequence.owner == Some((relation.oid, number, true)))
                .filter(|_| identity.is_some());
            if let Some(owned) = owned {
                row.extend(row![
                    owned.start.to_string(),
                    owned.increment.to_string(),
                    owned.limits.maximum.to_string(),
                    owned.limits.minimum.to_string()
                ]);
            }
            row.resize(40, Value::Null);
            let cycles = owned.is_some_and(|owned| owned.limits.cycles);
            row.extend(row![
                if cycles { "YES" } else { "NO" },
                "NEVER",
                Value::Null,
                if relation.is_written { "YES" } else { "NO" }
            ]);
            row
        });
        rows.collect::<Vec<_>>()
    };
    source.relations.iter().flat_map(of).collect()
}

fn schemata(source: &Source<'_>) -> Vec<Vec<Value>> {
    let owner = source
        .facts
        .roles()
        .into_iter()
        .find(|role| role.oid == super::tables::OWNER);
    let owner = owner.map(|role| role.name);
    let system = ["information_schema".to_owned(), "pg_catalog".to_owned()];
    let names = system.into_iter().chain(source.schemas());
    names
        .map(|name| row![source.catalog, name, owner.clone()])
        .collect()
}

fn views(source: &Source<'_>) -> Vec<Vec<Value>> {
    let views = source.relations.iter().filter(|relation| relation.kind == "v");
    views
        .map(|of| {
            row![
                source.catalog,
                of.schema.clone(),
                of.name.clone(),
                of.definition.clone(),
                "NONE",
                "NO",
                "NO"
            ]
        })
        .collect()
}

fn keys<'a>(source: &'a Source<'_>) -> impl Iterator<Item = (&'a Relation, &'a super::relations::Index)> {
    let relations = source.relations.iter();
    let all = relations.flat_map(|relation| relation.indexes.iter().map(move |index| (relation, index)));
    all.filter(|(_, index)| index.constraint.is_some())
}

/// A constraint: its table, name, kind, and whether it may be deferred, and is.
struct Constraint<'r> {
    relation: &'r Relation,
    name: String,
    kind: &'static str,
    deferrable: (bool, bool),
}

/// The names of what PostgreSQL has for columns that are never NULL.
fn not_null(source: &Source<'_>, relation: &Relation) -> Vec<(String, String)> {
    let schema = source.schema(&relation.schema);
    let columns = relation.columns.iter().zip(1..);
    let columns = columns.filter(|(column, _)| relation.is_written && !column.nullable);
    columns
        .map(|(column, number)| {
            let name = format!("{schema}_{}_{number}_not_null", relation.oid);
            (name, format!("{} IS NOT NULL", super::quoted(&column.name)))
        })
        .collect()
}

fn all_constraints<'a>(source: &'a Source<'_>) -> Vec<Constraint<'a>> {
    let constraint = |relation, name: &str, kind| Constraint {
        relation,
        name: name.to_owned(),
        kind,
        deferrable: (false, false),
    };
    let of_keys = keys(source).map(|(relation, index)| {
        let kind = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
        constraint(relation, &index.name, kind)
    });
    let others = source.relations.iter().flat_map(|relation| {
        let keys = relation.foreign_keys.iter().map(|key| Constraint {
            deferrable: (key.deferrable, key.deferred),
            ..constraint(relation, &key.name, "FOREIGN KEY")
        });
        let checks = relation.checks.iter();
        let checks = checks.map(|check| constraint(relation, &check.name, "CHECK"));
        let not_null = not_null(source, relation).into_iter();
        let not_null = not_null.map(|(name, _)| constraint(relation, &name, "CHECK"));
        keys.chain(checks).chain(not_null).collect::<Vec<_>>()
    });
    of_keys.chain(others).collect()
}

fn table_constraints(source: &Source<'_>) -> Vec<Vec<Value>> {
    let word = |is: bool| if is { "YES" } else { "NO" };
    let constraints = all_constraints(source).into_iter();
    constraints
        .map(|of| {
            let schema = of.relation.schema.as_str();
            row![
                source.catalog,
                schema,
                of.name,
                source.catalog,
                schema,
                of.relation.name.clone(),
                of.kind,
                word(of.deferrable.0),
                word(of.deferrable.1),
                "YES",
                (of.kind == "UNIQUE").then_some("YES")
            ]
        })
        .collect()
}

fn key_column_usage(source: &Source<'_>) -> Vec<Vec<Value>> {
    let of = |relation: &Relation, name: &str, columns: &[i32], places: &[Option<i64>]| {
        let schema = relation.schema.as_str();
        let columns = columns.iter().enumerate();
        let rows = columns.filter_map(|(at, number)| {
            let column = relation
                .columns
                .get(usize::try_from(*number).ok()?.checked_sub(1)?)?;
            Some(row![
                source.catalog,
                schema,
                name,
                source.catalog,
                schema,
                relation.name.clone(),
                column.name.clone(),
                at as i64 + 1,
                places.get(at).copied().flatten()
            ])
        });
        rows.collect::<Vec<_>>()
    };
    let of_keys = keys(source).flat_map(|(relation, index)| of(relation, &index.name, &index.columns, &[]));
    let of_foreign = source.relations.iter().flat_map(|relation| {
        relation.foreign_keys.iter().flat_map(move |key| {
            let parent = source.relations.iter().find(|parent| parent.oid == key.parent.0);
            let indexes = parent.into_iter().flat_map(|parent| &parent.indexes);
            let index = indexes.into_iter().find(|index| index.oid == key.index.0);
            let place = |number: &i32| {
                let at = index?.columns.iter().position(|column| column == number)?;
                Some(at as i64 + 1)
            };
            let places: Vec<Option<i64>> = key.referenced.iter().map(place).collect();
            of(relation, &key.name, &key.columns, &places)
        })
    });
    of_keys.chain(of_foreign).collect()
}

fn constraint_column_usage(source: &Source<'_>) -> Vec<Vec<Value>> {
    let of = |relation: &Relation, columns: &[i32], schema: &str, name: &str| {
        let columns = columns.iter();
        let rows = columns.filter_map(|number| {
            let column = relation
                .columns
                .get(usize::try_from(*number).ok()?.checked_sub(1)?)?;
            Some(row![
                source.catalog,
                relation.schema.clone(),
                relation.name.clone(),
                column.name.clone(),
                source.catalog,
                schema,
                name
            ])
        });
        rows.collect::<Vec<_>>()
    };
    let of_keys = keys(source)
        .flat_map(|(relation, index)| of(relation, &index.columns, &relation.schema, &index.name));
    let of_others = source.relations.iter().flat_map(|relation| {
        let schema = relation.schema.as_str();
        let checks = relation.checks.iter();
        let checks = checks.flat_map(|check| of(relation, &check.columns, schema, &check.name));
        let keys = relation.foreign_keys.iter().flat_map(|key| {
            let parent = source.relations.iter().find(|parent| parent.oid == key.parent.0);
            parent.map_or_else(Vec::new, |parent| of(parent, &key.referenced, schema, &key.name))
        });
        checks.chain(keys).collect::<Vec<_>>()
    });
    of_keys.chain(of_others).collect()
}

fn referential_constraints(source: &Source<'_>) -> Vec<Vec<Value>> {
    let rule = |action: &str| match action {
        "r" => "RESTRICT",
        "c" => "CASCADE",
        "n" => "SET NULL",
        _ => "NO ACTION",
    };
    let keys = source.relations.iter().flat_map(|relation| {
        relation.foreign_keys.iter().map(move |key| {
            row![
                source.catalog,
                relation.schema.clone(),
                key.name.clone(),
                source.catalog,
                key.parent.1.clone(),
                key.index.1.clone(),
                "NONE",
                rule(key.on_update),
                rule(key.on_delete)
            ]
        })
    });
    keys.collect()
}

fn check_constraints(source: &Source<'_>) -> Vec<Vec<Value>> {
    let of = |relation: &Relation| {
        let checks = relation.checks.iter();
        let checks = checks.map(|check| (check.name.clone(), check.clause.clone()));
        checks
            .chain(not_null(source, relation))
            .map(|(name, clause)| row![source.catalog, relation.schema.clone(), name, clause])
            .collect::<Vec<_>>()
    };
    source.relations.iter().flat_map(of).collect()
}

/// What was granted to roles; superusers need no grants, and are not listed.
fn table_privileges(source: &Source<'_>) -> Vec<Vec<Value>> {
    let owner = source.owner();
    let of = |relation: &Relation| {
        let holders = source.facts.holders(&relation.schema, Some(&relation.name));
        let holders = holders.into_iter();
        let rows = holders.flat_map(|(grantee, letters)| {
            let all = TableRight::ALL.iter();
            let held = all.filter(move |(_, _, letter, _)| letters.contains(*letter));
            let (owner, catalog) = (owner.clone(), source.catalog);
            let (schema, table) = (relation.schema.clone(), relation.name.clone());
            held.map(move |(_, name, ..)| {
                row![
                    owner.clone(),
                    grantee.clone(),
                    catalog,
                    schema.clone(),
                    table.clone(),
                    *name,
                    "NO",
                    if *name == "SELECT" { "YES" } else { "NO" }
                ]
            })
            .collect::<Vec<_>>()
        });
        rows.collect::<Vec<_>>()
    };
    source.relations.iter().flat_map(of).collect()
}
