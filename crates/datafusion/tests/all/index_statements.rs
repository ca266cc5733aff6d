//! `CREATE INDEX` while other statements use its table.

use crate::common::{engine, lines};
use corun_datafusion::{Engine, Joins};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

async fn count(engine: &Engine) -> String {
    lines(&engine.query("select count(*) from t").await.unwrap()).remove(0)
}

/// A table `t` of so many rows.
async fn table(rows: usize) -> Engine {
    let engine = engine(Joins::Corun, 2, 1024, &[], &[]);
    let sql = format!("create table t as select value as k, value % 7 as v from generate_series(1, {rows})");
    engine.query(&sql).await.unwrap();
    engine
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_inserted_meanwhile_are_not_lost_and_the_table_is_always_there() {
    let engine = table(20_000).await;
    let (inserted, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = {
        let (engine, inserted, ends) = (engine.session(), Arc::clone(&inserted), Arc::clone(&ends));
        tokio::spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                match engine.query("insert into t values (0, 0)").await {
                    Ok(_) => _ = inserted.fetch_add(1, Ordering::Relaxed),
                    Err(error) => assert!(error.primary.contains("with an index"), "{error}"),
                }
            }
        })
    };
    let reader = {
        let (engine, ends) = (engine.session(), Arc::clone(&ends));
        tokio::spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                engine.query("select max(v) from t").await.unwrap();
            }
        })
    };
    for _ in 0..50 {
        engine.query("create index i on t (k)").await.unwrap();
        tokio::task::yield_now().await;
        engine.query("drop index i").await.unwrap();
        tokio::task::yield_now().await;
    }
    ends.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    reader.await.unwrap();
    let want = 20_000 + inserted.load(Ordering::Relaxed);
    assert_eq!(count(&engine).await, want.to_string());
}

#[tokio::test]
async fn an_index_waits_for_an_insertion_and_gives_up_after_a_while() {
    let engine = table(100).await;
    let begun = engine.stream("insert into t values (1, 1)").await.unwrap();
    let error = engine.create_index("t", "k").await.unwrap_err();
    assert!(
        error.primary.contains("have been changing tables") && error.hint.is_some(),
        "{error}"
    );
    drop(begun);
    engine.create_index("t", "k").await.unwrap();
    assert_eq!(count(&engine).await, "100");
}
