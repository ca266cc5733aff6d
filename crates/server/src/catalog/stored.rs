//! Tables and sequences of the store that a session's database is, as the system tables show them: with declared types, defaults, keys and
//! conditions.
//!
//! What it is not: tables of files and of stores in sub-folders ([`super::relations`]).

use super::oids::{self, Object};
use super::quoting::{named, quoted};
use super::relations::{self, Check, Column, ForeignKey, Index, Key, Place, Relation};
use super::types::PgType;
use super::written;
use crate::data::StoreView;
use crate::write::sequences::{Limits, Numbers, name_parts};
use crate::write::{DICTIONARY_SCHEMA, Identity, Property, TableInfo};
use corun_store::{ForeignKeyDef, IndexDef, ReferentialAction};

/// Tables of the dictionary.
const OWN: [&str; 2] = ["columns", "sequences"];

/// Numbers that a sequence that says nothing logs at once.
const LOGGED: u32 = 32;

/// Whether a table is the dictionary's, and no client's.
pub(super) fn is_own(schema: &str, table: &str) -> bool {
    table.starts_with('\u{1}') || schema == DICTIONARY_SCHEMA && OWN.contains(&table)
}

/// Whether a schema has the dictionary, and nothing else.
pub(super) fn is_own_schema(view: &StoreView, schema: &str) -> bool {
    let tables = || view.tables(schema);
    schema == DICTIONARY_SCHEMA && !tables().is_empty() && tables().iter().all(|table| is_own(schema, table))
}

/// A sequence.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) oid: i32,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// Number and name of its type.
    pub(crate) of: (i32, &'static str),
    pub(crate) start: i64,
    pub(crate) increment: i64,
    pub(crate) limits: Limits,
    pub(crate) cache: i64,
    /// The number given out last.
    pub(crate) last: Option<i64>,
    /// Number of the table that owns it, number of the column, and whether that is an identity column.
    pub(crate) owner: Option<(i32, i32, bool)>,
}

/// Sequences of a store, by schema and name.
pub(super) fn sequences(place: &Place<'_>) -> Vec<Sequence> {
    let Some(view) = place.view else {
        return Vec::new();
    };
    let mut owners = Vec::new();
    for schema in view.schemas() {
        for table in view.tables(&schema) {
            if let Ok(Some(info)) = view.info(&schema, &table) {
                let oid = oids::table(place.catalog, &schema, &table);
                for (column, sequence) in &info.notes.sequences {
                    let Some(at) = info.column(column) else {
                        continue;
                    };
                    let owner = (oid, at as i32 + 1, info.columns[at].identity.is_some());
                    owners.push((name_parts(sequence).unwrap_or_default(), owner));
                }
            }
        }
    }
    let sequence = |of: &corun_store::Sequence| {
        let definition = of.definition();
        let numbers = Numbers::find(view, &definition.schema, &definition.name).ok()??;
        let name = [definition.schema.as_str(), definition.name.as_str()];
        let (last, called) = of.last();
        let number = match numbers.of {
            "smallint" => 21,
            "integer" => 23,
            _ => 20,
        };
        Some(Sequence {
            oid: oids::of(place.catalog, "class", name[0], name[1]),
            schema: name[0].to_owned(),
            name: name[1].to_owned(),
            of: (number, numbers.of),
            start: definition.start,
            increment: definition.increment,
            limits: numbers.limits,
            // So many are logged at once, as in PostgreSQL; sessions have no numbers of their own.
            cache: if definition.cache <= LOGGED {
                1
            } else {
                definition.cache.into()
            },
            last: called.then_some(last),
            owner: owners
                .iter()
                .find(|(owned, _)| *owned == name)
                .map(|found| found.1),
        })
    };
    view.sequences().iter().filter_map(sequence).collect()
}

/// Whether there is a sequence of this name.
pub(super) fn has_sequence(view: &StoreView, schema: &str, name: &str) -> bool {
    matches!(view.sequence(schema, name), Ok(Some(_)))
}

/// The table that has an index, by the name that clients know it by.
pub(super) fn table_of_index(view: &StoreView, schema: &str, name: &str) -> Option<String> {
    let mut tables = view.tables(schema).into_iter();
    tables.find(|table| {
        let info = view.info(schema, table);
        info.is_ok_and(|info| info.is_some_and(|info| info.index_shown(name).is_some()))
    })
}

/// A table.
pub(super) fn relation(place: &Place<'_>, view: &StoreView, info: &TableInfo) -> Relation {
    let (schema, name) = (info.schema.as_str(), info.name.as_str());
    let columns: Vec<Column> = info
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| Column {
            name: column.name.clone(),
            of: PgType {
                oid: column.declared.of.oid().cast_signed(),
                modifier: column.declared.modifier(),
            },
            nullable: column.nullable,
            default: written::default(info, at, place.path),
            identity: match column.identity {
                Some(Identity::Always) => "a",
                Some(Identity::ByDefault) => "d",
                None => "",
            },
            comment: info.comment(&column.name).map(str::to_owned),
        })
        .collect();
    let comment = info.comment("").map(str::to_owned);
    let oid = oids::enter(
        place.catalog,
        Object {
            kind: "class",
            schema: schema.to_owned(),
            name: name.to_owned(),
            columns: columns.iter().map(|column| column.name.clone()).collect(),
            defaults: columns.iter().map(|column| column.default.clone()).collect(),
            identities: info
                .columns
                .iter()
                .map(|column| identity(view, info, column))
                .collect(),
            comment: comment.clone(),
            comments: columns.iter().map(|column| column.comment.clone()).collect(),
            bytes: i64::try_from(info.table.bytes()).unwrap_or(i64::MAX),
            ..Object::default()
        },
    );
    let index = |index: &IndexDef| {
        let shown = info.shown_index(&index.name);
        let is_key = info.is_constraint(&index.name);
        let primary = info
            .primary_index()
            .is_some_and(|primary| primary.name == index.name);
        let position = |column: &String| info.definition.position(column);
        let key = Key {
            name: shown.to_owned(),
            columns: index.columns.iter().filter_map(position).collect(),
            unique: index.unique,
            primary,
            key: is_key,
            comment: info.comment_of(Property::IndexComment, shown).map(str::to_owned),
            constraint_comment: constraint_comment(info, shown),
        };
        relations::index(place.catalog, schema, name, &columns, key)
    };
    let indexes: Vec<Index> = info.definition.indexes.iter().map(index).collect();
    let foreign_keys = info.definition.foreign_keys.iter();
    let checks = info.definition.checks.iter();
    Relation {
        oid,
        schema: schema.to_owned(),
        name: name.to_owned(),
        kind: "r",
        rows: info.table.rows() as f32,
        indexes,
        foreign_keys: foreign_keys
            .map(|key| foreign_key(place, view, info, key))
            .collect(),
        checks: checks.map(|of| check(place, info, &of.name, &of.text)).collect(),
        columns,
        is_written: true,
        definition: None,
        comment,
    }
}

/// What the sequence of an identity column is, as SQLAlchemy wants it.
fn identity(view: &StoreView, info: &TableInfo, column: &crate::write::Column) -> Option<String> {
    let always = column.identity? == Identity::Always;
    let mut owned = info.notes.sequences.iter();
    let (_, sequence) = owned.find(|(of, _)| *of == column.name)?;
    let parts = name_parts(sequence).ok()?;
    let [schema, name] = parts.as_slice() else {
        return None;
    };
    let numbers = Numbers::find(view, schema, name).ok()??;
    let (definition, limits) = (numbers.sequence.definition(), numbers.limits);
    Some(format!(
        r#"{{"always" : {always}, "start" : {}, "increment" : {}, "minvalue" : {}, "maxvalue" : {}, "cache" : 1, "cycle" : {}}}"#,
        definition.start, definition.increment, limits.minimum, limits.maximum, limits.cycles
    ))
}

/// A constraint of a table, which gets its number.
fn constraint(
    place: &Place<'_>,
    info: &TableInfo,
    name: &str,
    definition: String,
    pretty: Option<String>,
) -> i32 {
    let object = Object {
        kind: "constraint",
        schema: info.schema.clone(),
        // Two tables may have constraints of one name.
        name: format!("{}/{name}", info.name),
        definition,
        pretty,
        comment: constraint_comment(info, name),
        ..Object::default()
    };
    oids::enter(place.catalog, object)
}

fn constraint_comment(info: &TableInfo, name: &str) -> Option<String> {
    info.comment_of(Property::ConstraintComment, name)
        .map(str::to_owned)
}

fn action(of: ReferentialAction) -> (&'static str, &'static str) {
    match of {
        ReferentialAction::NoAction => ("a", ""),
        ReferentialAction::Restrict => ("r", "RESTRICT"),
        ReferentialAction::Cascade => ("c", "CASCADE"),
        ReferentialAction::SetNull => ("n", "SET NULL"),
    }
}

fn foreign_key(place: &Place<'_>, view: &StoreView, info: &TableInfo, key: &ForeignKeyDef) -> ForeignKey {
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        names.join(", ")
    };
    let parent = view.info(&key.schema, &key.table).ok().flatten();
    let positions = |of: Option<&TableInfo>, names: &[String]| -> Vec<i32> {
        let position = |name: &String| Some(of?.definition.position(name)? as i32 + 1);
        names.iter().filter_map(position).collect()
    };
    // The primary key's first, as PostgreSQL takes it; the columns may be in another order.
    let fits = |index: &&IndexDef| {
        let has = |name: &String| key.referenced.contains(name);
        index.unique && index.columns.len() == key.referenced.len() && index.columns.iter().all(has)
    };
    let found = parent.as_deref().and_then(|parent| {
        let primary = parent.primary_index().filter(fits);
        let index = primary.or_else(|| parent.definition.indexes.iter().find(fits))?;
        Some(parent.shown_index(&index.name).to_owned())
    });
    let index = found.unwrap_or_default();
    let deferrable = info.notes.deferrable.iter().find(|(name, _)| *name == key.name);
    let (on_update, update_text) = action(key.on_update);
    let (on_delete, delete_text) = action(key.on_delete);
    let mut definition = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        list(&key.columns),
        named(&key.schema, &key.table, place.path),
        list(&key.referenced)
    );
    for (event, text) in [("UPDATE", update_text), ("DELETE", delete_text)] {
        if !text.is_empty() {
            definition.push_str(&format!(" ON {event} {text}"));
        }
    }
    match deferrable {
        Some((_, true)) => definition.push_str(" DEFERRABLE INITIALLY DEFERRED"),
        Some((_, false)) => definition.push_str(" DEFERRABLE"),
        None => {}
    }
    ForeignKey {
        oid: constraint(place, info, &key.name, definition, None),
        name: key.name.clone(),
        columns: positions(Some(info), &key.columns),
        referenced: positions(parent.as_deref(), &key.referenced),
        parent: (
            oids::table(place.catalog, &key.schema, &key.table),
            key.schema.clone(),
            key.table.clone(),
        ),
        index: (
            oids::of_index(place.catalog, &key.schema, &key.table, &index),
            index,
        ),
        on_update,
        on_delete,
        deferrable: deferrable.is_some(),
        deferred: deferrable.is_some_and(|found| found.1),
        comment: constraint_comment(info, &key.name),
    }
}

fn check(place: &Place<'_>, info: &TableInfo, name: &str, text: &str) -> Check {
    let condition = written::condition(text, info, place.path);
    let clause = format!("({})", condition.full);
    let definition = format!("CHECK {clause}");
    let pretty = format!("CHECK ({})", condition.pretty);
    Check {
        oid: constraint(place, info, name, definition, Some(pretty)),
        name: name.to_owned(),
        columns: condition.columns,
        clause,
        comment: constraint_comment(info, name),
    }
}
