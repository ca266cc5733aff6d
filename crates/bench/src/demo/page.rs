//! The demo's numbers as a report page: headline, throughput, latencies, single queries, the machine, what is compared.

use super::mix::Class;
use super::summary::{ClassSummary, Summary};
use super::{DemoResult, Side};
use crate::report::bar::{BarPlot, BarRow};
use crate::report::box_plot::{BoxPlot, BoxRow};
use crate::report::line::{LinePlot, Series};
use crate::report::number;
use crate::report::page::{Figure, Page, Section, Table, Tile};
use crate::report::scale::Spacing;
use crate::stats::Spread;

/// What the page says about where the numbers come from; collected by the caller, who may ask clocks and files.
#[derive(Debug, Clone, Default)]
pub struct Provenance {
    /// Name and value of each fact about machine, build and date, in reading order.
    pub facts: Vec<(String, String)>,
}

/// The page.
pub fn page(result: &DemoResult, summary: &Summary, provenance: &Provenance) -> Page {
    Page {
        title: "corun demo: concurrent SQL, stock against cache-conscious".to_owned(),
        lead: format!(
            "Star Schema Benchmark at scale {} ({} rows, {} in memory), {} analytic and {} short clients at the same time, {} rounds \
             of {} s a side. Every number on this page was measured on the machine described below.",
            result.options.scale,
            number::short(result.data_rows as f64),
            number::bytes(result.data_bytes as f64),
            result.options.clients,
            result.options.short_clients,
            result.options.rounds,
            result.options.seconds
        ),
        tiles: tiles(summary),
        sections: vec![
            throughput(result, summary),
            latency(summary),
            queries(summary),
            memory(summary),
            compared(result),
            machine(provenance),
        ],
        footer: "Written by corun demo. The page is complete in itself: it loads nothing from elsewhere."
            .to_owned(),
    }
}

/// `1.52x`, or a dash.
pub fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x"))
}

/// `1.31..1.60`, or nothing.
pub fn spread_text(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |spread| {
        format!("{:.2}..{:.2}", spread.min, spread.max)
    })
}

fn legend() -> Vec<(usize, String)> {
    vec![(0, "stock DataFusion".to_owned()), (1, "corun".to_owned())]
}

fn median(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.median)
}

fn tiles(summary: &Summary) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for class in &summary.classes {
        let control = match class.control {
            Some(control) => format!("stock against itself {}", spread_text(Some(control))),
            None => "one round: no control".to_owned(),
        };
        tiles.push(Tile {
            value: ratio_text(median(class.speed_up)),
            name: format!("{} queries a second, corun against stock", class.class.name()),
            note: format!("rounds {}; {control}", spread_text(class.speed_up)),
        });
    }
    tiles.push(Tile {
        value: ratio_text(summary.analytic_mean),
        name: "geometric mean over the analytic queries".to_owned(),
        note: "median time under load, stock over corun".to_owned(),
    });
    tiles.push(Tile {
        value: if summary.wrong == 0 {
            "all right".to_owned()
        } else {
            format!("{} wrong", summary.wrong)
        },
        name: format!("{} answers checked", summary.executions),
        note: "against answers computed before the first round".to_owned(),
    });
    tiles
}

fn throughput(result: &DemoResult, summary: &Summary) -> Section {
    let rounds: Vec<f64> = (1..=result.options.rounds).map(|round| round as f64).collect();
    let series = |class: &ClassSummary| {
        [(Side::Stock, &class.stock), (Side::Corun, &class.corun)]
            .into_iter()
            .enumerate()
            .map(|(colour, (side, numbers))| Series {
                name: side.name().to_owned(),
                colour,
                points: rounds
                    .iter()
                    .copied()
                    .zip(numbers.rates.iter().copied())
                    .collect(),
            })
            .collect()
    };
    let figures = summary
        .classes
        .iter()
        .filter(|class| class.stock.executions > 0)
        .map(|class| Figure {
            caption: format!("{} clients", capitalised(class.class.name())),
            plot: Box::new(LinePlot {
                label: format!(
                    "{} queries a second in each round, stock and corun",
                    class.class.name()
                ),
                x_axis: "round".to_owned(),
                y_axis: "queries a second".to_owned(),
                x_spacing: Spacing::Linear,
                y_spacing: Spacing::Linear,
                x_ticks: Some(rounds.clone()),
                series: series(class),
            }),
        })
        .collect();
    Section {
        heading: "Throughput, round by round".to_owned(),
        text: vec![
            "Both classes of clients run at the same time; each sends its next statement when the last one is answered. The sides \
             take turns, stock first. Axes start at zero."
                .to_owned(),
        ],
        legend: legend(),
        figures,
        table: Some(class_table(summary)),
    }
}

/// The closing table, the same in the terminal and on the page.
pub fn class_table(summary: &Summary) -> Table {
    let mut rows = Vec::new();
    for class in &summary.classes {
        for (side, numbers) in [(Side::Stock, &class.stock), (Side::Corun, &class.corun)] {
            let latency = |pick: fn(&crate::report::box_plot::Quantiles) -> f64| {
                numbers
                    .latency
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |latency| number::milliseconds(pick(latency)))
            };
            let (ratio, spread) = match side {
                Side::Stock => (
                    "".to_owned(),
                    class.control.map_or_else(String::new, |control| {
                        format!("itself {}", spread_text(Some(control)))
                    }),
                ),
                Side::Corun => (ratio_text(median(class.speed_up)), spread_text(class.speed_up)),
            };
            rows.push(vec![
                class.class.name().to_owned(),
                side.name().to_owned(),
                median(numbers.rate).map_or_else(|| "-".to_owned(), number::short),
                latency(|latency| latency.p50),
                latency(|latency| latency.p95),
                ratio,
                spread,
            ]);
        }
    }
    let headings = [
        "clients",
        "side",
        "queries/s",
        "p50",
        "p95",
        "speed-up",
        "over rounds",
    ];
    Table {
        headings: headings.map(str::to_owned).to_vec(),
        numeric_columns: 5,
        rows,
    }
}

fn latency(summary: &Summary) -> Section {
    let figures = summary
        .classes
        .iter()
        .filter(|class| class.stock.executions > 0)
        .map(|class| Figure {
            caption: format!("{} queries", capitalised(class.class.name())),
            plot: Box::new(BoxPlot {
                label: format!("latency of {} queries, stock and corun", class.class.name()),
                axis: "milliseconds, logarithmic".to_owned(),
                spacing: Spacing::Log,
                rows: [(Side::Stock, &class.stock), (Side::Corun, &class.corun)]
                    .into_iter()
                    .enumerate()
                    .map(|(series, (side, numbers))| BoxRow {
                        label: side.name().to_owned(),
                        series,
                        quantiles: numbers.latency,
                    })
                    .collect(),
            }),
        })
        .collect();
    Section {
        heading: "Latency under load".to_owned(),
        text: vec![
            "Boxes hold the middle half of all executions, with the median as a gap; whiskers reach from the 5th to the 95th \
             percentile; the ring is the slowest execution. The analytic queries differ in size by themselves, which is most of \
             that width."
                .to_owned(),
        ],
        legend: legend(),
        figures,
        table: None,
    }
}

fn queries(summary: &Summary) -> Section {
    let bars = |class: Class| BarPlot {
        label: format!("speed-up of each {} query", class.name()),
        axis: "times faster on corun (stock time / corun time)".to_owned(),
        suffix: "x".to_owned(),
        base: 1.0,
        spacing: Spacing::Log,
        rows: summary
            .queries
            .iter()
            .filter(|query| query.class == class)
            .map(|query| {
                let ratio = median(query.speed_up).unwrap_or(f64::NAN);
                BarRow {
                    label: query.name.clone(),
                    value: ratio,
                    spread: query.speed_up.map(|spread| (spread.min, spread.max)),
                    series: usize::from(ratio >= 1.0),
                }
            })
            .collect(),
    };
    let rows = summary
        .queries
        .iter()
        .map(|query| {
            let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), number::milliseconds);
            vec![
                query.name.clone(),
                time(query.stock_ms),
                time(query.corun_ms),
                ratio_text(median(query.speed_up)),
                spread_text(query.speed_up),
            ]
        })
        .collect();
    Section {
        heading: "Query by query".to_owned(),
        text: vec![
            "Right of the line corun was faster, left of it slower; whiskers span the rounds. These are times under the mixed \
             load, so a query also gains or loses by what runs beside it; corun bench ssb measures queries alone."
                .to_owned(),
        ],
        legend: vec![(1, "corun faster".to_owned()), (0, "stock faster".to_owned())],
        figures: Class::ALL
            .into_iter()
            .filter(|&class| summary.queries.iter().any(|query| query.class == class && query.speed_up.is_some()))
            .map(|class| Figure {
                caption: format!("{} queries", capitalised(class.name())),
                plot: Box::new(bars(class)),
            })
            .collect(),
        table: Some(Table {
            headings: ["query", "stock", "corun", "speed-up", "over rounds"].map(str::to_owned).to_vec(),
            numeric_columns: 4,
            rows,
        }),
    }
}

fn memory(summary: &Summary) -> Section {
    let rows = Side::BOTH
        .into_iter()
        .zip(summary.peak_bytes)
        .map(|(side, peak)| {
            let text = |value: fn(&Spread) -> f64| {
                peak.as_ref()
                    .map_or_else(|| "-".to_owned(), |peak| number::bytes(value(peak)))
            };
            vec![
                side.name().to_owned(),
                text(|peak| peak.median),
                text(|peak| peak.max),
            ]
        })
        .collect();
    Section {
        heading: "Peak memory".to_owned(),
        text: vec![
            "The most heap memory live at once during a turn, above the shared data that was there before it; counted by the \
             allocator, so it includes everything both engines allocate."
                .to_owned(),
        ],
        table: Some(Table {
            headings: ["side", "median of rounds", "worst round"].map(str::to_owned).to_vec(),
            numeric_columns: 2,
            rows,
        }),
        ..Section::default()
    }
}

fn compared(result: &DemoResult) -> Section {
    Section {
        heading: "What is compared, and what is not".to_owned(),
        text: vec![
            format!(
                "Stock is Apache DataFusion as it comes; corun is the same engine in the same program with corun's operators \
                 installed. Both read the same batches in memory, use {} partitions a query, the same worker threads, the same \
                 allocator with huge pages, and run the same statements in the same order from seed {}.",
                result.options.partitions, result.options.seed
            ),
            "The analytic clients cycle through the 13 queries of the Star Schema Benchmark, a join of parts and order lines with \
             three sizes of hash table (plq), and two joins of the fact table with itself (same_order, bought_again). The last five \
             are ours and were chosen because their hash tables exceed a cache; leave them out when you compare with others' SSB \
             numbers."
                .to_owned(),
            "Data comes from memory, so nothing here says anything about disks or networks. Nothing is said about other engines \
             either. A different machine, scale or number of clients gives different numbers: run it on yours."
                .to_owned(),
        ],
        ..Section::default()
    }
}

fn machine(provenance: &Provenance) -> Section {
    Section {
        heading: "The machine and the run".to_owned(),
        table: Some(Table {
            headings: vec![String::new(), String::new()],
            numeric_columns: 0,
            rows: provenance
                .facts
                .iter()
                .map(|(name, value)| vec![name.clone(), value.clone()])
                .collect(),
        }),
        ..Section::default()
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::summary::tests::result;

    #[test]
    fn the_page_names_the_ratio_the_control_and_the_machine() {
        let result = result();
        let provenance = Provenance {
            facts: vec![("processor".to_owned(), "a <test>".to_owned())],
        };
        let html = page(&result, &Summary::of(&result), &provenance).render();
        for text in [
            "2.00x",
            "stock against itself 1.00..1.00",
            "a &lt;test&gt;",
            "all right",
            "prefers-color-scheme",
        ] {
            assert!(html.contains(text), "{text}");
        }
        assert!(!html.contains("NaN"), "missing numbers are written as a dash");
    }

    #[test]
    fn wrong_answers_are_on_the_page() {
        let mut result = result();
        result.turns[0].clients[0].executions[0].correct = false;
        let html = page(&result, &Summary::of(&result), &Provenance::default()).render();
        assert!(html.contains("1 wrong") && !html.contains("all right"));
    }
}
