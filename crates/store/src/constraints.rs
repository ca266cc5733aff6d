//! Constraints of tables that are there already: added and dropped.
//!
//! What it is not: those that a table is made with (`definitions.rs`), nor what they do (`foreign_key.rs`).

use crate::definition::Definition;
use crate::error::{Result, StoreError};
use crate::known::Reach;
use crate::schema::{CheckDef, ForeignKeyDef, TableDef};
use crate::session::State;
use crate::table::Table;
use crate::transaction::Transaction;

impl Transaction<'_> {
    /// Adds a foreign key to a table whose rows fulfil it, those that this transaction has written included. Waits for other transactions that
    /// use the table, or write to the one it refers to, and they wait for it; snapshots go on.
    ///
    /// # Errors
    /// [`StoreError::ForeignKey`] of the first row that refers to no row; [`StoreError::Exists`], [`StoreError::Schema`],
    /// [`StoreError::NoTable`], [`StoreError::Dropped`]; locks that are not granted.
    pub fn add_foreign_key(&self, table: &Table, key: ForeignKeyDef) -> Result<()> {
        self.change_definitions(|state| {
            self.with_constraint(state, table, &key.name, |seen| seen.with_foreign_key(key.clone()))?;
            self.make(state, Definition::AddForeignKey(table.0.id, key))
                .map(drop)
        })
    }

    /// Adds a condition that the rows of a table fulfil. The store does not evaluate it: the caller has seen to it that the rows there are do.
    /// Others do not write rows before this transaction ends.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::Schema`], [`StoreError::Dropped`]; locks that are not granted.
    pub fn add_check(&self, table: &Table, check: CheckDef) -> Result<()> {
        self.change_definitions(|state| {
            self.with_constraint(state, table, &check.name, |seen| {
                seen.check_constraint(&check.name, &check.text)
            })?;
            self.make(state, Definition::AddCheck(table.0.id, check))
                .map(drop)
        })
    }

    /// Drops a foreign key or a check. Waits for other transactions that use the table, or write to the one that it refers to.
    ///
    /// # Errors
    /// [`StoreError::NoConstraint`], [`StoreError::Dropped`]; locks that are not granted.
    pub fn drop_constraint(&self, table: &Table, name: &str) -> Result<()> {
        self.change_definitions(|state| {
            self.reach(state, table, Reach::Write)?;
            if !self.seen(state, table).has_constraint(name) {
                return Err(StoreError::NoConstraint {
                    table: table.shown_name(),
                    name: name.to_owned(),
                });
            }
            self.make(state, Definition::DropConstraint(table.0.id, name.to_owned()))
                .map(drop)
        })
    }

    /// Whether a table, which it locks, can have another constraint.
    fn with_constraint(
        &self,
        state: &mut State,
        table: &Table,
        name: &str,
        add: impl FnOnce(TableDef) -> TableDef,
    ) -> Result<()> {
        self.reach(state, table, Reach::Write)?;
        let seen = self.seen(state, table);
        if seen.has_constraint(name) {
            return Err(StoreError::Exists {
                what: "a constraint",
                name: name.to_owned(),
            });
        }
        Ok(add(seen).check()?)
    }
}
