//! What could not be had: each missing capability once, the figures it would have filled, and what stands in its place.

use super::view::{View, distinct, workload_name};
use crate::characterize::rows::CAPABILITY;
use lab_core::report::page::{Entry, Section};
use lab_core::row::{Label, Row};

/// What hangs on a capability: its name in rows, for people, the figures it fills, what is done without it.
const CAPABILITIES: [(&str, &str, &str, &str); 9] = [
    (
        "pmu",
        "hardware counters (PMU)",
        "counted instructions by CPU (Figs. 3b, 9), counted miss rates (Figs. 4-6, 10-15), CPI, stall components and top-down (Figs. 7a, 16)",
        "busy times by the kernel, miss rates and mix by cachegrind, cache sensitivity by interference",
    ),
    (
        "smt",
        "SMT siblings",
        "speed-up by SMT and every figure with SMT against without (Figs. 3a, 8)",
        "nothing; rates are held against those of one client",
    ),
    (
        "smt_control",
        "switching SMT off",
        "figures without SMT, by the kernel's control file",
        "sibling affinity, where there are siblings",
    ),
    (
        "resctrl",
        "cache partitions (resctrl)",
        "no figure; the advice to divide the cache",
        "advice to keep streaming queries apart",
    ),
    (
        "valgrind",
        "valgrind",
        "simulated misses, instruction mix (Tables 1, 2), functions by instructions (Figs. 7b, 17), instructions a query touches",
        "nothing",
    ),
    (
        "symbols",
        "the server's symbols",
        "names of most functions (Figs. 7b, 17)",
        "names of exported functions only",
    ),
    (
        "perf_events",
        "the kernel's software events",
        "resources by perf events, and sampling",
        "what /proc says",
    ),
    (
        "sampling",
        "sampling",
        "functions by time (Figs. 7b, 17)",
        "functions by instructions, under cachegrind",
    ),
    (
        "resources",
        "resources of processes",
        "what one query uses, run delays",
        "nothing",
    ),
];

/// A reason as it stands inside a sentence.
fn reason(row: &Row) -> &str {
    match row.text("reason").trim_end_matches('.') {
        "" => "no reason was given",
        reason => reason,
    }
}

/// The missing capabilities: name and reason, what they would have filled, what stands in their place.
fn capabilities(view: View<'_>) -> Vec<Entry> {
    let missing = view.0.iter().filter(|row| {
        row.case == CAPABILITY && matches!(view.capability(row.text("capability")), Some(Err(_)))
    });
    let mut entries = Vec::new();
    for word in distinct(missing.map(|row| row.text("capability"))) {
        let why = view
            .0
            .iter()
            .find(|row| row.case == CAPABILITY && row.text("capability") == word);
        let why = why.map_or("", reason);
        let known = CAPABILITIES.iter().find(|(name, ..)| *name == word);
        entries.push(match known {
            Some((_, name, fills, instead)) => Entry {
                heading: format!("{name}: {why}"),
                text: vec![
                    format!("Would have filled: {fills}."),
                    format!("In its place: {instead}."),
                ],
                command: String::new(),
            },
            None => Entry {
                heading: format!("{}: {why}", word.replace('_', " ")),
                ..Entry::default()
            },
        });
    }
    entries
}

/// Figures that were not had for another reason than a missing capability: a sentence each, workloads of one reason together.
fn others(view: View<'_>) -> Vec<String> {
    let because: Vec<&str> = view
        .0
        .iter()
        .filter(|row| row.case == CAPABILITY)
        .map(reason)
        .collect();
    let gone: Vec<&Row> = view
        .0
        .iter()
        .filter(|row| row.case != CAPABILITY && row.label == Label::Unavailable)
        .filter(|row| !because.contains(&reason(row)))
        .collect();
    let reasons = distinct(gone.iter().map(|row| (row.case.as_str(), reason(row))));
    reasons
        .into_iter()
        .map(|(case, why)| {
            let mine = || {
                gone.iter()
                    .filter(|row| (row.case.as_str(), reason(row)) == (case, why))
            };
            let metrics = distinct(mine().map(|row| row.metric.replace('_', " "))).join(", ");
            let workloads = distinct(mine().map(|row| workload_name(row.text("workload")))).join(", ");
            format!("Not had: {case} ({metrics}; {workloads}): {why}.")
        })
        .collect()
}

/// How many capabilities are missing.
pub(super) fn count(view: View<'_>) -> usize {
    capabilities(view).len()
}

/// The card; `None` where nothing is missing.
pub(super) fn section(view: View<'_>) -> Option<Section> {
    let entries = capabilities(view);
    let mut text = others(view);
    if entries.is_empty() && text.is_empty() {
        return None;
    }
    if !entries.is_empty() {
        text.insert(
            0,
            "Each is named here once. A figure that hangs on it is left out below, or came about in another way and says so; none is \
             estimated."
                .to_owned(),
        );
    }
    Some(Section {
        heading: "What could not be had here".to_owned(),
        text,
        entries,
        ..Section::default()
    })
}
