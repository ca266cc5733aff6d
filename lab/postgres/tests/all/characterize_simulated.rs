//! A real PostgreSQL's stand-alone backend under valgrind: its rows are there, plausible and checked, and what cannot be done is said.
//!
//! Without PostgreSQL or valgrind there is nothing to run; the test says so and passes.

use std::path::Path;
use std::time::Duration;

use crate::skipped::skipped;
use corun_model::progress::Silent;
use corun_model::topology::Topology;
use lab_core::row::{Label, Row};
use lab_postgres::characterize::simulated::{Expect, Options, Shape, Statement, simulate};
use lab_postgres::fixture::PgFixture;
use lab_postgres::fixture::cluster::{Profile, Programs};
use lab_postgres::traced::counted::CountedBackend;

/// A table whose columns are made by counting, so that answers are known.
const TABLES: [&str; 4] = [
    "create table t as select i % 997 as a1, i % 500 as a2, i % 50 as a3, repeat('x', 60) as pad from generate_series(0, 9999) i",
    "create index on t (a2)",
    "create table result (a3 numeric)",
    "vacuum analyze t",
];

fn statement(workload: &str, sql: &str, expect: Expect) -> Statement {
    Statement {
        workload: workload.to_owned(),
        settings: vec![("enable_seqscan".to_owned(), "off".to_owned())],
        before: vec!["truncate result".to_owned()],
        sql: sql.to_owned(),
        expect,
        executions: 3,
        table_rows: 10_000,
    }
}

fn statements() -> Vec<Statement> {
    let left = |value: &str| Expect {
        sql: "select distinct round(a3) as a3 from result".to_owned(),
        column: "a3".to_owned(),
        values: vec![value.to_owned()],
    };
    vec![
        // 12 to 16, each as often.
        statement(
            "utpcc",
            "insert into result select avg(a3) from t where a2 > 11 and a2 < 17",
            left("14"),
        ),
        statement(
            "count",
            "insert into result select count(*) as n -- with a comment\n\nfrom t where a2 < 100;",
            left("2000"),
        ),
        statement(
            "wrong",
            "insert into result select count(*) as n from t where a2 < 10",
            left("201"),
        ),
    ]
}

fn options(scratch: &Path) -> Options {
    Options {
        shapes: vec![Shape::of(&Topology::default()), Shape::paper()],
        scratch: scratch.to_path_buf(),
        smt: "none".to_owned(),
        budget: Duration::from_secs(600),
        run_within: Duration::from_secs(300),
    }
}

#[test]
fn a_real_backend_is_simulated() {
    let programs = Programs::find().expect("PostgreSQL");
    let fixture = PgFixture::new("simulated", programs.clone(), None).expect("a place for servers");
    let running = fixture.cluster("server", &Profile::default()).expect("a server");
    let (data, account) = (running.address.folder.join("data"), fixture.account);
    let scratch = &fixture.folder("scratch").expect("a folder");
    let prepared = |statements: &[&str]| {
        let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
        CountedBackend::new(&programs, &data, account, scratch)?.native(&statements)
    };
    let simulated = |statements: &[Statement], options: &Options| {
        simulate(&programs, &data, account, statements, options, &Silent)
    };
    let in_use = prepared(&["select 1"]).expect_err("a server runs").to_string();
    assert!(in_use.contains("stop it first"), "{in_use}");
    drop(running);

    prepared(&TABLES).expect("tables");
    let error = prepared(&["select 1", "select nonsense"]).expect_err("no such column");
    assert!(error.to_string().contains("nonsense"), "{error}");

    let rows = match simulated(&statements(), &options(scratch)) {
        Ok(rows) => rows,
        Err(error) if error.to_string().contains("valgrind is not installed") => {
            return skipped(error);
        }
        Err(error) => panic!("{error}"),
    };
    let value = |workload: &str, case: &str, metric: &str, key: &str, text: &str| {
        let found = rows.iter().find(|row| {
            row.text("workload") == workload
                && row.case == case
                && row.metric == metric
                && (key.is_empty() || row.text(key) == text)
        });
        let found: &Row = found.unwrap_or_else(|| panic!("no {workload} {case} {metric} {text}"));
        assert_eq!(found.answer_ok, Some(workload != "wrong"), "{found:?}");
        assert_eq!(found.label, Label::Simulated);
        found.median().expect("a number")
    };
    for workload in ["utpcc", "count", "wrong"] {
        let instructions = value(workload, "resources", "instructions_per_query", "", "");
        assert!(
            (20_000.0..20_000_000.0).contains(&instructions),
            "{workload}: {instructions}"
        );
        let mix =
            ["load", "store", "branch", "other"].map(|kind| value(workload, "mix", "percent", "kind", kind));
        assert!((mix.iter().sum::<f64>() - 100.0).abs() < 0.01, "{mix:?}");
        assert!(mix.iter().all(|percent| (5.0..75.0).contains(percent)), "{mix:?}");
        for platform in ["this_machine", "paper"] {
            for metric in [
                "l1d_load_miss_percent",
                "l1i_miss_percent",
                "branch_mispredict_percent",
            ] {
                let percent = value(workload, "misses", metric, "platform", platform);
                assert!((0.0..30.0).contains(&percent), "{workload} {metric}: {percent}");
            }
        }
        let footprint = value(workload, "footprint", "bytes", "", "");
        assert!(
            (16_384.0..2e6).contains(&footprint) && footprint % 64.0 == 0.0,
            "{footprint}"
        );
    }
    // A larger first level misses less.
    let misses = |platform| value("utpcc", "misses", "l1d_load_miss_percent", "platform", platform);
    assert!(misses("paper") <= misses("this_machine"));
    let functions = rows.iter().filter(|row| {
        row.case == "functions" && row.text("workload") == "utpcc" && row.metric == "instructions_percent"
    });
    let sum: f64 = functions.filter_map(Row::median).sum();
    assert!((20.0..=100.001).contains(&sum), "{sum}");

    // Nothing is left in the folder, and no time is no error.
    let left: Vec<_> = std::fs::read_dir(scratch).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 0, "{left:?}");
    let late = Options {
        budget: Duration::ZERO,
        ..options(scratch)
    };
    let rows = simulated(&statements()[..1], &late).expect("rows");
    assert!(!rows.is_empty() && rows.iter().all(|row| row.label == Label::Unavailable));
    let no_times = Statement {
        executions: 0,
        ..statements().swap_remove(0)
    };
    assert!(simulated(&[no_times], &late).is_err_and(|error| error.is_usage()));
    let too_long = Options {
        run_within: Duration::ZERO,
        ..options(scratch)
    };
    let error = simulated(&statements()[..1], &too_long)
        .expect_err("no time")
        .to_string();
    assert!(error.contains("took longer"), "{error}");
    // The killed one leaves the folder usable.
    prepared(&["select 1"]).expect("it starts again");
}
