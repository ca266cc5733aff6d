//! What is decided about a query before it runs: from a logical plan to a physical one whose locality is known and was chosen.
//!
//! ```text
//!   logical plan ─ DataFusion ─▶ physical plan ─ shape ─▶ pipelines, tables, cost ─┐
//!                                 └ steered: other joins through an index ─▶ ……   ─┴─▶ corun_model::cache::plan_choice ─▶ Planned
//! ```
//!
//! Order of calls: [`plan`]; after the query has run, [`Planned::built`], which also remembers sizes for the next plan of the
//! kind. Nothing here runs a query or knows what else runs.
//!
//! | file | what |
//! | --- | --- |
//! | `shape` | a physical plan as the cache sees it |
//! | `reader`, `reader_joins`, `reader_scans` | the walk that finds it |
//! | `leaf` | samples of in-memory tables |
//! | `relation` | what is known of rows on their way |
//! | `size` | bytes of hash tables |
//! | `alternatives` | forms of a plan, and which is taken |
//! | `built` | sizes that tables turned out to have |
//! | `facade` | decisions without a coordinator |
//! | `memory` | what a session remembers |
//! | `text` | all of it in words |

mod alternatives;
mod built;
pub(crate) mod decision;
pub(crate) mod facade;
mod leaf;
mod memory;
mod names;
mod reader;
mod reader_joins;
mod reader_scans;
mod relation;
mod shape;
mod size;
mod statement;
pub(crate) mod text;

use crate::{EngineError, Stop, join_order};
use corun_model::cache::locality::{Classifier, Footprint, Thresholds};
use corun_model::cache::pipeline::{PlanShape, pipelines};
use corun_model::cache::plan_choice::ChoiceRule;
use corun_model::cache::slowdown::StatementId;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use decision::{Decision, JoinOrder, PipelineReport, TableBuilt};
use memory::Memory;
use shape::Table;
use std::sync::Arc;
use text::decision_text;

/// What a query is planned for.
pub(crate) struct PlanRequest<'a> {
    /// The session: tables and settings.
    pub context: &'a SessionContext,
    /// Partitions of the plan.
    pub partitions: usize,
    /// The cache, and what it calls strong, moderate and weak.
    pub classifier: Classifier,
    /// How to choose among forms of the plan; `None`: the cheapest.
    pub choice: Option<ChoiceRule>,
    /// What stops it while it runs; `None`: it will not run.
    pub stop: Option<Stop>,
}

/// A query ready to run.
pub(crate) struct Planned {
    /// The logical plan, optimised.
    pub optimized: LogicalPlan,
    /// The physical plan.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The context to execute it in.
    pub task: Arc<TaskContext>,
    /// What was decided.
    pub decision: Decision,
    /// Which statement it is, whatever its constants.
    pub statement: StatementId,
    shape: PlanShape,
    tables: Vec<Table>,
    memory: Arc<Memory>,
}

/// Plans a query (not DDL, not `EXPLAIN`) as parsed, not optimised.
///
/// # Errors
/// Whatever DataFusion's optimizer and planner report.
pub(crate) async fn plan(request: &PlanRequest<'_>, logical: &LogicalPlan) -> Result<Planned, EngineError> {
    let statement = statement::statement_id(logical)?;
    let memory = Memory::of(request.context);
    let mut state = request.context.state();
    state.config_mut().options_mut().execution.target_partitions = request.partitions.max(1);
    let optimized = state.optimize(logical)?;
    let names = names::Names::in_plan(&optimized)?;
    let task = state.task_ctx();
    let planning = alternatives::forms(&mut state, &optimized, &memory, &names, request.stop.as_ref());
    let (forms, orders) = join_order::noting(planning).await;
    let mut forms = forms?;
    // Other forms of the plan have the same ones.
    let mut join_orders: Vec<JoinOrder> = Vec::new();
    for order in orders.iter().map(|noted| names.order(noted)) {
        if !join_orders.contains(&order) {
            join_orders.push(order);
        }
    }
    let choice = alternatives::choose(&forms, request.choice, &request.classifier)?;
    let described = forms
        .iter()
        .map(|form| form.described(&request.classifier))
        .collect();
    let alternatives::Form { plan, reading } = forms.swap_remove(choice.index);
    let found = pipelines(&reading.shape);
    let report = |pipeline: &corun_model::cache::pipeline::Pipeline| PipelineReport {
        rows: pipeline.rows,
        footprint: pipeline.footprint,
        class: request.classifier.locality(pipeline.footprint),
        end: pipeline.end,
    };
    let footprint = found.main().footprint;
    let decision = Decision {
        class: request.classifier.locality(footprint),
        footprint,
        cache: request.classifier.cache(),
        alternatives: described,
        chosen: choice.index,
        why: choice.why,
        pipelines: found.all().iter().map(report).collect(),
        tables: reading
            .tables
            .iter()
            .map(|table| table.estimate.clone())
            .collect(),
        join_orders,
        expected_ns: reading.cost_ns / request.partitions.max(1) as f64,
        parts: crate::share::parts_under_way(&plan)?,
    };
    Ok(Planned {
        optimized,
        plan,
        task,
        decision,
        statement,
        shape: reading.shape,
        tables: reading.tables,
        memory,
    })
}

impl Planned {
    /// The decision and the plan in words.
    pub(crate) fn explain(&self, thresholds: &Thresholds) -> String {
        let plan = displayable(self.plan.as_ref()).indent(false).to_string();
        format!("{}plan:\n{plan}", decision_text(&self.decision, thresholds))
    }

    /// The hash tables with what they turned out to be, as far as they are built; any time. Finished ones are remembered for
    /// later plans of the session.
    pub(crate) fn built(&self) -> Vec<TableBuilt> {
        self.tables
            .iter()
            .map(|table| built::built(table, &self.memory))
            .collect()
    }

    /// `S` with the sizes of those tables that are built.
    pub(crate) fn footprint_built(&self) -> Footprint {
        let built = self.built();
        let mut sizes = built
            .iter()
            .map(|table| table.bytes.unwrap_or(table.estimate.bytes));
        shape::footprint(&shape::resized(&self.shape, &mut sizes))
    }
}
