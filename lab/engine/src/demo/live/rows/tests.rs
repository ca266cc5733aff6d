//! The rows of the live part, and what the page has of them, from made-up numbers.

use std::sync::Arc;
use std::time::Duration;

use corun_workloads::driver::{KindOutcome, Outcome};
use lab_core::figures;
use lab_core::row::Row;

use super::*;
use crate::demo::drive::{ClientRun, Execution};
use crate::demo::live::drive::Turn;
use crate::demo::live::statements::statements;
use crate::demo::live::{Closing, LiveOptions};

fn outcome(new_orders: u64, us: u64) -> Outcome {
    let mut latencies = Histogram::default();
    for _ in 0..new_orders {
        latencies.add(Duration::from_micros(us));
    }
    Outcome {
        engine: "corun".to_owned(),
        workload: "tpcc standard".to_owned(),
        clients: 10,
        workers: 2,
        wall_s: 1.0,
        tps: new_orders as f64 * 2.0,
        new_orders_per_min: new_orders as f64 * 60.0,
        kinds: vec![KindOutcome {
            kind: NEW_ORDER,
            committed: new_orders,
            rolled_back: 0,
            retried: 3,
            p50_us: us as f64,
            p95_us: us as f64,
            p99_us: us as f64,
            max_us: us as f64,
            latencies,
        }],
        teams: None,
    }
}

/// Three rounds: 100 New Orders a second alone, 150 in teams, 80 beside two clients of stock that take 50 ms a query, 90 beside corun's
/// that take 25 ms.
pub(in crate::demo) fn result() -> LiveResult {
    let analysts = |milliseconds: f64| {
        let count = (1000.0 / milliseconds) as usize;
        let executions = vec![
            Execution {
                statement: 0,
                milliseconds
            };
            count
        ];
        let analyst = ClientRun {
            class: Class::Analytic,
            seconds: 1.0,
            executions,
            wrong: Vec::new(),
        };
        vec![analyst.clone(), analyst]
    };
    let mut turns = Vec::new();
    for round in 0..3 {
        for (side, outcome, clients) in [
            (Side::Alone, outcome(100, 200), Vec::new()),
            (Side::Teams, outcome(150, 100), Vec::new()),
            (Side::Stock, outcome(80, 400), analysts(50.0)),
            (Side::Corun, outcome(90, 300), analysts(25.0)),
        ] {
            turns.push(Turn {
                side,
                round,
                clients,
                more: Transactions {
                    outcome,
                    violations: Vec::new(),
                },
            });
        }
    }
    LiveResult {
        options: LiveOptions {
            warehouses: 2,
            divisor: 1,
            seconds: 1.0,
            warmup_seconds: 0.1,
            rounds: 3,
            terminals: 10,
            workers: 2,
            clients: 2,
            partitions: 2,
            seed: 1,
        },
        statements: Arc::new(statements(3000)),
        rows: 1_098_000,
        turns,
        closing: Closing {
            answers: 16,
            wrong: Vec::new(),
        },
    }
}

/// The median of the one row of a case, a metric, an engine, teams, and what it is held against.
fn median(part: &Part, case: &str, metric: &str, side: Side, versus: Option<&str>) -> Option<f64> {
    let is_meant = |row: &&Row| {
        (row.case.as_str(), row.metric.as_str(), row.engine()) == (case, metric, side.engine())
            && row.versus.as_deref() == versus
            && (case != TRANSACTIONS || row.text("teams") == side.teams().as_str())
    };
    let found: Vec<&Row> = part.rows.iter().filter(is_meant).collect();
    assert!(found.len() < 2, "{found:?}");
    found.first()?.median()
}

#[test]
fn transactions_are_compared_within_a_round() {
    let part = rows(&result());
    let of = |metric, side, versus| median(&part, TRANSACTIONS, metric, side, versus);
    let (alone, teams, stock, corun) = (Side::Alone, Side::Teams, Side::Stock, Side::Corun);
    assert_eq!(of("new_orders_per_min", alone, None), Some(6000.0));
    assert_eq!(of("tps", alone, None), Some(200.0));
    assert_eq!(of("tps", stock, None), Some(160.0));
    assert_eq!(of("ratio", teams, Some("teams off")), Some(1.5));
    assert_eq!(of("ratio", teams, Some("datafusion")), None);
    assert_eq!(of("ratio", stock, Some("none")), Some(0.8));
    assert_eq!(of("ratio", corun, Some("none")), Some(0.9));
    assert_eq!(of("ratio", corun, Some("datafusion")), Some(1.125));
    assert_eq!(of("ratio", alone, Some("none")), Some(1.0), "a control");
    assert_eq!(of("ratio", stock, Some("datafusion")), Some(1.0), "a control");
    assert_eq!(of("retries", stock, None), Some(3.0));
    assert_eq!(of("retries", corun, None), Some(3.0));
    let latency = part
        .rows
        .iter()
        .find(|row| row.metric == "p50_us" && row.engine() == "datafusion");
    let latency = latency.and_then(|row| row.spread).expect("ran");
    assert_eq!(latency.n, 240);
    assert!((400.0..=407.0).contains(&latency.median), "{latency:?}");
    assert_eq!(of("p50_us", stock, None), of("p99_us", stock, None));
}

#[test]
fn analytic_clients_are_compared_within_a_round() {
    let part = rows(&result());
    let of = |case, metric, side, versus| median(&part, case, metric, side, versus);
    let (stock, corun) = (Side::Stock, Side::Corun);
    assert_eq!(of(ANALYTIC, "queries_per_s", stock, None), Some(40.0));
    assert_eq!(of(ANALYTIC, "queries_per_s", corun, None), Some(80.0));
    assert_eq!(of(ANALYTIC, "queries_per_s", Side::Alone, None), None);
    assert_eq!(of(ANALYTIC, "p95_ms", stock, None), Some(50.0));
    assert_eq!(of(ANALYTIC, "ratio", corun, Some("datafusion")), Some(2.0));
    assert_eq!(
        of(ANALYTIC, "ratio", corun, Some("corun")),
        Some(1.0),
        "a control"
    );
    assert_eq!(of("live_order_lines", "ms", corun, None), Some(25.0));
    assert_eq!(
        of("live_order_lines", "ratio", corun, Some("datafusion")),
        Some(2.0)
    );
    assert_eq!(of("live_payments", "ms", corun, None), None, "never ran");
    assert_eq!((part.answers, part.wrong.len()), (3 * 40 + 3 * 80 + 16, 0));
    let is_right = |row: &Row| row.answer_ok == Some(true) && row.suite == "demo";
    assert!(part.rows.iter().all(is_right));
}

#[test]
fn one_round_has_no_control() {
    let mut result = result();
    result.turns.truncate(Side::ALL.len());
    let part = rows(&result);
    for side in [Side::Alone, Side::Stock, Side::Corun] {
        assert_eq!(median(&part, ANALYTIC, "ratio", side, Some(side.engine())), None);
        let itself = median(&part, TRANSACTIONS, "ratio", side, Some(side.engine()));
        assert_eq!(itself, None);
    }
}

/// The page's HTML.
fn page(result: &LiveResult) -> String {
    let rows: Vec<Row> = rows(result).figure_rows().collect();
    figures::page("demo", &rows, &[], false).expect("a page").render()
}

#[test]
fn tables_show_ratios_with_their_spread_and_the_control() {
    let html = page(&result());
    let line = |cells: &[&str]| {
        let cells: Vec<String> = cells
            .iter()
            .map(|cell| format!("<td class=\"number\">{cell}</td>"))
            .collect();
        cells.concat()
    };
    let has = |name: &str, cells: &[&str]| {
        let lines = html
            .split("<tr>")
            .filter(|line| line.starts_with(&format!("<td>{name}</td>")));
        let found = lines.filter(|found| cells.is_empty() || found.contains(&line(cells)));
        assert!(found.count() > 0, "{name} {cells:?}: {html}");
    };
    has("nobody", &["6000", "200"]);
    has("nobody", &["itself 1.00..1.00", "-"]);
    has("nobody, teams", &["1.50x 1.50..1.50", "-"]);
    has("stock", &["0.80x 0.80..0.80", "itself 1.00..1.00"]);
    has("corun", &["0.90x 0.90..0.90", "1.12x 1.12..1.12"]);
    has("stock", &["40", "50 ms", "50 ms", "itself 1.00..1.00"]);
    has("corun", &["80", "25 ms", "25 ms", "2.00x 2.00..2.00"]);
}

#[test]
fn the_lead_names_sizes_and_clients() {
    let mut result = result();
    assert!(
        page(&result)
            .contains("TPC-C with 2 warehouses (1.1M rows) in a store in memory, 10 terminals on 2 CPUs")
    );
    result.options.divisor = 100;
    result.options.warehouses = 1;
    assert!(page(&result).contains("TPC-C with 1 warehouse, their contents divided by 100 (1.1M rows)"));
}

#[test]
fn whatever_is_wrong_is_kept_and_has_a_card_with_its_texts() {
    let mut result = result();
    result.turns[2].clients[0]
        .wrong
        .push("next_order: a row".to_owned());
    result.turns[3].more.violations.push("a condition".to_owned());
    result.closing.wrong.push("a closing answer".to_owned());
    assert_eq!(
        rows(&result).wrong,
        ["next_order: a row", "a closing answer", "a condition"]
    );
    let html = page(&result);
    for text in ["<p>next_order: a row</p>", "<p>a condition</p>", "<b>3 wrong</b>"] {
        assert!(html.contains(text), "{text}");
    }
}
