//! [`Engine`]: what all sessions of a server share.

use super::bounded::Constants;
use super::client::{ClientSession, Identity};
use super::settings::Settings;
use super::share::UserShare;
use super::shared::Shared;
use super::store_transaction::StoreTransaction;
use crate::catalog::{self, ActivityFact, RoleFact, SessionFacts};
use crate::data::{Data, DataConfig, DataError, DataUser, FileRights};
use crate::operate::{StatementLog, Statements};
use crate::users::{Change, UserLimits, WriteRight};
use crate::write::sequences::{self, SequenceSession};
use corun_datafusion::{
    Coordinator, CoordinatorOptions, EngineError, EngineOptions, Joins, SharedWorkState, set_for_memory_limit,
};
use corun_wire::error::{Refusal, code};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// Stack of each thread that plans statements or drops what it has planned; only what is used of it takes memory. The deepest statement that
/// is let in is in the tests.
pub(super) const STACK_BYTES: usize = 32 << 20;

/// Planning keeps its thread to its end: with one for each CPU a short statement waits behind the plans of all others.
const SESSION_THREADS_OF_CPU: usize = 4;

/// What users may do. Called while statements are planned: quick, and never waiting.
pub trait Rights: std::fmt::Debug + Send + Sync {
    /// Which files a user's statements may name.
    fn files(&self, user: &str) -> FileRights;
    /// Whether a user may read a table.
    fn may_read(&self, user: &str, schema: &str, table: &str) -> bool;
    /// Whether a user may do everything.
    fn is_superuser(&self, user: &str) -> bool;
    /// All roles, as `pg_roles` shows them.
    fn roles(&self) -> Vec<RoleFact>;
    /// Whether a user may change a table of a store in this way; of [`WriteRight::Define`] the table may be to come.
    fn may_write(&self, user: &str, _right: WriteRight, _schema: &str, _table: &str) -> bool {
        self.is_superuser(user)
    }
    /// Whether a user may name what is in a schema.
    fn may_use(&self, _user: &str, _schema: &str) -> bool {
        true
    }
    /// Whether a user is in a role.
    fn is_member(&self, user: &str, role: &str) -> bool {
        user == role || self.is_superuser(user)
    }
    /// Roles that were given rights to a table, or, where it is `None`, to a schema, with PostgreSQL's letters for these.
    fn holders(&self, _schema: &str, _table: Option<&str>) -> Vec<(String, String)> {
        Vec::new()
    }
    /// What a user may take.
    fn limits(&self, _user: &str) -> UserLimits {
        UserLimits::default()
    }
    /// Another number after each change of users or rights.
    fn version(&self) -> u64 {
        0
    }
    /// Changes users or rights, which takes a moment.
    ///
    /// # Errors
    /// What this user may not change, or nobody; PostgreSQL's for roles that there are or are not.
    fn change(&self, _by: &str, _change: &Change) -> Result<(), DataError> {
        Err(DataError::new("0A000", "this server keeps no users")
            .hint("Start it with --users FILE.toml; `corun-sql user add` makes one."))
    }
}

/// Everybody may read everything and name all allowed files.
#[derive(Debug, Clone, Copy, Default)]
pub struct FullRights;

impl Rights for FullRights {
    fn files(&self, _: &str) -> FileRights {
        FileRights {
            read: true,
            write: true,
        }
    }

    fn may_read(&self, _: &str, _: &str, _: &str) -> bool {
        true
    }

    fn is_superuser(&self, _: &str) -> bool {
        true
    }

    fn roles(&self) -> Vec<RoleFact> {
        Vec::new()
    }
}

/// How an [`Engine`] is set up.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// What can be read.
    pub data: DataConfig,
    /// Partitions, memory of all sessions together, settings that sessions begin with.
    pub engine: EngineOptions,
    /// How queries are scheduled; `None`: each runs at once, on the threads of the runtime.
    pub coordinator: Option<CoordinatorOptions>,
    /// How long a statement may run where its session does not say; `None`: for ever.
    pub statement_timeout: Option<Duration>,
    /// What users may do.
    pub rights: Arc<dyn Rights>,
    /// What is logged of statements.
    pub log: StatementLog,
    /// Threads for planning, and as many for statements that are no queries; 0: four and one for each CPU of the machine.
    pub threads: usize,
    /// Makes the engine; `None`: one that runs everything in this process.
    pub make: Option<MakeEngine>,
}

/// Makes an engine of options: where statements run on other machines, which this crate does not know.
#[derive(Clone)]
pub struct MakeEngine(Arc<Make>);

type Make = dyn Fn(&EngineOptions) -> Result<corun_datafusion::Engine, EngineError> + Send + Sync;

impl MakeEngine {
    /// By this function.
    pub fn new(
        make: impl Fn(&EngineOptions) -> Result<corun_datafusion::Engine, EngineError> + Send + Sync + 'static,
    ) -> Self {
        MakeEngine(Arc::new(make))
    }
}

impl std::fmt::Debug for MakeEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MakeEngine")
    }
}

impl EngineConfig {
    /// Everything for everybody, without a coordinator, a memory limit or a limit of time.
    pub fn new(data: DataConfig) -> Self {
        EngineConfig {
            data,
            engine: EngineOptions::default(),
            coordinator: None,
            statement_timeout: None,
            rights: Arc::new(FullRights),
            log: StatementLog::default(),
            threads: 0,
            make: None,
        }
    }

    /// The same on DataFusion as it comes, with its plans and nothing of corun's: the other side of a comparison.
    pub fn stock(data: DataConfig) -> Self {
        let mut config = EngineConfig::new(data);
        config.engine.joins = Joins::Stock;
        config.engine.share_work = false;
        config
    }
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A folder, store or bucket.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Options that the engine or the coordinator does not take.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Threads that cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// What all sessions share: data, the coordinator, the runtime, limits. Clones are the same; with the last one and the last session the
/// threads end.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub(super) struct Inner {
    pub(super) data: Data,
    base: SessionContext,
    engine: corun_datafusion::Engine,
    pub(super) statements: Arc<Statements>,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) rights: Arc<dyn Rights>,
    statement_timeout: Option<Duration>,
    runtime: Option<Runtime>,
    /// For what the coordinator does not run: operators may keep a thread for a while, and those above must be free to end them.
    operators: Option<Runtime>,
    sessions: Mutex<BTreeMap<u32, Weak<Shared>>>,
    /// Of users that have sessions.
    shares: Mutex<BTreeMap<String, Weak<UserShare>>>,
}

impl Inner {
    pub(super) fn activity(&self) -> Vec<ActivityFact> {
        let sessions: Vec<_> = self.sessions.lock().values().filter_map(Weak::upgrade).collect();
        sessions.iter().map(|session| session.activity()).collect()
    }

    /// Schemas of a catalog.
    pub(super) fn schemas(&self, database: &str) -> Vec<String> {
        self.base
            .catalog(database)
            .map(|catalog| catalog.schema_names())
            .unwrap_or_default()
    }

    /// A user, as the data knows it.
    pub(super) fn data_user(&self, name: &str) -> DataUser {
        let (rights, user) = (Arc::clone(&self.rights), name.to_owned());
        DataUser::new(name, move || rights.is_superuser(&user))
    }

    /// Where operators run that the coordinator does not.
    ///
    /// # Panics
    /// Never: the runtime is there as long as the engine.
    pub(super) fn operators(&self) -> &Handle {
        match &self.operators {
            Some(runtime) => runtime.handle(),
            None => unreachable!("the runtime is taken when the engine is dropped"),
        }
    }

    /// A session has ended.
    pub(super) fn left(&self, pid: u32) {
        self.sessions.lock().remove(&pid);
        self.shares.lock().retain(|_, share| share.strong_count() > 0);
    }

    /// What the sessions of a user share; those from before its memory was changed have another.
    fn share(&self, user: &str) -> Result<Arc<UserShare>, Refusal> {
        let limits = self.rights.limits(user);
        let mut shares = self.shares.lock();
        let known = shares.get(user).and_then(Weak::upgrade);
        if let Some(share) = known.filter(|share| share.memory_bytes == limits.memory_bytes) {
            return Ok(share);
        }
        let made = UserShare::new(user, &limits, &self.base.runtime_env());
        let share = Arc::new(made.map_err(|error| super::error::refusal(&error, ""))?);
        shares.insert(user.to_owned(), Arc::downgrade(&share));
        Ok(share)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last session may end on one of these very threads.
        for runtime in [self.runtime.take(), self.operators.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

impl Engine {
    /// Opens the data and starts threads; blocks while stores recover.
    ///
    /// # Errors
    /// Data that cannot be opened, options that are not taken, threads that cannot be started.
    pub fn start(config: EngineConfig) -> Result<Engine, ServerError> {
        let mut options = config.engine;
        // Clients are told where in their text something is wrong.
        for (name, value) in [("collect_spans", "true"), ("dialect", "PostgreSQL")] {
            options
                .settings
                .push((format!("datafusion.sql_parser.{name}"), value.to_owned()));
        }
        let data = Data::open(config.data)?;
        let engine = match &config.make {
            Some(MakeEngine(make)) => make(&options)?,
            None => corun_datafusion::Engine::new(&options)?,
        };
        let coordinator = config
            .coordinator
            .map(|options| Coordinator::new(&engine, options))
            .transpose()?;
        let base = engine.session_context();
        super::bounded::install(&base);
        data.install(&base).map_err(EngineError::from)?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = |name: &str, of_cpu: usize| {
            let count = match config.threads {
                0 => cpus * of_cpu,
                given => given,
            };
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(count)
                .thread_name(name)
                .thread_stack_size(STACK_BYTES)
                .enable_all()
                .build()
        };
        let runtime = threads("corun-session", SESSION_THREADS_OF_CPU)?;
        let operators = threads("corun-operators", 1)?;
        Ok(Engine(Arc::new(Inner {
            data,
            base,
            engine,
            statements: Arc::new(Statements::new(config.log)),
            coordinator,
            rights: config.rights,
            statement_timeout: config.statement_timeout,
            runtime: Some(runtime),
            operators: Some(operators),
            sessions: Mutex::default(),
            shares: Mutex::default(),
        })))
    }

    /// Brings everything that was committed in stores to the disk: before the process ends.
    ///
    /// # Errors
    /// A store that cannot.
    pub fn flush(&self) -> Result<(), DataError> {
        self.0.data.flush()
    }

    /// Where the futures of sessions are polled.
    ///
    /// # Panics
    /// Never: the runtime is there as long as the engine.
    pub fn runtime(&self) -> Handle {
        match &self.0.runtime {
            Some(runtime) => runtime.handle().clone(),
            None => unreachable!("the runtime is taken when the engine is dropped"),
        }
    }

    /// A session of a client that has logged in.
    ///
    /// # Errors
    /// No such database; an option of the startup packet that is not taken.
    pub fn session(&self, who: Identity) -> Result<ClientSession, Refusal> {
        let database = match self.database(&who.user, &who.database) {
            Some(database) => database.to_owned(),
            None => return Err(self.no_database(&who.database)),
        };
        let superuser = if self.0.rights.is_superuser(&who.user) {
            "on"
        } else {
            "off"
        };
        let most = self.0.rights.limits(&who.user).statement_timeout;
        let timeout = self.0.statement_timeout.into_iter().chain(most).min();
        let timeout = timeout.map(|timeout| timeout.as_millis().to_string());
        let timeout = timeout
            .iter()
            .map(|timeout| ("statement_timeout", timeout.as_str()));
        let given = who
            .options
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let given = given.filter(|(name, _)| !IDENTITY.contains(name));
        let fixed = [
            ("is_superuser", superuser),
            ("session_authorization", who.user.as_str()),
        ];
        let options = who.options.iter().find(|(name, _)| name == "options");
        let arguments = arguments(options.map_or("", |(_, text)| text))?;
        let arguments = arguments
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let view = self.0.data.view(&database);
        let given = timeout.chain(arguments).chain(given);
        let settings = Settings::new(&fixed, most, given, view.is_some())?;
        let failed = |error| super::error::refusal(&error, "");
        let share = self.0.share(&who.user)?;
        let mut state = self.0.base.state();
        if let Some(env) = &share.env {
            set_for_memory_limit(state.config_mut()).map_err(failed)?;
            state = SessionStateBuilder::new_from_existing(state)
                .with_runtime_env(Arc::clone(env))
                .build();
        }
        let context = SessionContext::new_with_state(state);
        let user = self.0.data_user(&who.user);
        let installed = self
            .0
            .data
            .install_writing(user, &database, view.clone(), &context);
        installed.map_err(failed)?;
        let constants = Constants::default();
        {
            let state = context.state_ref();
            let mut state = state.write();
            let options = state.config_mut().options_mut();
            options.catalog.default_catalog.clone_from(&database);
            // Where clients write, as PostgreSQL: a number with a point is exact.
            options.sql_parser.parse_float_as_decimal = view.is_some();
            options.extensions.insert(constants.clone());
        }
        let pid = who.pid;
        let mut shared = Shared::new(who, database, settings, Arc::downgrade(&self.0));
        shared.view.clone_from(&view);
        let shared = Arc::new(shared);
        let facts: Arc<dyn SessionFacts> = Arc::clone(&shared) as _;
        catalog::install_writing(&context, facts, view.clone()).map_err(failed)?;
        if let Some(view) = &view {
            let of = Arc::downgrade(&shared);
            let path = move || {
                of.upgrade()
                    .map_or_else(Vec::new, |session| session.search_path())
            };
            let of = Arc::downgrade(&shared);
            let reads = move || of.upgrade().is_some_and(|of| of.settings.lock().writes_nothing());
            for function in sequences::functions(view, &Arc::new(SequenceSession::new(path, reads))) {
                context.register_udf(function);
            }
        }
        self.0.sessions.lock().insert(pid, Arc::downgrade(&shared));
        Ok(ClientSession::new(
            Arc::clone(&self.0),
            context,
            constants,
            shared,
            share,
            view.map(StoreTransaction::new),
        ))
    }

    /// The catalog that a client of this user is connected to if it asks for this database, or, where that is empty, for none; `None`: there is
    /// none of that name.
    pub fn database(&self, user: &str, asked: &str) -> Option<&str> {
        let wanted = if asked.is_empty() { user } else { asked };
        let mut catalogs = self.0.data.catalogs();
        // Clients that say nothing ask for a database of their own name.
        let usual = || self.0.data.catalogs().next().filter(|_| wanted == user);
        catalogs.find(|name| *name == wanted).or_else(usual)
    }

    fn no_database(&self, asked: &str) -> Refusal {
        let known: Vec<&str> = self.0.data.catalogs().collect();
        let what = format!("database \"{asked}\" does not exist");
        Refusal::new(code::INVALID_CATALOG, what).hint(format!("Databases here: {}.", known.join(", ")))
    }

    /// All sessions, as `pg_stat_activity` shows them.
    pub fn activity(&self) -> Vec<ActivityFact> {
        self.0.activity()
    }

    /// Counts of all sessions' statements.
    pub fn statements(&self) -> &Arc<Statements> {
        &self.0.statements
    }

    /// Who schedules queries, if anyone does.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        self.0.coordinator.as_ref()
    }

    /// What statements make for each other.
    pub fn shared_work(&self) -> SharedWorkState {
        self.0.engine.shared_work()
    }

    /// Bytes that queries hold, and how many they may; `None`: any number.
    pub fn memory(&self) -> (usize, Option<usize>) {
        let pool = &self.0.base.runtime_env().memory_pool;
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes),
            _ => None,
        };
        (pool.reserved(), most)
    }
}

/// Settings in `options`, which has arguments of PostgreSQL's server: `-c name=value` or `--name=value`. `\` keeps a space.
fn arguments(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => words
                .last_mut()
                .into_iter()
                .for_each(|word| word.extend(chars.next())),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(long), _) => Some(long.to_owned()),
            (None, Some("")) => words.next(),
            (None, short) => short.map(str::to_owned),
        };
        let pair = setting.as_deref().and_then(|setting| setting.split_once('='));
        let Some((name, value)) = pair else {
            let what = format!("invalid command-line argument for server process: {word}");
            return Err(Refusal::new(code::SYNTAX_ERROR, what).hint("Write options as -c name=value."));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// What a startup packet says that is no setting.
const IDENTITY: &[&str] = &["user", "database", "replication", "options"];
