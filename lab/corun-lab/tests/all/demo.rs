//! `corun-lab demo --quick`: answers checked, a report written, rows with stable keys.

use std::collections::BTreeSet;
use std::fs;

use crate::program::{check_error, corun_in};
use crate::words;

#[test]
fn quick_checks_answers_and_writes_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(folder.path(), &["demo", "--quick"], "");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.says("all right") && run.says("report: report.html"),
        "{run:?}"
    );
    for word in [
        "over the wire",
        "analytic",
        "short",
        "stock",
        "corun",
        "speed-up",
        "peak memory",
        "new orders/min",
        "against alone",
        "TPC-C's consistency conditions hold",
    ] {
        assert!(run.says(word), "{word}: {}", run.out);
    }
    let html = fs::read_to_string(folder.path().join("report.html")).expect("the report");
    assert!(
        html.contains("<svg") && html.contains("prefers-color-scheme: dark") && html.contains("processor")
    );
    for outside in ["http://", "https://", "<script", "<link", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).expect("readable").collect();
    assert_eq!(left.len(), 1, "nothing but the report is left: {left:?}");
}

#[test]
fn json_rows_have_the_stable_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = words(
        "demo --quick --parts analytic --rounds 1 --seconds 0.2 --short-clients 0 --json \
        --report r.html",
    );
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    let mut metrics = BTreeSet::new();
    for line in run.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        for key in words("suite case metric unit n min median max answer_ok label engine") {
            assert!(row.get(key).is_some(), "{key} in {line}");
        }
        assert_eq!(
            (row["suite"].as_str(), row["answer_ok"].as_bool()),
            (Some("demo"), Some(true))
        );
        metrics.insert(row["metric"].as_str().unwrap_or_default().to_owned());
    }
    let expected = ["ms", "p50_ms", "p95_ms", "peak_bytes", "queries_per_s", "ratio"];
    assert_eq!(metrics.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert!(folder.path().join("r.html").exists());
}

#[test]
fn json_rows_of_the_served_part_have_the_stable_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(
        folder.path(),
        &words("demo --quick --parts served --clients 3 --json"),
        "",
    );
    assert_eq!(run.code, 0, "{run:?}");
    let (mut metrics, mut engines) = (BTreeSet::new(), BTreeSet::new());
    for line in run.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(
            (&row["case"], &row["answer_ok"], &row["clients"]),
            (&"served".into(), &true.into(), &3.into()),
            "{line}"
        );
        metrics.insert(row["metric"].as_str().unwrap_or_default().to_owned());
        engines.insert(format!("{} {}", row["engine"], row["policy"]));
    }
    let expected = ["p50_ms", "p95_ms", "queries_per_s", "ratio"];
    assert_eq!(metrics.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert_eq!(engines.len(), 2, "{engines:?}");
}

#[test]
fn json_rows_of_the_live_part_have_the_stable_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = words(
        "demo --quick --parts live --warehouses 1 --terminals 4 --workers 1 --clients 1 \
        --json",
    );
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    let (mut metrics, mut engines, mut teams) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in run.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let expected: [(&str, serde_json::Value); 8] = [
            ("suite", "demo".into()),
            ("answer_ok", true.into()),
            ("label", "measured".into()),
            ("warehouses", 1.into()),
            ("divisor", 100.into()),
            ("terminals", 4.into()),
            ("workers", 1.into()),
            ("clients", 1.into()),
        ];
        for (key, value) in expected {
            assert_eq!(row[key], value, "{key} in {line}");
        }
        assert!(
            row["case"].as_str().is_some_and(|case| case.starts_with("live_")),
            "{line}"
        );
        metrics.insert(row["metric"].as_str().unwrap_or_default().to_owned());
        engines.insert(row["engine"].as_str().unwrap_or_default().to_owned());
        teams.extend(row["teams"].as_str().map(str::to_owned));
    }
    assert_eq!(
        teams.iter().map(String::as_str).collect::<Vec<_>>(),
        ["off", "on"]
    );
    let expected = words("ms new_orders_per_min p50_ms p50_us p95_ms p99_us queries_per_s ratio retries tps");
    assert_eq!(metrics.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert_eq!(
        engines.iter().map(String::as_str).collect::<Vec<_>>(),
        ["corun", "datafusion", "none"]
    );
    let html = fs::read_to_string(folder.path().join("report.html")).expect("the report");
    assert!(html.contains("Live data: transactions") && !html.contains("Star Schema Benchmark"));
}

#[test]
fn live_options_that_make_no_sense_fail_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(folder.path(), &["demo", "--parts", "analytic,both"], "");
    check_error(
        &run,
        2,
        "no part is called 'both'; there are served, analytic and live",
        "",
    );
    let run = corun_in(folder.path(), &["demo", "--warehouses", "5000"], "");
    check_error(&run, 2, "5000 warehouses: the demo takes 1 to 1000 here", "");
}

#[test]
fn a_report_that_cannot_be_written_fails_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(folder.path(), &["demo", "--report", "missing/r.html"], "");
    check_error(&run, 1, "cannot write the report missing/r.html", "No such file");
    let run = corun_in(folder.path(), &["demo", "--report", "."], "");
    check_error(&run, 1, "cannot write the report .", "folder");
}
