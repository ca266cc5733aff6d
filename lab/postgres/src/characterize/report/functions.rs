//! Top functions, instruction mix, instructions a query touches (Figs. 7b, 17, Tables 1, 2).

use super::time::bar;
use super::view::{
    PAPER, View, all_came_about, came_about, cell, distinct, headings, legend, paper_cell, parameter,
    workload_name,
};
use crate::characterize::paper;
use crate::characterize::rows::{FOOTPRINT, FUNCTIONS, MIX};
use corun_cli::number;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::page::{Figure, Section, Table};
use lab_core::report::scale::Spacing;
use lab_core::row::Row;

/// Shares of a function, the deciding one first: metric, heading.
const SHARES: [(&str, &str); 5] = [
    ("time_percent", "time %"),
    ("instructions_percent", "instructions %"),
    ("l1i_miss_share_percent", "of L1-I misses %"),
    ("l1d_miss_share_percent", "of L1-D misses %"),
    ("ll_miss_share_percent", "of last-level misses %"),
];

/// Functions of a workload that are shown; the paper has seven and nine.
const FUNCTIONS_MAX: usize = 12;

/// One section for each workload.
pub(super) fn functions(view: View<'_>) -> Vec<Section> {
    view.workloads(FUNCTIONS)
        .into_iter()
        .filter_map(|workload| of_workload(view, workload))
        .collect()
}

fn of_workload(view: View<'_>, workload: &str) -> Option<Section> {
    let rows: Vec<&Row> = view
        .of(FUNCTIONS)
        .filter(|row| row.text("workload") == workload)
        .collect();
    let columns: Vec<(&str, &str)> = SHARES
        .into_iter()
        .filter(|(metric, _)| rows.iter().any(|row| row.metric == *metric))
        .collect();
    let (first_metric, first_name) = *columns.first()?;
    let share = |name: &str, metric: &str| {
        let mut found = rows
            .iter()
            .filter(|row| row.metric == metric && row.text("function") == name);
        found.find_map(|row| row.median())
    };
    let mut names = distinct(rows.iter().map(|row| row.text("function")));
    // By the deciding share; what has none of it (a function that only another tool saw) last.
    names.sort_by(|a, b| {
        let value = |name| share(name, first_metric).unwrap_or(f64::NEG_INFINITY);
        value(b).total_cmp(&value(a))
    });
    let left_out = names.len().saturating_sub(FUNCTIONS_MAX);
    names.truncate(FUNCTIONS_MAX);
    let papers = paper::functions(workload);
    let module = |name: &str| {
        let row = rows.iter().find(|row| row.text("function") == name);
        row.map_or("", |row| row.text("module")).to_owned()
    };
    let table = names.iter().map(|name| {
        let mut cells = vec![(*name).to_owned(), module(name)];
        cells.extend(
            columns
                .iter()
                .map(|(metric, _)| share(name, metric).map_or_else(|| "-".to_owned(), number::short)),
        );
        let stated = papers.and_then(|papers| papers.find(name));
        cells.push(stated.map_or_else(String::new, |function| {
            let as_name = if function.name == *name {
                "listed".to_owned()
            } else {
                format!("as {}", function.name)
            };
            if function.text.is_empty() {
                as_name
            } else {
                format!("{as_name}: {}", function.text)
            }
        }));
        cells
    });
    let table: Vec<Vec<String>> = table.collect();
    let mut head = headings(["function", "module"]);
    head.extend(columns.iter().map(|(_, name)| (*name).to_owned()));
    head.push("paper".to_owned());
    let mut text = vec![format!("{}.", all_came_about(rows.iter().copied()).join("; "))];
    if let Some(papers) = papers {
        let together = papers.together_percent.map_or_else(String::new, |percent| {
            format!(", together {percent} % of the time")
        });
        let listed: Vec<&str> = papers.functions.iter().map(|function| function.name).collect();
        text.push(format!(
            "The paper's {} most time-consuming functions ({}){together}: {}. It counts the server's own code only, without kernel and \
             libraries, of PostgreSQL 8.1, and some of them have other names today.",
            papers.functions.len(),
            papers.section,
            listed.join(", ")
        ));
    }
    if left_out > 0 {
        text.push(format!("{left_out} more functions are in the rows."));
    }
    let bars = names.iter().filter_map(|name| {
        let row = rows
            .iter()
            .find(|row| row.metric == first_metric && row.text("function") == *name)?;
        Some(bar(row, (*name).to_owned()))
    });
    Some(Section {
        heading: format!("Top functions of {} (Figs. 7b, 17)", workload_name(workload)),
        text,
        entries: Vec::new(),
        legend: legend(rows.iter().copied().filter(|row| row.metric == first_metric)),
        figures: vec![Figure {
            caption: first_name.to_owned(),
            plot: Box::new(BarPlot {
                label: format!("top functions of {workload}"),
                axis: first_name.to_owned(),
                suffix: " %".to_owned(),
                base: 0.0,
                spacing: Spacing::Linear,
                rows: bars.collect(),
            }),
        }],
        table: Some(Table {
            headings: head,
            numeric_columns: 0,
            rows: table,
        }),
    })
}

/// The instruction mix beside Tables 1 and 2.
pub(super) fn mix(view: View<'_>) -> Option<Section> {
    let rows: Vec<&Row> = view.metric(MIX, "percent").collect();
    if rows.is_empty() {
        return None;
    }
    let mut figures = Vec::new();
    for workload in view.workloads(MIX) {
        let mut bars: Vec<BarRow> = Vec::new();
        for row in rows.iter().filter(|row| row.text("workload") == workload) {
            let kind = row.text("kind");
            bars.push(bar(row, kind.to_owned()));
            let stated = paper::stated(MIX, "percent", workload, kind);
            if let Some(value) = stated.and_then(|stated| stated.value) {
                bars.push(BarRow {
                    label: format!("{kind}, paper"),
                    value,
                    spread: None,
                    series: PAPER,
                });
            }
        }
        figures.push(Figure {
            caption: workload_name(workload),
            plot: Box::new(BarPlot {
                label: format!("instruction mix of {workload}"),
                axis: "% of instructions".to_owned(),
                suffix: " %".to_owned(),
                base: 0.0,
                spacing: Spacing::Linear,
                rows: bars,
            }),
        });
    }
    let table = rows.iter().map(|row| {
        let stated = paper::stated(MIX, "percent", row.text("workload"), row.text("kind"));
        let difference = stated
            .and_then(|stated| Some(row.median()? - stated.value?))
            .map_or_else(String::new, |difference| format!("{difference:+.1}"));
        vec![
            workload_name(row.text("workload")),
            row.text("kind").to_owned(),
            cell(row),
            paper_cell(row),
            difference,
            came_about(row),
        ]
    });
    let mut key = legend(rows.iter().copied());
    key.push((PAPER, "paper".to_owned()));
    Some(Section {
        heading: "Instruction mix (Tables 1, 2)".to_owned(),
        text: vec![
            "Differences are in percentage points. Likely reasons, none of them measured: another instruction set and compiler (more \
             registers, so fewer loads and stores of the stack), and two decades of PostgreSQL (expressions run in one interpreter, other \
             sorts). What a run counts is said in the last column: a whole server process, or the standalone backend under cachegrind."
                .to_owned(),
        ],
        entries: Vec::new(),
        legend: key,
        figures,
        table: Some(Table {
            headings: headings(["workload", "kind", "here %", "paper %", "difference", "came about"]),
            numeric_columns: 0,
            rows: table.collect(),
        }),
    })
}

/// Instructions a query touches against the level-one cache.
pub(super) fn footprint(view: View<'_>) -> Option<Section> {
    let rows: Vec<&Row> = view.metric(FOOTPRINT, "bytes").collect();
    if rows.is_empty() {
        return None;
    }
    let table = rows.iter().map(|row| {
        let l1i = row.number("l1i_bytes");
        let times = l1i.zip(row.median()).map(|(l1i, bytes)| bytes / l1i);
        vec![
            workload_name(row.text("workload")),
            row.median().map_or_else(|| "-".to_owned(), number::bytes),
            l1i.map_or_else(|| "-".to_owned(), number::bytes),
            times.map_or_else(|| "-".to_owned(), |times| format!("{}x", number::short(times))),
            parameter(row, "method"),
            came_about(row),
        ]
    });
    Some(Section {
        heading: "Instructions a query touches".to_owned(),
        text: vec![
            "In lines of 64 bytes, against the level-one instruction cache. What does not fit is fetched anew when statements of different \
             kinds take turns on a core (paper 003)."
                .to_owned(),
        ],
        table: Some(Table {
            headings: headings(["workload", "touched", "L1-I", "of L1-I", "method", "came about"]),
            numeric_columns: 0,
            rows: table.collect(),
        }),
        ..Section::default()
    })
}
