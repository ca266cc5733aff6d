//! The card of the `teams` cases: clients of one store on threads and in teams.

use crate::transactions::TPS;
use corun_cli::number;
use lab_core::metric::RATIO;
use lab_core::report::page::{Section, Table};
use lab_core::row::{Label, Row};

/// Whether a row is of a `teams` case.
pub(super) fn is_of_teams(row: &Row) -> bool {
    row.case.starts_with("teams_")
}

/// A row for each way in which clients of a case shared the CPU; nothing if no such case was run.
pub(super) fn section(rows: &[Row], quick: bool) -> Option<Section> {
    let measured = |row: &&Row| row.label == Label::Measured;
    let ways: Vec<&Row> = rows
        .iter()
        .filter(measured)
        .filter(|row| row.metric == TPS && row.versus.is_none())
        .collect();
    if ways.is_empty() {
        return None;
    }
    let of = |way: &Row, metric: &str, versus: Option<&str>, operation: &str| {
        let found = rows.iter().filter(measured).find(|row| {
            row.case == way.case
                && row.text("teams") == way.text("teams")
                && row.metric == metric
                && row.versus.as_deref() == versus
                && row.text("operation") == operation
        });
        found
            .and_then(Row::median)
            .map_or_else(String::new, number::short)
    };
    let cells = |way: &&Row| {
        let versus = |other: &str| match quick {
            true => String::new(),
            false => of(way, RATIO, Some(other), ""),
        };
        vec![
            way.case.clone(),
            way.text("teams").to_owned(),
            number::short(way.number("clients").unwrap_or(f64::NAN)),
            of(way, TPS, None, ""),
            of(way, "p50_us", None, ""),
            of(way, "p99_us", None, ""),
            versus("one"),
            versus("off"),
            versus("serial"),
            of(way, "members_in", None, "all"),
            of(way, "members_out", None, "all"),
            of(way, "stray_percent", None, "all"),
        ]
    };
    let headings = [
        "case",
        "clients share the CPU",
        "clients",
        "tx/s",
        "p50 us",
        "p99 us",
        "x of one",
        "x of off",
        "x of serial",
        "in",
        "out",
        "stray %",
    ];
    Some(Section {
        heading: "Clients in teams".to_owned(),
        text: vec![
            "The same clients, data and CPU: a thread for each client (off), user-level threads that run a slice of time each (serial), \
             in teams that switch where they would wait for memory (on), in teams only while that is measured to be faster (auto); and \
             one client alone (one, one_auto). In and out: members of an average team when an operation began, and when it ended, \
             without those that went astray."
                .to_owned(),
        ],
        entries: Vec::new(),
        legend: Vec::new(),
        figures: Vec::new(),
        table: Some(Table {
            numeric_columns: headings.len() - 2,
            headings: headings.map(str::to_owned).to_vec(),
            rows: ways.iter().map(cells).collect(),
        }),
    })
}
