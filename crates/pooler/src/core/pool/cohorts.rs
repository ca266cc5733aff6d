//! Which client in a pool's queue is next: cohorts of statements of one shape (paper 003's teams, one level up).
//!
//! The choice is [`corun_model::pooler::cohort`]'s; here are its inputs: when a client waits and what it wants to run, and with `auto` how fast the
//! pool was with and without cohorts while somebody always waited.

use std::time::Duration;

use corun_model::pooler::cohort::{AutoCohorts, CohortLimits, CohortQueue};

use crate::config::{Corun, Switch};
use crate::core::pool::Waiting;
use crate::understand::Shape;

/// An interval that `auto` compares is at least this long. Unmeasured.
const INTERVAL: Duration = Duration::from_millis(20);
/// Waiting clients looked at for one of the shape that ran last.
const WINDOW: usize = 128;

/// A pool's queue.
#[derive(Debug)]
pub(in crate::core) struct Queue {
    waiting: CohortQueue<Waiting>,
    limits: CohortLimits,
    switch: Switch,
    auto: AutoCohorts,
    /// When the interval began, and the queries ended then; `None` while nobody waits.
    interval: Option<(Duration, u64)>,
    /// Statements that followed one of their own shape, out of turn or in turn.
    pub alike: u64,
    /// Statements taken from the queue.
    pub taken: u64,
    last: Shape,
}

impl Queue {
    /// An empty queue.
    pub fn new(switch: Switch, corun: &Corun) -> Self {
        let mut queue = Self {
            waiting: CohortQueue::new(CohortLimits::default()),
            limits: CohortLimits::default(),
            switch,
            auto: AutoCohorts::new(),
            interval: None,
            alike: 0,
            taken: 0,
            last: Shape::UNKNOWN,
        };
        queue.configure(switch, corun);
        queue
    }

    /// Takes over changed settings.
    pub fn configure(&mut self, switch: Switch, corun: &Corun) {
        self.switch = switch;
        self.limits = CohortLimits {
            length_max: corun.cohort_length_max,
            wait_max_us: u64::from(corun.cohort_wait_max_us),
            window: WINDOW,
        };
        self.apply();
    }

    /// Whether cohorts are formed now.
    pub fn forms(&self) -> bool {
        match self.switch {
            Switch::On => true,
            Switch::Off => false,
            Switch::Auto => self.auto.on(),
        }
    }

    fn apply(&mut self) {
        let mut limits = self.limits;
        if !self.forms() {
            limits.length_max = 1;
        }
        self.waiting.cohort().set_limits(limits);
    }

    /// A client has to wait.
    pub fn push(&mut self, waiting: Waiting) {
        self.waiting.push(waiting.shape.0, waiting);
    }

    /// The client that goes next; `queries` is what the pool has answered so far.
    pub fn pop(&mut self, now: Duration, queries: u64) -> Option<Waiting> {
        self.judge(now, queries);
        let next = self
            .waiting
            .pop(u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
        match next {
            Some(next) => {
                self.taken += 1;
                self.alike += u64::from(next.shape == self.last && next.shape != Shape::UNKNOWN);
                self.last = next.shape;
            }
            // Nobody waits: what follows says nothing about the order.
            None => self.interval = None,
        }
        next
    }

    fn judge(&mut self, now: Duration, queries: u64) {
        if self.switch != Switch::Auto {
            return;
        }
        let Some((began, before)) = self.interval else {
            self.interval = Some((now, queries));
            return;
        };
        let lasted = now.saturating_sub(began);
        if lasted < INTERVAL {
            return;
        }
        self.interval = Some((now, queries));
        let on = self.auto.on();
        let nanoseconds = u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX);
        if self.auto.interval(on, queries - before, nanoseconds) != on {
            self.apply();
        }
    }

    /// The one that has waited longest of those that `fit`.
    pub fn take(&mut self, fit: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let next = self.iter().copied().find(fit)?;
        self.remove(next.client);
        self.taken += 1;
        Some(next)
    }

    /// A statement runs without having waited.
    pub fn ran(&mut self, shape: Shape) {
        self.interval = None;
        self.last = shape;
        self.waiting.cohort().ran(shape.0);
    }

    /// Takes a client out.
    pub fn remove(&mut self, client: usize) {
        self.waiting.retain(|waiting| waiting.client != client);
    }

    /// Takes all out.
    pub fn drain(&mut self) -> Vec<Waiting> {
        let all = self.waiting.iter().copied().collect();
        self.waiting.retain(|_| false);
        all
    }

    /// Those that wait.
    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
