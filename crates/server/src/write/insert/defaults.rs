//! Columns' defaults that are expressions, such as `nextval('t_id_seq')`: each is evaluated once for each row that uses it.

use super::cells::is_now;
use super::plans::column_values;
use super::target::Filler;
use crate::session::ClientSession;
use crate::write::expressions::Expressions;
use crate::write::select::{parsed, push, select};
use crate::write::{ColumnDefault, TableInfo};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use corun_wire::error::{Refusal, code};
use corun_wire::values::Value;
use datafusion::sql::sqlparser::ast::Expr;
use std::sync::Arc;

/// Expressions of columns that a statement may give their defaults.
#[derive(Debug)]
pub(crate) struct Defaults(Vec<(usize, Computed)>);

#[derive(Debug)]
enum Computed {
    /// The moment at which the statement runs.
    Now,
    By(Box<Expressions>),
}

/// Which rows use a default.
pub(crate) enum Uses {
    All,
    /// For each row the place of its value, or `None`.
    Some(Vec<Option<u32>>),
}

impl Uses {
    fn count(&self, rows: usize) -> usize {
        match self {
            Uses::All => rows,
            Uses::Some(places) => places.iter().flatten().count(),
        }
    }
}

/// Values of defaults for some rows.
pub(crate) struct DefaultValues(Vec<(usize, Uses, Values)>);

enum Values {
    Same(Value<'static>),
    Each(Vec<Option<Value<'static>>>),
}

impl DefaultValues {
    /// The columns of a row that use their defaults, and what these are.
    pub(crate) fn of(&self, row: usize) -> impl Iterator<Item = (usize, Option<&Value<'static>>)> {
        self.0.iter().filter_map(move |(column, uses, values)| {
            let at = match uses {
                Uses::All => row,
                Uses::Some(places) => places.get(row).copied().flatten()? as usize,
            };
            match values {
                Values::Same(value) => Some((*column, Some(value))),
                Values::Each(values) => Some((*column, values.get(at)?.as_ref())),
            }
        })
    }

    /// Whether no row has any.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the columns of a row that use their defaults.
    ///
    /// # Errors
    /// A value that a column does not take.
    pub(crate) fn set(&self, row: usize, filler: &mut Filler<'_>) -> Result<(), Refusal> {
        let mut all = self.of(row);
        all.try_for_each(|(column, value)| filler.set(column, value))
    }
}

impl Defaults {
    /// Of those of these columns that have an expression.
    ///
    /// # Errors
    /// An expression that cannot be planned.
    pub(crate) async fn plan(
        session: &ClientSession,
        info: &TableInfo,
        columns: impl Iterator<Item = usize>,
    ) -> Result<Defaults, Refusal> {
        let mut found = Vec::new();
        for at in columns {
            let ColumnDefault::Expression(text) = &info.columns[at].default else {
                continue;
            };
            let computed = match parsed(text)? {
                Expr::Function(function) if is_now(&function) => Computed::Now,
                expression => {
                    let mut items = Vec::new();
                    push(&mut items, expression);
                    let select = select(items, Vec::new(), None);
                    Computed::By(Box::new(Expressions::plan(session, select, &[], "").await?))
                }
            };
            found.push((at, computed));
        }
        Ok(Defaults(found))
    }

    /// The columns that have an expression.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(at, _)| *at)
    }

    /// Evaluates them for so many rows of a statement that runs at this moment.
    ///
    /// # Errors
    /// Whatever fails.
    pub(crate) fn values(
        &self,
        rows: usize,
        now: &Value<'static>,
        uses: impl Fn(usize) -> Uses,
    ) -> Result<DefaultValues, Refusal> {
        let mut all = Vec::with_capacity(self.0.len());
        for (column, computed) in &self.0 {
            let uses = uses(*column);
            let values = match (computed, uses.count(rows)) {
                (_, 0) => continue,
                (Computed::Now, _) => Values::Same(now.clone()),
                (Computed::By(expressions), count) => {
                    let values = column_values(&expressions.evaluate(&without_columns(count)?, &[])?, 0)?;
                    Values::Each(values)
                }
            };
            all.push((*column, uses, values));
        }
        Ok(DefaultValues(all))
    }
}

/// So many rows.
fn without_columns(rows: usize) -> Result<RecordBatch, Refusal> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
        .map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))
}
