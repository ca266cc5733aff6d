//! `corun-lab bench` prints rows for people and for scripts, and keeps records.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::corun_in;
use crate::words;

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

    let arguments = words("bench floor --quick --threads 1 --json --record records");
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

/// The queries of TPC-H, each once, on processes of the program beside this one.
#[test]
fn workloads_run_on_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = words("bench tpch --quick --workers 2 --repetitions 1 --pairs 1 --json");
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    let rows = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let ours = rows.filter(|row: &serde_json::Value| row["engine"] == "corun" && row["metric"] == "ms");
    let ours: Vec<serde_json::Value> = ours.collect();
    assert_eq!(ours.len(), 22);
    for row in ours {
        assert!(
            row["workers"] == 2 && row["answer_ok"] == true && row["source"] == "parquet",
            "{row}"
        );
        assert!(
            row["case"]
                .as_str()
                .is_some_and(|case| case.ends_with("_parquet_w2")),
            "{row}"
        );
    }
}

#[test]
fn join_quick_checks_its_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = words("bench join --quick --no-peers --threads 1 --case sparse --json");
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
    let arguments = words("bench memory-latency --quick --case fig14 --json --report smt.html");
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
    assert!(page.contains("Figure 14(a)") && page.contains("bench memory-latency --quick"));
}

#[test]
fn steps_traces_its_own_fetches_and_writes_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = words("bench instruction-cache --quick --case fig17 --json --report steps.html");
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    let rows: Vec<serde_json::Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for row in &rows {
        assert_eq!(
            (&row["suite"], &row["answer_ok"]),
            (&"steps".into(), &true.into()),
            "{row}"
        );
        for key in ["figure", "operation", "team_size", "l1i", "mode"] {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
    }
    let value = |metric: &str, mode: &str, points: &str| {
        let found = rows
            .iter()
            .find(|row| row["metric"] == metric && row["mode"] == mode && row["points"] == points);
        found.and_then(|row| row["median"].as_f64()).expect("a row")
    };
    // The cache is at most half the code: a fetch misses most of it alone, and a member of a team nearly nothing.
    let serial = value("l1i_misses_per_op", "serial", "none");
    assert!(serial > 40.0, "{serial} misses");
    assert!(value("l1i_misses_per_op", "held_team", "all") < serial / 2.0);
    assert!(value("ctx_calls_per_op", "team", "all") >= 4.0);
    assert!(
        rows.iter()
            .any(|row| row["metric"] == "ns_per_op" && row["label"] == "measured")
    );
    let page = fs::read_to_string(folder.path().join("steps.html")).expect("a report");
    assert!(page.contains("Figure 17") && page.contains("bench instruction-cache --quick"));
}

#[test]
fn steps_keeps_tpcc_consistent_in_teams() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(
        folder.path(),
        &["bench", "steps", "--quick", "--case", "payment", "--json"],
        "",
    );
    assert_eq!(run.code, 0, "{run:?}");
    let modes = ["serial", "to_completion", "team"];
    for mode in modes {
        let wanted =
            |line: &str| line.contains(&format!("\"mode\":\"{mode}\"")) && line.contains("l1i_misses_per_op");
        assert!(run.out.lines().any(wanted), "{mode}: {run:?}");
    }
    assert!(run.says("fetch warehouse.primary") && run.out.contains("team_out"));
    assert!(!run.out.contains("\"answer_ok\":false"), "{run:?}");
}

#[test]
fn a_job_that_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(
        folder.path(),
        &["instruction-cache-subject", "{", "answers.json"],
        "",
    );
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("the job cannot be read"), "{run:?}");
    assert!(!folder.path().join("answers.json").exists());
}

#[test]
fn oltp_writes_a_report_and_leaves_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("disk")).expect("a folder");
    let arguments = words(
        "bench oltp --quick --no-peers --threads 1 --case tpcc_durable --folder disk --json \
        --report oltp.html",
    );
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    let rows: Vec<serde_json::Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for metric in ["tps", "new_orders_per_min", "p99_us", "bytes_per_row", "ratio"] {
        assert!(
            rows.iter().any(|row| row["metric"] == metric),
            "{metric}: {run:?}"
        );
    }
    for row in &rows {
        assert_eq!(
            (&row["suite"], &row["case"]),
            (&"oltp".into(), &"tpcc_durable_t1".into())
        );
        assert_eq!(
            (&row["workload"], &row["durability"]),
            (&"tpcc".into(), &"durable".into())
        );
        assert!(
            row["workers"] == 1 && row["teams"] == "off" && row["engine"] == "corun",
            "{row}"
        );
        assert_eq!(row["answer_ok"], true, "{row}");
    }
    let left = fs::read_dir(folder.path().join("disk"))
        .expect("readable")
        .count();
    assert_eq!(left, 0);
    let page = fs::read_to_string(folder.path().join("oltp.html")).expect("a report");
    assert!(page.contains("TPC-C, the standard mix") && page.contains("bench oltp --quick"));
}

#[test]
fn an_interrupted_oltp_run_leaves_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(crate::PROGRAM)
        .args(words(
            "bench oltp --no-peers --case tpcc_none_t1 --scale 1 --folder",
        ))
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let files = || fs::read_dir(folder.path()).expect("readable").count();
    let until = |wanted: usize| {
        let end = Instant::now() + Duration::from_secs(300);
        while files() != wanted && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(files(), wanted);
    };
    until(1);
    // Killed, not asked: nothing of the program can tidy up.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    until(0);
}

#[test]
fn flags_of_another_suite_are_usage_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, message) in [
        (
            &["bench", "join", "--placement", "cores"][..],
            "unexpected argument '--placement' found",
        ),
        (
            &["bench", "floor", "--paper-sizes"],
            "unexpected argument '--paper-sizes' found",
        ),
        (
            &["bench", "floor", "--order-seed", "2"],
            "unexpected argument '--order-seed' found",
        ),
        (
            &["bench", "llc", "--no-peers"],
            "unexpected argument '--no-peers' found",
        ),
        (
            &["bench", "instruction-cache", "--full"],
            "unexpected argument '--full' found",
        ),
        (&["bench", "jion"], "there is no benchmark suite \"jion\""),
        (&["bench", "list", "jion"], "there is no benchmark suite \"jion\""),
        (&["bench", "floor", "--resume"], "--out"),
        (
            &["bench", "smt", "--threads", "2"],
            "unexpected argument '--threads' found",
        ),
        (
            &["bench", "floor", "--scale", "1"],
            "unexpected argument '--scale' found",
        ),
        (
            &["bench", "join", "--folder", "/tmp"],
            "unexpected argument '--folder' found",
        ),
        (
            &["bench", "tpch", "--records", "10"],
            "unexpected argument '--records' found",
        ),
        (
            &["bench", "oltp", "--quick", "--scale", "0.5"],
            "a whole number of warehouses",
        ),
        (
            &["bench", "oltp", "--quick", "--case", "tpcd"],
            "suite oltp has no case matching",
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
