//! The suites `aggregate`, `ssb`, `tpch` and `h2o` end to end on tiny data: the promised rows and keys, cases, and runs that go on.

use corun_model::progress::Silent;
use corun_workloads::{groups, h2o, ssb, tpch};
use lab_core::row::Row;
use lab_core::suite::{self, Common, Suite, Threads};
use lab_engine::suites::aggregate::AggregateArgs;
use lab_engine::suites::h2o::H2oArgs;
use lab_engine::suites::ssb::SsbArgs;
use lab_engine::suites::tpch::TpchArgs;
use lab_engine::suites::workload::WorkloadArgs;

use crate::words;

fn quick_with(threads: &[usize], case: Option<&str>) -> WorkloadArgs {
    WorkloadArgs {
        common: Common::quick(case),
        threads: Threads {
            threads: threads.to_vec(),
        },
        ..WorkloadArgs::default()
    }
}

/// What ran before does not run again, and counts in the means.
#[test]
fn a_resumed_run_has_the_means_of_all_queries() {
    let all = SsbArgs {
        workload: quick_with(&[1], None),
        ..SsbArgs::default()
    };
    let mut first: Vec<Row> = Vec::new();
    suite::run(&all, &mut |row| first.push(row), &Silent).unwrap();
    let mut rest = all.clone();
    let recorded = first
        .iter()
        .filter(|row| row.case.starts_with("q1.") || row.case.starts_with("q2."));
    rest.workload.common.recorded = recorded.cloned().collect();
    let mut second: Vec<Row> = Vec::new();
    suite::run(&rest, &mut |row| second.push(row), &Silent).unwrap();
    assert!(
        second
            .iter()
            .all(|row| !row.case.starts_with("q1.") && !row.case.starts_with("q2."))
    );
    let mean = |row: &&Row| row.case.starts_with("geomean_all");
    let mean = second
        .iter()
        .find(mean)
        .and_then(|row| row.spread)
        .expect("a mean");
    assert_eq!(mean.n, ssb::QUERIES.len());
}

/// The suites end to end at the quick scale: right answers, the promised rows and keys.
#[test]
fn quick_suites_are_right_and_complete() {
    // Without DuckDB, whether it is here or not: its rows would come on top.
    let workload = WorkloadArgs {
        no_peers: true,
        ..quick_with(&[1, 2], None)
    };
    let ssb = SsbArgs {
        workload: workload.clone(),
        full: true,
    };
    let tpch = TpchArgs {
        workload: workload.clone(),
        full: true,
    };
    let aggregate = AggregateArgs {
        workload: workload.clone(),
        full: true,
    };
    let h2o = H2oArgs { workload, full: true };
    for (suite, queries) in [
        (Suite::Ssb, ssb::QUERIES.len()),
        (Suite::Tpch, tpch::QUERIES.len()),
        (Suite::Aggregate, groups::QUERIES.len()),
        (Suite::H2o, h2o::QUERIES.len()),
    ] {
        let mut rows: Vec<Row> = Vec::new();
        let sink = &mut |row| rows.push(row);
        let outcome = match suite {
            Suite::Ssb => suite::run(&ssb, sink, &Silent),
            Suite::Tpch => suite::run(&tpch, sink, &Silent),
            Suite::Aggregate => suite::run(&aggregate, sink, &Silent),
            _ => suite::run(&h2o, sink, &Silent),
        }
        .unwrap();
        assert!(outcome.is_ok(), "{:?}", outcome.failures);
        // In memory, from files, and from files whose columns are kept, with one and two partitions.
        let passes = 6;
        let count = |metric: &str| rows.iter().filter(|row| row.metric == metric).count();
        assert_eq!(count("ms"), passes * queries * 2);
        for metric in ["first_ms", "keeping_ms", "kept_bytes"] {
            assert_eq!(count(metric), passes / 3 * queries, "{metric}");
        }
        // Against DataFusion, the A/A control, and geometric means of each pass: of all queries, and of joins where there are any.
        let means = if suite == Suite::Aggregate { 1 } else { 2 };
        assert_eq!(count("ratio"), passes * (queries * 2 + means));
        for row in &rows {
            let json: serde_json::Value = serde_json::from_str(&row.to_json()).unwrap();
            for key in words("engine query scale_factor partitions label answer_ok") {
                assert!(json.get(key).is_some(), "{key} in {json}");
            }
        }
    }
}

#[test]
fn a_case_selects_queries_and_an_unknown_one_is_a_usage_error() {
    let case = |case: &str| SsbArgs {
        workload: quick_with(&[1], Some(case)),
        ..SsbArgs::default()
    };
    let mut cases: Vec<String> = Vec::new();
    suite::run(&case("q1.2_"), &mut |row: Row| cases.push(row.case), &Silent).unwrap();
    cases.dedup();
    assert_eq!(cases, ["q1.2_sf0.01_p1"]);
    assert!(
        suite::run(&case("q9"), &mut |_| {}, &Silent)
            .unwrap_err()
            .is_usage()
    );
    let mut args = case("q1.1");
    args.workload.scale = Some(0.0);
    assert!(suite::run(&args, &mut |_| {}, &Silent).unwrap_err().is_usage());
}

/// Several clients at once: right answers, and rows with their keys; DataFusion as it comes keeps nothing.
#[test]
fn clients_at_once_get_right_answers() {
    let mut args = SsbArgs {
        workload: quick_with(&[2], None),
        ..SsbArgs::default()
    };
    args.workload.clients = vec![3];
    let mut rows: Vec<Row> = Vec::new();
    let outcome = suite::run(&args, &mut |row| rows.push(row), &Silent).unwrap();
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    for kind in words("dashboards_zipf dashboards_distinct different") {
        let case = format!("{kind}_c3_sf0.01_p2_parquet");
        let of = |metric: &str, engine: &str| {
            let mut rows = rows.iter();
            rows.find(|row| row.case == case && row.metric == metric && row.engine() == engine)
                .and_then(Row::median)
        };
        for metric in words("ms_a_query latency_p99_ms kept_bytes") {
            assert!(of(metric, "corun").is_some(), "{metric} of {case}");
        }
        assert_eq!(of("kept_bytes", "datafusion"), Some(0.0));
        assert!(of("ratio", "corun").is_some(), "{case}");
    }
    let tpch = TpchArgs {
        workload: args.workload,
        ..TpchArgs::default()
    };
    let refused = suite::run(&tpch, &mut |_| {}, &Silent).unwrap_err();
    assert!(refused.is_usage(), "{refused}");
}

/// Cases with a limit of memory have names of their own, and DataFusion's sort-merge joins beside them.
#[test]
fn memory_may_be_limited() {
    let args = TpchArgs {
        workload: WorkloadArgs {
            // Enough for whoever wants some: what is tested is the cases.
            memory: vec![1 << 30],
            ..quick_with(&[2], None)
        },
        ..TpchArgs::default()
    };
    let mut rows: Vec<Row> = Vec::new();
    let outcome = suite::run(&args, &mut |row| rows.push(row), &Silent).unwrap();
    assert!(outcome.is_ok(), "{:?}", outcome.failures);
    let of = |engine: &str| {
        let engine = engine.to_owned();
        let times = rows.iter().filter(|row| row.metric == "ms");
        times.filter(move |row| row.engine() == engine && row.median().is_some())
    };
    assert_eq!(of("corun").count(), tpch::QUERIES.len());
    assert!(of("corun").all(|row| row.case.ends_with("_sf0.01_p2_parquet_1024mib")));
    assert_eq!(of("datafusion_sort_merge").count(), tpch::QUERIES.len());
}
