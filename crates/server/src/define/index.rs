//! `CREATE INDEX`, `DROP INDEX`, `ALTER INDEX ... RENAME`.
//!
//! Names of indexes are unique in a schema, as those of tables: the store asks for less. All indexes are ordered by bytes and numbers, which is
//! what PostgreSQL's btree with any operator class, and its hash, are asked for.

use super::alter_table::at_of;
use super::constraints::{self, plain_columns};
use super::error::{self, DUPLICATE_TABLE};
use super::seen::{Relation, Seen, shown};
use super::step::{Step, apply, note};
use crate::catalog::folded;
use crate::session::{ClientSession, names};
use crate::write::{Property, TableInfo};
use corun_store::IndexDef;
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexType, ObjectName};

/// Runs `CREATE INDEX`.
///
/// # Errors
/// What speaks against it.
pub(super) fn create(session: &mut ClientSession, of: &CreateIndex) -> Result<&'static str, Refusal> {
    const TAG: &str = "CREATE INDEX";
    match &of.using {
        None | Some(IndexType::BTree | IndexType::Hash) => {}
        Some(other) => {
            return Err(
                error::unsupported(format!("an index by {}", other.to_string().to_lowercase()))
                    .hint("Indexes are ordered ones here, as PostgreSQL's btree."),
            );
        }
    }
    if of.predicate.is_some() {
        return Err(error::unsupported("an index with WHERE").hint("Index all rows."));
    }
    if of.nulls_distinct == Some(false) {
        return Err(error::unsupported("NULLS NOT DISTINCT"));
    }
    for option in &of.with {
        if !matches!(option, Expr::BinaryOp { .. }) {
            return Err(error::unsupported(format!("the index option {option}")));
        }
    }
    let seen = Seen::of(session)?;
    let info = seen.find_table(&names(&of.table_name)?)?;
    error::check_schema(&info.schema)?;
    super::check_may_define(session, info)?;
    let columns = plain_columns(&of.columns)?;
    for column in columns
        .iter()
        .chain(&of.include.iter().map(folded).collect::<Vec<_>>())
    {
        if info.column(column).is_none() {
            let what = format!("column \"{column}\" does not exist");
            return Err(Refusal::new(error::UNDEFINED_COLUMN, what));
        }
    }
    let name = match &of.name {
        None if of.if_not_exists => return Err(error::syntax("syntax error at or near \"ON\"")),
        None => {
            let parts = (info.name.as_str(), columns.join("_"), "idx");
            seen.free_relation(&info.schema, (parts.0, &parts.1, parts.2), &[])
        }
        Some(name) => {
            let (schema, name) = names(name)?;
            if schema.is_some_and(|schema| schema != info.schema) {
                return Err(error::syntax("an index is in the schema of its table"));
            }
            if seen.relation(&info.schema, &name).is_some() {
                if !of.if_not_exists {
                    return Err(error::exists(&name));
                }
                let what = format!("relation \"{name}\" already exists, skipping");
                error::notice(session, DUPLICATE_TABLE, what);
                return Ok(TAG);
            }
            name
        }
    };
    let index = constraints::index(&name, columns, of.unique);
    apply(session, &[Step::CreateIndex(at_of(info), index)])?;
    Ok(TAG)
}

/// Gives an index another name. The store has no such thing: all but the primary key's is made again.
pub(super) fn rename(
    session: &mut ClientSession,
    seen: &Seen,
    info: &TableInfo,
    name: &str,
    to: &str,
) -> Result<(), Refusal> {
    if seen.relation(&info.schema, to).is_some() {
        return Err(error::exists(to));
    }
    super::check_may_define(session, info)?;
    let Some(index) = info.index_shown(name) else {
        return Err(error::missing("index", name));
    };
    let at = at_of(info);
    let primary = info.notes.primary_key.as_ref();
    let is_primary = primary.is_some_and(|(_, of)| *of == index.name);
    let mut steps = Vec::new();
    if is_primary {
        steps.push(Step::Forget(at.clone(), name.to_owned(), Property::PrimaryKey));
        steps.push(note(&at, to, Property::PrimaryKey, index.name.as_str()));
        steps.extend(comments_moved(info, name, to));
        return apply(session, &steps);
    }
    // Foreign keys need the index that they were made with.
    let is_of = |columns: &[String]| {
        columns.len() == index.columns.len() && columns.iter().all(|of| index.columns.contains(of))
    };
    let referring = seen.referring(&at.0, &at.1).into_iter();
    let keys: Vec<_> = referring
        .filter(|(_, key)| index.unique && is_of(&key.referenced))
        .collect();
    for (table, key) in &keys {
        steps.push(Step::DropConstraint(at_of(table), key.name.clone()));
    }
    steps.push(Step::DropIndex(at.clone(), index.name.clone()));
    let renamed = constraints::index(to, index.columns.clone(), index.unique);
    steps.push(Step::CreateIndex(at.clone(), renamed));
    for (table, key) in keys {
        steps.push(Step::AddForeignKey(at_of(table), key.clone()));
    }
    if info.is_constraint(&index.name) {
        steps.push(Step::Forget(at.clone(), name.to_owned(), Property::Unique));
        steps.push(note(&at, to, Property::Unique, ""));
    }
    steps.extend(comments_moved(info, name, to));
    apply(session, &steps)
}

/// The comments of an index or a constraint that gets another name.
pub(super) fn comments_moved(info: &TableInfo, name: &str, to: &str) -> Vec<Step> {
    let at = at_of(info);
    let of = |property| {
        let comment = info.comment_of(property, name)?;
        Some([
            Step::Forget(at.clone(), name.to_owned(), property),
            note(&at, to, property, comment),
        ])
    };
    let properties = [Property::ConstraintComment, Property::IndexComment];
    properties.into_iter().filter_map(of).flatten().collect()
}

/// Runs `DROP INDEX` of several.
///
/// # Errors
/// 42704, 42809; 2BP01 of those that constraints need.
pub(super) fn drop(
    session: &mut ClientSession,
    named: &[ObjectName],
    if_exists: bool,
) -> Result<&'static str, Refusal> {
    let seen = Seen::of(session)?;
    let mut steps = Vec::new();
    for name in named {
        let name = names(name)?;
        let (info, index) = match seen.find(&name) {
            Some((_, Relation::Index(info, index))) => (info, index),
            Some(_) => return Err(error::not_a("index", &name.1)),
            None if if_exists => {
                error::skipped(session, "index", &name.1);
                continue;
            }
            None => return Err(error::missing("index", &shown(&name))),
        };
        super::check_may_define(session, info)?;
        if info.is_constraint(&index.name) {
            let (name, table) = (&name.1, &info.name);
            let what =
                format!("cannot drop index {name} because constraint {name} on table {table} requires it");
            let hint = format!("You can drop constraint {name} on table {table} instead.");
            return Err(Refusal::new(error::DEPENDENT, what).hint(hint));
        }
        steps.push(Step::DropIndex(at_of(info), index.name.clone()));
    }
    apply(session, &steps)?;
    Ok("DROP INDEX")
}

/// What `COMMENT ON INDEX` is about.
///
/// # Errors
/// 42704 of one that there is not.
pub(super) fn find<'s>(seen: &'s Seen, name: &ObjectName) -> Result<(&'s TableInfo, &'s IndexDef), Refusal> {
    let name = names(name)?;
    match seen.find(&name) {
        Some((_, Relation::Index(info, index))) => Ok((info, index)),
        Some(_) => Err(error::not_a("index", &name.1)),
        None => Err(Refusal::new(
            code::UNDEFINED_OBJECT,
            format!("relation \"{}\" does not exist", name.1),
        )),
    }
}
