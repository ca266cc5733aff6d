//! The planner behind the foreign interface, as another library calls it: statements and plans cross it encoded or by number.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use corun_python::{CorunPlanExec, Extension};
use datafusion::catalog::MemTable;
use datafusion::execution::TaskContextProvider;
use datafusion::execution::context::QueryPlanner;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, displayable};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_ffi::execution::FFI_TaskContextProvider;
use datafusion_ffi::query_planner::{FFI_QueryPlanner, ForeignQueryPlanner};

extern "C" fn elsewhere() -> usize {
    0
}

struct Host {
    context: Arc<SessionContext>,
    /// Only asked weakly by the interface.
    _contexts: Arc<dyn TaskContextProvider>,
    planner: ForeignQueryPlanner,
}

impl Host {
    fn new(extension: &Extension) -> Host {
        let config = SessionConfig::new().with_target_partitions(2);
        let context = Arc::new(SessionContext::new_with_config(config));
        let contexts: Arc<dyn TaskContextProvider> = context.clone();
        let provider = || FFI_TaskContextProvider::from(&contexts);
        let (logical, physical) = (
            extension.logical_codec(provider()),
            extension.physical_codec(provider()),
        );
        let stock = context.state().query_planner().clone();
        let fallback = FFI_QueryPlanner::new_with_ffi_codecs(stock, logical.clone(), physical.clone());
        let mut planner = extension.planner(fallback, logical, physical);
        planner.library_marker_id = elsewhere;
        Host {
            context,
            _contexts: contexts,
            planner: ForeignQueryPlanner(planner),
        }
    }

    async fn plan(&self, sql: &str) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let state = self.context.state();
        let statement = state.create_logical_plan(sql).await?;
        let statement = state.optimize(&statement)?;
        self.planner.create_physical_plan(&statement, &state).await
    }

    async fn rows(&self, sql: &str) -> String {
        let plan = self.plan(sql).await.expect("a plan");
        let batches = collect(plan, self.context.task_ctx()).await.expect("rows");
        batches
            .iter()
            .map(|batch| format!("{:?}", batch.columns()))
            .collect()
    }
}

fn table(keys: std::ops::Range<i64>) -> Arc<MemTable> {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let keys = Arc::new(Int64Array::from_iter_values(keys));
    let batch = RecordBatch::try_new(schema.clone(), vec![keys]).expect("a batch");
    Arc::new(MemTable::try_new(schema, vec![vec![batch]]).expect("a table"))
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    let plan = plan
        .downcast_ref::<CorunPlanExec>()
        .map_or(plan, CorunPlanExec::plan);
    displayable(plan.as_ref()).indent(false).to_string()
}

const JOIN: &str = "select count(*), sum(a.k) from a join b on a.k = b.k";

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_runs_queries_and_nothing_else() {
    let extension = Extension::new(None, true).expect("an extension");
    let host = Host::new(&extension);
    for (name, keys) in [("a", 0..1000), ("b", 0..100)] {
        host.context.register_table(name, table(keys)).expect("a table");
    }
    let plan = host.plan(JOIN).await.expect("a plan");
    assert_eq!(plan.output_partitioning().partition_count(), 1);
    let answers = futures::future::join_all((0..8).map(|_| host.rows(JOIN))).await;
    for answer in answers {
        assert!(answer.contains("100,") && answer.contains("4950,"), "{answer}");
    }
    let explained = host.rows(&format!("explain {JOIN}")).await;
    assert!(explained.contains("CorunJoinExec"), "{explained}");
    let plan = host
        .plan("select a.k / (b.k - b.k) from a join b on a.k = b.k")
        .await
        .expect("a plan");
    let error = collect(plan, host.context.task_ctx()).await;
    let error = error.expect_err("a division by zero").to_string();
    assert!(error.to_lowercase().contains("divide by zero"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_planned_with_coruns_operators() {
    let extension = Extension::new(None, false).expect("an extension");
    let host = Host::new(&extension);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.parquet");
    let copy = format!(
        "copy (select value as k from generate_series(1, 1000)) to '{}'",
        file.display()
    );
    SessionContext::new()
        .sql(&copy)
        .await
        .expect("a statement")
        .collect()
        .await
        .expect("written");
    let file = file.display().to_string();
    host.context
        .register_parquet("a", file, ParquetReadOptions::default())
        .await
        .expect("a file");
    host.context.register_table("b", table(0..100)).expect("a table");

    let plan = host.plan(JOIN).await.expect("a plan");
    assert!(plan.is::<CorunPlanExec>());
    let text = shown(&plan);
    assert!(
        text.contains("CorunJoinExec") && text.contains("GuestExec") && text.contains("a.parquet"),
        "{text}"
    );
    let rows = host.rows(JOIN).await;
    assert!(rows.contains("99,") && rows.contains("4950,"), "{rows}");

    let explained = host.rows(&format!("explain {JOIN}")).await;
    assert!(
        explained.contains("CorunJoinExec") && explained.contains("logical_plan"),
        "{explained}"
    );
    let refused = host
        .plan("insert into b values (1)")
        .await
        .expect_err("it writes");
    assert!(refused.to_string().contains("paused"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_corun_the_planner_before_it_plans() {
    let extension = Extension::new(Some(64 << 20), false).expect("an extension");
    let host = Host::new(&extension);
    host.context.register_table("a", table(0..10)).expect("a table");
    host.context.register_table("b", table(5..20)).expect("a table");
    assert!(shown(&host.plan(JOIN).await.expect("a plan")).contains("CorunJoinExec"));
    extension.set("corun.join", "off").expect("an option");
    let text = shown(&host.plan(JOIN).await.expect("a plan"));
    assert!(text.contains("HashJoinExec") && !text.contains("Corun"), "{text}");
    let explained = host.rows(&format!("explain {JOIN}")).await;
    assert!(explained.contains("HashJoinExec"), "{explained}");
    extension
        .set("corun.join", "sideways")
        .expect_err("no such value");
    extension.set("corun.no_such", "on").expect_err("no such option");
    assert!(shown(&host.plan(JOIN).await.expect("a plan")).contains("HashJoinExec"));
}
