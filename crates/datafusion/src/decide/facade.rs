//! Decisions without a coordinator: what would be decided about a statement, and what its tables really are.

use super::text::decision_text;
use super::{PlanRequest, Planned, plan};
use crate::decide::decision::{Decision, TableBuilt};
use crate::nearest::with_near_table;
use crate::{Engine, EngineError, QueryOutput};
use corun_model::cache::locality::{Classifier, Footprint, Thresholds};
use corun_model::cache::plan_choice::ChoiceRule;
use corun_model::cache::slowdown::StatementId;
use corun_model::units::Bytes;
use datafusion::common::format::ExplainFormat;
use datafusion::logical_expr::{Explain, LogicalPlan};
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use futures::future::BoxFuture;

/// What a decision is made for.
#[derive(Clone, Copy, Debug)]
pub struct DecideOptions {
    /// `C`: the effective last-level cache.
    pub cache: Bytes,
    /// Where the classes meet.
    pub thresholds: Thresholds,
    /// Partitions of the plan; `None`: the session's.
    pub partitions: Option<usize>,
    /// How to choose among forms of the plan; `None`: the cheapest.
    pub choice: Option<ChoiceRule>,
}

impl DecideOptions {
    /// For this much cache, with the paper's thresholds and the cheapest plans.
    pub fn with_cache(cache: Bytes) -> Self {
        DecideOptions {
            cache,
            thresholds: Thresholds::default(),
            partitions: None,
            choice: None,
        }
    }
}

/// A query that was decided about and has run.
#[derive(Clone, Debug)]
pub struct DecidedRun {
    /// Its rows.
    pub output: QueryOutput,
    /// What was decided.
    pub decision: Decision,
    /// Its hash tables beside what was expected of them.
    pub tables: Vec<TableBuilt>,
    /// `S` by the sizes of the tables that were built.
    pub footprint_built: Footprint,
    /// Which statement it is, whatever its constants.
    pub statement: StatementId,
}

impl Engine {
    /// What would be decided about a query. It is planned, not run.
    ///
    /// # Errors
    /// A statement that is no query; a cache of 0 bytes; whatever planning reports.
    pub fn decide<'a>(
        &'a self,
        sql: &'a str,
        options: &'a DecideOptions,
    ) -> BoxFuture<'a, Result<Decision, EngineError>> {
        async move { Ok(self.planned(sql, options).await?.decision) }.boxed()
    }

    /// [`Engine::decide`] in words, with the physical plan behind it.
    ///
    /// # Errors
    /// Those of [`Engine::decide`].
    pub fn explain_decision<'a>(
        &'a self,
        sql: &'a str,
        options: &'a DecideOptions,
    ) -> BoxFuture<'a, Result<String, EngineError>> {
        async move { Ok(self.planned(sql, options).await?.explain(&options.thresholds)) }.boxed()
    }

    /// Decides about a query and runs it.
    ///
    /// # Errors
    /// Those of [`Engine::decide`], and of running it.
    pub fn decide_and_run<'a>(
        &'a self,
        sql: &'a str,
        options: &'a DecideOptions,
    ) -> BoxFuture<'a, Result<DecidedRun, EngineError>> {
        async move {
            let planned = self.planned(sql, options).await?;
            let schema = planned.plan.schema();
            let batches = collect(planned.plan.clone(), planned.task.clone()).await?;
            Ok(DecidedRun {
                output: QueryOutput { schema, batches },
                tables: planned.built(),
                footprint_built: planned.footprint_built(),
                decision: planned.decision,
                statement: planned.statement,
            })
        }
        .boxed()
    }

    async fn planned(&self, sql: &str, options: &DecideOptions) -> Result<Planned, EngineError> {
        let context = self.context();
        let logical = context.state().create_logical_plan(sql).await;
        let logical = logical.map_err(|error| with_near_table(context, error.into()))?;
        if !is_query(&logical) {
            return Err(EngineError::new("only queries have a locality")
                .with_hint("give a SELECT; other statements run at once"));
        }
        planned(context, &logical, options).await
    }
}

/// What `EXPLAIN` says of a query.
pub(crate) struct Explained {
    /// The plans as DataFusion would show them; `None` where it shows more than the last ones.
    pub plans: Option<Plans>,
    /// What the query would do to the shared cache.
    pub locality: String,
}

/// The last plans of a query, in words.
pub(crate) struct Plans {
    /// `None` where only the physical one is asked for.
    pub logical: Option<String>,
    /// `None` where only the logical one is asked for.
    pub physical: Option<String>,
}

/// Plans a query once, and tells all about it.
pub(crate) async fn explained(
    context: &SessionContext,
    explain: &Explain,
    options: &DecideOptions,
) -> Result<Explained, EngineError> {
    let planned = planned(context, &explain.plan, options).await?;
    let config = context.copied_config().options().explain.clone();
    let shown = displayable(planned.plan.as_ref());
    let plans = match &explain.explain_format {
        ExplainFormat::Indent if !explain.verbose => {
            let logical = planned.optimized.display_indent().to_string();
            let physical = shown
                .set_show_statistics(explain.show_statistics.unwrap_or(config.show_statistics))
                .set_show_schema(config.show_schema)
                .indent(false)
                .to_string();
            Some(Plans {
                logical: (!config.physical_plan_only).then_some(logical),
                physical: (!config.logical_plan_only).then_some(physical),
            })
        }
        ExplainFormat::Tree => {
            let width = config.tree_maximum_render_width;
            let shown = shown.set_tree_maximum_render_width(width);
            Some(Plans {
                logical: None,
                physical: Some(shown.tree_render().to_string()),
            })
        }
        _ => None,
    };
    Ok(Explained {
        plans,
        locality: decision_text(&planned.decision, &options.thresholds),
    })
}

async fn planned(
    context: &SessionContext,
    logical: &LogicalPlan,
    options: &DecideOptions,
) -> Result<Planned, EngineError> {
    let classifier = Classifier::new(options.cache, options.thresholds)
        .map_err(|error| EngineError::new(error.to_string()))?;
    let session = context.copied_config().target_partitions();
    let request = PlanRequest {
        context,
        partitions: options.partitions.unwrap_or(session),
        classifier,
        choice: options.choice,
        stop: None,
    };
    plan(&request, logical).await
}

/// Whether a statement is a query, and not one that changes or explains something.
pub fn is_query(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
    )
}
