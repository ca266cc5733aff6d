//! [`Returning`]: the RETURNING list of a statement, and the result that it makes of the rows written.
//!
//! Order of calls: [`Returning::plan`], then [`Returning::rows`] for each batch of rows: new ones, or, of DELETE, old ones.

use super::expressions::Expressions;
use super::select::select;
use crate::session::{ClientSession, columns_of};
use arrow::array::RecordBatch;
use corun_wire::error::Refusal;
use corun_wire::server::Column as ResultColumn;
use corun_wire::values::Type;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{SelectItem, TableWithJoins, With};

/// See [`self`].
#[derive(Debug)]
pub(super) struct Returning {
    expressions: Expressions,
}

impl Returning {
    /// Plans a list over the relations of `from`: first the table that is written, with its row numbers, then those of FROM or USING.
    ///
    /// # Errors
    /// Whatever is wrong with it; subqueries.
    pub(super) async fn plan(
        session: &ClientSession,
        with: Option<With>,
        items: &[SelectItem],
        from: Vec<TableWithJoins>,
        parameters: &[Type],
        text: &str,
    ) -> Result<Returning, Refusal> {
        let select = select(items.to_vec(), from, None);
        let expressions = Expressions::plan_with(session, with, select, parameters, text).await?;
        Ok(Returning { expressions })
    }

    /// What clients are told of the result.
    pub(super) fn columns(&self) -> Vec<ResultColumn> {
        columns_of(self.expressions.schema())
    }

    /// The types of the statement's parameters, as far as the list tells.
    pub(super) fn parameters(&self) -> &[Type] {
        self.expressions.parameters()
    }

    /// The list itself.
    pub(super) fn expressions(&self) -> &Expressions {
        &self.expressions
    }

    /// The result of rows, which have all columns of the relations, in order ([`super::rows::batch`]).
    ///
    /// # Errors
    /// What speaks against a value.
    pub(super) fn rows(
        &self,
        rows: &RecordBatch,
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch, Refusal> {
        self.expressions.evaluate(rows, parameters)
    }
}
