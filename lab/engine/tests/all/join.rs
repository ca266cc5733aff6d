//! The join suite end to end on small data: every key kind, corun and stock DataFusion, answers against the oracle.

use std::collections::BTreeSet;

use corun_model::progress::Silent;
use lab_core::row::{Label, Row};
use lab_core::run::Outcome;
use lab_core::suite::{Common, Threads, run};
use lab_engine::join::case::Tables;
use lab_engine::join::data::{JoinData, sql};
use lab_engine::join::keys::KeyKind;
use lab_engine::peers::sql::{DUCKDB, SqlPeer};
use lab_engine::query::{run_query, runtime};
use lab_engine::suites::join::{CORUN, DATAFUSION, FORCED_HASH, JoinArgs, engine, sum_text};

use corun_datafusion::Joins;

use crate::words;

fn run_suite(args: &JoinArgs) -> (Vec<Row>, Outcome) {
    let mut rows = Vec::new();
    let outcome = run(args, &mut |row| rows.push(row), &Silent).expect("the suite runs");
    (rows, outcome)
}

#[test]
fn quick_answers_are_right_for_every_key_kind_and_engine() {
    let args = JoinArgs {
        common: Common::quick(None),
        no_peers: true,
        threads: Threads { threads: vec![1, 2] },
        ..JoinArgs::default()
    };
    let (rows, outcome) = run_suite(&args);
    assert_eq!(outcome.failures, Vec::<String>::new());
    assert_eq!(outcome.rows, rows.len());
    let mut seen = BTreeSet::new();
    for row in rows
        .iter()
        .filter(|row| row.metric == "ns_per_probe_row" && row.label == Label::Measured)
    {
        assert_eq!(row.answer_ok, Some(true), "{}", row.to_json());
        let text = |key| row.parameter(key).map(ToString::to_string).unwrap_or_default();
        seen.insert((text("keys"), row.engine().to_string(), text("threads")));
    }
    for keys in KeyKind::ALL {
        for engine in [CORUN, DATAFUSION, FORCED_HASH] {
            for threads in ["1", "2"] {
                let wanted = (keys.name().to_string(), engine.to_string(), threads.to_string());
                assert!(seen.contains(&wanted), "no row for {wanted:?}");
            }
        }
    }
}

#[test]
fn every_comparison_has_ratios_and_its_control() {
    let args = JoinArgs {
        common: Common::quick(Some("zipf_12k")),
        no_peers: true,
        threads: Threads { threads: vec![1] },
        ..JoinArgs::default()
    };
    let (rows, outcome) = run_suite(&args);
    assert!(outcome.is_ok());
    let ratios: Vec<(String, String)> = rows
        .iter()
        .filter(|row| row.metric == "ratio" && row.case.starts_with("zipf"))
        .map(|row| (row.engine().to_string(), row.versus.clone().unwrap_or_default()))
        .collect();
    let pair = |subject: &str, other: &str| (subject.to_string(), other.to_string());
    assert_eq!(
        ratios,
        [
            pair(CORUN, "corun_portable"),
            pair(CORUN, DATAFUSION),
            pair(CORUN, FORCED_HASH),
            pair(DATAFUSION, DATAFUSION)
        ]
    );
}

#[test]
fn rows_carry_the_promised_keys() {
    let args = JoinArgs {
        common: Common::quick(Some("int2_1k")),
        no_peers: true,
        threads: Threads { threads: vec![2] },
        ..JoinArgs::default()
    };
    let (rows, _) = run_suite(&args);
    let rows: Vec<&Row> = rows
        .iter()
        .filter(|row| row.case.starts_with("int2_1k"))
        .collect();
    assert!(!rows.is_empty());
    for row in rows {
        let json: serde_json::Value = serde_json::from_str(&row.to_json()).expect("JSON");
        for key in words("suite case metric unit n min median max answer_ok label engine") {
            assert!(!json[key].is_null(), "{key} in {json}");
        }
        assert_eq!(json["threads"], 2);
        assert_eq!(json["build_rows"], 1000);
        assert_eq!(json["hit_rate"], 50);
        assert_eq!(json["keys"], "int2");
    }
}

#[test]
fn no_peer_gives_one_unavailable_row_or_measured_ones() {
    let args = JoinArgs {
        common: Common::quick(Some("sparse_12k_x_200k_hit100_t1")),
        threads: Threads { threads: vec![1] },
        ..JoinArgs::default()
    };
    let (rows, outcome) = run_suite(&args);
    assert_eq!(outcome.failures, Vec::<String>::new());
    let duckdb: Vec<&Row> = rows
        .iter()
        .filter(|row| row.engine() == "duckdb" && row.metric == "ns_per_probe_row")
        .collect();
    assert_eq!(duckdb.len(), 1);
    match SqlPeer::start(&DUCKDB) {
        Ok(_) => assert_eq!(
            (duckdb[0].label, duckdb[0].answer_ok),
            (Label::Measured, Some(true))
        ),
        Err(_) => {
            assert_eq!(duckdb[0].label, Label::Unavailable);
            let reason = duckdb[0]
                .parameter("reason")
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(reason.contains("scripts/bootstrap --peers"), "{reason}");
        }
    }
}

/// For equal sizes only the order in the query decides which side is built on, and every engine must build on `b`.
#[test]
fn equal_sizes_build_on_b() {
    let tables = Tables {
        keys: KeyKind::Sparse,
        build_rows: 200_000,
        probe_rows: 200_000,
        hit_rate: 100,
    };
    let data = JoinData::generate(&tables, 5, &Silent).expect("data");
    let query = sql(tables.keys, false);
    let runtime = runtime(2).expect("threads");
    for threads in [1, 2] {
        let stock = engine(&data, Joins::Stock, false, threads).expect("an engine");
        let plan = runtime.block_on(stock.explain(&query, false)).expect("a plan");
        assert!(plan.contains("on=[(k@0, pk@0)]"), "{plan}");
        let output = run_query(&runtime, &stock, &query).expect("an answer");
        assert_eq!(sum_text(&output), data.expected);
    }
    if let Ok(mut duckdb) = SqlPeer::start(&DUCKDB) {
        duckdb
            .load("b", &data.build.schema, &data.build.batches)
            .expect("loaded");
        duckdb
            .load("p", &data.probe.schema, &data.probe.batches)
            .expect("loaded");
        let plan = duckdb.explain(&sql(tables.keys, true)).expect("a plan");
        let (probe, build) = (plan.find("memory.main.p"), plan.find("memory.main.b"));
        assert!(
            probe.is_some() && probe < build,
            "the right child, drawn later, is the build side: {plan}"
        );
    }
}

/// Forcing the hash must really keep DataFusion from its array: the metrics of the join say which one ran.
#[test]
fn forced_hash_does_not_use_the_array() {
    let tables = Tables {
        keys: KeyKind::Dense,
        build_rows: 5_000,
        probe_rows: 50_000,
        hit_rate: 100,
    };
    let data = JoinData::generate(&tables, 6, &Silent).expect("data");
    let runtime = runtime(1).expect("threads");
    let metric = |force_hash: bool| {
        let engine = engine(&data, Joins::Stock, force_hash, 1).expect("an engine");
        let plan = runtime
            .block_on(engine.explain(&sql(tables.keys, false), true))
            .expect("a plan");
        let line = plan
            .lines()
            .find(|line| line.contains("HashJoinExec"))
            .map(str::to_string);
        line.unwrap_or_else(|| panic!("no hash join in {plan}"))
    };
    assert!(
        metric(false).contains("array_map_created_count=1"),
        "{}",
        metric(false)
    );
    assert!(
        metric(true).contains("array_map_created_count=0"),
        "{}",
        metric(true)
    );
}

/// The table alone finds the join's pairs, and is compared with the floor.
#[test]
fn the_probe_alone_stands_beside_the_floor() {
    let args = JoinArgs {
        common: Common::quick(Some("probe_only_sparse_12k")),
        no_peers: true,
        threads: Threads { threads: vec![1, 2] },
        ..JoinArgs::default()
    };
    let (rows, outcome) = run_suite(&args);
    assert_eq!(outcome.failures, Vec::<String>::new());
    for threads in ["1", "2"] {
        let of_threads: Vec<&Row> = rows
            .iter()
            .filter(|row| {
                row.parameter("threads")
                    .is_some_and(|value| value.to_string() == threads)
            })
            .collect();
        assert!(of_threads.iter().all(|row| row.answer_ok == Some(true)));
        let has = |engine: &str, metric: &str| {
            of_threads
                .iter()
                .any(|row| row.engine() == engine && row.metric == metric)
        };
        assert!(has("build_only", "ns_per_build_row"));
        assert!(has("probe_only", "ns_per_probe_row") && has("floor", "ns_per_probe_row"));
        assert!(
            of_threads
                .iter()
                .any(|row| row.versus.as_deref() == Some("floor"))
        );
    }
}

/// The plan without its join passes every probe row, at every thread count.
#[test]
fn the_plan_floor_passes_every_probe_row() {
    let args = JoinArgs {
        common: Common::quick(Some("plan_floor")),
        no_peers: true,
        threads: Threads { threads: vec![1, 2] },
        ..JoinArgs::default()
    };
    let (rows, outcome) = run_suite(&args);
    assert_eq!(outcome.failures, Vec::<String>::new());
    let measured = rows
        .iter()
        .filter(|row| row.engine() == "plan_floor" && row.metric == "ns_per_probe_row");
    assert!(measured.count() >= 4);
}
