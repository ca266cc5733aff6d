//! What the plan around a join costs: the same plan with a node in the join's place that joins nothing.
//!
//! ```text
//!   left (every partition buffered, in parallel)      right (each partition streamed)
//!                        \                              /
//!                         PlanFloorExec: every right batch passes, beside as many buffered left rows
//! ```
//!
//! Scans, buffering, the expressions and aggregates above, and the rows they see are those of a join in which every probe row
//! finds one partner; hashing, lookups and gathers are missing. No join node can be faster in such a plan, so this is the
//! floor of a join in SQL. Answers are meaningless but for their row counts. For benchmarks only; no rule installs it.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    collect, collect_partitioned,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use crate::{Engine, EngineError, QueryOutput};

/// Runs a query with every hash join replaced by the node of this module.
///
/// # Errors
/// Those of planning and running the query; a plan without a hash join.
pub fn plan_floor<'a>(engine: &'a Engine, sql: &'a str) -> BoxFuture<'a, Result<QueryOutput, EngineError>> {
    plan_floor_of(engine, sql).boxed()
}

async fn plan_floor_of(engine: &Engine, sql: &str) -> Result<QueryOutput, EngineError> {
    let frame = engine.context().sql(sql).await?;
    let context = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let mut replaced = 0;
    let plan = plan
        .transform_down(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            replaced += 1;
            Ok(Transformed::yes(
                Arc::new(PlanFloorExec::new(join)) as Arc<dyn ExecutionPlan>
            ))
        })
        .data()?;
    if replaced == 0 {
        return Err(EngineError::new("the plan floor needs a query with a hash join"));
    }
    let schema = plan.schema();
    let batches = collect(plan, context).await?;
    Ok(QueryOutput { schema, batches })
}

/// Stands where a join stood.
struct PlanFloorExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    /// Where each output column comes from.
    sources: Vec<ColumnIndex>,
    properties: Arc<PlanProperties>,
    buffer: Arc<OnceCell<Vec<RecordBatch>>>,
}

impl PlanFloorExec {
    fn new(join: &HashJoinExec) -> Self {
        let (_, all) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
        let sources = match join.projection.as_ref() {
            Some(projection) => projection.iter().map(|&index| all[index].clone()).collect(),
            None => all,
        };
        let right = without_repartitioning(join.right());
        Self::over(without_repartitioning(join.left()), right, sources, join.schema())
    }

    fn over(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        sources: Vec<ColumnIndex>,
        schema: SchemaRef,
    ) -> Self {
        let partitions = right.output_partitioning().partition_count();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        PlanFloorExec {
            left,
            right,
            sources,
            properties,
            buffer: Arc::default(),
        }
    }
}

/// The input of a hash repartitioning, because a join over one shared table needs none.
fn without_repartitioning(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<RepartitionExec>() {
        Some(repartition) => Arc::clone(repartition.input()),
        None => Arc::clone(plan),
    }
}

/// `right` beside left rows, in pieces no longer than the left batches they are paired with.
fn paired(
    left: &[RecordBatch],
    right: &RecordBatch,
    sources: &[ColumnIndex],
    schema: &SchemaRef,
    next: &mut usize,
) -> Result<Vec<RecordBatch>> {
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < right.num_rows() && !left.is_empty() {
        let beside = &left[*next % left.len()];
        *next += 1;
        let rows = beside.num_rows().min(right.num_rows() - done);
        let columns = sources.iter().map(|source| match source.side {
            JoinSide::Left => beside.column(source.index).slice(0, rows),
            _ => right.column(source.index).slice(done, rows),
        });
        pieces.push(RecordBatch::try_new(Arc::clone(schema), columns.collect())?);
        done += rows;
    }
    Ok(pieces)
}

impl fmt::Debug for PlanFloorExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for PlanFloorExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlanFloorExec")
    }
}

impl ExecutionPlan for PlanFloorExec {
    fn name(&self) -> &str {
        "PlanFloorExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([left, right]) = <[_; 2]>::try_from(children) else {
            return internal_err!("a plan floor has two children");
        };
        Ok(Arc::new(Self::over(
            left,
            right,
            self.sources.clone(),
            self.schema(),
        )))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let probe = self.right.execute(partition, Arc::clone(&context))?;
        let (left, buffer) = (Arc::clone(&self.left), Arc::clone(&self.buffer));
        let (sources, schema) = (self.sources.clone(), self.schema());
        let buffered = async move {
            let read = async {
                let partitions = collect_partitioned(left, context).await?;
                Ok::<Vec<RecordBatch>, DataFusionError>(partitions.into_iter().flatten().collect())
            };
            let left = buffer.get_or_try_init(|| read).await?.clone();
            let mut next = 0;
            Ok::<_, DataFusionError>(probe.flat_map(move |right| {
                let pieces = right.and_then(|right| paired(&left, &right, &sources, &schema, &mut next));
                futures::stream::iter(match pieces {
                    Ok(pieces) => pieces.into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(error)],
                })
            }))
        };
        let batches = futures::stream::once(buffered).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::{EngineOptions, Joins};

    #[tokio::test]
    async fn every_probe_row_passes_once() {
        let schema = |names: [&str; 2]| {
            Arc::new(Schema::new(
                names
                    .map(|name| Field::new(name, DataType::Int64, false))
                    .to_vec(),
            ))
        };
        let batch = |schema: &SchemaRef, rows: i64| {
            let column = Arc::new(Int64Array::from_iter_values(0..rows));
            RecordBatch::try_new(Arc::clone(schema), vec![column.clone(), column]).unwrap()
        };
        for partitions in [1, 3] {
            let options = EngineOptions {
                partitions,
                joins: Joins::Stock,
                ..EngineOptions::default()
            };
            let engine = Engine::new(&options).unwrap();
            let (build, probe) = (schema(["k", "v"]), schema(["pk", "pv"]));
            engine
                .register_batches("b", build.clone(), vec![vec![batch(&build, 100)]; partitions])
                .unwrap();
            engine
                .register_batches("p", probe.clone(), vec![vec![batch(&probe, 5000)]; partitions])
                .unwrap();
            let sql = "select count(*), sum(p.pv), min(b.v) from b join p on p.pk = b.k";
            let output = plan_floor(&engine, sql).await.unwrap();
            let cell = |column: usize| {
                output.batches[0]
                    .column(column)
                    .as_any()
                    .downcast_ref::<Int64Array>()
                    .unwrap()
                    .value(0)
            };
            let rows = 5000 * partitions as i64;
            assert_eq!((cell(0), cell(1), cell(2)), (rows, rows * 4999 / 2, 0));
            assert!(plan_floor(&engine, "select 1").await.is_err());
        }
    }
}
