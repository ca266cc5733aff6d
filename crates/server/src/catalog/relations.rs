//! The relations of a session's catalog as they are now: tables and views with their columns, indexes and keys. What the system tables say
//! of them is made from this.

use super::oids::{self, Object};
use super::types::{PgType, pg_type_of};
use corun_datafusion::store::StoreTable;
use corun_store::TableDef;
use datafusion::catalog::{CatalogProvider, TableProvider};
use datafusion::common::Constraint;
use datafusion::datasource::TableType;
use std::sync::Arc;

/// A table or a view.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    pub(crate) oid: i32,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// `r` or `v`.
    pub(crate) kind: &'static str,
    pub(crate) rows: f32,
    pub(crate) columns: Vec<Column>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) definition: Option<String>,
}

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) of: PgType,
    pub(crate) nullable: bool,
    pub(crate) default: Option<String>,
}

/// An index; a key has one, too.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) oid: i32,
    pub(crate) name: String,
    /// Positions of its columns, from 1.
    pub(crate) columns: Vec<i32>,
    pub(crate) unique: bool,
    pub(crate) primary: bool,
    pub(crate) definition: String,
    /// Number of the key that it stands for.
    pub(crate) constraint: Option<i32>,
}

/// Schemas of a catalog that have tables of users, by name.
pub(crate) fn schemas(catalog: &dyn CatalogProvider) -> Vec<String> {
    let mut names = catalog.schema_names();
    names.sort();
    names
}

/// All relations, in the order of their names. Tables that cannot be read are left out.
pub(crate) async fn of(name: &str, catalog: &dyn CatalogProvider) -> Vec<Relation> {
    let mut found = Vec::new();
    for schema in schemas(catalog) {
        let Some(provider) = catalog.schema(&schema) else {
            continue;
        };
        for table in provider.table_names() {
            if let Ok(Some(of)) = provider.table(&table).await {
                found.push(relation(name, &schema, &table, &of));
            }
        }
    }
    found
}

fn relation(catalog: &str, schema: &str, name: &str, of: &Arc<dyn TableProvider>) -> Relation {
    let definition = of
        .downcast_ref::<StoreTable>()
        .map(|table| table.table().definition());
    let arrow = of.schema();
    let columns: Vec<Column> = arrow
        .fields()
        .iter()
        .map(|field| Column {
            name: field.name().clone(),
            of: pg_type_of(field),
            nullable: field.is_nullable(),
            default: default(definition.as_ref(), field.name()),
        })
        .collect();
    let rows = of
        .downcast_ref::<StoreTable>()
        .map_or(-1.0, |table| table.table().rows() as f32);
    let keys = keys(definition.as_ref(), of, &columns, name);
    let indexes = keys
        .into_iter()
        .map(|key| index(catalog, schema, name, &columns, key))
        .collect();
    let object = Object {
        kind: "class",
        schema: schema.to_owned(),
        name: name.to_owned(),
        definition: String::new(),
        columns: columns.iter().map(|column| column.name.clone()).collect(),
        defaults: columns.iter().map(|column| column.default.clone()).collect(),
    };
    Relation {
        oid: oids::enter(catalog, object),
        schema: schema.to_owned(),
        name: name.to_owned(),
        kind: match of.table_type() {
            TableType::View => "v",
            _ => "r",
        },
        rows,
        columns,
        indexes,
        definition: of.get_table_definition().map(str::to_owned),
    }
}

fn default(definition: Option<&TableDef>, column: &str) -> Option<String> {
    let definition = definition?;
    let default = definition.columns[definition.position(column)?]
        .default
        .as_ref()?;
    Some(default.to_string())
}

struct Key {
    name: String,
    columns: Vec<usize>,
    unique: bool,
    primary: bool,
    key: bool,
}

/// Keys and indexes: of a store's table all, of others those that they say.
fn keys(
    definition: Option<&TableDef>,
    of: &Arc<dyn TableProvider>,
    columns: &[Column],
    name: &str,
) -> Vec<Key> {
    if let Some(definition) = definition {
        let primary = definition.primary_key_index().map(|index| index.name.clone());
        let key = |index: &corun_store::IndexDef| {
            let is_primary = primary.as_ref() == Some(&index.name);
            Key {
                name: if is_primary {
                    format!("{name}_pkey")
                } else {
                    index.name.clone()
                },
                columns: index
                    .columns
                    .iter()
                    .filter_map(|column| definition.position(column))
                    .collect(),
                unique: index.unique,
                primary: is_primary,
                key: is_primary,
            }
        };
        return definition.indexes.iter().map(key).collect();
    }
    let constraints = of.constraints().into_iter().flat_map(|all| all.iter());
    constraints
        .map(|constraint| {
            let (at, primary) = match constraint {
                Constraint::PrimaryKey(at) => (at, true),
                Constraint::Unique(at) => (at, false),
            };
            let names: Vec<&str> = at
                .iter()
                .filter_map(|at| columns.get(*at))
                .map(|column| column.name.as_str())
                .collect();
            Key {
                name: if primary {
                    format!("{name}_pkey")
                } else {
                    format!("{name}_{}_key", names.join("_"))
                },
                columns: at.clone(),
                unique: true,
                primary,
                key: true,
            }
        })
        .collect()
}

fn index(catalog: &str, schema: &str, table: &str, columns: &[Column], key: Key) -> Index {
    let names: Vec<String> = key
        .columns
        .iter()
        .filter_map(|at| columns.get(*at))
        .map(|column| column.name.clone())
        .collect();
    let list = names
        .iter()
        .map(|name| quoted(name))
        .collect::<Vec<_>>()
        .join(", ");
    let unique = if key.unique { "UNIQUE " } else { "" };
    let definition = format!(
        "CREATE {unique}INDEX {} ON {}.{} USING btree ({list})",
        quoted(&key.name),
        quoted(schema),
        quoted(table)
    );
    let object = |kind, definition: String| Object {
        kind,
        schema: schema.to_owned(),
        // Two tables may have indexes of one name.
        name: format!("{table}/{}", key.name),
        definition,
        columns: names.clone(),
        defaults: Vec::new(),
    };
    let constraint = key.key.then(|| {
        let word = if key.primary { "PRIMARY KEY" } else { "UNIQUE" };
        oids::enter(catalog, object("constraint", format!("{word} ({list})")))
    });
    Index {
        oid: oids::enter(catalog, object("index", definition.clone())),
        name: key.name,
        columns: key.columns.iter().map(|at| *at as i32 + 1).collect(),
        unique: key.unique,
        primary: key.primary,
        definition,
        constraint,
    }
}

/// A name as it must be written in SQL.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
