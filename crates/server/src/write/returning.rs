//! [`Returning`]: the RETURNING list of a statement, and the result that it makes of the rows written.
//!
//! Order of calls: [`Returning::plan`], then [`Returning::rows`] for each batch of rows: new ones, or, of DELETE, old ones.

use super::expressions::Expressions;
use super::select::{push, select};
use crate::session::{ClientSession, columns_of};
use arrow::array::{ArrayRef, RecordBatch};
use corun_wire::error::Refusal;
use corun_wire::server::Column as ResultColumn;
use corun_wire::values::Type;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, TableWithJoins, With};

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

    /// Of each column of FROM or USING, which are behind those of a table with so many (its row numbers counted), the position in the SELECT
    /// list, to which those go that the list asks for.
    pub(super) fn carry(&self, own: usize, items: &mut Vec<SelectItem>) -> Vec<Option<usize>> {
        let relations = self.expressions.relations().enumerate().skip(own);
        let carried = relations.map(|(at, (qualifier, field))| {
            let asked = self.expressions.asks_for(at);
            let name = Ident::with_quote('"', field.name());
            asked.then(|| match qualifier {
                Some(of) => {
                    let table = Ident::with_quote('"', of.table());
                    push(items, Expr::CompoundIdentifier(vec![table, name]))
                }
                None => push(items, Expr::Identifier(name)),
            })
        });
        carried.collect()
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

    /// The same of columns, so many rows of them.
    ///
    /// # Errors
    /// As there.
    pub(super) fn of_columns(
        &self,
        columns: &[ArrayRef],
        count: usize,
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch, Refusal> {
        self.expressions.evaluate_columns(columns, count, parameters)
    }
}
