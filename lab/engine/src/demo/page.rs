//! The demo's numbers as a report page: headline, throughput, latencies, single queries, the machine, what is compared.

use super::live::summary::LiveSummary;
use super::live::{self, LiveResult};
use super::mix::Class;
use super::summary::{ClassSummary, QuerySummary, Summary};
use super::{DemoResult, Side};
use corun_cli::number;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::box_plot::{BoxPlot, BoxRow};
use lab_core::report::line::{LinePlot, Series};
use lab_core::report::page::{Figure, Page, Section, Table, Tile};
use lab_core::report::scale::Spacing;
use lab_core::stats::Spread;

/// What the page says about where the numbers come from; collected by the caller, who may ask clocks and files.
#[derive(Debug, Clone, Default)]
pub struct Provenance {
    /// Name and value of each fact about machine, build and date, in reading order.
    pub facts: Vec<(String, String)>,
}

/// The page: the analytic part, the live part, or both.
pub fn page(
    analytic: Option<(&DemoResult, &Summary)>,
    live: Option<(&LiveResult, &LiveSummary)>,
    provenance: &Provenance,
) -> Page {
    let mut page = Page {
        title: "corun-lab demo: concurrent SQL, stock against cache-conscious".to_owned(),
        footer: "Written by corun-lab demo. The page is complete in itself: it loads nothing from elsewhere."
            .to_owned(),
        ..Page::default()
    };
    if let Some((result, summary)) = analytic {
        page.lead = format!("{}. ", lead(result));
        page.tiles.extend(tiles(summary));
        page.sections.extend(
            [
                Some(throughput(result, summary)),
                policies(result, summary),
                Some(latency(result, summary)),
                Some(queries(summary)),
                Some(memory(summary)),
                Some(compared(result)),
            ]
            .into_iter()
            .flatten(),
        );
    }
    if let Some((result, summary)) = live {
        page.lead.push_str(&format!("{}. ", live::page::lead(result)));
        page.tiles.extend(live::page::tiles(summary));
        page.sections.extend(live::page::sections(result, summary));
    }
    page.lead
        .push_str("Every number on this page was measured on the machine described below.");
    page.sections.push(Section::machine(&provenance.facts));
    page
}

/// What ran, in a sentence without a full stop.
fn lead(result: &DemoResult) -> String {
    format!(
        "Star Schema Benchmark at scale {} ({} rows, {} in memory), {} analytic and {} short clients at the same time, {} rounds \
         of {} s a side",
        result.options.scale,
        number::short(result.data_rows as f64),
        number::bytes(result.data_bytes as f64),
        result.options.clients,
        result.options.short_clients,
        result.options.rounds,
        result.options.seconds
    )
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

fn legend(sides: &[Side]) -> Vec<(usize, String)> {
    sides.iter().map(|side| side.name()).enumerate().collect()
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
        let speed_up = class.side(Side::Corun).and_then(|corun| corun.speed_up);
        tiles.push(Tile {
            value: ratio_text(median(speed_up)),
            name: format!("{} queries a second, corun against stock", class.class.name()),
            note: format!("rounds {}; {control}", spread_text(speed_up)),
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
        class
            .sides
            .iter()
            .enumerate()
            .map(|(colour, numbers)| Series {
                name: numbers.side.name(),
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
        .filter(|class| class.ran())
        .map(|class| Figure {
            caption: format!("{} clients", capitalised(class.class.name())),
            plot: Box::new(LinePlot {
                label: format!("{} queries a second in each round, by side", class.class.name()),
                x_axis: "round".to_owned(),
                y_axis: "queries a second".to_owned(),
                x_spacing: Spacing::Linear,
                y_spacing: Spacing::Linear,
                x_ticks: Some(rounds.clone()),
                marks: Vec::new(),
                series: series(class),
            }),
        })
        .collect();
    Section {
        heading: "Throughput, round by round".to_owned(),
        text: vec![
            "Both classes of clients run at the same time; each sends its next statement when the last one is answered. The sides \
             take turns, in an order shuffled anew each round. Axes start at zero."
                .to_owned(),
        ],
        entries: Vec::new(),
        legend: legend(&result.options.sides()),
        figures,
        table: Some(class_table(summary)),
    }
}

/// What the coordinator adds; `None` where none ran.
fn policies(result: &DemoResult, summary: &Summary) -> Option<Section> {
    if result.options.policies.is_empty() {
        return None;
    }
    let figures = summary
        .classes
        .iter()
        .filter(|class| class.ran())
        .map(|class| Figure {
            caption: format!("{} queries", capitalised(class.class.name())),
            plot: Box::new(BarPlot {
                label: format!(
                    "{} queries a second of each side against stock",
                    class.class.name()
                ),
                axis: "times as many queries a second as stock".to_owned(),
                suffix: "x".to_owned(),
                base: 1.0,
                spacing: Spacing::Log,
                rows: class
                    .sides
                    .iter()
                    .enumerate()
                    .filter_map(|(series, numbers)| {
                        let speed_up = numbers.speed_up?;
                        Some(BarRow {
                            label: numbers.side.name(),
                            value: speed_up.median,
                            spread: Some((speed_up.min, speed_up.max)),
                            series,
                        })
                    })
                    .collect(),
            }),
        })
        .collect();
    Some(Section {
        heading: "Policies of the coordinator".to_owned(),
        text: vec![
            "A coordinator holds queries back until they fit those that run: fifo in order of arrival, sls beside queries whose \
             hash tables load the cache alike, mls beside the opposite kind in a partitioned cache, learned by the slow-downs it \
             has observed. It gives each query one core while others wait, and all cores to one that is alone; short statements \
             pass it by. Beside it, corun without coordinator, which starts every query at once."
                .to_owned(),
            "The tables of this mix are small beside the cache of most machines, so little is to be gained from the order here, and \
             auto lets such queries through; corun-lab bench llc has a mix of larger ones."
                .to_owned(),
        ],
        entries: Vec::new(),
        legend: legend(&result.options.sides()),
        figures,
        table: None,
    })
}

/// The closing table, the same in the terminal and on the page.
pub fn class_table(summary: &Summary) -> Table {
    let mut rows = Vec::new();
    for class in &summary.classes {
        for numbers in &class.sides {
            let latency = |pick: fn(&lab_core::report::box_plot::Quantiles) -> f64| {
                numbers
                    .latency
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |latency| number::milliseconds(pick(latency)))
            };
            let (ratio, spread) = match (numbers.side, class.control) {
                (Side::Stock, control) => (
                    String::new(),
                    control.map_or_else(String::new, |control| {
                        format!("itself {}", spread_text(Some(control)))
                    }),
                ),
                _ => (
                    ratio_text(median(numbers.speed_up)),
                    spread_text(numbers.speed_up),
                ),
            };
            let over_fifo = numbers.over_fifo.map(|ratio| ratio.median);
            rows.push(vec![
                class.class.name().to_owned(),
                numbers.side.name(),
                median(numbers.rate).map_or_else(|| "-".to_owned(), number::short),
                latency(|latency| latency.p50),
                latency(|latency| latency.p95),
                ratio,
                over_fifo.map_or_else(String::new, |ratio| ratio_text(Some(ratio))),
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
        "over fifo",
        "over rounds",
    ];
    Table {
        headings: headings.map(str::to_owned).to_vec(),
        numeric_columns: 6,
        rows,
    }
}

fn latency(result: &DemoResult, summary: &Summary) -> Section {
    let figures = summary
        .classes
        .iter()
        .filter(|class| class.ran())
        .map(|class| Figure {
            caption: format!("{} queries", capitalised(class.class.name())),
            plot: Box::new(BoxPlot {
                label: format!("latency of {} queries, by side", class.class.name()),
                axis: "milliseconds, logarithmic".to_owned(),
                spacing: Spacing::Log,
                rows: class
                    .sides
                    .iter()
                    .enumerate()
                    .map(|(series, numbers)| BoxRow {
                        label: numbers.side.name(),
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
        entries: Vec::new(),
        legend: legend(&result.options.sides()),
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
        text: std::iter::once(
            "Right of the line corun was faster, left of it slower; whiskers span the rounds. These are times under the mixed \
             load, so a query also gains or loses by what runs beside it; corun-lab bench ssb measures queries alone."
                .to_owned(),
        )
        .chain(summary.queries.iter().filter_map(QuerySummary::loss))
        .collect(),
        entries: Vec::new(),
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
    let rows = summary
        .peak_bytes
        .iter()
        .map(|(side, peak)| vec![side.name(), number::bytes(peak.median), number::bytes(peak.max)])
        .collect();
    Section {
        heading: "Peak memory".to_owned(),
        text: vec![
            "The most heap memory live at once during a turn, above the shared data that was there before it; counted by the \
             allocator, so it includes everything the side allocates."
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
                 installed, the further sides the same behind a coordinator. All read the same batches in memory, use {} partitions a query (a coordinator: one, or all cores for a query alone), the same \
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

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
