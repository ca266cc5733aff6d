//! Plans that can be stopped: their operators let go of the thread now and then, and those that cannot look whether they still should run.
//!
//! A task of tokio ends where it waits. DataFusion's sources take of tokio's budget and so wait now and then; what stands above an operator that
//! makes many rows of few (a join without a condition, `unnest`) may take all of them in one poll. [`stoppable`] puts DataFusion's own
//! [`CooperativeExec`] above those. A nested loop join whose condition no pair fulfils returns nothing for a long time: its condition looks at the
//! [`Stop`] of the statement, for each stretch of pairs that it is evaluated for. What remains is one call of a function and one batch of rows.
//!
//! Who drops the rows of a statement sets its stop: [`execute_apart`] does for plans that run without a coordinator.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Batches made ahead of who reads them.
const BATCHES_AHEAD: usize = 2;

/// Operators that make many batches of one, and take nothing of the budget.
const EXPANDING: [&str; 7] = [
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "PiecewiseMergeJoin",
    "UnnestExec",
    "RecursiveQueryExec",
];

/// The root of what runs on other machines.
const ELSEWHERE: &str = "ClusterExec";

/// Whether a statement should end. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on it should.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Stops its statement when it is dropped.
#[derive(Debug)]
pub(crate) struct StopOnDrop(pub Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The same plan, whose operators let go of their thread or look at `stop`; nodes that need nothing stay the same ones.
///
/// # Errors
/// Nodes that cannot be given new inputs.
pub fn stoppable(plan: Arc<dyn ExecutionPlan>, stop: &Stop) -> Result<Arc<dyn ExecutionPlan>> {
    // What runs elsewhere is sent there as it was planned.
    if plan.exists(|node| Ok(node.name() == ELSEWHERE))? {
        return Ok(plan);
    }
    let changed = plan.transform_up(|node| {
        if !EXPANDING.contains(&node.name()) {
            return Ok(Transformed::no(node));
        }
        let node = match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => watched(join, stop)?.unwrap_or(node),
            None => node,
        };
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node))))
    });
    changed.data()
}

/// The join with a condition that looks at `stop`; `None` if it has none.
fn watched(join: &NestedLoopJoinExec, stop: &Stop) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = join.filter() else {
        return Ok(None);
    };
    let condition = Watched {
        inner: Arc::clone(filter.expression()),
        stop: stop.clone(),
    };
    let (columns, schema) = (filter.column_indices().to_vec(), Arc::clone(filter.schema()));
    let filter = JoinFilter::new(Arc::new(condition), columns, schema);
    let join = NestedLoopJoinExecBuilder::from(join)
        .with_filter(Some(filter))
        .build()?;
    Ok(Some(Arc::new(join)))
}

/// Runs a plan in a task of its own, so that who reads its rows can leave while an operator has the thread. Dropping the stream ends the plan;
/// `stop` is that of [`stoppable`].
///
/// # Errors
/// What the plan says when it starts.
pub fn execute_apart(
    plan: Arc<dyn ExecutionPlan>,
    stop: Stop,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = plan.schema();
    let mut rows = execute_stream(plan, context)?;
    let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
    let mut task = JoinSet::new();
    task.spawn(async move {
        while let Some(batch) = rows.next().await {
            if sender.send(batch).await.is_err() {
                break;
            }
        }
    });
    let state = (receiver, task, StopOnDrop(stop));
    let batches = futures::stream::unfold(state, |(mut receiver, mut task, stop)| async move {
        let batch = match receiver.recv().await {
            Some(batch) => batch,
            // At the end the task has none to tell of; it has one where it panicked.
            None => Err(exec_datafusion_err!(
                "the statement failed: {}",
                task.join_next().await?.err()?
            )),
        };
        Some((batch, (receiver, task, stop)))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
}

/// An expression that fails once its statement should end.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn PhysicalExpr>,
    stop: Stop,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for Watched {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.inner.data_type(input_schema)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.inner.nullable(input_schema)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.stop.is_stopped() {
            true => exec_err!("the statement was stopped"),
            false => self.inner.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let [inner] = children.as_slice() else {
            return exec_err!("a condition has one child, not {}", children.len());
        };
        Ok(Arc::new(Watched {
            inner: Arc::clone(inner),
            stop: self.stop.clone(),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
