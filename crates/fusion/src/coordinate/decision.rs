//! What was decided about a query, and why.

use model::locality::{Footprint, Locality};
use model::units::Bytes;
use serde::Serialize;

/// What was decided about a query before it ran, and why.
#[derive(Serialize, Clone, Debug)]
pub struct Decision {
    /// Locality of the plan chosen.
    pub class: Locality,
    /// What its main pipeline keeps touching, `S`.
    pub footprint: Footprint,
    /// Effective last-level cache the class is of, `C`.
    pub cache: Bytes,
    /// The plans there were.
    pub alternatives: Vec<Alternative>,
    /// Place of the one chosen.
    pub chosen: usize,
    /// What decided.
    pub why: String,
    /// In order of running.
    pub pipelines: Vec<PipelineReport>,
    /// Each hash table.
    pub tables: Vec<TableEstimate>,
    /// Nanoseconds it is expected to run.
    pub expected_ns: f64,
}

/// A plan that was considered.
#[derive(Serialize, Clone, Debug)]
pub struct Alternative {
    /// Its first joins.
    pub joins: Vec<String>,
    /// Nanoseconds.
    pub cost_ns: f64,
    /// `S`.
    pub footprint: Footprint,
    /// Its locality.
    pub class: Locality,
}

/// A pipeline of the plan.
#[derive(Serialize, Clone, Debug)]
pub struct PipelineReport {
    /// Rows that pass.
    pub rows: u64,
    /// `S`.
    pub footprint: Footprint,
    /// Its locality.
    pub class: Locality,
    /// What ends it.
    pub end: String,
}

/// A hash table before it is built.
#[derive(Serialize, Clone, Debug)]
pub struct TableEstimate {
    /// What it is of.
    pub what: String,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: Bytes,
    /// Where the number of rows comes from.
    pub from: String,
}

/// A hash table that was built, beside its estimate.
#[derive(Serialize, Clone, Debug)]
pub struct TableBuilt {
    /// What it is of.
    pub what: String,
    /// Bytes expected.
    pub expected: Bytes,
    /// Bytes taken.
    pub built: Bytes,
}
