//! The node that the other library sees: a whole plan of this one.

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use std::fmt;
use std::sync::Arc;

/// A plan with the session it was made in. It has no children: those of another library's types could not be rewritten, and would be encoded
/// node by node.
pub struct CorunPlanExec {
    plan: Arc<dyn ExecutionPlan>,
    /// Of this library: its memory, its files, its functions.
    context: Arc<TaskContext>,
    properties: Arc<PlanProperties>,
}

impl CorunPlanExec {
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Self {
        let partitions = plan.output_partitioning().partition_count();
        // Orders and keys would be encoded, and nobody above asks for them.
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(partitions),
            plan.pipeline_behavior(),
            plan.boundedness(),
        );
        CorunPlanExec {
            plan,
            context,
            properties: Arc::new(properties),
        }
    }

    /// What runs.
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
        self.plan.execute(partition, Arc::clone(&self.context))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.plan.metrics()
    }
}
