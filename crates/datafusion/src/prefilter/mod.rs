//! Prefilters: rows that a join above will drop are dropped before other operators carry them.
//!
//! ```text
//!   CorunJoin A (part)                     CorunJoin A
//!       └─ CorunJoin B (date)      =>          └─ CorunJoin B
//!             └─ scan lineorder                      └─ CorunPrefilter: A.lo_partkey, B.lo_orderdate
//!                                                          └─ scan lineorder
//! ```
//!
//! By the time a node below a join's probe side delivers its first batch, that join's table is built, because each join builds
//! before it asks for probe rows; so it is when the inputs of the builds further below start. The prefilter looks keys up in those
//! tables with selection vectors, the most selective first, and measures: a lookup that keeps most rows switches itself off. A
//! dropped row would have been dropped by its join, so the result does not change; a row kept wrongly costs only time. Where keys
//! can be looked up says [`trace`].
//!
//! How a table gets there: the join executes its probe side with a `TaskContext` that carries the finished table under
//! the join's [`TableId`] ([`with_table`]). So a prefilter only ever sees tables of the same execution. A join that is made anew over
//! other children goes on feeding the same prefilters.

mod trace;

use crate::join::build::BuildSide;
use crate::join::{BuildMode, CorunJoinExec};
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::coalesce::LimitedBatchCoalescer;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, Statistics, StatisticsArgs,
    replace_children_if_necessary,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace::{Edge, Place};

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

/// Whether a prefilter in `plan` looks keys up in this table.
pub(crate) fn looks_up(plan: &Arc<dyn ExecutionPlan>, table: TableId) -> bool {
    let looks = |node: &Arc<dyn ExecutionPlan>| {
        let prefilter = node.downcast_ref::<CorunPrefilterExec>();
        prefilter.is_some_and(|prefilter| prefilter.lookups.iter().any(|lookup| lookup.table == table))
    };
    plan.exists(|node| Ok(looks(node))).unwrap_or(true)
}

/// One join's keys, over the columns of the rows that pass here.
#[derive(Clone)]
struct Lookup {
    /// The join, by its address in the plan as it was.
    join: usize,
    table: TableId,
    keys: Vec<PhysicalExprRef>,
    /// The build side's keys, for people.
    name: Arc<str>,
}

impl Lookup {
    /// The probe keys of a join whose unmatched probe rows never show in the result and whose table is shared.
    fn of(node: &Arc<dyn ExecutionPlan>, join: &CorunJoinExec) -> Option<Lookup> {
        let stock = join.stock();
        let drops_unmatched = !matches!(
            stock.join_type(),
            JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark
        );
        let plain = stock.null_equality() == NullEquality::NullEqualsNothing && !stock.null_aware;
        let names: Vec<String> = stock.on().iter().map(|(left, _)| name(left)).collect();
        let lookup = || Lookup {
            join: trace::address(node),
            table: TableId::fresh(),
            keys: stock.on().iter().map(|(_, right)| Arc::clone(right)).collect(),
            name: names.join("_").into(),
        };
        (join.mode() == BuildMode::Shared && drops_unmatched && plain).then(lookup)
    }

    /// The same by other keys.
    fn over(&self, keys: Vec<PhysicalExprRef>) -> Lookup {
        Lookup { keys, ..self.clone() }
    }
}

/// A column's name without its index, or the expression.
fn name(key: &PhysicalExprRef) -> String {
    match key.downcast_ref::<Column>() {
        Some(column) => column.name().to_owned(),
        None => key.to_string(),
    }
}

/// Drops probe rows that no join above can match. Made by [`add`].
pub struct CorunPrefilterExec {
    input: Arc<dyn ExecutionPlan>,
    lookups: Vec<Lookup>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Puts a prefilter wherever keys of a join above can be looked up before another operator carries the rows, and wherever several
/// joins' keys can be.
///
/// # Errors
/// Errors of rebuilding plan nodes.
pub fn add(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut places: Vec<Place> = Vec::new();
    plan.apply(|node| {
        if let Some(join) = node.downcast_ref::<CorunJoinExec>()
            && let Some(lookup) = Lookup::of(node, join)
        {
            places.extend(trace::places(node, join, lookup));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    // A lone join's own probe is as cheap as its prefilter.
    let several = |edge: Edge| places.iter().filter(|other| other.edge == edge).count() > 1;
    let wanted: Vec<&Place> = places
        .iter()
        .filter(|place| place.spares || several(place.edge))
        .collect();
    if wanted.is_empty() {
        Ok(plan)
    } else {
        plant(&plan, &wanted)
    }
}

/// The plan with prefilters at the places `wanted`, fed by their joins.
fn plant(node: &Arc<dyn ExecutionPlan>, wanted: &[&Place]) -> Result<Arc<dyn ExecutionPlan>> {
    let parent = trace::address(node);
    let mut children = Vec::with_capacity(node.children().len());
    for (child, input) in node.children().into_iter().enumerate() {
        let planted = plant(input, wanted)?;
        let edge = Edge { parent, child };
        let here = wanted.iter().filter(|place| place.edge == edge);
        let lookups: Vec<Lookup> = here.map(|place| place.lookup.clone()).collect();
        children.push(match lookups.is_empty() {
            true => planted,
            false => Arc::new(CorunPrefilterExec::new(planted, lookups)),
        });
    }
    if let Some(join) = node.downcast_ref::<CorunJoinExec>()
        && let Some(place) = wanted.iter().find(|place| place.lookup.join == parent)
    {
        return Ok(Arc::new(join.feeding(place.lookup.table, children)?));
    }
    replace_children_if_necessary(Arc::clone(node), children)
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
        let lookups = self.lookups.iter().map(|lookup| {
            let keys: Vec<String> = lookup.keys.iter().map(name).collect();
            format!("{} in {}", keys.join(", "), lookup.name)
        });
        let lookups: Vec<String> = lookups.collect();
        write!(f, "CorunPrefilterExec: lookups=[{}]", lookups.join("; "))
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
            let counter = |what| {
                MetricBuilder::new(&self.metrics).counter(format!("{}_{what}", lookup.name), partition)
            };
            Some(Measured {
                side: Arc::clone(side),
                keys: lookup.keys.clone(),
                seen: 0,
                kept: 0,
                resting: 0,
                seen_in_all: counter("looked_up"),
                dropped_in_all: counter("dropped"),
            })
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
    seen_in_all: Count,
    dropped_in_all: Count,
}

impl Measured {
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
            filter.seen_in_all.add(before);
            filter.dropped_in_all.add(before - self.scratch.len());
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
