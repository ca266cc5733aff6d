//! One run of a statement on the workers: with the session's settings, and again where a worker is lost before there was a row.

use crate::cluster::Cluster;
use crate::planner::{Placed, placed};
use crate::{loss, settings};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use datafusion_distributed::DistributedExt;
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// How often a statement is run again. One that writes files is not: those of the first run may be there.
const AGAIN_MAX: usize = 2;

/// The root of a plan that runs on workers.
pub(crate) struct ClusterExec {
    /// The plan in stages.
    stages: Arc<dyn ExecutionPlan>,
    /// The plan for one machine, to cut it anew for the workers that are left.
    whole: Arc<dyn ExecutionPlan>,
    session: SessionState,
    cluster: Cluster,
}

impl ClusterExec {
    pub(crate) fn new(
        stages: Arc<dyn ExecutionPlan>,
        whole: Arc<dyn ExecutionPlan>,
        session: SessionState,
        cluster: Cluster,
    ) -> Self {
        ClusterExec {
            stages,
            whole,
            session,
            cluster,
        }
    }
}

/// The plan cut for the workers that are left.
async fn cut_anew(
    whole: &Arc<dyn ExecutionPlan>,
    session: &SessionState,
    cluster: &Cluster,
) -> Result<Arc<dyn ExecutionPlan>> {
    cluster.look().await;
    let whole = reset_plan_states(Arc::clone(whole))?;
    Ok(match placed(&whole, session).await? {
        Placed::Here(plan) | Placed::OnWorkers(plan) => plan,
    })
}

impl ExecutionPlan for ClusterExec {
    fn name(&self) -> &str {
        "ClusterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stages.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.stages]
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
        match children.pop() {
            Some(stages) => Ok(Arc::new(ClusterExec::new(
                stages,
                Arc::clone(&self.whole),
                self.session.clone(),
                self.cluster.clone(),
            ))),
            None => internal_err!("a run on workers has one child"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("a run on workers has one partition");
        }
        let config = context.session_config().clone();
        let headers = settings::to_headers(&config)?;
        let config = config.with_distributed_passthrough_headers(headers)?;
        let of_session = TaskContext::from(&self.session);
        let context = of_session
            .with_session_config(config)
            .with_runtime(context.runtime_env());
        let context = Arc::new(context);
        let (mut stages, whole) = (Arc::clone(&self.stages), Arc::clone(&self.whole));
        let (session, cluster) = (self.session.clone(), self.cluster.clone());
        let writes = whole.exists(|node| Ok(node.is::<DataSinkExec>()))?;
        let mut again = if writes { 0 } else { AGAIN_MAX };
        let rows = async move {
            loop {
                let mut rows = execute_stream(stages, Arc::clone(&context))?;
                match rows.next().await {
                    Some(Err(error)) if again > 0 && loss::is_loss(&error) => {
                        drop(rows);
                        again -= 1;
                        tracing::warn!(why = loss::plain(&error), "runs the statement again");
                        stages = cut_anew(&whole, &session, &cluster).await?;
                    }
                    first => return Ok::<_, DataFusionError>(stream::iter(first).chain(rows)),
                }
            }
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

impl DisplayAs for ClusterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterExec: workers={}", self.cluster.answering().len())
    }
}

impl fmt::Debug for ClusterExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterExec")
            .field("stages", &self.stages)
            .finish_non_exhaustive()
    }
}
