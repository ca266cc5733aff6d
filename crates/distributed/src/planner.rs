//! Which statements go to the workers: those over files. What only this process has, tables in memory or of a store, stays here, and so
//! does what is too small to be cut.

use crate::cluster::Cluster;
use crate::codec;
use crate::run::ClusterExec;
use crate::stage::file_scan;
use async_trait::async_trait;
use corun_datafusion::rule::CacheConsciousJoins;
use datafusion::catalog::Session;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_distributed::{DistributedExec, SessionStateBuilderExt};
use std::sync::Arc;

/// Plans statements, and cuts the plans into stages.
#[derive(Debug)]
pub(crate) struct ClusterPlanner {
    /// Plans for one machine, with operators that travel; `None`: DataFusion's own.
    whole: Option<Arc<dyn QueryPlanner + Send + Sync>>,
    cluster: Cluster,
}

impl ClusterPlanner {
    pub(crate) fn new(whole: Option<Arc<dyn QueryPlanner + Send + Sync>>, cluster: Cluster) -> Self {
        ClusterPlanner { whole, cluster }
    }
}

#[async_trait]
impl QueryPlanner for ClusterPlanner {
    async fn create_physical_plan(
        &self,
        statement: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let whole = match &self.whole {
            Some(planner) => planner.create_physical_plan(statement, session).await?,
            None => {
                DefaultPhysicalPlanner::default()
                    .create_physical_plan(statement, session)
                    .await?
            }
        };
        let Some(session) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("statements for workers are planned in a session");
        };
        self.cluster.look_for_those_away().await;
        Ok(match placed(&whole, session).await? {
            Placed::Here(plan) => plan,
            Placed::OnWorkers(stages) => Arc::new(ClusterExec::new(
                stages,
                whole,
                session.clone(),
                self.cluster.clone(),
            )),
        })
    }
}

/// Where a plan runs, and with which operators.
pub(crate) enum Placed {
    /// In this process, on corun's.
    Here(Arc<dyn ExecutionPlan>),
    /// In stages, on those that the workers put in.
    OnWorkers(Arc<dyn ExecutionPlan>),
}

/// Cuts a plan into stages, where that can be.
pub(crate) async fn placed(whole: &Arc<dyn ExecutionPlan>, session: &SessionState) -> Result<Placed> {
    Ok(match in_stages(whole, session).await? {
        Some(stages) => Placed::OnWorkers(stages),
        None => {
            let plan = Arc::clone(whole);
            Placed::Here(CacheConsciousJoins::new().optimize(plan, session.config_options())?)
        }
    })
}

/// The plan cut into stages, or `None` where it is to run here.
async fn in_stages(
    whole: &Arc<dyn ExecutionPlan>,
    session: &SessionState,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if whole.exists(|node| Ok(is_only_here(node) || needs_constants(node)))? {
        return Ok(None);
    }
    let mut builder = SessionStateBuilder::new()
        .with_query_planner(Arc::new(Planned(Arc::clone(whole))))
        .with_distributed_planner();
    let Some(planner) = builder.query_planner().take() else {
        return internal_err!("there is no planner of stages");
    };
    // Its planner asks the one before it for a plan, whatever the statement.
    let nothing = LogicalPlanBuilder::empty(false).build()?;
    let stages = planner.create_physical_plan(&nothing, session).await?;
    if !stages.exists(|node| Ok(node.is::<DistributedExec>()))? {
        return Ok(None);
    }
    // A stage that cannot be encoded would never arrive, and those that wait for its rows would wait in vain.
    if let Err(error) = codec::encodes(whole) {
        tracing::debug!(%error, "a plan stays here");
        return Ok(None);
    }
    Ok(Some(stages))
}

/// Whether a node reads what other processes do not have.
fn is_only_here(node: &Arc<dyn ExecutionPlan>) -> bool {
    let reads_nothing = node.is::<EmptyExec>() || node.is::<PlaceholderRowExec>();
    node.children().is_empty() && file_scan(node).is_none() && !reads_nothing
}

/// Whether a window's rows are sorted by all its keys only because some of these are constants. `datafusion-distributed` 4.0 forgets
/// constants where it cuts a plan, and the window would find its keys unsorted then.
fn needs_constants(node: &Arc<dyn ExecutionPlan>) -> bool {
    let (windows, input) = if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        if window.input_order_mode != InputOrderMode::Sorted {
            return false;
        }
        (window.window_expr(), window.input())
    } else if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.input())
    } else {
        return false;
    };
    let is_sorted_by = |key: &Arc<dyn PhysicalExpr>| {
        let sorted = input.output_ordering();
        sorted.is_some_and(|sorted| sorted.iter().any(|sorted| sorted.expr.eq(key)))
    };
    let mut keys = windows.iter().flat_map(|window| window.partition_by());
    keys.any(|key| !is_sorted_by(key))
}

/// Gives the plan that there is.
#[derive(Debug)]
struct Planned(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Planned {
    async fn create_physical_plan(
        &self,
        _statement: &LogicalPlan,
        _session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}
