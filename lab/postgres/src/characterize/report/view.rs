//! Questions the sections of the report ask of the rows, and the words they share.

use crate::characterize::paper;
use crate::characterize::rows::CAPABILITY;
use corun_cli::number;
use lab_core::row::{Label, Row, Value};
use lab_core::stats::Spread;

/// Series colours: without SMT, with SMT, and the machine that has none; simulated and the paper's own values.
pub(super) const OFF: usize = 0;
/// See [`OFF`].
pub(super) const ON: usize = 1;
/// See [`OFF`].
pub(super) const SIMULATED: usize = 3;
/// See [`OFF`].
pub(super) const PAPER: usize = 2;

/// The rows of a run.
#[derive(Clone, Copy)]
pub(super) struct View<'a>(pub(super) &'a [Row]);

impl<'a> View<'a> {
    /// Rows with numbers, of a case.
    pub(super) fn of(self, case: &'a str) -> impl Iterator<Item = &'a Row> + Clone {
        self.0
            .iter()
            .filter(move |row| row.case == case && row.label != Label::Unavailable && row.spread.is_some())
    }

    /// Rows with numbers, of a case and a metric.
    pub(super) fn metric(self, case: &'a str, metric: &'a str) -> impl Iterator<Item = &'a Row> + Clone {
        self.of(case).filter(move |row| row.metric == metric)
    }

    /// The workloads of a case: the paper's first, others in the order in which they ran.
    pub(super) fn workloads(self, case: &'a str) -> Vec<&'a str> {
        let mut names = distinct(self.of(case).map(|row| row.text("workload")));
        names.sort_by_key(|name| {
            let papers = ["utpcc", "uss", "unj"];
            papers
                .iter()
                .position(|paper| paper == name)
                .unwrap_or(papers.len())
        });
        names
    }

    /// Whether a capability is there, and why not; `None` if nobody looked.
    pub(super) fn capability(self, name: &str) -> Option<Result<(), &'a str>> {
        let row = self
            .0
            .iter()
            .find(|row| row.case == CAPABILITY && row.text("capability") == name)?;
        let available = row.label != Label::Unavailable && row.median().is_none_or(|number| number != 0.0);
        Some(if available {
            Ok(())
        } else {
            Err(row.text("reason"))
        })
    }
}

/// Values in the order of their first appearance, each once.
pub(super) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// A workload's name for people.
pub(super) fn workload_name(workload: &str) -> String {
    match workload {
        "utpcc" => "uTPC-C".to_owned(),
        "uss" => "uSS".to_owned(),
        "unj" => "uNJ".to_owned(),
        "sql" => "the given SQL".to_owned(),
        "pgbench" => "the pgbench script".to_owned(),
        "" => "-".to_owned(),
        other => match other.strip_prefix("embedded_") {
            Some(inner) => format!("{}, embedded", workload_name(inner)),
            None => other.replace('_', " "),
        },
    }
}

/// `SMT on`, `SMT off`, or nothing on a machine without.
pub(super) fn smt_name(row: &Row) -> &'static str {
    match row.text("smt") {
        "on" => "SMT on",
        "off" => "SMT off",
        "none" => "no SMT here",
        _ => "",
    }
}

/// The colour of a row: by SMT, and simulated ones apart.
pub(super) fn colour(row: &Row) -> usize {
    match (row.label, row.text("smt")) {
        (Label::Simulated, _) => SIMULATED,
        (_, "off") => OFF,
        _ => ON,
    }
}

/// The legend of [`colour`] for the rows of a section.
pub(super) fn legend<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(usize, String)> {
    distinct(rows.map(|row| {
        let name = match (row.label, smt_name(row)) {
            (Label::Simulated, _) => "simulated",
            (_, "") => "measured",
            (_, name) => name,
        };
        (colour(row), name.to_owned())
    }))
}

/// How a figure came about: `measured, clock`; `simulated, cachegrind`. Scaled counters say so.
pub(super) fn came_about(row: &Row) -> String {
    let mut text = row.label.as_str().to_owned();
    let how = row.text("how").replace('_', " ");
    if !how.is_empty() {
        text.push_str(&format!(", {how}"));
    }
    if row.parameter("scaled") == Some(&Value::Flag(true)) {
        text.push_str(", scaled");
    }
    if row.answer_ok == Some(false) {
        text.push_str(", WRONG ANSWER");
    }
    text
}

/// How the figures of a section came about, where all agree: one sentence instead of a column.
pub(super) fn all_came_about<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<String> {
    distinct(rows.map(came_about))
}

/// `12.3 (11.9..13)`, or the number alone where it has no spread.
pub(super) fn spread_text(spread: Spread) -> String {
    if spread.n < 2 || spread.min == spread.max {
        number::short(spread.median)
    } else {
        format!(
            "{} ({}..{})",
            number::short(spread.median),
            number::short(spread.min),
            number::short(spread.max)
        )
    }
}

/// [`spread_text`] of a row.
pub(super) fn cell(row: &Row) -> String {
    row.spread.map_or_else(|| "-".to_owned(), spread_text)
}

/// A parameter as a cell; `-` where the row has none.
pub(super) fn parameter(row: &Row, key: &str) -> String {
    row.parameter(key)
        .map_or_else(|| "-".to_owned(), Value::to_string)
}

/// The whisker of a row.
pub(super) fn whisker(row: &Row) -> Option<(f64, f64)> {
    row.spread
        .filter(|spread| spread.n > 1)
        .map(|spread| (spread.min, spread.max))
}

/// What the paper says of a row's figure, with its section; empty where it says nothing.
pub(super) fn paper_cell(row: &Row) -> String {
    let detail = ["component", "kind"]
        .into_iter()
        .map(|key| row.text(key))
        .find(|text| !text.is_empty())
        .unwrap_or("");
    paper::stated(&row.case, &row.metric, row.text("workload"), detail).map_or_else(String::new, |stated| {
        format!("{} ({})", stated.text, stated.section)
    })
}

/// Headings as owned texts.
pub(super) fn headings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// The names in a subject such as `uss beside utpcc` or `uss, unj`, for people.
pub(super) fn workload_names(subject: &str) -> String {
    subject
        .split(' ')
        .map(|word| match word.strip_suffix(',') {
            Some(name) => format!("{},", workload_name(name)),
            None => workload_name(word),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Of many concurrencies the rows of the fewest and of the most clients: a table of all would be pages long. Rows without one stay.
pub(super) fn ends<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let clients = || rows.iter().filter_map(|row| row.number("concurrency"));
    let least = clients().fold(f64::INFINITY, f64::min);
    let most = clients().fold(f64::NEG_INFINITY, f64::max);
    let at_an_end = |row: &&Row| {
        row.number("concurrency")
            .is_none_or(|clients| clients == least || clients == most)
    };
    rows.iter().copied().filter(at_an_end).collect()
}

/// Said where [`ends`] left rows out.
pub(super) const ENDS: &str = "The table has the fewest and the most clients; all others are in the rows.";
