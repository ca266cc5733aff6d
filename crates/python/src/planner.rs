//! The planner: a statement of the other library's session, planned in a session of this one.

use crate::codec::Plans;
use crate::functions;
use crate::root::{CorunPlanExec, Runs};
use crate::tables::Tables;
use crate::threads;
use async_trait::async_trait;
use corun_datafusion::{
    Coordinator, CoordinatorOptions, CorunOptions, EngineError, JoinChoice, memory_limited,
    set_for_memory_limit,
};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, PlanType, StringifiedPlan, ToStringifiedPlan};
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
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
    memory_limited: bool,
    coordinator: Option<Coordinator>,
    plans: Arc<Plans>,
    tables: Arc<Tables>,
    threads: Handle,
}

impl Extension {
    /// Operators with at most so many bytes together; `None`: unlimited. `coordinated`: queries that run at a time get cores of their own, beside
    /// those that harm them least in the last-level cache.
    ///
    /// # Errors
    /// No threads, or no folder for what does not fit into memory.
    pub fn new(memory_limit_bytes: Option<usize>, coordinated: bool) -> Result<Extension> {
        let cannot = |error: EngineError| exec_datafusion_err!("corun cannot start: {error}");
        let memory = memory_limited(memory_limit_bytes).map_err(cannot)?;
        let builder = SessionStateBuilder::new()
            .with_default_features()
            .with_runtime_env(memory);
        let session = corun_datafusion::install(builder).build();
        let context = SessionContext::new_with_state(session.clone());
        let coordinator = coordinated.then(|| {
            let options = CoordinatorOptions::for_machine(&corun_topology::discover(), None)?;
            Coordinator::around(&context, options)
        });
        Ok(Extension(Arc::new(Shared {
            settings: RwLock::default(),
            session,
            memory_limited: memory_limit_bytes.is_some(),
            coordinator: coordinator.transpose().map_err(cannot)?,
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
        let why = match self.plan(statement, session).await? {
            Planned::Here(plan) => return Ok(plan),
            Planned::There(why) => why,
        };
        let LogicalPlan::Explain(explain) = statement else {
            return self.fallback.create_physical_plan(statement, session).await;
        };
        // The other library would take the statement for one that was not optimised, and show no plan.
        let plan = self.fallback.create_physical_plan(&explain.plan, session).await?;
        let mut shown = why.map_or_else(String::new, |why| {
            format!("datafusion's own plan, since corun has none: {why}\n")
        });
        shown.push_str(&displayable(plan.as_ref()).indent(explain.verbose).to_string());
        let lines = vec![
            explain.plan.to_stringified(PlanType::FinalLogicalPlan),
            StringifiedPlan::new(PlanType::FinalPhysicalPlan, shown),
        ];
        let schema = Arc::new(explain.schema.as_arrow().clone());
        Ok(Arc::new(ExplainExec::new(schema, lines, explain.verbose)))
    }
}

/// Who plans a statement.
enum Planned {
    /// This library.
    Here(Arc<dyn ExecutionPlan>),
    /// The other one, and why, unless the user wants that.
    There(Option<DataFusionError>),
}

impl Planner {
    /// The plan of this library, if it has one.
    async fn plan(&self, statement: &LogicalPlan, session: &dyn Session) -> Result<Planned> {
        let own = self.session(session)?;
        if statement.exists(|node| Ok(matches!(node, LogicalPlan::Dml(_))))? {
            return exec_err!(
                "datafusion 55 cannot write by a planner of another library: put the statement into `with datafusion_corun.paused(ctx):`"
            );
        }
        if CorunOptions::of(own.config_options()).join == JoinChoice::Off {
            return Ok(Planned::There(None));
        }
        let statement = explained(functions::own(statement.clone(), &own, self.codec.as_ref())?);
        let coordinator = self.shared.coordinator.clone();
        // Files are looked for on threads of this library: the other one's are not known here.
        let planned = self.shared.threads.spawn(async move {
            let plan = own.query_planner().create_physical_plan(&statement, &own).await?;
            let runs = match coordinator.filter(|_| is_query(&statement)) {
                None => Runs::AtOnce(own.task_ctx()),
                Some(coordinator) => Runs::Coordinated {
                    coordinator,
                    context: SessionContext::new_with_state(own),
                    statement: Box::new(statement),
                },
            };
            Ok::<_, DataFusionError>(CorunPlanExec::new(plan, runs))
        });
        Ok(match planned.await {
            Ok(Ok(plan)) => Planned::Here(Arc::new(plan)),
            // A store of files, a table or a function that only the other library knows; if it is something else, that one says so.
            Ok(Err(why)) => Planned::There(Some(why)),
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
        if self.shared.memory_limited {
            set_for_memory_limit(&mut config)?;
        }
        let base = self.shared.session.clone();
        Ok(SessionStateBuilder::new_from_existing(base)
            .with_config(config)
            .build())
    }
}

/// Whether a statement only asks for rows.
fn is_query(statement: &LogicalPlan) -> bool {
    use LogicalPlan::{Analyze, Copy, Ddl, DescribeTable, Dml, Explain, Statement};
    !matches!(
        statement,
        Analyze(_) | Copy(_) | Ddl(_) | DescribeTable(_) | Dml(_) | Explain(_) | Statement(_)
    )
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
