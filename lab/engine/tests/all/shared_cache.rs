//! The `llc` suite on tiny data: every figure has its rows, answers are the oracle's, labels and keys are those that scripts rely on.

use corun_model::progress::Silent;
use lab_core::figures;
use lab_core::row::{Label, Row, Value};
use lab_core::run::Outcome;
use lab_core::suite::{Common, run};
use lab_engine::shared_cache::figures::{CASES, MODERATE, WEAK};
use lab_engine::shared_cache::mix::{MIX, NOTHING_TO_GAIN};
use lab_engine::shared_cache::pairs;
use lab_engine::shared_cache::policy_figures::{FIGURE_6, PLAN_CHOICE};
use lab_engine::shared_cache::sim::SimArgs;

use corun_model::operators::placement::{Placement, place};
use lab_engine::suites::shared_cache::LlcArgs;

use crate::words;

fn args(case: Option<&str>) -> LlcArgs {
    LlcArgs {
        common: Common::quick(case),
        ..LlcArgs::default()
    }
}

/// Runs the suite quickly; `None` where this process has the CPUs of one core only, and nothing can run side by side.
fn quick(case: Option<&str>) -> Option<(Vec<Row>, Outcome)> {
    if place(&corun_topology::discover(), Placement::Cores).is_err() {
        return None;
    }
    let mut rows = Vec::new();
    let outcome = run(&args(case), &mut |row| rows.push(row), &Silent).expect("the suite runs");
    Some((rows, outcome))
}

fn text<'r>(row: &'r Row, key: &str) -> &'r str {
    match row.parameter(key) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

#[test]
fn every_figure_has_its_rows_and_every_answer_is_right() {
    let Some((rows, outcome)) = quick(None) else {
        return;
    };
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    assert_eq!(outcome.rows, rows.len());
    let scheduled = [
        (FIGURE_6, "6"),
        (PLAN_CHOICE, "7.3"),
        (pairs::CASE, "7.4"),
        (MIX, "mix"),
        (NOTHING_TO_GAIN, "nothing_to_gain"),
    ];
    for (case, figure) in CASES.into_iter().chain(scheduled) {
        let mine: Vec<&Row> = rows.iter().filter(|row| row.case == case).collect();
        assert!(!mine.is_empty(), "{case}");
        assert!(mine.iter().all(|row| text(row, "figure") == figure), "{case}");
        assert!(mine.iter().any(|row| row.label == Label::Measured), "{case}");
    }
    let (simulated, rows): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.label == Label::Simulated);
    for figure in SimArgs::new(true).figures {
        assert!(
            simulated.iter().any(|row| row.case == figure.case()),
            "{}",
            figure.case()
        );
    }
    for row in &rows {
        keys(row);
    }
    slowdowns(&rows);
    tables(&rows);
    policies(&rows);
    report(&rows);
}

fn keys(row: &Row) {
    for key in words("figure mix policy class partition corunner ways engine query") {
        assert!(!text(row, key).is_empty(), "{} has no {key}", row.to_json());
    }
    assert_eq!(row.suite, "llc");
    match row.label {
        Label::Measured => assert_eq!(row.answer_ok, Some(true), "{}", row.to_json()),
        Label::Unavailable => assert!(!text(row, "reason").is_empty() && row.median().is_none()),
        Label::Simulated => panic!("a measured case has a simulated row: {}", row.to_json()),
    }
}

/// Each target has its control, and each pair its slow-down versus being alone.
fn slowdowns(rows: &[Row]) {
    let moderate = format!("hash_plq{MODERATE}");
    let index = format!("index_plq{WEAK}");
    for engine in ["corun", "datafusion"] {
        let of = |corunner: &str, wanted: &dyn Fn(&Row) -> bool| {
            rows.iter()
                .filter(|row| {
                    row.case == "fig4_hash"
                        && row.metric == "slowdown"
                        && text(row, "engine") == engine
                        && text(row, "partition") == "none"
                        && text(row, "query") == moderate
                        && text(row, "corunner") == corunner
                        && wanted(row)
                })
                .count()
        };
        for corunner in [&moderate, &index, "hash_plq25", "scan"] {
            let versus_alone = |row: &Row| row.versus.as_deref() == Some("alone");
            assert_eq!(of(corunner, &versus_alone), 1, "{engine} beside {corunner}");
        }
        assert_eq!(of("alone", &|row| text(row, "control") == "a/a"), 1, "{engine}");
    }
    // DataFusion has no join through an index: said, not left out.
    assert!(rows.iter().any(|row| row.case == "table1"
        && row.label == Label::Unavailable
        && text(row, "engine") == "datafusion"
        && text(row, "query") == index));
    assert!(
        rows.iter()
            .any(|row| row.metric == "miss_rate" && row.label == Label::Unavailable)
    );
}

/// The operators' own metric agrees with what the data was made for: table and keys of corun's join within a tenth.
fn tables(rows: &[Row]) {
    let number = |row: &Row, key: &str| match row.parameter(key) {
        Some(Value::Integer(number)) => *number as f64,
        other => panic!("{key} is {other:?} in {}", row.to_json()),
    };
    let mine = rows.iter().filter(|row| {
        row.case == "fig4_hash" && text(row, "engine") == "corun" && row.label == Label::Measured
    });
    let mut seen = 0;
    for row in mine {
        let (planned, built) = (number(row, "table_bytes"), number(row, "built_bytes"));
        assert!(built > planned * 0.9, "{}", row.to_json());
        seen += 1;
    }
    assert!(seen > 0);
}

/// Every policy has its rows of the mix, three of them also with streaming; one that cannot be had says why.
fn policies(rows: &[Row]) {
    let streaming = ["sls", "mls", "learned"].map(|policy| (policy, "streaming"));
    let plain = ["fifo", "sls", "mls", "learned", "auto"].map(|policy| (policy, "none"));
    for (policy, partition) in plain.into_iter().chain(streaming) {
        for metric in ["slowdown", "queries_per_s", "ratio"] {
            let mine = rows.iter().any(|row| {
                row.case == MIX
                    && row.metric == metric
                    && text(row, "policy") == policy
                    && text(row, "partition") == partition
            });
            assert!(mine, "{policy} {partition} {metric}");
        }
    }
    let of = |policy: &str, metric: &str, class: &str, versus: Option<&str>| {
        rows.iter()
            .filter(|row| {
                row.case == MIX
                    && row.metric == metric
                    && text(row, "policy") == policy
                    && text(row, "partition") == "none"
                    && text(row, "class") == class
                    && row.versus.as_deref() == versus
            })
            .count()
    };
    for policy in ["stock_fifo", "fifo", "sls", "learned", "auto"] {
        assert_eq!(of(policy, "slowdown", "moderate", Some("alone")), 1, "{policy}");
        assert_eq!(of(policy, "queries_per_s", "all", None), 1, "{policy}");
    }
    assert_eq!(of("sls", "ratio", "all", Some("fifo")), 1);
    assert_eq!(of("sls", "ratio", "all", Some("stock_fifo")), 1);
    let mls = rows
        .iter()
        .find(|row| row.case == MIX && text(row, "policy") == "mls" && text(row, "partition") == "none");
    assert_eq!(mls.map(|row| row.label), Some(Label::Unavailable));
    for mix in ["all_strong", "one_client"] {
        let of = |controlled: bool| {
            rows.iter()
                .filter(|row| {
                    row.case == NOTHING_TO_GAIN
                        && row.metric == "ratio"
                        && text(row, "mix") == mix
                        && row.parameter("control").is_some() == controlled
                })
                .count()
        };
        assert_eq!((of(false), of(true)), (1, 1), "{mix}");
    }
}

fn report(rows: &[Row]) {
    let facts = [("processor".to_owned(), "a <test>".to_owned())];
    let page = figures::page("llc", rows, &facts, true).expect("a page");
    let html = page.render();
    for wanted in [
        "Figure 1",
        "Figure 4",
        "Table 1",
        "Table 2",
        "Figure 5",
        "Figure 6",
        "Section 7.3",
        "Section 7.4",
        "The PLQ mix under every policy",
        "Where there is nothing to gain",
        "a &lt;test&gt;",
        "THIS RUN WAS QUICK",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(
        !html.contains("with the paper."),
        "a quick run says nothing about agreement"
    );
    assert!(!html.contains("NaN"), "missing numbers are written as a dash");
}

#[test]
fn a_case_runs_alone_at_a_given_cache() {
    if place(&corun_topology::discover(), Placement::Cores).is_err() {
        return;
    }
    let args = LlcArgs {
        llc: Some(128 << 10),
        ..args(Some("fig1"))
    };
    let mut rows = Vec::new();
    let outcome = run(&args, &mut |row| rows.push(row), &Silent).expect("the suite runs");
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    assert!(!rows.is_empty() && rows.iter().all(|row| row.case == "fig1"));
    assert!(
        rows.iter()
            .all(|row| row.parameter("cache_bytes") == Some(&Value::Integer(128 << 10)))
    );
    let page = figures::page("llc", &rows, &[], false).expect("a page");
    let html = page.render();
    assert!(html.contains("Figure 1") && html.contains("loses 56 %"));
}

#[test]
fn an_impossible_case_and_an_impossible_cache_are_usage_errors() {
    let fails = |args: LlcArgs| run(&args, &mut |_| {}, &Silent).expect_err("impossible");
    let error = fails(args(Some("fig99")));
    assert!(error.is_usage() && error.hint().is_some_and(|hint| hint.contains("fig1")));
    let error = fails(LlcArgs {
        llc: Some(1 << 30),
        ..args(None)
    });
    assert!(error.is_usage(), "{error}");
}
