//! The live part on the report page: big numbers, transactions, analytic clients, statements, what is compared.

use super::summary::LiveSummary;
use super::{LiveResult, Side};
use crate::demo::page::{ratio_text, spread_text};
use corun_cli::number;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::box_plot::{BoxPlot, BoxRow};
use lab_core::report::line::{LinePlot, Series};
use lab_core::report::page::{Figure, Section, Table, Tile};
use lab_core::report::scale::Spacing;
use lab_core::stats::Spread;

/// The colour of a side: stock and corun as in the other part.
fn colour(side: Side) -> usize {
    match side {
        Side::Stock => 0,
        Side::Corun => 1,
        Side::Alone => 2,
        Side::Teams => 3,
    }
}

fn legend(sides: &[Side]) -> Vec<(usize, String)> {
    sides
        .iter()
        .map(|&side| (colour(side), side.name().to_owned()))
        .collect()
}

fn median(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.median)
}

/// `1.52x 1.31..1.60`, or nothing.
fn ratio_with_spread(ratio: Option<Spread>) -> String {
    ratio.map_or_else(String::new, |spread| {
        format!(
            "{} {}",
            ratio_text(Some(spread.median)),
            spread_text(Some(spread))
        )
    })
}

/// `itself 0.97..1.02`, or nothing.
fn itself(control: Option<Spread>) -> String {
    control.map_or_else(String::new, |control| {
        format!("itself {}", spread_text(Some(control)))
    })
}

fn rate_text(rate: Option<Spread>) -> String {
    median(rate).map_or_else(|| "-".to_owned(), number::short)
}

fn time_text(milliseconds: Option<f64>) -> String {
    milliseconds.map_or_else(|| "-".to_owned(), number::milliseconds)
}

/// Microseconds as `25.9 us` or `1.25 ms`.
fn short_time_text(us: Option<f64>) -> String {
    match us {
        Some(us) if us < 1000.0 => format!("{} us", number::short(us)),
        longer => time_text(longer.map(|us| us / 1000.0)),
    }
}

/// `TPC-C of 2 warehouses (1.1M rows)`, for people.
fn data_text(result: &LiveResult) -> String {
    let options = &result.options;
    let size = match options.divisor {
        1 => String::new(),
        divisor => format!(", their contents divided by {divisor}"),
    };
    format!(
        "TPC-C with {} warehouse{}{size} ({} rows)",
        options.warehouses,
        if options.warehouses == 1 { "" } else { "s" },
        number::short(result.rows as f64)
    )
}

/// What ran, in a sentence without a full stop.
pub fn lead(result: &LiveResult) -> String {
    let options = &result.options;
    format!(
        "{} in a store in memory, {} terminals on {} CPU{} beside {} analytic clients on the same tables, {} rounds of {} s a side",
        data_text(result),
        options.terminals,
        options.workers,
        if options.workers == 1 { "" } else { "s" },
        options.clients,
        options.rounds,
        options.seconds
    )
}

/// The big numbers.
pub fn tiles(summary: &LiveSummary) -> Vec<Tile> {
    let mut tiles = Vec::new();
    if let (Some(stock), Some(corun)) = (
        summary.transactions_of(Side::Stock),
        summary.transactions_of(Side::Corun),
    ) {
        if let Some(teams) = summary.transactions_of(Side::Teams) {
            let control = summary
                .transactions_of(Side::Alone)
                .and_then(|alone| alone.control);
            tiles.push(Tile {
                value: ratio_text(median(teams.over_alone)),
                name: "New Orders with terminals in teams, against a thread each".to_owned(),
                note: match control {
                    Some(control) => format!(
                        "rounds {}; threads against themselves {}",
                        spread_text(teams.over_alone),
                        spread_text(Some(control))
                    ),
                    None => "one round: no control".to_owned(),
                },
            });
        }
        tiles.push(Tile {
            value: ratio_text(median(corun.over_alone)),
            name: "of the New Orders of transactions alone, beside corun's queries".to_owned(),
            note: format!(
                "rounds {}; beside stock's {}",
                spread_text(corun.over_alone),
                ratio_with_spread(stock.over_alone)
            ),
        });
    }
    if let (Some(stock), Some(corun)) = (
        summary.analytics_of(Side::Stock),
        summary.analytics_of(Side::Corun),
    ) {
        let control = match stock.control {
            Some(control) => format!("stock against itself {}", spread_text(Some(control))),
            None => "one round: no control".to_owned(),
        };
        tiles.push(Tile {
            value: ratio_text(median(corun.over_stock)),
            name: "queries a second on live data, corun against stock".to_owned(),
            note: format!("rounds {}; {control}", spread_text(corun.over_stock)),
        });
    }
    tiles.push(Tile {
        value: match summary.wrong.len() {
            0 => "all right".to_owned(),
            wrong => format!("{wrong} wrong"),
        },
        name: format!("{} answers on live data checked", summary.answers),
        note: "against what holds at every moment; then TPC-C's consistency conditions".to_owned(),
    });
    tiles
}

/// The cards.
pub fn sections(result: &LiveResult, summary: &LiveSummary) -> Vec<Section> {
    let mut sections = vec![
        transactions(result, summary),
        analytics(result, summary),
        statements(summary),
    ];
    if !summary.wrong.is_empty() {
        sections.push(wrong(summary));
    }
    sections.push(compared(result));
    sections
}

/// The table of transactions, the same in the terminal and on the page.
pub fn transaction_table(summary: &LiveSummary) -> Table {
    let rows = summary
        .transactions
        .iter()
        .map(|numbers| {
            let over_alone = match numbers.side {
                Side::Alone => itself(numbers.control),
                Side::Teams | Side::Stock | Side::Corun => ratio_with_spread(numbers.over_alone),
            };
            let over_stock = match numbers.side {
                Side::Alone | Side::Teams => String::new(),
                Side::Stock => itself(numbers.control),
                Side::Corun => ratio_with_spread(numbers.over_stock),
            };
            vec![
                match numbers.side {
                    Side::Alone => "nobody".to_owned(),
                    Side::Teams => "nobody, teams".to_owned(),
                    side => side.name().to_owned(),
                },
                rate_text(numbers.new_orders_per_min),
                rate_text(numbers.tps),
                short_time_text(numbers.p50_us),
                short_time_text(numbers.p99_us),
                rate_text(numbers.retries),
                over_alone,
                over_stock,
            ]
        })
        .collect();
    Table {
        headings: [
            "beside",
            "new orders/min",
            "tx/s",
            "p50",
            "p99",
            "retries",
            "against alone",
            "against stock",
        ]
        .map(str::to_owned)
        .to_vec(),
        numeric_columns: 7,
        rows,
    }
}

/// The table of analytic clients, the same in the terminal and on the page.
pub fn analytic_table(summary: &LiveSummary) -> Table {
    let rows = summary
        .analytics
        .iter()
        .map(|numbers| {
            vec![
                numbers.side.name().to_owned(),
                rate_text(numbers.rate),
                time_text(numbers.latency.map(|latency| latency.p50)),
                time_text(numbers.latency.map(|latency| latency.p95)),
                match numbers.side {
                    Side::Corun => ratio_with_spread(numbers.over_stock),
                    Side::Stock | Side::Alone | Side::Teams => itself(numbers.control),
                },
            ]
        })
        .collect();
    Table {
        headings: ["analytics", "queries/s", "p50", "p95", "against stock"]
            .map(str::to_owned)
            .to_vec(),
        numeric_columns: 4,
        rows,
    }
}

/// Lines over rounds, one for each side.
fn line_plot(label: &str, y_axis: &str, sides: Vec<(Side, &[f64])>) -> LinePlot {
    let rounds = sides.iter().map(|(_, rates)| rates.len()).max().unwrap_or(0);
    LinePlot {
        label: label.to_owned(),
        x_axis: "round".to_owned(),
        y_axis: y_axis.to_owned(),
        x_spacing: Spacing::Linear,
        y_spacing: Spacing::Linear,
        x_ticks: Some((1..=rounds).map(|round| round as f64).collect()),
        marks: Vec::new(),
        series: sides
            .into_iter()
            .map(|(side, rates)| Series {
                name: side.name().to_owned(),
                colour: colour(side),
                points: rates
                    .iter()
                    .enumerate()
                    .map(|(round, &rate)| (round as f64 + 1.0, rate))
                    .collect(),
            })
            .collect(),
    }
}

fn transactions(result: &LiveResult, summary: &LiveSummary) -> Section {
    let sides = summary
        .transactions
        .iter()
        .map(|numbers| (numbers.side, &*numbers.new_orders))
        .collect();
    Section {
        heading: "Live data: transactions beside analytic clients".to_owned(),
        text: vec![
            format!(
                "{}. Terminals run the standard mix of TPC-C without think time: alone with a thread each, alone in teams (the terminals \
                 of a CPU are user-level threads of one thread, which switch where they would wait for memory), beside clients \
                 that analyse the same tables with stock, and beside the same clients with corun's joins, in turns. Every turn \
                 begins with a freshly loaded store, so all begin with the same rows.",
                lead(result)
            ),
            "p50 and p99 are those of New Order over all rounds; retries are transactions run again because of others, in a turn. \
             Analytic clients read snapshots, which wait for no transaction and hold none up: what they cost is processor time, \
             memory traffic and cache."
                .to_owned(),
        ],
        entries: Vec::new(),
        legend: legend(&Side::ALL),
        figures: vec![Figure {
            caption: "New Orders a minute, round by round".to_owned(),
            plot: Box::new(line_plot(
                "New Orders a minute in each round, by what runs beside",
                "New Orders a minute",
                sides,
            )),
        }],
        table: Some(transaction_table(summary)),
    }
}

fn analytics(result: &LiveResult, summary: &LiveSummary) -> Section {
    let sides = summary
        .analytics
        .iter()
        .map(|numbers| (numbers.side, &*numbers.rates))
        .collect();
    let boxes = summary
        .analytics
        .iter()
        .map(|numbers| BoxRow {
            label: numbers.side.name().to_owned(),
            series: colour(numbers.side),
            quantiles: numbers.latency,
        })
        .collect();
    Section {
        heading: "Live data: the analytic clients".to_owned(),
        text: vec![format!(
            "{} clients, each with one statement at a time, beside {} terminals that want every processor for themselves.",
            result.options.clients, result.options.terminals
        )],
        entries: Vec::new(),
        legend: legend(&[Side::Stock, Side::Corun]),
        figures: vec![
            Figure {
                caption: "Queries a second, round by round".to_owned(),
                plot: Box::new(line_plot(
                    "queries a second on live data in each round, by side",
                    "queries a second",
                    sides,
                )),
            },
            Figure {
                caption: "Latency".to_owned(),
                plot: Box::new(BoxPlot {
                    label: "latency of queries on live data, by side".to_owned(),
                    axis: "milliseconds, logarithmic".to_owned(),
                    spacing: Spacing::Log,
                    rows: boxes,
                }),
            },
        ],
        table: Some(analytic_table(summary)),
    }
}

fn statements(summary: &LiveSummary) -> Section {
    let bars: Vec<BarRow> = summary
        .statements
        .iter()
        .filter_map(|statement| {
            let ratio = statement.speed_up?;
            Some(BarRow {
                label: statement.name.to_owned(),
                value: ratio.median,
                spread: Some((ratio.min, ratio.max)),
                series: usize::from(ratio.median >= 1.0),
            })
        })
        .collect();
    let rows = summary
        .statements
        .iter()
        .map(|statement| {
            vec![
                statement.name.to_owned(),
                time_text(statement.stock_ms),
                time_text(statement.corun_ms),
                ratio_text(median(statement.speed_up)),
                spread_text(statement.speed_up),
            ]
        })
        .collect();
    let figure = (!bars.is_empty()).then(|| Figure {
        caption: String::new(),
        plot: Box::new(BarPlot {
            label: "speed-up of each statement on live data".to_owned(),
            axis: "times faster on corun (stock time / corun time)".to_owned(),
            suffix: "x".to_owned(),
            base: 1.0,
            spacing: Spacing::Log,
            rows: bars,
        }),
    });
    Section {
        heading: "Live data: statement by statement".to_owned(),
        text: vec![
            "Medians beside the transactions. The tables grow while a turn runs, and most of a time is waiting for a processor, so \
             these say less than times of queries alone."
                .to_owned(),
        ],
        entries: Vec::new(),
        legend: match figure {
            Some(_) => vec![(1, "corun faster".to_owned()), (0, "stock faster".to_owned())],
            None => Vec::new(),
        },
        figures: figure.into_iter().collect(),
        table: Some(Table {
            headings: ["statement", "stock", "corun", "speed-up", "over rounds"]
                .map(str::to_owned)
                .to_vec(),
            numeric_columns: 4,
            rows,
        }),
    }
}

fn wrong(summary: &LiveSummary) -> Section {
    Section {
        heading: "Live data: what was wrong".to_owned(),
        text: summary.wrong.iter().take(20).cloned().collect(),
        ..Section::default()
    }
}

fn compared(result: &LiveResult) -> Section {
    Section {
        heading: "Live data: what is compared, and what is not".to_owned(),
        text: vec![
            format!(
                "The transactions run on corun's store on all sides; teams or threads, and the engine of the analytic clients, is all that changes. Both \
                 engines read the store's rows through the same scan, with {} partitions a query, every statement as of one \
                 moment. Within a round terminals and clients draw the same inputs and the same order of statements from seed {}.",
                result.options.partitions, result.options.seed
            ),
            "A right answer is another one at every moment, so statements are checked by what must hold at each: most of them \
             look for places where TPC-C's consistency conditions do not, and may find none; the others carry two ways to one total. \
             When a turn is over the conditions are checked on the store itself, and after the last one both engines answer every \
             statement once more on the same rows."
                .to_owned(),
            "Nothing is logged, so nothing here says anything about disks; corun-lab bench oltp measures transactions with logs and \
             against other engines. This is not a TPC-C result: there is no think time, and none of the specification's rules of \
             execution is claimed."
                .to_owned(),
        ],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests;
