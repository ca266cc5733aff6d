//! Two runs held against each other: what changed beyond the spreads, by case and metric.
//!
//! ```text
//!   A ─┐   rows with equal keys (workload, SMT, clients, function, ...) ─┬─► spreads apart and 1 % or more ─► changed
//!      ├─►                                                               ├─► the same, but too few values ──► unsure
//!   B ─┘                                                                 └─► otherwise ─────────────────────► same: counted only
//!          facts and settings that differ ─► said first        rows of one run only ─► said last
//! ```
//!
//! Order of calls: [`diff`], then [`Diff::text`]. Spreads are said to be apart where the largest value of one run is below the
//! smallest of the other. It is not a test of significance, and it does not know why something changed: machines and settings that
//! differ stand first because they are the likeliest reason.

use std::fmt::Write as _;

use super::rows::{ADVICE, CAPABILITY, MACHINE, facts};
use corun_cli::{number, plain};
use lab_core::row::{Label, Row, Value};
use lab_core::stats::Spread;

/// Less than this between two medians, in percent of the first, is nothing.
pub const CHANGE_PERCENT_MIN: f64 = 1.0;
/// Repetitions a measured row needs on both sides before its spread says anything.
pub const VALUES_MIN: usize = 3;

/// Parameters that say what a row is of; the others say how it came to be.
const IDENTITY: [&str; 16] = [
    "workload",
    "smt",
    "how",
    "concurrency",
    "cpu",
    "cache",
    "component",
    "category",
    "level",
    "function",
    "module",
    "kind",
    "footprint_bytes",
    "streams",
    "intensity",
    "capability",
];

/// Parameters that are results, not settings: they differ without anybody having set them so.
const RESULTS: [&str; 11] = [
    "reason",
    "outliers",
    "spread_low",
    "spread_high",
    "rank",
    "scaled",
    "evidence",
    "command",
    "advice",
    "stake_percent",
    "verdict",
];

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
fn key(row: &Row) -> String {
    let mut key = format!("{} {}", row.case, row.metric);
    for name in IDENTITY {
        match row.parameter(name) {
            None => {}
            Some(value) if name == "workload" => {
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
fn keyed(rows: &[Row]) -> Vec<(String, &Row)> {
    let mut seen = std::collections::BTreeMap::new();
    rows.iter()
        .filter(|row| ![MACHINE, ADVICE, CAPABILITY].contains(&row.case.as_str()))
        .map(|row| {
            let mut key = key(row);
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

/// Facts and capabilities of a run.
fn circumstances(rows: &[Row]) -> Vec<(String, String)> {
    let capabilities = rows.iter().filter(|row| row.case == CAPABILITY).map(|row| {
        let there = row.label != Label::Unavailable && row.median().is_none_or(|number| number != 0.0);
        let value = if there { "available" } else { "unavailable" };
        (row.text("capability").to_owned(), value.to_owned())
    });
    facts(rows).into_iter().chain(capabilities).collect()
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
fn settings(a: &Row, b: &Row) -> Vec<Difference> {
    let of = |row: &Row| -> Vec<(String, String)> {
        let kept = row
            .parameters
            .iter()
            .filter(|(name, _)| !IDENTITY.contains(&name.as_str()) && !RESULTS.contains(&name.as_str()));
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

fn verdict(a: &Row, b: &Row, change: &Change) -> Verdict {
    let apart = change.a.max < change.b.min || change.b.max < change.a.min;
    if !apart || change.percent().abs() < CHANGE_PERCENT_MIN {
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

/// What differs between the rows of two runs.
pub fn diff(a: &[Row], b: &[Row]) -> Diff {
    let mut result = Diff {
        machine: differences(&circumstances(a), &circumstances(b)),
        ..Diff::default()
    };
    let (a, b) = (keyed(a), keyed(b));
    let of_b: std::collections::BTreeMap<&str, &Row> =
        b.iter().map(|(key, row)| (key.as_str(), *row)).collect();
    let keys_of_a: std::collections::BTreeSet<&str> = a.iter().map(|(key, _)| key.as_str()).collect();
    for (key, row_a) in &a {
        let Some(row_b) = of_b.get(key.as_str()) else {
            result.only_a.push(key.clone());
            continue;
        };
        for difference in settings(row_a, row_b) {
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
                match verdict(row_a, row_b, &change) {
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

/// Keys of one run only that are listed; more are counted.
const ONLY_MAX: usize = 20;

impl Diff {
    /// Whether nothing but equal figures was found.
    pub fn is_empty(&self) -> bool {
        *self
            == Diff {
                same: self.same,
                ..Diff::default()
            }
    }

    /// For a terminal, ending with a line feed; `a` and `b` name the runs.
    pub fn text(&self, a: &str, b: &str) -> String {
        let mut text = format!("A: {a}\nB: {b}\n");
        let section = |text: &mut String, heading: &str| {
            let _ = write!(text, "\n{heading}\n{}\n", "=".repeat(heading.chars().count()));
        };
        let pairs = |list: &[Difference]| -> Vec<Vec<String>> {
            let word = |value: &str| {
                if value.is_empty() {
                    "-".to_owned()
                } else {
                    value.to_owned()
                }
            };
            list.iter()
                .map(|difference| vec![difference.name.clone(), word(&difference.a), word(&difference.b)])
                .collect()
        };
        for (heading, list) in [
            ("Machine, server and capabilities that differ", &self.machine),
            ("Settings that differ", &self.settings),
        ] {
            if !list.is_empty() {
                section(&mut text, heading);
                text.push_str(&plain::table(&["", "A", "B"], 0, &pairs(list)));
            }
        }
        let spread = |spread: Spread| {
            if spread.min == spread.max {
                number::short(spread.median)
            } else {
                format!(
                    "{} ({}..{})",
                    number::short(spread.median),
                    number::short(spread.min),
                    number::short(spread.max)
                )
            }
        };
        let changes = |list: &[Change]| -> Vec<Vec<String>> {
            list.iter()
                .map(|change| {
                    let percent = change.percent();
                    let percent = if percent.is_finite() {
                        format!("{percent:+.1} %")
                    } else {
                        "from 0".to_owned()
                    };
                    vec![
                        change.what.clone(),
                        change.unit.clone(),
                        spread(change.a),
                        spread(change.b),
                        percent,
                    ]
                })
                .collect()
        };
        for (heading, list) in [
            ("Changed beyond the spreads", &self.changed),
            ("Apart, but measured too few times to say", &self.unsure),
        ] {
            if !list.is_empty() {
                section(&mut text, heading);
                text.push_str(&plain::table(
                    &["figure", "unit", "A", "B", "change"],
                    1,
                    &changes(list),
                ));
            }
        }
        if !self.lost.is_empty() {
            section(&mut text, "Had in one run only");
            for (what, reason, run) in &self.lost {
                text.push_str(&plain::paragraph("", &format!("{what}: not in {run}: {reason}")));
            }
        }
        for (heading, list) in [("Rows of A only", &self.only_a), ("Rows of B only", &self.only_b)] {
            if list.is_empty() {
                continue;
            }
            section(&mut text, heading);
            for what in list.iter().take(ONLY_MAX) {
                let _ = writeln!(text, "{what}");
            }
            if list.len() > ONLY_MAX {
                let _ = writeln!(text, "and {} more", list.len() - ONLY_MAX);
            }
        }
        let _ = write!(
            text,
            "\n{} figures are the same within their spreads, or by less than {CHANGE_PERCENT_MIN} %.\n",
            self.same
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::characterize::made_up;
    use crate::characterize::rows::{MISSES, SPEEDUP, SUITE, fact};

    fn rate(values: &[f64]) -> Row {
        let spread = Spread::of(values).expect("values");
        Row::measured(SUITE, SPEEDUP, "queries_per_s", "1/s", spread, true)
            .with("workload", "utpcc")
            .with("concurrency", 4usize)
            .with("rows", 1_000_000usize)
    }

    #[test]
    fn a_run_is_the_same_as_itself() {
        for run in [made_up::virtual_machine(), made_up::bare_metal()] {
            let diff = diff(&run, &run);
            assert!(diff.is_empty(), "{diff:?}");
            assert!(diff.same > 20);
        }
        assert!(diff(&[], &[]).is_empty());
    }

    #[test]
    fn only_what_is_apart_has_changed() {
        let a = [rate(&[100.0, 102.0, 104.0])];
        let of = |values: &[f64]| diff(&a, &[rate(values)]);
        assert_eq!(of(&[103.0, 110.0, 120.0]).same, 1, "spreads overlap");
        assert_eq!(of(&[104.1, 104.2, 104.3]).changed.len(), 1);
        let one = of(&[140.0]);
        assert_eq!(
            (one.changed.len(), one.unsure.len()),
            (0, 1),
            "one value says little"
        );
        let text = of(&[150.0, 153.0, 156.0]).text("a.jsonl", "b.jsonl");
        assert!(
            text.contains("Changed beyond the spreads") && text.contains("+50.0 %"),
            "{text}"
        );
        assert!(
            text.contains("speedup queries_per_s utpcc concurrency=4"),
            "{text}"
        );
    }

    #[test]
    fn one_simulated_value_is_enough_but_a_hair_is_no_change() {
        let simulated = |value: f64| {
            let spread = Spread::of(&[value]).expect("a value");
            [
                Row::simulated(SUITE, MISSES, "l1d_load_miss_percent", "%", spread, true)
                    .with("workload", "uss"),
            ]
        };
        assert_eq!(diff(&simulated(2.0), &simulated(2.5)).changed.len(), 1);
        assert_eq!(diff(&simulated(2.0), &simulated(2.01)).same, 1);
        assert!(
            diff(&simulated(0.0), &simulated(1.0))
                .text("", "")
                .contains("from 0")
        );
    }

    #[test]
    fn machines_and_settings_stand_first_and_lone_rows_last() {
        let a = [
            fact("processor", "one"),
            rate(&[1.0, 1.0, 1.0]),
            Row::unavailable(SUITE, "stalls", "cpi", "count", "no PMU"),
        ];
        let b = [
            fact("processor", "other"),
            rate(&[9.0, 9.0, 9.0]).with("rows", 10_000usize),
            rate(&[9.0, 9.0, 9.0]),
            Row::measured(
                SUITE,
                "stalls",
                "cpi",
                "count",
                Spread::of(&[1.0]).expect("one"),
                true,
            ),
        ];
        let found = diff(&a, &b);
        assert_eq!(found.machine.len(), 1);
        assert_eq!(found.settings[0].name, "rows");
        assert_eq!(found.lost, [("stalls cpi".to_owned(), "no PMU".to_owned(), 'A')]);
        assert_eq!(found.only_b, ["speedup queries_per_s utpcc concurrency=4 #2"]);
        let text = found.text("A", "B");
        let order = [
            "processor",
            "Settings that differ",
            "Changed beyond",
            "not in A: no PMU",
            "Rows of B only",
        ];
        let places = order.map(|word| text.find(word).unwrap_or_else(|| panic!("{word}\n{text}")));
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn two_machines_differ_in_what_they_can() {
        let found = diff(&made_up::virtual_machine(), &made_up::bare_metal());
        assert!(
            found
                .machine
                .iter()
                .any(|difference| difference.name == "pmu" && difference.a == "unavailable"),
            "{found:?}"
        );
        assert!(!found.only_a.is_empty() && !found.only_b.is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_other_way_round_is_the_mirror(
            left in prop::collection::vec((0usize..4, prop::collection::vec(0.0f64..9.0, 1..5)), 0..8),
            right in prop::collection::vec((0usize..4, prop::collection::vec(0.0f64..9.0, 1..5)), 0..8),
        ) {
            let rows = |list: &[(usize, Vec<f64>)]| -> Vec<Row> {
                list.iter().map(|(clients, values)| rate(values).with("concurrency", *clients)).collect()
            };
            let (a, b) = (rows(&left), rows(&right));
            let there = diff(&a, &b);
            let back = diff(&b, &a);
            prop_assert_eq!(there.same + there.changed.len() + there.unsure.len() + there.only_a.len(), a.len());
            prop_assert_eq!(there.same + there.changed.len() + there.unsure.len() + there.only_b.len(), b.len());
            prop_assert_eq!(&there.only_a, &back.only_b);
        }
    }
}
