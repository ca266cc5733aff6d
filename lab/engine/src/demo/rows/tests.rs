//! The rows of the analytic part, and the page and the summary of them, from made-up numbers.

use std::sync::Arc;

use corun_workloads::ssb::Sizes;
use lab_core::figures;
use lab_core::report::text;
use lab_core::row::Row;

use super::*;
use crate::demo::drive::{ClientRun, Execution, Turn};
use crate::demo::mix::Mix;
use crate::demo::{DemoOptions, live};

/// Three rounds in which stock takes 20 ms an analytic statement, corun 10 ms, with a coordinator 8 (`fifo`) and 5 ms
/// (`learned`), and all 1 ms a short one.
pub(in crate::demo) fn result() -> DemoResult {
    let mix = Arc::new(Mix::new(1, &Sizes::at(0.01).expect("valid")));
    let run = |class: Class, milliseconds: f64| {
        let execution = Execution {
            statement: mix.of_class(class)[0],
            milliseconds,
        };
        ClientRun {
            class,
            seconds: 1.0,
            executions: vec![execution; (1000.0 / milliseconds) as usize],
            wrong: Vec::new(),
        }
    };
    let mut turns = Vec::new();
    for round in 0..3 {
        for (side, milliseconds, peak_bytes) in [
            (Side::Stock, 20.0, 4 << 20),
            (Side::Corun, 10.0, 3 << 20),
            (Side::Policy(PolicyName::Fifo), 8.0, 3 << 20),
            (Side::Policy(PolicyName::Learned), 5.0, 3 << 20),
        ] {
            turns.push(Turn {
                side,
                round,
                clients: vec![run(Class::Analytic, milliseconds), run(Class::Short, 1.0)],
                more: Memory { peak_bytes },
            });
        }
    }
    let options = DemoOptions {
        scale: 0.01,
        seconds: 1.0,
        rounds: 3,
        clients: 1,
        short_clients: 1,
        seed: 1,
        partitions: 2,
        policies: vec![PolicyName::Fifo, PolicyName::Learned],
    };
    DemoResult {
        options,
        mix,
        data_rows: 60_000,
        data_bytes: 4 << 20,
        turns,
    }
}

/// The spread of the one row of a case, a metric, an engine, a policy, and what it is held against.
fn spread(part: &Part, case: &str, metric: &str, side: Side, versus: Option<&str>) -> Option<Spread> {
    let is_meant = |row: &&Row| {
        (row.case.as_str(), row.metric.as_str()) == (case, metric)
            && (row.engine(), row.text("policy")) == (side.engine(), side.policy().as_str())
            && row.versus.as_deref() == versus
    };
    let found: Vec<&Row> = part.rows.iter().filter(is_meant).collect();
    assert!(found.len() < 2, "{found:?}");
    found.first()?.spread
}

fn of_rounds(n: usize, value: f64) -> Option<Spread> {
    Some(of_many(value, n))
}

fn of_many(value: f64, n: usize) -> Spread {
    crate::demo::part::of_many(value, n)
}

#[test]
fn rates_ratios_latencies_and_memory_become_rows() {
    let part = rows(&result());
    let of = |case, metric, side, versus| spread(&part, case, metric, side, versus);
    let (stock, corun) = (Side::Stock, Side::Corun);
    let (fifo, learned) = (Side::Policy(PolicyName::Fifo), Side::Policy(PolicyName::Learned));
    let datafusion = Some("datafusion");
    assert_eq!(of("analytic", "queries_per_s", stock, None), of_rounds(3, 50.0));
    assert_eq!(of("analytic", "queries_per_s", corun, None), of_rounds(3, 100.0));
    assert_eq!(of("analytic", "ratio", corun, datafusion), of_rounds(3, 2.0));
    assert_eq!(of("analytic", "ratio", corun, Some("fifo")), None);
    assert_eq!(of("analytic", "ratio", learned, datafusion), of_rounds(3, 4.0));
    assert_eq!(of("analytic", "ratio", learned, Some("fifo")), of_rounds(3, 1.6));
    assert_eq!(of("analytic", "ratio", fifo, Some("fifo")), None);
    assert_eq!(
        of("analytic", "ratio", stock, datafusion),
        of_rounds(2, 1.0),
        "the control"
    );
    assert_eq!(of("analytic", "p95_ms", stock, None), of_rounds(150, 20.0));
    assert_eq!(of("short", "ratio", corun, datafusion), of_rounds(3, 1.0));
    assert_eq!(of("short", "p95_ms", corun, None), of_rounds(3000, 1.0));
    assert_eq!(of("q1.1", "ms", stock, None), of_rounds(1, 20.0));
    assert_eq!(of("q1.1", "ratio", corun, datafusion), of_rounds(3, 2.0));
    assert_eq!(of("q1.2", "ms", stock, None), None, "never ran");
    assert_eq!(of("q1.2", "ratio", corun, datafusion), None, "never ran");
    assert_eq!(
        of("all", "peak_bytes", stock, None),
        of_rounds(3, f64::from(4 << 20))
    );
    assert_eq!(
        of("all", "peak_bytes", corun, None),
        of_rounds(3, f64::from(3 << 20))
    );
    assert_eq!(part.answers, 3 * (50 + 100 + 125 + 200 + 4 * 1000));
    let mean = part.shown.iter().find(|row| row.metric == "geomean");
    assert_eq!(mean.and_then(Row::median), Some(2.0), "over the queries that ran");
    let is_right = |row: &Row| row.answer_ok == Some(true) && row.suite == "demo";
    assert!(part.rows.iter().all(is_right) && part.wrong.is_empty());
}

#[test]
fn one_round_has_no_control() {
    let mut result = result();
    result.turns.truncate(4);
    let part = rows(&result);
    assert_eq!(
        spread(&part, "analytic", "ratio", Side::Stock, Some("datafusion")),
        None
    );
}

/// The page of these parts.
fn page(parts: &[&Part]) -> String {
    let rows: Vec<Row> = parts.iter().flat_map(|part| part.figure_rows()).collect();
    let facts = [("processor".to_owned(), "a <test>".to_owned())];
    let page = figures::page("demo", &rows, &facts, false).expect("a page");
    page.render()
}

#[test]
fn the_page_names_the_ratio_the_control_and_the_machine() {
    let html = page(&[&rows(&result())]);
    for text in [
        "<b>2.00x</b>",
        "rounds 2.00..2.00; stock against itself 1.00..1.00",
        "a &lt;test&gt;",
        "all right",
        "prefers-color-scheme",
        "Star Schema Benchmark at scale 0.01 (60k rows, 4.0 MiB in memory), 1 analytic and 1 short clients",
        "corun learned",
        "Policies of the coordinator",
        "same_order",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("NaN"), "missing numbers are written as a dash");
}

#[test]
fn wrong_answers_are_counted_and_on_the_page() {
    let mut result = result();
    result.turns[0].clients[0].wrong.push("q1.1".to_owned());
    let part = rows(&result);
    assert_eq!(part.wrong, ["q1.1"]);
    assert!(part.rows.iter().all(|row| row.answer_ok == Some(false)));
    let html = page(&[&part]);
    assert!(html.contains("1 wrong") && !html.contains("all right"));
}

#[test]
fn a_query_below_1_says_why_as_far_as_that_is_known() {
    let loss = |milliseconds: [f64; 3], joins: usize| {
        let mut result = result();
        Arc::make_mut(&mut result.mix)
            .corun_joins
            .insert("q1.1".to_owned(), joins);
        for turn in result.turns.iter_mut().filter(|turn| turn.side == Side::Corun) {
            for execution in &mut turn.clients[0].executions {
                execution.milliseconds = milliseconds[turn.round];
            }
        }
        page(&[&rows(&result)])
    };
    assert!(!loss([10.0; 3], 0).contains("q1.1, "));
    let undecided = loss([18.0, 22.0, 25.0], 0);
    assert!(
        undecided.contains("q1.1, 0.91x (0.80 to 1.11): undecided"),
        "{undecided}"
    );
    assert!(loss([21.0, 22.0, 25.0], 0).contains("q1.1, 0.91x (0.80 to 0.95): its plan is the same"));
    assert!(
        loss([21.0, 22.0, 25.0], 1)
            .contains("slower in every round, with one of corun&#39;s joins in its plan.")
    );
    assert!(
        loss([21.0, 22.0, 25.0], 2)
            .contains("slower in every round, with 2 of corun&#39;s joins in its plan.")
    );
}

#[test]
fn each_part_alone_and_both_together_make_a_page() {
    let (analytic, live) = (rows(&result()), live::rows::rows(&live::rows::tests::result()));
    let both = page(&[&analytic, &live]);
    for (text, of_live) in [
        ("Star Schema Benchmark at scale", false),
        ("Peak memory", false),
        ("TPC-C with 2 warehouses", true),
        ("Live data: transactions", true),
    ] {
        assert!(both.contains(text), "{text}");
        assert_eq!(page(&[&analytic]).contains(text), !of_live, "{text}");
        assert_eq!(page(&[&live]).contains(text), of_live, "{text}");
    }
    assert!(!both.contains("NaN"));
}

#[test]
fn the_summary_fits_a_terminal() {
    let (analytic, live) = (rows(&result()), live::rows::rows(&live::rows::tests::result()));
    let rows: Vec<Row> = analytic.figure_rows().chain(live.figure_rows()).collect();
    let page = figures::page("demo-terminal", &rows, &[], false).expect("a page");
    let text = text::page(&page, 80);
    for words in [
        "corun learned",
        "4.00x",
        "itself",
        "analytic queries, geometric mean of speed-ups: 2.00x (measured, median of 3 rounds each)",
        "best q1.1 2.00x",
        "worst ",
        "peak memory above the data (median turn): stock 4.0 MiB; corun 3.0 MiB;",
        "answers checked: 13425, all right",
        "nobody, teams",
        "live: TPC-C with 2 warehouses",
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let all: Vec<&str> = text.split_whitespace().collect();
        assert!(
            all.windows(words.len()).any(|found| found == words),
            "{words:?}: {text}"
        );
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
