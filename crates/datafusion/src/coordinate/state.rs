//! A look at the coordinator from outside.

use super::books::{Books, Stage};
use corun_model::cache::coschedule::{Policy, QueryId, Why};
use corun_model::cache::locality::{Classifier, Locality};
use corun_model::units::CpuId;
use serde::Serialize;

/// Who waits, who runs, and what was learnt, at one moment.
#[derive(Serialize, Clone, Debug)]
pub struct State {
    /// The policy followed: what `auto` became.
    pub policy: Policy,
    /// In order of arrival.
    pub waiting: Vec<WaitingQuery>,
    /// In order of start.
    pub running: Vec<RunningQuery>,
    /// Short queries that run beside them.
    pub bypassing: Vec<QueryId>,
    /// Queries that have stopped because their clients do not read. They hold memory, but no CPU.
    pub unread: Vec<QueryId>,
    /// Statements that are no queries.
    pub statements: Vec<QueryId>,
    /// The slow-downs as far as they are learnt.
    pub slowdowns: Vec<Slowdown>,
}

/// A query that waits.
#[derive(Serialize, Clone, Debug)]
pub struct WaitingQuery {
    /// Which.
    pub id: QueryId,
    /// Its locality in the smallest of the caches.
    pub class: Locality,
    /// For how long.
    pub waited_ns: u64,
    /// How many that came later were started before it.
    pub overtaken: u32,
}

/// A query that runs on CPUs of its own.
#[derive(Serialize, Clone, Debug)]
pub struct RunningQuery {
    /// Which.
    pub id: QueryId,
    /// Its locality in the cache it runs in.
    pub class: Locality,
    /// Its CPUs.
    pub cpus: Vec<CpuId>,
    /// Why it was started there and then.
    pub why: Option<Why>,
    /// For how long.
    pub ran_ns: u64,
}

/// A cell of the learnt matrix.
#[derive(Serialize, Clone, Debug)]
pub struct Slowdown {
    /// Who is slowed down.
    pub victim: Locality,
    /// By whom.
    pub corunner: Locality,
    /// How many times as long the victim takes beside it.
    pub factor: f64,
}

impl State {
    /// Whether nobody is about.
    pub fn is_idle(&self) -> bool {
        let queries = self.waiting.is_empty() && self.running.is_empty() && self.bypassing.is_empty();
        queries && self.unread.is_empty() && self.statements.is_empty()
    }

    /// `classifiers` has one for each domain.
    pub(super) fn of(books: &Books, now_ns: u64, classifiers: &[Classifier], smallest: Classifier) -> Self {
        let scheduler = &books.scheduler;
        let waiting = scheduler.waiting().iter().map(|waiting| WaitingQuery {
            id: waiting.query.id,
            class: smallest.locality(waiting.query.footprint),
            waited_ns: now_ns - waiting.arrived_ns,
            overtaken: waiting.overtaken,
        });
        let running = scheduler.running().iter().map(|running| RunningQuery {
            id: running.query.id,
            class: classifiers[running.domain].locality(running.query.footprint),
            cpus: running.cpus.clone(),
            why: match books.entries.get(&running.query.id) {
                Some(Stage::Running { why, .. }) => Some(*why),
                _ => None,
            },
            ran_ns: now_ns - running.started_ns,
        });
        let all = |wanted: fn(&Stage) -> bool| {
            let entries = books.entries.iter().filter(move |(_, stage)| wanted(stage));
            entries.map(|(&id, _)| id).collect()
        };
        Self {
            policy: scheduler.policy(),
            waiting: waiting.collect(),
            running: running.collect(),
            bypassing: all(|stage| matches!(stage, Stage::Bypassing)),
            unread: all(|stage| matches!(stage, Stage::Unread)),
            statements: all(|stage| matches!(stage, Stage::Statement)),
            slowdowns: slowdowns(books),
        }
    }
}

fn slowdowns(books: &Books) -> Vec<Slowdown> {
    const ALL: [Locality; 3] = [Locality::Strong, Locality::Moderate, Locality::Weak];
    let model = books.scheduler.slowdowns();
    let pairs = ALL
        .into_iter()
        .flat_map(|victim| ALL.map(|corunner| (victim, corunner)));
    let cells = pairs.filter_map(|(victim, corunner)| {
        let factor = model
            .slowdown(model.class_of(victim), model.class_of(corunner))
            .ok()?;
        Some(Slowdown {
            victim,
            corunner,
            factor,
        })
    });
    cells.collect()
}
