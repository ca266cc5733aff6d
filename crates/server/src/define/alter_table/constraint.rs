//! Constraints of a table that is there: `ADD CONSTRAINT`, `DROP CONSTRAINT`, `RENAME CONSTRAINT`, `VALIDATE CONSTRAINT`.

use super::{Altering, at_of};
use crate::catalog::quoted;
use crate::define::constraints::{self, Resolved, Target, Wanted, WantedKind};
use crate::define::create_table::deferrable_note;
use crate::define::error;
use crate::define::expression::{check_check, statement};
use crate::define::index;
use crate::define::step::{Step, apply, note};
use crate::session::ClientSession;
use crate::write::{Property, TableInfo};
use corun_store::{CheckDef, IndexDef};
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::TableConstraint;

/// Names of a table's constraints.
fn constraint_names(info: &TableInfo) -> Vec<String> {
    let definition = &info.definition;
    let keys = definition.foreign_keys.iter().map(|key| key.name.clone());
    let checks = definition.checks.iter().map(|check| check.name.clone());
    let indexes = definition
        .indexes
        .iter()
        .filter(|index| info.is_constraint(&index.name));
    let indexes = indexes.map(|index| info.shown_index(&index.name).to_owned());
    keys.chain(checks).chain(indexes).collect()
}

impl Altering<'_> {
    pub(super) async fn add_constraint(
        &self,
        session: &mut ClientSession,
        constraint: &TableConstraint,
        not_valid: bool,
    ) -> Result<(), Refusal> {
        let wanted = constraints::of_table(constraint)?;
        if not_valid && matches!(wanted.kind, WantedKind::ForeignKey(_)) {
            return Err(error::unsupported("a foreign key that is NOT VALID")
                .hint("Add it without NOT VALID; its rows are looked at once."));
        }
        self.add_wanted(session, &[wanted], !not_valid).await
    }

    /// Makes constraints, and looks whether rows fulfil them.
    pub(super) async fn add_wanted(
        &self,
        session: &mut ClientSession,
        wanted: &[Wanted],
        validate: bool,
    ) -> Result<(), Refusal> {
        if wanted.is_empty() {
            return Ok(());
        }
        let info = self.info;
        let indexes = info.definition.indexes.iter().filter(|index| index.unique);
        let mut target = Target {
            at: self.at,
            columns: info.columns.iter().map(|column| column.name.as_str()).collect(),
            primary: info.primary_index().map(|index| index.columns.clone()),
            unique: indexes.map(|index| index.columns.clone()).collect(),
            taken: constraint_names(info),
        };
        let resolved = target.resolve(wanted, self.seen)?;
        let mut steps = Vec::new();
        let mut checks: Vec<CheckDef> = Vec::new();
        for resolved in resolved {
            match resolved {
                // The store's own primary key a table has from its beginning; this index does the same.
                Resolved::PrimaryKey { name, columns } => {
                    steps.extend(self.not_null(&columns));
                    let index = constraints::index(&name, columns, true);
                    steps.push(Step::CreateIndex(self.at.clone(), index));
                    steps.push(note(self.at, &name, Property::PrimaryKey, name.as_str()));
                }
                Resolved::Unique(index) => {
                    let name = index.name.clone();
                    steps.push(Step::CreateIndex(self.at.clone(), index));
                    steps.push(note(self.at, &name, Property::Unique, ""));
                }
                Resolved::UsingIndex { name, index, primary } => {
                    steps.extend(self.using_index(&name, &index, primary))
                }
                Resolved::Check(check) => {
                    steps.push(Step::AddCheck(self.at.clone(), check.clone()));
                    checks.push(check);
                }
                Resolved::ForeignKey(key, deferrable) => {
                    steps.extend(deferrable_note(self.at, &key.name, deferrable));
                    steps.push(Step::AddForeignKey(self.at.clone(), key));
                }
            }
        }
        apply(session, &steps)?;
        for check in &checks {
            session.store_transaction()?.read_moment(&[])?;
            check_check(session, (&self.at.0, &self.at.1), &check.text).await?;
            if validate {
                self.check_rows(session, check).await?;
            }
        }
        Ok(())
    }

    fn not_null(&self, columns: &[String]) -> Vec<Step> {
        let nullable = |name: &&String| {
            let column = self.info.column(name).map(|at| &self.info.columns[at]);
            column.is_some_and(|column| column.nullable)
        };
        let columns = columns.iter().filter(nullable);
        columns
            .map(|column| Step::SetNotNull(self.at.clone(), column.clone()))
            .collect()
    }

    fn using_index(&self, name: &str, index: &str, primary: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        let found = self.info.definition.indexes.iter().find(|of| of.name == index);
        let Some(found) = found else {
            return steps;
        };
        if name != index {
            steps.push(Step::DropIndex(self.at.clone(), index.to_owned()));
            let renamed = constraints::index(name, found.columns.clone(), true);
            steps.push(Step::CreateIndex(self.at.clone(), renamed));
        }
        if primary {
            steps.extend(self.not_null(&found.columns));
            steps.push(note(self.at, name, Property::PrimaryKey, name));
        } else {
            steps.push(note(self.at, name, Property::Unique, ""));
        }
        steps
    }

    /// Whether the rows that there are fulfil a condition.
    async fn check_rows(&self, session: &mut ClientSession, check: &CheckDef) -> Result<(), Refusal> {
        let (schema, table) = (quoted(&self.at.0), quoted(&self.at.1));
        let text = format!(
            "SELECT 1 FROM {schema}.{table} WHERE NOT ({}) LIMIT 1",
            check.text
        );
        let planned = session.plan_ast(statement(&text)?, &[], "").await?;
        let (batches, _) = session.read_all(planned.plan, &[]).await?;
        match batches.iter().all(|batch| batch.num_rows() == 0) {
            true => Ok(()),
            false => Err(Refusal::new(
                "23514",
                format!(
                    "check constraint \"{}\" of relation \"{}\" is violated by some row",
                    check.name,
                    self.table()
                ),
            )),
        }
    }

    pub(super) async fn validate(&self, session: &mut ClientSession, name: &str) -> Result<(), Refusal> {
        if !self.info.has_constraint(name) {
            return Err(error::no_constraint(name, self.table()));
        }
        let check = self
            .info
            .definition
            .checks
            .iter()
            .find(|check| check.name == name);
        match check {
            Some(check) => self.check_rows(session, check).await,
            // Those of indexes and foreign keys are fulfilled since they were made.
            None => Ok(()),
        }
    }

    pub(super) fn drop_constraint(
        &self,
        session: &mut ClientSession,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), Refusal> {
        let definition = &self.info.definition;
        let is_plain = definition.checks.iter().any(|check| check.name == name)
            || definition.foreign_keys.iter().any(|key| key.name == name);
        if is_plain {
            let steps = [
                Step::DropConstraint(self.at.clone(), name.to_owned()),
                Step::Forget(self.at.clone(), name.to_owned(), Property::Deferrable),
            ];
            return apply(session, &steps);
        }
        let index = self.info.index_shown(name);
        if let Some(index) = index.filter(|index| self.info.is_constraint(&index.name)) {
            let (steps, told) = self.without_index(index, cascade)?;
            apply(session, &steps)?;
            told.into_iter()
                .for_each(|what| error::notice(session, code::SUCCESS, what));
            return Ok(());
        }
        if !if_exists {
            return Err(error::no_constraint(name, self.table()));
        }
        let what = format!(
            "constraint \"{name}\" of relation \"{}\" does not exist, skipping",
            self.table()
        );
        error::notice(session, code::SUCCESS, what);
        Ok(())
    }

    /// Takes an index away that is a constraint, and, with `CASCADE`, the foreign keys that need it; what the client is told of these.
    pub(super) fn without_index(
        &self,
        index: &IndexDef,
        cascade: bool,
    ) -> Result<(Vec<Step>, Vec<String>), Refusal> {
        let shown = self.info.shown_index(&index.name);
        let definition = &self.info.definition;
        if definition
            .primary_key_index()
            .is_some_and(|primary| primary.name == index.name)
        {
            return Err(
                error::unsupported("dropping the primary key that a table was made with")
                    .hint("Make another table without it, and copy the rows."),
            );
        }
        let (mut steps, mut told) = (Vec::new(), Vec::new());
        let mut needs = Vec::new();
        let is_of = |columns: &[String]| {
            columns.len() == index.columns.len() && columns.iter().all(|of| index.columns.contains(of))
        };
        // Another unique index of the same columns does not serve foreign keys that were made with this one.
        for (table, key) in self.seen.referring(&self.at.0, &self.at.1) {
            if !is_of(&key.referenced) {
                continue;
            }
            let what = format!("constraint {} on table {}", key.name, table.name);
            needs.push(format!("{what} depends on index {shown}"));
            told.push(format!("drop cascades to {what}"));
            steps.push(Step::DropConstraint(at_of(table), key.name.clone()));
            steps.push(Step::Forget(at_of(table), key.name.clone(), Property::Deferrable));
        }
        if !needs.is_empty() && !cascade {
            let what = format!("constraint {shown} on table {}", self.table());
            return Err(error::needed(&what, &needs));
        }
        steps.push(Step::DropIndex(self.at.clone(), index.name.clone()));
        for property in [Property::PrimaryKey, Property::Unique] {
            steps.push(Step::Forget(self.at.clone(), shown.to_owned(), property));
        }
        Ok((steps, told))
    }

    pub(super) fn rename_constraint(
        &self,
        session: &mut ClientSession,
        name: &str,
        to: &str,
    ) -> Result<(), Refusal> {
        if self.info.has_constraint(to) {
            return Err(error::constraint_exists(to, self.table()));
        }
        let definition = &self.info.definition;
        let at = || self.at.clone();
        if let Some(check) = definition.checks.iter().find(|check| check.name == name) {
            let mut steps = vec![
                Step::DropConstraint(at(), name.to_owned()),
                Step::AddCheck(at(), CheckDef::new(to, &check.text)),
            ];
            steps.extend(index::comments_moved(self.info, name, to));
            return apply(session, &steps);
        }
        if let Some(key) = definition.foreign_keys.iter().find(|key| key.name == name) {
            let mut renamed = key.clone();
            to.clone_into(&mut renamed.name);
            let mut deferrable = self.info.notes.deferrable.iter();
            let deferrable = deferrable
                .find(|(of, _)| of == name)
                .map(|(_, deferred)| *deferred);
            let mut steps = vec![
                Step::DropConstraint(at(), name.to_owned()),
                Step::AddForeignKey(at(), renamed),
                Step::Forget(at(), name.to_owned(), Property::Deferrable),
            ];
            steps.extend(deferrable_note(self.at, to, deferrable));
            steps.extend(index::comments_moved(self.info, name, to));
            return apply(session, &steps);
        }
        let index = self.info.index_shown(name);
        match index.filter(|index| self.info.is_constraint(&index.name)) {
            Some(_) => index::rename(session, self.seen, self.info, name, to),
            None => Err(error::no_constraint(name, self.table())),
        }
    }
}
