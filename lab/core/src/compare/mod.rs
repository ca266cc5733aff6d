//! Two runs held against each other: what changed beyond the spreads and the noise, by case and metric.
//!
//! ```text
//!   A ─┐   rows with equal keys (case, metric, engine, clients, ...) ─┬─► spreads apart, more than 1 % and A/A ─► changed
//!      ├─►                                                            ├─► the same, but too few values ────────► unsure
//!   B ─┘                                                              └─► otherwise ───────────────────────────► same: counted only
//!          facts and settings that differ ─► said first        rows of one run only ─► said last
//! ```
//!
//! Order of calls: [`diff`], then [`Diff::text`]. Spreads are said to be apart where the largest value of one run is below the
//! smallest of the other; a run's A/A controls say what noise did within it. It is not a test of significance, and it does not know why
//! something changed: machines and settings that differ stand first because they are the likeliest reason.

mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::row::{Label, Row, Value};
use crate::stats::Spread;

/// Less than this between two medians, in percent of the first, is nothing.
pub const CHANGE_PERCENT_MIN: f64 = 1.0;
/// Repetitions a measured row needs on both sides before its spread says anything.
pub const VALUES_MIN: usize = 3;

/// Which parameters say what a row is of; the others say how it came to be.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Those that do; empty: all words, counts and flags that are no results.
    pub identity: &'static [&'static str],
    /// Those that are results, not settings: they differ without anybody having set them so.
    pub results: &'static [&'static str],
}

/// The parameters of benchmark suites.
pub const OF_SUITES: Parameters = Parameters {
    identity: &[],
    results: &[
        "reason",
        "verdict",
        "noise_low",
        "noise_high",
        "pairs",
        "version",
        "duckdb_version",
        "polars_version",
        "paper",
        "paper_kind",
        "cache_bytes",
        "memory_bytes",
        "disk",
    ],
};

impl Parameters {
    fn identify(&self, name: &str, value: &Value) -> bool {
        match self.identity {
            [] => !self.results.contains(&name) && !matches!(value, Value::Number(_)),
            identity => identity.contains(&name),
        }
    }

    fn set(&self, name: &str, value: &Value) -> bool {
        !self.identify(name, value) && !self.results.contains(&name)
    }
}

/// One figure in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What it is of: `speedup queries_per_s utpcc smt=none concurrency=4`.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// In the first run.
    pub a: Spread,
    /// In the second.
    pub b: Spread,
}

impl Change {
    /// The second median over the first, less 1, in percent; infinite where the first is 0.
    pub fn percent(&self) -> f64 {
        100.0 * (self.b.median / self.a.median - 1.0)
    }
}

/// A name, and its value in each run; empty where a run has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The fact or the setting.
    pub name: String,
    /// In the first run.
    pub a: String,
    /// In the second.
    pub b: String,
}

/// What differs between two runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Facts about machine, server and program, and capabilities.
    pub machine: Vec<Difference>,
    /// Settings of rows that are of the same thing: rows of a table, sizes of a cache.
    pub settings: Vec<Difference>,
    /// Beyond the spreads, in the order of the first run.
    pub changed: Vec<Change>,
    /// Apart, but measured too few times to say so.
    pub unsure: Vec<Change>,
    /// How many figures are the same within their spreads.
    pub same: usize,
    /// What was a number in one run and could not be had in the other: what, why, and in which (`A` or `B`).
    pub lost: Vec<(String, String, char)>,
    /// Rows of the first run only.
    pub only_a: Vec<String>,
    /// Rows of the second run only.
    pub only_b: Vec<String>,
}

/// What a row is of.
fn key(row: &Row, parameters: &Parameters) -> String {
    let mut key = format!("{} {}", row.case, row.metric);
    // Rows of one thing may have been written by different programs, in another order.
    let names: Vec<&str> = match parameters.identity {
        [] => {
            let names = row.parameters.iter().map(|(name, _)| name.as_str());
            names.collect::<BTreeSet<&str>>().into_iter().collect()
        }
        identity => identity.to_vec(),
    };
    for name in names {
        match row
            .parameter(name)
            .filter(|value| parameters.identify(name, value))
        {
            None => {}
            Some(value) if name == "workload" || name == "engine" => {
                let _ = write!(key, " {value}");
            }
            Some(value) => {
                let _ = write!(key, " {name}={value}");
            }
        }
    }
    if let Some(versus) = &row.versus {
        let _ = write!(key, " versus {versus}");
    }
    key
}

/// Rows with their keys. Of rows that have the same key, each has its number behind it from the second on.
fn keyed<'r>(rows: &[&'r Row], parameters: &Parameters) -> Vec<(String, &'r Row)> {
    let mut seen = BTreeMap::new();
    rows.iter()
        .map(|&row| {
            let mut key = key(row, parameters);
            let times = seen
                .entry(key.clone())
                .and_modify(|times| *times += 1)
                .or_insert(1);
            if *times > 1 {
                let _ = write!(key, " #{times}");
            }
            (key, row)
        })
        .collect()
}

/// Names whose values differ, in the order of the first list, then of the second.
fn differences(a: &[(String, String)], b: &[(String, String)]) -> Vec<Difference> {
    let value = |list: &[(String, String)], name: &str| {
        let found = list.iter().find(|(other, _)| other == name);
        found.map_or_else(String::new, |(_, value)| value.clone())
    };
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in a.iter().chain(b) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
        .into_iter()
        .map(|name| Difference {
            name: name.clone(),
            a: value(a, name),
            b: value(b, name),
        })
        .filter(|difference| difference.a != difference.b)
        .collect()
}

/// Settings in which two rows of the same thing differ.
fn settings(a: &Row, b: &Row, parameters: &Parameters) -> Vec<Difference> {
    let of = |row: &Row| -> Vec<(String, String)> {
        let all = row.parameters.iter();
        let kept = all.filter(|(name, value)| parameters.set(name, value));
        kept.map(|(name, value): &(String, Value)| (name.clone(), value.to_string()))
            .collect()
    };
    differences(&of(a), &of(b))
}

/// What two figures are to each other.
enum Verdict {
    Same,
    Changed,
    Unsure,
}

fn verdict(a: &Row, b: &Row, change: &Change, noise: (f64, f64)) -> Verdict {
    let apart = change.a.max < change.b.min || change.b.max < change.a.min;
    let ratio = change.b.median / change.a.median;
    if !apart || change.percent().abs() < CHANGE_PERCENT_MIN || (noise.0..=noise.1).contains(&ratio) {
        return Verdict::Same;
    }
    // A simulation gives the same number each time, so one value is enough.
    let few = |row: &Row, spread: Spread| row.label == Label::Measured && spread.n < VALUES_MIN;
    if few(a, change.a) || few(b, change.b) {
        Verdict::Unsure
    } else {
        Verdict::Changed
    }
}

/// The noise of a metric of a case: the widest of the A/A controls of both runs.
fn noise(controls: &[&Row], row: &Row) -> (f64, f64) {
    let controls = controls.iter().filter(|control| {
        let of = control
            .parameter("compared")
            .is_none_or(|_| control.text("compared") == row.metric);
        control.case == row.case && of
    });
    controls.fold((1.0, 1.0), |(low, high): (f64, f64), control| {
        let bound = |name| control.number(name).unwrap_or(1.0);
        (low.min(bound("noise_low")), high.max(bound("noise_high")))
    })
}

/// One of the two: its rows, and what is known of machine and program.
#[derive(Clone, Debug, Default)]
pub struct Run<'r> {
    /// The rows.
    pub rows: Vec<&'r Row>,
    /// Names and values.
    pub facts: Vec<(String, String)>,
}

/// What differs between the rows of two runs.
pub fn diff(run_a: &Run<'_>, run_b: &Run<'_>, parameters: &Parameters) -> Diff {
    let mut result = Diff {
        machine: differences(&run_a.facts, &run_b.facts),
        ..Diff::default()
    };
    let (a, b) = (keyed(&run_a.rows, parameters), keyed(&run_b.rows, parameters));
    let of_b: BTreeMap<&str, &Row> = b.iter().map(|(key, row)| (key.as_str(), *row)).collect();
    let both = run_a.rows.iter().chain(&run_b.rows);
    let controls: Vec<&Row> = both
        .copied()
        .filter(|row| row.number("noise_low").is_some())
        .collect();
    let keys_of_a: BTreeSet<&str> = a.iter().map(|(key, _)| key.as_str()).collect();
    for (key, row_a) in &a {
        let Some(row_b) = of_b.get(key.as_str()) else {
            result.only_a.push(key.clone());
            continue;
        };
        for difference in settings(row_a, row_b, parameters) {
            if !result.settings.contains(&difference) {
                result.settings.push(difference);
            }
        }
        match (row_a.spread, row_b.spread) {
            (Some(spread_a), Some(spread_b)) => {
                let change = Change {
                    what: key.clone(),
                    unit: row_a.unit.clone(),
                    a: spread_a,
                    b: spread_b,
                };
                match verdict(row_a, row_b, &change, noise(&controls, row_a)) {
                    Verdict::Same => result.same += 1,
                    Verdict::Changed => result.changed.push(change),
                    Verdict::Unsure => result.unsure.push(change),
                }
            }
            (Some(_), None) => result
                .lost
                .push((key.clone(), row_b.text("reason").to_owned(), 'B')),
            (None, Some(_)) => result
                .lost
                .push((key.clone(), row_a.text("reason").to_owned(), 'A')),
            (None, None) => {}
        }
    }
    let only_b = b.iter().filter(|(key, _)| !keys_of_a.contains(key.as_str()));
    result.only_b = only_b.map(|(key, _)| key.clone()).collect();
    result
}
