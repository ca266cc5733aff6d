//! The interference curve: slow-down beside a polluter of growing footprint, with the effective last-level cache marked.

use super::view::{View, all_came_about, came_about, cell, distinct, headings, parameter, workload_name};
use crate::characterize::rows::INTERFERENCE;
use corun_cli::number;
use lab_core::report::line::{LinePlot, Mark, Series};
use lab_core::report::page::{Figure, Section, Table};
use lab_core::report::scale::Spacing;
use lab_core::row::Row;

const MIB: f64 = 1024.0 * 1024.0;

/// The curve of each workload, and what it says.
pub(super) fn interference(view: View<'_>) -> Option<Section> {
    let slowdowns: Vec<&Row> = view
        .metric(INTERFERENCE, "slowdown")
        .filter(|row| row.number("footprint_bytes").is_some_and(|bytes| bytes > 0.0))
        .collect();
    let caches: Vec<&Row> = view.metric(INTERFERENCE, "effective_llc_bytes").collect();
    if slowdowns.is_empty() && caches.is_empty() {
        return None;
    }
    let workloads = distinct(slowdowns.iter().map(|row| row.text("workload")));
    // Several streams of one polluter are lines of their own.
    let lines = distinct(slowdowns.iter().map(|row| {
        (
            row.text("workload"),
            parameter(row, "streams"),
            parameter(row, "intensity"),
        )
    }));
    let several = |workload: &str| lines.iter().filter(|(name, ..)| *name == workload).count() > 1;
    let mut legend = Vec::new();
    let mut series = Vec::new();
    for (colour, (workload, streams, intensity)) in lines.iter().enumerate() {
        let name = if several(workload) {
            let word = |what: &str, value: &str| match value {
                "-" => String::new(),
                value => format!(", {what} {value}"),
            };
            format!(
                "{}{}{}",
                workload_name(workload),
                word("streams", streams),
                word("intensity", intensity)
            )
        } else {
            workload_name(workload)
        };
        let mut points: Vec<(f64, f64)> = slowdowns
            .iter()
            .filter(|row| {
                row.text("workload") == *workload
                    && parameter(row, "streams") == *streams
                    && parameter(row, "intensity") == *intensity
            })
            // What is above 1, so that a small loss is to be seen on an axis that starts at zero.
            .filter_map(|row| {
                Some((
                    row.number("footprint_bytes")? / MIB,
                    100.0 * (row.median()? - 1.0),
                ))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        legend.push((colour, name.clone()));
        series.push(Series { name, colour, points });
    }
    let marks = caches
        .iter()
        .filter_map(|row| {
            Some(Mark {
                at: row.median()? / MIB,
                name: format!("effective LLC, {}", row.text("how").replace('_', " ")),
            })
        })
        .collect();
    let figures = if series.is_empty() {
        Vec::new()
    } else {
        vec![Figure {
            caption: String::new(),
            plot: Box::new(LinePlot {
                label: "slow-down beside a cache polluter by its footprint".to_owned(),
                x_axis: "MiB the polluter touches".to_owned(),
                y_axis: "% longer".to_owned(),
                x_spacing: Spacing::Log,
                y_spacing: Spacing::Linear,
                x_ticks: None,
                marks,
                series,
            }) as Box<dyn lab_core::report::Plot>,
        }]
    };
    let mut rows = Vec::new();
    for row in &caches {
        let range = row.number("spread_low").zip(row.number("spread_high"));
        rows.push(vec![
            workload_name(row.text("workload")),
            "effective last-level cache".to_owned(),
            row.median().map_or_else(|| "-".to_owned(), number::bytes),
            range.map_or_else(String::new, |(low, high)| {
                format!("{} to {}", number::bytes(low), number::bytes(high))
            }),
            came_about(row),
        ]);
    }
    for row in view.metric(INTERFERENCE, "sensitivity_percent") {
        rows.push(vec![
            workload_name(row.text("workload")),
            "slower beside the largest footprint".to_owned(),
            format!("{} %", row.median().map_or_else(|| "-".to_owned(), number::short)),
            cell(row),
            came_about(row),
        ]);
    }
    for row in view.metric(INTERFERENCE, "bandwidth_bytes_per_s") {
        rows.push(vec![
            workload_name(row.text("workload")),
            "the polluter's own rate".to_owned(),
            row.median()
                .map_or_else(|| "-".to_owned(), |rate| format!("{}/s", number::bytes(rate))),
            String::new(),
            came_about(row),
        ]);
    }
    for row in &slowdowns {
        rows.push(vec![
            workload_name(row.text("workload")),
            format!(
                "times as long beside {}",
                number::bytes(row.number("footprint_bytes").unwrap_or(f64::NAN))
            ),
            row.median().map_or_else(|| "-".to_owned(), number::short),
            cell(row),
            came_about(row),
        ]);
    }
    let mut text = vec![format!(
        "How much longer a query takes while another core walks over memory of a growing size, by times alone: what it loses is what it \
         found in the shared cache. {}.",
        all_came_about(slowdowns.iter().chain(&caches).copied()).join("; ")
    )];
    if !workloads.is_empty() && caches.is_empty() {
        text.push(
            "No effective cache is marked: the curves have no knee that could be told from noise.".to_owned(),
        );
    }
    Some(Section {
        heading: "Interference: what a workload loses to others' cache use".to_owned(),
        text,
        entries: Vec::new(),
        legend,
        figures,
        table: Some(Table {
            headings: headings(["workload", "what", "value", "spread", "came about"]),
            numeric_columns: 0,
            rows,
        }),
    })
}

/// Whether the polluter and the pointer chase of the same run agree on the effective cache: their spreads overlap. `None` where one is
/// missing.
pub(super) fn agreement(view: View<'_>) -> Option<String> {
    let range = |how: &str| {
        let row = view
            .metric(INTERFERENCE, "effective_llc_bytes")
            .find(|row| row.text("how") == how)?;
        let spread = row.spread?;
        let low = row.number("spread_low").unwrap_or(spread.min);
        let high = row.number("spread_high").unwrap_or(spread.max);
        Some((spread.median, low, high))
    };
    let (polluter, polluter_low, polluter_high) = range("polluter")?;
    let (chase, chase_low, chase_high) = range("pointer_chase")?;
    let overlap = polluter_low <= chase_high && chase_low <= polluter_high;
    Some(format!(
        "The effective last-level cache is {} by the polluter and {} by the pointer chase: they {} within their spreads.",
        number::bytes(polluter),
        number::bytes(chase),
        if overlap { "agree" } else { "do NOT agree" }
    ))
}
