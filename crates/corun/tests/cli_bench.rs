//! `corun bench` prints rows for people and for scripts, and keeps records.

mod program;

use std::fs;

use program::corun_in;

#[test]
fn floor_rows_are_tables_or_json_and_can_be_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(
        folder.path(),
        &["bench", "floor", "--quick", "--threads", "1"],
        "",
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out.starts_with("case ") && run.out.contains("ns_per_line"),
        "{run:?}"
    );

    let arguments = [
        "bench",
        "floor",
        "--quick",
        "--threads",
        "1",
        "--json",
        "--record",
        "records",
    ];
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    for line in run.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(
            (row["suite"].as_str(), row["metric"].as_str()),
            (Some("floor"), Some("ns_per_line")),
            "{line}"
        );
        assert!(row["bytes"].is_u64() && row["threads"] == 1, "{line}");
    }
    let record = fs::read_dir(folder.path().join("records"))
        .expect("a record")
        .next()
        .expect("one")
        .expect("readable");
    let file = |name: &str| fs::read_to_string(record.path().join(name)).expect("a file of the record");
    assert_eq!(file("floor.jsonl").lines().count(), run.out.lines().count());
    assert!(file("floor.run").contains("commit") && file("topology.jsonl").contains("\"kind\""));
}

#[test]
fn join_quick_checks_its_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "bench",
        "join",
        "--quick",
        "--no-peers",
        "--threads",
        "1",
        "--case",
        "sparse",
        "--json",
    ];
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    let rows: Vec<serde_json::Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(
        rows.iter()
            .any(|row| row["engine"] == "corun" && row["metric"] == "ns_per_probe_row")
    );
    assert!(
        rows.iter()
            .any(|row| row["metric"] == "ratio" && row["versus"] == "datafusion")
    );
    assert!(rows.iter().all(|row| row["answer_ok"] != false));
}

#[test]
fn smt_writes_a_report_beside_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "bench", "smt", "--quick", "--case", "fig14", "--json", "--report", "smt.html",
    ];
    let run = corun_in(folder.path(), &arguments, "");
    if run.code == 2 && run.err.contains("one CPU only") {
        return;
    }
    assert_eq!(run.code, 0, "{run:?}");
    for line in run.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(row["suite"], "smt", "{line}");
        assert!(
            row["figure"]
                .as_str()
                .is_some_and(|figure| figure.starts_with("14")),
            "{line}"
        );
    }
    let page = fs::read_to_string(folder.path().join("smt.html")).expect("a report");
    assert!(page.contains("Figure 14(a)") && page.contains("bench smt --quick"));
}

#[test]
fn flags_of_another_suite_are_usage_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, message) in [
        (
            &["bench", "join", "--placement", "cores"][..],
            "--placement is for smt, not for join",
        ),
        (
            &["bench", "floor", "--paper-sizes"],
            "--paper-sizes is for smt, not for floor",
        ),
        (
            &["bench", "ssb", "--report", "x.html"],
            "--report is for smt, llc, oltp, not for ssb",
        ),
        (
            &["bench", "smt", "--threads", "2"],
            "--threads is for floor, join, ssb, tpch, oltp, not for smt",
        ),
        (
            &["bench", "floor", "--scale", "1"],
            "--scale is for ssb, tpch, oltp, not for floor",
        ),
        (
            &["bench", "smt", "--placement", "sockets"],
            "invalid value 'sockets'",
        ),
    ] {
        let run = corun_in(folder.path(), arguments, "");
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains(message), "{run:?}");
    }
    assert!(!folder.path().join("x.html").exists());
}
