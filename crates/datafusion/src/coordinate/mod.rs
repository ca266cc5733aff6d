//! Concurrent queries, co-scheduled: each on CPUs of its own, beside those that harm it least (paper 002).
//!
//! ```text
//!               caller's thread                      │            pinned threads, one a CPU
//!   SQL ─▶ parse ─▶ plan and classify ─▶ arrive ─────┼──▶ wait ─▶ dispatch ─▶ run ─▶ finish ─▶ dispatch next
//!                                          └─ short ─┼──────────▶ unpinned threads
//!   client ◀── Submitted ◀── bounded channel ◀───────┼────────────────────────┘
//! ```
//!
//! [`Coordinator::new`] takes an [`Engine`], [`Coordinator::around`] any DataFusion session; both keep their tables, settings and
//! memory pool. [`Coordinator::submit`] parses and plans on the calling thread ([`crate::decide`] says what the query will do to the caches),
//! and tells the scheduler ([`corun_model::cache::coschedule`]), which decides when it starts, where, and on how many CPUs ([`books`]). Its
//! task runs on the threads of these CPUs ([`pools`], [`run`]) and reads files elsewhere ([`io`]). Statements that are no queries run
//! at once, as in [`Engine::stream`].
//!
//! What holds: one mutex, held for microseconds and never while waiting. A query that fails, panics, is cancelled or not read frees
//! its CPUs for the next. Every queue is bounded. Which CPU a query gets changes its speed, never its answer.

mod books;
mod io;
mod options;
mod pools;
mod run;
mod state;
mod submitted;

pub use options::CoordinatorOptions;
pub use state::{RunningQuery, Slowdown, State, WaitingQuery};
pub use submitted::{Report, Submitted};

use crate::decide::decision::Decision;
use crate::decide::{self, PlanRequest, Planned};
use crate::index::definitions::Definitions;
use crate::index::statement;
use crate::nearest::with_near_table;
use crate::{Engine, EngineError, QueryOutput, Stop};
use books::{Books, Started};
use corun_model::cache::coschedule::{
    Admission, LlcDomain, Owner, Policy, Priority, Query, QueryId, Scheduler,
};
use corun_model::cache::locality::{Classifier, Footprint};
use corun_model::cache::plan_choice::ChoiceRule;
use corun_model::cache::slowdown::SlowdownModel;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::{FutureExt, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use pools::{Handles, Pools};
use run::{Job, Out, PlannedQuery, Seat, Way};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use submitted::{Cancel, Outcome};
use tokio::sync::{mpsc, oneshot};

/// Runs concurrent queries beside those that harm them least. Clones share one; when the last is dropped its threads end, and
/// what still waits or runs is cancelled.
#[derive(Clone)]
pub struct Coordinator {
    shared: Arc<Shared>,
    // Only its drop matters.
    _pools: Arc<StopOnDrop>,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = &self.shared.policy;
        f.debug_struct("Coordinator")
            .field("policy", policy)
            .finish_non_exhaustive()
    }
}

/// Ends the pools with the last clone.
struct StopOnDrop {
    shared: Arc<Shared>,
    pools: Option<Pools>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(pools) = self.pools.take() {
            pools.stop();
        }
    }
}

/// What all tasks of one coordinator share. It does not keep the pools running.
struct Shared {
    options: CoordinatorOptions,
    context: SessionContext,
    definitions: Definitions,
    /// One for each domain.
    classifiers: Vec<Classifier>,
    /// That of the smallest cache.
    smallest: Classifier,
    policy: Policy,
    handles: Handles,
    origin: Instant,
    books: Mutex<Books>,
    /// When the last short statement of a transaction ran; 0: none has.
    transacted_ns: AtomicU64,
}

impl Coordinator {
    /// A coordinator of an engine's queries.
    ///
    /// # Errors
    /// Options the scheduler refuses; threads that cannot be started.
    pub fn new(engine: &Engine, options: CoordinatorOptions) -> Result<Self, EngineError> {
        Self::start(engine.context().clone(), engine.definitions().clone(), options)
    }

    /// A coordinator of a session's queries, for programs that hold one already.
    ///
    /// # Errors
    /// As [`Coordinator::new`].
    pub fn around(context: &SessionContext, options: CoordinatorOptions) -> Result<Self, EngineError> {
        Self::start(context.clone(), Definitions::default(), options)
    }

    fn start(
        context: SessionContext,
        definitions: Definitions,
        options: CoordinatorOptions,
    ) -> Result<Self, EngineError> {
        let impossible =
            |detail: String| EngineError::new("the coordinator cannot be set up so").with_detail(detail);
        let scheduler = Scheduler::new(options.config(), SlowdownModel::default())
            .map_err(|error| impossible(error.to_string()))?;
        let classifiers = options
            .domains
            .iter()
            .map(|domain| Classifier::new(domain.cache, options.thresholds))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| impossible(error.to_string()))?;
        let smallest = classifiers.iter().min_by_key(|classifier| classifier.cache());
        let smallest = *smallest.ok_or_else(|| impossible("there is no cache domain".to_owned()))?;
        let nice = options.priority.nice();
        let pools = Pools::start(&options.domains, options.partitioner.as_ref(), nice)?;
        let shared = Arc::new(Shared {
            context,
            definitions,
            classifiers,
            smallest,
            policy: scheduler.policy(),
            handles: pools.handles().clone(),
            origin: Instant::now(),
            books: Mutex::new(Books::new(scheduler, options.waiting_max)),
            transacted_ns: AtomicU64::new(0),
            options,
        });
        let pools = StopOnDrop {
            shared: Arc::clone(&shared),
            pools: Some(pools),
        };
        Ok(Self {
            shared,
            _pools: Arc::new(pools),
        })
    }

    /// Admits one statement; its rows arrive as they are made. Returns once it is queued or runs, a statement that is no query
    /// once its result begins.
    ///
    /// # Errors
    /// Whatever planning reports; a full queue. Execution errors come through the stream.
    pub fn submit<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Submitted, EngineError>> {
        async move {
            let statement = statement::parse(&self.shared.context, sql)?;
            if !is_query(&statement) {
                return self.shared.submit_statement(statement).await;
            }
            let state = self.shared.context.state();
            let planning = AssertUnwindSafe(state.statement_to_plan(statement.clone())).catch_unwind();
            let logical = planning.await.map_err(run::panicked)?;
            let logical = logical.map_err(|error| with_near_table(&self.shared.context, error.into()))?;
            // `SELECT INTO` makes a table.
            if matches!(
                logical,
                LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_)
            ) {
                return self.shared.submit_statement(statement).await;
            }
            let context = &self.shared.context;
            let text = fingerprint(sql);
            self.shared
                .submit_query(context, logical, text, Owner::default())
                .await
        }
        .boxed()
    }

    /// Admits a query that another session has parsed. `context` has the settings, functions and memory pool that it runs with; its tables are
    /// those that `plan` names.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub fn submit_plan<'a>(
        &'a self,
        context: &'a SessionContext,
        plan: LogicalPlan,
    ) -> BoxFuture<'a, Result<Submitted, EngineError>> {
        self.submit_plan_of(Owner::default(), context, plan)
    }

    /// The same for one of several owners, who take turns while they wait.
    ///
    /// # Errors
    /// As [`Coordinator::submit`].
    pub fn submit_plan_of<'a>(
        &'a self,
        owner: Owner,
        context: &'a SessionContext,
        plan: LogicalPlan,
    ) -> BoxFuture<'a, Result<Submitted, EngineError>> {
        let text = fingerprint(&plan.display_indent().to_string());
        self.shared.submit_query(context, plan, text, owner).boxed()
    }

    /// Runs one statement and collects its rows.
    ///
    /// # Errors
    /// Whatever planning or execution reports; a full queue.
    pub fn query<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<(QueryOutput, Report), EngineError>> {
        async move {
            let mut submitted = self.submit(sql).await?;
            let mut batches = Vec::new();
            while let Some(batch) = submitted.next().await {
                batches.push(batch?);
            }
            let schema = submitted.schema();
            let report = submitted.report().ok_or_else(stopped)?;
            Ok((QueryOutput { schema, batches }, report))
        }
        .boxed()
    }

    /// What would be decided about a query now, and its plan, as text.
    ///
    /// # Errors
    /// A statement that is no query; whatever planning reports.
    pub fn explain<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<String, EngineError>> {
        async move {
            let shared = &self.shared;
            let statement = statement::parse(&shared.context, sql)?;
            if !is_query(&statement) {
                return Err(EngineError::new("only queries are planned for the caches")
                    .with_hint("give the query without EXPLAIN"));
            }
            let logical = shared.context.state().statement_to_plan(statement).await?;
            let planned = shared.plan(&shared.context, &logical, 1, None).await?;
            Ok(planned.explain(&shared.options.thresholds))
        }
        .boxed()
    }

    /// The same of a query that another session has parsed, as [`Coordinator::submit_plan`] runs it.
    ///
    /// # Errors
    /// Whatever planning reports.
    pub fn explain_plan<'a>(
        &'a self,
        context: &'a SessionContext,
        plan: &'a LogicalPlan,
    ) -> BoxFuture<'a, Result<String, EngineError>> {
        async move {
            let planned = self.shared.plan(context, plan, 1, None).await?;
            Ok(planned.explain(&self.shared.options.thresholds))
        }
        .boxed()
    }

    /// Which CPUs share a last-level cache, and how large that is for queries.
    pub fn domains(&self) -> &[LlcDomain] {
        &self.shared.options.domains
    }

    /// How weak queries are kept from flushing the cache for others, in one line; `None`: they are not.
    pub fn partition(&self) -> Option<String> {
        let partitioner = self.shared.options.partitioner.as_ref();
        partitioner.map(|partitioner| partitioner.describe())
    }

    /// A short statement of a transaction has run beside the queries, which from now on leave it CPUs if that is their priority.
    pub fn transacted(&self) {
        if self.shared.options.priority == Priority::Transactions {
            self.shared
                .transacted_ns
                .store(self.shared.now_ns().max(1), Ordering::Relaxed);
        }
    }

    /// Whether transactions or queries go first.
    pub fn priority(&self) -> Priority {
        self.shared.options.priority
    }

    /// Who waits, who runs, and what was learnt.
    pub fn state(&self) -> State {
        let books = self.shared.books.lock();
        let shared = &self.shared;
        State::of(&books, shared.now_ns(), &shared.classifiers, shared.smallest)
    }
}

impl Shared {
    /// Nanoseconds since the coordinator began. Read with the books locked, so that events are told in order.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The books, with what transactions leave to queries now.
    fn books(&self) -> MutexGuard<'_, Books> {
        let mut books = self.books.lock();
        let last = self.transacted_ns.load(Ordering::Relaxed);
        let since = (last > 0).then(|| self.now_ns().saturating_sub(last));
        let cpus = self.options.domains.iter().map(|domain| domain.cpus.len()).sum();
        books.scheduler.limit(self.options.priority.cpus_max(cpus, since));
        books
    }

    async fn submit_query(
        self: &Arc<Self>,
        context: &SessionContext,
        logical: LogicalPlan,
        text: u64,
        owner: Owner,
    ) -> Result<Submitted, EngineError> {
        let partitions = self.likely_partitions(text);
        let away = io::away(context, &logical, &self.handles.io)?;
        let context = away.unwrap_or_else(|| context.clone());
        let stop = Stop::default();
        let planned = self.plan(&context, &logical, partitions, Some(&stop)).await?;
        let (schema, decision) = (planned.plan.schema(), Arc::new(planned.decision.clone()));
        let statement = planned.statement;
        let query = PlannedQuery {
            planned,
            partitions,
            logical,
            context,
            stop: stop.clone(),
        };
        let (out, batches, outcome) = channel();
        let (task, abort) = AbortHandle::new_pair();
        let mut job = Some(Box::new(Job { query, out, abort }));

        let (id, admission, started) = {
            let mut books = self.books();
            let id = books.name();
            let expected = decision.expected_ns;
            let query = Query {
                id,
                statement,
                class: books.scheduler.slowdowns().class_of(decision.class),
                footprint: decision.footprint,
                expected_ns: (expected.is_finite() && expected >= 0.0).then_some(expected),
                parts: decision.parts,
                owner,
            };
            let admission = books.arrive(self.now_ns(), query, text, &mut job)?;
            (id, admission, books.dispatch())
        };
        let cancel = Cancel::new(self, id, task, stop);
        if let Some(job) = job {
            let Job { query, out, abort } = *job;
            let way = match admission {
                Admission::Free => Way::Free,
                Admission::Bypass | Admission::Queued { .. } => Way::Short,
            };
            let task = run::run_query(Seat::new(self, id), out, query, way);
            self.handles.short.spawn(Abortable::new(task, abort));
        }
        self.launch(started);
        Ok(Submitted {
            schema,
            decision,
            batches,
            outcome,
            cancel,
            report: None,
            ended: false,
        })
    }

    async fn submit_statement(self: &Arc<Self>, statement: Statement) -> Result<Submitted, EngineError> {
        let (out, batches, outcome) = channel();
        let (task, abort) = AbortHandle::new_pair();
        let id = self.books.lock().arrive_statement()?;
        // From here on a caller who gives up ends it.
        let cancel = Cancel::new(self, id, task, Stop::default());
        let (columns, known) = oneshot::channel();
        let task = run::run_statement(Seat::new(self, id), out, statement, columns);
        self.handles.short.spawn(Abortable::new(task, abort));
        let Ok(schema) = known.await else {
            let outcome = outcome.lock().take();
            return Err(match outcome {
                Some(Err(error)) => error,
                _ => stopped(),
            });
        };
        Ok(Submitted {
            schema,
            decision: Arc::new(self.no_decision()),
            batches,
            outcome,
            cancel,
            report: None,
            ended: false,
        })
    }

    /// Plans a query as it is to be run: on one CPU, or on several.
    async fn plan(
        &self,
        context: &SessionContext,
        logical: &LogicalPlan,
        partitions: usize,
        stop: Option<&Stop>,
    ) -> Result<Planned, EngineError> {
        let choice = self.options.plan_choice.then(|| match self.policy {
            Policy::Mls => ChoiceRule::MixedStrength(self.books.lock().scheduler.balance()),
            Policy::Fifo | Policy::Sls | Policy::Learned => ChoiceRule::SameStrength,
        });
        let request = PlanRequest {
            context,
            partitions,
            classifier: self.smallest,
            choice,
            stop: stop.cloned(),
        };
        // Functions of constants are evaluated here, and may panic.
        let planning = AssertUnwindSafe(decide::plan(&request, logical)).catch_unwind();
        planning.await.map_err(run::panicked)?
    }

    /// How many partitions a query will probably be run with: those of the first domain if it will be alone.
    fn likely_partitions(&self, text: u64) -> usize {
        let cpus = self.options.domains[0].cpus.len();
        match self.books().likely_wide(text, cpus) {
            true => cpus,
            false => 1,
        }
    }

    /// Hands queries to the threads of their CPUs.
    fn launch(self: &Arc<Self>, started: Vec<Started>) {
        for (job, start) in started {
            let Job { query, out, abort } = *job;
            let handle = self.handles.of(start.domain, &start.cpus);
            let task = run::run_query(Seat::new(self, start.id), out, query, Way::Scheduled(start));
            handle.spawn(Abortable::new(task, abort));
        }
    }

    fn end(self: &Arc<Self>, id: QueryId, teaches: bool) {
        let mut books = self.books();
        let started = books.end(self.now_ns(), id, teaches);
        drop(books);
        self.launch(started);
    }

    fn give_up(self: &Arc<Self>, id: QueryId) {
        let mut books = self.books();
        let (job, started) = books.give_up(self.now_ns(), id);
        drop(books);
        drop(job);
        self.launch(started);
    }

    fn unread(self: &Arc<Self>, id: QueryId) {
        let mut books = self.books();
        let started = books.unread(self.now_ns(), id);
        drop(books);
        self.launch(started);
    }

    fn change(&self, id: QueryId, footprint: Footprint) {
        self.books.lock().change(id, footprint);
    }

    fn stop(&self) {
        let mut books = self.books.lock();
        let jobs = books.stop(self.now_ns());
        drop(books);
        drop(jobs);
    }

    fn is_stopped(&self) -> bool {
        self.books.lock().is_stopped()
    }

    /// What stands for a decision where none was taken.
    fn no_decision(&self) -> Decision {
        let footprint = Footprint::Streams;
        Decision {
            class: self.smallest.locality(footprint),
            footprint,
            cache: self.smallest.cache(),
            alternatives: Vec::new(),
            chosen: 0,
            why: "no query: run at once".to_owned(),
            pipelines: Vec::new(),
            tables: Vec::new(),
            join_orders: Vec::new(),
            expected_ns: 0.0,
            parts: 0,
        }
    }
}

fn channel() -> (Out, mpsc::Receiver<arrow::array::RecordBatch>, Outcome) {
    let (batches, receiver) = mpsc::channel(run::BATCHES_AHEAD);
    let outcome = Outcome::default();
    let out = Out {
        batches,
        outcome: Arc::clone(&outcome),
    };
    (out, receiver, outcome)
}

fn is_query(statement: &Statement) -> bool {
    matches!(statement, Statement::Statement(inner) if matches!(inner.as_ref(), SqlStatement::Query(_)))
}

/// Of a statement's text, whatever its numbers.
fn fingerprint(sql: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for c in sql.chars().filter(|c| !c.is_ascii_digit()) {
        c.hash(&mut hasher);
    }
    hasher.finish()
}

fn stopped() -> EngineError {
    EngineError::new("the coordinator was stopped before the query came to its end")
        .with_hint("keep a clone of the coordinator until all results are read")
}
