//! [`CorunAggregateExec`]: groups in tables that stay in the caches of the cores, in place of DataFusion's two steps and the exchange between.
//!
//! ```text
//! every input partition:  rows -> a table of half the L2 -> records by hash partition      (collect)
//! every output stream:    the next partition's records of all inputs -> groups -> batches  (merge)
//! ```
//!
//! With `corun.aggregate = 'auto'` the first rows of all inputs are looked at before ([`look_ahead`]). Keys of few values are numbered
//! ([`numbers`]), so that their groups are found without a hash; few groups of other keys are made by DataFusion's own steps.
//!
//! Keys are exact words of 64 bits ([`keys`]), functions are folds over records ([`functions`]); what has neither stays with DataFusion's
//! operators ([`rule`] decides). The node keeps the stock steps it stands for: for schema, statistics and text.

mod collect;
mod functions;
mod keys;
mod look_ahead;
mod merge;
mod numbers;
pub(crate) mod rule;
mod texts;

use crate::{CorunOptions, JoinChoice, caches, stock_line};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use collect::{PARTITION_BITS, collect};
use corun_exec::groups::{Groups, Layout, LocalGroups, Options};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricValue, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, Partitioning, PlanProperties,
    ReplaceChildrenOptions, Statistics, StatisticsArgs,
};
use functions::Functions;
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::stream::poll_fn;
use futures::{StreamExt, TryStreamExt};
use keys::KeyWords;
use look_ahead::{Way, look_ahead, stock_over};
use merge::{Merging, Partitions};
use numbers::Numbers;
use parking_lot::Mutex;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use texts::Texts;

/// More numbers than these are in no cache, whatever is said of its size.
const NUMBER_BITS_MAX: u32 = 20;

/// What both halves need to know.
struct Spec {
    group_by: Vec<PhysicalExprRef>,
    keys: KeyWords,
    functions: Functions,
    layout: Layout,
    schema: SchemaRef,
    /// The long texts among the keys.
    texts: Arc<Texts>,
    /// Of the tables and the partitions.
    options: Options,
}

impl Spec {
    /// Numbers of keys that are so few that what is kept for them fits the private cache; `None` where a type's values have none.
    fn numbers(&self) -> Option<Numbers> {
        let bits = (2 * self.options.table_bytes / LocalGroups::bytes_of_numbers(1)).checked_ilog2()?;
        Numbers::of(self.keys.types(), bits.min(NUMBER_BITS_MAX))
    }

    /// The columns of some groups, or of the one whose key is NULL.
    fn batch(&self, groups: &Groups, rows: Range<usize>, null: bool) -> Result<RecordBatch> {
        let words: Vec<Vec<u64>> = (0..self.keys.words())
            .map(|word| groups.key_word(word, rows.clone()).collect())
            .collect();
        let mut columns: Vec<ArrayRef> = self.keys.decode(&words, null, &self.texts)?;
        columns.extend(self.functions.results(groups, &rows)?);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// What output streams read from.
#[derive(Clone)]
enum Ready {
    InCaches(Arc<Partitions>),
    /// The stock steps, over the inputs' streams.
    Stock(Arc<dyn ExecutionPlan>),
}

/// What the output streams wait for.
type Getting = Shared<BoxFuture<'static, Result<Ready, Arc<DataFusionError>>>>;

/// One execution of all partitions. Its streams own what it has; they end it when they are dropped.
struct Run {
    spec: Arc<Spec>,
    ready: Getting,
    /// By output partition.
    asked: Vec<bool>,
}

/// The groups of an aggregate, made in the caches. Made by the rule `corun_cache_conscious_joins`.
pub struct CorunAggregateExec {
    /// The step that reads the rows, over this node's input.
    first: Arc<AggregateExec>,
    /// The step that gives the results; the same as `first` where there is one step.
    last: Arc<AggregateExec>,
    keys: KeyWords,
    functions: Functions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The run of which some partitions were not asked for yet. Guarded by the mutex.
    run: Mutex<Option<Run>>,
    /// The stock steps of the last run whose groups were few, for their metrics. Guarded by the mutex.
    stock: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
}

impl CorunAggregateExec {
    /// The node for the step `first`, which reads rows, and `last`, which gives results; the same where there is one. Its output has
    /// `partitions` partitions; a group may be in any of them. `None` where keys or functions are not of the kinds that it can do.
    fn new(first: &Arc<AggregateExec>, last: &Arc<AggregateExec>, partitions: usize) -> Option<Self> {
        let schema = first.input().schema();
        let types: Vec<_> = first
            .group_expr()
            .expr()
            .iter()
            .map(|(group, _)| Some((group.data_type(&schema).ok()?, group.nullable(&schema).ok()?)))
            .collect::<Option<_>>()?;
        let properties = PlanProperties::new(
            last.properties().equivalence_properties().clone(),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Some(CorunAggregateExec {
            keys: KeyWords::of(&types)?,
            functions: Functions::of(first.aggr_expr(), first.filter_expr(), &schema)?,
            first: Arc::clone(first),
            last: Arc::clone(last),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            run: Mutex::new(None),
            stock: Arc::default(),
        })
    }

    /// The stock step that reads the rows.
    pub(crate) fn first(&self) -> &AggregateExec {
        &self.first
    }

    fn spec(&self, context: &TaskContext) -> Spec {
        let options = CorunOptions::of(context.session_config().options());
        let groups = self.first.group_expr().expr().iter();
        Spec {
            group_by: groups.map(|(group, _)| Arc::clone(group)).collect(),
            keys: self.keys.clone(),
            functions: self.functions.clone(),
            layout: Layout::new(self.keys.words(), self.functions.folds()),
            schema: self.last.schema(),
            texts: Arc::default(),
            options: kernel_options(&options),
        }
    }

    /// The run whose output `partition` was not asked for yet, begun by whoever asks first. A partition that is executed again, as by a
    /// nested loop join short of memory, is of another run.
    fn run(&self, partition: usize, context: &Arc<TaskContext>) -> Result<(Arc<Spec>, Getting)> {
        let mut begun = self.run.lock();
        let mut run = match begun.take() {
            Some(run) if !run.asked[partition] => run,
            _ => self.begin(context)?,
        };
        run.asked[partition] = true;
        let found = (Arc::clone(&run.spec), run.ready.clone());
        if run.asked.contains(&false) {
            *begun = Some(run);
        }
        Ok(found)
    }

    fn begin(&self, context: &Arc<TaskContext>) -> Result<Run> {
        let spec = Arc::new(self.spec(context));
        let input = self.first.input();
        let inputs = (0..input.output_partitioning().partition_count())
            .map(|partition| input.execute(partition, Arc::clone(context)))
            .collect::<Result<Vec<_>>>()?;
        let looks = CorunOptions::of(context.session_config().options()).aggregate == JoinChoice::Auto;
        let (first, last) = (Arc::clone(&self.first), Arc::clone(&self.last));
        let (metrics, stock) = (self.metrics.clone(), Arc::clone(&self.stock));
        let (of_run, context) = (Arc::clone(&spec), Arc::clone(context));
        let ready = async move {
            let (inputs, way) = match looks {
                true => look_ahead(&of_run, inputs, context.memory_pool()).await?,
                false => (inputs, Way::Numbered),
            };
            if way == Way::Stock {
                MetricBuilder::new(&metrics).counter("few_groups", 0).add(1);
                let steps = stock_over(&first, &last, inputs)?;
                *stock.lock() = Some(Arc::clone(&steps));
                return Ok(Ready::Stock(steps));
            }
            let collected = collect(Arc::clone(&of_run), way, inputs, context, metrics).await?;
            let partitions = Partitions::of(collected, &of_run.layout)?;
            Ok(Ready::InCaches(Arc::new(partitions)))
        };
        Ok(Run {
            spec,
            ready: ready
                .map(|result: Result<_>| result.map_err(Arc::new))
                .boxed()
                .shared(),
            asked: vec![false; self.properties.output_partitioning().partition_count()],
        })
    }
}

/// The stock step over another input.
fn over(step: &Arc<AggregateExec>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<AggregateExec>> {
    let recomputed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let step = Arc::clone(step).replace_children(children, recomputed)?;
    Arc::downcast(step).map_err(|_| internal_datafusion_err!("an aggregate has become something else"))
}

/// Adds what the steps of a stock aggregate took, rows apart: those of the first step are not the node's.
fn add_metrics(plan: &Arc<dyn ExecutionPlan>, metrics: &mut MetricsSet) {
    if let Some(found) = plan.metrics().filter(|_| plan.is::<AggregateExec>()) {
        let taken = found.iter().filter(|metric| {
            use MetricValue::*;
            matches!(
                metric.value(),
                ElapsedCompute(_) | SpillCount(_) | SpilledBytes(_) | SpilledRows(_)
            )
        });
        taken.for_each(|metric| metrics.push(Arc::clone(metric)));
    }
    for child in plan.children() {
        add_metrics(child, metrics);
    }
}

/// Tables that share the core's private cache with the rows that pass by.
fn kernel_options(options: &CorunOptions) -> Options {
    Options {
        table_bytes: caches::l2_bytes(options) / 2,
        partition_bits: PARTITION_BITS,
        // Nobody can choose keys that collide.
        seed: RandomState::new().hash_one(0),
    }
}

/// Bytes that the table of an input may have.
pub(crate) fn table_bytes_max(options: &CorunOptions) -> usize {
    kernel_options(options).table_bytes_max()
}

impl fmt::Debug for CorunAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CorunAggregateExec")
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for CorunAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let DisplayFormatType::TreeRender = t {
            return self.last.fmt_as(t, f);
        }
        // The stock step's own line has keys and functions behind its mode.
        let rest = stock_line::behind("gby=", self.first.as_ref());
        write!(f, "CorunAggregateExec: gby={rest}")
    }
}

impl ExecutionPlan for CorunAggregateExec {
    fn name(&self) -> &str {
        "CorunAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution])
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.first.input()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.first.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let first = over(&self.first, children)?;
        let one_step = Arc::ptr_eq(&self.first, &self.last);
        let last = if one_step { &first } else { &self.last };
        let partitions = self.properties.output_partitioning().partition_count();
        match CorunAggregateExec::new(&first, last, partitions) {
            Some(node) => Ok(Arc::new(node)),
            None => internal_err!("groups over another input are of other types"),
        }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = Arc::clone(self.first.input());
        let recomputed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(vec![input], recomputed)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (spec, ready) = self.run(partition, &context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let time = MetricBuilder::new(&self.metrics).subset_time("merge_time", partition);
        let stream = futures::stream::once(async move {
            let partitions = match ready.await.map_err(DataFusionError::Shared)? {
                Ready::InCaches(partitions) => partitions,
                Ready::Stock(steps) => {
                    let mut groups = steps.execute(partition, context)?;
                    let counted = poll_fn(move |task| metrics.record_poll(groups.poll_next_unpin(task)));
                    return Ok(counted.left_stream());
                }
            };
            let batch_size = context.session_config().batch_size();
            let merging = Merging::new(spec, partitions, batch_size, context.memory_pool(), metrics, time);
            let merged = futures::stream::try_unfold(merging, |mut merging| async move {
                Ok(merging.next().await?.map(|batch| (batch, merging)))
            });
            Ok::<_, DataFusionError>(merged.right_stream())
        })
        .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        if let Some(steps) = &*self.stock.lock() {
            add_metrics(steps, &mut metrics);
        }
        Some(metrics)
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let first = self.first.statistics_from_inputs(input_stats, args)?;
        if Arc::ptr_eq(&self.first, &self.last) {
            return Ok(first);
        }
        self.last.statistics_from_inputs(&[first], args)
    }
}
