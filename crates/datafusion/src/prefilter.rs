//! Prefilters: rows that a join higher in a chain will drop are dropped before the lower joins carry them.
//!
//! ```text
//!   CorunJoin A (part)                     CorunJoin A
//!       └─ CorunJoin B (date)      =>          └─ CorunJoin B
//!             └─ scan lineorder                      └─ CorunPrefilter: A.lo_partkey, B.lo_orderdate
//!                                                          └─ scan lineorder
//! ```
//!
//! By the time the scan at the bottom of a chain delivers its first batch, every table above it is built, because each
//! join builds before it asks for probe rows. The prefilter looks the keys up in those tables with selection vectors,
//! the most selective first, and measures: a filter that keeps most rows switches itself off, and so does the whole
//! node. A dropped row would have been dropped by its join, so the result does not change; a row kept wrongly costs
//! only time.
//!
//! How a table gets here: the join executes its probe side with a `TaskContext` that carries the finished table under
//! the join's [`TableId`] ([`with_table`]). So a prefilter only ever sees tables of the same execution, and sees none when
//! the plan was rewritten after it was planted.

use crate::join::build::BuildSide;
use crate::join::{BuildMode, CorunJoinExec};
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::coalesce::LimitedBatchCoalescer;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, Statistics, StatisticsArgs,
    replace_children_if_necessary,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names one join's table between the join and the prefilters below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableId(u64);

impl TableId {
    fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        TableId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The tables that joins above have built, carried in the session configuration of a task.
#[derive(Default, Clone)]
struct ReadyTables(Vec<(TableId, Arc<BuildSide>)>);

/// `context` with a finished table for the prefilters below.
pub(crate) fn with_table(context: &Arc<TaskContext>, id: TableId, side: &Arc<BuildSide>) -> Arc<TaskContext> {
    let config = context.session_config();
    let mut tables = config
        .get_extension::<ReadyTables>()
        .map(|tables| (*tables).clone())
        .unwrap_or_default();
    tables.0.push((id, Arc::clone(side)));
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config.clone().with_extension(Arc::new(tables)),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

/// One join's keys as columns of the rows that pass here.
#[derive(Clone)]
struct Lookup {
    table: TableId,
    keys: Vec<PhysicalExprRef>,
}

/// Drops probe rows that no join above can match. Made by [`add`].
pub struct CorunPrefilterExec {
    input: Arc<dyn ExecutionPlan>,
    lookups: Vec<Lookup>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Puts a prefilter below every chain of two or more joins whose unmatched probe rows are dropped.
///
/// # Errors
/// Errors of rebuilding plan nodes.
pub fn add(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut planted: Vec<Planted> = Vec::new();
    plan.apply(|node| {
        if let Some(join) = node.downcast_ref::<CorunJoinExec>()
            && let Some(keys) = lookup_keys(join)
        {
            planted.push(trace(node, join, keys));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    // A lone join's own probe is as cheap as its prefilter.
    let count = |below: usize| planted.iter().filter(|other| other.below == below).count();
    let wanted: Vec<&Planted> = planted.iter().filter(|lookup| count(lookup.below) > 1).collect();
    if wanted.is_empty() {
        Ok(plan)
    } else {
        plant(&plan, &wanted)
    }
}

/// A lookup and the joins it concerns, by address in the plan as it was.
struct Planted {
    /// The join whose table is looked up.
    join: usize,
    /// The join below whose probe side the prefilter goes.
    below: usize,
    lookup: Lookup,
}

fn address(node: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(node).cast::<()>() as usize
}

fn plant(node: &Arc<dyn ExecutionPlan>, planted: &[&Planted]) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children = node
        .children()
        .into_iter()
        .map(|child| plant(child, planted))
        .collect::<Result<Vec<_>>>()?;
    let here = address(node);
    if let Some(join) = node.downcast_ref::<CorunJoinExec>() {
        let lookups: Vec<Lookup> = planted
            .iter()
            .filter(|other| other.below == here)
            .map(|other| other.lookup.clone())
            .collect();
        if !lookups.is_empty()
            && let Some(right) = children.pop()
        {
            children.push(Arc::new(CorunPrefilterExec::new(right, lookups)));
        }
        if let Some(own) = planted.iter().find(|other| other.join == here) {
            return Ok(Arc::new(join.feeding(own.lookup.table, children)?));
        }
    }
    replace_children_if_necessary(Arc::clone(node), children)
}

/// The probe keys of a join whose unmatched probe rows never show in the result and whose table is shared.
fn lookup_keys(join: &CorunJoinExec) -> Option<Vec<PhysicalExprRef>> {
    let stock = join.stock();
    let drops_unmatched = !matches!(
        stock.join_type(),
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark
    );
    let plain = stock.null_equality() == NullEquality::NullEqualsNothing && !stock.null_aware;
    let keys: Vec<PhysicalExprRef> = stock.on().iter().map(|(_, right)| Arc::clone(right)).collect();
    let columns = keys.iter().all(|key| key.is::<Column>());
    (join.mode() == BuildMode::Shared && drops_unmatched && plain && columns).then_some(keys)
}

/// Follows the keys of `top` down its probe side to the lowest join they can be looked up below. Every join on the way
/// must emit each row because of one probe row, so that dropping that probe row drops nothing else.
fn trace(top: &Arc<dyn ExecutionPlan>, join: &CorunJoinExec, keys: Vec<PhysicalExprRef>) -> Planted {
    let mut here = keys;
    let mut lowest = (address(top), here.clone());
    let mut node = Arc::clone(join.stock().right());
    loop {
        if let Some(join) = node.downcast_ref::<CorunJoinExec>() {
            let follows_probe_rows = matches!(
                join.stock().join_type(),
                JoinType::Inner
                    | JoinType::Right
                    | JoinType::RightSemi
                    | JoinType::RightAnti
                    | JoinType::RightMark
            );
            if !follows_probe_rows || join.stock().fetch().is_some() {
                break;
            }
            let sources = join.output_sources();
            let mapped = remap(&here, |column| {
                let source = sources.get(column)?;
                match source.side {
                    JoinSide::Right => Some(source.index),
                    // A build column that the join equates with a probe column has its value in every row.
                    JoinSide::Left => equal_probe_column(join, source.index),
                    JoinSide::None => None,
                }
            });
            let Some(keys) = mapped else { break };
            here = keys;
            lowest = (address(&node), here.clone());
            let below = Arc::clone(join.stock().right());
            node = below;
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let mapped = remap(&here, |column| {
                let source = projection.expr().get(column)?.expr.downcast_ref::<Column>()?;
                Some(source.index())
            });
            let Some(keys) = mapped else { break };
            here = keys;
            let below = Arc::clone(projection.input());
            node = below;
        } else if let Some(filter) = node.downcast_ref::<FilterExec>() {
            let projection = filter.projection().clone();
            let mapped = remap(&here, |column| match projection.as_ref() {
                Some(projection) => projection.get(column).copied(),
                None => Some(column),
            });
            let (Some(keys), None) = (mapped, filter.fetch()) else {
                break;
            };
            here = keys;
            let below = Arc::clone(filter.input());
            node = below;
        } else if node.is::<RepartitionExec>()
            || node.name() == "CooperativeExec"
            || node.name() == "CoalesceBatchesExec"
        {
            if node.fetch().is_some() {
                break;
            }
            let below = Arc::clone(node.children()[0]);
            node = below;
        } else {
            break;
        }
    }
    let (below, keys) = lowest;
    Planted {
        join: address(top),
        below,
        lookup: Lookup {
            table: TableId::fresh(),
            keys,
        },
    }
}

/// The probe column that an inner join makes equal to build column `index`.
fn equal_probe_column(join: &CorunJoinExec, index: usize) -> Option<usize> {
    let inner = *join.stock().join_type() == JoinType::Inner;
    join.stock()
        .on()
        .iter()
        .filter(|_| inner)
        .find_map(|(left, right)| {
            let (left, right) = (left.downcast_ref::<Column>()?, right.downcast_ref::<Column>()?);
            (left.index() == index).then_some(right.index())
        })
}

/// The key columns somewhere below, `None` when one of them does not come from there.
fn remap(keys: &[PhysicalExprRef], below: impl Fn(usize) -> Option<usize>) -> Option<Vec<PhysicalExprRef>> {
    keys.iter()
        .map(|key| {
            let column = key.downcast_ref::<Column>()?;
            let index = below(column.index())?;
            Some(Arc::new(Column::new(column.name(), index)) as PhysicalExprRef)
        })
        .collect()
}

impl CorunPrefilterExec {
    fn new(input: Arc<dyn ExecutionPlan>, lookups: Vec<Lookup>) -> Self {
        let properties = Arc::clone(input.properties());
        CorunPrefilterExec {
            input,
            lookups,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl fmt::Debug for CorunPrefilterExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CorunPrefilterExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self
            .lookups
            .iter()
            .map(|lookup| {
                let keys: Vec<String> = lookup.keys.iter().map(ToString::to_string).collect();
                format!("({})", keys.join(", "))
            })
            .collect();
        write!(f, "CorunPrefilterExec: keys=[{}]", keys.join(", "))
    }
}

impl ExecutionPlan for CorunPrefilterExec {
    fn name(&self) -> &str {
        "CorunPrefilterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for key in self.lookups.iter().flat_map(|lookup| &lookup.keys) {
            if f(key)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(CorunPrefilterExec::new(input, self.lookups.clone()))),
            None => internal_err!("a prefilter has one child"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_size = context.session_config().batch_size();
        let ready = context
            .session_config()
            .get_extension::<ReadyTables>()
            .unwrap_or_default();
        let filters = self.lookups.iter().filter_map(|lookup| {
            let (_, side) = ready.0.iter().find(|(id, _)| *id == lookup.table)?;
            Some(Measured::new(Arc::clone(side), lookup.keys.clone()))
        });
        let filters = filters.collect();
        let state = Stream {
            input: Some(self.input.execute(partition, context)?),
            filters,
            out: LimitedBatchCoalescer::new(self.schema(), batch_size, None),
            finished: false,
            batches: 0,
            selected: Vec::new(),
            scratch: Vec::new(),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            dropped: MetricBuilder::new(&self.metrics).counter("rows_dropped", partition),
        };
        let batches = futures::stream::try_unfold(state, |mut state| async move {
            Ok(state.next().await?.map(|batch| (batch, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::clone(&input_stats[0]).to_inexact()))
    }
}

/// Probe batches a filter is measured over before it is judged, and between two measurements of a switched-off one.
const MEASURED_BATCHES: usize = 4;
const REST_BATCHES: usize = 256;

/// A filter that keeps more than this share of its rows is not worth its lookups. Unmeasured.
const KEPT_SHARE_MAX: f64 = 0.75;

/// A lookup with what it kept lately.
struct Measured {
    side: Arc<BuildSide>,
    keys: Vec<PhysicalExprRef>,
    seen: usize,
    kept: usize,
    /// Batches until it is measured again; 0: in use.
    resting: usize,
}

impl Measured {
    fn new(side: Arc<BuildSide>, keys: Vec<PhysicalExprRef>) -> Self {
        Measured {
            side,
            keys,
            seen: 0,
            kept: 0,
            resting: 0,
        }
    }

    fn kept_share(&self) -> f64 {
        if self.seen == 0 {
            0.0
        } else {
            self.kept as f64 / self.seen as f64
        }
    }
}

struct Stream {
    input: Option<SendableRecordBatchStream>,
    filters: Vec<Measured>,
    out: LimitedBatchCoalescer,
    finished: bool,
    batches: usize,
    /// Rows of the batch that every filter so far kept, and the next filter's answer.
    selected: Vec<u32>,
    scratch: Vec<u32>,
    baseline: BaselineMetrics,
    dropped: Count,
}

impl Stream {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.out.next_completed_batch() {
                return Ok(Some(batch.record_output(&self.baseline)));
            }
            if self.finished {
                return Ok(None);
            }
            let next = match &mut self.input {
                Some(input) => input.next().await,
                None => None,
            };
            match next {
                Some(batch) => {
                    let batch = self.filter(batch?)?;
                    if batch.num_rows() > 0 {
                        self.out.push_batch(batch)?;
                    }
                }
                None => {
                    self.input = None;
                    self.finished = true;
                    self.out.finish()?;
                }
            }
        }
    }

    fn filter(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        self.batches += 1;
        if self.batches.is_multiple_of(MEASURED_BATCHES) {
            self.judge();
        }
        let rows = batch.num_rows();
        let mut all = true;
        for filter in &mut self.filters {
            if filter.resting > 0 {
                filter.resting -= 1;
                continue;
            }
            let keys: Vec<ArrayRef> = evaluate_expressions_to_arrays(&filter.keys, &batch)?;
            let encoded = filter.side.keys.encode(&keys)?;
            let selection = (!all).then_some(self.selected.as_slice());
            let before = selection.map_or(rows, <[u32]>::len);
            filter
                .side
                .table
                .matches(&encoded.codes(), encoded.validity(), selection, &mut self.scratch);
            filter.seen += before;
            filter.kept += self.scratch.len();
            std::mem::swap(&mut self.selected, &mut self.scratch);
            all = false;
        }
        if all || self.selected.len() == rows {
            return Ok(batch);
        }
        self.dropped.add(rows - self.selected.len());
        let indices = UInt32Array::from(std::mem::take(&mut self.selected));
        let kept = take_record_batch(&batch, &indices)?;
        self.selected = indices.into_parts().1.into();
        Ok(kept)
    }

    /// Orders the filters by what they kept, and rests those that kept too much.
    fn judge(&mut self) {
        self.filters
            .sort_by(|a, b| a.kept_share().total_cmp(&b.kept_share()));
        for filter in &mut self.filters {
            if filter.seen > 0 && filter.kept_share() > KEPT_SHARE_MAX {
                filter.resting = REST_BATCHES;
            }
            // Half of what was seen stays, so that a change in the data shows.
            (filter.seen, filter.kept) = (filter.seen / 2, filter.kept / 2);
            if filter.resting > 0 {
                (filter.seen, filter.kept) = (0, 0);
            }
        }
    }
}
