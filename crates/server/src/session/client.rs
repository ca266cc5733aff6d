//! [`ClientSession`]: one client.

mod run;
mod short;
mod simple;

use self::run::returns_rows;
pub(in crate::session) use self::short::{ShortSlot, ShortTexts};
use super::bounded::Constants;
use super::cancel::CancelHandle;
use super::commands::{no_cursor, schema_of, unsupported};
use super::engine::Inner;
use super::parameters;
use super::plan::Planned;
use super::portal::{Limits, Portal, State};
use super::share::{SessionTurns, UserShare};
use super::shared::Shared;
use super::statement::{self, Kind, Parsed};
use super::store_transaction::StoreTransaction;
use super::values::columns_of;
use super::writing::Written;
use crate::catalog::SessionFacts;
use crate::operate::{Running, SessionName, Work};
use crate::write::{CopyRows, PreparedChange};
use corun_datafusion::is_query;
use corun_wire::TransactionStatus;
use corun_wire::error::{Refusal, code};
use corun_wire::server::Column;
use corun_wire::values::{Format, Type, Value};
use datafusion::common::ScalarValue;
use datafusion::execution::FunctionRegistry as _;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Bytes that are kept for the log of a text that is not SQL.
const UNREAD_BYTES_MAX: usize = 4 << 10;

/// Who a client is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The user that has logged in.
    pub user: String,
    /// The catalog that it wants; empty: one named as the user, or else the first.
    pub database: String,
    /// The session's number.
    pub pid: u32,
    /// Where from; `None` over a Unix socket.
    pub address: Option<IpAddr>,
    /// Settings of the startup packet: `application_name`, `client_encoding`, those in `options`, ...
    pub options: Vec<(String, String)>,
}

/// What else the client, or the state machine of its connection, has to hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A NoticeResponse.
    Notice(Refusal),
    /// A WARNING.
    Warning(Refusal),
    /// A ParameterStatus.
    Changed(String, String),
    /// `DEALLOCATE name` of a statement of the protocol.
    Deallocate(String),
    /// `DEALLOCATE ALL`.
    DeallocateAll,
}

/// A statement that is ready to be bound.
#[derive(Debug)]
pub struct Prepared {
    /// The types of its parameters.
    pub parameters: Vec<Type>,
    /// The columns of its result; `None`: it returns no rows.
    pub columns: Option<Vec<Column>>,
    pub(super) statement: Parsed,
    plan: Mutex<Option<Kept>>,
    /// Of a statement that writes, and what it was planned with.
    change: Option<((u64, u64, u64), Arc<PreparedChange>)>,
    short: ShortSlot,
}

impl Prepared {
    /// What was planned, if settings, rights and definitions are as they were.
    pub(super) fn change_of(&self, versions: (u64, u64, u64)) -> Option<Arc<PreparedChange>> {
        let (of, change) = self.change.as_ref()?;
        (*of == versions && versions.2 != u64::MAX).then(|| Arc::clone(change))
    }
}

/// Rows that the client is sending.
pub(super) struct Copying {
    pub(super) rows: CopyRows,
    /// What follows in the text of a simple query; `None`: it is a portal's.
    pub(super) rest: Option<std::vec::IntoIter<Parsed>>,
}

/// A plan that was made when its statement was prepared, for the run that follows.
#[derive(Debug)]
struct Kept {
    plan: LogicalPlan,
    made: Instant,
    /// The versions of the session's settings, of everyone's rights, and of the definitions.
    of: (u64, u64, u64),
}

/// One client. Dropping it ends what it runs.
pub struct ClientSession {
    pub(super) engine: Arc<Inner>,
    pub(crate) context: SessionContext,
    constants: Constants,
    pub(super) shared: Arc<Shared>,
    name: Arc<SessionName>,
    /// What the statement that runs has done so far, and when it began.
    work: Work,
    begun: Instant,
    pub(super) cancel: CancelHandle,
    pub(super) transaction: TransactionStatus,
    pub(super) savepoints: Vec<String>,
    /// The context's settings when the transaction began.
    pub(super) config_before: Option<SessionConfig>,
    /// Those of `PREPARE`.
    pub(super) statements: HashMap<String, Arc<Prepared>>,
    /// Cursors, and whether they outlive their transaction.
    pub(super) cursors: HashMap<String, (Portal, bool)>,
    pub(super) effects: Vec<Effect>,
    /// The version of the settings that the context has.
    pub(super) applied: u64,
    /// Reported settings as the client knows them, and of which version they are.
    told: (u64, BTreeMap<String, String>),
    share: Arc<UserShare>,
    turns: Mutex<SessionTurns>,
    /// Where the database is a store.
    pub(super) store: Option<StoreTransaction>,
    pub(super) copying: Option<Copying>,
    /// Those that take the short path.
    pub(super) texts: ShortTexts,
}

impl std::fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientSession")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.engine.left(self.shared.who.pid);
    }
}

impl ClientSession {
    pub(super) fn new(
        engine: Arc<Inner>,
        context: SessionContext,
        constants: Constants,
        shared: Arc<Shared>,
        share: Arc<UserShare>,
        store: Option<StoreTransaction>,
    ) -> Self {
        let told = {
            let settings = shared.settings.lock();
            (settings.version, settings.reported().into_iter().collect())
        };
        let name = SessionName {
            user: shared.who.user.clone(),
            database: shared.database.clone(),
            pid: shared.who.pid,
            from: match shared.who.address {
                Some(address) => address.to_string(),
                None => "[local]".to_owned(),
            },
        };
        ClientSession {
            engine,
            context,
            constants,
            shared,
            name: Arc::new(name),
            work: Work::default(),
            begun: Instant::now(),
            cancel: CancelHandle::default(),
            transaction: TransactionStatus::Idle,
            savepoints: Vec::new(),
            config_before: None,
            statements: HashMap::new(),
            cursors: HashMap::new(),
            effects: Vec::new(),
            applied: 0,
            told,
            share,
            turns: Mutex::default(),
            store,
            copying: None,
            texts: ShortTexts::default(),
        }
    }

    /// The statements of a text: all are parsed before the first runs.
    ///
    /// # Errors
    /// A text that is not SQL, with the place.
    pub fn split(&self, sql: &str) -> Result<Vec<Parsed>, Refusal> {
        statement::split(sql).inspect_err(|refusal| self.unread(sql, refusal))
    }

    /// The only statement of a text of a Parse; an empty text is one, too.
    ///
    /// # Errors
    /// A text that is not SQL; several statements.
    pub fn one(&self, sql: &str) -> Result<Parsed, Refusal> {
        statement::one(sql).inspect_err(|refusal| self.unread(sql, refusal))
    }

    /// Plans a statement. `types` are those that the client gives for the first parameters (0: none), as in a Parse.
    ///
    /// # Errors
    /// Whatever is wrong with the statement; a transaction that failed.
    pub async fn prepare(&mut self, statement: Parsed, types: &[u32]) -> Result<Arc<Prepared>, Refusal> {
        let running = self.running(&statement.text);
        let prepared = self.prepare_uncounted(statement, types).await;
        match &prepared {
            // It is counted when it runs.
            Ok(_) => running.forget(),
            Err(refusal) => running.end(&self.work, Some(refusal.code)),
        }
        prepared
    }

    async fn prepare_uncounted(
        &mut self,
        statement: Parsed,
        types: &[u32],
    ) -> Result<Arc<Prepared>, Refusal> {
        let limits = self.begin(&statement.text);
        if !statement.kind.is_quick() {
            self.leave_short_path().await;
        }
        let prepared = match self.check_transaction(&statement.kind) {
            Ok(()) => limits.limited(self.prepared(&statement, types)).await,
            Err(refusal) => Err(refusal),
        };
        drop(limits);
        self.ended(prepared, &statement)
    }

    async fn prepared(&self, statement: &Parsed, types: &[u32]) -> Result<Arc<Prepared>, Refusal> {
        let mut prepared = Prepared {
            parameters: Vec::new(),
            columns: None,
            statement: statement.clone(),
            plan: Mutex::default(),
            change: None,
            short: ShortSlot::default(),
        };
        if let Some(written) = self.written(&statement.kind)? {
            if let Written::Change(sql) = written {
                let change = self.prepared_change(sql, types, &statement.text).await?;
                prepared.parameters.clone_from(&change.parameters);
                prepared.columns.clone_from(&change.columns);
                prepared.change = Some((self.versions(), Arc::new(change)));
            }
            return Ok(Arc::new(prepared));
        }
        match &statement.kind {
            Kind::Planned(sql) => {
                let Planned { plan, parameters } = self.plan(sql, types, &statement.text).await?;
                prepared.columns = returns_rows(&plan).then(|| self.columns(&plan)).transpose()?;
                prepared.parameters = parameters;
                *prepared.plan.lock() = Some(self.kept(plan));
            }
            Kind::CopyOut { query, .. } => {
                let Planned { plan, .. } = self.plan(query, &[], "").await?;
                *prepared.plan.lock() = Some(self.kept(plan));
            }
            Kind::Explain { of, .. } => {
                self.written(&of.kind)?;
                if let Kind::Planned(sql) = &of.kind {
                    let Planned { plan, parameters } = self.plan(sql, types, &of.text).await?;
                    if !is_query(&plan) {
                        return Err(Refusal::new(code::NOT_SUPPORTED, "EXPLAIN is for queries only"));
                    }
                    prepared.parameters = parameters;
                    *prepared.plan.lock() = Some(self.kept(plan));
                }
                prepared.columns = schema_of(&statement.kind, None).map(|schema| columns_of(&schema));
            }
            Kind::Show(name) => {
                let (name, _) = self.setting(name)?;
                prepared.columns = schema_of(&statement.kind, Some(&name)).map(|schema| columns_of(&schema));
            }
            Kind::Execute { name, .. } => prepared.columns.clone_from(&self.named(name)?.columns),
            Kind::Fetch { name, .. } => {
                let (cursor, _) = self.cursors.get(name).ok_or_else(|| no_cursor(name))?;
                prepared.columns.clone_from(&cursor.prepared.columns);
            }
            // Here already: drivers bind the parameters that they count in the text.
            Kind::CopyIn(_) => self.check_writes("COPY FROM")?,
            Kind::LockTable(_) if self.store.is_none() => return Err(unsupported("LOCK")),
            Kind::Unsupported(what) => return Err(unsupported(what)),
            kind => prepared.columns = schema_of(kind, None).map(|schema| columns_of(&schema)),
        }
        if prepared.parameters.is_empty()
            && types.iter().any(|of| *of != 0)
            && !matches!(statement.kind, Kind::Planned(_))
        {
            prepared.parameters = parameters::decide(types, &HashMap::new(), &[])?;
        }
        Ok(Arc::new(prepared))
    }

    fn kept(&self, plan: LogicalPlan) -> Kept {
        Kept {
            plan,
            made: Instant::now(),
            of: self.versions(),
        }
    }

    /// What a plan depends on.
    pub(super) fn versions(&self) -> (u64, u64, u64) {
        let definitions = self.definitions_version();
        (self.applied, self.engine.rights.version(), definitions)
    }

    pub(super) fn named(&self, name: &str) -> Result<&Arc<Prepared>, Refusal> {
        self.statements.get(name).ok_or_else(|| {
            Refusal::new(
                code::UNDEFINED_STATEMENT,
                format!("prepared statement \"{name}\" does not exist"),
            )
            .hint("EXECUTE knows statements of PREPARE, not those of the protocol.")
        })
    }

    /// The columns of a cursor that `DECLARE` has made.
    pub fn cursor(&self, name: &str) -> Option<Vec<Column>> {
        self.cursors.get(name)?.0.prepared.columns.clone()
    }

    /// Gives a statement its parameters, as they come in a Bind (`Bind::parameters`).
    ///
    /// # Errors
    /// A parameter that cannot be read.
    pub fn bind<'v>(
        &mut self,
        of: &Arc<Prepared>,
        parameters: impl Iterator<Item = (Format, Option<&'v [u8]>)>,
    ) -> Result<Portal, Refusal> {
        let bound = self.bind_uncounted(of, parameters);
        bound.inspect_err(|refusal| self.unread(&of.statement.text, refusal))
    }

    fn bind_uncounted<'v>(
        &mut self,
        of: &Arc<Prepared>,
        parameters: impl Iterator<Item = (Format, Option<&'v [u8]>)>,
    ) -> Result<Portal, Refusal> {
        let parameters = match self.scalars(of, parameters) {
            Ok(parameters) => parameters,
            failed => self.ended(failed, &of.statement)?,
        };
        Ok(Portal {
            prepared: Arc::clone(of),
            parameters,
            state: State::Ready,
            shown: None,
        })
    }

    fn scalars<'v>(
        &self,
        of: &Arc<Prepared>,
        parameters: impl Iterator<Item = (Format, Option<&'v [u8]>)>,
    ) -> Result<Vec<ScalarValue>, Refusal> {
        self.check_transaction(&of.statement.kind)?;
        let zone = self.shared.settings.lock().zone();
        let read = of.parameters.iter().zip(parameters).map(|(of, (format, bytes))| {
            let value = bytes
                .map(|bytes| Value::read(*of, format, bytes, &zone))
                .transpose()?;
            parameters::scalar(*of, value)
        });
        let scalars = read.collect::<Result<Vec<_>, _>>()?;
        match scalars.len() == of.parameters.len() {
            true => Ok(scalars),
            false => {
                let what = format!(
                    "bind message supplies {} parameters, but the statement requires {}",
                    scalars.len(),
                    of.parameters.len()
                );
                Err(Refusal::new(code::PROTOCOL_VIOLATION, what))
            }
        }
    }

    /// The transaction, for `Session::set_transaction`.
    pub fn transaction(&self) -> TransactionStatus {
        self.transaction
    }

    /// Something outside failed (a portal that is not there, a message that is none): an open transaction has failed.
    pub fn fail_transaction(&mut self) {
        if self.transaction == TransactionStatus::Open {
            self.transaction = TransactionStatus::Failed;
        }
    }

    /// Ends the transaction of a pipeline, which what it has written is in where no other is open.
    ///
    /// # Errors
    /// What speaks against its commit.
    pub async fn end_pipeline(&mut self, commit: bool) -> Result<(), Refusal> {
        if self.transaction == TransactionStatus::Idle {
            self.cursors.retain(|_, (_, hold)| *hold);
            self.end_implicit(commit).await?;
        }
        Ok(())
    }

    /// What there is to tell since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let mut effects = std::mem::take(&mut self.effects);
        let settings = self.shared.settings.lock();
        let (version, told) = &mut self.told;
        if *version == settings.version {
            return effects;
        }
        *version = settings.version;
        for (name, value) in settings.reported() {
            if told.insert(name.clone(), value.clone()).as_ref() != Some(&value) {
                effects.push(Effect::Changed(name, value));
            }
        }
        effects
    }

    /// Settings that clients are told when they begin (ParameterStatus).
    pub fn reported(&self) -> Vec<(String, String)> {
        self.shared.settings.lock().reported()
    }

    /// What cancels the statement that runs.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// From here on a statement is counted, whatever becomes of it.
    fn running(&mut self, text: &Arc<str>) -> Running {
        self.work = Work::default();
        self.begun = Instant::now();
        self.engine
            .statements
            .begin(&self.name, Arc::clone(text), self.begun)
    }

    /// What does not come to be run counts as one statement that failed: a text that is not SQL, values that are none of their types.
    fn unread(&self, text: &str, refusal: &Refusal) {
        let text = &text[..text.floor_char_boundary(UNREAD_BYTES_MAX)];
        let running = self
            .engine
            .statements
            .begin(&self.name, text.into(), Instant::now());
        running.end(&Work::default(), Some(refusal.code));
    }

    /// A statement begins, with what was set before it.
    fn begin(&mut self, text: &Arc<str>) -> Limits {
        self.apply_settings();
        self.constants.begin();
        self.shared.begins(text, self.begun);
        let most = self.engine.rights.limits(&self.shared.who.user).statement_timeout;
        let timeout = {
            let mut settings = self.shared.settings.lock();
            settings.statement_timeout_max = most;
            settings.statement_timeout().into_iter().chain(most).min()
        };
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.begin_on_store(until);
        Limits::new(self.cancel.begin(), timeout)
    }

    fn ended<T>(&mut self, ended: Result<T, Refusal>, statement: &Parsed) -> Result<T, Refusal> {
        if ended.is_err() {
            self.fail_transaction();
            if let Some(store) = &mut self.store {
                store.statement_failed();
            }
        }
        self.shared.ended(match self.transaction {
            TransactionStatus::Idle => "idle",
            TransactionStatus::Open => "idle in transaction",
            TransactionStatus::Failed => "idle in transaction (aborted)",
        });
        ended.map_err(|refusal| statement.placed(refusal))
    }

    /// After an error only the end of a transaction is taken.
    fn check_transaction(&self, kind: &Kind) -> Result<(), Refusal> {
        let ends = matches!(
            kind,
            Kind::Commit | Kind::Rollback | Kind::RollbackTo(_) | Kind::Empty
        );
        if self.transaction != TransactionStatus::Failed || ends {
            return Ok(());
        }
        let what = "current transaction is aborted, commands ignored until end of transaction block";
        Err(Refusal::new(code::IN_FAILED_TRANSACTION, what))
    }

    /// Tells DataFusion of the settings that it has, too.
    fn apply_settings(&mut self) {
        let (version, zone) = {
            let settings = self.shared.settings.lock();
            if settings.version == self.applied {
                return;
            }
            (settings.version, settings.zone_name())
        };
        let before = std::mem::replace(&mut self.applied, version);
        let path = self.shared.search_path();
        let state = self.context.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        // 0: the settings are those of before a transaction, but the functions are not.
        let is_moved = before == 0 || options.execution.time_zone.as_ref() != Some(&zone);
        options.execution.time_zone = Some(zone);
        options.catalog.default_schema = path.into_iter().next().unwrap_or_else(|| "public".to_owned());
        if !is_moved {
            return;
        }
        // Functions that know the time zone know the one of before.
        let config = state.config_options();
        let changed = |function: &Arc<ScalarUDF>| function.inner().with_updated_config(config);
        let changed: Vec<ScalarUDF> = state.scalar_functions().values().filter_map(changed).collect();
        for function in changed {
            if let Err(error) = state.register_udf(Arc::new(function)) {
                tracing::warn!("a function stays in the time zone of before: {error}");
            }
        }
    }
}
