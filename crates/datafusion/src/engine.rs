//! The engine as the rest of corun uses it: a DataFusion session without DataFusion's types in the signatures.
//!
//! Order of calls: [`Engine::new`], then `register_*`, then any number of concurrent [`Engine::query`] or
//! [`Engine::stream`]. It adds nothing to DataFusion but corun's operators ([`crate::install`]) and readable errors;
//! programs that already hold a `SessionContext` need `install` only.

use crate::decide::decision::DecideOptions;
use crate::decide::facade::{Explained, Plans, explained, is_query};
use crate::error::EngineError;
use crate::index::definitions::{Definitions, Tables};
use crate::index::statement::{self, NewIndex, Parsed};
use crate::nearest::{nearest, with_near_table};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use corun_model::units::Bytes;
use corun_topology::effective_llc::effective_llc;
use datafusion::catalog::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, stream};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Which join operators an [`Engine`] plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joins {
    /// DataFusion as it comes, without any of corun's rules.
    Stock,
    /// With corun's operators installed.
    Corun,
}

/// How to set an [`Engine`] up.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Partitions a plan is spread over (threads a query can use at once).
    pub partitions: usize,
    /// Rows a batch.
    pub batch_size: usize,
    /// Bytes all queries of this engine may hold together; `None`: unlimited.
    pub memory_limit_bytes: Option<usize>,
    /// Stock operators or corun's.
    pub joins: Joins,
    /// Whether statements take what others of these sessions have made, are making or have read (`corun.share_work`,
    /// `corun.keep_columns`), with corun's operators. Who measures a statement by running it again wants it to do its work again.
    pub share_work: bool,
    /// Further settings, as `SET key = value` would take them.
    pub settings: Vec<(String, String)>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            partitions: std::thread::available_parallelism().map_or(1, |n| n.get()),
            batch_size: 8192,
            memory_limit_bytes: None,
            joins: Joins::Corun,
            share_work: true,
            settings: Vec::new(),
        }
    }
}

/// A collected result.
#[derive(Debug, Clone)]
pub struct QueryOutput {
    /// Columns of the result.
    pub schema: SchemaRef,
    /// Rows, in the order they arrived.
    pub batches: Vec<RecordBatch>,
}

impl QueryOutput {
    /// Rows in all batches.
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Batches of a running query; dropping it cancels the query.
pub struct BatchStream(SendableRecordBatchStream);

impl Stream for BatchStream {
    type Item = Result<RecordBatch, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0
            .poll_next_unpin(cx)
            .map(|item| item.map(|batch| batch.map_err(EngineError::from)))
    }
}

/// A SQL engine over in-memory batches and files. Clones share tables and settings.
///
/// The session stands behind a trait object and the methods return boxed futures, so that the code of DataFusion's
/// futures and destructors is compiled in this crate only, not again in every crate and test that runs a query.
#[derive(Clone)]
pub struct Engine {
    session: Arc<dyn Session>,
    /// So that of two statements about a table neither is lost.
    definitions: Definitions,
}

trait Session: Send + Sync {
    fn context(&self) -> &SessionContext;
}

impl Session for SessionContext {
    fn context(&self) -> &SessionContext {
        self
    }
}

impl Engine {
    /// Sets up a session.
    ///
    /// # Errors
    /// Zero partitions or batch size, an unknown setting, a value a setting does not take.
    pub fn new(options: &EngineOptions) -> Result<Engine, EngineError> {
        let joins = options.joins;
        Engine::with(options, |state| match joins {
            Joins::Corun => crate::install(state),
            #[cfg(feature = "store")]
            Joins::Stock => crate::store::install(state),
            #[cfg(not(feature = "store"))]
            Joins::Stock => state,
        })
    }

    /// Sets a session up whose planner and rules `installed` adds, in place of those that `options.joins` names.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn with(
        options: &EngineOptions,
        installed: impl FnOnce(SessionStateBuilder) -> SessionStateBuilder,
    ) -> Result<Engine, EngineError> {
        if options.partitions == 0 {
            return Err(EngineError::new("the number of partitions is 0").with_hint("use 1 or more"));
        }
        if options.batch_size == 0 {
            return Err(
                EngineError::new("the batch size is 0").with_hint("use 1 or more rows; 8192 is usual")
            );
        }
        let mut config = SessionConfig::new()
            .with_target_partitions(options.partitions)
            .with_batch_size(options.batch_size)
            .with_information_schema(true);
        if options.joins == Joins::Corun {
            let mut corun = crate::CorunOptions::default();
            if !options.share_work {
                corun.share_work = crate::JoinChoice::Off;
                corun.keep_columns = crate::JoinChoice::Off;
            }
            config = config.with_option_extension(corun);
        }
        if options.memory_limit_bytes.is_some() {
            set_for_memory_limit(&mut config)?;
        }
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(memory_limited(options.memory_limit_bytes)?)
            .with_default_features();
        let mut state = installed(state);
        let config = state.config().get_or_insert_default();
        for (key, value) in &options.settings {
            config
                .options_mut()
                .set(key, value)
                .map_err(|error| unknown_setting(config, key, error.into()))?;
        }
        let context = SessionContext::new_with_state(state.build());
        let names = context.copied_config().options().catalog.clone();
        if let Some(catalog) = context.catalog(&names.default_catalog) {
            catalog.register_schema(&names.default_schema, Arc::new(Tables::default()))?;
        }
        Ok(Engine {
            session: Arc::new(context),
            definitions: Definitions::default(),
        })
    }

    /// Another session over the same tables: with settings of its own, which are what they are here to begin with, and the same memory. With
    /// corun's operators, sessions share what their statements make (`corun.share_work`).
    pub fn session(&self) -> Engine {
        Engine {
            session: Arc::new(SessionContext::new_with_state(self.context().state())),
            definitions: self.definitions.clone(),
        }
    }

    /// What the statements of this session and those that come from it share now.
    pub fn shared_work(&self) -> crate::SharedWorkState {
        self.sharing(|planner| planner.now())
    }

    /// Forgets what was kept for later statements, and which statements came before: as if these sessions had run none. What runs goes on.
    pub fn forget_shared_work(&self) {
        self.sharing(|planner| planner.forget());
    }

    /// Asks the planner by which these sessions share their work, if they do.
    fn sharing<T: Default>(&self, ask: impl FnOnce(&crate::share::SharingPlanner) -> T) -> T {
        let state = self.context().state();
        let planner: &dyn std::any::Any = state.query_planner().as_ref();
        let planner = planner.downcast_ref::<crate::share::SharingPlanner>();
        planner.map_or_else(Default::default, ask)
    }

    /// A DataFusion session of its own over the same tables, with the same settings, memory and shared work, for hosts that parse and plan
    /// themselves.
    pub fn session_context(&self) -> SessionContext {
        SessionContext::new_with_state(self.context().state())
    }

    /// DataFusion's session behind the facade.
    pub(crate) fn context(&self) -> &SessionContext {
        self.session.context()
    }

    /// What statements that change tables hold.
    #[cfg(feature = "coordinator")]
    pub(crate) fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Makes `partitions` of in-memory batches a table; the batches are shared, not copied.
    ///
    /// # Errors
    /// A batch whose schema is not `schema`.
    pub fn register_batches(
        &self,
        table: &str,
        schema: SchemaRef,
        partitions: Vec<Vec<RecordBatch>>,
    ) -> Result<(), EngineError> {
        let source = MemTable::try_new(schema, partitions)?;
        self.register_source(table, Arc::new(source))
    }

    /// Makes a Parquet file, a CSV file with a header line, or a folder of either a table.
    ///
    /// # Errors
    /// A path that does not exist, an unknown kind of file, a folder without readable files, a corrupt file.
    pub fn register_path<'a>(
        &'a self,
        table: &'a str,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        async move {
            let kind = file_kind(path)?;
            let text = path
                .to_str()
                .ok_or_else(|| EngineError::new(format!("the path {} is not UTF-8", path.display())))?;
            let text = if path.is_dir() && !text.ends_with('/') {
                format!("{text}/")
            } else {
                text.to_string()
            };
            let quoted = datafusion::common::TableReference::bare(table);
            let registered = match kind {
                FileKind::Parquet => {
                    self.context()
                        .register_parquet(quoted, text, ParquetReadOptions::default())
                        .await
                }
                FileKind::Csv => {
                    self.context()
                        .register_csv(quoted, text, CsvReadOptions::default())
                        .await
                }
            };
            registered.map_err(|error| {
                let cause = EngineError::from(error);
                EngineError {
                    primary: format!("cannot read {} as a table: {}", path.display(), cause.primary),
                    hint: cause
                        .hint
                        .or_else(|| Some(format!("is the file complete, and really {}?", kind.name()))),
                    ..cause
                }
            })
        }
        .boxed()
    }

    /// Runs one statement and collects its rows.
    ///
    /// # Errors
    /// Whatever planning or execution reports.
    pub fn query<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<QueryOutput, EngineError>> {
        async move {
            let (schema, mut stream) = self.stream(sql).await?;
            let mut batches = Vec::new();
            while let Some(batch) = stream.next().await {
                batches.push(batch?);
            }
            Ok(QueryOutput { schema, batches })
        }
        .boxed()
    }

    /// Starts one statement; its rows arrive as they are made.
    ///
    /// # Errors
    /// Whatever planning reports; execution errors come through the stream.
    pub fn stream<'a>(
        &'a self,
        sql: &'a str,
    ) -> BoxFuture<'a, Result<(SchemaRef, BatchStream), EngineError>> {
        async move {
            let statement = statement::parse(self.context(), sql)?;
            let stream = start(self.context(), &self.definitions, statement).await?;
            Ok((stream.schema(), BatchStream(stream)))
        }
        .boxed()
    }

    /// The physical plan of a statement as indented text; with `analyze`, run and with its metrics.
    ///
    /// # Errors
    /// Whatever planning (or, with `analyze`, execution) reports.
    pub fn explain<'a>(&'a self, sql: &'a str, analyze: bool) -> BoxFuture<'a, Result<String, EngineError>> {
        async move {
            let plan = self.context().sql(sql).await?.create_physical_plan().await?;
            if analyze {
                datafusion::physical_plan::collect(plan.clone(), self.context().task_ctx()).await?;
                let display =
                    datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(plan.as_ref());
                return Ok(display.indent(false).to_string());
            }
            Ok(datafusion::physical_plan::displayable(plan.as_ref())
                .indent(false)
                .to_string())
        }
        .boxed()
    }

    /// Runs the statements of a script in order, collecting each one's rows.
    ///
    /// # Errors
    /// The first statement that fails; those before it have run.
    pub fn execute_script<'a>(
        &'a self,
        sql: &'a str,
    ) -> BoxFuture<'a, Result<Vec<QueryOutput>, EngineError>> {
        async move {
            let mut outputs = Vec::new();
            for statement in split_statements(sql)? {
                outputs.push(self.query(&statement).await?);
            }
            Ok(outputs)
        }
        .boxed()
    }

    /// Indexes a column of an in-memory table for joins on it, as `CREATE INDEX ON table (column)` does. The table is
    /// read-only from then on.
    ///
    /// # Errors
    /// No such table or column; a table that is not in memory; a column whose type has no index, or that has one; more rows
    /// than 32-bit row numbers can name; not enough memory.
    pub fn create_index<'a>(
        &'a self,
        table: &'a str,
        column: &'a str,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        async move {
            let reference = datafusion::common::TableReference::bare(table);
            let new = NewIndex {
                name: None,
                table: reference,
                column: column.to_string(),
                if_not_exists: false,
            };
            statement::create_index(self.context(), &self.definitions, new).await
        }
        .boxed()
    }

    /// Names of the registered tables, sorted.
    pub fn tables(&self) -> Vec<String> {
        let options = self.context().copied_config();
        let catalog = &options.options().catalog;
        let mut names = self
            .context()
            .catalog(&catalog.default_catalog)
            .and_then(|c| c.schema(&catalog.default_schema))
            .map(|s| s.table_names())
            .unwrap_or_default();
        names.sort();
        names
    }

    /// The schema of a registered table.
    ///
    /// # Errors
    /// No table of that name.
    pub fn table_schema<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<SchemaRef, EngineError>> {
        async move {
            let reference = datafusion::common::TableReference::bare(table);
            let provider = self.context().table_provider(reference).await?;
            Ok(provider.schema())
        }
        .boxed()
    }

    fn register_source(
        &self,
        table: &str,
        source: Arc<dyn datafusion::catalog::TableProvider>,
    ) -> Result<(), EngineError> {
        let reference = datafusion::common::TableReference::bare(table);
        if self.context().table_exist(reference.clone())? {
            return Err(
                EngineError::new(format!("there is already a table named \"{table}\""))
                    .with_hint("give one of the two another name"),
            );
        }
        self.context().register_table(reference, source)?;
        Ok(())
    }
}

/// The memory and the files of sessions that may hold so many bytes together.
///
/// # Errors
/// No folder for temporary files.
pub fn memory_limited(bytes: Option<usize>) -> Result<Arc<RuntimeEnv>, EngineError> {
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(bytes) = bytes {
        runtime = runtime.with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
    }
    Ok(runtime.build_arc()?)
}

/// Sets what statements need that may have to write files.
///
/// # Errors
/// None that is known.
pub fn set_for_memory_limit(config: &mut SessionConfig) -> Result<(), DataFusionError> {
    // A file for each batch: where two tasks write to two open files, a repartitioning waits for ever for the batch that is in
    // the second (apache/datafusion#24883). Not needed with a release that has #24891.
    let key = "datafusion.execution.max_spill_file_size_bytes";
    config.options_mut().set(key, "1")
}

/// Starts a statement of any kind; those about indexes are done when it returns.
pub(crate) async fn start(
    context: &SessionContext,
    definitions: &Definitions,
    statement: Statement,
) -> Result<SendableRecordBatchStream, EngineError> {
    let started = start_any(context, definitions, statement).await;
    started.map_err(|error| with_near_table(context, error))
}

async fn start_any(
    context: &SessionContext,
    definitions: &Definitions,
    statement: Statement,
) -> Result<SendableRecordBatchStream, EngineError> {
    match statement::run(context, definitions, statement).await? {
        Parsed::Done => Ok(Box::pin(EmptyRecordBatchStream::new(Arc::new(Schema::empty())))),
        Parsed::Other(plan, changing) => {
            if let Some(rows) = explained_rows(context, &plan).await? {
                return Ok(rows);
            }
            let frame = context.execute_logical_plan(plan).await?;
            let rows = frame.execute_stream().await?;
            let schema = rows.schema();
            let rows = rows.inspect(move |_| _ = &changing);
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
        }
    }
}

/// What `EXPLAIN` of a query says: its plans, and what it would do to the shared cache. `None` for other statements, and
/// without corun's operators.
async fn explained_rows(
    context: &SessionContext,
    plan: &LogicalPlan,
) -> Result<Option<SendableRecordBatchStream>, EngineError> {
    let LogicalPlan::Explain(explain) = plan else {
        return Ok(None);
    };
    let config = context.copied_config();
    let options = config.options();
    if options.extensions.get::<crate::CorunOptions>().is_none() || !is_query(&explain.plan) {
        return Ok(None);
    }
    let given = Some(Bytes(crate::CorunOptions::of(options).llc_bytes as u64)).filter(|bytes| bytes.0 > 0);
    let cache = effective_llc(crate::caches::topology(), given).bytes;
    let Explained { plans, locality } =
        explained(context, explain, &DecideOptions::with_cache(cache)).await?;
    let schema = Arc::clone(explain.schema.inner());
    let own = match &plans {
        Some(Plans { logical, physical }) => {
            let logical = logical.iter().map(|text| ("logical_plan", text));
            logical
                .chain(physical.iter().map(|text| ("physical_plan", text)))
                .collect()
        }
        None => Vec::new(),
    };
    let rows = own.into_iter().chain([("locality", &locality)]);
    let (kinds, texts): (Vec<&str>, Vec<&str>) = rows.map(|(kind, text)| (kind, text.as_str())).unzip();
    let columns = [kinds, texts].map(|column| Arc::new(StringArray::from(column)) as ArrayRef);
    let own = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).map_err(DataFusionError::from)?;
    let own = stream::once(async { Ok(own) });
    if plans.is_some() {
        return Ok(Some(Box::pin(RecordBatchStreamAdapter::new(schema, own))));
    }
    let frame = context.execute_logical_plan(plan.clone()).await?;
    let rows = frame.execute_stream().await?.chain(own);
    Ok(Some(Box::pin(RecordBatchStreamAdapter::new(schema, rows))))
}

/// Splits a script into statements, each as SQL text again.
///
/// # Errors
/// A syntax error anywhere in the script.
pub fn split_statements(sql: &str) -> Result<Vec<String>, EngineError> {
    let statements = datafusion::sql::parser::DFParserBuilder::new(sql)
        .build()?
        .parse_statements()?;
    Ok(statements.iter().map(ToString::to_string).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Parquet,
    Csv,
}

impl FileKind {
    fn name(self) -> &'static str {
        match self {
            FileKind::Parquet => "Parquet",
            FileKind::Csv => "CSV",
        }
    }

    fn of(path: &Path) -> Option<FileKind> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "parquet" | "parq" | "pq" => Some(FileKind::Parquet),
            "csv" => Some(FileKind::Csv),
            _ => None,
        }
    }
}

fn file_kind(path: &Path) -> Result<FileKind, EngineError> {
    let unreadable = |error: std::io::Error| {
        EngineError::new(format!("cannot open {}", path.display())).with_detail(error.to_string())
    };
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if meta.is_file() {
        return FileKind::of(path).ok_or_else(|| {
            EngineError::new(format!("{}: unknown kind of file", path.display()))
                .with_hint("files must end in .parquet or .csv")
        });
    }
    let mut found = None;
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let Some(kind) = FileKind::of(&entry.path()) else {
            continue;
        };
        if found.is_some_and(|other| other != kind) {
            return Err(EngineError::new(format!(
                "the folder {} mixes Parquet and CSV files",
                path.display()
            ))
            .with_hint("register each kind as a table of its own"));
        }
        found = Some(kind);
    }
    found.ok_or_else(|| {
        EngineError::new(format!(
            "the folder {} has no Parquet or CSV files",
            path.display()
        ))
        .with_hint("files must end in .parquet or .csv")
    })
}

/// Turns "unknown setting" into an error that names the nearest valid key.
fn unknown_setting(config: &SessionConfig, key: &str, error: EngineError) -> EngineError {
    // DataFusion lists an extension's options without the prefix that `SET` wants.
    let of_extensions = config
        .options()
        .extensions
        .iter()
        .flat_map(|(prefix, extension)| {
            let keys = extension.entries().into_iter();
            keys.map(move |entry| format!("{prefix}.{}", entry.key))
        });
    let own = config.options().entries().into_iter().map(|entry| entry.key);
    let own = own.filter(|key| key.starts_with("datafusion."));
    let known: Vec<String> = own.chain(of_extensions).collect();
    if known.iter().any(|known| known == key) {
        return EngineError::new(format!("setting {key}: bad value")).with_detail(error.primary);
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let unknown = EngineError::new(format!("unknown setting \"{key}\""));
    match nearest(key, &known) {
        Some(nearest) => unknown.with_hint(format!("did you mean \"{nearest}\"?")),
        None => unknown,
    }
}
