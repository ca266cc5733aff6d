//! `CorunSharedExec`: one reader of a part that runs once.

use super::part::{Part, Place};
use super::work::{Origin, TakenWork};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, Statistics, StatisticsArgs,
    StatisticsContext,
};
use futures::StreamExt;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// One of several readers of a part of a statement, or of the part that another statement runs or ran.
#[derive(Clone)]
pub struct CorunSharedExec {
    place: Arc<Place>,
    /// Who makes the rows.
    origin: Origin,
    /// Who reads, and what, where this statement makes them.
    label: Arc<str>,
    /// How the part was planned in this statement. Another statement's plan may be what runs.
    plan: Arc<dyn ExecutionPlan>,
    /// The part, shown below one of its readers.
    shown: Option<Arc<dyn ExecutionPlan>>,
    /// Whoever runs a plan twice runs the part anew: by partition how often it began, and plans for the second and later times.
    again: Arc<Mutex<Again>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

#[derive(Default)]
struct Again {
    begun: HashMap<usize, usize>,
    plans: Vec<Arc<dyn ExecutionPlan>>,
}

impl CorunSharedExec {
    /// A reader at `place`; `plan` is what the part would be if this statement ran it.
    pub(super) fn new(place: Place, origin: Origin, label: String, plan: Arc<dyn ExecutionPlan>) -> Self {
        let part = place.part();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&part.schema)),
            Partitioning::UnknownPartitioning(part.partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        CorunSharedExec {
            place: Arc::new(place),
            origin,
            label: label.into(),
            plan,
            shown: None,
            again: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn part(&self) -> &Arc<Part> {
        self.place.part()
    }

    pub(super) fn part_name(&self) -> &str {
        &self.part().name
    }

    /// The part for somebody who has read it before.
    fn execute_again(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let plan = {
            let mut again = self.again.lock();
            let Again { begun, plans } = &mut *again;
            let times = begun.entry(partition).or_default();
            if plans.len() <= *times {
                plans.push(reset_plan_states(Arc::clone(&self.plan))?);
            }
            *times += 1;
            Arc::clone(&plans[*times - 1])
        };
        let schema = self.schema();
        let renamed = Arc::clone(&schema);
        let batches = plan.execute(partition, context)?;
        let batches = batches.map(move |batch| with_schema(&renamed, &batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The batch with its columns called as readers know them.
fn with_schema(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(
        Arc::clone(schema),
        batch.columns().to_vec(),
    )?)
}

impl fmt::Debug for CorunSharedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CorunSharedExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.origin.label().unwrap_or(&self.label);
        write!(f, "CorunSharedExec: {}, {label}", self.part().name)
    }
}

impl ExecutionPlan for CorunSharedExec {
    fn name(&self) -> &str {
        "CorunSharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.shown.iter().collect()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(plan) = children.pop() else {
            return Ok(self);
        };
        // What stands below one reader is what all of them read.
        self.part().replace_plan(Arc::clone(&plan));
        Ok(Arc::new(CorunSharedExec {
            plan: Arc::clone(&plan),
            shown: Some(plan),
            ..self.as_ref().clone()
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(reader) = self.place.begin(partition, &context)? else {
            return self.execute_again(partition, context);
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        // The stream may outlive the plan, and with it this node.
        let place = Arc::clone(&self.place);
        let state = (reader, place, Arc::clone(&schema), baseline);
        let batches = futures::stream::try_unfold(state, |mut state| async move {
            let (reader, _, schema, baseline) = &mut state;
            let Some(batch) = reader.next().await? else {
                return Ok(None);
            };
            let renamed = with_schema(schema, &batch)?.record_output(baseline);
            Ok(Some((renamed, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.plan.as_ref(), &StatisticsArgs::new())
    }
}

/// A bit for each part that `plan` reads and other statements may read: of those that are not complete, since readers of a complete result
/// need not run at the same time.
///
/// # Errors
/// None of its own.
pub(crate) fn parts_under_way(plan: &Arc<dyn ExecutionPlan>) -> Result<u64> {
    let mut bits = 0;
    plan.apply(|node| {
        let part = node.downcast_ref::<CorunSharedExec>().map(CorunSharedExec::part);
        if let Some(bit) = part.and_then(|part| part.bit()) {
            bits |= bit;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bits)
}

/// What a plan that has run took from other statements.
///
/// # Errors
/// None of its own.
#[cfg(feature = "coordinator")]
pub(crate) fn taken(plan: &Arc<dyn ExecutionPlan>) -> Result<TakenWork> {
    let mut taken = TakenWork::default();
    show_parts(Arc::clone(plan))?.apply(|node| {
        match node.downcast_ref::<CorunSharedExec>().map(|reader| reader.origin) {
            Some(Origin::UnderWay) => taken.parts_under_way += 1,
            Some(Origin::Kept) => taken.parts_kept += 1,
            Some(Origin::Here) | None => {}
        }
        let columns = node
            .metrics()
            .and_then(|metrics| metrics.sum_by_name(crate::keep::COLUMNS_TAKEN));
        taken.columns += columns.map_or(0, |columns| columns.as_usize());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(taken)
}

/// Shows each part that this statement runs below the first of its readers.
pub(crate) fn show_parts(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut shown: Vec<*const Part> = Vec::new();
    let mut show = |node: Arc<dyn ExecutionPlan>| {
        let Some(reader) = node.downcast_ref::<CorunSharedExec>() else {
            return Ok(Transformed::no(node));
        };
        let part = Arc::as_ptr(reader.part());
        let runs_here = reader
            .part()
            .plan()
            .filter(|plan| Arc::ptr_eq(plan, &reader.plan));
        let Some(plan) = runs_here.filter(|_| !shown.contains(&part)) else {
            return Ok(Transformed::no(node));
        };
        shown.push(part);
        let reader = CorunSharedExec {
            shown: Some(plan),
            ..reader.clone()
        };
        Ok(Transformed::new(
            Arc::new(reader) as Arc<dyn ExecutionPlan>,
            true,
            TreeNodeRecursion::Jump,
        ))
    };
    plan.transform_down(&mut show).data()
}
