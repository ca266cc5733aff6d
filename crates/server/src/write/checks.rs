//! [`Checks`]: the CHECK constraints of a table, planned once, evaluated over the rows that a statement is about to write.
//!
//! Order of calls: [`Checks::plan`], then [`Checks::check`] for each batch of new rows. What it is not: NOT NULL and keys, which the store
//! keeps.

use super::expressions::Expressions;
use super::select::{alone, numbered, parsed, push, select};
use super::{TableInfo, rows};
use crate::session::{ClientSession, Zone};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use corun_wire::error::Refusal;
use datafusion::sql::sqlparser::ast::Ident;

/// See [`self`].
#[derive(Debug)]
pub(super) struct Checks {
    /// In the order in which PostgreSQL checks them: by name.
    names: Vec<String>,
    /// None of a table without any.
    conditions: Option<Expressions>,
}

impl Checks {
    /// Those of a table.
    ///
    /// # Errors
    /// A constraint that cannot be planned.
    pub(super) async fn plan(session: &ClientSession, info: &TableInfo) -> Result<Checks, Refusal> {
        let mut checks: Vec<_> = info.definition.checks.iter().collect();
        checks.sort_by(|one, other| one.name.cmp(&other.name));
        if checks.is_empty() {
            return Ok(Checks {
                names: Vec::new(),
                conditions: None,
            });
        }
        let mut items = Vec::new();
        for check in &checks {
            push(&mut items, parsed(&check.text)?);
        }
        let relation = numbered(info, Ident::with_quote('"', &info.name));
        let select = select(items, vec![alone(relation)], None);
        let conditions = Expressions::plan(session, select, &[], "").await?;
        Ok(Checks {
            names: checks.into_iter().map(|check| check.name.clone()).collect(),
            conditions: Some(conditions),
        })
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_none()
    }

    /// Checks new rows ([`rows::batch`]). NULL passes.
    ///
    /// # Errors
    /// 23514 of the first row that does not pass.
    pub(super) fn check(&self, info: &TableInfo, new: &RecordBatch, zone: &Zone) -> Result<(), Refusal> {
        let Some(conditions) = &self.conditions else {
            return Ok(());
        };
        let answers = conditions.evaluate(new, &[])?;
        let mut first: Option<(usize, usize)> = None;
        for (at, answers) in answers.columns().iter().enumerate() {
            if *answers.data_type() != DataType::Boolean {
                continue;
            }
            let answers = answers.as_boolean();
            let failed = (0..answers.len()).find(|row| answers.is_valid(*row) && !answers.value(*row));
            if let Some(row) = failed
                && first.is_none_or(|(known, _)| row < known)
            {
                first = Some((row, at));
            }
        }
        let Some((row, at)) = first else {
            return Ok(());
        };
        let what = format!(
            "new row for relation \"{}\" violates check constraint \"{}\"",
            info.name, self.names[at]
        );
        let refusal = Refusal::new("23514", what);
        Err(match rows::shown(info, new, row, zone) {
            Ok(shown) => refusal.detail(format!("Failing row contains {shown}.")),
            Err(_) => refusal,
        })
    }
}
