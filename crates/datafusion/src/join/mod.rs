//! `CorunJoinExec`: the hash join that respects the caches, in place of DataFusion's `HashJoinExec`.
//!
//! ```text
//!            left (build)                      right (probe)
//!   n partitions, read in parallel      m partitions, streamed as they are
//!                |                                 |
//!          build::build  ----BuildSide (one, shared)----> stream::Prober, one a partition
//! ```
//!
//! *Shared* builds (the usual case) need no repartitioning of either input: all left partitions go into one table that
//! all right partitions probe. *Partitioned* builds keep DataFusion's hash partitioning, one table a partition, where an
//! operator above relies on it or the left side is emitted at the end. The node keeps the stock join it replaces: for
//! its schema, properties and statistics. Where a table does not fit the memory pool, both sides go to files ([`spilled`]),
//! or, where the order of rows matters, the stock join runs.

mod ahead;
pub(crate) mod align;
mod blocks;
pub(crate) mod build;
mod collect;
mod files;
pub(crate) mod keys;
pub(crate) mod lookup;
pub(crate) mod output;
mod prefetch;
mod spilled;
pub(crate) mod stream;
pub(crate) mod verify;

use crate::prefilter::{self, TableId};
use crate::{CorunOptions, stock_line};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use build::{Build, BuildMetrics, BuildSpec, Overflow};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, Statistics, StatisticsArgs,
};
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::{StreamExt, TryStreamExt};
use output::Assembler;
use parking_lot::Mutex;
use spilled::SpilledJoin;
use std::fmt;
use std::sync::{Arc, OnceLock};
use stream::{ProbeMetrics, ProbeSpec, Prober};

/// The metric of bytes that probes come back to. It is written when a table is finished.
pub const REUSED_BYTES: &str = "build_reused_bytes";

/// How many tables a join builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildMode {
    /// One table for all partitions.
    Shared,
    /// One table for each pair of hash partitions.
    Partitioned,
}

/// What probe streams wait for.
#[derive(Clone)]
enum Ready {
    Table(Arc<build::BuildSide>),
    /// Both sides in files.
    Spilled(Arc<SpilledJoin>),
    /// The stock join, over the build side's batches; its partition when that is not the stream's own.
    Stock(Arc<dyn ExecutionPlan>, Option<usize>),
}

/// A build in progress or finished, awaited by every probe stream that needs it.
type BuildFuture = Shared<BoxFuture<'static, Result<Ready, Arc<DataFusionError>>>>;

/// A hash join over corun's table. Made by [`crate::rule::CacheConsciousJoins`].
pub struct CorunJoinExec {
    /// The join this one stands for, executable over the same children.
    stock: Arc<HashJoinExec>,
    left: Arc<dyn ExecutionPlan>,
    mode: BuildMode,
    dynamic_filter: Option<Arc<DynamicFilterPhysicalExpr>>,
    metrics: ExecutionPlanMetricsSet,
    /// One future (shared) or one a partition, made by the first stream that asks. Guarded by the mutex.
    builds: Mutex<Vec<Option<BuildFuture>>>,
    sink: OnceLock<Option<Arc<lookup::FilterSink>>>,
    /// The name prefilters below know this join's table by; `None` when there are none.
    feeds: Option<TableId>,
}

impl CorunJoinExec {
    /// The corun join for `join`, reading `left` and `right` (its own children, or these without their repartitioning).
    ///
    /// # Errors
    /// Children that do not fit the join.
    pub fn try_new(
        join: &HashJoinExec,
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        mode: BuildMode,
    ) -> Result<Self> {
        let dynamic_filter = join
            .dynamic_expressions_produced()
            .into_iter()
            .find_map(|filter| Arc::downcast::<DynamicFilterPhysicalExpr>(filter).ok());
        let (stock_left, stock_mode) = match mode {
            BuildMode::Shared if left.output_partitioning().partition_count() > 1 => {
                let single: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::clone(&left)));
                (single, PartitionMode::CollectLeft)
            }
            BuildMode::Shared => (Arc::clone(&left), PartitionMode::CollectLeft),
            BuildMode::Partitioned => (Arc::clone(&left), PartitionMode::Partitioned),
        };
        let stock = join
            .builder()
            .with_partition_mode(stock_mode)
            .with_new_children(vec![stock_left, right])?
            .recompute_properties()
            .build()?;
        Ok(CorunJoinExec {
            stock: Arc::new(stock),
            left,
            mode,
            dynamic_filter,
            metrics: ExecutionPlanMetricsSet::new(),
            builds: Mutex::new(Vec::new()),
            sink: OnceLock::new(),
            feeds: None,
        })
    }

    /// The stock join this node stands for (right child, keys, type, filter, projection, fetch).
    pub fn stock(&self) -> &HashJoinExec {
        &self.stock
    }

    /// How many tables are built.
    pub fn mode(&self) -> BuildMode {
        self.mode
    }

    /// This join over other children, feeding the prefilters below it that know `id`. Any later change of children
    /// ([`ExecutionPlan::with_new_children`]) cuts that link, because the prefilter's keys may then mean something else.
    ///
    /// # Errors
    /// Children that do not fit the join.
    pub fn feeding(&self, id: TableId, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        let [left, right]: [_; 2] = children
            .try_into()
            .map_err(|_| datafusion::common::internal_datafusion_err!("a join has two children"))?;
        let join = self.remade(&self.stock, left, right)?;
        Ok(CorunJoinExec {
            feeds: Some(id),
            ..join
        })
    }

    /// The same join over other children; it goes on feeding the same prefilters.
    fn remade(
        &self,
        stock: &HashJoinExec,
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
    ) -> Result<Self> {
        let join = CorunJoinExec::try_new(stock, left, right, self.mode)?;
        let feeds = self.feeds;
        Ok(CorunJoinExec { feeds, ..join })
    }

    /// The same join, whose metrics tell that it is one: where only they come back from where it runs, they are shown at the stock join.
    pub(crate) fn named_in_metrics(self) -> Self {
        MetricBuilder::new(&self.metrics)
            .global_counter("CorunJoinExec")
            .add(1);
        self
    }

    fn output_sources(&self) -> Vec<ColumnIndex> {
        output_sources(&self.stock)
    }

    fn on_left(&self) -> Vec<PhysicalExprRef> {
        self.stock.on().iter().map(|(left, _)| Arc::clone(left)).collect()
    }

    fn on_right(&self) -> Vec<PhysicalExprRef> {
        self.stock
            .on()
            .iter()
            .map(|(_, right)| Arc::clone(right))
            .collect()
    }

    /// For each left column whether output or residual filter read it, so that it is kept beside the table.
    pub(crate) fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.left.schema().fields().len()];
        stream::left_columns(&self.output_sources()).for_each(|column| needed[column] = true);
        if let Some(filter) = self.stock.filter() {
            stream::left_columns(filter.column_indices()).for_each(|column| needed[column] = true);
        }
        needed
    }

    /// Whether probe rows, here or in a prefilter further below, only ask if they have a partner.
    pub(crate) fn asks_matches(&self) -> bool {
        let asks = [JoinType::RightSemi, JoinType::RightAnti, JoinType::RightMark];
        self.feeds.is_some() || asks.contains(self.stock.join_type())
    }

    fn build_spec(&self, context: &TaskContext) -> Result<BuildSpec> {
        let join = &self.stock;
        let config = context.session_config().options();
        let needed = self.needed();
        let probes = join.right().output_partitioning().partition_count();
        let corun = CorunOptions::of(config);
        Ok(BuildSpec {
            on_left: self.on_left(),
            schema: self.left.schema(),
            needed,
            null_equality: join.null_equality(),
            track_visited: emits_left_at_end(*join.join_type()),
            null_aware: join.null_aware,
            probe_streams: if self.mode == BuildMode::Shared { probes } else { 1 },
            builds: self.tables(),
            threads: match self.mode {
                BuildMode::Shared => config.execution.target_partitions,
                BuildMode::Partitioned => 1,
            },
            bytes_max: match corun.join_memory_bytes {
                0 => usize::MAX,
                bytes => bytes,
            },
            corun,
            overflow: match self.may_spill(context)? {
                true => Overflow::ToFiles,
                false => Overflow::ToStockJoin,
            },
            asks_matches: self.asks_matches(),
            dynamic: self.filter_sink(config)?,
        })
    }

    /// Whether both sides may go to files: a `NOT IN` has to know whether any key of the right side is NULL, and rows of files
    /// come in no order.
    fn may_spill(&self, context: &TaskContext) -> Result<bool> {
        let (left, right) = (self.left.schema(), self.stock.right().schema());
        for (left_key, right_key) in self.stock.on() {
            if left_key.data_type(&left)? != right_key.data_type(&right)? {
                return Ok(false);
            }
        }
        let ordered = self.properties().output_ordering().is_some();
        let files = context.runtime_env().disk_manager.tmp_files_enabled();
        Ok(!self.stock.null_aware && !ordered && files)
    }

    /// What a join of files needs to know.
    fn spilled_spec(&self, build: &BuildSpec, context: &Arc<TaskContext>) -> spilled::Spec {
        let partitioning = self.properties().output_partitioning();
        spilled::Spec {
            stock: Arc::clone(&self.stock),
            build: build.clone(),
            probe: Arc::new(self.probe_spec(context.session_config().batch_size())),
            metrics: self.metrics.clone(),
            context: Arc::clone(context),
            by_partition: self.mode == BuildMode::Shared
                && partitioning.partition_count() > 1
                && !matches!(
                    partitioning,
                    Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_)
                ),
        }
    }

    /// Tables that are built.
    fn tables(&self) -> usize {
        match self.mode {
            BuildMode::Shared => 1,
            BuildMode::Partitioned => self.left.output_partitioning().partition_count(),
        }
    }

    /// The sink that feeds the dynamic filter, if a scan below the probe side reads it.
    fn filter_sink(&self, config: &ConfigOptions) -> Result<Option<Arc<lookup::FilterSink>>> {
        if let Some(sink) = self.sink.get() {
            return Ok(sink.clone());
        }
        let read = match &self.dynamic_filter {
            Some(filter) => reads_expression(self.stock.right(), filter.expression_id())?,
            None => false,
        };
        let sink = self.dynamic_filter.as_ref().filter(|_| read).map(|filter| {
            let builds = self.tables();
            Arc::new(lookup::FilterSink::new(
                Arc::clone(filter),
                self.on_right(),
                self.stock.right().schema(),
                self.stock.null_equality(),
                self.stock.null_aware,
                config.optimizer.hash_join_inlist_pushdown_max_distinct_values,
                config.optimizer.hash_join_inlist_pushdown_max_size,
                builds,
            ))
        });
        Ok(self.sink.get_or_init(|| sink).clone())
    }

    /// The build that `partition` probes, started by whoever asks first.
    fn build(&self, partition: usize, context: &Arc<TaskContext>) -> Result<BuildFuture> {
        let left_partitions = self.left.output_partitioning().partition_count();
        let (slot, count, inputs) = match self.mode {
            BuildMode::Shared => (0, 1, 0..left_partitions),
            BuildMode::Partitioned => (partition, left_partitions, partition..partition + 1),
        };
        let mut builds = self.builds.lock();
        builds.resize(count, None);
        if let Some(build) = &builds[slot] {
            return Ok(build.clone());
        }
        let streams = inputs
            .map(|input| self.left.execute(input, Arc::clone(context)))
            .collect::<Result<Vec<_>>>()?;
        let spec = Arc::new(self.build_spec(context)?);
        let metrics = BuildMetrics {
            time: MetricBuilder::new(&self.metrics).subset_time("build_time", partition),
            batches: MetricBuilder::new(&self.metrics).counter("build_input_batches", partition),
            rows: MetricBuilder::new(&self.metrics).counter("build_input_rows", partition),
            bytes: MetricBuilder::new(&self.metrics).gauge("build_mem_used", partition),
            reused: MetricBuilder::new(&self.metrics).gauge(REUSED_BYTES, partition),
        };
        let pool = Arc::clone(context.memory_pool());
        let shared = self.mode == BuildMode::Shared;
        let (stock, left_schema) = (Arc::clone(&self.stock), self.left.schema());
        let kinds = self.metrics.clone();
        let spilled = self.spilled_spec(&spec, context);
        let rights = match self.mode {
            BuildMode::Shared => 0..stock.right().output_partitioning().partition_count(),
            BuildMode::Partitioned => partition..partition + 1,
        };
        let (tells, right, context) = (self.tells(), Arc::clone(stock.right()), Arc::clone(context));
        let side_by_side = shared && context.session_config().target_partitions() > 1;
        let build = async move {
            let _ahead = match side_by_side {
                true => ahead::start(tells, &right, &context)?,
                false => Vec::new(),
            };
            let built: Result<Ready> = match build::build(spec, streams, pool, metrics).await? {
                Build::Table(side) => {
                    // The kind of table and key code, and whether its lines pass by the caches, as counters of ones:
                    // `EXPLAIN ANALYZE` shows them.
                    let kind = format!("table_{:?}_{}", side.table.kind(), side.keys.name()).to_lowercase();
                    for name in [kind, format!("reuse_{}", side.reuse)] {
                        MetricBuilder::new(&kinds).counter(name, partition).add(1);
                    }
                    Ok(Ready::Table(side))
                }
                Build::TooLarge(inputs) => {
                    let spilled = SpilledJoin::new(spilled, inputs, rights).await?;
                    Ok(Ready::Spilled(Arc::new(spilled)))
                }
                Build::Stock(batches) => {
                    MetricBuilder::new(&kinds)
                        .counter("stock_fallback", partition)
                        .add(1);
                    let single = (!shared).then_some(partition);
                    let plan = stock_over(&stock, left_schema, batches, single)?;
                    Ok(Ready::Stock(plan, (!shared).then_some(0)))
                }
            };
            built
        };
        let build: BuildFuture = build.map(|built| built.map_err(Arc::new)).boxed().shared();
        builds[slot] = Some(build.clone());
        Ok(build)
    }

    fn probe_spec(&self, batch_size: usize) -> ProbeSpec {
        let join = &self.stock;
        let filter_assembler = join.filter().map(|filter| Assembler {
            schema: Arc::clone(filter.schema()),
            sources: filter.column_indices().to_vec(),
        });
        ProbeSpec {
            join_type: *join.join_type(),
            on_right: self.on_right(),
            filter: join.filter().cloned(),
            assembler: Assembler {
                schema: self.schema(),
                sources: self.output_sources(),
            },
            filter_assembler,
            null_aware: join.null_aware,
            batch_size,
        }
    }
}

/// Lets idle workers start the streams that a finished build has just woken.
///
/// tokio puts a task woken by a running one into a slot of that worker which nobody can steal from, so the last woken
/// stream would wait until this one has used up its turn: 3.6 of 14 ms in SSB Q1.1 on two cores. A new task takes the
/// slot and moves the stream to the queue that idle workers are told about.
fn make_woken_streams_stealable() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(async {}));
    }
}

/// Output columns of a join by side and index.
pub(crate) fn output_sources(join: &HashJoinExec) -> Vec<ColumnIndex> {
    let (_, sources) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
    match join.projection.as_ref() {
        Some(projection) => projection.iter().map(|index| sources[*index].clone()).collect(),
        None => sources,
    }
}

/// Whether build rows are emitted after the probe input has ended.
pub fn emits_left_at_end(join_type: JoinType) -> bool {
    matches!(
        join_type,
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
    )
}

/// The stock join over batches that were already read, for when corun's table did not fit. Executed once for each
/// stream of a shared build, at the stream's own partition; for a partitioned build at partition 0.
fn stock_over(
    stock: &HashJoinExec,
    left_schema: SchemaRef,
    batches: Vec<RecordBatch>,
    single: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let left = MemorySourceConfig::try_new_exec(&[batches], left_schema, None)?;
    let right = match single {
        None => Arc::clone(stock.right()),
        Some(partition) => one_partition(stock.right(), partition)?,
    };
    stock
        .builder()
        .with_partition_mode(PartitionMode::CollectLeft)
        .with_new_children(vec![left, right])?
        .reset_state()
        .recompute_properties()
        .build_exec()
}

/// Whether some expression in `plan` is the one with this id.
fn reads_expression(plan: &Arc<dyn ExecutionPlan>, id: Option<u64>) -> Result<bool> {
    use datafusion::common::tree_node::TreeNode;
    let Some(id) = id else { return Ok(false) };
    plan.exists(|node| {
        let mut found = false;
        node.apply_expressions(&mut |root| {
            found |= root.exists(|expression| Ok(expression.expression_id() == Some(id)))?;
            Ok(if found {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        Ok(found)
    })
}

/// One partition of a plan as a plan of one partition.
fn one_partition(plan: &Arc<dyn ExecutionPlan>, partition: usize) -> Result<Arc<dyn ExecutionPlan>> {
    #[derive(Debug)]
    struct One {
        plan: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        partition: usize,
    }
    impl PartitionStream for One {
        fn schema(&self) -> &SchemaRef {
            &self.schema
        }
        fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
            match self.plan.execute(self.partition, context) {
                Ok(stream) => stream,
                Err(error) => {
                    let schema = Arc::clone(&self.schema);
                    Box::pin(RecordBatchStreamAdapter::new(
                        schema,
                        futures::stream::once(async { Err(error) }),
                    ))
                }
            }
        }
    }
    let one = Arc::new(One {
        plan: Arc::clone(plan),
        schema: plan.schema(),
        partition,
    });
    Ok(Arc::new(StreamingTableExec::try_new(
        plan.schema(),
        vec![one],
        None,
        None,
        false,
        None,
    )?))
}

impl fmt::Debug for CorunJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CorunJoinExec")
            .field("mode", &self.mode)
            .field("stock", &self.stock)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for CorunJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let DisplayFormatType::TreeRender = t {
            return self.stock.fmt_as(t, f);
        }
        // The stock join's own line says everything else; its name and mode are replaced by ours.
        let rest = stock_line::behind("join_type=", self.stock.as_ref());
        write!(f, "CorunJoinExec: build={:?}, join_type={rest}", self.mode)
    }
}

impl ExecutionPlan for CorunJoinExec {
    fn name(&self) -> &str {
        "CorunJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        match self.mode {
            BuildMode::Shared => InputDistributionRequirements::new(vec![
                Distribution::UnspecifiedDistribution,
                Distribution::UnspecifiedDistribution,
            ]),
            BuildMode::Partitioned => self.stock.input_distribution_requirements(),
        }
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.stock.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, self.stock.right()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.stock.apply_expressions(f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.stock.dynamic_expressions_produced()
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(right), Some(left), None) = (children.pop(), children.pop(), children.pop()) else {
            return internal_err!("a join has two children");
        };
        Ok(Arc::new(self.remade(&self.stock, left, right)?))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = self.stock.builder().reset_state().build()?;
        let (left, right) = (Arc::clone(&self.left), Arc::clone(stock.right()));
        Ok(Arc::new(self.remade(&stock, left, right)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let build = self.build(partition, &context)?;
        let right = self.stock.right();
        let spec = Arc::new(self.probe_spec(context.session_config().batch_size()));
        let metrics = ProbeMetrics {
            baseline: BaselineMetrics::new(&self.metrics, partition),
            time: MetricBuilder::new(&self.metrics).subset_time("join_time", partition),
            batches: MetricBuilder::new(&self.metrics).counter("input_batches", partition),
            rows: MetricBuilder::new(&self.metrics).counter("input_rows", partition),
        };
        let right = Arc::clone(right);
        let (fetch, feeds, schema) = (self.stock.fetch(), self.feeds, self.schema());
        let stream = futures::stream::once(async move {
            let built = build.await.map_err(DataFusionError::Shared)?;
            make_woken_streams_stealable();
            match built {
                Ready::Table(side) => {
                    let context = match feeds {
                        Some(id) => prefilter::with_table(&context, id, &side),
                        None => context,
                    };
                    let input = right.execute(partition, context)?;
                    let prober = Prober::new(spec, side, input, fetch, metrics);
                    Ok::<_, DataFusionError>(prober.batches().left_stream())
                }
                Ready::Spilled(spilled) => {
                    let rows = RecordBatchStreamAdapter::new(schema, spilled.rows(partition, metrics));
                    let none = BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), partition);
                    let limited = LimitStream::new(Box::pin(rows), 0, fetch, none);
                    let limited: SendableRecordBatchStream = Box::pin(limited);
                    Ok(limited.right_stream())
                }
                Ready::Stock(plan, at) => Ok(plan.execute(at.unwrap_or(partition), context)?.right_stream()),
            }
        })
        .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.stock.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(input_stats, args)
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }
}
