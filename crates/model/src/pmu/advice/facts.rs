//! What advice is made from: figures of a run, each with its spread and how it came about.
//!
//! Plain data. A figure that nobody has is `None`, never a number in its place: a rule without its figures is silent.

use crate::spread::Label;

/// One number with its spread and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The median.
    pub value: f64,
    /// The least of the repetitions.
    pub low: f64,
    /// The greatest of the repetitions.
    pub high: f64,
    /// Whether it was measured or a model of a machine gave it.
    pub label: Label,
    /// What gave it: `counters`, `cachegrind`, `clock`, `kernel`, `polluter` and so on; empty if nobody said.
    pub how: String,
}

impl Figure {
    /// `12.3 % (11 to 13.1; measured, polluter)`: what stands in evidence.
    pub fn text(&self, unit: &str) -> String {
        let spread = if self.low == self.high {
            String::new()
        } else {
            format!("{} to {}; ", digits(self.low), digits(self.high))
        };
        let how = if self.how.is_empty() {
            String::new()
        } else {
            format!(", {}", self.how.replace('_', " "))
        };
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(" {unit}")
        };
        format!(
            "{}{unit} ({spread}{}{how})",
            digits(self.value),
            self.label.as_str()
        )
    }
}

/// About three significant digits, without an exponent.
pub(super) fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    let decimals = match value.abs() {
        magnitude if magnitude >= 100.0 || magnitude == 0.0 => 0,
        magnitude if magnitude >= 10.0 => 1,
        magnitude if magnitude >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// What is known of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Whether the kernel can divide the shared cache; `None` if nobody looked.
    pub resctrl: Option<bool>,
    /// The effective last-level cache, in bytes.
    pub llc_bytes: Option<Figure>,
    /// The largest share of the CPUs' time that the hypervisor gave to others during the run, in percent.
    pub steal_percent: Option<Figure>,
}

/// Where a workload runs; the same advice needs another command on each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Host {
    /// A PostgreSQL server, before which the proxy can stand.
    #[default]
    Server,
    /// The engine inside the program.
    Embedded,
}

/// What a workload did at one concurrency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Clients at once.
    pub concurrency: u32,
    /// Queries a second of all clients together.
    pub queries_per_s: Option<Figure>,
    /// Milliseconds of one client's query.
    pub ms_per_query: Option<Figure>,
    /// CPU time of a query, in microseconds.
    pub cpu_us_per_query: Option<Figure>,
    /// Time a query was ready and waited for a CPU, in microseconds.
    pub run_delay_us_per_query: Option<Figure>,
    /// How often a query was taken from its CPU against its will.
    pub involuntary_switches_per_query: Option<Figure>,
}

/// Queries a second with SMT over those without, at one concurrency.
#[derive(Clone, Debug, PartialEq)]
pub struct SmtRatio {
    /// Clients at once.
    pub concurrency: u32,
    /// Above 1 where SMT helps.
    pub ratio: Figure,
}

/// What is known of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Its name, as in the rows.
    pub name: String,
    /// Where it runs.
    pub host: Host,
    /// How much longer it takes beside a polluter that fills the whole last-level cache, in percent.
    pub sensitivity_percent: Option<Figure>,
    /// Loads that miss the last-level cache, in percent of all loads.
    pub llc_miss_percent: Option<Figure>,
    /// Rates and resources by concurrency, ascending.
    pub points: Vec<Point>,
    /// Bytes of instructions that one query touches.
    pub code_bytes: Option<Figure>,
    /// The level-one instruction cache they are held against, in bytes.
    pub l1i_bytes: Option<u64>,
    /// Misses of the level-one instruction cache, in percent.
    pub l1i_miss_percent: Option<Figure>,
    /// What SMT does, by concurrency.
    pub smt: Vec<SmtRatio>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The machine.
    pub machine: Machine,
    /// The workloads that ran.
    pub workloads: Vec<Workload>,
}
