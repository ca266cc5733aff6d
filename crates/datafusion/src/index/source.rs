//! [`IndexedSource`]: the scan of an indexed table, for DataFusion's `DataSourceExec`.
//!
//! It is DataFusion's in-memory source, so that projections, limits and repartitioning are pushed into it as into any
//! other, with two differences: it can be asked for the table behind it, and its statistics count bytes once although all
//! batches are slices of one array. What it is not: it never reads an index.

use super::table::Indexed;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSource;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::{DisplayFormatType, Partitioning};
use std::fmt;
use std::sync::Arc;

/// A scan that knows the indexed table it reads.
#[derive(Debug, Clone)]
pub struct IndexedSource {
    memory: MemorySourceConfig,
    indexed: Arc<Indexed>,
}

impl IndexedSource {
    /// A scan of `indexed` as `memory` says it.
    pub fn new(memory: MemorySourceConfig, indexed: Arc<Indexed>) -> Self {
        IndexedSource { memory, indexed }
    }

    /// The table.
    pub fn indexed(&self) -> &Arc<Indexed> {
        &self.indexed
    }

    /// DataFusion's source of the same rows.
    pub fn memory(&self) -> &MemorySourceConfig {
        &self.memory
    }

    /// The table columns this scan gives, in order.
    pub fn columns(&self) -> Vec<usize> {
        match self.memory.projection() {
            Some(projection) => projection.clone(),
            None => (0..self.indexed.schema().fields().len()).collect(),
        }
    }

    /// What DataFusion made of the in-memory source, as a scan of the same table.
    fn rewrap(&self, source: Option<Arc<dyn DataSource>>) -> Option<Arc<dyn DataSource>> {
        let source = source?;
        let memory = source.downcast_ref::<MemorySourceConfig>()?.clone();
        Some(Arc::new(IndexedSource::new(memory, Arc::clone(&self.indexed))))
    }
}

impl DataSource for IndexedSource {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.memory.open(partition, context)
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.fmt_as(t, f)?;
        let schema = self.indexed.schema();
        let indexes = self.indexed.indexes().iter();
        let indexes = indexes.map(|index| format!("{}({})", index.name, schema.field(index.column).name()));
        let indexes = indexes.collect::<Vec<_>>().join(", ");
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, ", indexes=[{indexes}]"),
            DisplayFormatType::TreeRender => writeln!(f, "indexes={indexes}"),
        }
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let memory = &self.memory;
        let source = memory.repartitioned(target_partitions, repartition_file_min_size, output_ordering)?;
        Ok(self.rewrap(source))
    }

    fn output_partitioning(&self) -> Partitioning {
        self.memory.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.memory.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.memory.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::clone(self.memory.partition_statistics(partition)?.as_ref());
        let columns = self.columns();
        let arrays = columns
            .iter()
            .filter_map(|column| self.indexed.columns()[*column].as_ref());
        let bytes: usize = arrays.map(|array| array.get_array_memory_size()).sum();
        let all = self.indexed.rows().max(1);
        let rows = statistics.num_rows.get_value().copied().unwrap_or(all);
        statistics.total_byte_size = Precision::Inexact((bytes as f64 * rows as f64 / all as f64) as usize);
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        self.rewrap(self.memory.with_fetch(limit))
    }

    fn fetch(&self) -> Option<usize> {
        self.memory.fetch()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(self.rewrap(self.memory.try_swapping_with_projection(projection)?))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.memory.apply_expressions(f)
    }
}
