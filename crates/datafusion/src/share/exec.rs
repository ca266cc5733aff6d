//! `CorunSharedExec`: one reader of a part that runs once.

use super::buffer::{Buffer, Reader};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput, SpillMetrics,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    Statistics, StatisticsArgs, StatisticsContext,
};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// One of several readers of a part of a statement.
#[derive(Clone)]
pub struct CorunSharedExec {
    shared: Arc<Shared>,
    reader: usize,
    /// The part, shown below one of its readers.
    shown: Option<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What the readers share.
struct Shared {
    name: String,
    readers: usize,
    state: Mutex<SharedState>,
    metrics: ExecutionPlanMetricsSet,
}

struct SharedState {
    plan: Arc<dyn ExecutionPlan>,
    /// Executions of the plan, and by partition which readers of it have begun.
    runs: Vec<Run>,
}

struct Run {
    plan: Arc<dyn ExecutionPlan>,
    partitions: Vec<PartitionRun>,
}

#[derive(Default, Clone)]
struct PartitionRun {
    buffer: Option<Arc<Buffer>>,
    begun: Vec<usize>,
}

impl CorunSharedExec {
    /// The first reader of `plan`, whose columns are called as in `schema`.
    pub(super) fn new(name: &str, plan: Arc<dyn ExecutionPlan>, schema: SchemaRef, readers: usize) -> Self {
        let partitions = plan.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        CorunSharedExec {
            shared: Arc::new(Shared {
                name: name.to_owned(),
                readers,
                state: Mutex::new(SharedState {
                    plan,
                    runs: Vec::new(),
                }),
                metrics: ExecutionPlanMetricsSet::new(),
            }),
            reader: 0,
            shown: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Another reader of the same part.
    pub(super) fn reader(&self, reader: usize) -> Self {
        CorunSharedExec {
            reader,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }
}

impl Shared {
    /// The batches of a partition for a reader: of the first run of the plan that this reader has not begun there. Who executes a
    /// plan twice reads twice.
    fn buffer(&self, reader: usize, partition: usize, context: &Arc<TaskContext>) -> Result<Arc<Buffer>> {
        let mut state = self.state.lock();
        let of_others = state
            .runs
            .iter()
            .position(|run| !run.partitions[partition].begun.contains(&reader));
        let at = match of_others {
            Some(at) => at,
            None => {
                let plan = match state.runs.is_empty() {
                    true => Arc::clone(&state.plan),
                    false => reset_plan_states(Arc::clone(&state.plan))?,
                };
                let partitions = vec![PartitionRun::default(); plan.output_partitioning().partition_count()];
                state.runs.push(Run { plan, partitions });
                state.runs.len() - 1
            }
        };
        let run = &mut state.runs[at];
        let slot = &mut run.partitions[partition];
        slot.begun.push(reader);
        let buffer = match slot.buffer.take() {
            Some(buffer) => buffer,
            None => {
                let input = run.plan.execute(partition, Arc::clone(context))?;
                let metrics = SpillMetrics::new(&self.metrics, partition);
                Buffer::start(&self.name, self.readers, input, context, metrics)
            }
        };
        if slot.begun.len() < self.readers {
            slot.buffer = Some(Arc::clone(&buffer));
        }
        Ok(buffer)
    }
}

impl fmt::Debug for CorunSharedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CorunSharedExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, readers, .. } = self.shared.as_ref();
        write!(
            f,
            "CorunSharedExec: {name}, reader {} of {readers}",
            self.reader + 1
        )
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
        self.shared.state.lock().plan = Arc::clone(&plan);
        Ok(Arc::new(CorunSharedExec {
            shown: Some(plan),
            ..self.as_ref().clone()
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let buffer = self.shared.buffer(self.reader, partition, &context)?;
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let reader = Reader::new(buffer, self.reader);
        let schema = self.schema();
        let batches =
            futures::stream::try_unfold((reader, Arc::clone(&schema), baseline), |mut state| async move {
                let (reader, schema, baseline) = &mut state;
                let Some(batch) = reader.next().await? else {
                    return Ok(None);
                };
                let renamed = RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec())?;
                let renamed = renamed.record_output(baseline);
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
        let plan = Arc::clone(&self.shared.state.lock().plan);
        StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())
    }
}

/// Shows each shared part below the first of its readers.
pub(crate) fn show_parts(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut shown: Vec<*const Shared> = Vec::new();
    let mut show = |node: Arc<dyn ExecutionPlan>| {
        let Some(reader) = node.downcast_ref::<CorunSharedExec>() else {
            return Ok(Transformed::no(node));
        };
        let shared = Arc::as_ptr(&reader.shared);
        if shown.contains(&shared) {
            return Ok(Transformed::no(node));
        }
        shown.push(shared);
        let plan = Arc::clone(&reader.shared.state.lock().plan);
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
