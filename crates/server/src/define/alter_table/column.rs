//! Columns of a table that is there: `ADD COLUMN`, `DROP COLUMN`, `RENAME COLUMN`, `ALTER COLUMN`.

use super::{Altering, at_of};
use crate::catalog::quoted;
use crate::data::WITH_ROW_NUMBERS;
use crate::define::columns::{NewColumn, Place, constant_of, next_of, notes, store_column};
use crate::define::error::{self, DUPLICATE_COLUMN};
use crate::define::expression::{check_default, columns_of, default_of, renamed, statement};
use crate::define::seen::{Seen, quoted_at};
use crate::define::sequence::{self, Plan};
use crate::define::step::{Step, apply, note};
use crate::session::{ClientSession, cells_as, columns_of as results_of};
use crate::write::{Column, ColumnDefault, Identity, Property, assign};
use arrow::array::AsArray;
use arrow::datatypes::UInt32Type;
use corun_store::{CheckDef, Rid};
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation as Operation, ColumnDef, Expr, GeneratedAs, SequenceOptions,
};

impl Altering<'_> {
    fn named(&self, column: &str) -> Result<&Column, Refusal> {
        let at = self.info.column(column);
        let found = at.map(|at| &self.info.columns[at]);
        found.ok_or_else(|| error::no_column(column, self.table()))
    }

    pub(super) async fn add_column(
        &self,
        session: &mut ClientSession,
        of: &ColumnDef,
        if_not_exists: bool,
    ) -> Result<(), Refusal> {
        let name = crate::catalog::folded(&of.name);
        if self.info.column(&name).is_some() {
            let what = format!(
                "column \"{name}\" of relation \"{}\" already exists",
                self.table()
            );
            if if_not_exists {
                error::notice(session, DUPLICATE_COLUMN, format!("{what}, skipping"));
                return Ok(());
            }
            return Err(Refusal::new(DUPLICATE_COLUMN, what));
        }
        let zone = session.zone();
        let place = Place {
            at: self.at,
            seen: self.seen,
            zone: &zone,
        };
        let NewColumn {
            column,
            sequence,
            constraints,
            ..
        } = place.column(of, &mut Vec::new())?;
        let expression = match &column.default {
            ColumnDefault::Expression(text) => Some(text.clone()),
            _ => None,
        };
        if let (Some(text), None) = (&expression, &sequence) {
            check_default(session, text).await?;
        }
        let owned = sequence.as_ref().map(Plan::at);
        // Rows that there are have no value of it yet.
        let mut stored = store_column(&column);
        stored.nullable |= stored.default.is_none();
        let mut steps: Vec<Step> = sequence.into_iter().map(Step::CreateSequence).collect();
        steps.push(Step::AddColumn(self.at.clone(), stored));
        steps.extend(notes(self.at, &column, owned.as_ref()));
        apply(session, &steps)?;
        if let Some(text) = expression {
            self.fill(session, &column, &text).await?;
        }
        if !column.nullable && constant_of(&column).is_none() {
            apply(session, &[Step::SetNotNull(self.at.clone(), name)])?;
        }
        if constraints.is_empty() {
            return Ok(());
        }
        let seen = Seen::of(session)?;
        let Some(info) = seen.table(&self.at.0, &self.at.1) else {
            return Err(error::no_relation(self.table()));
        };
        let now = Altering {
            seen: &seen,
            info,
            at: self.at,
        };
        now.add_wanted(session, &constraints, true).await
    }

    /// Gives each row the value of an expression in its new column.
    async fn fill(&self, session: &mut ClientSession, column: &Column, text: &str) -> Result<(), Refusal> {
        session.store_transaction()?.read_moment(&[])?;
        let (schema, name) = self.at;
        let numbered = quoted(&format!("{WITH_ROW_NUMBERS}{name}"));
        let text = format!(
            "SELECT \"{WITH_ROW_NUMBERS}rid\", ({text}) FROM {}.{numbered}",
            quoted(schema)
        );
        let planned = session.plan_ast(statement(&text)?, &[], "").await?;
        let results = results_of(planned.plan.schema().as_arrow());
        let kind = results.last().map_or(column.declared.of, |result| result.of).kind;
        let (batches, _) = session.read_all(planned.plan, &[]).await?;
        let zone = session.zone();
        session.store_transaction()?.run(|transaction| {
            let table = transaction.table_in(schema, name)?;
            let Some(at) = table.column(&column.name) else {
                return Err(error::no_column(&column.name, name).into());
            };
            for batch in &batches {
                let rids = batch.column(0).as_primitive::<UInt32Type>();
                let cells = cells_as(batch.column(1).as_ref(), kind)?;
                for row in 0..batch.num_rows() {
                    let value = cells(row)?;
                    let mut refused = None;
                    transaction.update(&table, Rid(rids.value(row)), |changed| {
                        refused = assign(column, at, value.as_ref(), &zone, changed).err();
                        Ok(())
                    })?;
                    if let Some(refusal) = refused {
                        return Err(refusal.into());
                    }
                }
            }
            Ok(())
        })
    }

    pub(super) fn drop_column(
        &self,
        session: &mut ClientSession,
        column: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), Refusal> {
        let table = self.table();
        if self.info.column(column).is_none() {
            if !if_exists {
                return Err(error::no_column(column, table));
            }
            let what = format!("column \"{column}\" of relation \"{table}\" does not exist, skipping");
            error::notice(session, code::SUCCESS, what);
            return Ok(());
        }
        if self.info.columns.len() == 1 {
            return Err(error::unsupported("a table without columns").hint("Drop the table."));
        }
        let has = |columns: &[String]| columns.iter().any(|of| of == column);
        let (mut steps, mut needs, mut told) = (Vec::new(), Vec::new(), Vec::new());
        for (other, key) in self.seen.referring(&self.at.0, &self.at.1) {
            let is_own = other.table.is_same(&self.info.table);
            if !has(&key.referenced) || is_own {
                continue;
            }
            let what = format!("constraint {} on table {}", key.name, other.name);
            needs.push(format!("{what} depends on column {column} of table {table}"));
            told.push(format!("drop cascades to {what}"));
            steps.push(Step::DropConstraint(at_of(other), key.name.clone()));
            steps.push(Step::Forget(at_of(other), key.name.clone(), Property::Deferrable));
        }
        if !needs.is_empty() && !cascade {
            return Err(error::needed(
                &format!("column {column} of table {table}"),
                &needs,
            ));
        }
        let definition = &self.info.definition;
        let keys = definition.foreign_keys.iter().filter(|key| {
            let is_own = key.schema == self.at.0 && key.table == self.at.1;
            has(&key.columns) || is_own && has(&key.referenced)
        });
        let checks = definition
            .checks
            .iter()
            .filter(|check| has(&columns_of(&check.text)));
        let names = keys.map(|key| &key.name).chain(checks.map(|check| &check.name));
        for name in names {
            steps.push(Step::DropConstraint(self.at.clone(), name.clone()));
            steps.push(Step::Forget(self.at.clone(), name.clone(), Property::Deferrable));
        }
        for index in definition.indexes.iter().filter(|index| has(&index.columns)) {
            // The foreign keys that need it are gone by then.
            steps.extend(
                self.without_index(index, true)?
                    .0
                    .into_iter()
                    .filter(|step| !matches!(step, Step::DropConstraint(..))),
            );
        }
        steps.push(Step::DropColumn(self.at.clone(), column.to_owned()));
        steps.push(Step::ForgetColumn(self.at.clone(), column.to_owned()));
        let owned = sequence::owned_by(self.seen, self.info, Some(column));
        steps.extend(owned.into_iter().map(Step::DropSequence));
        apply(session, &steps)?;
        told.into_iter()
            .for_each(|what| error::notice(session, code::SUCCESS, what));
        Ok(())
    }

    pub(super) fn rename_column(
        &self,
        session: &mut ClientSession,
        column: &str,
        to: &str,
    ) -> Result<(), Refusal> {
        self.named(column)?;
        if self.info.column(to).is_some() {
            let what = format!("column \"{to}\" of relation \"{}\" already exists", self.table());
            return Err(Refusal::new(DUPLICATE_COLUMN, what));
        }
        let at = || self.at.clone();
        let checks = self.info.definition.checks.iter();
        let checks = checks.filter(|check| columns_of(&check.text).iter().any(|of| of == column));
        let (mut steps, mut again) = (Vec::new(), Vec::new());
        for check in checks {
            let text = renamed(&check.text, column, to)?;
            steps.push(Step::DropConstraint(at(), check.name.clone()));
            again.push(Step::AddCheck(at(), CheckDef::new(&check.name, &text)));
        }
        steps.push(Step::RenameColumn(at(), column.to_owned(), to.to_owned()));
        steps.extend(again);
        steps.push(Step::MoveColumnNotes(at(), column.to_owned(), to.to_owned()));
        apply(session, &steps)
    }

    fn check_no_identity(&self, of: &Column, hint: Option<&str>) -> Result<(), Refusal> {
        if of.identity.is_none() {
            return Ok(());
        }
        let what = format!(
            "column \"{}\" of relation \"{}\" is an identity column",
            of.name,
            self.table()
        );
        let refusal = error::syntax(what);
        Err(match hint {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        })
    }

    pub(super) async fn alter_column(
        &self,
        session: &mut ClientSession,
        column: &str,
        operation: &Operation,
    ) -> Result<(), Refusal> {
        let of = self.named(column)?;
        let at = || self.at.clone();
        let name = || column.to_owned();
        match operation {
            Operation::SetNotNull => apply(session, &[Step::SetNotNull(at(), name())]),
            Operation::DropNotNull => {
                let primary = self.info.primary_index();
                if primary.is_some_and(|index| index.columns.iter().any(|of| of == column)) {
                    let what = format!("column \"{column}\" is in a primary key");
                    return Err(Refusal::new(error::INVALID_TABLE, what));
                }
                self.check_no_identity(of, None)?;
                apply(session, &[Step::DropNotNull(at(), name())])
            }
            Operation::SetDefault { value } => self.set_default(session, of, Some(value)).await,
            Operation::DropDefault => self.set_default(session, of, None).await,
            Operation::SetDataType { data_type, using, .. } => {
                let (declared, stored) = crate::write::store_type(data_type)?;
                let new = Column {
                    declared,
                    stored,
                    ..of.clone()
                };
                self.set_type(session, of, new, using.as_ref()).await
            }
            Operation::AddGenerated {
                generated_as,
                sequence_options,
            } => {
                let of_kind = match generated_as {
                    Some(GeneratedAs::Always) => Identity::Always,
                    Some(GeneratedAs::ByDefault) => Identity::ByDefault,
                    _ => return Err(error::unsupported("a generated column")),
                };
                let options = sequence_options.as_deref().unwrap_or_default();
                self.add_identity(session, of, of_kind, options)
            }
        }
    }

    async fn set_default(
        &self,
        session: &mut ClientSession,
        of: &Column,
        value: Option<&Expr>,
    ) -> Result<(), Refusal> {
        self.check_no_identity(
            of,
            Some("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead."),
        )?;
        let default = match value {
            Some(value) => default_of(value, of, &session.zone(), self.seen)?,
            None => ColumnDefault::None,
        };
        let at = || self.at.clone();
        let name = || of.name.clone();
        let steps = match default {
            ColumnDefault::None => vec![
                Step::SetDefault(at(), name(), None),
                Step::Forget(at(), name(), Property::Default),
            ],
            ColumnDefault::Constant(constant) => vec![
                Step::SetDefault(at(), name(), Some(constant)),
                Step::Forget(at(), name(), Property::Default),
            ],
            ColumnDefault::Expression(text) => {
                check_default(session, &text).await?;
                vec![
                    Step::SetDefault(at(), name(), None),
                    note(self.at, &of.name, Property::Default, text),
                ]
            }
        };
        apply(session, &steps)
    }

    fn add_identity(
        &self,
        session: &mut ClientSession,
        of: &Column,
        kind: Identity,
        options: &[SequenceOptions],
    ) -> Result<(), Refusal> {
        let table = self.table();
        let column = &of.name;
        let wrong = |what: String| Err(Refusal::new(code::NOT_NOW, what));
        if of.nullable {
            return wrong(format!(
                "column \"{column}\" of relation \"{table}\" must be declared NOT NULL before identity can be added"
            ));
        }
        if of.identity.is_some() {
            return wrong(format!(
                "column \"{column}\" of relation \"{table}\" is already an identity column"
            ));
        }
        if of.default != ColumnDefault::None {
            return wrong(format!(
                "column \"{column}\" of relation \"{table}\" already has a default value"
            ));
        }
        if sequence::of_type(&of.declared).is_none() {
            let what = "identity column type must be smallint, integer, or bigint";
            return Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
        }
        let zone = session.zone();
        let place = Place {
            at: self.at,
            seen: self.seen,
            zone: &zone,
        };
        let plan = place.owned(of, options, &mut Vec::new())?;
        let sequence = plan.at();
        let mut steps = vec![
            Step::CreateSequence(plan),
            note(self.at, column, Property::Sequence, quoted_at(&sequence)),
            note(
                self.at,
                column,
                Property::Identity,
                match kind {
                    Identity::Always => "always",
                    Identity::ByDefault => "by default",
                },
            ),
        ];
        if let ColumnDefault::Expression(text) = next_of(&sequence) {
            steps.push(note(self.at, column, Property::Default, text));
        }
        apply(session, &steps)
    }
}
