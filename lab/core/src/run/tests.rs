//! Comparisons: who runs, in which order, and which rows there are.

use std::cell::RefCell;

use super::*;
use corun_model::progress::Silent;

fn side<'a>(
    name: &'static str,
    millis: u64,
    answer: &'static str,
    log: &'a RefCell<Vec<&'static str>>,
) -> Side<'a> {
    Side::new(name, move || {
        log.borrow_mut().push(name);
        Ok(Sample {
            elapsed: Duration::from_millis(millis),
            answer: answer.to_string(),
            peak_bytes: Some(7),
        })
    })
}

fn comparison<'a>(sides: Vec<Side<'a>>) -> Comparison<'a> {
    Comparison {
        suite: "join",
        case: "c",
        parameters: vec![("threads".to_string(), Value::Integer(2))],
        metric: "ms",
        unit: "ms",
        units_per_second: 1e3,
        subject: "corun",
        baseline: "datafusion",
        expected: "42".to_string(),
        sides,
    }
}

fn run(plan: Plan, sides: Vec<Side<'_>>) -> (Vec<Row>, Outcome) {
    let mut rows = Vec::new();
    let mut emit = |row| rows.push(row);
    let mut runner = Runner::new(plan, &mut emit, &Silent);
    runner.compare(comparison(sides));
    let outcome = runner.finish();
    (rows, outcome)
}

fn ratio<'a>(rows: &'a [Row], engine: &str, versus: &str) -> &'a Row {
    rows.iter()
        .find(|row| row.metric == "ratio" && row.engine() == engine && row.versus.as_deref() == Some(versus))
        .expect("the ratio row")
}

#[test]
fn every_side_runs_in_every_round_and_the_baseline_twice() {
    let log = RefCell::new(Vec::new());
    let sides = vec![
        side("corun", 10, "42", &log),
        side("datafusion", 30, "42", &log),
        side("duckdb", 20, "42", &log),
    ];
    let (rows, outcome) = run(
        Plan {
            warmups: 1,
            repetitions: 5,
            pairs_max: 30,
            order_seed: 1,
        },
        sides,
    );
    assert!(outcome.is_ok());
    assert_eq!(outcome.rows, rows.len());
    let count = |name| log.borrow().iter().filter(|run| **run == name).count();
    assert_eq!((count("corun"), count("datafusion"), count("duckdb")), (6, 11, 6));
    assert_eq!(ratio(&rows, "corun", "datafusion").median(), Some(3.0));
    assert_eq!(ratio(&rows, "corun", "duckdb").median(), Some(2.0));
    let control = ratio(&rows, "datafusion", "datafusion");
    assert_eq!(control.median(), Some(1.0));
    assert_eq!(control.parameter("control"), Some(&Value::from("a/a")));
    assert_eq!(rows.iter().filter(|row| row.metric == "peak_bytes").count(), 3);
    assert!(
        rows.iter()
            .all(|row| row.parameter("threads") == Some(&Value::Integer(2)))
    );
}

#[test]
fn each_round_has_an_order_of_its_own_and_a_seed_repeats_it() {
    let orders = |order_seed| {
        let log = RefCell::new(Vec::new());
        let sides = vec![side("corun", 10, "42", &log), side("datafusion", 30, "42", &log)];
        run(
            Plan {
                warmups: 0,
                repetitions: 12,
                pairs_max: 12,
                order_seed,
            },
            sides,
        );
        log.into_inner()
    };
    assert_eq!(orders(3), orders(3));
    let places: std::collections::BTreeSet<usize> = orders(3)
        .chunks(3)
        .filter_map(|round| round.iter().position(|name| *name == "corun"))
        .collect();
    assert_eq!(places.len(), 3, "corun runs first, second and third");
}

#[test]
fn near_one_gets_thirty_pairs_of_the_two_sides_only() {
    let log = RefCell::new(Vec::new());
    let sides = vec![
        side("corun", 10, "42", &log),
        side("datafusion", 10, "42", &log),
        side("duckdb", 20, "42", &log),
    ];
    let (rows, _) = run(Plan::standard(), sides);
    let row = ratio(&rows, "corun", "datafusion");
    assert_eq!(row.spread.map(|spread| spread.n), Some(30));
    assert_eq!(row.parameter("verdict"), Some(&Value::from("not_slower")));
    assert_eq!(
        ratio(&rows, "corun", "duckdb").spread.map(|spread| spread.n),
        Some(5)
    );
}

#[test]
fn quick_makes_no_claim() {
    let log = RefCell::new(Vec::new());
    let sides = vec![side("corun", 10, "42", &log), side("datafusion", 10, "42", &log)];
    let (rows, _) = run(Plan::quick(), sides);
    let row = ratio(&rows, "corun", "datafusion");
    assert_eq!(row.spread.map(|spread| spread.n), Some(2));
    assert_eq!(row.parameter("verdict"), None);
}

#[test]
fn a_wrong_answer_fails_the_run_and_its_rows_say_so() {
    let log = RefCell::new(Vec::new());
    let sides = vec![side("corun", 10, "41", &log), side("datafusion", 30, "42", &log)];
    let (rows, outcome) = run(Plan::quick(), sides);
    assert!(!outcome.is_ok());
    assert!(
        outcome.failures[0].contains("expected 42, got 41"),
        "{:?}",
        outcome.failures
    );
    assert_eq!(ratio(&rows, "corun", "datafusion").answer_ok, Some(false));
    assert_eq!(ratio(&rows, "datafusion", "datafusion").answer_ok, Some(true));
}

#[test]
fn a_failing_peer_is_left_out_but_a_failing_engine_fails_the_run() {
    let log = RefCell::new(Vec::new());
    let broken = |name| {
        Side::new(name, || {
            Err(BenchError::Peer {
                peer: "duckdb",
                reason: "gone".to_string(),
            })
        })
    };
    let sides = vec![
        side("corun", 10, "42", &log),
        side("datafusion", 30, "42", &log),
        broken("duckdb").optional(),
    ];
    let (rows, outcome) = run(Plan::quick(), sides);
    assert!(outcome.is_ok());
    let row = rows
        .iter()
        .find(|row| row.engine() == "duckdb")
        .expect("a row for duckdb");
    assert_eq!(row.label, crate::row::Label::Unavailable);

    let (_, outcome) = run(
        Plan::quick(),
        vec![broken("corun"), side("datafusion", 30, "42", &log)],
    );
    assert_eq!(outcome.failures.len(), 1);
}

#[test]
fn arguments_make_the_plan() {
    assert_eq!(Plan::from_arguments(false, None), Plan::standard());
    assert_eq!(
        Plan::from_arguments(true, Some(3)),
        Plan {
            warmups: 0,
            repetitions: 3,
            pairs_max: 3,
            ..Plan::quick()
        }
    );
    assert_eq!(Plan::from_arguments(false, Some(50)).pairs_max, 50);
    assert_eq!(Plan::from_arguments(false, Some(0)).repetitions, 1);
}
