//! The plots of the report, each from the rows of one case.

use super::label_text;
use super::view::{Points, View};
use crate::memory_latency::interference::{METRIC as EVENTS, NET_SPEED};
use crate::memory_latency::keys::AUTO;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::line::{LinePlot, Series};
use lab_core::report::page::{Figure, Section};
use lab_core::report::scale::Spacing;
use lab_core::row::{Row, Value};

/// The helpers of a work-ahead set as rows name them, their colours and their names for people.
const HELPERS: [(&str, usize, &str); 4] = [
    ("backward-spin", 1, "backward, waiting"),
    ("backward", 2, "backward"),
    ("forward-spin", 3, "forward, waiting"),
    ("forward", 4, "forward"),
];
const SERIAL: usize = 0;
const PREFETCH: usize = 5;

fn legend<const N: usize>(names: [(usize, &str); N]) -> Vec<(usize, String)> {
    names.map(|(colour, name)| (colour, name.to_owned())).to_vec()
}

/// A horizontal line over the sizes of some other series.
fn level(points: &[Series], value: f64) -> Points {
    let sizes = points
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.0);
    let (low, high) = sizes.fold((f64::INFINITY, 0.0_f64), |(low, high), size| {
        (low.min(size), high.max(size))
    });
    if low.is_finite() {
        vec![(low, value), (high, value)]
    } else {
        Vec::new()
    }
}

fn series(name: &str, colour: usize, points: Points) -> Series {
    Series {
        name: name.to_owned(),
        colour,
        points,
    }
}

fn line(label: &str, y_axis: &str, y_spacing: Spacing, series: Vec<Series>) -> LinePlot {
    LinePlot {
        label: label.to_owned(),
        x_axis: "lines in the work-ahead set".to_owned(),
        y_axis: y_axis.to_owned(),
        x_spacing: Spacing::Log,
        y_spacing,
        x_ticks: None,
        marks: Vec::new(),
        series,
    }
}

/// Times by size, with serial code and the best prefetching on one thread for reference.
pub(super) fn by_size(view: View<'_>, case: &str) -> Section {
    let mut lines: Vec<Series> = HELPERS
        .iter()
        .map(|&(helper, colour, name)| {
            series(name, colour, view.by_size(case, "ns_per_probe", helper, |_| true))
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let mut names: Vec<(usize, String)> = lines
        .iter()
        .map(|line| (line.colour, line.name.clone()))
        .collect();
    let serial = view.value(case, "ns_per_probe", "one/plain", |_| true);
    let prefetched = view
        .case(case)
        .filter(|row| {
            row.metric == "ns_per_probe"
                && row.text("threads") == "one"
                && row.text("prefetch") != "none"
                && row.text("mode") != AUTO
        })
        .filter_map(Row::median)
        .min_by(f64::total_cmp);
    for (name, colour, value) in [
        ("serial", SERIAL, serial),
        ("one thread, prefetching", PREFETCH, prefetched),
    ] {
        if let Some(value) = value {
            let points = level(&lines, value);
            names.push((colour, name.to_owned()));
            lines.push(series(name, colour, points));
        }
    }
    Section {
        text: vec![label_text(view, case)],
        legend: names,
        figures: vec![Figure {
            caption: String::new(),
            plot: Box::new(line(case, "ns a probe", Spacing::Linear, lines)),
        }],
        ..Section::default()
    }
}

/// Throughput by mode, serial code being 1.
pub(super) fn bars(view: View<'_>, case: &str) -> Section {
    let layouts: std::collections::BTreeSet<&str> =
        view.ratios(case).map(|(row, _)| row.text("layout")).collect();
    let rows = view
        .ratios(case)
        .map(|(row, spread)| {
            let mut label = match row.text("mode") {
                AUTO => format!(
                    "auto {}",
                    row.parameter("auto_threads")
                        .map_or_else(String::new, Value::to_string)
                ),
                mode => short_mode(mode),
            };
            if layouts.len() > 1 {
                label = format!("{} {label}", row.text("layout").trim_end_matches("_rows"));
            }
            BarRow {
                label,
                value: spread.median,
                spread: Some((spread.min, spread.max)),
                series: match row.text("mode") {
                    AUTO => 2,
                    _ => usize::from(spread.median >= 1.0),
                },
            }
        })
        .collect();
    Section {
        text: vec![label_text(view, case)],
        legend: legend([
            (1, "at least as fast as serial"),
            (0, "slower"),
            (2, "what auto chose"),
        ]),
        figures: vec![Figure {
            caption: String::new(),
            plot: Box::new(BarPlot {
                label: case.to_owned(),
                axis: "throughput over serial code".to_owned(),
                suffix: "x".to_owned(),
                base: 1.0,
                spacing: Spacing::Log,
                rows,
            }),
        }],
        ..Section::default()
    }
}

/// `one/staged/workahead128-backward-spin` is longer than a phone is wide: `ahead128`.
pub(super) fn short_mode(mode: &str) -> String {
    let mode = mode.replace("workahead", "ahead").replace("-backward-spin", "");
    match mode.strip_prefix("one/staged/") {
        Some(hiding) => hiding.to_owned(),
        None => mode.replace("/staged/", "/"),
    }
}

fn machine_name(machine: (&str, &str)) -> String {
    let name = match machine.0 {
        "pentium4" => "the paper's Pentium 4",
        _ => "caches of this machine",
    };
    match machine.1 {
        "siblings" => format!("Simulated: {name}, both threads on one core"),
        _ => format!("Simulated: {name}, threads on two cores"),
    }
}

fn on_machine(row: &Row, machine: (&str, &str)) -> bool {
    (row.text("hierarchy"), row.text("placement")) == machine
}

/// Misses of main thread and helper by size, on each machine.
pub(super) fn misses_by_size(view: View<'_>, case: &str) -> Section {
    let figures = view
        .machines(case)
        .into_iter()
        .map(|machine| {
            let of = |role: &str| {
                view.by_size(case, "misses_per_probe", "backward-spin", |row| {
                    on_machine(row, machine) && row.text("thread_role") == role
                })
            };
            let mut lines = vec![
                series("main thread", 1, of("main")),
                series("helper", 2, of("helper")),
            ];
            let serial = view.value(case, "misses_per_probe", "one/plain", |row| {
                on_machine(row, machine)
            });
            if let Some(serial) = serial {
                let points = level(&lines, serial);
                lines.push(series("serial", SERIAL, points));
            }
            Figure {
                caption: machine_name(machine),
                plot: Box::new(line(case, "L2 misses a probe", Spacing::Linear, lines)),
            }
        })
        .collect();
    Section {
        text: vec![
            label_text(view, case),
            "Set backward, helper waiting. Hardware prefetchers are not simulated.".to_owned(),
        ],
        legend: legend([(1, "main thread"), (2, "helper"), (SERIAL, "serial code")]),
        figures,
        ..Section::default()
    }
}

/// Misses by mode and thread, on each machine.
pub(super) fn misses_by_mode(view: View<'_>, case: &str) -> Section {
    let figures = view
        .machines(case)
        .into_iter()
        .map(|machine| {
            let rows = view
                .case(case)
                .filter(|row| row.metric == "misses_per_probe" && on_machine(row, machine))
                .filter_map(|row| {
                    let role = row.text("thread_role");
                    Some(BarRow {
                        label: format!(
                            "{} {}",
                            short_mode(row.text("mode")),
                            if role == "worker1" { "2nd" } else { role }
                        ),
                        value: row.median()?,
                        spread: None,
                        series: match role {
                            "main" => 1,
                            "helper" => 2,
                            _ => 3,
                        },
                    })
                })
                .collect();
            Figure {
                caption: machine_name(machine),
                plot: Box::new(BarPlot {
                    label: case.to_owned(),
                    axis: "L2 misses a probe of one input".to_owned(),
                    suffix: String::new(),
                    base: 0.0,
                    spacing: Spacing::Linear,
                    rows,
                }),
            }
        })
        .collect();
    Section {
        text: vec![
            label_text(view, case),
            "Independent operators probe twice as often in all; each thread's misses are set against its own probes.".to_owned(),
        ],
        legend: legend([(1, "main thread"), (3, "second worker"), (2, "helper")]),
        figures,
        ..Section::default()
    }
}

/// Events a probe and net speeds by size.
pub(super) fn events(view: View<'_>, case: &str) -> Section {
    let model = |row: &Row, model: &str| row.text("model") == model;
    let events: Vec<Series> = HELPERS
        .iter()
        .map(|&(helper, colour, name)| {
            // A logarithmic axis has no zero.
            let points = view.by_size(case, EVENTS, helper, |row| model(row, "discrete_events"));
            series(
                name,
                colour,
                points.into_iter().filter(|point| point.1 > 0.0).collect(),
            )
        })
        .collect();
    let speeds = |name: &str| -> Vec<Series> {
        let helpers = HELPERS.iter().filter(|(helper, ..)| !helper.ends_with("spin"));
        let of = |helper| view.by_size(case, NET_SPEED, helper, |row| model(row, name));
        helpers
            .map(|&(helper, colour, name)| series(name, colour, of(helper)))
            .collect()
    };
    let share = |name| {
        Box::new(line(
            case,
            "share of its speed alone",
            Spacing::Linear,
            speeds(name),
        ))
    };
    let measured = view.by_size(case, EVENTS, "backward-spin", |row| {
        row.label == lab_core::row::Label::Measured
    });
    let mut figures = vec![
        Figure {
            caption: "Events a probe, simulated from stand-in speeds: the shape is the result, not the numbers".to_owned(),
            plot: Box::new(line(case, "events a probe", Spacing::Log, events)),
        },
        Figure {
            caption: "The main thread's speed beside a helper that does not wait, over its speed alone, by the same events".to_owned(),
            plot: share("discrete_events"),
        },
        Figure {
            caption: "The same by the formula of section 4.3".to_owned(),
            plot: share("section_4_3"),
        },
    ];
    if !measured.is_empty() {
        figures.push(Figure {
            caption: "Machine clears a probe that the processor counted, backward and waiting".to_owned(),
            plot: Box::new(line(
                case,
                "events a probe",
                Spacing::Linear,
                vec![series("counted", 1, measured)],
            )),
        });
    }
    Section {
        text: vec![label_text(view, case)],
        legend: HELPERS
            .iter()
            .map(|&(_, colour, name)| (colour, name.to_owned()))
            .collect(),
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_short_enough_for_a_phone() {
        let short = [
            "one/plain",
            "one/staged",
            "one/staged/workahead128-backward-spin",
            "bi2/staged/group32",
        ]
        .map(short_mode);
        assert_eq!(short, ["one/plain", "one/staged", "ahead128", "bi2/group32"]);
    }
}
