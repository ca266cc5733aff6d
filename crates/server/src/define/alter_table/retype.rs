//! `ALTER COLUMN ... TYPE`: the table is made again with the column's new type, and its rows are copied.
//!
//! ```text
//!   foreign keys of and to the table go ─► another table, with the new type ─► rows: the column's new values, the others as they are
//!   ─► the old table goes, the other gets its name ─► foreign keys come back
//! ```
//!
//! Where the store keeps both types alike nothing is copied: only the dictionary changes.

use super::{Altering, at_of};
use crate::catalog::quoted;
use crate::define::error;
use crate::define::expression::{check_check, statement};
use crate::define::seen::At;
use crate::define::step::{Step, apply, note};
use crate::session::{ClientSession, StoreFailure, cells_as, columns_of};
use crate::write::{Column, ColumnDefault, Declared, Property, assign, needs_entry, store_value, value_of};
use corun_store::ForeignKeyDef;
use corun_wire::error::Refusal;
use datafusion::sql::sqlparser::ast::Expr;

/// The table that takes the old one's place, while it has no name of its own.
const MADE_AGAIN: char = '\u{2}';

impl Altering<'_> {
    pub(super) async fn set_type(
        &self,
        session: &mut ClientSession,
        old: &Column,
        mut new: Column,
        using: Option<&Expr>,
    ) -> Result<(), Refusal> {
        if new.declared == old.declared && using.is_none() {
            return Ok(());
        }
        if old.identity.is_some() && crate::define::sequence::of_type(&new.declared).is_none() {
            let what = "identity column type must be smallint, integer, or bigint";
            return Err(Refusal::new("22023", what));
        }
        let mut notes = Vec::new();
        match needs_entry(&new.declared, new.stored) {
            true => notes.push(note(self.at, &old.name, Property::Type, new.declared.to_string())),
            false => notes.push(Step::Forget(self.at.clone(), old.name.clone(), Property::Type)),
        }
        let is_unlimited = new.declared.length.is_none() && new.declared.precision.is_none();
        if new.stored == old.stored && using.is_none() && is_unlimited && new.declared.of == old.declared.of {
            return apply(session, &notes);
        }
        let zone = session.zone();
        if let ColumnDefault::Constant(_) = &old.default {
            let at = self.info.column(&old.name).unwrap_or_default();
            let row = self.info.table.new_row();
            if let Some(value) = value_of(old, at, row.row()) {
                new.default = store_value(&new, &value, &zone)
                    .map(ColumnDefault::Constant)
                    .map_err(|_| self.no_cast("default for column", &new.declared, &old.name))?;
            }
        }
        // The rows as they will be.
        let names = self
            .info
            .columns
            .iter()
            .map(|column| match column.name == old.name {
                true => match using {
                    Some(expr) => format!("({expr})"),
                    None => quoted(&column.name),
                },
                false => quoted(&column.name),
            });
        let names: Vec<String> = names
            .enumerate()
            .map(|(at, of)| format!("{of} AS c{at}"))
            .collect();
        let (schema, table) = (quoted(&self.at.0), quoted(&self.at.1));
        let text = format!("SELECT {} FROM {schema}.{table}", names.join(", "));
        let (made, again): (At, Vec<(At, ForeignKeyDef)>) = self.begin(session, &new)?;
        session.store_transaction()?.read_moment(&[])?;
        let planned = session.plan_ast(statement(&text)?, &[], "").await?;
        let results = columns_of(planned.plan.schema().as_arrow());
        let (batches, _) = session.read_all(planned.plan, &[]).await?;
        let columns: Vec<&Column> = self
            .info
            .columns
            .iter()
            .map(|column| if column.name == old.name { &new } else { column })
            .collect();
        session.store_transaction()?.run(|transaction| {
            let table = transaction.table_in(&made.0, &made.1)?;
            for batch in &batches {
                let cells = batch.columns().iter().zip(&results);
                let cells = cells.map(|(array, result)| cells_as(array.as_ref(), result.of.kind));
                let cells = cells.collect::<Result<Vec<_>, _>>()?;
                for row in 0..batch.num_rows() {
                    let mut copy = table.new_row();
                    for (at, (cell, column)) in cells.iter().zip(&columns).enumerate() {
                        assign(column, at, cell(row)?.as_ref(), &zone, &mut copy)?;
                    }
                    transaction.insert(&table, &copy)?;
                }
            }
            Ok::<(), StoreFailure>(())
        })?;
        let mut steps = vec![
            Step::DropTable(self.at.clone()),
            Step::RenameTable(made, self.at.1.clone()),
        ];
        steps.extend(again.into_iter().map(|(at, key)| Step::AddForeignKey(at, key)));
        steps.extend(notes);
        apply(session, &steps)?;
        session.store_transaction()?.read_moment(&[])?;
        for check in &self.info.definition.checks {
            check_check(session, (&self.at.0, &self.at.1), &check.text).await?;
        }
        Ok(())
    }

    fn no_cast(&self, what: &str, of: &Declared, column: &str) -> Refusal {
        let told = format!("{what} \"{column}\" cannot be cast automatically to type {of}");
        Refusal::new(error::MISMATCH, told)
    }

    /// Takes the foreign keys away, and makes the table that the rows are copied to; where it is, and the foreign keys that come back.
    fn begin(
        &self,
        session: &mut ClientSession,
        new: &Column,
    ) -> Result<(At, Vec<(At, ForeignKeyDef)>), Refusal> {
        let own = self.info.definition.foreign_keys.iter();
        let own = own.map(|key| (self.at.clone(), key.clone()));
        let referring = self.seen.referring(&self.at.0, &self.at.1).into_iter();
        let referring = referring
            .filter(|(table, _)| !table.table.is_same(&self.info.table))
            .map(|(table, key)| (at_of(table), key.clone()));
        let keys: Vec<(At, ForeignKeyDef)> = own.chain(referring).collect();
        let made = (self.at.0.clone(), format!("{MADE_AGAIN}{}", self.at.1));
        let mut definition = self.info.definition.clone();
        definition.name.clone_from(&made.1);
        definition.foreign_keys.clear();
        for column in &mut definition.columns {
            if column.name == new.name {
                *column = crate::define::columns::store_column(new);
            }
        }
        let mut steps: Vec<Step> = keys
            .iter()
            .map(|(at, key)| Step::DropConstraint(at.clone(), key.name.clone()))
            .collect();
        steps.push(Step::CreateTable(Box::new(definition)));
        apply(session, &steps)?;
        Ok((made, keys))
    }
}
