//! The node that the other library sees: a whole plan of this one.

use crate::threads;
use arrow::datatypes::SchemaRef;
use corun_datafusion::Coordinator;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// A plan with the session it was made in. It has no children: those of another library's types could not be rewritten, and would be encoded
/// node by node.
pub struct CorunPlanExec {
    plan: Arc<dyn ExecutionPlan>,
    runs: Runs,
    properties: Arc<PlanProperties>,
}

/// How a plan runs.
pub(crate) enum Runs {
    /// As soon as it is asked for rows, in this library's session: its memory, its files, its functions.
    AtOnce(Arc<TaskContext>),
    /// When the coordinator lets it, which plans the statement anew for the cores that it gives it.
    Coordinated {
        coordinator: Coordinator,
        context: SessionContext,
        statement: Box<LogicalPlan>,
    },
}

impl CorunPlanExec {
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>, runs: Runs) -> Self {
        let partitions = match runs {
            Runs::AtOnce(_) => plan.output_partitioning().partition_count(),
            Runs::Coordinated { .. } => 1,
        };
        // Orders and keys would be encoded, and nobody above asks for them.
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(partitions),
            plan.pipeline_behavior(),
            plan.boundedness(),
        );
        CorunPlanExec {
            plan,
            runs,
            properties: Arc::new(properties),
        }
    }

    /// What runs, or is expected to where a coordinator decides.
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }
}

impl fmt::Debug for CorunPlanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CorunPlanExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CorunPlanExec")
    }
}

impl ExecutionPlan for CorunPlanExec {
    fn name(&self) -> &str {
        "CorunPlanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a plan of corun's has no children"),
        }
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match &self.runs {
            Runs::AtOnce(context) => self.plan.execute(partition, Arc::clone(context)),
            Runs::Coordinated {
                coordinator,
                context,
                statement,
            } => coordinated(self.schema(), coordinator.clone(), context.clone(), statement),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.plan.metrics()
    }
}

/// The rows of a statement, which waits for its turn when somebody asks for them.
fn coordinated(
    schema: SchemaRef,
    coordinator: Coordinator,
    context: SessionContext,
    statement: &LogicalPlan,
) -> Result<SendableRecordBatchStream> {
    let statement = statement.clone();
    let threads = threads::handle()?;
    let outside = |error| DataFusionError::External(Box::new(error));
    // On threads of this library; a statement that nobody waits for any more is cancelled.
    let submitted = async move { coordinator.submit_plan(&context, statement).await };
    let rows = async move { threads.spawn(submitted).await }
        .map_err(|panic| DataFusionError::External(Box::new(panic)))
        .and_then(move |submitted| async move { submitted.map_err(outside) })
        .map_ok(move |rows| rows.map_err(outside))
        .try_flatten_stream();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
}
