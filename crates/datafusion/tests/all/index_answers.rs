//! Joins through an index give the stock join's rows: every join type that can use one, over data with duplicates and
//! NULLs, conditions on either side, filtered and projected tables, batch sizes and partitions.

use crate::common::{Table, engine, lines, table};
use corun_datafusion::{Engine, Joins};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

const KEYS: &[&str] = &[
    "a_id = b_id",
    "a_i = b_i",
    "a_n = b_n",
    "a_w = b_w",
    "a_f = b_f",
    "a_i = b_i and a_n = b_n",
    "a_n = b_n and a_s = b_s and a_f = b_f",
    "a_i = b_i and a_id < b_id",
    "a_n = b_n and a_id % 3 <> b_id % 2 and a_v = b_v",
    "a_i + 1 = b_i",
    "a_i = b_n",
];

/// Where the joined rows come from: the tables, and the tables under filters and projections.
const SOURCES: &[(&str, &str)] = &[
    ("a", "b"),
    (
        "a",
        "(select b_id, b_n, b_i, b_w, b_f, b_s, b_v from b where b_id % 4 <> 1 and (b_i > 7 or b_n is null))",
    ),
    ("(select * from a where a_w is not null and a_id > 9)", "b"),
    ("(select *, a_id * 2 as twice from a where a_s is not null)", "b"),
];

fn statements() -> Vec<String> {
    let mut all = Vec::new();
    for (number, on) in KEYS.iter().enumerate() {
        let (a, b) = SOURCES[number % SOURCES.len()];
        for (a, b) in [("a", "b"), (a, b)] {
            for kind in ["inner", "left", "right", "full"] {
                all.push(format!("select * from {a} as a {kind} join {b} as b on {on}"));
            }
            for kind in ["left semi", "left anti"] {
                all.push(format!("select * from {a} as a {kind} join {b} as b on {on}"));
                all.push(format!("select * from {b} as b {kind} join {a} as a on {on}"));
            }
        }
        all.push(format!(
            "select a_id from a where a_id % 7 = 0 or exists (select 1 from b where {on})"
        ));
        all.push(format!(
            "select a_n, count(*), sum(b_id) from a join b on {on} group by a_n"
        ));
        all.push(format!(
            "select a_id, b_id from a join b on {on} order by a_id, b_id limit 13"
        ));
    }
    all.push("select a_id from a where a_i not in (select b_i from b)".into());
    all.push(
        "select count(*) from a join b as x on a_i = x.b_i join b as y on x.b_n = y.b_n and y.b_id < 30"
            .into(),
    );
    all
}

/// Two engines with the same tables; the second with indexes and joins through them wherever possible.
async fn engines(case: &Case, a: &Table, b: &Table) -> (Engine, Engine) {
    let tables = [("a", a), ("b", b)];
    let mut settings = vec![("corun.index_join", "on")];
    // So small a cache lets lookups be prefetched; 0 asks the machine.
    settings.push(("corun.l2_bytes", if case.prefetched { "1" } else { "0" }));
    settings.push(("corun.streaming", if case.streaming { "on" } else { "off" }));
    if case.partitioned {
        settings.push(("datafusion.optimizer.hash_join_single_partition_threshold", "0"));
        settings.push((
            "datafusion.optimizer.hash_join_single_partition_threshold_rows",
            "0",
        ));
    }
    let (partitions, batch_size) = (case.partitions, case.batch_size);
    let stock = engine(Joins::Stock, partitions, batch_size, &settings, &tables);
    let corun = engine(Joins::Corun, partitions, batch_size, &settings, &tables);
    for column in ["id", "i", "n", "w", "f"] {
        for table in ["a", "b"].iter().filter(|table| case.indexed.contains(**table)) {
            corun
                .create_index(table, &format!("{table}_{column}"))
                .await
                .unwrap();
        }
    }
    (stock, corun)
}

#[derive(Debug, Clone)]
struct Case {
    a_rows: usize,
    b_rows: usize,
    domain: u32,
    a_partitions: usize,
    b_partitions: usize,
    seed: u8,
    partitions: usize,
    batch_size: usize,
    indexed: &'static str,
    partitioned: bool,
    prefetched: bool,
    streaming: bool,
}

/// Values of a key that keep the batches of one statement's rows near 2,000: a case has about 200 statements.
fn fewest_values(pairs: usize, batch_size: usize) -> u32 {
    (pairs / (2_000 * batch_size)) as u32
}

fn cases() -> impl Strategy<Value = Case> {
    let data = (
        0..260_usize,
        0..260_usize,
        1..80_u32,
        1..4_usize,
        1..4_usize,
        0..250_u8,
    );
    let how = (
        1..=4_usize,
        prop_oneof![Just(1_usize), 2..9_usize, Just(8192)],
        prop_oneof![Just("a"), Just("b"), Just("ab")],
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    (data, how).prop_map(|(data, how)| Case {
        a_rows: data.0,
        b_rows: data.1,
        domain: data.2.max(fewest_values(data.0 * data.1, how.1)),
        a_partitions: data.3,
        b_partitions: data.4,
        seed: data.5,
        partitions: how.0,
        batch_size: how.1,
        indexed: how.2,
        partitioned: how.3,
        prefetched: how.4,
        streaming: how.5,
    })
}

async fn check(case: &Case) -> TestCaseResult {
    let a = table("a", case.a_rows, case.domain, case.a_partitions, case.seed);
    let b = table("b", case.b_rows, case.domain, case.b_partitions, case.seed + 1);
    let (stock, corun) = engines(case, &a, &b).await;
    for sql in statements() {
        match (stock.query(&sql).await, corun.query(&sql).await) {
            (Ok(want), Ok(got)) => {
                prop_assert_eq!(lines(&got), lines(&want), "{}\n{:?}", sql, case);
                prop_assert_eq!(got.schema, want.schema, "{}", sql);
                let plan = corun.explain(&sql, false).await.unwrap();
                if plan.starts_with("IndexJoinExec") {
                    let largest = got.batches.iter().map(|batch| batch.num_rows()).max();
                    prop_assert!(largest.unwrap_or(0) <= case.batch_size, "{}: {:?}", sql, largest);
                }
            }
            (want, got) => prop_assert!(false, "{}: stock {:?}, corun {:?}", sql, want, got),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tables_and_layouts(case in cases()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(check(&case))?;
    }
}

/// A join over one partition, with two below its exchange, under an aggregate that counts on one: found by the test above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_partition_above_several_stays_one() {
    let case = Case {
        a_rows: 0,
        b_rows: 1,
        domain: 3,
        a_partitions: 1,
        b_partitions: 2,
        seed: 203,
        partitions: 1,
        batch_size: 1,
        indexed: "a",
        partitioned: true,
        prefetched: false,
        streaming: false,
    };
    check(&case).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_join_type_that_can_uses_the_index() {
    let (a, b) = (table("a", 300, 90, 2, 1), table("b", 200, 90, 2, 2));
    let case = Case {
        a_rows: 300,
        b_rows: 200,
        domain: 90,
        a_partitions: 2,
        b_partitions: 2,
        seed: 1,
        partitions: 2,
        batch_size: 8192,
        indexed: "b",
        partitioned: false,
        prefetched: true,
        streaming: true,
    };
    let (_, corun) = engines(&case, &a, &b).await;
    let used = async |sql: &str| corun.explain(sql, false).await.unwrap().contains("IndexJoinExec");
    for sql in [
        "select * from a join b on a_i = b_i",
        "select * from a left join b on a_i = b_i",
        "select * from b right join a on a_i = b_i",
        "select * from a left semi join b on a_i = b_i and b_id > 5",
        "select * from a left anti join b on a_f = b_f and a_id <> b_id",
        "select a_id from a where a_id = 1 or exists (select 1 from b where a_n = b_n)",
        "select * from a join (select b_i, b_s from b where b_s <> '' and b_id > 3) on a_i = b_i and a_s = b_s",
    ] {
        assert!(used(sql).await, "{sql}");
    }
    for sql in [
        "select * from a full join b on a_i = b_i",
        "select * from b left join a on a_i = b_i",
        "select * from b left anti join a on a_i = b_i",
        "select * from a join b on a_s = b_s",
        "select * from a join b on a_i is not distinct from b_i",
        "select * from a join (select distinct b_i from b) on a_i = b_i",
        "select * from a join (select b_i + 1 as k from b) on a_i = k",
        "select * from a join (select b_i from b limit 3) on a_i = b_i",
        "select * from a where a_i not in (select b_i from b)",
    ] {
        assert!(!used(sql).await, "{sql}");
    }
    for setting in ["set corun.index_join = 'off'", "set corun.join = 'off'"] {
        corun.query("set corun.index_join = 'on'").await.unwrap();
        corun.query(setting).await.unwrap();
        assert!(!used("select * from a join b on a_i = b_i").await, "{setting}");
    }
    assert!(corun.query("set corun.index_join = 'sometimes'").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tight_pool_ends_in_its_error_or_the_answer() {
    // One key for all rows of the table: its rows beyond a batch are kept between steps, and paid for.
    let (a, b) = (table("a", 3, 1, 1, 3), table("b", 30_000, 1, 2, 4));
    let sql = "select count(*), sum(b_id) from a join b on a_i = b_i and a_id >= 0";
    let want = {
        let engine = engine(Joins::Stock, 2, 64, &[], &[("a", &a), ("b", &b)]);
        lines(&engine.query(sql).await.unwrap())
    };
    let mut outcomes = [0, 0];
    for kibibytes in [1, 16, 32, 64, 128, 1024, 4096] {
        let options = corun_datafusion::EngineOptions {
            partitions: 2,
            batch_size: 64,
            memory_limit_bytes: Some(16 << 20),
            settings: vec![("corun.index_join".into(), "on".into())],
            ..corun_datafusion::EngineOptions::default()
        };
        let engine = Engine::new(&options).unwrap();
        for (name, table) in [("a", &a), ("b", &b)] {
            let (schema, rows) = (table.schema.clone(), table.partitions.clone());
            engine.register_batches(name, schema, rows).unwrap();
        }
        engine.create_index("b", "b_i").await.unwrap();
        let limit = format!("set datafusion.runtime.memory_limit = '{kibibytes}K'");
        engine.query(&limit).await.unwrap();
        match engine.query(sql).await {
            Ok(got) => {
                outcomes[0] += 1;
                assert_eq!(lines(&got), want);
            }
            Err(error) => {
                outcomes[1] += 1;
                assert!(error.resources_exhausted, "{error}");
            }
        }
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_does_not_fit_the_pool_is_not_made() {
    let b = table("b", 30_000, 100, 2, 5);
    let options = corun_datafusion::EngineOptions {
        memory_limit_bytes: Some(64 << 10),
        ..corun_datafusion::EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    engine
        .register_batches("b", b.schema.clone(), b.partitions.clone())
        .unwrap();
    let error = engine.create_index("b", "b_i").await.unwrap_err();
    assert!(error.resources_exhausted, "{error}");
    let rows = engine.query("select count(*) from b").await.unwrap();
    assert_eq!(lines(&rows), ["30000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_ends_the_join() {
    use futures::StreamExt;
    let (a, b) = (table("a", 2000, 3, 2, 6), table("b", 2000, 3, 2, 7));
    let engine = engine(
        Joins::Corun,
        2,
        16,
        &[("corun.index_join", "on")],
        &[("a", &a), ("b", &b)],
    );
    engine.create_index("b", "b_i").await.unwrap();
    let (_, mut stream) = engine
        .stream("select * from a join b on a_i = b_i")
        .await
        .unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().num_rows(), 16);
    drop(stream);
    let rows = engine
        .query("select count(*) from a join b on a_id = b_id")
        .await
        .unwrap();
    assert_eq!(lines(&rows), ["2000"]);
}
