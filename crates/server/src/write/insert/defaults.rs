//! Columns' defaults that are expressions, such as `nextval('t_id_seq')`: each is evaluated once for each row that uses it.
//!
//! Of one row all are computed together, by a plan that is made once. Of many rows, one query computes those that as many rows use.

use super::super::select::parsed;
use super::plans::{OneRow, TOGETHER, column_values, select_of};
use super::target::Filler;
use crate::session::ClientSession;
use crate::write::{ColumnDefault, TableInfo};
use corun_wire::error::{Refusal, code};
use corun_wire::values::Value;
use datafusion::sql::sqlparser::ast::Expr;

/// Expressions of columns that a statement may give their defaults.
#[derive(Debug)]
pub(crate) struct Defaults {
    columns: Vec<(usize, Expr)>,
    /// Of all of them.
    one: Option<OneRow>,
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
pub(crate) struct DefaultValues(Vec<(usize, Uses, Vec<Option<Value<'static>>>)>);

impl DefaultValues {
    /// The columns of a row that use their defaults, and what these are.
    pub(crate) fn of(&self, row: usize) -> impl Iterator<Item = (usize, Option<&Value<'static>>)> {
        self.0.iter().filter_map(move |(column, uses, values)| {
            let at = match uses {
                Uses::All => row,
                Uses::Some(places) => places.get(row).copied().flatten()? as usize,
            };
            Some((*column, values.get(at)?.as_ref()))
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
            if let ColumnDefault::Expression(text) = &info.columns[at].default {
                found.push((at, parsed(text)?));
            }
        }
        let one = match found.is_empty() {
            true => None,
            false => {
                let expressions = found.iter().map(|(_, of)| of.clone()).collect();
                Some(OneRow::plan(session, expressions, &mut Vec::new(), "").await?)
            }
        };
        Ok(Defaults { columns: found, one })
    }

    /// The columns that have an expression.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|(at, _)| *at)
    }

    /// Evaluates them for so many rows.
    ///
    /// # Errors
    /// Whatever fails.
    pub(crate) async fn values(
        &self,
        session: &mut ClientSession,
        rows: usize,
        uses: impl Fn(usize) -> Uses,
    ) -> Result<DefaultValues, Refusal> {
        let Some(one) = &self.one else {
            return Ok(DefaultValues(Vec::new()));
        };
        let used: Vec<(usize, Uses)> = self.columns.iter().map(|(at, _)| (*at, uses(*at))).collect();
        let counts: Vec<usize> = used.iter().map(|(_, uses)| uses.count(rows)).collect();
        if counts.iter().all(|count| *count == 1) {
            let values = one.values(session, &[]).await?;
            let values = used.into_iter().zip(values);
            return Ok(DefaultValues(
                values
                    .map(|((at, uses), value)| (at, uses, vec![value]))
                    .collect(),
            ));
        }
        let mut values: Vec<Vec<Option<Value<'static>>>> = vec![Vec::new(); used.len()];
        let mut distinct: Vec<usize> = counts.iter().copied().filter(|count| *count > 0).collect();
        distinct.sort_unstable();
        distinct.dedup();
        for count in distinct {
            let of_count: Vec<usize> = (0..used.len()).filter(|at| counts[*at] == count).collect();
            for part in of_count.chunks(TOGETHER) {
                let expressions = part.iter().map(|at| self.columns[*at].1.clone()).collect();
                let statement = select_of(expressions, count)?;
                let planned = session.plan_ast(statement, &[], "").await?;
                let (batches, _) = session.read_all(planned.plan, &[]).await?;
                for batch in &batches {
                    for (column, at) in part.iter().enumerate() {
                        values[*at].extend(column_values(batch, column)?);
                    }
                }
            }
        }
        let is_short = values
            .iter()
            .zip(&counts)
            .any(|(values, count)| values.len() != *count);
        if is_short {
            return Err(Refusal::new(
                code::INTERNAL_ERROR,
                "a default has not a value for each row",
            ));
        }
        let values = used.into_iter().zip(values);
        Ok(DefaultValues(
            values.map(|((at, uses), values)| (at, uses, values)).collect(),
        ))
    }
}
