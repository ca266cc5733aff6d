//! Sessions of corun's own, for programs that need no other part of `datafusion`.

use super::rows::{Rows, batches_of};
use super::{failed, wait, wait_and_tell};
use async_trait::async_trait;
use corun_datafusion::{Coordinator, CoordinatorOptions, Engine, EngineError, EngineOptions};
use datafusion::catalog::Session as Planning;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

tokio::task_local! {
    /// The plan of the statement that this task plans, for whoever tells how far it is.
    static PLANNED: Slot;
}

type Slot = Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>;

/// SQL over files, Arrow tables and data frames, on corun's operators.
#[pyclass(frozen, module = "datafusion_corun")]
pub(super) struct Session {
    engine: Engine,
    coordinator: Option<Coordinator>,
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (*, partitions = None, memory_limit = None, settings = None, coordinator = false))]
    fn new(
        partitions: Option<usize>,
        memory_limit: Option<usize>,
        settings: Option<Vec<(String, String)>>,
        coordinator: bool,
    ) -> PyResult<Self> {
        let usual = EngineOptions::default();
        let options = EngineOptions {
            partitions: partitions.unwrap_or(usual.partitions),
            memory_limit_bytes: memory_limit,
            settings: settings.unwrap_or_default(),
            ..usual
        };
        let engine = Engine::with(&options, |state| noted(corun_datafusion::install(state)));
        let engine = engine.map_err(failed)?;
        let start = || {
            let options = CoordinatorOptions::for_machine(&corun_topology::discover(), None)?;
            Coordinator::new(&engine, options)
        };
        let coordinator: Option<Result<Coordinator, EngineError>> = coordinator.then(start);
        Ok(Session {
            coordinator: coordinator.transpose().map_err(failed)?,
            engine,
        })
    }

    /// Makes a Parquet or CSV file, a folder of either, or a table of pyarrow's, Polars' or pandas' a table.
    fn register(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(path) = data.extract::<PathBuf>() {
            return wait(py, self.engine.register_path(name, &path))?.map_err(failed);
        }
        let (schema, batches) = batches_of(data)?;
        self.engine
            .register_batches(name, schema, vec![batches])
            .map_err(failed)
    }

    /// Names of the tables.
    #[getter]
    fn tables(&self) -> Vec<String> {
        self.engine.tables()
    }

    /// Runs a statement. `progress` is called with the part, 0 to 1, of the rows of files and tables that have been read, ten times a second.
    #[pyo3(signature = (statement, *, progress = None))]
    fn sql(&self, py: Python<'_>, statement: &str, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Rows> {
        let planned = Slot::default();
        let rows = async {
            match &self.coordinator {
                None => Ok(Rows::new(self.engine.query(statement).await?, None)),
                Some(coordinator) => {
                    let (output, report) = coordinator.query(statement).await?;
                    Ok(Rows::new(output, Some(report)))
                }
            }
        };
        let rows = PLANNED.scope(Arc::clone(&planned), rows);
        let progress = progress.map(|progress| progress.clone().unbind());
        let tell = |py: Python<'_>| {
            let Some(progress) = &progress else { return Ok(()) };
            match planned.lock().as_ref().and_then(part_read) {
                Some(part) => progress.call1(py, (part,)).map(drop),
                None => Ok(()),
            }
        };
        let rows: Result<Rows, EngineError> = wait_and_tell(py, rows, tell)?;
        let rows = rows.map_err(failed)?;
        if let Some(progress) = &progress {
            progress.call1(py, (1.0,))?;
        }
        Ok(rows)
    }

    /// The plan of a query as indented text; with `analyze`, the query runs, and the text has its metrics.
    #[pyo3(signature = (query, *, analyze = false))]
    fn explain(&self, py: Python<'_>, query: &str, analyze: bool) -> PyResult<String> {
        wait(py, self.engine.explain(query, analyze))?.map_err(failed)
    }
}

/// The part of their rows that a plan's leaves have given; `None` where nobody knows how many they have.
fn part_read(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    let (mut read, mut all) = (0, 0);
    let mut nodes = vec![plan];
    while let Some(node) = nodes.pop() {
        nodes.extend(node.children());
        if !node.children().is_empty() {
            continue;
        }
        let statistics = StatisticsContext::new().compute(node.as_ref(), &StatisticsArgs::new());
        let rows = statistics.ok()?.num_rows.get_value().copied()?;
        all += rows;
        read += node
            .metrics()
            .and_then(|metrics| metrics.output_rows())
            .unwrap_or(0)
            .min(rows);
    }
    (all > 0).then(|| read as f64 / all as f64)
}

/// The planner of a session, with a note of each plan where somebody wants one.
fn noted(mut state: SessionStateBuilder) -> SessionStateBuilder {
    match state.query_planner().take() {
        Some(planner) => state.with_query_planner(Arc::new(Noted(planner))),
        None => state,
    }
}

#[derive(Debug)]
struct Noted(Arc<dyn QueryPlanner + Send + Sync>);

#[async_trait]
impl QueryPlanner for Noted {
    async fn create_physical_plan(
        &self,
        statement: &LogicalPlan,
        session: &dyn Planning,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let plan = self.0.create_physical_plan(statement, session).await?;
        // Without a note nobody asked.
        let _ = PLANNED.try_with(|planned| *planned.lock() = Some(Arc::clone(&plan)));
        Ok(plan)
    }
}
