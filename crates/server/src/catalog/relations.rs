//! The relations of a session's catalog as they are now: tables and views with their columns, indexes and keys. What the system tables say
//! of them is made from this.

use super::oids::{self, Object};
use super::quoting::quoted;
use super::stored;
use super::types::{PgType, pg_type_of};
use crate::data::StoreView;
use corun_datafusion::store::StoreTable;
use corun_store::TableDef;
use datafusion::catalog::{CatalogProvider, TableProvider};
use datafusion::common::Constraint;
use datafusion::datasource::TableType;
use std::sync::Arc;

/// Where relations are looked for, and by whom.
pub(crate) struct Place<'p> {
    /// The catalog's name.
    pub(crate) catalog: &'p str,
    pub(crate) provider: &'p dyn CatalogProvider,
    /// Of the store that the catalog is, if it is one.
    pub(crate) view: Option<&'p StoreView>,
    /// Schemas whose tables are named without them.
    pub(crate) path: &'p [String],
}

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
    pub(crate) foreign_keys: Vec<ForeignKey>,
    pub(crate) checks: Vec<Check>,
    /// Whether statements may change its rows.
    pub(crate) is_written: bool,
    pub(crate) definition: Option<String>,
    pub(crate) comment: Option<String>,
}

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) of: PgType,
    pub(crate) nullable: bool,
    pub(crate) default: Option<String>,
    /// `a` (always), `d` (by default), or nothing.
    pub(crate) identity: &'static str,
    pub(crate) comment: Option<String>,
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
    pub(crate) comment: Option<String>,
    pub(crate) constraint_comment: Option<String>,
}

/// Columns of a table that refer to rows of another.
#[derive(Debug, Clone)]
pub(crate) struct ForeignKey {
    pub(crate) oid: i32,
    pub(crate) name: String,
    /// Positions of its columns, from 1, and of those that they refer to.
    pub(crate) columns: Vec<i32>,
    pub(crate) referenced: Vec<i32>,
    /// The table that is referred to, and its index: number, schema, name.
    pub(crate) parent: (i32, String, String),
    pub(crate) index: (i32, String),
    /// As `pg_constraint` has the actions.
    pub(crate) on_update: &'static str,
    pub(crate) on_delete: &'static str,
    pub(crate) deferrable: bool,
    pub(crate) deferred: bool,
    pub(crate) comment: Option<String>,
}

/// A condition that all rows fulfil.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) oid: i32,
    pub(crate) name: String,
    pub(crate) columns: Vec<i32>,
    /// `((price > 0))`.
    pub(crate) clause: String,
    pub(crate) comment: Option<String>,
}

/// Schemas of a catalog that have tables of users, by name.
pub(crate) fn schemas(place: &Place<'_>) -> Vec<String> {
    let mut names = place.provider.schema_names();
    names.sort();
    // The dictionary's, unless somebody has put something beside it.
    names.retain(|name| place.view.is_none_or(|view| !stored::is_own_schema(view, name)));
    names
}

/// All relations, in the order of their names. Tables that cannot be read are left out.
pub(crate) async fn of(place: &Place<'_>) -> Vec<Relation> {
    let mut found = Vec::new();
    for schema in schemas(place) {
        let Some(provider) = place.provider.schema(&schema) else {
            continue;
        };
        for table in provider.table_names() {
            if let Some(view) = place.view {
                if stored::is_own(&schema, &table) {
                    continue;
                }
                match view.info(&schema, &table) {
                    Ok(Some(info)) => {
                        found.push(stored::relation(place, view, &info));
                        continue;
                    }
                    Ok(None) => {}
                    Err(_) => continue,
                }
            }
            if let Ok(Some(of)) = provider.table(&table).await {
                found.push(relation(place.catalog, &schema, &table, &of));
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
            identity: "",
            comment: None,
        })
        .collect();
    let table = of.downcast_ref::<StoreTable>().map(StoreTable::table);
    let rows = table.map_or(-1.0, |table| table.rows() as f32);
    let keys = keys(definition.as_ref(), of, &columns, name);
    let indexes = keys
        .into_iter()
        .map(|key| index(catalog, schema, name, &columns, key))
        .collect();
    let object = Object {
        kind: "class",
        schema: schema.to_owned(),
        name: name.to_owned(),
        columns: columns.iter().map(|column| column.name.clone()).collect(),
        defaults: columns.iter().map(|column| column.default.clone()).collect(),
        bytes: table.map_or(0, |table| i64::try_from(table.bytes()).unwrap_or(i64::MAX)),
        ..Object::default()
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
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        is_written: false,
        definition: of.get_table_definition().map(str::to_owned),
        comment: None,
    }
}

fn default(definition: Option<&TableDef>, column: &str) -> Option<String> {
    let definition = definition?;
    let default = definition.columns[definition.position(column)?]
        .default
        .as_ref()?;
    Some(default.to_string())
}

/// An index to be.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) columns: Vec<usize>,
    pub(super) unique: bool,
    pub(super) primary: bool,
    /// Whether it is a constraint.
    pub(super) key: bool,
    pub(super) comment: Option<String>,
    pub(super) constraint_comment: Option<String>,
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
                comment: None,
                constraint_comment: None,
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
                comment: None,
                constraint_comment: None,
            }
        })
        .collect()
}

/// An index, which gets its numbers.
pub(super) fn index(catalog: &str, schema: &str, table: &str, columns: &[Column], key: Key) -> Index {
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
        comment: match kind {
            "index" => key.comment.clone(),
            _ => key.constraint_comment.clone(),
        },
        ..Object::default()
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
        comment: key.comment,
        constraint_comment: key.constraint_comment,
    }
}
