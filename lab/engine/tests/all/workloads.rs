//! All SSB and TPC-H queries, stock and corun, against recorded answers, an oracle, and each other: over partitions,
//! batch sizes, memory limits and files. Answers only, no timing.

mod checked;
mod h2o;

use corun_datafusion::{Engine, EngineOptions};
use corun_model::progress::Silent;
use corun_workloads::answers::{fingerprint_of_rows, sorted_rows};
use corun_workloads::dataset::table_folder;
use corun_workloads::oracle::{Database, ssb_answer};
use corun_workloads::ssb::{self, Ssb};
use corun_workloads::tpch::{self, Tpch};

use checked::{Checked, KINDS, Kind, check_all, engine, few_orders, recorded, run, tiny_ssb};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssb_answers_are_the_oracles() {
    let data = tiny_ssb().dataset(2, 2, &Silent);
    let database = Database::read(&data);
    for kind in KINDS {
        let engine = engine(&data, &kind.options(2));
        for (name, sql) in ssb::QUERIES {
            let output = run(&engine, sql).await.unwrap();
            let expected = ssb_answer(&database, name).unwrap();
            assert_eq!(sorted_rows(&output.batches), expected, "{name} with {kind:?}");
        }
    }
}

/// The recorded answers come from the engine; at the recorded scale too they are what the loops say.
#[test]
fn recorded_ssb_answers_are_the_oracles() {
    let database = Database::read(&Ssb::new(0.01).unwrap().dataset(1, 2, &Silent));
    for (name, _) in ssb::QUERIES {
        let rows = ssb_answer(&database, name).unwrap();
        let recorded = ssb::recorded(0.01, name).unwrap();
        assert_eq!(fingerprint_of_rows(&rows), recorded.answer, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssb_over_partitions_and_batch_sizes() {
    check_all(&Checked::ssb(), &[7, 8192]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_over_partitions_and_batch_sizes() {
    // Batches of seven rows at this scale would be too much for stock DataFusion: see `few_orders`.
    check_all(&Checked::tpch(), &[8192]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_one_row_and_of_seven() {
    let data = tiny_ssb().dataset(1, 2, &Silent);
    let ssb = Checked::against_stock(data, ssb::QUERIES, ssb::order_by).await;
    check_all(&ssb, &[1]).await;
    let tpch = Checked::against_stock(few_orders(), tpch::QUERIES, tpch::order_by).await;
    check_all(&tpch, &[1, 7]).await;
}

/// Little memory: the right answer or the resources error, never a wrong answer, an abort or a hang.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tight_memory() {
    for checked in [Checked::ssb(), Checked::tpch()] {
        for kind in KINDS {
            let mut refused_by_limit = Vec::new();
            for limit in [16 << 10, 256 << 10, 1 << 20, 4 << 20, 1 << 30] {
                for partitions in [1, 3] {
                    let memory_limit_bytes = Some(limit);
                    let options = EngineOptions {
                        memory_limit_bytes,
                        ..kind.options(partitions)
                    };
                    refused_by_limit.push(checked.check(&options).await);
                }
            }
            // The limits must matter: some queries give up at the smallest, none at the largest.
            let (first, last) = (refused_by_limit[0], refused_by_limit[refused_by_limit.len() - 1]);
            assert!(first > 0 && last == 0, "{kind:?}: {refused_by_limit:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_files() {
    let folder = tempfile::tempdir().unwrap();
    let (ssb, tpch) = (Checked::ssb(), Checked::tpch());
    let (ssb_folder, tpch_folder) = (folder.path().join("ssb"), folder.path().join("tpch"));
    Ssb::new(0.01)
        .unwrap()
        .write_parquet(&ssb_folder, 3, 2, &Silent)
        .unwrap();
    Tpch::new(0.01)
        .unwrap()
        .write_parquet(&tpch_folder, 3, 2, &Silent)
        .unwrap();
    for (checked, folder) in [(ssb, ssb_folder), (tpch, tpch_folder)] {
        for kind in KINDS {
            let options = kind.options(2);
            let engine = Engine::new(&options).unwrap();
            for table in &checked.data.tables {
                engine
                    .register_path(table.name, &table_folder(&folder, table.name))
                    .await
                    .unwrap();
            }
            checked.check_on(&engine, &options).await;
        }
    }
}

/// Queries of all kinds of joins at once on shared tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_queries() {
    let checked = Checked::ssb();
    let mut running = Vec::new();
    for kind in KINDS {
        let engine = engine(&checked.data, &kind.options(2));
        for (name, sql) in ssb::QUERIES {
            let engine = engine.clone();
            running.push((name, kind, tokio::spawn(async move { run(&engine, sql).await })));
        }
    }
    for (name, kind, query) in running {
        let output = query.await.unwrap().unwrap();
        assert_eq!(
            recorded(&output, ssb::order_by(name)),
            checked.answers[name],
            "{name} with {kind:?}"
        );
    }
}

/// Answers are compared as text, which is safe only while floats are no sums of floats, whose last bits depend on the
/// order: Q14 and Q17 divide exact decimal sums by a literal, and no other query returns floats.
#[tokio::test]
async fn floats_come_from_exact_sums_only() {
    for checked in [Checked::ssb(), Checked::tpch()] {
        let engine = engine(&checked.data, &EngineOptions::default());
        for (name, sql) in checked.queries {
            let output = run(&engine, sql).await.unwrap();
            let floats = output
                .schema
                .fields()
                .iter()
                .filter(|field| field.data_type().is_floating());
            assert!(floats.count() == 0 || ["q14", "q17"].contains(name), "{name}");
        }
    }
}

#[tokio::test]
async fn plq_grows_with_k() {
    let checked = Checked::ssb();
    let engine = engine(&checked.data, &EngineOptions::default());
    let mut last = 0;
    for k in [1, 2, 3, 10, ssb::PLQ_TERMS_MAX] {
        let output = run(&engine, &ssb::plq(k)).await.unwrap();
        let sum: i64 = sorted_rows(&output.batches)[0].parse().unwrap();
        assert!(sum > last, "k = {k}");
        last = sum;
    }
    let all = run(&engine, "select sum(lo_revenue) from lineorder")
        .await
        .unwrap();
    assert_eq!(sorted_rows(&all.batches), [last.to_string()]);
}

/// Both names of the date table, with and without quotes.
#[tokio::test]
async fn the_date_table_has_two_names() {
    let checked = Checked::ssb();
    let engine = engine(&checked.data, &EngineOptions::default());
    for table in ["date", "\"date\"", "dates"] {
        let output = run(&engine, &format!("select count(*) from {table}"))
            .await
            .unwrap();
        assert_eq!(sorted_rows(&output.batches), ["2556"], "{table}");
    }
}

/// The kinds differ in what runs, so that the tests above compare what they say.
#[tokio::test]
async fn kinds_plan_different_joins() {
    let checked = Checked::ssb();
    for (kind, corun, stock) in [(Kind::Stock, false, true), (Kind::Always, true, false)] {
        let engine = engine(&checked.data, &kind.options(2));
        for (name, sql) in ssb::QUERIES {
            let plan = engine.explain(sql, false).await.unwrap();
            assert_eq!(
                plan.contains("CorunJoinExec"),
                corun,
                "{name} with {kind:?}: {plan}"
            );
            assert_eq!(
                plan.contains(" HashJoinExec"),
                stock,
                "{name} with {kind:?}: {plan}"
            );
        }
    }
}
