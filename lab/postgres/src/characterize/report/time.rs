//! Plans, times and speed-ups by concurrency, work by logical CPU, resources of a query (Figs. 1, 2, 3, 8, 9).

use super::view::{
    OFF, ON, View, all_came_about, came_about, cell, colour, distinct, headings, legend, paper_cell,
    parameter, smt_name, whisker, workload_name,
};
use crate::characterize::rows::{DISTRIBUTION, PLAN, RESOURCES, SPEEDUP};
use corun_cli::number;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::line::{LinePlot, Series};
use lab_core::report::page::{Figure, Section, Table};
use lab_core::report::scale::Spacing;
use lab_core::row::Row;

/// Plans and selectivities.
pub(super) fn plans(view: View<'_>) -> Option<Section> {
    let rows: Vec<Vec<String>> = view
        .metric(PLAN, "selectivity_percent")
        .map(|row| {
            let (plan, paper) = (row.text("plan"), row.text("paper_plan"));
            let same = match (plan, paper) {
                (_, "") => "",
                (plan, paper) if plan == paper => "as the paper's",
                _ => "DIFFERS",
            };
            vec![
                workload_name(row.text("workload")),
                plan.to_owned(),
                same.to_owned(),
                if same == "DIFFERS" {
                    paper.to_owned()
                } else {
                    String::new()
                },
                cell(row),
                parameter(row, "wanted_percent"),
                came_about(row),
            ]
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut table = Table {
        headings: headings([
            "workload",
            "plan",
            "operators",
            "paper's plan",
            "selectivity %",
            "wanted %",
            "came about",
        ]),
        numeric_columns: 0,
        rows,
    };
    const PAPERS_PLAN: usize = 3;
    if table.rows.iter().all(|row| row[PAPERS_PLAN].is_empty()) {
        for row in std::iter::once(&mut table.headings).chain(&mut table.rows) {
            row.remove(PAPERS_PLAN);
        }
    }
    Some(Section {
        heading: "Plans and selectivities (Figs. 1, 2)".to_owned(),
        table: Some(table),
        ..Section::default()
    })
}

/// Concurrency of a row.
fn concurrency(row: &Row) -> f64 {
    row.number("concurrency").unwrap_or(f64::NAN)
}

/// Lines over concurrency, one for each SMT setting; `None` where there are fewer than two concurrencies.
pub(super) fn over_concurrency(rows: &[&Row], label: &str, y_axis: &str) -> Option<LinePlot> {
    let mut ticks: Vec<f64> = distinct(rows.iter().map(|row| concurrency(row)).filter(|c| c.is_finite()));
    ticks.sort_by(f64::total_cmp);
    if ticks.len() < 2 {
        return None;
    }
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let name = match smt_name(row) {
            "" => row.label.as_str(),
            name => name,
        };
        let point = (concurrency(row), row.median().unwrap_or(f64::NAN));
        match series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => series.push(Series {
                name: name.to_owned(),
                colour: colour(row),
                points: vec![point],
            }),
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Some(LinePlot {
        label: label.to_owned(),
        x_axis: "clients at once".to_owned(),
        y_axis: y_axis.to_owned(),
        x_spacing: Spacing::Linear,
        y_spacing: Spacing::Linear,
        x_ticks: Some(ticks),
        marks: Vec::new(),
        series,
    })
}

/// The row of the same workload, SMT setting and concurrency, of another metric.
fn beside<'a>(view: View<'a>, row: &Row, metric: &'a str, versus: Option<&str>) -> Option<&'a Row> {
    view.metric(SPEEDUP, metric).find(|other| {
        ["workload", "smt", "concurrency"]
            .iter()
            .all(|key| other.parameter(key) == row.parameter(key))
            && versus.is_none_or(|versus| other.versus.as_deref() == Some(versus))
    })
}

/// Time of a query, rate and speed-up by concurrency.
pub(super) fn speedup(view: View<'_>) -> Option<Section> {
    let times: Vec<&Row> = view.metric(SPEEDUP, "ms_per_query").collect();
    let rates: Vec<&Row> = view.metric(SPEEDUP, "queries_per_s").collect();
    let kept = if times.is_empty() { &rates } else { &times };
    if kept.is_empty() {
        return None;
    }
    let mut figures = Vec::new();
    let mut rows = Vec::new();
    for workload in view.workloads(SPEEDUP) {
        let name = workload_name(workload);
        let plots = [
            ("ms_per_query", None, "time of one client's query", "ms a query"),
            (
                "ratio",
                Some("alone"),
                "rate over that of one client",
                "times the rate alone",
            ),
            (
                "ratio",
                Some("smt_off"),
                "rate with SMT over that without",
                "times the rate without SMT",
            ),
        ];
        for (metric, versus, what, axis) in plots {
            let points: Vec<&Row> = view
                .metric(SPEEDUP, metric)
                .filter(|row| row.text("workload") == workload)
                .filter(|row| row.versus.as_deref() == versus)
                .collect();
            let label = format!("{name}: {what}");
            if let Some(plot) = over_concurrency(&points, &label, axis) {
                figures.push(Figure {
                    caption: label,
                    plot: Box::new(plot),
                });
            }
        }
        for row in kept.iter().filter(|row| row.text("workload") == workload) {
            let of = |metric, versus| beside(view, row, metric, versus);
            let text = |found: Option<&Row>| found.map_or_else(|| "-".to_owned(), cell);
            let by_smt = of("ratio", Some("smt_off"));
            rows.push(vec![
                name.clone(),
                smt_name(row).to_owned(),
                parameter(row, "concurrency"),
                text(of("ms_per_query", None)),
                text(of("queries_per_s", None)),
                text(of("ratio", Some("alone"))),
                text(by_smt),
                by_smt.map_or_else(String::new, paper_cell),
                row.spread.map_or_else(String::new, |spread| spread.n.to_string()),
                parameter(row, "outliers"),
            ]);
        }
    }
    let has_smt = view
        .metric(SPEEDUP, "ratio")
        .any(|row| row.versus.as_deref() == Some("smt_off"));
    let mut table = Table {
        headings: headings([
            "workload",
            "SMT",
            "clients",
            "ms a query",
            "queries/s",
            "x alone",
            "x SMT off",
            "paper",
            "n",
            "outliers",
        ]),
        numeric_columns: 0,
        rows,
    };
    if !has_smt {
        // Nothing here can stand beside the paper's speed-up by SMT, so its columns would only be empty.
        for row in std::iter::once(&mut table.headings).chain(&mut table.rows) {
            row.drain(6..8);
        }
    }
    let came = all_came_about(kept.iter().copied());
    let note = if has_smt {
        "The paper's speed-ups are those by SMT: up to 1.16 for uTPC-C (4.1), 1.10 for uSS and 1.26 for uNJ (5.1)."
    } else {
        "The paper's speed-ups are those by SMT, up to 1.16 for uTPC-C (4.1), 1.10 for uSS and 1.26 for uNJ (5.1); without it there is \
         nothing here to hold against them. What can be said is how the rate grows with clients."
    };
    Some(Section {
        heading: "Time and speed-up against concurrency (Figs. 3a, 8)".to_owned(),
        text: vec![format!("{}.", came.join("; ")), note.to_owned()],
        entries: Vec::new(),
        legend: legend(kept.iter().copied()),
        figures,
        table: Some(table),
    })
}

/// Work by logical CPU.
pub(super) fn distribution(view: View<'_>) -> Option<Section> {
    let rows: Vec<&Row> = view.of(DISTRIBUTION).collect();
    if rows.is_empty() {
        return None;
    }
    let mut figures = Vec::new();
    for workload in view.workloads(DISTRIBUTION) {
        let mine: Vec<&&Row> = rows
            .iter()
            .filter(|row| row.text("workload") == workload)
            .collect();
        // Numbers of instructions are too long to stand behind a bar: percent of what all CPUs did at that concurrency.
        let share = |row: &Row| {
            let same = |other: &&&&Row| {
                other.metric == row.metric
                    && ["smt", "concurrency"]
                        .iter()
                        .all(|key| other.parameter(key) == row.parameter(key))
            };
            let all: f64 = mine.iter().filter(same).filter_map(|other| other.median()).sum();
            100.0 * row.median().unwrap_or(f64::NAN) / all
        };
        let most = mine
            .iter()
            .map(|row| concurrency(row))
            .fold(f64::NEG_INFINITY, f64::max);
        let bars: Vec<BarRow> = mine
            .iter()
            .filter(|row| mine.len() <= 16 || concurrency(row) == most)
            .map(|row| BarRow {
                label: format!(
                    "{} clients, CPU {}",
                    number::short(concurrency(row)),
                    parameter(row, "cpu")
                ),
                value: share(row),
                spread: None,
                series: if row.text("smt") == "off" { OFF } else { ON },
            })
            .collect();
        let what = mine.first().map_or("", |row| unit_name(&row.metric));
        figures.push(Figure {
            caption: format!("{}: {what} by logical CPU", workload_name(workload)),
            plot: Box::new(BarPlot {
                label: format!("{workload}: {what} by logical CPU"),
                axis: format!("% of the {what} of all CPUs"),
                suffix: " %".to_owned(),
                base: 0.0,
                spacing: Spacing::Linear,
                rows: bars,
            }),
        });
    }
    let table = rows.iter().map(|row| {
        vec![
            workload_name(row.text("workload")),
            smt_name(row).to_owned(),
            parameter(row, "concurrency"),
            parameter(row, "cpu"),
            unit_name(&row.metric).to_owned(),
            cell(row),
            came_about(row),
        ]
    });
    let busy = rows.iter().any(|row| row.metric == "busy_ms");
    let mut text = vec![
        "The paper: with SMT instructions are divided almost equally between the two hardware threads, except with two clients of uTPC-C; \
         in all there are at most 2 % (uTPC-C, uSS) or 4 % (uNJ) more of them (4.2, 5.2)."
            .to_owned(),
    ];
    if busy {
        text.push(
            "Without counters these are milliseconds for which the kernel had a CPU busy, whoever used it."
                .to_owned(),
        );
    }
    Some(Section {
        heading: "Work by logical CPU (Figs. 3b, 9)".to_owned(),
        text,
        entries: Vec::new(),
        legend: legend(rows.iter().copied()),
        figures,
        table: Some(Table {
            headings: headings([
                "workload",
                "SMT",
                "clients",
                "CPU",
                "what",
                "amount",
                "came about",
            ]),
            numeric_columns: 0,
            rows: table.collect(),
        }),
    })
}

fn unit_name(metric: &str) -> &str {
    match metric {
        "instructions" => "instructions",
        "busy_ms" => "busy milliseconds",
        other => other,
    }
}

/// What a query uses, as the kernel counts.
pub(super) fn resources(view: View<'_>) -> Option<Section> {
    const COLUMNS: [(&str, &str); 10] = [
        ("cpu_us_per_query", "CPU us"),
        ("user_us_per_query", "user us"),
        ("system_us_per_query", "system us"),
        ("run_delay_us_per_query", "waits for CPU us"),
        ("voluntary_switches_per_query", "gave way"),
        ("involuntary_switches_per_query", "was taken off"),
        ("minor_faults_per_query", "minor faults"),
        ("major_faults_per_query", "major faults"),
        ("instructions_per_query", "instructions"),
        ("steal_percent", "stolen %"),
    ];
    let all: Vec<&Row> = view.of(RESOURCES).collect();
    if all.is_empty() {
        return None;
    }
    let columns: Vec<(&str, &str)> = COLUMNS
        .into_iter()
        .filter(|(metric, _)| all.iter().any(|row| row.metric == *metric))
        .collect();
    let key = |row: &Row| ["workload", "smt", "concurrency"].map(|key| parameter(row, key));
    let rows = distinct(all.iter().map(|row| key(row))).into_iter().map(|place| {
        let mine: Vec<&&Row> = all.iter().filter(|row| key(row) == place).collect();
        let first = mine[0];
        let mut cells = vec![
            workload_name(first.text("workload")),
            smt_name(first).to_owned(),
            place[2].clone(),
        ];
        cells.extend(columns.iter().map(|(metric, _)| {
            let found = mine.iter().find(|row| row.metric == *metric);
            found.map_or_else(|| "-".to_owned(), |row| short_cell(row))
        }));
        cells
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut names = headings(["workload", "SMT", "clients"]);
    names.extend(columns.iter().map(|(_, name)| (*name).to_owned()));
    Some(Section {
        heading: "What one query uses".to_owned(),
        text: vec![format!(
            "Medians for one query; stolen time is what the hypervisor gave to others, of all CPUs' time. {}.",
            all_came_about(all.iter().copied()).join("; ")
        )],
        table: Some(Table {
            numeric_columns: columns.len(),
            headings: names,
            rows,
        }),
        ..Section::default()
    })
}

/// The median alone: this table has too many columns for spreads.
fn short_cell(row: &Row) -> String {
    row.median().map_or_else(|| "-".to_owned(), number::short)
}

/// A bar with its whisker.
pub(super) fn bar(row: &Row, label: String) -> BarRow {
    BarRow {
        label,
        value: row.median().unwrap_or(f64::NAN),
        spread: whisker(row),
        series: colour(row),
    }
}
