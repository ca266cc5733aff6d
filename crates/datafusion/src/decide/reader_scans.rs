//! What [`Reader`] makes of scans and filters that cannot be sampled: statistics, or else rules of thumb.

use super::leaf::KeyNumbers;
use super::reader::{Reader, Walked};
use super::relation::{Column, Relation, columns_of};
use crate::decide::decision::Source;
use crate::join::keys::{integer_codes, is_integer_like};
use crate::sides::filtered;
use corun_model::operators::cardinality::Cardinality;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext, displayable};
use std::sync::Arc;

/// Rows taken for an input nobody knows anything about.
const ROWS_UNKNOWN: f64 = 1000.0;

impl Reader<'_> {
    /// A scan of something that is not in memory.
    pub fn other_scan(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Walked {
        let statistics = StatisticsContext::new()
            .compute(plan.as_ref(), &StatisticsArgs::new())
            .ok();
        let statistics = statistics.as_deref();
        let (known, from) = match statistics.map(|statistics| &statistics.num_rows) {
            Some(Precision::Exact(rows)) => (*rows as f64, Source::Exact),
            Some(Precision::Inexact(rows)) => (*rows as f64, Source::Statistics),
            _ => (
                plan.fetch().map_or(ROWS_UNKNOWN, |fetch| fetch as f64),
                Source::Guess,
            ),
        };
        let columns = columns_of(&plan.schema())
            .into_iter()
            .enumerate()
            .map(|(index, column)| {
                let data_type = plan.schema().field(index).data_type().clone();
                match statistics.and_then(|statistics| statistics.column_statistics.get(index)) {
                    Some(found) => of_statistics(column, found, &data_type, known),
                    None => column,
                }
            });
        let relation = Relation {
            rows: Cardinality::of_table(known),
            from,
            columns: columns.collect(),
            tables: vec![self.know.names.of(None, &plan.schema())],
            fingerprint: displayable(plan.as_ref()).one_line().to_string(),
        };
        self.scan(known, relation)
    }

    /// What a filter leaves that could not be sampled.
    pub fn filtered(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        filter: &FilterExec,
        mut relation: Relation,
    ) -> Relation {
        let predicate = filter.predicate();
        relation.fingerprint.push_str(&format!(" where {predicate}"));
        // The interval analysis of statistics knows comparisons of numbers only.
        let analysed =
            relation.from <= Source::Statistics && check_support(predicate, &filter.input().schema());
        let statistics = analysed
            .then(|| {
                StatisticsContext::new()
                    .compute(plan.as_ref(), &StatisticsArgs::new())
                    .ok()
            })
            .flatten();
        match statistics
            .as_deref()
            .and_then(|found: &Statistics| found.num_rows.get_value())
        {
            Some(rows) => {
                relation.rows.rows = *rows as f64;
                relation.from = Source::Statistics;
            }
            None => {
                relation.rows = filtered(relation.rows, filter);
                relation.from = Source::Guess;
            }
        }
        if let Some(projection) = filter.projection().as_ref() {
            relation.columns = projection
                .iter()
                .map(|index| relation.columns[*index].clone())
                .collect();
        }
        self.corrected(relation)
    }
}

/// A column with what its table's statistics say.
fn of_statistics(
    column: Column,
    statistics: &ColumnStatistics,
    data_type: &arrow::datatypes::DataType,
    table_rows: f64,
) -> Column {
    let width = statistics
        .byte_size
        .get_value()
        .map(|bytes| *bytes as f64 / table_rows.max(1.0));
    let code = |value: &Precision<datafusion::common::ScalarValue>| {
        let array = value.get_value()?.to_array().ok()?;
        let known = is_integer_like(data_type) && array.data_type() == data_type && array.is_valid(0);
        known.then(|| integer_codes(&array).get(0))
    };
    let bounds = code(&statistics.min_value).zip(code(&statistics.max_value));
    let distinct = statistics.distinct_count.get_value().map(|count| *count as f64);
    // Keys that repeat less than once for two codes of their range are taken for unique.
    let by_range = bounds.map(|(min, max)| ((max - min) as f64 + 1.0).min(table_rows));
    let key = distinct
        .or(by_range)
        .map(|distinct| KeyNumbers { bounds, distinct });
    column.with_statistics(width, key)
}
