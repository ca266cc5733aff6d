//! The cards of the page.

use super::view::{Place, View};
use crate::peers::oltp::ENGINES;
use crate::transactions::recovery::RECORDS_PER_S;
use crate::transactions::rows::{BYTES_PER_ROW, ENGINE_BYTES_PER_ROW, IDLE};
use crate::transactions::{CORUN, NEW_ORDERS, TPS};
use corun_cli::number;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::page::{Figure, Section, Table};
use lab_core::report::scale::Spacing;
use lab_core::row::{Label, Row};

/// The colour of an engine: our store has the same in every report, and the first is the stock engine's there.
fn colour(engine: &str) -> usize {
    let peer = ENGINES.iter().position(|name| *name == engine);
    peer.map_or(1, |at| at + 2)
}

fn heading(workload: &str) -> String {
    match workload {
        "tpcc" => "TPC-C, the standard mix".to_owned(),
        "payment" => "TPC-C, Payment alone".to_owned(),
        "no_delivery" => "TPC-C without Delivery".to_owned(),
        "ycsb_a" => "YCSB A: half reads, half updates".to_owned(),
        "ycsb_b" => "YCSB B: 95 % reads, 5 % updates".to_owned(),
        "ycsb_c" => "YCSB C: reads".to_owned(),
        "ycsb_d" => "YCSB D: 95 % reads of new records, 5 % inserts".to_owned(),
        "ycsb_e" => "YCSB E: 95 % scans, 5 % inserts".to_owned(),
        "ycsb_f" => "YCSB F: half reads, half read-modify-writes".to_owned(),
        other => other.to_owned(),
    }
}

fn promise(durability: &str) -> &str {
    match durability {
        "none" => "No log",
        "async" => "Commits do not wait for their log",
        "durable" => "Commits wait until their log is on disk",
        other => other,
    }
}

fn workers_text(workers: f64) -> String {
    if workers == 1.0 {
        "1 worker".to_owned()
    } else {
        format!("{} workers", number::short(workers))
    }
}

/// What a workload is counted in: metric, and its name on an axis.
fn unit(workload: &str) -> (&'static str, &'static str) {
    match workload {
        "tpcc" => (NEW_ORDERS, "New Orders a minute"),
        _ => (TPS, "transactions a second"),
    }
}

/// One workload: bars by engine and durability, what they say, and the numbers.
pub(super) fn workload(view: View<'_>, workload: &str, quick: bool) -> Section {
    let places = view.places(workload);
    let engines = view.engines();
    let mut text = Vec::new();
    if let Some(row) = view.measured(TPS).find(|row| row.text("workload") == workload) {
        text.push(described(row));
    }
    if !quick {
        text.extend(places.iter().map(|place| sentence(view, workload, *place)));
    }
    let mut durabilities: Vec<&str> = Vec::new();
    for place in &places {
        if !durabilities.contains(&place.durability) {
            durabilities.push(place.durability);
        }
    }
    let figures = durabilities
        .into_iter()
        .map(|durability| Figure {
            caption: promise(durability).to_owned(),
            plot: Box::new(bars(view, workload, &places, durability, &engines)),
        })
        .collect();
    Section {
        heading: heading(workload),
        text,
        entries: Vec::new(),
        legend: engines
            .iter()
            .map(|engine| (colour(engine), (*engine).to_owned()))
            .collect(),
        figures,
        table: Some(table(view, &places, &engines, workload)),
    }
}

fn described(row: &Row) -> String {
    let count = |key: &str| number::short(row.number(key).unwrap_or(f64::NAN));
    let size = if row.text("workload").starts_with("ycsb") {
        format!("Records of 1000 bytes: {}", count("scale"))
    } else {
        format!("Warehouses: {}", count("scale"))
    };
    format!(
        "{size}. Latencies are those of {}.",
        row.text("transaction").replace('_', " ")
    )
}

/// `Commits wait ..., 2 workers: corun 12k New Orders a minute, 3x of sqlite (2.9 to 3.1), ...`.
fn sentence(view: View<'_>, workload: &str, place: Place<'_>) -> String {
    let (metric, name) = unit(workload);
    let Some(rate) = view.spread(place.case, CORUN, metric) else {
        return format!(
            "{}, {}: corun did not run.",
            promise(place.durability),
            workers_text(place.workers)
        );
    };
    let mut text = format!(
        "{}, {}: corun {} {name}",
        promise(place.durability),
        workers_text(place.workers),
        number::short(rate.median),
    );
    for engine in view.engines() {
        let Some(ratio) = view.ratio(place.case, engine) else {
            continue;
        };
        if let Some(spread) = ratio.spread {
            text.push_str(&format!(
                ", {}x of {engine} ({} to {}{})",
                number::short(spread.median),
                number::short(spread.min),
                number::short(spread.max),
                match ratio.text("verdict") {
                    "slower" => ", slower",
                    "undecided" => ", undecided",
                    _ => "",
                },
            ));
        }
    }
    if let Some((low, high)) = view.noise(place.case) {
        text.push_str(&format!(
            ". The same store against itself: {} to {}",
            number::short(low),
            number::short(high)
        ));
    }
    text.push('.');
    text
}

fn bars(view: View<'_>, workload: &str, places: &[Place<'_>], durability: &str, engines: &[&str]) -> BarPlot {
    let (metric, name) = unit(workload);
    let mut found = Vec::new();
    for engine in engines {
        for place in places.iter().filter(|place| place.durability == durability) {
            if let Some(spread) = view.spread(place.case, engine, metric) {
                let label = format!("{engine}, {}", workers_text(place.workers));
                found.push((label, colour(engine), spread));
            }
        }
    }
    // Bars print their values with two decimals, which is too wide for large ones.
    let most = found
        .iter()
        .fold(0.0, |most: f64, (.., spread)| most.max(spread.max));
    let (scale, word) = match most {
        most if most >= 1e7 => (1e-6, "million "),
        most if most >= 1e3 => (1e-3, "thousand "),
        _ => (1.0, ""),
    };
    BarPlot {
        label: format!("{workload}, {durability}: {name} by engine"),
        axis: format!("{word}{name}"),
        suffix: String::new(),
        base: 0.0,
        spacing: Spacing::Linear,
        rows: found
            .into_iter()
            .map(|(label, series, spread)| {
                let spread = spread.scaled(scale);
                BarRow {
                    label,
                    value: spread.median,
                    spread: Some((spread.min, spread.max)),
                    series,
                }
            })
            .collect(),
    }
}

fn table(view: View<'_>, places: &[Place<'_>], engines: &[&str], workload: &str) -> Table {
    let mut columns = vec![(TPS, "tx/s")];
    if workload == "tpcc" || workload == "no_delivery" {
        columns.push((NEW_ORDERS, "New Orders/min"));
    }
    columns.extend([
        ("p50_us", "p50 us"),
        ("p99_us", "p99 us"),
        ("retries", "retries/1000"),
    ]);
    let mut headings = vec!["commits".to_owned(), "workers".to_owned(), "engine".to_owned()];
    headings.extend(columns.iter().map(|(_, heading)| (*heading).to_owned()));
    headings.push("corun is".to_owned());
    let mut rows = Vec::new();
    for place in places {
        for engine in engines {
            let cell = |metric: &str| {
                let spread = view.spread(place.case, engine, metric);
                number::short(spread.map_or(f64::NAN, |spread| spread.median))
            };
            if view.spread(place.case, engine, TPS).is_none() {
                continue;
            }
            let mut cells = vec![
                place.durability.to_owned(),
                number::short(place.workers),
                (*engine).to_owned(),
            ];
            cells.extend(columns.iter().map(|(metric, _)| cell(metric)));
            let ratio = view.ratio(place.case, engine).and_then(Row::median);
            cells.push(ratio.map_or_else(String::new, |ratio| format!("{}x", number::short(ratio))));
            rows.push(cells);
        }
    }
    Table {
        numeric_columns: columns.len() + 1,
        headings,
        rows,
    }
}

/// Where our store did less than another engine, or nobody can say.
pub(super) fn losses(view: View<'_>) -> Option<Section> {
    view.ratios().next()?;
    let mut text = Vec::new();
    for row in view.ratios() {
        let Some(spread) = row.spread else { continue };
        let versus = row.versus.as_deref().unwrap_or_default();
        let numbers = format!(
            "{}x of {versus} ({} to {}, {} pairs)",
            number::short(spread.median),
            number::short(spread.min),
            number::short(spread.max),
            spread.n
        );
        match row.text("verdict") {
            "slower" => text.push(format!("{}: slower, {numbers}.", row.case)),
            "undecided" => text.push(format!("{}: too near to say, {numbers}.", row.case)),
            _ if spread.median < 1.0 => {
                text.push(format!("{}: less, but within the noise, {numbers}.", row.case));
            }
            _ => {}
        }
    }
    if text.is_empty() {
        text.push(format!(
            "In none of {} comparisons. A comparison that is not here was not made.",
            view.ratios().count()
        ));
    }
    Some(Section {
        heading: "Where corun is slower".to_owned(),
        text,
        ..Section::default()
    })
}

/// Memory and loading.
pub(super) fn memory(view: View<'_>) -> Option<Section> {
    let mut rows = Vec::new();
    for row in view.measured("load_rows_per_s") {
        let median = |metric: &str| {
            let spread = view.spread(&row.case, row.engine(), metric);
            number::short(spread.map_or(f64::NAN, |spread| spread.median))
        };
        rows.push(vec![
            row.case.clone(),
            row.engine().to_owned(),
            median(BYTES_PER_ROW),
            median(ENGINE_BYTES_PER_ROW),
            median(IDLE),
            number::short(row.median().unwrap_or(f64::NAN)),
        ]);
    }
    if rows.is_empty() {
        return None;
    }
    Some(Section {
        heading: "Memory, idling and loading".to_owned(),
        text: vec![
            "Bytes a row just after loading, by what the process has grown (for corun: what it has allocated) and by what the engine says \
             of its data; an engine with its data in files keeps part of them in memory only. Then the CPU time a side took while others ran, in \
             percent of a CPU. Loading is by one thread."
                .to_owned(),
        ],
        table: Some(Table {
            headings: ["case", "engine", "bytes/row", "it says", "idle CPU %", "rows/s loaded"]
                .map(str::to_owned)
                .to_vec(),
            numeric_columns: 4,
            rows,
        }),
        ..Section::default()
    })
}

/// How fast the log is read back.
pub(super) fn recovery(view: View<'_>) -> Option<Section> {
    let rows: Vec<Vec<String>> = view
        .measured(RECORDS_PER_S)
        .map(|row| {
            let milliseconds = view
                .measured("ms")
                .find(|other| other.case == row.case && other.number("workers") == row.number("workers"));
            vec![
                workers_text(row.number("workers").unwrap_or(f64::NAN)).replace("worker", "thread"),
                number::short(row.number("records").unwrap_or(f64::NAN)),
                number::milliseconds(milliseconds.and_then(Row::median).unwrap_or(f64::NAN)),
                number::short(row.median().unwrap_or(f64::NAN)),
            ]
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    Some(Section {
        heading: "Reading a log back".to_owned(),
        text: vec![
            "A TPC-C database and its transactions, all of it in the log, opened again with the files in the kernel's cache. The state \
             is compared with the one before."
                .to_owned(),
        ],
        table: Some(Table {
            headings: ["", "changes in the log", "time", "changes/s"].map(str::to_owned).to_vec(),
            numeric_columns: 3,
            rows,
        }),
        ..Section::default()
    })
}

/// Versions and settings.
pub(super) fn engines(view: View<'_>) -> Option<Section> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in view.measured(TPS) {
        let cells = vec![
            row.engine().to_owned(),
            row.text("version").to_owned(),
            row.text("durability").to_owned(),
            row.text("configuration").to_owned(),
        ];
        if !rows.contains(&cells) {
            rows.push(cells);
        }
    }
    if rows.is_empty() {
        return None;
    }
    rows.sort();
    Some(Section {
        heading: "The engines and their settings".to_owned(),
        table: Some(Table {
            headings: ["engine", "version", "durability", "settings"]
                .map(str::to_owned)
                .to_vec(),
            numeric_columns: 0,
            rows,
        }),
        ..Section::default()
    })
}

/// What could not be run, and why.
pub(super) fn missing(view: View<'_>) -> Option<Section> {
    let mut text: Vec<String> = Vec::new();
    for row in view.0.iter().filter(|row| row.label == Label::Unavailable) {
        let sentence = format!("{}: {}.", row.engine(), row.text("reason"));
        if !text.contains(&sentence) {
            text.push(sentence);
        }
    }
    if text.is_empty() {
        return None;
    }
    Some(Section {
        heading: "Not run".to_owned(),
        text,
        ..Section::default()
    })
}
