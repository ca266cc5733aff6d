//! The plots of the report, each from the rows of one case.

use super::super::rows::metric;
use super::view::{Points, View};
use corun_cli::number;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::line::{LinePlot, Series};
use lab_core::report::page::{Figure, Section, Table};
use lab_core::report::scale::Spacing;
use lab_core::row::Row;

/// Colours by mode: serial execution has the stock engine's of all reports, teams have corun's.
const SERIAL: usize = 0;
const TEAM: usize = 1;
const TO_COMPLETION: usize = 2;
const COLD: usize = 3;
const FLOAT: usize = 4;
const HELD: usize = 5;
/// In a plot of its own, where nobody runs to completion.
const BOUND: usize = TO_COMPLETION;
/// Segments that miss less than so often a fetch are left out of the table.
const SEGMENT_MIN: f64 = 1.0;

fn colour(mode: &str) -> usize {
    match mode {
        "serial" => SERIAL,
        "team" => TEAM,
        "held_team" => HELD,
        _ => TO_COMPLETION,
    }
}

fn words(mode: &str) -> &str {
    match mode {
        "to_completion" => "members, no switches",
        "held_team" => "team that stays together",
        other => other,
    }
}

fn legend(names: &[(usize, &str)]) -> Vec<(usize, String)> {
    names
        .iter()
        .map(|&(colour, name)| (colour, name.to_owned()))
        .collect()
}

fn series(name: &str, colour: usize, points: Points) -> Series {
    Series {
        name: name.to_owned(),
        colour,
        points,
    }
}

fn line(label: &str, x_axis: &str, y_axis: &str, series: Vec<Series>) -> LinePlot {
    LinePlot {
        label: label.to_owned(),
        x_axis: x_axis.to_owned(),
        y_axis: y_axis.to_owned(),
        x_spacing: Spacing::Linear,
        y_spacing: Spacing::Linear,
        x_ticks: None,
        marks: Vec::new(),
        series: series
            .into_iter()
            .filter(|series| !series.points.is_empty())
            .collect(),
    }
}

fn figure(caption: String, plot: impl lab_core::report::Plot + 'static) -> Figure {
    Figure {
        caption,
        plot: Box::new(plot),
    }
}

fn bars(label: &str, axis: &str, suffix: &str, base: f64, rows: Vec<BarRow>) -> BarPlot {
    BarPlot {
        label: label.to_owned(),
        axis: axis.to_owned(),
        suffix: suffix.to_owned(),
        base,
        spacing: Spacing::Linear,
        rows,
    }
}

/// Misses of all members together.
fn totals(points: Points) -> Points {
    points
        .into_iter()
        .map(|(size, each)| (size, size * each))
        .collect()
}

fn footprint_text(view: View<'_>) -> Option<String> {
    let bytes = view.footprint()?;
    Some(format!(
        "One index fetch runs through {} bytes of code (64-byte lines).",
        number::short(bytes)
    ))
}

/// Figure 5: misses of the whole team by its size, at each cache.
pub(super) fn by_team_size(view: View<'_>, case: &'static str) -> Section {
    let of = |l1i: &str, mode: &str, cache: &str| {
        totals(view.by(case, metric::L1I, "team_size", |row| {
            row.text("l1i") == l1i && row.text("mode") == mode && row.text("cache") == cache
        }))
    };
    let figures = view.texts(case, "l1i").into_iter().map(|l1i| {
        let lines = vec![
            series("serial, cold", FLOAT, of(l1i, "serial", "cold")),
            series("serial, warm", SERIAL, of(l1i, "serial", "warm")),
            series(
                "members, no switches, warm",
                TO_COMPLETION,
                of(l1i, "to_completion", "warm"),
            ),
            series("team, cold", COLD, of(l1i, "team", "cold")),
            series("team, warm", TEAM, of(l1i, "team", "warm")),
            series(
                "team that stays together, warm",
                HELD,
                of(l1i, "held_team", "warm"),
            ),
        ];
        figure(
            format!("Instruction cache {l1i}"),
            line(case, "members", "misses of all members", lines),
        )
    });
    let mut text: Vec<String> = footprint_text(view).into_iter().collect();
    text.push(
        "A team that stays together is the paper's setup: members fetch again and again without the code that forms teams. The other \
         teams form for each fetch, as in a whole engine, and that code counts."
            .to_owned(),
    );
    Section {
        text,
        legend: legend(&[
            (SERIAL, "serial, warm"),
            (FLOAT, "serial, cold"),
            (TO_COMPLETION, "members, no switches, warm"),
            (TEAM, "team, warm"),
            (COLD, "team, cold"),
            (HELD, "team that stays together, warm"),
        ]),
        figures: figures.collect(),
        ..Section::default()
    }
}

/// Nanoseconds by team size: serial, team, and team with a switch that saves floating-point registers.
fn time_lines(view: View<'_>, case: &str, metric: &str) -> Vec<Series> {
    let of = |mode: &str, points: &str, float: bool| {
        view.by(case, metric, "team_size", |row| {
            row.text("mode") == mode
                && row.text("points") == points
                && row.parameter("float") == Some(&float.into())
        })
    };
    vec![
        series("serial", SERIAL, of("serial", "none", false)),
        series(
            "members, no switches",
            TO_COMPLETION,
            of("to_completion", "default", false),
        ),
        series("team, points with a prefetch", TEAM, of("team", "default", false)),
        series(
            "the same, switch saves floating-point registers",
            FLOAT,
            of("team", "default", true),
        ),
        series("team, points found by trial", COLD, of("team", "trial", false)),
    ]
}

fn time_legend() -> Vec<(usize, String)> {
    legend(&[
        (SERIAL, "serial"),
        (TO_COMPLETION, "members, no switches"),
        (TEAM, "team, points with a prefetch"),
        (FLOAT, "the same, floating-point registers saved"),
        (COLD, "team, points found by trial"),
    ])
}

/// Figure 6.
pub(super) fn time_and_data(view: View<'_>, case: &'static str) -> Section {
    let data = |mode: &str| view.by(case, metric::L1D, "team_size", |row| row.text("mode") == mode);
    Section {
        text: vec![
            "Time is that of whole transactions of one fetch; the table fits the last-level cache, so that nothing is won \
             but what instructions and near caches give."
                .to_owned(),
        ],
        legend: time_legend(),
        figures: vec![
            figure(
                "Time of a transaction".to_owned(),
                line(case, "members", "ns", time_lines(view, case, metric::NS)),
            ),
            figure(
                "Misses of the level-one data cache a fetch".to_owned(),
                line(
                    case,
                    "members",
                    "misses",
                    vec![
                        series("serial", SERIAL, data("serial")),
                        series("team, points found by trial", COLD, data("team")),
                        series("team that stays together", HELD, data("held_team")),
                    ],
                ),
            ),
        ],
        ..Section::default()
    }
}

/// Figure 7.
pub(super) fn large_teams(view: View<'_>, case: &'static str) -> Section {
    let reduction = |mode: &str| {
        view.by(case, metric::REDUCTION, "team_size", |row| {
            row.text("mode") == mode
        })
    };
    let (reduction, held) = (reduction("team"), reduction("held_team"));
    let bound = reduction
        .iter()
        .map(|&(size, _)| (size, (size - 1.0) / size * 100.0))
        .collect();
    let judged = view.judged(case).unwrap_or_default();
    let speeds = time_lines(view, case, metric::RATIO);
    Section {
        legend: time_legend()
            .into_iter()
            .chain(legend(&[
                (HELD, "team that stays together"),
                (BOUND, "the most a team can save"),
            ]))
            .collect(),
        figures: vec![
            figure(
                format!("Percent fewer instruction misses than serial, cache {judged}"),
                line(
                    case,
                    "members",
                    "%",
                    vec![
                        series("the most a team can save", BOUND, bound),
                        series("team, points found by trial", COLD, reduction),
                        series("team that stays together", HELD, held),
                    ],
                ),
            ),
            figure("Speed over serial".to_owned(), line(case, "members", "x", speeds)),
        ],
        ..Section::default()
    }
}

/// Figure 8.
pub(super) fn switch_size(view: View<'_>, case: &'static str) -> Section {
    let rows = view.metric(case, metric::L1I).filter_map(|row| {
        let members = row.number("team_size")?;
        let mode = row.text("mode");
        let label = match (mode, row.number("padding_bytes")?) {
            ("serial", _) => "serial".to_owned(),
            (mode, 0.0) => words(mode).to_owned(),
            (mode, bytes) => format!("{} + {} bytes", words(mode), number::short(bytes)),
        };
        Some(BarRow {
            label,
            value: row.median()? * members,
            spread: None,
            series: colour(mode),
        })
    });
    let judged = view.judged(case).unwrap_or_default();
    Section {
        text: vec![format!(
            "Instruction cache {judged}. The padding is run at every switch, behind it; it lies in lines of its own."
        )],
        legend: legend(&[
            (TEAM, "team of ten"),
            (HELD, "team that stays together"),
            (SERIAL, "serial"),
        ]),
        figures: vec![figure(
            String::new(),
            bars(case, "misses of ten members", "", 0.0, rows.collect()),
        )],
        ..Section::default()
    }
}

/// The team's events in percent of serial execution's, for some rows.
fn relative(
    view: View<'_>,
    case: &str,
    (team, points): (&str, &str),
    wanted: impl Fn(&Row) -> bool + Copy,
) -> Vec<BarRow> {
    let names = [
        (metric::L1I, "L1-I misses"),
        (metric::L1D, "L1-D misses"),
        (metric::L2, "L2 misses"),
        (metric::MISPREDICTS, "mispredictions"),
        (metric::INSTRUCTIONS, "instructions"),
    ];
    let rows = names.iter().filter_map(|&(metric, name)| {
        let of = |mode: &str| {
            view.value(case, metric, |row| {
                wanted(row) && row.text("mode") == mode && (mode == "serial" || row.text("points") == points)
            })
        };
        let (serial, members) = (of("serial")?, of(team)?);
        (serial > 0.0).then(|| BarRow {
            label: name.to_owned(),
            value: members / serial * 100.0,
            spread: None,
            series: colour(team),
        })
    });
    rows.collect()
}

/// Figure 9.
pub(super) fn processors(view: View<'_>, case: &'static str) -> Section {
    let mut shown: Vec<(&str, f64, &str)> = Vec::new();
    for row in view.metric(case, metric::L1I) {
        let key = (
            row.text("processor"),
            row.number("divisor").unwrap_or(1.0),
            row.text("l1i"),
        );
        if !shown.contains(&key) {
            shown.push(key);
        }
    }
    let figures = shown.into_iter().map(|(processor, divisor, l1i)| {
        let wanted = |row: &Row| {
            row.text("processor") == processor
                && row.number("divisor") == Some(divisor)
                && row.text("l1i") == l1i
        };
        let name = processor.replace('_', " ");
        let caption = if divisor > 1.0 {
            format!(
                "{name}, caches {} times smaller (L1-I {l1i})",
                number::short(divisor)
            )
        } else {
            format!("{name} (L1-I {l1i})")
        };
        figure(
            caption,
            bars(
                case,
                "percent of serial",
                " %",
                100.0,
                relative(view, case, ("held_team", "trial"), wanted),
            ),
        )
    });
    Section {
        text: vec![
            "A team of ten that stays together; points were chosen for the first processor with divided caches and kept, as the paper kept its own. 100 % \
             is serial execution. Caches are divided until our fetch is to them as the paper's 45 KiB were to the real ones."
                .to_owned(),
        ],
        figures: figures.collect(),
        ..Section::default()
    }
}

/// Figure 10.
pub(super) fn geometries(view: View<'_>, case: &'static str) -> Section {
    let mut sizes: Vec<&str> = Vec::new();
    for l1i in view.texts(case, "l1i") {
        let size = l1i.split('/').next().unwrap_or_default();
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let figures = sizes.into_iter().map(|size| {
        let rows = view.metric(case, metric::L1I).filter_map(|row| {
            let (bytes, shape) = row.text("l1i").split_once('/')?;
            (bytes == size).then_some(())?;
            let ways = shape.split('/').next()?;
            Some(BarRow {
                label: format!(
                    "{ways} way{}, {}",
                    if ways == "1" { "" } else { "s" },
                    row.text("mode")
                ),
                value: row.median()? * row.number("team_size")?,
                spread: None,
                series: colour(row.text("mode")),
            })
        });
        figure(
            format!("{size} bytes, 64-byte lines"),
            bars(case, "misses of ten members", "", 0.0, rows.collect()),
        )
    });
    Section {
        text: footprint_text(view).into_iter().collect(),
        legend: legend(&[
            (SERIAL, "serial"),
            (TEAM, "team of ten"),
            (HELD, "team that stays together"),
        ]),
        figures: figures.collect(),
        ..Section::default()
    }
}

/// Figures 13 and 14.
pub(super) fn transactions(view: View<'_>, case: &'static str) -> Section {
    let mut shown: Vec<(f64, &str)> = Vec::new();
    for row in view.metric(case, metric::L1I) {
        let key = (row.number("warehouses").unwrap_or(0.0), row.text("l1i"));
        if !shown.contains(&key) {
            shown.push(key);
        }
    }
    let misses = shown.iter().map(|&(warehouses, l1i)| {
        let rows = view
            .metric(case, metric::L1I)
            .filter(|row| row.number("warehouses") == Some(warehouses) && row.text("l1i") == l1i)
            .filter_map(|row| {
                let points = row.text("points");
                let label = match points {
                    "none" => words(row.text("mode")).to_owned(),
                    points => format!("team, points {points}"),
                };
                Some(BarRow {
                    label,
                    value: row.median()?,
                    spread: None,
                    series: colour(row.text("mode")),
                })
            });
        figure(
            format!(
                "{} warehouses, instruction cache {l1i}: misses a transaction",
                number::short(warehouses)
            ),
            bars(case, "misses a transaction", "", 0.0, rows.collect()),
        )
    });
    let mut warehouses: Vec<f64> = shown.iter().map(|(warehouses, _)| *warehouses).collect();
    warehouses.dedup();
    let others = warehouses.iter().map(|&count| {
        let wanted = |row: &Row| row.number("warehouses") == Some(count) && row.text("l1i") == "32k/8/64";
        figure(
            format!(
                "{} warehouses, today's core: a team with default points",
                number::short(count)
            ),
            bars(
                case,
                "percent of serial",
                " %",
                100.0,
                relative(view, case, ("team", "default"), wanted),
            ),
        )
    });
    let times = warehouses.iter().map(|&count| {
        let rows = view
            .metric(case, metric::RATIO)
            .filter(|row| row.number("warehouses") == Some(count))
            .filter_map(|row| {
                let spread = row.spread?;
                let label = match row.text("points") {
                    "none" => words(row.text("mode")).to_owned(),
                    points => format!("team, points {points}"),
                };
                Some(BarRow {
                    label,
                    value: spread.median,
                    spread: Some((spread.min, spread.max)),
                    series: colour(row.text("mode")),
                })
            });
        figure(
            format!("{} warehouses: speed over serial, measured", number::short(count)),
            bars(case, "times serial", "x", 1.0, rows.collect()),
        )
    });
    Section {
        legend: legend(&[
            (SERIAL, "serial"),
            (TO_COMPLETION, "members, no switches"),
            (TEAM, "team"),
        ]),
        figures: misses.chain(others).chain(times).collect(),
        ..Section::default()
    }
}

/// Figure 16.
pub(super) fn knees(view: View<'_>, case: &'static str) -> Section {
    let figures = view.texts(case, "candidates").into_iter().map(|candidates| {
        let mut heights: Vec<f64> = Vec::new();
        for row in view
            .metric(case, metric::L1I)
            .filter(|row| row.text("candidates") == candidates)
        {
            let height = row.number("height").unwrap_or(0.0);
            if !heights.contains(&height) {
                heights.push(height);
            }
        }
        let lines = heights.iter().enumerate().map(|(at, &height)| {
            let points = view.by(case, metric::L1I, "ctx_calls", |row| {
                row.text("candidates") == candidates
                    && row.number("height") == Some(height)
                    && row.text("member") == "non_leading"
            });
            series(&format!("height {}", number::short(height)), at, points)
        });
        let name = match candidates {
            "sites" => "Points compiled into the store",
            "entries" => "Entries of functions",
            _ => "Points before any instruction (the paper's)",
        };
        figure(
            name.to_owned(),
            line(
                case,
                "calls executed",
                "misses of a non-leading member",
                lines.collect(),
            ),
        )
    });
    let mut heights: Vec<f64> = view
        .metric(case, metric::L1I)
        .filter_map(|row| row.number("height"))
        .collect();
    heights.sort_by(f64::total_cmp);
    heights.dedup();
    let judged = view.judged(case).unwrap_or_default();
    Section {
        text: vec![format!(
            "Instruction cache {judged}. Dots of one colour are knees of several widths."
        )],
        legend: heights
            .iter()
            .enumerate()
            .map(|(at, height)| (at, format!("height {}", number::short(*height))))
            .collect(),
        figures: figures.collect(),
        ..Section::default()
    }
}

/// Figure 17.
pub(super) fn choices(view: View<'_>, case: &'static str) -> Section {
    let label = |row: &Row| match row.text("mode") {
        "serial" => "serial".to_owned(),
        "held_team" => format!("held, {}", row.text("points")),
        _ => format!("team, {}", row.text("points")),
    };
    let of = |metric: &'static str, times: bool| -> Vec<BarRow> {
        let rows = view.metric(case, metric).filter_map(|row| {
            let spread = row.spread?;
            let scale = if times { row.number("team_size")? } else { 1.0 };
            Some(BarRow {
                label: label(row),
                value: spread.median * scale,
                spread: (!times).then_some((spread.min, spread.max)),
                series: colour(row.text("mode")),
            })
        });
        rows.collect()
    };
    let judged = view.judged(case).unwrap_or_default();
    Section {
        text: vec![
            "All: every point compiled in. Default: those that carry a prefetch. Autosteps: chosen by the paper's knee (200, 4). Trial: \
             turned on one by one as long as a simulated team misses less."
                .to_owned(),
        ],
        legend: legend(&[(SERIAL, "serial"), (TEAM, "team of ten"), (HELD, "held: team that stays together")]),
        table: segments(view, case),
        figures: vec![
            figure(
                format!("Instruction misses of ten members, cache {judged}"),
                bars(case, "misses of ten members", "", 0.0, of(metric::L1I, true)),
            ),
            figure(
                "Calls that switch, a fetch".to_owned(),
                bars(case, "calls", "", 0.0, of(metric::CTX_CALLS, false)),
            ),
            figure(
                "Time of a transaction, measured".to_owned(),
                bars(case, "ns", " ns", 0.0, of(metric::NS, false)),
            ),
        ],
        ..Section::default()
    }
}

/// Which segments of a fetch miss, of teams with all points.
fn segments(view: View<'_>, case: &str) -> Option<Table> {
    let rows: Vec<Vec<String>> = view
        .metric(case, metric::SEGMENT)
        .filter(|row| row.median().is_some_and(|misses| misses >= SEGMENT_MIN))
        .map(|row| {
            vec![
                words(row.text("mode")).to_owned(),
                row.text("points").to_owned(),
                row.text("from").to_owned(),
                row.text("to").to_owned(),
                number::short(row.median().unwrap_or(0.0)),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        headings: ["mode", "points", "from", "to", "misses a fetch"]
            .map(str::to_owned)
            .to_vec(),
        numeric_columns: 1,
        rows,
    })
}
