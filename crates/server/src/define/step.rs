//! [`Step`]: one change of definitions. What a statement does is decided as a list of these, and then made in the client's transaction.

use super::blocking;
use super::error::{self, INVALID_TABLE};
use super::seen::At;
use super::sequence::Plan;
use crate::session::{ClientSession, StoreFailure, refusal_of};
use crate::write::sequences::Numbers;
use crate::write::{Dictionary, Entry, Property};
use corun_store::{
    CheckDef, ColumnDef, Constant, ForeignKeyDef, IndexDef, RowError, SchemaError, StoreError, Table,
    TableDef, Transaction,
};
use corun_wire::error::{Refusal, code};

/// See [`self`]. Tables are named by where they are when the step is made.
#[derive(Debug, Clone)]
pub(super) enum Step {
    CreateSchema(String),
    DropSchema(String),
    CreateTable(Box<TableDef>),
    DropTable(At),
    RenameTable(At, String),
    Truncate(At),
    AddColumn(At, ColumnDef),
    DropColumn(At, String),
    RenameColumn(At, String, String),
    SetNotNull(At, String),
    DropNotNull(At, String),
    SetDefault(At, String, Option<Constant>),
    CreateIndex(At, IndexDef),
    DropIndex(At, String),
    AddForeignKey(At, ForeignKeyDef),
    AddCheck(At, CheckDef),
    /// A foreign key or a check.
    DropConstraint(At, String),
    CreateSequence(Plan),
    DropSequence(At),
    /// Another takes its place, with this number, which was given out or not.
    ReplaceSequence(Plan, (i64, bool)),
    Note(Entry),
    /// Entries of a property and a name.
    Forget(At, String, Property),
    /// All entries of a column.
    ForgetColumn(At, String),
    /// All entries of a table.
    ForgetTable(At),
    MoveNotes(At, At),
    /// Those of a column that has another name.
    MoveColumnNotes(At, String, String),
}

/// Makes an entry.
pub(super) fn note(at: &At, name: &str, property: Property, value: impl Into<String>) -> Step {
    Step::Note(Entry {
        schema: at.0.clone(),
        table: at.1.clone(),
        name: name.to_owned(),
        property,
        value: value.into(),
    })
}

/// Makes the steps, one after the other.
///
/// # Errors
/// What speaks against one of them; nothing is left of the statement then.
pub(super) fn apply(session: &mut ClientSession, steps: &[Step]) -> Result<(), Refusal> {
    if steps.is_empty() {
        return Ok(());
    }
    let transaction = session.store_transaction()?;
    let needs = |step: &Step| match step {
        Step::Note(_) => true,
        Step::CreateSequence(plan) | Step::ReplaceSequence(plan, _) => !plan.is_plain(),
        _ => false,
    };
    if steps.iter().any(needs) {
        let store = transaction.store().clone();
        blocking(|| Dictionary::make(&store)).map_err(|error| refusal_of(&error))?;
    }
    transaction.define(|transaction| {
        let dictionary = Dictionary::of(transaction)?;
        steps
            .iter()
            .try_for_each(|step| step.make(transaction, dictionary.as_ref()))
    })?;
    // What is planned from now on sees the dictionary's entries, too.
    transaction.read_moment(&[]).map(drop)
}

impl Step {
    fn make(
        &self,
        transaction: &Transaction<'_>,
        dictionary: Option<&Dictionary>,
    ) -> Result<(), StoreFailure> {
        let table = |(schema, name): &At| transaction.table_in(schema, name);
        match self {
            Step::CreateSchema(name) => transaction.create_schema(name)?,
            Step::DropSchema(name) => transaction.drop_schema(name)?,
            Step::CreateTable(definition) => {
                let name = definition.name.clone();
                let made = transaction.create_table(TableDef::clone(definition));
                made.map_err(|error| of_table(error, &name))?;
            }
            Step::DropTable((schema, name)) => transaction.drop_table_in(schema, name)?,
            Step::RenameTable((schema, name), to) => transaction.rename_table_in(schema, name, to)?,
            Step::Truncate((schema, name)) => transaction.truncate_table_in(schema, name).map(drop)?,
            Step::AddColumn(at, column) => {
                let added = transaction.add_column(&table(at)?, column.clone());
                added.map_err(|error| of_table(error, &at.1))?;
            }
            Step::DropColumn(at, column) => {
                let dropped = transaction.drop_column(&table(at)?, column);
                dropped.map_err(|error| of_table(error, &at.1))?;
            }
            Step::RenameColumn(at, column, to) => transaction.rename_column(&table(at)?, column, to)?,
            Step::SetNotNull(at, column) => set_not_null(transaction, &table(at)?, column)?,
            Step::DropNotNull(at, column) => transaction.drop_not_null(&table(at)?, column).map(drop)?,
            Step::SetDefault(at, column, Some(value)) => {
                let set = transaction.set_default(&table(at)?, column, value.value());
                set.map_err(|error| of_table(error, &at.1))?;
            }
            Step::SetDefault(at, column, None) => {
                transaction.drop_default(&table(at)?, column).map(drop)?;
            }
            Step::CreateIndex(at, index) => create_index(transaction, &table(at)?, index)?,
            Step::DropIndex(at, index) => {
                transaction.drop_index(&table(at)?, index)?;
                forget_comments(transaction, dictionary, at, index)?;
            }
            Step::AddForeignKey(at, key) => {
                let added = transaction.add_foreign_key(&table(at)?, key.clone());
                added.map_err(|error| of_table(error, &at.1))?;
            }
            Step::AddCheck(at, check) => transaction.add_check(&table(at)?, check.clone())?,
            Step::DropConstraint(at, name) => {
                transaction.drop_constraint(&table(at)?, name)?;
                forget_comments(transaction, dictionary, at, name)?;
            }
            Step::CreateSequence(plan) => match plan.make(transaction) {
                Ok(_) => {}
                Err(StoreError::Exists { .. }) => return Err(error::exists(&plan.at().1).into()),
                Err(error) => return Err(error.into()),
            },
            Step::DropSequence((schema, name)) => Numbers::drop_it(transaction, schema, name)?,
            Step::ReplaceSequence(plan, (value, called)) => {
                let (schema, name) = plan.at();
                Numbers::drop_it(transaction, &schema, &name)?;
                plan.make(transaction)?.set(*value, *called)?;
            }
            Step::Note(_)
            | Step::Forget(..)
            | Step::ForgetColumn(..)
            | Step::ForgetTable(_)
            | Step::MoveNotes(..)
            | Step::MoveColumnNotes(..) => {
                if let Some(dictionary) = dictionary {
                    self.keep(transaction, dictionary)?;
                }
            }
        }
        Ok(())
    }

    /// The part of it that is the dictionary's.
    fn keep(&self, transaction: &Transaction<'_>, dictionary: &Dictionary) -> Result<(), StoreError> {
        let of = |at: &'_ At| (at.0.clone(), at.1.clone());
        match self {
            Step::Note(entry) => dictionary.put(transaction, entry),
            Step::Forget((schema, table), name, property) => {
                let goes = |entry: &Entry| entry.name == *name && entry.property == *property;
                dictionary.remove(transaction, (schema, table), goes)
            }
            Step::ForgetColumn((schema, table), column) => {
                let goes = |entry: &Entry| entry.name == *column && entry.property.is_of_column();
                dictionary.remove(transaction, (schema, table), goes)
            }
            Step::ForgetTable((schema, table)) => dictionary.remove(transaction, (schema, table), |_| true),
            Step::MoveNotes((schema, table), to) => {
                let (to_schema, to_table) = of(to);
                dictionary.change(transaction, (schema, table), |entry| {
                    Some(Entry {
                        schema: to_schema.clone(),
                        table: to_table.clone(),
                        ..entry.clone()
                    })
                })
            }
            Step::MoveColumnNotes((schema, table), column, to) => {
                dictionary.change(transaction, (schema, table), |entry| {
                    let is_it = entry.name == *column && entry.property.is_of_column();
                    is_it.then(|| Entry {
                        name: to.clone(),
                        ..entry.clone()
                    })
                })
            }
            _ => Ok(()),
        }
    }
}

/// Those of an index or a constraint that is no more.
fn forget_comments(
    transaction: &Transaction<'_>,
    dictionary: Option<&Dictionary>,
    (schema, table): &At,
    name: &str,
) -> Result<(), StoreError> {
    let is_comment = |of| matches!(of, Property::ConstraintComment | Property::IndexComment);
    let goes = |entry: &Entry| entry.name == name && is_comment(entry.property);
    dictionary.map_or(Ok(()), |dictionary| {
        dictionary.remove(transaction, (schema, table), goes)
    })
}

fn set_not_null(transaction: &Transaction<'_>, table: &Table, column: &str) -> Result<(), StoreFailure> {
    match transaction.set_not_null(table, column) {
        Ok(_) => Ok(()),
        Err(StoreError::Row(RowError::Null { .. })) => {
            let table = table.name();
            let what = format!("column \"{column}\" of relation \"{table}\" contains null values");
            Err(Refusal::new("23502", what).into())
        }
        Err(error) => Err(error.into()),
    }
}

fn create_index(transaction: &Transaction<'_>, table: &Table, index: &IndexDef) -> Result<(), StoreFailure> {
    let columns: Vec<&str> = index.columns.iter().map(String::as_str).collect();
    match transaction.create_index(table, &index.name, index.unique, &columns) {
        Ok(()) => Ok(()),
        Err(StoreError::Duplicate { key, .. }) => {
            let what = format!("could not create unique index \"{}\"", index.name);
            let columns = index.columns.join(", ");
            let detail = format!("Key ({columns})=({key}) is duplicated.");
            Err(Refusal::new("23505", what).detail(detail).into())
        }
        Err(StoreError::Exists { .. }) => Err(error::exists(&index.name).into()),
        Err(error) => Err(error.into()),
    }
}

/// Errors of definitions that PostgreSQL tells otherwise.
fn of_table(error: StoreError, table: &str) -> StoreFailure {
    let refusal = match &error {
        StoreError::Exists { .. } => error::exists(table),
        StoreError::Schema(SchemaError::Count { what, most, .. }) => {
            let code = if *what == "columns" {
                "54011"
            } else {
                code::PROGRAM_LIMIT
            };
            Refusal::new(code, format!("table \"{table}\" can have at most {most} {what}"))
        }
        StoreError::Schema(SchemaError::LongRow { .. }) => {
            Refusal::new(code::PROGRAM_LIMIT, error.to_string())
        }
        StoreError::Schema(SchemaError::Constraint { constraint, why, .. })
            if why.starts_with("key columns") =>
        {
            let what = format!("foreign key constraint \"{constraint}\" cannot be implemented");
            let mut chars = why.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            Refusal::new(error::MISMATCH, what).detail(format!("{first}{}.", chars.as_str()))
        }
        StoreError::Schema(other) => Refusal::new(INVALID_TABLE, other.to_string()),
        _ => return StoreFailure::Store(error),
    };
    StoreFailure::Told(refusal)
}
