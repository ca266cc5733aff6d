//! [`Expression`]: a physical expression over some columns of one row and some parameters, and [`Source`], where a value comes from.
//!
//! Parameters are columns of the batch beside those of the row: so an expression is planned once, whatever their values are.
//! What it is not: a way to look at many rows; each evaluation makes a batch of one.

use super::key;
use super::whole::{Whole, whole};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use corun_store::{Found, Rid, RowRef, Value};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use std::sync::Arc;

/// The row that is looked at.
#[derive(Clone, Copy)]
pub(super) struct At<'r> {
    pub(super) rid: Rid,
    pub(super) row: RowRef<'r>,
}

impl<'r> At<'r> {
    pub(super) fn of(found: Found<'r>) -> Self {
        At {
            rid: found.rid,
            row: found.row,
        }
    }
}

/// What an expression is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// A column of the table.
    Column(usize),
    /// The row's number.
    RowNumber,
    /// A parameter, from 0.
    Parameter(usize),
}

/// See [`self`].
#[derive(Debug, Clone)]
pub(super) struct Expression {
    inputs: Vec<Input>,
    schema: SchemaRef,
    physical: Arc<dyn PhysicalExpr>,
    /// The same, where it is as simple.
    whole: Option<Whole>,
}

impl Expression {
    /// Plans an expression over these inputs, which are the columns of `schema` in their order.
    ///
    /// # Errors
    /// What cannot be planned.
    pub(super) fn plan(
        expression: &Expr,
        inputs: Vec<Input>,
        schema: &DFSchema,
        properties: &ExecutionProps,
    ) -> Result<Expression> {
        let physical = create_physical_expr(
            expression,
            schema,
            properties,
            &PhysicalPlanningContext::default(),
        )?;
        let schema = Arc::new(Schema::clone(schema.as_arrow()));
        let whole = Whole::of(physical.as_ref(), &inputs, &schema).filter(Whole::is_computed);
        Ok(Expression {
            inputs,
            schema,
            physical,
            whole,
        })
    }

    /// Its value. Without a row, it must need none.
    ///
    /// # Errors
    /// What the expression fails with.
    pub(super) fn evaluate(&self, at: Option<At<'_>>, parameters: &[ScalarValue]) -> Result<ScalarValue> {
        if let Some(whole) = &self.whole
            && let Some(value) = whole.value(&|input| number(input, at, parameters))
        {
            return Ok(value);
        }
        let arrays = self.inputs.iter().zip(self.schema.fields());
        let arrays = arrays.map(|(input, field)| self.input(*input, field.data_type(), at, parameters));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &one)?;
        match self.physical.evaluate(&batch)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
        }
    }

    fn input(
        &self,
        input: Input,
        of: &DataType,
        at: Option<At<'_>>,
        parameters: &[ScalarValue],
    ) -> Result<ArrayRef> {
        let missing = || {
            datafusion::common::internal_datafusion_err!(
                "an expression of a short statement has no {input:?}"
            )
        };
        match input {
            Input::Parameter(number) => parameters.get(number).ok_or_else(missing)?.to_array(),
            Input::RowNumber => {
                let at = at.ok_or_else(missing)?;
                ScalarValue::UInt32(Some(at.rid.0)).to_array()
            }
            Input::Column(column) => {
                let row = at.ok_or_else(missing)?.row;
                key::scalar_of(row, column, of).ok_or_else(missing)?.to_array()
            }
        }
    }
}

/// A whole number, or NULL; `None`: it is none.
fn number(input: Input, at: Option<At<'_>>, parameters: &[ScalarValue]) -> Option<Option<i64>> {
    match input {
        Input::Parameter(number) => whole(parameters.get(number)?),
        Input::RowNumber => None,
        Input::Column(column) => {
            let row = at?.row;
            match row.is_null(column) {
                true => Some(None),
                false => match row.value(column) {
                    Value::Int(value) => Some(Some(value)),
                    _ => None,
                },
            }
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A field as it is.
    Column(usize),
    RowNumber,
    Parameter(usize),
    Constant(ScalarValue),
    Computed(Expression),
}

impl Source {
    /// The value of what needs no row.
    ///
    /// # Errors
    /// What its expression fails with.
    pub(super) fn of_parameters(&self, parameters: &[ScalarValue]) -> Result<ScalarValue> {
        match self {
            Source::Parameter(number) => Ok(parameters.get(*number).cloned().unwrap_or(ScalarValue::Null)),
            Source::Constant(value) => Ok(value.clone()),
            Source::Computed(expression) => expression.evaluate(None, parameters),
            Source::Column(_) | Source::RowNumber => {
                datafusion::common::internal_err!("a value of a short statement needs a row")
            }
        }
    }
}
