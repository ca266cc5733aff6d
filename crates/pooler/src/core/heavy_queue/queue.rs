//! [`HeavyQueue`]: who waits and runs on the machine, for all event loops: the scheduler, and beside it what it does not know of a query.
//!
//! It stands under one mutex that is held for microseconds: nothing in it waits, and messages to event loops are posted after it was let
//! go.

use std::collections::{HashMap, HashSet};
use std::mem::Discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_model::cache::coschedule::{Config, LlcDomain, PolicyName, Query, QueryId, Scheduler, Start};
use corun_model::cache::locality::{Classifier, Locality, Thresholds};
use corun_model::cache::plan_choice::{COST_MARGIN, ChoiceRule, choose};
use corun_model::cache::slowdown::{SlowdownModel, StatementId};
use corun_model::units::CpuId;
use corun_resctrl::ResctrlError;
use corun_resctrl::partition::Partitioner;
use parking_lot::Mutex;

use super::auto::Auto;
use super::estimate::{Estimate, words};
use super::follow::Follow;
use super::heavy::Heavy;
use super::known::Known;
use super::lend::{Holder, lend};
use super::rows::Counts;
use super::ticket::Ticket;
use crate::admin::{QueueRow, SlowdownRow};
use crate::core::shared::{Message, Shared};
use crate::understand::Shape;

/// How the queue is set up, once.
#[derive(Debug)]
pub(in crate::core) struct Setup {
    /// The rule of choice.
    pub policy: PolicyName,
    /// Who shares which cache.
    pub domains: Vec<LlcDomain>,
    /// How often a query may be overtaken.
    pub overtakes_max: u32,
    /// Most that wait.
    pub waiting_max: usize,
    /// What keeps weak queries out of the cache, if anything does.
    pub partitioner: Option<Arc<dyn Partitioner>>,
    /// One line about it.
    pub classes: String,
}

/// The queue of the machine.
#[derive(Default)]
pub(in crate::core) struct HeavyQueue {
    queue_state: Mutex<Option<QueueState>>,
    /// It was set up, or cannot be.
    tried: AtomicBool,
    /// Which statements take long.
    pub(super) heavy: Heavy,
    /// What is known of plans.
    pub(super) known: Known,
    /// Whether it pays.
    pub auto: Auto,
    /// What it has done.
    pub(super) counts: Counts,
    /// Where those that run truly are.
    pub(super) follow: Follow,
    /// Reasons against moving processes into classes of the cache that were told.
    pub(super) refused: Mutex<HashSet<Discriminant<ResctrlError>>>,
}

struct QueueState {
    scheduler: Scheduler,
    entries: HashMap<QueryId, Entry>,
    /// The cores of each domain.
    cores: Vec<Vec<CpuId>>,
    /// The cache of the smallest domain: what a plan is chosen for.
    smallest: Classifier,
    next: u64,
    /// The latest time anybody told: loops' clocks differ by microseconds.
    now_ns: u64,
    partitioner: Option<Arc<dyn Partitioner>>,
    classes: String,
}

/// Whose query it is.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub event_loop: usize,
    /// Slot and number of the client.
    pub client: usize,
    pub client_id: u64,
    pub database: Arc<str>,
    pub user: Arc<str>,
    pub shape: Shape,
}

struct Entry {
    owner: Owner,
    locality: Locality,
    table_bytes: u64,
    form: String,
    expected_ns: Option<f64>,
    arrived_ns: u64,
    start: Option<(Start, u64)>,
    /// Workers it is planned with.
    workers: usize,
    /// Cores for them that nobody has now.
    lent: Vec<CpuId>,
    /// It had such: its time says how many cores it had, not what was beside it.
    was_lent: bool,
}

/// What became of a query that came.
pub(super) enum Arrival {
    /// It runs now.
    Starts(Ticket),
    /// It waits.
    Waits(Ticket),
    /// There is no queue for it: it runs as it came.
    No,
}

/// A query with what is known of it.
pub(super) struct Newcomer<'a> {
    pub owner: Owner,
    pub statement: StatementId,
    pub estimate: &'a Estimate,
    /// Which of the estimate's plans it runs with.
    pub choice: usize,
    /// What it takes, as far as is known.
    pub expected_ns: Option<f64>,
    /// It waits however long that is.
    pub patient: bool,
}

impl HeavyQueue {
    /// Sets the queue up, if that was not tried before. What is wrong is logged: everything runs without it then.
    pub fn open(&self, setup: impl FnOnce() -> Option<Setup>) {
        if self.tried.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(setup) = setup() else { return };
        let protects = setup.partitioner.is_some();
        let mut policy = setup.policy;
        if policy.resolve(protects).is_err() {
            tracing::warn!(
                "heavy_queue_policy = \"mls\" needs a partitioned last-level cache; the pooler uses \"sls\" here"
            );
            policy = PolicyName::Sls;
        }
        let smallest = setup.domains.iter().map(|domain| domain.cache).min();
        let cores = setup.domains.iter().map(|domain| domain.cpus.clone()).collect();
        let config = Config {
            overtakes_max: setup.overtakes_max,
            waiting_max: setup.waiting_max,
            // Short queries do not come here.
            short_below_ns: 0.0,
            bypass_max: 0,
            ..Config::new(policy, protects, setup.domains)
        };
        let smallest = smallest.and_then(|cache| Classifier::new(cache, Thresholds::default()).ok());
        match (Scheduler::new(config, SlowdownModel::default()), smallest) {
            (Ok(scheduler), Some(smallest)) => {
                tracing::info!(
                    policy = name_of(&scheduler),
                    "heavy queries queue: {}",
                    setup.classes
                );
                *self.queue_state.lock() = Some(QueueState {
                    scheduler,
                    entries: HashMap::new(),
                    cores,
                    smallest,
                    next: 0,
                    now_ns: 0,
                    partitioner: setup.partitioner,
                    classes: setup.classes,
                });
            }
            (Err(error), _) => tracing::warn!(%error, "heavy queries do not queue"),
            (_, None) => tracing::warn!("heavy queries do not queue: no last-level cache is known"),
        }
    }

    /// Whether there is a queue.
    pub(super) fn is_open(&self) -> bool {
        self.queue_state.lock().is_some()
    }

    /// Which of the plans is to be run as things are, and of which locality it is; the first where nothing speaks for another.
    pub(super) fn choose(&self, estimate: &Estimate, plans: bool) -> usize {
        let queue_state = self.queue_state.lock();
        let Some(queue_state) = queue_state.as_ref().filter(|_| plans && estimate.count() > 1) else {
            return 0;
        };
        let rule = match queue_state.scheduler.policy() {
            corun_model::cache::coschedule::Policy::Mls => {
                ChoiceRule::MixedStrength(queue_state.scheduler.balance())
            }
            _ => ChoiceRule::SameStrength,
        };
        let trees = estimate.plans.sub_trees();
        choose(&trees, rule, COST_MARGIN, &queue_state.smallest).map_or(0, |choice| choice.index)
    }

    /// The locality of a plan in the smallest cache.
    pub(super) fn locality(&self, estimate: &Estimate, choice: usize) -> Option<Locality> {
        let footprint = estimate.footprint(choice);
        let queue_state = self.queue_state.lock();
        Some(queue_state.as_ref()?.smallest.locality(footprint))
    }

    /// A query came.
    pub(super) fn arrive(&self, shared: &Arc<Shared>, now_ns: u64, newcomer: Newcomer<'_>) -> Arrival {
        let candidate = newcomer.estimate.candidate(newcomer.choice);
        let (arrival, told) = {
            let mut queue_state = self.queue_state.lock();
            let Some(queue_state) = queue_state.as_mut() else {
                return Arrival::No;
            };
            let now_ns = queue_state.at(now_ns);
            if !newcomer.patient
                && let Some(expected_ns) = newcomer.expected_ns
                && queue_state.scheduler.wait_hoped_ns(now_ns)
                    > queue_state.scheduler.patience_ns(expected_ns)
            {
                self.counts.impatient.fetch_add(1, Ordering::Relaxed);
                return Arrival::No;
            }
            queue_state.next += 1;
            let id = QueryId(queue_state.next);
            let locality = queue_state.smallest.locality(candidate.footprint);
            let query = Query {
                id,
                statement: newcomer.statement,
                class: queue_state.scheduler.slowdowns().class_of(locality),
                footprint: candidate.footprint,
                expected_ns: newcomer.expected_ns,
                parts: 0,
                owner: corun_model::cache::coschedule::Owner::default(),
            };
            if queue_state.scheduler.arrive(now_ns, query).is_err() {
                // Full: nobody waits for a hint.
                self.counts.full.fetch_add(1, Ordering::Relaxed);
                return Arrival::No;
            }
            let entry = Entry {
                owner: newcomer.owner,
                locality,
                table_bytes: candidate.footprint.bytes().0,
                form: words(&candidate.form),
                expected_ns: newcomer.expected_ns,
                arrived_ns: now_ns,
                start: None,
                workers: candidate.workers,
                lent: Vec::new(),
                was_lent: false,
            };
            queue_state.entries.insert(id, entry);
            let mut told = self.dispatch(queue_state);
            let own = told.iter().position(|start| start.id == id);
            let ticket = Ticket::new(shared, id, newcomer.statement);
            let arrival = match own {
                Some(at) => {
                    told.swap_remove(at);
                    Arrival::Starts(ticket)
                }
                None => {
                    self.counts.waits.fetch_add(1, Ordering::Relaxed);
                    Arrival::Waits(ticket)
                }
            };
            (arrival, messages(queue_state, &told))
        };
        post(shared, told);
        arrival
    }

    /// A query is gone; with a time, it came to its end at it.
    pub(super) fn end(&self, shared: &Arc<Shared>, id: QueryId, finished_ns: Option<u64>) {
        self.follow.ended(id);
        let told = {
            let mut queue_state = self.queue_state.lock();
            let Some(queue_state) = queue_state.as_mut() else {
                return;
            };
            let known = queue_state.entries.remove(&id);
            let now_ns = queue_state.at(finished_ns.unwrap_or(0));
            let teaches = |entry: &Entry| entry.start.is_some() && !entry.was_lent;
            let teaches = finished_ns.is_some() && known.as_ref().is_some_and(teaches);
            let gone = if teaches {
                queue_state.scheduler.finish(now_ns, id)
            } else {
                queue_state.scheduler.leave(now_ns, id)
            };
            if let Err(error) = gone {
                tracing::error!(query = id.0, %error, "the scheduler and its queue_state disagree");
            }
            let starts = self.dispatch(queue_state);
            messages(queue_state, &starts)
        };
        post(shared, told);
    }

    /// Starts whom the scheduler says.
    fn dispatch(&self, queue_state: &mut QueueState) -> Vec<Start> {
        let starts = queue_state.scheduler.dispatch();
        for start in &starts {
            self.counts.started(start.why);
            if let Some(entry) = queue_state.entries.get_mut(&start.id) {
                entry.start = Some((start.clone(), queue_state.now_ns));
            }
        }
        queue_state.lend();
        starts
    }

    /// The cores for the parallel workers of a query that runs: those lent to it, with its own where they are fewer than its workers.
    /// `None`: it is planned without.
    pub(super) fn cpus_of_workers(&self, id: QueryId) -> Option<Vec<CpuId>> {
        self.of_entry(id, |entry| {
            let (start, _) = entry.start.as_ref().filter(|_| entry.workers > 0)?;
            let mut cpus = entry.lent.clone();
            if cpus.len() < entry.workers {
                cpus.extend(&start.cpus);
            }
            Some(cpus)
        })
    }

    fn of_entry<T>(&self, id: QueryId, read: impl FnOnce(&Entry) -> Option<T>) -> Option<T> {
        read(self.queue_state.lock().as_ref()?.entries.get(&id)?)
    }

    /// Whether a query that waits has not waited longer than it is worth.
    pub(super) fn has_patience(&self, id: QueryId, now_ns: u64) -> bool {
        let queue_state = self.queue_state.lock();
        let Some(queue_state) = queue_state.as_ref() else {
            return true;
        };
        let Some(entry) = queue_state.entries.get(&id) else {
            return true;
        };
        // Told of nothing else, it cannot know better.
        entry.expected_ns.is_none_or(|expected_ns| {
            let waited = now_ns.saturating_sub(entry.arrived_ns) as f64;
            waited <= queue_state.scheduler.patience_ns(expected_ns)
        })
    }

    /// A query that was started has gone out.
    pub(super) fn handed_over(&self, id: QueryId, now_ns: u64) {
        let started_ns = self.of_entry(id, |entry| Some(entry.start.as_ref()?.1));
        if let Some(started_ns) = started_ns {
            let took = now_ns.saturating_sub(started_ns);
            self.heavy.handed_over(took, Duration::from_nanos(now_ns));
        }
    }

    /// Where a query runs, if it does.
    pub(super) fn start_of(&self, id: QueryId) -> Option<Start> {
        self.of_entry(id, |entry| Some(entry.start.as_ref()?.0.clone()))
    }

    /// What moves processes into classes of the cache, if anything does.
    pub(super) fn partitioner(&self) -> Option<Arc<dyn Partitioner>> {
        self.queue_state.lock().as_ref()?.partitioner.clone()
    }

    /// How many wait and run: for tests and the census.
    pub fn census(&self) -> (usize, usize) {
        let queue_state = self.queue_state.lock();
        queue_state.as_ref().map_or((0, 0), |queue_state| {
            debug_assert_eq!(
                queue_state.entries.len(),
                queue_state.scheduler.waiting().len() + queue_state.scheduler.running().len()
            );
            (
                queue_state.scheduler.waiting().len(),
                queue_state.scheduler.running().len(),
            )
        })
    }

    /// `SHOW QUEUE`: those that run, then those that wait, each in order.
    pub fn queue(&self, now_ns: u64) -> Vec<QueueRow> {
        let queue_state = self.queue_state.lock();
        let Some(queue_state) = queue_state.as_ref() else {
            return Vec::new();
        };
        let now_ns = now_ns.max(queue_state.now_ns);
        let policy = name_of(&queue_state.scheduler);
        let row = |id: QueryId, overtaken: u32| {
            let entry = queue_state.entries.get(&id)?;
            let from = entry.start.as_ref().map_or(entry.arrived_ns, |(_, at)| *at);
            let start = entry.start.as_ref().map(|(start, _)| start);
            let waited_ns = start.map_or(now_ns.saturating_sub(entry.arrived_ns), |start| start.waited_ns);
            let class = start.map_or(entry.locality, |start| start.locality);
            let placed = self.follow.of(id).unwrap_or_default();
            Some(QueueRow {
                core: entry.owner.event_loop as u64,
                client: entry.owner.client_id,
                database: entry.owner.database.to_string(),
                user: entry.owner.user.to_string(),
                shape: format!("{:016x}", entry.owner.shape.0),
                state: if start.is_some() { "running" } else { "waiting" }.to_owned(),
                class: class.to_string(),
                table_bytes: entry.table_bytes,
                form: entry.form.clone(),
                policy: policy.clone(),
                waited_us: waited_ns / 1000,
                ran_us: start.map(|_| now_ns.saturating_sub(from) / 1000),
                cpu: placed.cpu.map(|cpu| u64::from(cpu.0)),
                cache: placed
                    .class
                    .map(|class| class.group().to_owned())
                    .unwrap_or_default(),
                workers: start.map(|_| placed.workers as u64),
                why: start.map(|start| start.why.to_string()).unwrap_or_default(),
                overtaken: u64::from(overtaken),
            })
        };
        let running = queue_state
            .scheduler
            .running()
            .iter()
            .map(|run| row(run.query.id, 0));
        let waiting = queue_state
            .scheduler
            .waiting()
            .iter()
            .map(|wait| row(wait.query.id, wait.overtaken));
        running.chain(waiting).flatten().collect()
    }

    /// `SHOW HEAVY_QUEUE`: the slow-downs as far as they are learnt.
    pub fn slowdowns(&self) -> Vec<SlowdownRow> {
        const ALL: [Locality; 3] = [Locality::Strong, Locality::Moderate, Locality::Weak];
        let queue_state = self.queue_state.lock();
        let Some(queue_state) = queue_state.as_ref() else {
            return Vec::new();
        };
        let model = queue_state.scheduler.slowdowns();
        let policy = name_of(&queue_state.scheduler);
        let cells = ALL
            .into_iter()
            .flat_map(|class| ALL.map(|beside| (class, beside)));
        let row = |(class, beside): (Locality, Locality)| {
            let factor = model
                .slowdown(model.class_of(class), model.class_of(beside))
                .ok()?;
            Some(SlowdownRow {
                class: class.to_string(),
                beside: beside.to_string(),
                percent: (factor * 100.0).round().max(0.0) as u64,
                cache_bytes: queue_state.smallest.cache().0,
                policy: policy.clone(),
                partition: queue_state.classes.clone(),
            })
        };
        cells.filter_map(row).collect()
    }
}

impl QueueState {
    /// A time that is not before the last.
    fn at(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    /// Lends the cores that nobody has.
    fn lend(&mut self) {
        let (ids, holders): (Vec<QueryId>, Vec<Holder>) = self
            .scheduler
            .running()
            .iter()
            .filter_map(|run| {
                let holder = Holder {
                    domain: run.domain,
                    cpu: *run.cpus.first()?,
                    workers: self.entries.get(&run.query.id)?.workers,
                };
                Some((run.query.id, holder))
            })
            .unzip();
        for (id, lent) in ids.iter().zip(lend(&self.cores, &holders)) {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.was_lent |= !lent.is_empty();
                entry.lent = lent;
            }
        }
    }
}

/// What event loops are to be told.
fn messages(queue_state: &QueueState, starts: &[Start]) -> Vec<(usize, Message)> {
    let message = |start: &Start| {
        let owner = &queue_state.entries.get(&start.id)?.owner;
        let message = Message::HeavyQueueStarts {
            client: owner.client,
            id: owner.client_id,
            query: start.id,
        };
        Some((owner.event_loop, message))
    };
    starts.iter().filter_map(message).collect()
}

fn post(shared: &Shared, told: Vec<(usize, Message)>) {
    for (event_loop, message) in told {
        shared.tell(event_loop, message);
    }
}

/// The policy followed now, as it is configured.
fn name_of(scheduler: &Scheduler) -> String {
    format!("{:?}", scheduler.policy()).to_lowercase()
}
