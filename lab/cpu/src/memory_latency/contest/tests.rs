//! An auto is judged against the best mode of its threads.

use std::time::Duration;

use corun_model::operators::mode::{Hiding, Schedule, Threads};
use corun_model::operators::placement::Placement;

use super::super::keys::Stand;
use super::*;
use corun_model::progress::Silent;
use lab_core::run::{Plan, Sample};

const STAND: Stand = Stand {
    figure: "6a",
    case: "fig6a_index",
    operator: "index",
    layout: "csb_tree",
    stream: "unclustered",
};

const GROUP: Mode = Mode::staged(
    Threads::One,
    Hiding::Prefetch {
        schedule: Schedule::Group,
        distance: 32,
    },
);
const BOTH: Mode = Mode::staged(Threads::BiThreaded(2), GROUP.hiding);

fn entrant(mode: Mode, standing: Standing, millis: u64, answer: &'static str) -> Entrant<'static> {
    Entrant {
        keys: Keys::of(STAND, mode, Placement::Cores),
        standing,
        extra: Vec::new(),
        side: Side::new(&mode.to_string(), move || {
            Ok(Sample {
                elapsed: Duration::from_millis(millis),
                answer: answer.to_string(),
                peak_bytes: None,
            })
        }),
    }
}

fn held(plan: Plan, entrants: Vec<Entrant<'_>>) -> (Vec<Row>, Vec<String>) {
    let mut rows = Vec::new();
    let mut emit = |row| rows.push(row);
    let mut runner = Runner::new(plan, &mut emit, &Silent);
    hold(entrants, 1_000_000, &mut runner);
    let failures = runner.finish().failures;
    (rows, failures)
}

fn entrants(auto_millis: u64) -> Vec<Entrant<'static>> {
    let fixed = |threads| Standing::Fixed { threads };
    let mut auto = entrant(GROUP, Standing::Auto { threads: 1 }, auto_millis, RIGHT);
    auto.keys = auto.keys.named("auto");
    vec![
        entrant(Mode::PLAIN, fixed(1), 80, RIGHT),
        entrant(GROUP, fixed(1), 40, RIGHT),
        entrant(BOTH, fixed(2), 20, RIGHT),
        auto,
    ]
}

fn find<'r>(rows: &'r [Row], metric: &str, mode: &str, versus: &str) -> &'r Row {
    rows.iter()
        .find(|row| {
            row.metric == metric && row.text("mode") == mode && row.versus.as_deref().unwrap_or("") == versus
        })
        .unwrap_or_else(|| panic!("no {metric} of {mode} versus {versus}"))
}

#[test]
fn an_auto_is_judged_against_the_best_of_its_threads_over_thirty_pairs() {
    let (rows, failures) = held(Plan::standard(), entrants(40));
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(find(&rows, METRIC, "one/plain", "").median(), Some(80.0));
    assert_eq!(
        find(&rows, "ratio", "bi2/staged/group32", "serial").median(),
        Some(4.0)
    );
    let versus = find(&rows, "ratio", "auto", "best");
    assert_eq!(versus.text("best_mode"), "one/staged/group32");
    assert_eq!(
        (versus.text("verdict"), versus.spread.map(|spread| spread.n)),
        ("not_slower", Some(30))
    );
    let winner = rows
        .iter()
        .find(|row| row.metric == "winner")
        .expect("one winner");
    let values = ["mode", "auto1", "best1", "auto1_verdict"].map(|key| winner.text(key));
    assert_eq!(
        values,
        [
            "bi2/staged/group32",
            "one/staged/group32",
            "one/staged/group32",
            "not_slower"
        ]
    );
}

#[test]
fn a_bad_choice_is_told_without_further_rounds() {
    let (rows, _) = held(Plan::standard(), entrants(60));
    let versus = find(&rows, "ratio", "auto", "best");
    assert_eq!(
        (versus.text("verdict"), versus.spread.map(|spread| spread.n)),
        ("slower", Some(5))
    );
}

#[test]
fn quick_rounds_claim_nothing_and_wrong_answers_fail() {
    let mut sides = entrants(40);
    sides.push(entrant(BOTH, Standing::Aside, 1, "3 rows"));
    let (rows, failures) = held(Plan::quick(), sides);
    assert_eq!(failures.len(), 1);
    assert!(failures[0].contains("got 3 rows"), "{failures:?}");
    assert_eq!(find(&rows, "ratio", "auto", "best").parameter("verdict"), None);
    let winner = rows
        .iter()
        .find(|row| row.metric == "winner")
        .expect("one winner");
    assert_eq!(winner.median(), Some(4.0), "an experiment on the side cannot win");
}
