//! Miss rates, cycles per instruction and what they wait for (Figs. 4-7a, 10-16).

use super::time::{bar, over_concurrency};
use super::view::{
    ENDS, PAPER, SIMULATED, View, all_came_about, came_about, cell, colour, distinct, ends, headings, legend,
    paper_cell, parameter, smt_name, workload_name,
};
use crate::characterize::paper;
use crate::characterize::rows::{MISSES, STALLS};
use corun_cli::number;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::page::{Figure, Section, Table};
use lab_core::report::scale::Spacing;
use lab_core::row::{Label, Row};

/// The miss rates in the order of the paper's figures: metric, name, figures.
const RATES: [(&str, &str, &str); 8] = [
    ("l1d_load_miss_percent", "L1-D loads that miss", "Figs. 4a, 10"),
    ("l2_load_miss_percent", "L2 loads that miss", "Figs. 4b, 11"),
    ("llc_load_miss_percent", "last-level loads that miss", ""),
    ("l1i_miss_percent", "L1-I fetches that miss", "Figs. 5a, 12"),
    ("itlb_miss_percent", "ITLB misses", "Figs. 5b, 14"),
    ("dtlb_miss_percent", "DTLB misses", "Figs. 6a, 13"),
    (
        "branch_mispredict_percent",
        "branches mispredicted",
        "Figs. 6b, 15",
    ),
    (
        "machine_clears_per_kilo_instruction",
        "machine clears per 1000 instructions",
        "",
    ),
];

/// What a bar is of, below its workload: the cache that was simulated, or clients and SMT.
fn place(row: &Row) -> String {
    let mut parts = vec![workload_name(row.text("workload"))];
    if row.label == Label::Simulated {
        let cache = row.text("cache");
        parts.push(if cache.is_empty() { "simulated" } else { cache }.to_owned());
    } else {
        if let Some(clients) = row.number("concurrency") {
            parts.push(format!("{} clients", number::short(clients)));
        }
        parts.push(smt_name(row).to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Plots of some rows of one metric: lines over concurrency for each workload that has several, bars for the others.
fn plots(view: View<'_>, case: &str, rows: &[&Row], what: &str, axis: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut bars: Vec<BarRow> = Vec::new();
    for workload in view.workloads(case) {
        let mine = |label: Label| -> Vec<&Row> {
            rows.iter()
                .copied()
                .filter(|row| row.text("workload") == workload && row.label == label)
                .collect()
        };
        let measured = mine(Label::Measured);
        let caption = format!("{what}, {}", workload_name(workload));
        match over_concurrency(&measured, &caption, axis) {
            Some(plot) => figures.push(Figure {
                caption,
                plot: Box::new(plot),
            }),
            None => bars.extend(measured.iter().map(|row| bar(row, place(row)))),
        }
        bars.extend(mine(Label::Simulated).iter().map(|row| bar(row, place(row))));
    }
    if !bars.is_empty() {
        figures.push(Figure {
            caption: what.to_owned(),
            plot: Box::new(BarPlot {
                label: what.to_owned(),
                axis: axis.to_owned(),
                suffix: if axis.starts_with('%') { " %" } else { "" }.to_owned(),
                base: 0.0,
                spacing: Spacing::Linear,
                rows: bars,
            }),
        });
    }
    figures
}

/// Miss rates.
pub(super) fn rates(view: View<'_>) -> Option<Section> {
    let mut figures = Vec::new();
    let mut table = Vec::new();
    let mut used = Vec::new();
    let mut left_out = false;
    for (metric, name, papers) in RATES {
        let rows: Vec<&Row> = view.metric(MISSES, metric).collect();
        if rows.is_empty() {
            continue;
        }
        let what = if papers.is_empty() {
            name.to_owned()
        } else {
            format!("{name} ({papers})")
        };
        let axis = if metric.ends_with("_percent") { "%" } else { "" };
        figures.extend(plots(view, MISSES, &rows, &what, axis));
        let shown = ends(&rows);
        left_out |= shown.len() < rows.len();
        for row in shown {
            table.push(vec![
                name.to_owned(),
                workload_name(row.text("workload")),
                if row.label == Label::Simulated {
                    parameter(row, "cache")
                } else {
                    format!("{} clients {}", parameter(row, "concurrency"), smt_name(row))
                },
                format!("{}{axis}", cell(row)),
                paper_cell(row),
                came_about(row),
            ]);
        }
        used.extend(rows);
    }
    if used.is_empty() {
        return None;
    }
    let mut text = vec![
        "The paper's rates are of its Pentium 4 and stand in figures only; what its text gives is how much they change with SMT."
            .to_owned(),
    ];
    if used.iter().any(|row| row.label == Label::Simulated) {
        text.push(
            "Simulated rates are those of one query alone on caches of the size said, every access in order: no prefetcher, no other \
             query, no kernel. They say which code misses, not what it costs here."
                .to_owned(),
        );
    }
    if left_out {
        text.push(ENDS.to_owned());
    }
    Some(Section {
        heading: "Misses in caches, TLBs and branch prediction (Figs. 4-6, 10-15)".to_owned(),
        text,
        entries: Vec::new(),
        legend: legend(used.into_iter()),
        figures,
        table: Some(Table {
            headings: headings(["what", "workload", "where", "rate", "paper", "came about"]),
            numeric_columns: 0,
            rows: table,
        }),
    })
}

/// Cycles and micro-operations per instruction.
pub(super) fn cycles(view: View<'_>) -> Option<Section> {
    const METRICS: [(&str, &str); 3] = [
        ("cpi", "cycles per instruction"),
        ("cpi_not_halted", "not halted"),
        ("uops_per_instruction", "uops per instruction"),
    ];
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    for (metric, name) in METRICS {
        let all: Vec<&Row> = view.metric(STALLS, metric).collect();
        let most = all
            .iter()
            .filter_map(|row| row.number("concurrency"))
            .fold(f64::NEG_INFINITY, f64::max);
        for row in ends(&all) {
            rows.push(vec![
                name.to_owned(),
                workload_name(row.text("workload")),
                smt_name(row).to_owned(),
                parameter(row, "concurrency"),
                cell(row),
                paper_cell(row),
                came_about(row),
            ]);
            // Bars are those of the most clients only: there are three for each workload as it is.
            if row.number("concurrency").is_some_and(|clients| clients != most) {
                continue;
            }
            bars.push(bar(row, format!("{}, {name}", place(row))));
            let stated = paper::stated(STALLS, metric, row.text("workload"), "");
            if let Some((stated, value)) = stated.and_then(|stated| Some((stated, stated.value?))) {
                bars.push(BarRow {
                    label: format!("paper, {}, {name}", workload_name(stated.workload)),
                    value,
                    spread: None,
                    series: PAPER,
                });
            }
        }
    }
    // The paper's bar stands once beside however many of ours.
    let mut seen = Vec::new();
    bars.retain(|bar| {
        let again = bar.series == PAPER && seen.contains(&bar.label);
        seen.push(bar.label.clone());
        !again
    });
    (!rows.is_empty()).then(|| Section {
        heading: "Cycles per instruction (sections 4, 5)".to_owned(),
        text: vec![format!("The paper's are of {}.", paper::MACHINE)],
        entries: Vec::new(),
        legend: vec![(super::view::ON, "here".to_owned()), (PAPER, "paper".to_owned())],
        figures: vec![Figure {
            caption: String::new(),
            plot: Box::new(BarPlot {
                label: "cycles and micro-operations per instruction".to_owned(),
                axis: "per instruction".to_owned(),
                suffix: String::new(),
                base: 0.0,
                spacing: Spacing::Linear,
                rows: bars,
            }),
        }],
        table: Some(Table {
            headings: headings([
                "what",
                "workload",
                "SMT",
                "clients",
                "here",
                "paper",
                "came about",
            ]),
            numeric_columns: 0,
            rows,
        }),
    })
}

/// A component's name for people.
fn component_name(component: &str) -> &str {
    match component {
        "l2" => "L2 misses",
        "l1d" => "L1-D misses",
        "l1i" => "L1-I misses",
        "dtlb" => "DTLB misses",
        "itlb" => "ITLB misses",
        "branch" => "mispredicted branches",
        other => other,
    }
}

/// Stall components, not overlapped.
pub(super) fn stalls(view: View<'_>) -> Option<Section> {
    let rows: Vec<&Row> = view.metric(STALLS, "stall_cpi").collect();
    if rows.is_empty() {
        return None;
    }
    let mut figures = Vec::new();
    let mut text = vec![
        "Misses per instruction times the cycles of a miss, as in the paper; what the core overlaps is counted in full, so the sum may \
         be more than the cycles there are."
            .to_owned(),
    ];
    for workload in view.workloads(STALLS) {
        let mine: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|row| row.text("workload") == workload)
            .collect();
        // One place: all components at the most clients there are, with SMT where there is.
        let most = mine
            .iter()
            .filter_map(|row| row.number("concurrency"))
            .fold(f64::NEG_INFINITY, f64::max);
        let mut last: Vec<&Row> = mine
            .iter()
            .copied()
            .filter(|row| row.number("concurrency").is_none_or(|clients| clients == most))
            .collect();
        last.sort_by(|a, b| {
            let value = |row: &Row| row.median().unwrap_or(0.0);
            value(b).total_cmp(&value(a))
        });
        if last.is_empty() {
            continue;
        }
        let order = distinct(last.iter().map(|row| component_name(row.text("component")))).join(", ");
        text.push(format!(
            "{}, largest first: {order}. The paper: L2, then L1-D{}; ITLB almost nothing.",
            workload_name(workload),
            if workload == "uss" {
                " and almost as much DTLB"
            } else {
                ""
            },
        ));
        let bars = last.iter().map(|row| {
            let name = component_name(row.text("component"));
            let label = match smt_name(row) {
                "" | "no SMT here" => name.to_owned(),
                smt => format!("{name}, {smt}"),
            };
            bar(row, label)
        });
        let clients = if most.is_finite() {
            format!(", {} clients", number::short(most))
        } else {
            String::new()
        };
        figures.push(Figure {
            caption: format!("{}{clients}", workload_name(workload)),
            plot: Box::new(BarPlot {
                label: format!("stall components of {workload}"),
                axis: "stall cycles per instruction".to_owned(),
                suffix: String::new(),
                base: 0.0,
                spacing: Spacing::Linear,
                rows: bars.collect(),
            }),
        });
    }
    let shown = ends(&rows);
    if shown.len() < rows.len() {
        text.push(ENDS.to_owned());
    }
    let table = shown.iter().map(|row| {
        vec![
            workload_name(row.text("workload")),
            smt_name(row).to_owned(),
            parameter(row, "concurrency"),
            component_name(row.text("component")).to_owned(),
            cell(row),
            paper_cell(row),
            came_about(row),
        ]
    });
    Some(Section {
        heading: "Stall components, not overlapped (Figs. 7a, 16)".to_owned(),
        text,
        entries: Vec::new(),
        legend: legend(rows.iter().copied()),
        figures,
        table: Some(Table {
            headings: headings([
                "workload",
                "SMT",
                "clients",
                "component",
                "CPI",
                "paper",
                "came about",
            ]),
            numeric_columns: 0,
            rows: table.collect(),
        }),
    })
}

/// Top-down, which the paper could not have: the overlapped view beside its own.
pub(super) fn top_down(view: View<'_>) -> Option<Section> {
    let rows: Vec<&Row> = view.metric(STALLS, "topdown_percent").collect();
    if rows.is_empty() {
        return None;
    }
    let first_level = |row: &&&Row| row.number("level").is_none_or(|level| level == 1.0);
    let bars = rows.iter().filter(first_level).map(|row| BarRow {
        series: if row.label == Label::Simulated {
            SIMULATED
        } else {
            colour(row)
        },
        ..bar(
            row,
            format!("{}, {}", place(row), row.text("category").replace('_', " ")),
        )
    });
    let table = rows.iter().map(|row| {
        vec![
            workload_name(row.text("workload")),
            smt_name(row).to_owned(),
            parameter(row, "concurrency"),
            parameter(row, "level"),
            row.text("category").replace('_', " "),
            cell(row),
            came_about(row),
        ]
    });
    Some(Section {
        heading: "Top-down: what the core's slots were used for".to_owned(),
        text: vec![format!(
            "Shares of issue slots, so what overlaps is not counted twice; the paper's processor could not count this. {}.",
            all_came_about(rows.iter().copied()).join("; ")
        )],
        entries: Vec::new(),
        legend: legend(rows.iter().copied()),
        figures: vec![Figure {
            caption: "level 1".to_owned(),
            plot: Box::new(BarPlot {
                label: "top-down, level 1".to_owned(),
                axis: "% of slots".to_owned(),
                suffix: " %".to_owned(),
                base: 0.0,
                spacing: Spacing::Linear,
                rows: bars.collect(),
            }),
        }],
        table: Some(Table {
            headings: headings([
                "workload",
                "SMT",
                "clients",
                "level",
                "category",
                "% of slots",
                "came about",
            ]),
            numeric_columns: 0,
            rows: table.collect(),
        }),
    })
}
