//! The `proxy` suite with few clients: the server's own rows are there and right, what is missing is missed in words, and nothing that
//! was started is left. The proxy itself takes part in the program's own tests, because here the program is this test.

use corun_model::progress::Silent;
use lab_core::row::{Label, Row};
use lab_core::run::Outcome;
use lab_core::suite::{Common, run};

use lab_postgres::suites::pooler::ProxyArgs;

fn args(case: &str, peers: bool) -> ProxyArgs {
    ProxyArgs {
        common: Common::quick(Some(case)),
        no_peers: !peers,
        ..ProxyArgs::default()
    }
}

fn rows(args: &ProxyArgs) -> (Vec<Row>, Outcome) {
    let mut rows = Vec::new();
    let outcome = run(args, &mut |row| rows.push(row), &Silent).expect("the suite runs");
    assert_eq!(outcome.rows, rows.len());
    (rows, outcome)
}

/// Processes that this thread has started and that are still there.
fn children() -> Vec<String> {
    let list = std::fs::read_to_string("/proc/thread-self/children").expect("Linux");
    list.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_server_is_measured_and_nothing_is_left_of_it() {
    for case in [
        "simple_unix_c1",
        "tpcb_tcp_c8",
        "storm_tcp_c8",
        "mixed_few_unix_c8",
        "pipeline_2000_tcp_c8",
    ] {
        let (rows, outcome) = rows(&args(case, false));
        assert!(outcome.is_ok(), "{:?}", outcome.failures);
        let direct = |metric: &str| {
            let of = |row: &&Row| row.text("target") == "direct" && row.metric == metric;
            rows.iter()
                .find(of)
                .unwrap_or_else(|| panic!("{case} has no {metric}"))
        };
        for metric in ["tps", "p50_us", "p99_us"] {
            let row = direct(metric);
            assert_eq!(
                (row.label, row.answer_ok),
                (Label::Measured, Some(true)),
                "{}",
                row.to_json()
            );
            assert!(
                row.median() > Some(0.0) && row.number("clients") > Some(0.0),
                "{}",
                row.to_json()
            );
            for key in ["protocol", "cohorts", "auto_prepare", "transport"] {
                assert!(!row.text(key).is_empty(), "{key}: {}", row.to_json());
            }
        }
        // Nothing stands between clients and the server there.
        assert!(rows.iter().all(|row| row.metric != "proxy_cpu_us_per_tx"));
        // The pooler's program lies beside the lab's, not beside a test; it may be installed all the same.
        let corun: Vec<&Row> = rows.iter().filter(|row| row.text("target") == "corun").collect();
        assert!(!corun.is_empty());
        for row in corun {
            let missing = corun_cli::siblings::find("corun").is_none();
            assert_eq!(
                row.text("reason").contains("the program corun is neither"),
                missing,
                "{}",
                row.to_json()
            );
        }
    }
    assert_eq!(children(), [""; 0]);
}

#[test]
fn wanted_peers_have_rows_whether_they_are_there_or_not() {
    for case in ["prepared_tcp_c1", "idle_tcp_c200"] {
        let (rows, outcome) = rows(&args(case, true));
        assert!(outcome.is_ok(), "{:?}", outcome.failures);
        for side in ["pgbouncer", "pgbouncer_current"] {
            let mut found = rows.iter().filter(|row| row.text("side") == side).peekable();
            assert!(found.peek().is_some(), "{case} has no row of {side}");
            for row in found {
                match row.label {
                    Label::Unavailable => assert!(
                        row.text("reason").contains("bootstrap --peers")
                            || row.text("reason").contains("1.21"),
                        "{}",
                        row.to_json()
                    ),
                    _ => assert!(
                        row.answer_ok == Some(true) && !row.text("version").is_empty(),
                        "{}",
                        row.to_json()
                    ),
                }
            }
        }
    }
}

#[test]
fn an_impossible_case_or_scale_is_an_error() {
    let fails = |args: ProxyArgs| run(&args, &mut |_| {}, &Silent).expect_err("impossible");
    let error = fails(args("tpcc", false));
    assert!(error.is_usage(), "{error}");
    let error = fails(ProxyArgs {
        scale: Some(0.5),
        ..args("simple", false)
    });
    assert!(
        error.is_usage() && error.to_string().contains("--scale 0.5"),
        "{error}"
    );
}
