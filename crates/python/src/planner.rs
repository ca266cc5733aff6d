//! The planner: a statement of the other library's session, planned in a session of this one.

use crate::codec::Plans;
use crate::functions;
use crate::root::CorunPlanExec;
use crate::tables::Tables;
use crate::threads;
use async_trait::async_trait;
use corun_datafusion::{CorunOptions, JoinChoice, memory_limited};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, PlanType, StringifiedPlan, ToStringifiedPlan};
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionConfig;
use datafusion_ffi::execution::FFI_TaskContextProvider;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::proto::physical_extension_codec::FFI_PhysicalExtensionCodec;
use datafusion_ffi::query_planner::{FFI_QueryPlanner, ForeignQueryPlanner};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Handle;

/// corun for the sessions of another library: what its operators share, and the threads they use.
#[derive(Debug, Clone)]
pub struct Extension(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Settings `corun.*` by name.
    settings: RwLock<BTreeMap<String, String>>,
    /// Sessions made from it share what their statements make.
    session: SessionState,
    plans: Arc<Plans>,
    tables: Arc<Tables>,
    threads: Handle,
}

impl Extension {
    /// Operators with at most so many bytes together; `None`: unlimited.
    ///
    /// # Errors
    /// No threads, or no folder for what does not fit into memory.
    pub fn new(memory_limit_bytes: Option<usize>) -> Result<Extension> {
        let memory = memory_limited(memory_limit_bytes)
            .map_err(|error| exec_datafusion_err!("corun cannot start: {error}"))?;
        let builder = SessionStateBuilder::new()
            .with_default_features()
            .with_runtime_env(memory);
        Ok(Extension(Arc::new(Shared {
            settings: RwLock::default(),
            session: corun_datafusion::install(builder).build(),
            plans: Arc::new(Plans::new()),
            tables: Arc::new(Tables::new()),
            threads: threads::handle()?,
        })))
    }

    /// Sets an option of corun's, such as `corun.join`, for all statements planned from now on.
    ///
    /// # Errors
    /// An option that there is not, or a value it does not take.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let mut config = SessionConfig::new();
        config.options_mut().extensions.insert(CorunOptions::default());
        config.options_mut().set(name, value)?;
        self.0.settings.write().insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// The codec for tables that the session needs before it gets the planner.
    pub fn logical_codec(&self, contexts: FFI_TaskContextProvider) -> FFI_LogicalExtensionCodec {
        FFI_LogicalExtensionCodec::new(self.0.tables.clone(), Some(self.0.threads.clone()), contexts)
    }

    /// The codec for plans that the session needs before it gets the planner.
    pub fn physical_codec(&self, contexts: FFI_TaskContextProvider) -> FFI_PhysicalExtensionCodec {
        FFI_PhysicalExtensionCodec::new(self.0.plans.clone(), Some(self.0.threads.clone()), contexts)
    }

    /// The planner for a session with these codecs, which has those of this extension among them. What it does not plan `fallback` plans.
    pub fn planner(
        &self,
        fallback: FFI_QueryPlanner,
        logical: FFI_LogicalExtensionCodec,
        physical: FFI_PhysicalExtensionCodec,
    ) -> FFI_QueryPlanner {
        let planner = Planner {
            shared: Arc::clone(&self.0),
            fallback: ForeignQueryPlanner(fallback),
            codec: (&logical).into(),
        };
        FFI_QueryPlanner::new_with_ffi_codecs(Arc::new(planner), logical, physical)
    }
}

#[derive(Debug)]
struct Planner {
    shared: Arc<Shared>,
    fallback: ForeignQueryPlanner,
    /// All codecs of the session.
    codec: Arc<dyn LogicalExtensionCodec>,
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        statement: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(plan) = self.plan(statement, session).await? {
            return Ok(plan);
        }
        let LogicalPlan::Explain(explain) = statement else {
            return self.fallback.create_physical_plan(statement, session).await;
        };
        // The other library would take the statement for one that was not optimised, and show no plan.
        let plan = self.fallback.create_physical_plan(&explain.plan, session).await?;
        let shown = displayable(plan.as_ref()).indent(explain.verbose).to_string();
        let lines = vec![
            explain.plan.to_stringified(PlanType::FinalLogicalPlan),
            StringifiedPlan::new(PlanType::FinalPhysicalPlan, shown),
        ];
        let schema = Arc::new(explain.schema.as_arrow().clone());
        Ok(Arc::new(ExplainExec::new(schema, lines, explain.verbose)))
    }
}

impl Planner {
    /// The plan of this library; `None` where the other one has to plan.
    async fn plan(
        &self,
        statement: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let own = self.session(session)?;
        if statement.exists(|node| Ok(matches!(node, LogicalPlan::Dml(_))))? {
            return exec_err!(
                "datafusion 55 cannot write by a planner of another library: put the statement into `with datafusion_corun.paused(ctx):`"
            );
        }
        if CorunOptions::of(own.config_options()).join == JoinChoice::Off {
            return Ok(None);
        }
        let statement = explained(functions::own(statement.clone(), &own, self.codec.as_ref())?);
        // Files are looked for on threads of this library: the other one's are not known here.
        let planned = self.shared.threads.spawn(async move {
            let plan = own.query_planner().create_physical_plan(&statement, &own).await?;
            Ok::<_, DataFusionError>(CorunPlanExec::new(plan, own.task_ctx()))
        });
        Ok(match planned.await {
            Ok(Ok(plan)) => Some(Arc::new(plan)),
            // A store of files, a table or a function that only the other library knows; if it is something else, that one says so.
            Ok(Err(_)) => None,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        })
    }

    /// A session with the settings of the other library's.
    fn session(&self, other: &dyn Session) -> Result<SessionState> {
        let mut config = other
            .config()
            .clone()
            .with_create_default_catalog_and_schema(false);
        let options = config.options_mut();
        options.extensions.insert(CorunOptions::default());
        for (name, value) in self.shared.settings.read().iter() {
            options.set(name, value)?;
        }
        let base = self.shared.session.clone();
        Ok(SessionStateBuilder::new_from_existing(base)
            .with_config(config)
            .build())
    }
}

/// A statement as its session left it: where it explains a plan, that this one is optimised is lost on the way.
fn explained(statement: LogicalPlan) -> LogicalPlan {
    match statement {
        LogicalPlan::Explain(mut explain) => {
            explain.logical_optimization_succeeded = true;
            explain.stringified_plans = vec![explain.plan.to_stringified(PlanType::FinalLogicalPlan)];
            LogicalPlan::Explain(explain)
        }
        other => other,
    }
}
