//! Expressions without tables, as queries that the session plans and reads.

use super::cells::placeholder;
use crate::session::{ClientSession, cells_as, columns_of, plain_columns};
use crate::write::select::{push, select, statement};
use arrow::array::RecordBatch;
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Kind, Type, Value};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, ValueWithSpan, Visit, Visitor};
use std::ops::ControlFlow;

/// Expressions of one query at most: what the planner takes for each grows with their number.
pub(super) const TOGETHER: usize = 128;

/// A plan of one row of expressions.
#[derive(Debug)]
pub(super) struct OneRow {
    plan: LogicalPlan,
}

impl OneRow {
    /// Plans expressions. Types of parameters that it finds are added to `types`.
    pub(super) async fn plan(
        session: &ClientSession,
        expressions: Vec<Expr>,
        types: &mut Vec<u32>,
        text: &str,
    ) -> Result<OneRow, Refusal> {
        let used = parameters_in(&expressions);
        let mut items = Vec::new();
        for expression in expressions {
            push(&mut items, expression);
        }
        let statement = statement(None, select(items, Vec::new(), None));
        let planned = session.plan_ast(statement, types, text).await?;
        add_types(types, &planned.parameters, &used);
        if let LogicalPlan::Projection(projection) = &planned.plan {
            match projection.input.as_ref() {
                LogicalPlan::Aggregate(_) => {
                    return Err(Refusal::new(
                        "42803",
                        "aggregate functions are not allowed in VALUES",
                    ));
                }
                LogicalPlan::Window(_) => {
                    return Err(Refusal::new(
                        "42P20",
                        "window functions are not allowed in VALUES",
                    ));
                }
                _ => {}
            }
        }
        Ok(OneRow { plan: planned.plan })
    }

    /// Their types.
    pub(super) fn types(&self) -> Vec<Type> {
        let columns = columns_of(self.plan.schema().as_arrow());
        columns.iter().map(|column| column.of).collect()
    }

    /// Their values.
    ///
    /// # Errors
    /// Whatever fails.
    pub(super) async fn values(
        &self,
        session: &mut ClientSession,
        parameters: &[ScalarValue],
    ) -> Result<Vec<Option<Value<'static>>>, Refusal> {
        let (batches, _) = session.read_all(self.plan.clone(), parameters).await?;
        let batch = batches.iter().find(|batch| batch.num_rows() > 0);
        let batch = batch.ok_or_else(|| Refusal::new(code::INTERNAL_ERROR, "an expression has no value"))?;
        (0..batch.num_columns())
            .map(|at| Ok(column_values(batch, at)?.swap_remove(0)))
            .collect()
    }
}

/// All values of a column.
///
/// # Errors
/// A type that has no values here.
pub(super) fn column_values(batch: &RecordBatch, at: usize) -> Result<Vec<Option<Value<'static>>>, Refusal> {
    let kind = columns_of(batch.schema_ref())[at].of.kind;
    let array = plain_column(batch, at)?;
    let cells = cells_as(array.as_ref(), kind)?;
    (0..batch.num_rows())
        .map(|row| Ok(cells(row)?.map(Value::into_owned)))
        .collect()
}

/// A column without dictionaries and runs.
///
/// # Errors
/// None that is known.
pub(super) fn plain_column(batch: &RecordBatch, at: usize) -> Result<arrow::array::ArrayRef, Refusal> {
    let one = batch
        .project(&[at])
        .map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))?;
    let mut columns = plain_columns(&one)?;
    Ok(columns.swap_remove(0))
}

/// Fills in what the planner has found of types of parameters: of those that it has seen.
pub(super) fn add_types(types: &mut Vec<u32>, found: &[Type], used: &[usize]) {
    for at in used {
        let Some(of) = found.get(*at) else {
            continue;
        };
        if types.len() <= *at {
            types.resize(*at + 1, 0);
        }
        if matches!(types[*at], 0 | 705) {
            types[*at] = of.oid();
        }
    }
}

/// Types of parameters as far as they are known.
pub(super) fn known_types(types: &[u32]) -> Vec<Type> {
    let unknown = Type::single(Kind::Unknown);
    types
        .iter()
        .map(|oid| Type::of(*oid).unwrap_or(unknown))
        .collect()
}

/// The positions of the parameters that a part of a statement has.
pub(super) fn parameters_in(of: &impl Visit) -> Vec<usize> {
    struct Found(Vec<usize>);
    impl Visitor for Found {
        type Break = ();

        fn pre_visit_expr(&mut self, of: &Expr) -> ControlFlow<()> {
            self.0.extend(placeholder(of));
            ControlFlow::Continue(())
        }

        fn pre_visit_value(&mut self, of: &ValueWithSpan) -> ControlFlow<()> {
            self.0.extend(placeholder(&Expr::Value(of.clone())));
            ControlFlow::Continue(())
        }
    }
    let mut found = Found(Vec::new());
    _ = of.visit(&mut found);
    found.0.sort_unstable();
    found.0.dedup();
    found.0
}
