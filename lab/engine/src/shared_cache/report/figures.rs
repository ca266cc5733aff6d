//! The plots and tables of the report, each from the rows of one figure.

use super::view::{View, is_of, kind_name};
use crate::shared_cache::engines::Kind;
use crate::shared_cache::figures::{MODERATE, STRONG, WEAK};
use crate::shared_cache::keys::SLOWDOWN;
use crate::shared_cache::statement::Statement;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::line::{LinePlot, Series};
use lab_core::report::page::{Figure, Section, Table};
use lab_core::report::scale::Spacing;
use lab_core::row::{Label, Row};
use lab_core::stats::Spread;

/// A colour for each kind of operators.
fn colour(kind: Kind) -> usize {
    match kind {
        Kind::Stock => 0,
        Kind::Corun => 1,
        Kind::Streaming => 2,
    }
}

fn kind_of(row: &Row) -> Kind {
    let kinds = Kind::ALL.into_iter();
    kinds
        .clone()
        .find(|&kind| is_of(row, kind))
        .unwrap_or(Kind::Corun)
}

fn legend_of(kinds: impl IntoIterator<Item = Kind>) -> Vec<(usize, String)> {
    kinds
        .into_iter()
        .map(|kind| (colour(kind), kind_name(kind).to_owned()))
        .collect()
}

/// What a figure's missing numbers are missing for.
fn reasons(view: View<'_>, figure: &str) -> Vec<String> {
    let reasons = view.unavailable(figure);
    match reasons.is_empty() {
        true => Vec::new(),
        false => vec![format!("Unavailable here: {}.", reasons.join("; "))],
    }
}

fn bar(row: &Row, spread: Spread) -> BarRow {
    BarRow {
        label: format!("{} | {}", row.text("query"), row.text("corunner")),
        value: spread.median,
        spread: Some((spread.min, spread.max)),
        series: colour(kind_of(row)),
    }
}

fn bars(name: &str, rows: Vec<BarRow>) -> Box<BarPlot> {
    Box::new(BarPlot {
        label: name.to_owned(),
        axis: "slow-down: query | co-runner".to_owned(),
        suffix: "x".to_owned(),
        base: 1.0,
        spacing: Spacing::Log,
        rows,
    })
}

/// A figure of bars: all measured slow-downs in the order they came; `None` where there are none.
fn bar_section(view: View<'_>, figure: &str, heading: &str, note: &str) -> Option<Section> {
    let rows: Vec<(&Row, Spread)> = view.slowdowns(figure).collect();
    let kinds = Kind::ALL.into_iter();
    let shown: Vec<Kind> = kinds
        .filter(|&kind| rows.iter().any(|(row, _)| is_of(row, kind)))
        .collect();
    (!rows.is_empty()).then(|| Section {
        heading: heading.to_owned(),
        text: std::iter::once(note.to_owned())
            .chain(reasons(view, figure))
            .collect(),
        legend: legend_of(shown),
        figures: vec![Figure {
            caption: String::new(),
            plot: bars(
                heading,
                rows.into_iter().map(|(row, spread)| bar(row, spread)).collect(),
            ),
        }],
        ..Section::default()
    })
}

/// Figure 1.
pub(super) fn figure_1(view: View<'_>) -> Option<Section> {
    bar_section(
        view,
        "1",
        "Figure 1: a hash join and an index join, alone and together",
        "The hash join's table is moderate, the index join is the largest. The paper draws miss rates: 6.0 % alone, 21.3 % beside a \
         hash join, 27.7 % beside an index join. Beside DataFusion's operators corun's index join runs: DataFusion has none.",
    )
}

/// Section 7.4.
pub(super) fn pairs(view: View<'_>) -> Option<Section> {
    bar_section(
        view,
        "7.4",
        "Section 7.4: SSB queries beside each other",
        "Hash joins beside index joins and beside themselves. Customers are as many as make the first hash table of Q3.1 the same share of \
         the cache as in the paper.",
    )
}

/// What a plot of Figure 4 has lines for: co-runner, colour, words.
const BESIDE: [(&str, usize, &str); 4] = [
    ("same", 1, "beside the same query"),
    ("index_plq25", 4, "beside the largest index join"),
    ("hash_plq25", 0, "beside the largest hash join"),
    ("scan", 3, "beside a scan"),
];

/// Slow-downs by S of the targets of one way of joining.
fn by_size(view: View<'_>, kind: Kind, access: &str) -> Vec<Series> {
    let line = |&(beside, colour, name): &(&str, usize, &str)| {
        let rows = view.slowdowns("4").filter(|(row, _)| {
            let same = row.text("corunner") == row.text("query");
            is_of(row, kind)
                && row.text("query").starts_with(access)
                && match beside {
                    "same" => same,
                    other => !same && row.text("corunner") == other,
                }
        });
        let mut points: Vec<(f64, f64)> = rows
            .filter_map(|(row, spread)| Some((size_over_cache(row)?, spread.median)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup_by(|a, b| a.0 == b.0);
        Series {
            name: name.to_owned(),
            colour,
            points,
        }
    };
    BESIDE
        .iter()
        .map(line)
        .filter(|series| !series.points.is_empty())
        .collect()
}

/// S over C of the hash join of the same `k`, whatever way the query itself joins.
fn size_over_cache(row: &Row) -> Option<f64> {
    let (_, k) = row.text("query").split_once("plq")?;
    let k: f64 = k.parse().ok()?;
    Some(k / crate::shared_cache::sizes::CATEGORIES as f64 * crate::shared_cache::sizes::LARGEST_OVER_CACHE)
}

/// Figure 4: one plot a kind of operators for hash joins, one each for the two index scans.
pub(super) fn figure_4(view: View<'_>) -> Option<Section> {
    let mut figures = Vec::new();
    let mut legend: Vec<(usize, String)> = Vec::new();
    let plots = [
        (Kind::Stock, "hash"),
        (Kind::Corun, "hash"),
        (Kind::Streaming, "hash"),
        (Kind::Corun, "index"),
        (Kind::Corun, "bitmap"),
    ];
    for (kind, access) in plots {
        let series = by_size(view, kind, access);
        if series.is_empty() {
            continue;
        }
        for line in &series {
            let entry = (line.colour, line.name.clone());
            if !legend.contains(&entry) {
                legend.push(entry);
            }
        }
        let what = match access {
            "hash" => "hash joins",
            "index" => "index joins, keys as they come",
            _ => "index joins, keys sorted",
        };
        figures.push(Figure {
            caption: format!("{what}, {}", kind_name(kind)),
            plot: Box::new(LinePlot {
                label: format!("slow-down of {what}"),
                x_axis: "S / C: bytes of the hash table of that k over the effective cache".to_owned(),
                y_axis: "slow-down".to_owned(),
                x_spacing: Spacing::Log,
                y_spacing: Spacing::Linear,
                x_ticks: None,
                marks: Vec::new(),
                series,
            }),
        });
    }
    let cache = view
        .cache_mib()
        .map_or_else(String::new, |mib| format!(" C is taken as {mib:.1} MiB."));
    (!figures.is_empty()).then(|| Section {
        heading: "Figure 4: slow-downs by the size of the hash table".to_owned(),
        text: std::iter::once(format!(
            "PLQ_1 to PLQ_25. The paper calls a table strong below a third of C and weak from 3 C on; it saw slow-downs over 1.1 beside \
             a hash join and over 1.5 beside an index join in between, and little on either side.{cache}"
        ))
        .chain(reasons(view, "4"))
        .collect(),
        legend,
        figures,
        ..Section::default()
    })
}

/// The paper's Table 1: rows are who is slowed down, columns by whom.
const TABLE_1: [[&str; 3]; 3] = [
    ["low", "moderate", "high"],
    ["moderate", "high", "high"],
    ["low", "low", "low"],
];

/// Table 1, one block a kind of operators.
pub(super) fn table_1(view: View<'_>) -> Option<Section> {
    let queries = [
        ("strong", Statement::hash(STRONG)),
        ("moderate", Statement::hash(MODERATE)),
        ("weak, hash join", Statement::hash(WEAK)),
        ("weak, index join", Statement::index(WEAK)),
    ];
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        for (target, (name, statement)) in queries.iter().enumerate() {
            let slowdowns = queries.map(|(_, beside)| view.slowdown("table1", kind, *statement, beside));
            if slowdowns.iter().all(Option::is_none) {
                continue;
            }
            let mut cells = vec![kind_name(kind).to_owned(), (*name).to_owned()];
            for (beside, slowdown) in slowdowns.into_iter().enumerate() {
                let here = slowdown.map_or_else(|| "-".to_owned(), |slowdown| format!("{slowdown:.2}x"));
                cells.push(format!("{here} ({})", TABLE_1[target.min(2)][beside.min(2)]));
            }
            rows.push(cells);
        }
    }
    let headings = [
        "operators",
        "who is slowed down",
        "beside strong",
        "beside moderate",
        "beside weak hash join",
        "beside index join",
    ];
    (!rows.is_empty()).then(|| Section {
        heading: "Table 1: who slows down whom".to_owned(),
        text: vec![
            "Median slow-downs; in brackets the paper's word. The paper measured a 2009 machine and PostgreSQL: what differs here is why \
             corun learns the table instead of trusting it."
                .to_owned(),
        ],
        table: Some(Table {
            headings: headings.map(str::to_owned).to_vec(),
            numeric_columns: 0,
            rows,
        }),
        ..Section::default()
    })
}

/// Table 2: times alone.
pub(super) fn table_2(view: View<'_>) -> Option<Section> {
    let queries = [
        ("moderate hash join", Statement::hash(MODERATE), "42.19 s, 6.03 %"),
        ("weak hash join", Statement::hash(WEAK), "42.44 s, 34.82 %"),
        ("weak index join", Statement::index(WEAK), "62.38 s, 37.47 %"),
    ];
    let rows: Vec<Vec<String>> = queries
        .iter()
        .filter_map(|(name, statement, paper)| {
            let times = Kind::ALL.map(|kind| view.alone("table2", kind, *statement));
            times.iter().any(Option::is_some).then(|| {
                let mut cells = vec![(*name).to_owned(), (*paper).to_owned()];
                cells.extend(
                    times.map(|ms| ms.map_or_else(|| "unavailable".to_owned(), |ms| format!("{ms:.0} ms"))),
                );
                cells
            })
        })
        .collect();
    let headings = [
        "query",
        "paper: time, miss rate",
        "DataFusion",
        "corun",
        "corun, streaming",
    ];
    (!rows.is_empty()).then(|| Section {
        heading: "Table 2: times alone".to_owned(),
        text: std::iter::once(
            "A streaming query alone should take no longer than one that uses the cache: that is what weak locality means.".to_owned(),
        )
        .chain(reasons(view, "table2"))
        .collect(),
        table: Some(Table {
            headings: headings.map(str::to_owned).to_vec(),
            numeric_columns: 3,
            rows,
        }),
        ..Section::default()
    })
}

/// Figure 5: streaming off and on.
pub(super) fn figure_5(view: View<'_>) -> Option<Section> {
    bar_section(
        view,
        "5",
        "Figure 5: weak queries kept out of the cache",
        "The paper confines weak queries to fewer page colours; no kernel does that. Measured here is what a process can do itself: weak \
         operators that read past the cache (streaming). With 4 of 32 colours the paper's moderate query ran 33 % shorter than without \
         partitioning. Colours and ways are simulated.",
    )
}

/// Simulated slow-downs and miss rates by ways, one section a figure.
pub(super) fn simulated(view: View<'_>) -> Vec<Section> {
    let rows = || view.0.iter().filter(|row| row.label == Label::Simulated);
    let mut figures: Vec<&str> = rows().map(|row| row.text("figure")).collect();
    figures.dedup();
    figures.sort_unstable();
    figures.dedup();
    figures
        .into_iter()
        .map(|figure| {
            let metrics = [
                (SLOWDOWN, "slow-down"),
                ("miss_rate", "misses a reference, percent"),
            ];
            let plots = metrics
                .into_iter()
                .map(|(metric, axis)| simulated_plot(rows(), figure, metric, axis));
            Section {
                heading: format!("Simulated: figure {}", figure.trim_start_matches("table")),
                text: vec![
                    "Simulated: replays of corun's own operators on caches this machine does not have, by the share of the cache the weak \
                     query may fill."
                        .to_owned(),
                ],
                figures: plots.flatten().collect(),
                ..Section::default()
            }
        })
        .filter(|section| !section.figures.is_empty())
        .collect()
}

/// Lines over ways where rows have them as numbers, else bars.
fn simulated_plot<'r>(
    rows: impl Iterator<Item = &'r Row>,
    figure: &str,
    metric: &str,
    axis: &str,
) -> Option<Figure> {
    let mut lines: Vec<Series> = Vec::new();
    let mut levels: Vec<BarRow> = Vec::new();
    for row in rows.filter(|row| row.text("figure") == figure && row.metric == metric) {
        let Some(median) = row.median() else { continue };
        let name = format!(
            "{} beside {}, {}",
            row.text("query"),
            row.text("corunner"),
            row.text("partition")
        );
        match row.number("ways").or_else(|| row.text("ways").parse().ok()) {
            Some(ways) => match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((ways, median)),
                None => {
                    let colour = lines.len();
                    lines.push(Series {
                        name,
                        colour,
                        points: vec![(ways, median)],
                    });
                }
            },
            None => levels.push(BarRow {
                label: format!("{} | {}", row.text("query"), row.text("corunner")),
                value: median,
                spread: None,
                series: 1,
            }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    if !lines.is_empty() {
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        return Some(Figure {
            caption: format!("{axis}: {}", names.join("; ")),
            plot: Box::new(LinePlot {
                label: format!("simulated {axis}"),
                x_axis: "ways or colours the weak query may fill".to_owned(),
                y_axis: axis.to_owned(),
                x_spacing: Spacing::Linear,
                y_spacing: Spacing::Linear,
                x_ticks: None,
                marks: Vec::new(),
                series: lines,
            }),
        });
    }
    (!levels.is_empty()).then(|| Figure {
        caption: axis.to_owned(),
        plot: Box::new(BarPlot {
            label: format!("simulated {axis}"),
            axis: axis.to_owned(),
            suffix: String::new(),
            base: if metric == SLOWDOWN { 1.0 } else { 0.0 },
            spacing: Spacing::Linear,
            rows: levels,
        }),
    })
}
