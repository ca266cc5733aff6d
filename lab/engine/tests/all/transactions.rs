//! The `oltp` suite on tiny databases: every case has its rows, answers are the oracle's, labels and keys are those that scripts rely
//! on; peers take part where their program is found and are missed in words where it is not.

use corun_model::progress::Silent;
use lab_core::figures;
use lab_core::row::{Label, Row, Value};
use lab_core::run::Outcome;
use lab_core::suite::{Common, Threads, run};
use lab_engine::transactions::case::CASES;

use lab_engine::suites::transactions::OltpArgs;

use crate::words;

fn args(case: Option<&str>) -> OltpArgs {
    OltpArgs {
        common: Common::quick(case),
        no_peers: true,
        ..OltpArgs::default()
    }
}

fn rows(args: &OltpArgs) -> (Vec<Row>, Outcome) {
    let mut rows = Vec::new();
    let outcome = run(args, &mut |row| rows.push(row), &Silent).expect("the suite runs");
    assert_eq!(outcome.rows, rows.len());
    (rows, outcome)
}

#[test]
fn every_case_has_its_rows_and_every_answer_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = OltpArgs {
        folder: Some(folder.path().to_path_buf()),
        ..args(None)
    };
    let (rows, outcome) = rows(&args);
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    for row in &rows {
        keys(row);
    }
    for case in CASES {
        let mine: Vec<&Row> = rows
            .iter()
            .filter(|row| row.text("workload") == case.name)
            .collect();
        for durability in ["none", "durable"] {
            let wanted = matches!(
                case.name,
                "tpcc" | "payment" | "no_delivery" | "ycsb_a" | "ycsb_f" | "payment_alone" | "ycsb_f_alone"
            );
            let has = mine.iter().any(|row| row.text("durability") == durability);
            let wanted = match durability {
                "none" => !case.alone,
                _ => wanted,
            };
            assert_eq!(has, wanted, "{} {durability}", case.name);
        }
        let has = |metric: &str| mine.iter().any(|row| row.metric == metric);
        for metric in words("tps p50_us p99_us retries load_rows_per_s engine_bytes_per_row ratio") {
            assert!(has(metric), "{} has no {metric}", case.name);
        }
        assert_eq!(
            has("new_orders_per_min"),
            case.work.has_new_orders(),
            "{}",
            case.name
        );
        let control = mine
            .iter()
            .find(|row| row.metric == "ratio")
            .expect("the control");
        assert_eq!(control.text("control"), "a/a");
        assert!(control.number("noise_low").is_some() && control.number("noise_high").is_some());
    }
    for way in ["one", "one_auto", "off", "serial", "on", "auto"] {
        for case in words(
            "teams_ycsb_c_none_t1 teams_ycsb_c_even_none_t1 teams_tpcc_none_t1 \
            teams_payment_none_t1",
        ) {
            let has = |metric: &str| {
                rows.iter()
                    .any(|row| row.case == case && row.text("teams") == way && row.metric == metric)
            };
            assert!(has("tps") && has("p99_us"), "{case} {way}");
            assert!(has("ratio") || way == "serial", "{case} {way}");
            assert_eq!(
                has("members_in"),
                way == "on" || (way.ends_with("auto") && has("members_in"))
            );
        }
    }
    let recovered: Vec<&Row> = rows.iter().filter(|row| row.case == "recovery").collect();
    assert!(
        recovered
            .iter()
            .any(|row| row.metric == "log_records_per_s" && row.median() > Some(0.0))
    );
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("readable").collect();
    assert!(left.is_empty(), "{left:?}");
    report(&rows);
}

fn keys(row: &Row) {
    for key in ["engine", "workload", "durability", "teams"] {
        assert!(!row.text(key).is_empty(), "{} has no {key}", row.to_json());
    }
    for key in ["scale", "workers"] {
        assert!(row.number(key).is_some(), "{} has no {key}", row.to_json());
    }
    let ways = ["one", "one_auto", "off", "serial", "on", "auto"];
    let compares_ways = row.case.starts_with("teams_");
    assert!(
        row.suite == "oltp" && ways.contains(&row.text("teams")),
        "{}",
        row.to_json()
    );
    assert!(compares_ways || row.text("teams") == "off", "{}", row.to_json());
    assert_eq!(
        (row.label, row.answer_ok),
        (Label::Measured, Some(true)),
        "{}",
        row.to_json()
    );
}

fn report(rows: &[Row]) {
    let facts = [("processor".to_owned(), "a <test>".to_owned())];
    let page = figures::page("oltp", rows, &facts, true).expect("a page");
    let html = page.render();
    for wanted in [
        "TPC-C, the standard mix",
        "YCSB E",
        "Commits wait until their log is on disk",
        "Reading a log back",
        "Memory, idling and loading",
        "Clients in teams",
        "a &lt;test&gt;",
        "THIS RUN WAS QUICK",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(!html.contains("NaN") && !html.contains("Where corun is slower"));
}

#[test]
fn wanted_peers_have_rows_whether_they_are_there_or_not() {
    let args = OltpArgs {
        no_peers: false,
        threads: Threads { threads: vec![1] },
        records: Some(200),
        ..args(Some("ycsb_f_durable"))
    };
    let (rows, outcome) = rows(&args);
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    for engine in ["sqlite", "turso", "redb", "fjall", "rocksdb"] {
        let row = rows
            .iter()
            .find(|row| row.engine() == engine && row.metric == "tps")
            .expect("a row");
        match row.label {
            Label::Unavailable => assert!(
                row.text("reason").contains("bootstrap --peers"),
                "{}",
                row.to_json()
            ),
            _ => {
                assert_eq!(row.answer_ok, Some(true));
                assert!(!row.text("version").is_empty() && !row.text("configuration").is_empty());
                let ratio = rows.iter().find(|row| row.versus.as_deref() == Some(engine));
                assert_eq!(ratio.map(Row::engine), Some("corun"));
            }
        }
    }
    assert!(
        rows.iter()
            .all(|row| row.parameter("scale") == Some(&Value::Integer(200)))
    );
}

#[test]
fn a_case_runs_alone_at_a_given_scale() {
    let args = OltpArgs {
        threads: Threads { threads: vec![1] },
        scale: Some(2.0),
        ..args(Some("payment_none_t1"))
    };
    let (rows, outcome) = rows(&args);
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    // And the case of teams, whose name contains this one.
    let cases: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.case.as_str()).collect();
    assert_eq!(
        Vec::from_iter(cases),
        ["payment_none_t1", "teams_payment_none_t1"]
    );
    let rows: Vec<_> = rows
        .into_iter()
        .filter(|row| row.case == "payment_none_t1")
        .collect();
    // Two warehouses of a hundredth of the specification's size, ten clients each.
    assert!(rows.iter().all(|row| row.number("scale") == Some(0.02)));
    assert!(rows.iter().all(|row| row.number("clients") == Some(20.0)));
}

#[test]
fn an_impossible_case_or_folder_is_an_error() {
    let fails = |args: OltpArgs| run(&args, &mut |_| {}, &Silent).expect_err("impossible");
    let error = fails(args(Some("tpcd")));
    assert!(error.is_usage() && error.hint().is_some_and(|hint| hint.contains("tpcc_none_t1")));
    let error = fails(OltpArgs {
        folder: Some("/no/such/folder".into()),
        ..args(Some("payment_none_t1"))
    });
    assert!(
        !error.is_usage() && error.to_string().contains("/no/such/folder"),
        "{error}"
    );
    let error = fails(OltpArgs {
        threads: Threads { threads: vec![4096] },
        ..args(None)
    });
    assert!(error.is_usage(), "{error}");
}
