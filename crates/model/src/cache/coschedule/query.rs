//! A query's way through the scheduler: arrival, admission, waiting, start, running.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::turns::Owner;
use crate::cache::locality::{Footprint, Locality};
use crate::cache::slowdown::{Run, StatementClass, StatementId};
use crate::units::CpuId;

/// Names a query while the scheduler knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueryId(pub u64);

/// A query as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// Its name; not that of a query the scheduler still knows.
    pub id: QueryId,
    /// The statement it is a run of.
    pub statement: StatementId,
    /// The class its slow-downs are learnt under, of the scheduler's own model.
    pub class: StatementClass,
    /// What its main pipeline keeps touching; see [`crate::cache::pipeline::Pipelines::main`].
    pub footprint: Footprint,
    /// Nanoseconds the host expects it to run. Only asked while the statement's own runs have taught nothing better.
    pub expected_ns: Option<f64>,
    /// What its plan makes or reads that other queries can read meanwhile, as one bit a part; the host chooses which. Two parts with
    /// the same bit cost a better order, nothing else.
    pub parts: u64,
    /// Whose it is: owners take turns.
    pub owner: Owner,
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is short: run it now, on no CPU of the scheduler's.
    Bypass,
    /// No order could gain anything: run it now, as a host without a scheduler would.
    Free,
    /// It waits for [`Scheduler::dispatch`](super::Scheduler::dispatch).
    Queued {
        /// At most this many others of its owner start before it.
        starts_before_max: usize,
    },
}

/// A query to be started now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Which.
    pub id: QueryId,
    /// Place of its domain in [`Config::domains`](super::Config::domains).
    pub domain: usize,
    /// Its CPUs, free until now: one, or all of the domain (*wide*).
    pub cpus: Vec<CpuId>,
    /// Its locality in that domain: what part of the cache it should get.
    pub locality: Locality,
    /// What decided.
    pub why: Why,
    /// How long it waited.
    pub waited_ns: u64,
}

/// Why a query was started there and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It came first.
    Oldest,
    /// It was overtaken as often as is allowed.
    Aged,
    /// Nobody else runs in that domain.
    Alone,
    /// At least half of those that run there are of its queue.
    SameQueue,
    /// Most of those that run there are of the other queue.
    OtherQueue,
    /// By the slow-downs learnt it fits best there.
    Learned,
    /// It came first, and `auto` wanted to see what happens.
    Trial,
    /// It reads what a query that runs is making: who shares work is better company than who does no harm.
    Shares,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Why::Oldest => "oldest",
            Why::Aged => "overtaken as often as allowed",
            Why::Alone => "alone in its cache",
            Why::SameQueue => "beside its own queue",
            Why::OtherQueue => "beside the other queue",
            Why::Learned => "least learnt slow-down",
            Why::Trial => "oldest, to learn from",
            Why::Shares => "reads what another makes",
        })
    }
}

/// A query that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// The query.
    pub query: Query,
    /// When it came.
    pub arrived_ns: u64,
    /// How many of its owner's that came later were started before it.
    pub overtaken: u32,
}

/// A query that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// The query.
    pub query: Query,
    /// Place of its domain in [`Config::domains`](super::Config::domains).
    pub domain: usize,
    /// Its CPUs: one, or all of the domain.
    pub cpus: Vec<CpuId>,
    /// When it was started.
    pub started_ns: u64,
    /// What it will teach when it ends.
    pub(super) run: Run,
}

/// A query that bypassed the queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bypassing {
    pub(super) query: Query,
    /// Whether it was let through because no order could gain anything, not because it is short.
    pub(super) free: bool,
    pub(super) started_ns: u64,
}
