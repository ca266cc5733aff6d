//! The suite `memory-latency` on tiny data: every case runs in every mode, answers are the oracle's, and rows have the keys that scripts rely on.

use std::collections::BTreeSet;

use corun_model::progress::Silent;
use lab_core::figures;
use lab_core::report::page::Page;
use lab_core::row::{Label, Row, Value};
use lab_core::run::Outcome;
use lab_core::suite::{Common, Suite, run};

use corun_model::operators::placement::{Placement, place};
use lab_cpu::suites::memory_latency::MemoryLatencyArgs;

use crate::words;

/// Runs the suite quickly; `None` on a machine where this process has one CPU, which has no place for a second thread.
fn quick(case: Option<&str>) -> Option<(Vec<Row>, Outcome)> {
    if place(&corun_topology::discover(), Placement::Auto).is_err() {
        return None;
    }
    let args = MemoryLatencyArgs {
        common: Common::quick(case),
        ..MemoryLatencyArgs::default()
    };
    let mut rows = Vec::new();
    let outcome = run(&args, &mut |row| rows.push(row), &Silent).expect("the suite runs");
    Some((rows, outcome))
}

fn text<'r>(row: &'r Row, key: &str) -> &'r str {
    match row.parameter(key) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

const FIGURES: &str = "4a 4b 4c 5 6a 6b 7a 7b 8 9 10 11a 11b 12 13 14a 14b 15 table2 direct \
    skips_duplicates tables trees";

#[test]
fn every_figure_has_rows_with_the_stable_keys_and_right_answers() {
    let Some((rows, outcome)) = quick(None) else {
        return;
    };
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    assert_eq!(outcome.rows, rows.len());
    let figures: BTreeSet<&str> = rows.iter().map(|row| text(row, "figure")).collect();
    assert_eq!(figures, words(FIGURES).into_iter().collect());
    let metrics = words("ns_per_probe ratio winner misses_per_probe machine_clears_per_probe net_speed");
    let stable = "figure operator layout stream threads staging prefetch mode placement thread_role";
    for row in &rows {
        assert!(metrics.contains(&row.metric.as_str()), "{}", row.to_json());
        assert!(
            stable.split(' ').all(|key| !text(row, key).is_empty()),
            "{}",
            row.to_json()
        );
        let has_set = text(row, "mode").contains("workahead") || text(row, "chosen").contains("workahead");
        assert_eq!(row.parameter("entries").is_some(), has_set, "{}", row.to_json());
        assert_eq!(row.median().is_none(), row.label == Label::Unavailable);
        assert_ne!(row.answer_ok, Some(false), "{}", row.to_json());
        assert_eq!(row.parameter("verdict"), None, "a quick run claims nothing");
    }
    autos_and_winners(&rows);
    misses(&rows);
    report(&rows);
}

/// Every contest has both autos, an A/A control and, but for the appendix's experiments, one winner.
fn autos_and_winners(rows: &[Row]) {
    let timed: BTreeSet<&str> = rows
        .iter()
        .filter(|row| row.metric == "ns_per_probe")
        .map(|row| row.case.as_str())
        .collect();
    assert_eq!(timed.len(), 15, "{timed:?}");
    for case in timed {
        let count = |wanted: &dyn Fn(&&Row) -> bool| {
            rows.iter().filter(|row| row.case == case).filter(wanted).count()
        };
        assert_eq!(count(&|row| row.parameter("control").is_some()), 1, "{case}");
        let experiment = case.starts_with("direct") || case.starts_with("skips");
        let expected = usize::from(!experiment);
        assert_eq!(count(&|row| row.metric == "winner"), expected, "{case}");
        for (metric, versus) in [
            ("ns_per_probe", None),
            ("ratio", Some("serial")),
            ("ratio", Some("best")),
        ] {
            let autos = count(&|row| {
                row.metric == metric && text(row, "mode") == "auto" && row.versus.as_deref() == versus
            });
            assert_eq!(autos, 2 * expected, "{case} {metric} {versus:?}");
        }
    }
}

/// Both placements of the second thread are simulated, with a row for each thread that there is.
fn misses(rows: &[Row]) {
    for placement in ["siblings", "cores"] {
        let roles = |mode: &str| -> Vec<&str> {
            rows.iter()
                .filter(|row| row.case == "fig7b_hash_join" && row.label == Label::Simulated)
                .filter(|row| text(row, "placement") == placement && text(row, "mode") == mode)
                .map(|row| text(row, "thread_role"))
                .collect()
        };
        assert_eq!(roles("one/plain"), ["main"]);
        assert_eq!(roles("bi2/staged"), ["main", "worker1"]);
        assert_eq!(roles("one/staged/workahead128-backward-spin"), ["main", "helper"]);
    }
}

fn page(rows: &[Row], facts: &[(String, String)], quick: bool) -> Page {
    figures::page(Suite::MemoryLatency.name(), rows, facts, quick).expect("the suite has figures")
}

fn report(rows: &[Row]) {
    let html = page(rows, &[("processor".to_owned(), "a <test>".to_owned())], true).render();
    for wanted in [
        "Figure 4(a)",
        "Figure 15",
        "Table 2",
        "a &lt;test&gt;",
        "simulated",
        "33 %",
        "auto",
        "THIS RUN WAS QUICK",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(!html.contains("NaN"), "missing numbers are written as a dash");
}

#[test]
fn a_case_runs_alone() {
    let Some((rows, outcome)) = quick(Some("fig13")) else {
        return;
    };
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    assert!(!rows.is_empty() && rows.iter().all(|row| text(row, "figure") == "13"));
    assert!(page(&rows, &[], false).render().contains("Figure 13"));
}

#[test]
fn an_impossible_case_and_an_impossible_placement_are_usage_errors() {
    let run_with = |args: MemoryLatencyArgs| run(&args, &mut |_| {}, &Silent).expect_err("impossible");
    let error = run_with(MemoryLatencyArgs {
        common: Common::quick(Some("fig99")),
        ..MemoryLatencyArgs::default()
    });
    assert!(error.is_usage() && error.hint().is_some_and(|hint| hint.contains("fig4a_index")));
    let topology = corun_topology::discover();
    if place(&topology, Placement::Siblings).is_err() {
        let error = run_with(MemoryLatencyArgs {
            common: Common::quick(None),
            placement: Some(Placement::Siblings),
            ..MemoryLatencyArgs::default()
        });
        assert!(error.is_usage(), "{error}");
    }
}
