//! [`Returning`]: the RETURNING list of a statement, and the result that it makes of the rows written.
//!
//! Order of calls: [`Returning::plan`], then [`Returning::rows`] for each batch of rows: new ones, or, of DELETE, old ones. UPDATE and DELETE, whose
//! lists may ask for columns of other relations, have [`Chosen::plan`] and [`Listed::rows`].

use super::expressions::Expressions;
use super::rows::{self, FoundRow};
use super::select::{Target, alone, push, select, statement};
use crate::session::{ClientSession, columns_of};
use arrow::array::{ArrayRef, RecordBatch};
use corun_wire::error::Refusal;
use corun_wire::server::Column as ResultColumn;
use corun_wire::values::Type;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
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

/// RETURNING of a statement that reads other relations, too.
#[derive(Debug)]
pub(super) struct Listed {
    list: Returning,
    /// Where the columns of the other relations are in the SELECT.
    carried: Vec<Option<usize>>,
}

impl Listed {
    pub(super) fn columns(&self) -> Vec<ResultColumn> {
        self.list.columns()
    }

    /// The result of rows that were found there.
    pub(super) fn rows(
        &self,
        rows: RecordBatch,
        batches: &[RecordBatch],
        found: &[FoundRow],
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch, Refusal> {
        let count = rows.num_rows();
        let columns = rows::widened(rows, batches, found, &self.carried)?;
        self.list.of_columns(&columns, count, parameters)
    }
}

/// Which rows UPDATE and DELETE choose, and what they return of them.
pub(super) struct Chosen<'a> {
    pub(super) with: Option<&'a With>,
    /// FROM or USING.
    pub(super) others: &'a [TableWithJoins],
    pub(super) selection: Option<Expr>,
    pub(super) returning: Option<&'a [SelectItem]>,
}

/// The same, planned.
pub(super) struct PlannedChoice {
    pub(super) plan: LogicalPlan,
    pub(super) parameters: Vec<Type>,
    pub(super) returning: Option<Listed>,
}

impl Chosen<'_> {
    /// Plans the SELECT of such items; those that RETURNING asks of other relations go to the end of them.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub(super) async fn plan(
        self,
        session: &ClientSession,
        target: &Target,
        items: &mut Vec<SelectItem>,
        (types, text): (&[u32], &str),
    ) -> Result<PlannedChoice, Refusal> {
        let own = items.len();
        let given = types.iter();
        let given: Vec<Type> = given
            .map_while(|oid| Type::of(*oid).filter(|_| *oid != 705))
            .collect();
        let mut returning = self.listed(session, target, items, (&given, text)).await?;
        let mut from = vec![alone(target.relation())];
        from.extend_from_slice(self.others);
        let select = select(items.clone(), from, self.selection.clone());
        let planned = session
            .plan_ast(statement(self.with.cloned(), select), types, text)
            .await?;
        let mut parameters = planned.parameters;
        if let Some(first) = &returning
            && !first.list.parameters().is_empty()
        {
            // What the SELECT says of types of parameters is for the list, too.
            if !parameters.is_empty() {
                let mut again = items[..own].to_vec();
                returning = self
                    .listed(session, target, &mut again, (&parameters, text))
                    .await?;
            }
            let of_list = returning.as_ref().map_or(&[][..], |of| of.list.parameters());
            parameters.extend(of_list.iter().skip(parameters.len()));
        }
        Ok(PlannedChoice {
            plan: planned.plan,
            parameters,
            returning,
        })
    }

    async fn listed(
        &self,
        session: &ClientSession,
        target: &Target,
        items: &mut Vec<SelectItem>,
        (types, text): (&[Type], &str),
    ) -> Result<Option<Listed>, Refusal> {
        let Some(list) = self.returning else {
            return Ok(None);
        };
        let mut from = vec![alone(target.relation())];
        from.extend_from_slice(self.others);
        let with = self.with.filter(|_| !self.others.is_empty()).cloned();
        let list = Returning::plan(session, with, list, from, types, text).await?;
        let carried = list.carry(target.info.columns.len() + 1, items);
        Ok(Some(Listed { list, carried }))
    }
}
