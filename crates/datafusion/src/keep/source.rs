//! The source of a Parquet scan that asks for kept columns first.

use super::columns::{File, KeptColumns};
use super::file::{FilePlanner, Scan};
use crate::caches::topology;
use crate::options::{CorunOptions, JoinChoice};
use arrow::datatypes::SchemaRef;
use corun_model::units::Bytes;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::DataSourceExec;
use datafusion::datasource::physical_plan::{
    FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use datafusion_datasource::morsel::{MorselPlanner, Morselizer};
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// Of the machine's memory, or of what a control group allows of it, columns may have one over so many.
const MEMORY_SHARE: u64 = 8;

/// The metric of a scan: columns of row groups that it did not have to read.
pub(crate) const COLUMNS_TAKEN: &str = "columns_taken";

/// Lets the Parquet scans of a plan take columns that are kept, and keep them, as the session's options say.
pub(crate) fn keep_columns(
    plan: Arc<dyn ExecutionPlan>,
    columns: &Arc<KeptColumns>,
    options: &CorunOptions,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    if options.keep_columns == JoinChoice::Off {
        return Ok(plan);
    }
    let pool = &session.runtime_env().memory_pool;
    columns.resize(budget(options), pool);
    let keep = Keep {
        columns: Arc::clone(columns),
        pool: Arc::clone(pool),
        from_first: options.keep_columns == JoinChoice::On,
    };
    plan.transform_down(|node| {
        let Some(scan) = node.downcast_ref::<DataSourceExec>() else {
            return Ok(Transformed::no(node));
        };
        let files = scan.data_source().downcast_ref::<FileScanConfig>();
        let Some(config) = files.and_then(|files| kept(files, &keep)) else {
            return Ok(Transformed::no(node));
        };
        let scan = scan.clone().with_data_source(Arc::new(config));
        Ok(Transformed::new(
            Arc::new(scan) as _,
            true,
            TreeNodeRecursion::Jump,
        ))
    })
    .data()
}

/// Bytes that columns may have.
fn budget(options: &CorunOptions) -> usize {
    if options.kept_columns_bytes > 0 {
        return options.kept_columns_bytes;
    }
    let memory = &topology().memory;
    let bytes = memory.limit.or(memory.total).unwrap_or(Bytes(0));
    (bytes.0 / MEMORY_SHARE) as usize
}

/// The scan with a source that keeps columns, where that is possible: all it gives are columns of files and folders, in the order of the
/// files, without a limit, and conditions are not evaluated within the scan.
fn kept(config: &FileScanConfig, keep: &Keep) -> Option<FileScanConfig> {
    let source = config.file_source.downcast_ref::<ParquetSource>()?;
    let schema = source.table_schema();
    let outputs = source.projection()?.iter().map(|output| {
        let column = output.expr.downcast_ref::<Column>()?;
        (column.name() == output.alias).then_some(column.index())
    });
    let outputs: Vec<usize> = outputs.collect::<Option<_>>()?;
    let file_columns = schema.file_schema().fields().len();
    // It says so nowhere but in what it shows.
    let extra = Extra(&source.with_predicate(lit(true))).to_string();
    let in_order = !extra.contains(", sort_order_for_reorder=") && !extra.contains(", reverse_row_groups=");
    let possible = outputs.iter().any(|index| *index < file_columns)
        && schema.virtual_columns().is_empty()
        && config.limit.is_none()
        && config.expr_adapter_factory.is_none()
        && source.parquet_file_reader_factory().is_some()
        && !source.table_parquet_options().global.pushdown_filters
        && in_order;
    possible.then(|| {
        let source = KeptSource {
            inner: source.clone(),
            outputs,
            keep: keep.clone(),
            batch_size: config.batch_size,
        };
        let builder = FileScanConfigBuilder::from(config.clone());
        builder.with_source(Arc::new(source)).build()
    })
}

/// What DataFusion shows of a source.
struct Extra<'s>(&'s ParquetSource);

impl fmt::Display for Extra<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt_extra(DisplayFormatType::Default, f)
    }
}

/// Where columns are kept, and how.
#[derive(Debug, Clone)]
pub(super) struct Keep {
    pub(super) columns: Arc<KeptColumns>,
    pub(super) pool: Arc<dyn MemoryPool>,
    pub(super) from_first: bool,
}

/// DataFusion's Parquet source behind columns that are kept.
#[derive(Debug, Clone)]
struct KeptSource {
    inner: ParquetSource,
    /// The table's column for each column that it gives.
    outputs: Vec<usize>,
    keep: Keep,
    batch_size: Option<usize>,
}

impl FileSource for KeptSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner
            .create_file_opener(object_store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let stock = self
            .inner
            .create_morselizer(Arc::clone(&object_store), base_config, partition)?;
        let (Some(batch_size), Some(readers)) = (self.batch_size, self.inner.parquet_file_reader_factory())
        else {
            return Ok(stock);
        };
        let schema = self.inner.table_schema();
        let file_columns = schema.file_schema().fields().len();
        let outputs = self.outputs.clone();
        let mut needed: Vec<usize> = outputs.iter().copied().filter(|at| *at < file_columns).collect();
        needed.sort_unstable();
        needed.dedup();
        let projected = schema.table_schema().project(&outputs)?;
        let metrics = self.inner.metrics();
        let scan = Scan {
            stock: Arc::from(stock),
            without_conditions: self.inner.with_predicate(lit(true)),
            store: object_store,
            store_url: base_config.object_store_url.clone(),
            readers: Arc::clone(readers),
            predicate: self.inner.filter(),
            table: schema.clone(),
            needed,
            outputs,
            schema: Arc::new(projected) as SchemaRef,
            options: self.inner.table_parquet_options().global.clone(),
            batch_size,
            partition,
            keep: self.keep.clone(),
            taken: MetricBuilder::new(metrics).counter(COLUMNS_TAKEN, partition),
            kept: MetricBuilder::new(metrics).counter("columns_kept", partition),
        };
        Ok(Box::new(KeptMorselizer { scan: Arc::new(scan) }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        let inner = self.inner.with_batch_size(batch_size);
        match inner.downcast_ref::<ParquetSource>() {
            Some(inner) => Arc::new(KeptSource {
                inner: inner.clone(),
                batch_size: Some(batch_size),
                ..self.clone()
            }),
            None => inner,
        }
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(t, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        self.inner.repartitioned(
            target_partitions,
            repartition_file_min_size,
            output_ordering,
            config,
        )
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    /// What a later rule of DataFusion's or somebody else's pushes down goes to a source without kept columns.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        self.inner.try_pushdown_filters(filters, config)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        self.inner.try_pushdown_projection(projection)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

/// Plans the files of a partition.
struct KeptMorselizer {
    scan: Arc<Scan>,
}

impl Debug for KeptMorselizer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptMorselizer").finish_non_exhaustive()
    }
}

impl Morselizer for KeptMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let chosen_elsewhere = !file.extensions.is_empty();
        if chosen_elsewhere {
            return self.scan.stock.plan_file(file);
        }
        let number = self.scan.keep.columns.file(File {
            store: self.scan.store_url.as_str().to_owned(),
            version: file.object_meta.clone(),
            schema: Arc::clone(self.scan.table.file_schema()),
            batch_size: self.scan.batch_size,
        });
        Ok(Box::new(FilePlanner::new(Arc::clone(&self.scan), file, number)))
    }
}
