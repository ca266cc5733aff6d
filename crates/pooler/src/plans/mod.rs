//! PostgreSQL's plans as data: what an `EXPLAIN` says of the caches a query will use, and what other forms it could take (paper
//! 002, sections 4 and 5.1, for a server that is not patched).
//!
//! ```text
//!   QUESTION + text ─► server ─► JSON ─► read ─► Explained ─┬─ footprint, tables   (corun_model::cache::pipeline, corun_model::pooler::pg_hash)
//!                                                           ├─ alternatives ─► the same question under each Form ─┐
//!                                                           ├─ questions ─► count(*) ─► Corrections               │
//!                                                           └────────────────────────────► Estimate ◄─────────────┘
//!                          Classes: one Estimate for (shape, values), or for the whole shape ◄─┘
//!                          Statistics: what must be the same for it to hold
//! ```
//!
//! Order of calls: [`read`] an answer; ask again for each of [`Explained::alternatives`] and put them into one [`Estimate`], whose
//! [`Estimate::sub_trees`] go to [`corun_model::cache::plan_choice::choose`]; keep it in [`Classes`]; compare [`Statistics`] now and then.
//!
//! Everything here is a hint. An answer that cannot be read is an error for our own question only: the client's query runs as it
//! would have. Not here: sending anything, waiting, and deciding who runs beside whom.

mod classes;
mod conditions;
mod corrections;
mod estimate;
mod fingerprint;
mod forms;
mod node;
mod shape;
mod statistics;

pub use classes::{Classes, Look};
pub use corrections::{Corrections, Key};
pub use corun_model::pooler::pg_hash::Memory;
pub use estimate::{Candidate, Estimate};
pub use forms::Form;
pub use node::Seen;
pub use shape::HashTable;
pub use statistics::{Changed, HINTS_SETTING, Relation, Statistics, has_hints};

use corun_model::cache::locality::Footprint;
use corun_model::cache::pipeline::PlanShape;
use corun_model::units::Bytes;
use serde::Deserialize;
use serde_json::Value;

use fingerprint::Fingerprint;
use node::Node;

/// Goes before the text of a statement, or before `EXECUTE name (values)` of a prepared one. Nothing is executed. With `VERBOSE` conditions name their tables, and outputs are
/// listed; with `SETTINGS` memory limits come along.
pub const QUESTION: &str = "EXPLAIN (FORMAT JSON, VERBOSE, SETTINGS) ";

/// Longest answer that is read, in bytes, so that no plan of a client takes the proxy's memory.
const ANSWER_MAX: usize = 4 << 20;

/// Lists and objects within one another at most; each operator of a plan takes two.
const DEPTH_MAX: usize = 256;

/// What a plan costs at least that the planner was forbidden and took for want of another (up to 17).
const COST_FORBIDDEN: f64 = 1e10;

/// Why an answer was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Not JSON.
    #[error("EXPLAIN returned no JSON: {0}")]
    Json(String),
    /// Too long to be looked at.
    #[error("EXPLAIN returned {0} bytes, more than corun reads")]
    TooLarge(usize),
    /// Nested too deeply.
    #[error("the plan is nested too deeply to be read")]
    TooDeep,
    /// Too many operators.
    #[error("the plan has too many operators to be read")]
    TooMany,
    /// A plan without something every plan has.
    #[error("EXPLAIN returned no {0}")]
    Missing(&'static str),
}

/// One plan, as PostgreSQL explained it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    root: Node,
    settings: Vec<(String, String)>,
}

/// Reads the answer to [`QUESTION`], or to `EXPLAIN (ANALYZE, FORMAT JSON, VERBOSE, SETTINGS)`.
///
/// # Errors
/// [`PlanError`] for what is no such answer, and for plans beyond the bounds of the reader. It never panics.
pub fn read(json: &str) -> Result<Explained, PlanError> {
    if json.len() > ANSWER_MAX {
        return Err(PlanError::TooLarge(json.len()));
    }
    if depth(json) > DEPTH_MAX {
        return Err(PlanError::TooDeep);
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.disable_recursion_limit();
    let answer = Value::deserialize(&mut reader);
    let answer = answer.and_then(|answer| reader.end().map(|()| answer));
    let answer = answer.map_err(|error| PlanError::Json(error.to_string()))?;
    let first = match &answer {
        Value::Array(plans) => plans.first(),
        one => Some(one),
    };
    let first = first.ok_or(PlanError::Missing("plan"))?;
    let plan = first.get("Plan").ok_or(PlanError::Missing("Plan"))?;
    let settings = first.get("Settings").and_then(Value::as_object);
    let settings = settings
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Ok(Explained {
        root: Node::read(plan)?,
        settings: settings.collect(),
    })
}

/// How many lists and objects a text opens within one another.
fn depth(json: &str) -> usize {
    let (mut open, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

impl Explained {
    /// The planner's cost of the whole.
    pub fn cost(&self) -> f64 {
        self.root.cost
    }

    /// What its main pipeline keeps touching (paper 002, section 4.3): the tables of its first two operators that have any.
    pub fn footprint(&self, memory: &Memory, corrections: &Corrections) -> Footprint {
        self.reading(memory, corrections).footprint()
    }

    /// The plan as the cache sees it. Plans computed once beside it are left out.
    pub fn shape(&self, memory: &Memory, corrections: &Corrections) -> PlanShape {
        self.reading(memory, corrections).shape
    }

    /// The table of each hash join, the outer joins' first.
    pub fn tables(&self, memory: &Memory, corrections: &Corrections) -> Vec<HashTable> {
        self.reading(memory, corrections).tables
    }

    /// Parallel workers it is planned with, of all places where rows are gathered.
    pub fn workers(&self) -> usize {
        let all = self.root.all().into_iter();
        let sum: u64 = all.map(|node| node.workers_planned).sum();
        usize::try_from(sum).unwrap_or(usize::MAX)
    }

    /// A hash of the plan's operators and what they read, without numbers: another plan has another one.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fingerprint::default();
        for node in self.root.all() {
            let texts = [
                Some(&node.kind),
                node.join_type.as_ref(),
                node.strategy.as_ref(),
                node.schema.as_ref(),
                node.relation.as_ref(),
                node.alias.as_ref(),
                node.index.as_ref(),
            ];
            for text in texts {
                hash.text(text.map_or("", String::as_str));
            }
            hash.number(node.inputs.len() as u64);
            hash.number(u64::from(node.parallel_aware));
        }
        hash.value()
    }

    /// Whether it has operators the planner was told not to use: the form that was asked for does not exist.
    pub fn is_forced(&self) -> bool {
        let mut all = self.root.all().into_iter();
        self.root.cost >= COST_FORBIDDEN || all.any(|node| node.disabled)
    }

    /// The relations it reads, each once.
    pub fn relations(&self) -> Vec<Relation> {
        let mut relations: Vec<Relation> = self
            .root
            .all()
            .into_iter()
            .filter_map(|node| {
                Some(Relation {
                    schema: node.schema.clone()?,
                    name: node.relation.clone()?,
                })
            })
            .collect();
        relations.sort_unstable();
        relations.dedup();
        relations
    }

    /// Memory settings the answer itself shows, else those handed in. `SETTINGS` lists what differs from PostgreSQL's own values.
    pub fn memory(&self, known: &Memory) -> Memory {
        let setting = |name: &str| {
            let found = self.settings.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        Memory {
            work_mem: setting("work_mem")
                .and_then(memory_setting)
                .unwrap_or(known.work_mem),
            hash_mem_multiplier: setting("hash_mem_multiplier")
                .and_then(|text| text.parse().ok())
                .unwrap_or(known.hash_mem_multiplier),
        }
    }

    /// Whether a leader takes part in the work of its workers.
    fn leader(&self) -> bool {
        !self
            .settings
            .iter()
            .any(|(name, value)| name == "parallel_leader_participation" && value == "off")
    }

    fn reading(&self, memory: &Memory, corrections: &Corrections) -> shape::Reading {
        shape::read(&self.root, self.leader(), &self.memory(memory), corrections)
    }
}

/// A setting such as `64MB` or `65536`, which is in kilobytes.
pub(crate) fn memory_setting(text: &str) -> Option<Bytes> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "B" => 1,
        "" | "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    let number: u64 = digits.trim().parse().ok()?;
    number.checked_mul(unit).map(Bytes)
}
