//! Planning a query for the coordinator: the physical plan, and what it will do to the caches.

use super::decision::{Alternative, Decision, TableBuilt};
use crate::EngineError;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use model::locality::{Classifier, Footprint, Thresholds};
use model::plan_choice::ChoiceRule;
use model::slowdown::StatementId;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// How to plan.
pub(crate) struct PlanRequest<'a> {
    /// The session.
    pub context: &'a SessionContext,
    /// Partitions the plan is to have.
    pub partitions: usize,
    /// Names the locality.
    pub classifier: Classifier,
    /// Chooses among plans of similar cost; `None`: the cheapest.
    pub choice: Option<ChoiceRule>,
}

/// A planned query.
pub(crate) struct Planned {
    /// The plan.
    pub plan: Arc<dyn ExecutionPlan>,
    /// What it runs in.
    pub task: Arc<TaskContext>,
    /// What was decided.
    pub decision: Decision,
    /// The statement with its literals blanked.
    pub statement: StatementId,
}

/// Plans a query.
pub(crate) async fn plan(request: &PlanRequest<'_>, logical: &LogicalPlan) -> Result<Planned, EngineError> {
    let _rule = request.choice;
    let mut state = request.context.state();
    state.config_mut().options_mut().execution.target_partitions = request.partitions;
    let plan = state.create_physical_plan(logical).await?;
    let footprint = Footprint::Streams;
    let class = request.classifier.locality(footprint);
    let decision = Decision {
        class,
        footprint,
        cache: request.classifier.cache(),
        alternatives: vec![Alternative {
            joins: Vec::new(),
            cost_ns: 1e9,
            footprint,
            class,
        }],
        chosen: 0,
        why: "the only plan".to_owned(),
        pipelines: Vec::new(),
        tables: Vec::new(),
        expected_ns: 1e9,
    };
    let mut hasher = DefaultHasher::new();
    let text = logical.display_indent().to_string();
    text.replace(|c: char| c.is_ascii_digit(), "").hash(&mut hasher);
    Ok(Planned {
        plan,
        task: Arc::new(TaskContext::from(&state)),
        decision,
        statement: StatementId(hasher.finish()),
    })
}

impl Planned {
    /// The hash tables as far as they are built.
    pub(crate) fn built(&self) -> Vec<TableBuilt> {
        Vec::new()
    }

    /// What they come to.
    pub(crate) fn footprint_built(&self) -> Footprint {
        self.decision.footprint
    }

    /// The decision and the plan as text.
    pub(crate) fn explain(&self, _thresholds: &Thresholds) -> String {
        let plan = displayable(self.plan.as_ref());
        format!("{}\n{}", self.decision.class, plan.indent(false))
    }
}
