//! `corun-lab characterize`: what a run leaves, on a server of its own and on one that runs; what wrong arguments and missing servers say.

use std::path::Path;

use crate::program::{Run, check_error, corun};

/// Few queries of a small table: seconds. Timing is not looked at.
const SMALL: [&str; 9] = [
    "characterize",
    "--rows",
    "20000",
    "--concurrency",
    "1,2",
    "--repetitions",
    "1",
    "--without",
    "interference,simulation",
];

fn run(out: &Path, more: &[&str]) -> Run {
    let out = out.to_str().expect("a name");
    corun(&[&SMALL[..], &["--out", out], more].concat())
}

fn kept(out: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(out.join("rows.jsonl")).expect("rows are kept");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn of<'r>(rows: &'r [serde_json::Value], case: &str, metric: &str) -> Vec<&'r serde_json::Value> {
    rows.iter()
        .filter(|row| row["case"] == case && row["metric"] == metric)
        .collect()
}

#[test]
fn a_run_on_a_server_of_its_own_leaves_rows_and_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("a");
    let run = run(&out, &[]);
    assert_eq!(run.code, 0, "{run:?}");
    let rows = kept(&out);
    for workload in ["utpcc", "uss", "unj"] {
        let here = |row: &&&serde_json::Value| row["workload"] == workload;
        let times = of(&rows, "speedup", "ms_per_query");
        let times: Vec<_> = times.iter().filter(here).collect();
        assert_eq!(times.len(), 2, "{workload}");
        assert!(
            times
                .iter()
                .all(|row| row["answer_ok"] == true && row["how"] == "clock")
        );
        // The paper's operators, and its selectivity within what a small table gives.
        let plans = of(&rows, "plan", "selectivity_percent");
        let plan = plans.iter().find(here).expect("a plan");
        assert_eq!(plan["plan"], plan["paper_plan"], "{plan}");
        let (wanted, found) = (plan["wanted_percent"].as_f64(), plan["median"].as_f64());
        let ratio = found.expect("a number") / wanted.expect("a number");
        assert!((0.8..1.25).contains(&ratio), "{plan}");
        assert!(
            of(&rows, "resources", "cpu_us_per_query")
                .iter()
                .any(|row| row["workload"] == workload)
        );
    }
    // Each capability once.
    let mut names: Vec<&str> = of(&rows, "capability", "available")
        .iter()
        .map(|row| row["capability"].as_str().expect("a name"))
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(names.contains(&"pmu") && names.contains(&"smt"));
    // What every report has. Which advice there is depends on what was measured.
    let html = std::fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(html.starts_with("<!"));
    for words in [
        "Plans and selectivities",
        "Time and speed-up against concurrency",
        "uTPC-C",
        "uSS",
        "uNJ",
    ] {
        assert!(html.contains(words), "{words}");
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    // Again into the same folder: the earlier rows stay, and can be compared with.
    let again = run_json(&out);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(out.join("rows.before.jsonl").exists());
    let before = out.join("rows.before.jsonl");
    let diff = corun(&[
        "characterize",
        "diff",
        before.to_str().expect("a name"),
        out.to_str().expect("a name"),
    ]);
    assert_eq!(diff.code, 0, "{diff:?}");
    assert!(!diff.out.is_empty());
}

/// One workload, rows on stdout.
fn run_json(out: &Path) -> Run {
    let run = run(out, &["--workload", "utpcc", "--json"]);
    let rows = kept(out);
    assert_eq!(run.out.lines().count(), rows.len());
    assert!(
        of(&rows, "speedup", "ms_per_query")
            .iter()
            .all(|row| row["workload"] == "utpcc")
    );
    run
}

#[test]
fn wrong_arguments_and_servers_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("x");
    check_error(
        &run(&out, &["--workload", "tpcx"]),
        2,
        "there are utpcc, uss, unj",
        "",
    );
    check_error(
        &run(&out, &["--workload", "none"]),
        2,
        "there is no workload",
        "--sql",
    );
    check_error(&run(&out, &["--without", "sleep"]), 2, "there are sampling", "");
    check_error(&corun(&["characterize", "--rows", "5"]), 2, "--rows must be", "");
    check_error(
        &corun(&["characterize", "--concurrency", "1000"]),
        2,
        "--concurrency must be at most",
        "",
    );
    let told = run(&out, &["--dsn", "host=127.0.0.1 port=1 password=secret"]);
    assert!(
        told.code == 2 && told.err.contains("~/.pgpass") && !told.err.contains("secret"),
        "{told:?}"
    );
    let refused = run(&out, &["--dsn", "host=127.0.0.1 port=1"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("port 1"), "{refused:?}");
    // Input is checked before anything is written.
    assert!(!out.exists());
    let empty = folder.path().join("empty.sql");
    std::fs::write(&empty, "").expect("a file");
    let run = run(&out, &["--sql", empty.to_str().expect("a name")]);
    assert!(run.code != 0 && run.err.contains("empty"), "{run:?}");
    let missing = corun(&["characterize", "diff", "/nonexistent/a", "/nonexistent/b"]);
    assert_eq!(missing.code, 1, "{missing:?}");
}
