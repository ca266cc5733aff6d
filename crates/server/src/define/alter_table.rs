//! `ALTER TABLE`: its operations one after the other, each decided from what the one before has left.

mod column;
mod constraint;
mod retype;

use super::create_table::check_storage;
use super::error;
use super::seen::{At, Relation, Seen, shown};
use super::sequence;
use super::step::{Step, apply, note};
use crate::catalog::folded;
use crate::session::{ClientSession, names};
use crate::write::{Property, TableInfo};
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation as Operation, DropBehavior, ObjectName, RenameTableNameKind,
};

const TAG: &str = "ALTER TABLE";

pub(super) fn at_of(info: &TableInfo) -> At {
    (info.schema.clone(), info.name.clone())
}

/// Runs it.
///
/// # Errors
/// What speaks against it.
pub(super) async fn run(session: &mut ClientSession, of: &AlterTable) -> Result<&'static str, Refusal> {
    let name = names(&of.name)?;
    let seen = Seen::of(session)?;
    let mut at = match seen.find(&name) {
        Some((at, Relation::Table(_))) => at,
        Some((at, Relation::Sequence)) => return sequence::run_alter(session, &at, &of.operations),
        Some((_, Relation::Index(info, _))) => {
            // PostgreSQL renames indexes so, too.
            let info = info.clone();
            return match of.operations.as_slice() {
                [Operation::RenameTable { table_name }] => {
                    super::index::rename(session, &seen, &info, &name.1, &new_name(table_name)?)?;
                    Ok(TAG)
                }
                _ => Err(error::not_a("table", &name.1)),
            };
        }
        None if of.if_exists => {
            error::skipped(session, "relation", &name.1);
            return Ok(TAG);
        }
        None => return Err(error::no_relation(&shown(&name))),
    };
    error::check_schema(&at.0)?;
    for operation in &of.operations {
        let seen = Seen::of(session)?;
        let Some(info) = seen.table(&at.0, &at.1).cloned() else {
            return Err(error::no_relation(&at.1));
        };
        super::check_may_define(session, &info)?;
        let context = Altering {
            seen: &seen,
            info: &info,
            at: &at,
        };
        if let Some(renamed) = context.make(session, operation).await? {
            at = renamed;
        }
    }
    Ok(TAG)
}

fn new_name(to: &RenameTableNameKind) -> Result<String, Refusal> {
    let (RenameTableNameKind::To(name) | RenameTableNameKind::As(name)) = to;
    match names(name)? {
        (None, name) => Ok(name),
        (Some(_), _) => Err(error::syntax(format!("syntax error at or near \"{name}\""))),
    }
}

pub(super) fn cascades(of: Option<DropBehavior>) -> bool {
    of == Some(DropBehavior::Cascade)
}

/// One operation, and what there is before it.
struct Altering<'a> {
    seen: &'a Seen,
    info: &'a TableInfo,
    at: &'a At,
}

impl Altering<'_> {
    /// Makes the operation; the table's new place if it has another.
    async fn make(&self, session: &mut ClientSession, operation: &Operation) -> Result<Option<At>, Refusal> {
        match operation {
            Operation::AddColumn {
                if_not_exists,
                column_def,
                ..
            } => self.add_column(session, column_def, *if_not_exists).await?,
            Operation::DropColumn {
                column_names,
                if_exists,
                drop_behavior,
                ..
            } => {
                for column in column_names {
                    self.drop_column(session, &folded(column), *if_exists, cascades(*drop_behavior))?;
                }
            }
            Operation::RenameColumn {
                old_column_name,
                new_column_name,
            } => self.rename_column(session, &folded(old_column_name), &folded(new_column_name))?,
            Operation::RenameTable { table_name } => {
                return self.rename(session, &new_name(table_name)?).map(Some);
            }
            Operation::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(session, &folded(old_name), &folded(new_name))?;
            }
            Operation::AlterColumn { column_name, op } => {
                self.alter_column(session, &folded(column_name), op).await?;
            }
            Operation::AddConstraint {
                constraint,
                not_valid,
            } => self.add_constraint(session, constraint, *not_valid).await?,
            Operation::DropConstraint {
                name,
                if_exists,
                drop_behavior,
            } => self.drop_constraint(session, &folded(name), *if_exists, cascades(*drop_behavior))?,
            Operation::ValidateConstraint { name } => self.validate(session, &folded(name)).await?,
            // One role owns everything here, and nothing is replicated by what PostgreSQL asks.
            Operation::OwnerTo { .. } | Operation::ReplicaIdentity { .. } => {}
            Operation::SetOptionsParens { options } => check_storage(options)?,
            // There are none; foreign keys are no triggers here, and stay.
            Operation::EnableTrigger { name } | Operation::DisableTrigger { name } => {
                let name = folded(name);
                if name != "all" && name != "user" {
                    let what = format!("trigger \"{name}\" for table \"{}\" does not exist", self.table());
                    return Err(Refusal::new(code::UNDEFINED_OBJECT, what));
                }
            }
            other => return Err(error::unsupported(format!("ALTER TABLE ... {other}"))),
        }
        Ok(None)
    }

    fn rename(&self, session: &mut ClientSession, to: &str) -> Result<At, Refusal> {
        if self.seen.relation(&self.at.0, to).is_some() {
            return Err(error::exists(to));
        }
        let new = (self.at.0.clone(), to.to_owned());
        let mut steps = vec![
            Step::RenameTable(self.at.clone(), to.to_owned()),
            Step::MoveNotes(self.at.clone(), new.clone()),
        ];
        // The constraint keeps the name that was made of the table's old one.
        if let Some((name, index)) = &self.info.notes.primary_key {
            steps.push(note(&new, name, Property::PrimaryKey, index.as_str()));
        }
        apply(session, &steps)?;
        Ok(new)
    }

    fn table(&self) -> &str {
        &self.info.name
    }
}

/// `ALTER INDEX ... RENAME TO`.
pub(super) fn rename_index(
    session: &mut ClientSession,
    name: &ObjectName,
    to: &ObjectName,
) -> Result<&'static str, Refusal> {
    let name = names(name)?;
    let seen = Seen::of(session)?;
    match seen.find(&name) {
        Some((_, Relation::Index(info, _))) => {
            let info = info.clone();
            super::index::rename(session, &seen, &info, &name.1, &names(to)?.1)?;
            Ok("ALTER INDEX")
        }
        Some(_) => Err(error::not_a("index", &name.1)),
        None => Err(Refusal::new(
            code::UNDEFINED_OBJECT,
            format!("relation \"{}\" does not exist", name.1),
        )),
    }
}
