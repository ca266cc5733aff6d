//! What was decided about a query before it ran, and what its tables turned out to be.
//!
//! Plain data, for reports and `EXPLAIN`; `plan` makes it, [`decision_text`] prints it.

pub use super::facade::{DecideOptions, DecidedRun};
pub use super::text::decision_text;

use corun_model::cache::locality::{Footprint, Locality};
use corun_model::cache::pipeline::PipelineEnd;
use corun_model::units::{Bytes, Rows};
use serde::Serialize;

/// A planned query.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    /// Locality of the chosen plan.
    pub class: Locality,
    /// `S`: what the main pipeline of the chosen plan comes back to.
    pub footprint: Footprint,
    /// `C`: the effective last-level cache the class was found for.
    pub cache: Bytes,
    /// The forms of the plan that were compared, the planner's own first.
    pub alternatives: Vec<Alternative>,
    /// Which of them it is.
    pub chosen: usize,
    /// Why that one.
    pub why: String,
    /// Pipelines of the chosen plan in the order they run.
    pub pipelines: Vec<PipelineReport>,
    /// Hash tables of the chosen plan.
    pub tables: Vec<TableEstimate>,
    /// Its inner joins of three tables and more.
    pub join_orders: Vec<JoinOrder>,
    /// Nanoseconds the chosen plan takes alone, all its partitions busy.
    pub expected_ns: f64,
    /// The parts of its plan that it shares with other statements and that are not complete, a bit each; see
    /// [`Query::parts`](corun_model::cache::coschedule::Query::parts).
    pub parts: u64,
}

/// Inner joins, one on the other, and why they run in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JoinOrder {
    /// `(sales join day) join stock`.
    pub joins: String,
    /// How many rows lie between them, or why they run as they are written.
    pub why: String,
}

/// A form of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// The first two joins of its main pipeline: `hash part 12 MiB`, `index lineorder`.
    pub joins: Vec<String>,
    /// Nanoseconds of one thread that the whole plan costs.
    pub cost_ns: f64,
    /// `S` of its main pipeline.
    pub footprint: Footprint,
    /// Its locality.
    pub class: Locality,
}

/// A pipeline of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PipelineReport {
    /// Rows that enter it.
    pub rows: Rows,
    /// What it comes back to.
    pub footprint: Footprint,
    /// Its locality.
    pub class: Locality,
    /// Where its rows end up.
    pub end: PipelineEnd,
}

/// Where an estimate comes from, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A table like it was built before.
    Built,
    /// All rows were counted.
    Exact,
    /// The table's statistics.
    Statistics,
    /// A sample of the table's rows.
    Sample,
    /// Nothing but rules of thumb, for a part of it at least.
    Guess,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Source::Built => "built",
            Source::Exact => "exact",
            Source::Statistics => "statistics",
            Source::Sample => "sample",
            Source::Guess => "guess",
        })
    }
}

/// A hash table before it is built.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableEstimate {
    /// What it is of: `join part`, `join part+supplier`, `groups of lineorder+date`.
    pub what: String,
    /// Rows in it, or groups.
    pub rows: Rows,
    /// Its bytes: buckets and rows (paper 002, section 4.2, footnote 4).
    pub bytes: Bytes,
    /// How that is known.
    pub from: Source,
    /// Whether it is one of the first two of the main pipeline, which the class rests on.
    pub counts: bool,
}

/// A hash table with what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableBuilt {
    /// As expected.
    pub estimate: TableEstimate,
    /// Rows really in it; `None` until it is built.
    pub rows: Option<Rows>,
    /// Bytes it really takes; `None` until it is built.
    pub bytes: Option<Bytes>,
}
