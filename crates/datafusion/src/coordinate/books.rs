//! Who is where: the scheduler, and beside it what it does not know of a query.
//!
//! ```text
//!   arrive ──▶ Waiting ──dispatch──▶ Running ──┬── unread ──▶ Unread ──┐
//!      │          │                            │                       ├──▶ gone
//!      ├──▶ Bypassing ─────────────────────────┴── end, cancel ────────┤
//!      └──▶ Statement ─────────────────────────────────────────────────┘
//! ```
//!
//! All of it stands under one mutex, held for microseconds: nothing here waits, plans, runs or drops a query. Each event
//! answers with the queries to be started, which the caller hands to the pools after it has let the mutex go.
//!
//! A query whose client does not read is *unread*: it has left the scheduler, so that its CPU serves others, and runs on
//! beside them when it is read again.

use super::run::Job;
use crate::EngineError;
use corun_model::cache::coschedule::{Admission, Query, QueryId, ScheduleError, Scheduler, Start, Why};
use corun_model::cache::locality::Footprint;
use std::collections::{BTreeMap, HashSet};

/// Most texts of statements that are remembered as short; then all are forgotten.
const SHORT_MAX: usize = 4096;

/// See the module.
pub(super) struct Books {
    pub(super) scheduler: Scheduler,
    /// Everyone who is about.
    pub(super) entries: BTreeMap<QueryId, Stage>,
    waiting_max: usize,
    next: u64,
    /// No pool is there any more.
    stopped: bool,
    /// Fingerprints of texts whose last run bypassed.
    short: HashSet<u64>,
}

/// How far a query is.
pub(super) enum Stage {
    /// The scheduler will start it.
    Waiting(Box<Job>),
    /// On CPUs of the scheduler's.
    Running {
        /// What decided.
        why: Why,
    },
    /// Let through, on none of them.
    Bypassing,
    /// Nobody reads its results; the scheduler has forgotten it.
    Unread,
    /// Not a query: definitions, insertions, explanations. The scheduler never knew it.
    Statement,
}

/// A query to be started, and where.
pub(super) type Started = (Box<Job>, Start);

impl Books {
    pub(super) fn new(scheduler: Scheduler, waiting_max: usize) -> Self {
        Self {
            scheduler,
            entries: BTreeMap::new(),
            waiting_max,
            next: 0,
            stopped: false,
            short: HashSet::new(),
        }
    }

    /// Whether a query of this text would probably be started on all CPUs of a domain that has so many, as things are.
    pub(super) fn likely_wide(&self, text: u64, cpus: usize) -> bool {
        self.scheduler.may_widen(cpus)
            && !self.short.contains(&text)
            && self.scheduler.waiting().is_empty()
            && self.scheduler.running().is_empty()
    }

    /// A name for the next query.
    pub(super) fn name(&mut self) -> QueryId {
        self.next += 1;
        QueryId(self.next)
    }

    /// A query came. Its job is taken if it has to wait, and left if it is let through.
    pub(super) fn arrive(
        &mut self,
        now_ns: u64,
        query: Query,
        text: u64,
        job: &mut Option<Box<Job>>,
    ) -> Result<Admission, EngineError> {
        self.check_open()?;
        self.check_room(
            |stage| matches!(stage, Stage::Unread),
            "results of queries wait to be read",
        )?;
        let admission = self.scheduler.arrive(now_ns, query).map_err(refused)?;
        self.remember_short(text, admission == Admission::Bypass);
        let stage = match (admission, job.take()) {
            (Admission::Queued { .. }, Some(waiting)) => Stage::Waiting(waiting),
            (_, bypassing) => {
                *job = bypassing;
                Stage::Bypassing
            }
        };
        self.entries.insert(query.id, stage);
        Ok(admission)
    }

    /// A statement that is no query came.
    pub(super) fn arrive_statement(&mut self) -> Result<QueryId, EngineError> {
        self.check_open()?;
        self.check_room(|stage| matches!(stage, Stage::Statement), "statements run")?;
        let id = self.name();
        self.entries.insert(id, Stage::Statement);
        Ok(id)
    }

    /// One came to its end; `teaches` if its run time is one of its own making.
    pub(super) fn end(&mut self, now_ns: u64, id: QueryId, teaches: bool) -> Vec<Started> {
        let gone = match self.entries.remove(&id) {
            Some(Stage::Running { .. } | Stage::Bypassing) if teaches => self.scheduler.finish(now_ns, id),
            Some(Stage::Waiting(_) | Stage::Running { .. } | Stage::Bypassing) => {
                self.scheduler.leave(now_ns, id)
            }
            Some(Stage::Unread | Stage::Statement) | None => Ok(()),
        };
        note(id, gone);
        self.dispatch()
    }

    /// A client gave up. Answers with its job if it still waits; one that runs is the caller's to end.
    pub(super) fn give_up(&mut self, now_ns: u64, id: QueryId) -> (Option<Box<Job>>, Vec<Started>) {
        if !matches!(self.entries.get(&id), Some(Stage::Waiting(_))) {
            return (None, Vec::new());
        }
        let Some(Stage::Waiting(job)) = self.entries.remove(&id) else {
            return (None, Vec::new());
        };
        note(id, self.scheduler.leave(now_ns, id));
        (Some(job), self.dispatch())
    }

    /// A client does not read: whoever waits may have the CPUs.
    pub(super) fn unread(&mut self, now_ns: u64, id: QueryId) -> Vec<Started> {
        let Some(stage) = self.entries.get_mut(&id) else {
            return Vec::new();
        };
        if matches!(stage, Stage::Running { .. } | Stage::Bypassing) {
            *stage = Stage::Unread;
            note(id, self.scheduler.leave(now_ns, id));
        }
        self.dispatch()
    }

    /// Its tables are not of the size that was expected.
    pub(super) fn change(&mut self, id: QueryId, footprint: Footprint) {
        if matches!(
            self.entries.get(&id),
            Some(Stage::Running { .. } | Stage::Bypassing)
        ) {
            note(id, self.scheduler.change(id, footprint));
        }
    }

    /// The pools are about to end. Returns the jobs that will not run.
    pub(super) fn stop(&mut self, now_ns: u64) -> Vec<Job> {
        self.stopped = true;
        let waiting: Vec<QueryId> = self.scheduler.waiting().iter().map(|w| w.query.id).collect();
        let jobs = waiting.into_iter().filter_map(|id| self.give_up(now_ns, id).0);
        jobs.map(|job| *job).collect()
    }

    /// Whether the coordinator is gone: nothing starts any more, and what runs is cut off.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Starts whom the scheduler says.
    pub(super) fn dispatch(&mut self) -> Vec<Started> {
        if self.stopped {
            return Vec::new();
        }
        let mut started = Vec::new();
        for start in self.scheduler.dispatch() {
            let running = Stage::Running { why: start.why };
            if let Some(Stage::Waiting(job)) = self.entries.insert(start.id, running) {
                started.push((job, start));
            }
        }
        started
    }

    fn check_open(&self) -> Result<(), EngineError> {
        if self.stopped {
            return Err(super::stopped());
        }
        Ok(())
    }

    fn check_room(&self, of: impl Fn(&Stage) -> bool, what: &str) -> Result<(), EngineError> {
        let there = self.entries.values().filter(|stage| of(stage)).count();
        if there < self.waiting_max {
            return Ok(());
        }
        Err(full(format!("{there} {what} already, and no more may")))
    }

    fn remember_short(&mut self, text: u64, short: bool) {
        if !short {
            self.short.remove(&text);
            return;
        }
        if self.short.len() >= SHORT_MAX {
            self.short.clear();
        }
        self.short.insert(text);
    }
}

/// An event the scheduler refused although the books say it may not: worth knowing, but no reason to fail a query.
fn note(id: QueryId, outcome: Result<(), ScheduleError>) {
    if let Err(error) = outcome {
        tracing::error!(query = id.0, %error, "the scheduler and its books disagree");
    }
}

fn refused(error: ScheduleError) -> EngineError {
    match error {
        ScheduleError::Full(waiting) => full(format!("{waiting} queries wait already, and no more may")),
        other => EngineError::new("the query cannot be scheduled").with_detail(other.to_string()),
    }
}

fn full(primary: String) -> EngineError {
    EngineError::new(primary).with_hint("submit it again later, use fewer clients, or raise waiting_max")
}
