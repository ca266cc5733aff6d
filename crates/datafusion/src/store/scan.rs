//! [`StoreScanExec`]: reads rows of a table as of a snapshot, all of them or ranges of an index.
//!
//! The whole table is cut into ranges of row numbers, one for each partition; ranges of an index are read in order by a single
//! one. A stream computes one batch when it is asked for the next, borrows nothing between two, and lets other tasks run where
//! it finds many rows that its snapshot does not see. Dropping it ends it.

use super::access::{Access, Ranges};
use super::columns::{Block, Columns};
use super::external;
use super::statistics::statistics;
use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use corun_store::{ScanPlace, Snapshot, Table, Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Row numbers looked at before other tasks may run, in batches: where most rows are gone, a batch takes many of them.
const SPARSE: usize = 8;
/// Row numbers of the smallest partition: below, a second thread costs more than it reads. Unmeasured.
const PARTITION_RIDS_MIN: u32 = 4096;

/// The scan of a table of a store.
#[derive(Debug)]
pub struct StoreScanExec {
    // Fixed.
    source: Arc<Source>,
    access: Arc<Access>,
    /// Row numbers of each partition, when all rows are read.
    parts: Vec<Range<u32>>,
    limit: Option<usize>,
    statistics: Statistics,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What all partitions read.
#[derive(Debug)]
struct Source {
    table: Table,
    moment: Arc<Snapshot>,
    schema: SchemaRef,
    /// Positions in the table, [`super::columns::NUMBER`] perhaps among them.
    columns: Vec<usize>,
}

impl StoreScanExec {
    /// A scan of some columns of a table, which `schema` describes. `limit` is the most rows a partition has to give.
    ///
    /// # Errors
    /// Columns the table does not have.
    pub(super) fn new(
        table: Table,
        moment: Arc<Snapshot>,
        schema: SchemaRef,
        columns: Vec<usize>,
        access: Access,
        partitions: usize,
        limit: Option<usize>,
    ) -> Result<Self> {
        Columns::new(table.layout(), &columns, 0)?;
        let (rows, parts, ordering) = match &access {
            // Rows the snapshot sees were there before it was taken.
            Access::Full => (table.rows(), split(table.rid_end(), partitions), Vec::new()),
            Access::Ranges(ranges) => (
                ranges.rows,
                Vec::new(),
                ordering(ranges, &table, &schema, &columns),
            ),
        };
        let count = parts.len().max(1);
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let rows = rows.min(limit.unwrap_or(usize::MAX).saturating_mul(count));
        let whole = matches!(access, Access::Full);
        let statistics = statistics(&table, &moment, &schema, &columns, rows, whole);
        let equivalence = match ordering.is_empty() {
            true => EquivalenceProperties::new(Arc::clone(&schema)),
            false => EquivalenceProperties::new_with_orderings(Arc::clone(&schema), [ordering]),
        };
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(count),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(StoreScanExec {
            source: Arc::new(Source {
                table,
                moment,
                schema,
                columns,
            }),
            access: Arc::new(access),
            parts,
            limit,
            statistics,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// Row numbers below `end` in even parts.
fn split(end: u32, partitions: usize) -> Vec<Range<u32>> {
    let most = (end / PARTITION_RIDS_MIN).max(1);
    let count = u32::try_from(partitions).unwrap_or(u32::MAX).clamp(1, most);
    let size = end.div_ceil(count).max(1);
    (0..count)
        .map(|part| {
            part.saturating_mul(size).min(end)..(part.saturating_add(1).saturating_mul(size)).min(end)
        })
        .collect()
}

/// The order a single range of an index gives: by its columns, as far as they are read and the index orders them as SQL does.
fn ordering(ranges: &Ranges, table: &Table, schema: &SchemaRef, columns: &[usize]) -> Vec<PhysicalSortExpr> {
    if ranges.ranges.len() != 1 {
        return Vec::new();
    }
    let sorted = |column: &usize| {
        let data_type = table.layout().data_type(*column);
        if data_type.is_float() || matches!(data_type, Type::FixedText { .. }) {
            return None;
        }
        let place = columns.iter().position(|read| read == column)?;
        // Its bytes compare otherwise.
        if matches!(schema.field(place).data_type(), DataType::Interval(_)) {
            return None;
        }
        let options = SortOptions {
            descending: false,
            nulls_first: true,
        };
        Some(PhysicalSortExpr::new(
            Arc::new(Column::new(schema.field(place).name(), place)),
            options,
        ))
    };
    ranges.index.columns().iter().map_while(sorted).collect()
}

impl DisplayAs for StoreScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source {
            table,
            moment,
            schema,
            ..
        } = self.source.as_ref();
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let how = match self.access.as_ref() {
            Access::Full => "full".to_owned(),
            Access::Ranges(ranges) => format!("index={}, range=[{}]", ranges.index.name(), ranges.text),
        };
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let (table, names, ts) = (table.name(), names.join(", "), moment.ts());
                write!(
                    f,
                    "StoreScan: table={table}, {how}, columns=[{names}], snapshot={ts}"
                )?;
                match self.limit {
                    Some(limit) => write!(f, ", limit={limit}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => writeln!(f, "table={}\n{how}", table.name()),
        }
    }
}

impl ExecutionPlan for StoreScanExec {
    fn name(&self) -> &str {
        "StoreScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("the scan of a store's table has no children"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let next = match (self.access.as_ref(), self.parts.get(partition)) {
            (Access::Full, Some(part)) => Next::Rids(part.clone()),
            (Access::Ranges(_), None) if partition == 0 => Next::Range(0, None),
            _ => {
                return internal_err!(
                    "partition {partition} of {} does not exist",
                    self.parts.len().max(1)
                );
            }
        };
        let reader = Reader {
            source: Arc::clone(&self.source),
            access: Arc::clone(&self.access),
            next,
            batch_rows: context.session_config().batch_size().max(1),
            left: self.limit.unwrap_or(usize::MAX),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = stream::try_unfold(reader, |mut reader| async move {
            let batch = reader.next().await?;
            Ok(batch.map(|batch| (batch, reader)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.source.schema),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = self.statistics.clone();
        let count = self.parts.len().max(1);
        if partition.is_some() && count > 1 {
            let part = |whole: usize| whole.div_ceil(count);
            statistics.num_rows = statistics.num_rows.map(part);
            statistics.total_byte_size = statistics.total_byte_size.map(part);
            for column in &mut statistics.column_statistics {
                column.byte_size = column.byte_size.map(part);
                column.distinct_count = column.distinct_count.map(part);
            }
        }
        Ok(Arc::new(statistics))
    }
}

/// What a partition reads next.
enum Next {
    /// These row numbers.
    Rids(Range<u32>),
    /// The range of this number, behind this place.
    Range(usize, Option<ScanPlace>),
}

/// One partition being read.
struct Reader {
    // Fixed.
    source: Arc<Source>,
    access: Arc<Access>,
    batch_rows: usize,
    metrics: BaselineMetrics,
    // Changing.
    next: Next,
    /// Rows that are still to be given.
    left: usize,
}

impl Reader {
    /// The next batch, or none at the end.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let wanted = self.batch_rows.min(self.left);
        if wanted == 0 {
            return Ok(None);
        }
        let source = Arc::clone(&self.source);
        let mut columns = Columns::new(source.table.layout(), &source.columns, wanted)?;
        while !self.read(&mut columns, wanted)? {
            tokio::task::yield_now().await;
        }
        if columns.rows() == 0 {
            return Ok(None);
        }
        self.left -= columns.rows();
        self.metrics.record_output(columns.rows());
        Ok(Some(columns.finish(&source.schema)?))
    }

    /// Reads on. Returns whether the batch is to be given: it is full, or nothing is left.
    fn read(&mut self, columns: &mut Columns, wanted: usize) -> Result<bool> {
        let compute = self.metrics.elapsed_compute().clone();
        let _timer = compute.timer();
        let Source { table, moment, .. } = self.source.as_ref();
        let mut block = Block::new();
        match &mut self.next {
            Next::Rids(rids) => {
                let most = u32::try_from(self.batch_rows.saturating_mul(SPARSE)).unwrap_or(u32::MAX);
                let end = rids.start.saturating_add(most).min(rids.end);
                let mut next = end;
                for found in moment.rows(table, rids.start..end).map_err(external)? {
                    block.push(found);
                    let full = columns.rows() + block.len() == wanted;
                    if block.is_full() || full {
                        columns.append(&block)?;
                        block.clear();
                    }
                    if full {
                        next = found.rid.0 + 1;
                        break;
                    }
                }
                columns.append(&block)?;
                rids.start = next;
                Ok(columns.rows() == wanted || rids.start >= rids.end)
            }
            Next::Range(number, place) => {
                let Access::Ranges(ranges) = self.access.as_ref() else {
                    return internal_err!("a scan of all rows has no ranges");
                };
                while let Some(range) = ranges.ranges.get(*number) {
                    let scan = match place {
                        Some(place) => moment.scan_after(&ranges.index, range, place),
                        None => moment.scan(&ranges.index, range, corun_store::Direction::Ascending),
                    };
                    let mut scan = scan.map_err(external)?;
                    let mut full = false;
                    while !full && let Some(found) = scan.next() {
                        block.push(found);
                        full = columns.rows() + block.len() == wanted;
                        if block.is_full() || full {
                            columns.append(&block)?;
                            block.clear();
                        }
                    }
                    if full {
                        *place = scan.place();
                        return Ok(true);
                    }
                    (*number, *place) = (*number + 1, None);
                }
                columns.append(&block)?;
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_row_numbers_once() {
        for (end, partitions) in [(0, 4), (1, 4), (4096, 2), (8192, 2), (100_000, 7), (u32::MAX, 3)] {
            let parts = split(end, partitions);
            assert!(!parts.is_empty() && parts.len() <= partitions);
            let mut next = 0;
            for part in &parts {
                assert_eq!(part.start, next, "{parts:?}");
                next = part.end;
            }
            assert_eq!(next, end, "{parts:?}");
        }
    }
}
