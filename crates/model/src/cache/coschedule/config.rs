//! How a scheduler is set up, and what it refuses.

use super::{LlcDomain, PolicyError, PolicyName, QueryId};
use crate::cache::locality::{LocalityError, Thresholds};
use crate::cache::slowdown::SlowdownError;
use crate::units::CpuId;

/// How a scheduler is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The rule of choice.
    pub policy: PolicyName,
    /// Whether the last-level cache can be, and will be, partitioned between the two queues.
    pub partitioner: bool,
    /// Who shares which cache.
    pub domains: Vec<LlcDomain>,
    /// Where the locality classes meet.
    pub thresholds: Thresholds,
    /// How often a waiting query may be overtaken; 0 makes every policy `fifo`.
    pub overtakes_max: u32,
    /// Most queries that wait; more are refused.
    pub waiting_max: usize,
    /// Queries expected to take less run at once, beside the scheduled ones; 0 for none.
    pub short_below_ns: f64,
    /// Most queries that do so at a time; more wait like others.
    pub bypass_max: usize,
    /// Whether a query gets every CPU of its domain where nobody else waits, nobody runs there, and it did not have to wait itself.
    pub widen: bool,
}

impl Config {
    /// The usual setting: overtaken 8 times, 1024 waiting, 64 at a time bypassing if expected to take less than 10 ms, one CPU
    /// each. The four numbers are unmeasured.
    pub fn new(policy: PolicyName, partitioner: bool, domains: Vec<LlcDomain>) -> Self {
        Self {
            policy,
            partitioner,
            domains,
            thresholds: Thresholds::default(),
            overtakes_max: 8,
            waiting_max: 1024,
            short_below_ns: 10e6,
            bypass_max: 64,
            widen: false,
        }
    }
}

/// Why the scheduler refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// The policy cannot be followed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A domain's cache has no size.
    #[error(transparent)]
    Locality(#[from] LocalityError),
    /// A class of another model.
    #[error(transparent)]
    Slowdown(#[from] SlowdownError),
    /// Nothing to run on.
    #[error("there is no CPU to schedule on: {0}")]
    NoCpu(&'static str),
    /// A CPU in two places.
    #[error("CPU {0} is listed twice")]
    CpuTwice(CpuId),
    /// A queue of no places.
    #[error("at least 1 query must be allowed to wait: every query waits until it is dispatched")]
    NoQueue,
    /// A time that is none.
    #[error("{what} must be a finite number of nanoseconds not below 0, not {value}")]
    Time {
        /// Which one.
        what: &'static str,
        /// As given.
        value: f64,
    },
    /// Time ran backwards.
    #[error("an event at {event_ns} ns was reported after one at {now_ns} ns")]
    Backwards {
        /// Of the event.
        event_ns: u64,
        /// Of the latest before it.
        now_ns: u64,
    },
    /// The queue is full.
    #[error("{0} queries wait already")]
    Full(usize),
    /// A name that is taken.
    #[error("query {} is known already", .0.0)]
    Known(QueryId),
    /// A name nobody has.
    #[error("query {} is not known here", .0.0)]
    Unknown(QueryId),
    /// A query that cannot have finished.
    #[error("query {} has not been started", .0.0)]
    NotStarted(QueryId),
}

/// Whether a number can be a time.
pub(super) fn check_time(what: &'static str, value: f64) -> Result<(), ScheduleError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(ScheduleError::Time { what, value })
    }
}
