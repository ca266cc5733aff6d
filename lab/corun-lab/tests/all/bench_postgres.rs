//! The suites on PostgreSQL run this program: its pooler stands in front of a real server.

use std::fs;

use crate::program::corun_in;
use crate::words;

#[test]
fn proxy_measures_this_program_in_front_of_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = words("bench proxy --quick --no-peers --case simple_tcp_c8 --json");
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    if run.says("no PostgreSQL") {
        return;
    }
    let rows: Vec<serde_json::Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for metric in ["tps", "p50_us", "p99_us", "proxy_cpu_us_per_tx", "rss_bytes"] {
        let found = rows
            .iter()
            .find(|row| row["target"] == "corun" && row["metric"] == metric);
        let row = found.unwrap_or_else(|| panic!("{metric}: {run:?}"));
        assert_eq!(
            (&row["answer_ok"], &row["label"]),
            (&true.into(), &"measured".into()),
            "{row}"
        );
    }
    let ratio = |versus: &str| {
        rows.iter()
            .any(|row| row["metric"] == "ratio" && row["versus"] == versus)
    };
    assert!(ratio("direct") && ratio("corun"), "{run:?}");
}

#[test]
fn key_ranges_measures_this_program_in_all_its_ways() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows_of = |case: &str| -> Option<Vec<serde_json::Value>> {
        let run = corun_in(
            folder.path(),
            &["bench", "caric", "--quick", "--case", case, "--json"],
            "",
        );
        assert_eq!(run.code, 0, "{run:?}");
        let row = |line| serde_json::from_str(line).expect("JSON");
        (!run.says("no PostgreSQL")).then(|| run.out.lines().map(row).collect())
    };
    for (case, sides) in [
        (
            "tpcw_c4",
            &["os", "random", "range", "caric_da_1", "caric_da_2", "auto"][..],
        ),
        (
            "best_seller_c1",
            &["whole", "split_2", "split_3", "split_4", "auto"],
        ),
        ("tpcc_c4", &["os", "random", "range", "auto"]),
        ("replicas_fit_c4", &["round_robin", "least", "range_replica"]),
    ] {
        let Some(rows) = rows_of(case) else { return };
        for side in sides {
            for metric in ["tps", "latency_ms"] {
                let found = rows
                    .iter()
                    .find(|row| row["side"] == *side && row["metric"] == metric);
                let row = found.unwrap_or_else(|| panic!("{case}: no {metric} of {side}: {rows:?}"));
                assert_eq!(
                    (&row["answer_ok"], &row["label"]),
                    (&true.into(), &"measured".into()),
                    "{row}"
                );
            }
        }
    }
}

#[test]
fn heavy_queue_runs_the_papers_cases_on_postgresql_and_writes_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("mcc.html");
    let report = report.to_str().expect("text");
    let arguments = ["bench", "mcc", "--quick", "--json", "--report", report];
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    if run.says("no PostgreSQL") {
        return;
    }
    let rows: Vec<serde_json::Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let answered = |wanted: &dyn Fn(&serde_json::Value) -> bool, what: &str| {
        let found = rows.iter().find(|row| wanted(row));
        let row = found.unwrap_or_else(|| panic!("no {what}: {rows:?}"));
        assert_eq!(row["answer_ok"], true, "{row}");
    };
    for figure in ["fig1", "fig4", "s7.4"] {
        let is = |row: &serde_json::Value| {
            row["figure"] == figure && row["metric"] == "slowdown" && row["time"] == "cpu"
        };
        answered(&is, figure);
    }
    for (policy, label) in [("best", "measured"), ("sls", "simulated"), ("mls", "simulated")] {
        let is = |row: &serde_json::Value| {
            row["case"] == "ceiling"
                && row["policy"] == policy
                && row["metric"] == "ratio"
                && row["label"] == label
        };
        answered(&is, policy);
    }
    for (case, side) in [
        ("fig6", "fifo"),
        ("fig6", "sls"),
        ("plan_choice", "auto_plans"),
        ("mix", "auto_plans"),
        ("overhead", "auto_plans"),
    ] {
        let is = |row: &serde_json::Value| {
            row["case"] == case && row["side"] == side && row["metric"] == "mix_seconds"
        };
        answered(&is, case);
    }
    answered(&|row| row["metric"] == "error_percent", "error_percent");
    let html = fs::read_to_string(report).expect("a report");
    assert!(html.contains("THIS RUN WAS QUICK") && html.contains("Figures 1 and 4"));
}

#[test]
fn serve_measures_the_sql_server_beside_others() {
    crate::documents::programs();
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = words(
        "bench serve --quick --repetitions 1 --case ssb_streams_s2 --case beside_long_point --case constant_prepared --case fetch \
        --case idle --json",
    );
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!(run.code, 0, "{run:?}");
    let rows: Vec<serde_json::Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let postgresql = !run.says("no PostgreSQL");
    for (case, side, metric) in [
        ("ssb_streams_s2", "corun", "queries_per_s"),
        ("ssb_streams_s2", "corun_unshared", "queries_per_s"),
        ("ssb_streams_s2", "datafusion", "p99_us"),
        ("ssb_streams_s2", "postgresql", "queries_per_s"),
        ("short_beside_long_point_s2", "corun", "p99_us"),
        ("short_beside_long_point_s2", "datafusion", "p50_us"),
        ("short_beside_long_point_s2", "postgresql", "long_queries_per_s"),
        ("fetch_text", "corun", "rows_per_s"),
        ("fetch_binary", "datafusion", "bytes_per_s"),
        ("fetch_binary", "postgresql", "bytes_per_s"),
        ("idle_c50", "corun", "bytes_per_session"),
        ("constant_prepared_c2", "postgresql", "cpu_us_per_query"),
        ("constant_prepared_c2", "pooler", "queries_per_s"),
    ] {
        // pgbench is PostgreSQL's, too.
        if !postgresql && (side == "postgresql" || case.starts_with("constant")) {
            continue;
        }
        let is =
            |row: &&serde_json::Value| row["case"] == case && row["side"] == side && row["metric"] == metric;
        let row = rows.iter().find(is);
        let row = row.unwrap_or_else(|| panic!("{case}: no {metric} of {side}: {run:?}"));
        assert_eq!(
            (&row["answer_ok"], &row["label"]),
            (&true.into(), &"measured".into()),
            "{row}"
        );
    }
    let ratio = |row: &serde_json::Value| row["metric"] == "ratio" && row["versus"] == "datafusion";
    assert!(rows.iter().any(ratio), "{run:?}");
}
