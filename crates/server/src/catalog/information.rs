//! `information_schema`, with PostgreSQL's columns. `df_settings` and the like stay DataFusion's: `SHOW` reads them.

use super::relations::{Relation, schemas};
use super::rows::{Value, row, table};
use super::tables::Source;
use super::types;
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
        |_| Vec::new(),
    ),
    (
        "referential_constraints",
        "constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema \
         unique_constraint_name match_option update_rule delete_rule",
        |_| Vec::new(),
    ),
    (
        "check_constraints",
        "constraint_catalog constraint_schema constraint_name check_clause",
        |_| Vec::new(),
    ),
    (
        "sequences",
        "sequence_catalog sequence_schema sequence_name data_type start_value minimum_value maximum_value increment cycle_option",
        |_| Vec::new(),
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
    let of = |schema: &str, name: &str, kind: &str| {
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
            "NO",
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
        of(&relation.schema, &relation.name, kind)
    });
    let system = super::schema::system_tables().map(|name| of("pg_catalog", name, "BASE TABLE"));
    let own = names().map(|name| of("information_schema", name, "VIEW"));
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
            let octets = (column.of.oid == 25).then_some(1 << 30);
            let mut row = row![
                source.catalog,
                relation.schema.clone(),
                relation.name.clone(),
                column.name.clone(),
                at as i64 + 1,
                column.default.clone(),
                if column.nullable { "YES" } else { "NO" },
                types::name(column.of.oid),
                Value::Null,
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
            row.extend(row![(at + 1).to_string(), "NO", "NO"]);
            row.resize(40, Value::Null);
            row.extend(row!["NO", "NEVER", Value::Null, "NO"]);
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
    let names = system.into_iter().chain(schemas(source.provider));
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

fn table_constraints(source: &Source<'_>) -> Vec<Vec<Value>> {
    keys(source)
        .map(|(relation, index)| {
            let kind = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
            let schema = relation.schema.as_str();
            row![
                source.catalog,
                schema,
                index.name.clone(),
                source.catalog,
                schema,
                relation.name.clone(),
                kind,
                "NO",
                "NO",
                "YES",
                "YES"
            ]
        })
        .collect()
}

fn key_column_usage(source: &Source<'_>) -> Vec<Vec<Value>> {
    let of = |(relation, index): (&Relation, &super::relations::Index)| {
        let schema = relation.schema.clone();
        let columns = index.columns.iter().enumerate();
        let rows = columns.map(|(at, column)| {
            let column = &relation.columns[*column as usize - 1].name;
            row![
                source.catalog,
                schema.clone(),
                index.name.clone(),
                source.catalog,
                schema.clone(),
                relation.name.clone(),
                column.clone(),
                at as i64 + 1
            ]
        });
        rows.collect::<Vec<_>>()
    };
    keys(source).flat_map(of).collect()
}
