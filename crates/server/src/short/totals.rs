//! Aggregates over the rows that a short statement finds: few, so that their arguments are kept until all are there.
//!
//! A total stands behind the parameters for what is computed from it. What it is not: grouped; that has no short way.

use super::expression::{At, Expression, Source};
use super::key;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;

/// The functions that there are here: what they say depends on no order.
const FUNCTIONS: &[&str] = &["count", "sum", "avg", "min", "max", "bool_and", "bool_or"];

/// One aggregate.
#[derive(Debug)]
pub(super) struct Total {
    function: Arc<AggregateFunctionExpr>,
    arguments: Vec<(Source, DataType)>,
}

/// Whether an aggregate can be one.
pub(super) fn is_known(of: &AggregateFunction) -> bool {
    let parameters = &of.params;
    FUNCTIONS.contains(&of.func.name())
        && parameters.filter.is_none()
        && parameters.order_by.is_empty()
        && parameters.null_treatment.is_none()
}

impl Total {
    /// Plans one, for arguments of these types.
    ///
    /// # Errors
    /// What cannot be planned.
    pub(super) fn plan(of: &AggregateFunction, arguments: Vec<(Source, DataType)>) -> Result<Total> {
        let named = arguments.iter().enumerate();
        let fields = named.map(|(at, (_, of))| Field::new(format!("a{at}"), of.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = (0..arguments.len())
            .map(|at| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(&format!("a{at}"), at)) });
        let builder = AggregateExprBuilder::new(Arc::clone(&of.func), columns.collect())
            .schema(schema)
            .alias("t");
        let function = match of.params.distinct {
            true => builder.distinct().build()?,
            false => builder.build()?,
        };
        Ok(Total {
            function: Arc::new(function),
            arguments,
        })
    }

    fn value(&self, rows: usize, arguments: &[Vec<ScalarValue>]) -> Result<ScalarValue> {
        let mut accumulator = self.function.create_accumulator()?;
        if rows > 0 {
            let arrays = arguments
                .iter()
                .map(|values| ScalarValue::iter_to_array(values.iter().cloned()));
            accumulator.update_batch(&arrays.collect::<Result<Vec<ArrayRef>>>()?)?;
        }
        accumulator.evaluate()
    }
}

/// The arguments of all totals, from rows that were found.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    rows: usize,
    /// Of each total, of each of its arguments, the values.
    values: Vec<Vec<Vec<ScalarValue>>>,
    bytes: usize,
}

impl Arguments {
    /// Bytes of the values, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes those of a row.
    ///
    /// # Errors
    /// What an expression fails with.
    pub(super) fn add(&mut self, totals: &[Total], at: At<'_>, parameters: &[ScalarValue]) -> Result<()> {
        self.values.resize_with(totals.len(), || Vec::with_capacity(1));
        self.rows += 1;
        for (total, values) in totals.iter().zip(&mut self.values) {
            values.resize_with(total.arguments.len(), Vec::new);
            for ((source, of), values) in total.arguments.iter().zip(values) {
                let value = scalar(source, of, at, parameters)?;
                self.bytes += value.size();
                values.push(value);
            }
        }
        Ok(())
    }

    /// The parameters, as many as `first`, and the totals behind them.
    ///
    /// # Errors
    /// A total that is out of range.
    pub(super) fn behind(
        &self,
        totals: &[Total],
        parameters: &[ScalarValue],
        first: usize,
    ) -> Result<Vec<ScalarValue>> {
        let mut all = parameters[..first.min(parameters.len())].to_vec();
        all.resize(first, ScalarValue::Null);
        for (at, total) in totals.iter().enumerate() {
            let values = self.values.get(at).map(Vec::as_slice).unwrap_or_default();
            all.push(total.value(self.rows, values)?);
        }
        Ok(all)
    }
}

/// A value of a row.
///
/// # Errors
/// What an expression fails with.
pub(super) fn scalar(
    source: &Source,
    of: &DataType,
    at: At<'_>,
    parameters: &[ScalarValue],
) -> Result<ScalarValue> {
    match source {
        Source::Column(column) => match key::scalar_of(at.row, *column, of) {
            Some(value) => Ok(value),
            None => datafusion::common::internal_err!("a column of a short statement is no {of}"),
        },
        Source::RowNumber => Ok(ScalarValue::UInt32(Some(at.rid.0))),
        Source::Computed(expression) => Expression::evaluate(expression, Some(at), parameters),
        source => source.of_parameters(parameters),
    }
}
