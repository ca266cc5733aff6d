//! [`Estimate`]: what the queue wants to know of a statement's plans, taken from what `EXPLAIN` says.

use std::time::Duration;

use model::locality::Footprint;
use model::plan_choice::{JoinOperator, SubTree};
use model::units::Bytes;

/// A plan, and how to make PostgreSQL take it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Settings of its transaction; none: it is what PostgreSQL takes by itself.
    pub settings: Vec<(&'static str, &'static str)>,
    /// These in words.
    pub form: String,
    /// What PostgreSQL thinks it costs.
    pub cost: f64,
    /// What its main pipeline keeps touching.
    pub footprint: Footprint,
}

/// The plans of a statement with its values, PostgreSQL's own first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    /// At least one.
    pub candidates: Vec<Candidate>,
    /// Tells plans of different shape apart.
    pub fingerprint: u64,
    /// What the server cancels the statement after, where the client has not said so itself.
    pub statement_timeout: Option<Duration>,
    /// Whether it may run within a transaction block all the same.
    pub may_change: bool,
}

impl Estimate {
    /// The candidates as `model::plan_choice` compares them.
    pub fn sub_trees(&self) -> Vec<SubTree> {
        let tree = |candidate: &Candidate| SubTree {
            first: match candidate.footprint {
                Footprint::Tables(table) => JoinOperator::Hash { table },
                Footprint::Streams => JoinOperator::Index,
            },
            second: None,
            cost: candidate.cost,
        };
        self.candidates.iter().map(tree).collect()
    }
}

/// What one `EXPLAIN` said.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Explained {
    pub cost: f64,
    pub footprint: Footprint,
    pub fingerprint: u64,
}

/// The question before a text.
pub(super) const QUESTION: &str = "EXPLAIN (FORMAT JSON, VERBOSE, SETTINGS) ";

/// Bytes of an answer that are looked at.
const ANSWER_MAX: usize = 1 << 20;

impl Explained {
    /// Reads the answer to [`QUESTION`]. `None`: it is none.
    pub fn read(json: &str) -> Option<Self> {
        let json = json.get(..json.len().min(ANSWER_MAX))?;
        let number = |text: &str, key: &str| -> Option<f64> {
            let at = text.find(key)? + key.len();
            let rest = text[at..].trim_start_matches([':', ' ']);
            let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
            rest[..end].parse().ok()
        };
        let cost = number(json, "\"Total Cost\"")?;
        let mut bytes = None;
        let mut fingerprint = 0xcbf2_9ce4_8422_2325_u64;
        for node in json.split("\"Node Type\"").skip(1) {
            let kind = node.trim_start_matches([':', ' ']).get(1..).unwrap_or_default();
            let kind = &kind[..kind.find('"').unwrap_or(0)];
            for byte in kind.bytes().chain([0]) {
                fingerprint = (fingerprint ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
            if kind == "Hash" {
                let rows = number(node, "\"Plan Rows\"")?;
                let width = number(node, "\"Plan Width\"")?;
                *bytes.get_or_insert(0.0) += rows * (width + 24.0);
            }
        }
        Some(Self {
            cost,
            footprint: bytes.map_or(Footprint::Streams, |bytes: f64| {
                Footprint::Tables(Bytes(bytes as u64))
            }),
            fingerprint,
        })
    }

    /// Settings that may make another plan of it.
    pub fn alternatives(&self) -> Vec<Vec<(&'static str, &'static str)>> {
        match self.footprint {
            Footprint::Tables(_) => vec![vec![("enable_hashjoin", "off"), ("enable_mergejoin", "off")]],
            Footprint::Streams => vec![vec![("enable_nestloop", "off"), ("enable_mergejoin", "off")]],
        }
    }
}

/// Settings in words, as they are sent.
pub(super) fn words(settings: &[(&str, &str)]) -> String {
    let words: Vec<String> = settings
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    words.join(" ")
}
