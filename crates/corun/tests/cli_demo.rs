//! `corun demo --quick`: answers checked, a report written, rows with stable keys.

mod program;

use std::collections::BTreeSet;
use std::fs;

use program::{check_error, corun_in};

#[test]
fn quick_checks_answers_and_writes_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(folder.path(), &["demo", "--quick"], "");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out.contains("all right") && run.out.contains("report: report.html"),
        "{run:?}"
    );
    for word in ["analytic", "short", "stock", "corun", "speed-up", "peak memory"] {
        assert!(run.out.contains(word), "{word}: {}", run.out);
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
    let arguments = [
        "demo",
        "--quick",
        "--rounds",
        "1",
        "--seconds",
        "0.2",
        "--short-clients",
        "0",
        "--json",
        "--report",
        "r.html",
    ];
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    let mut metrics = BTreeSet::new();
    for line in run.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        for key in [
            "suite",
            "case",
            "metric",
            "unit",
            "n",
            "min",
            "median",
            "max",
            "answer_ok",
            "label",
            "engine",
        ] {
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
fn a_report_that_cannot_be_written_fails_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(folder.path(), &["demo", "--report", "missing/r.html"], "");
    check_error(&run, 1, "cannot write the report missing/r.html", "No such file");
    let run = corun_in(folder.path(), &["demo", "--report", "."], "");
    check_error(&run, 1, "cannot write the report .", "folder");
}
