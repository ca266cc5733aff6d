//! Statements of several sessions share what they make: right rows whatever happens to who makes them and to what they read.

use crate::common::{Table, engine, lines, table};
use corun_datafusion::{Engine, EngineOptions, Joins};
use futures::StreamExt;
use std::sync::Arc;

const SHARED: (&str, &str) = ("corun.share_work", "on");

fn data() -> (Table, Table) {
    (table("a", 3000, 200, 3, 41), table("b", 500, 200, 2, 42))
}

fn sharing(partitions: usize, batch_size: usize) -> Engine {
    let (a, b) = data();
    engine(
        Joins::Corun,
        partitions,
        batch_size,
        &[SHARED],
        &[("a", &a), ("b", &b)],
    )
}

const GROUPS: &str =
    "select a_i, count(*), sum(b_id) from a join b on a_i = b_i group by a_i order by a_i limit 50";

async fn answer(engine: &Engine, sql: &str) -> Vec<String> {
    lines(&engine.query(sql).await.unwrap())
}

async fn plan(engine: &Engine, sql: &str) -> String {
    engine.explain(sql, false).await.unwrap()
}

/// Where the rows of a statement would come from now.
async fn origin(engine: &Engine, sql: &str) -> &'static str {
    let plan = plan(engine, sql).await;
    match plan {
        plan if plan.contains("kept from another statement") => "kept",
        plan if plan.contains("run by another statement") => "under way",
        plan if plan.contains("CorunSharedExec") => "here",
        _ => "alone",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_comes_again_is_answered_from_what_was_kept() {
    let (a, b) = data();
    let tables = [("a", &a), ("b", &b)];
    for (partitions, batch_size) in [(1, 8192), (2, 100), (3, 7), (7, 8192)] {
        let stock = engine(Joins::Stock, partitions, batch_size, &[], &tables);
        let corun = engine(Joins::Corun, partitions, batch_size, &[SHARED], &tables);
        for sql in [
            GROUPS,
            "select a_i, count(*) from a join b on a_i = b_i group by a_i having count(*) > 3",
            "select count(*), min(a_s) from a join b on a_i = b_i",
            "select x.a_id, b_id from a x left join b on x.a_id = b_id",
            "select a_id, row_number() over (partition by a_i order by a_id) from a",
            "select distinct a_i from a",
            "select s + (select count(*) from b where b_id > 3) from (select sum(a_id) as s from a)",
            "select a_i, sum(a_id) over () from (select distinct a_i, a_id from a) order by a_i, a_id limit 20",
            "with g as (select a_i as k, count(*) as n from a group by a_i) select x.k, sum(y.n) from g x join g y on x.n = y.n group by x.k",
        ] {
            let want = answer(&stock, sql).await;
            for _ in 0..3 {
                assert_eq!(
                    answer(&corun, sql).await,
                    want,
                    "{sql}, partitions {partitions}, batch {batch_size}"
                );
            }
            assert_eq!(origin(&corun, sql).await, "kept", "{sql}");
            let session = corun.session();
            assert_eq!(origin(&session, sql).await, "kept", "{sql}: another session");
            assert_eq!(answer(&session, sql).await, want, "{sql}");
        }
    }
}

/// By default the first one pays nothing for what may never be asked again.
#[tokio::test]
async fn only_what_comes_a_second_time_is_kept() {
    let (a, b) = data();
    let auto = ("corun.share_work", "auto");
    let engine = engine(Joins::Corun, 2, 8192, &[auto], &[("a", &a), ("b", &b)]);
    assert_eq!(origin(&engine, GROUPS).await, "alone");
    let want = answer(&engine, GROUPS).await;
    assert_eq!(answer(&engine, GROUPS).await, want);
    assert_eq!(origin(&engine, GROUPS).await, "kept");
    engine.query("set corun.share_work = off").await.unwrap();
    assert_eq!(origin(&engine, GROUPS).await, "alone");
}

#[tokio::test]
async fn what_may_differ_is_not_taken_from_others() {
    let engine = sharing(2, 8192);
    for sql in [
        "select a_i, count(*), sum(random()) from a group by a_i",
        "select a_i, count(*) from a where a_id > (select avg(b_id) from b) group by a_i",
        "select a_id from a where a_i = 1",
    ] {
        answer(&engine, sql).await;
        assert_eq!(origin(&engine, sql).await, "alone", "{sql}");
    }
    // Another text of the same statement is the same; another constant, table or setting is not.
    answer(&engine, GROUPS).await;
    assert_eq!(
        origin(&engine, &GROUPS.to_uppercase().replace("A_I", "a_i")).await,
        "kept"
    );
    assert_eq!(
        origin(&engine, &GROUPS.replace("limit 50", "limit 51")).await,
        "kept"
    );
    assert_eq!(
        origin(&engine, &GROUPS.replace("sum(b_id)", "sum(b_id + 1)")).await,
        "here"
    );
    engine
        .query("set datafusion.execution.time_zone = '+02:00'")
        .await
        .unwrap();
    assert_eq!(origin(&engine, GROUPS).await, "here");
    engine
        .query("set datafusion.execution.time_zone = '+00:00'")
        .await
        .unwrap();
    let b = table("b", 500, 200, 2, 43);
    engine.query("drop table b").await.unwrap();
    engine
        .register_batches("b", Arc::clone(&b.schema), b.partitions.clone())
        .unwrap();
    assert_eq!(origin(&engine, GROUPS).await, "here");
}

#[tokio::test]
async fn changed_tables_and_files_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.csv");
    let write = |rows: &[(i32, i32)]| {
        let lines: String = rows.iter().map(|(k, v)| format!("{k},{v}\n")).collect();
        // As people replace files: a new one takes the place of the old.
        let new = folder.path().join("new");
        std::fs::write(&new, format!("k,v\n{lines}")).unwrap();
        std::fs::rename(&new, &file).unwrap();
    };
    let engine = sharing(2, 8192);
    write(&[(1, 10), (1, 20), (2, 30)]);
    engine.register_path("t", &file).await.unwrap();
    let sql = "select k, sum(v) from t group by k";
    let before = answer(&engine, sql).await;
    assert_eq!(origin(&engine, sql).await, "kept");
    let modified = file.metadata().unwrap().modified().unwrap();
    // The same length and time.
    write(&[(1, 11), (1, 21), (2, 31)]);
    std::fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    assert_eq!(origin(&engine, sql).await, "here");
    let after = answer(&engine, sql).await;
    assert_ne!(before, after);
    assert!(after.iter().any(|line| line.contains("32")), "{after:?}");

    engine.query("create table m as select * from t").await.unwrap();
    let sql = "select k, sum(v) from m group by k";
    assert_eq!(answer(&engine, sql).await, after);
    assert_eq!(origin(&engine, sql).await, "kept");
    engine.query("insert into m values (2, 1000)").await.unwrap();
    assert_eq!(origin(&engine, sql).await, "here");
    assert!(
        answer(&engine, sql)
            .await
            .iter()
            .any(|line| line.contains("1031"))
    );
}

#[cfg(feature = "store")]
#[tokio::test]
async fn a_store_is_read_again_after_a_commit() {
    use corun_store::{Options, Store, TableDef, Type};
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = TableDef::new("t").column("k", Type::I64).column("v", Type::I64);
    let table = store.create_table(definition.primary_key(&["k"])).unwrap();
    let insert = |keys: std::ops::Range<i64>| {
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        for key in keys {
            let mut row = table.new_row();
            row.set(0, key).unwrap();
            row.set(1, key % 3).unwrap();
            transaction.insert(&table, &row).unwrap();
        }
        transaction.commit().unwrap();
    };
    insert(0..100);
    let engine = sharing(2, 8192);
    engine.attach_store(&store).unwrap();
    let sql = "select v, count(*) from t group by v order by v";
    let before = answer(&engine, sql).await;
    assert_eq!(origin(&engine, sql).await, "kept");
    insert(100..200);
    assert_eq!(origin(&engine, sql).await, "here");
    assert_ne!(answer(&engine, sql).await, before);
}

/// A transaction's snapshot shows rows that are nobody else's, and has the number of a commit that others read at.
#[cfg(feature = "store")]
#[tokio::test]
async fn what_a_transaction_has_written_is_shared_with_nobody() {
    use corun_datafusion::store::StoreTable;
    use corun_store::{Options, Store, TableDef, Type};
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = TableDef::new("t").column("k", Type::I64).column("v", Type::I64);
    let table = store.create_table(definition.primary_key(&["k"])).unwrap();
    let mut session = store.session_here().unwrap();
    let insert = |transaction: &corun_store::Transaction<'_>, key: i64| {
        let mut row = table.new_row();
        row.set(0, key).unwrap();
        row.set(1, key % 3).unwrap();
        transaction.insert(&table, &row).map(drop)
    };
    session
        .run(|transaction| (0..100).try_for_each(|key| insert(transaction, key)))
        .unwrap();
    let engine = sharing(2, 8192);
    let at = |moment: corun_store::Snapshot| {
        let context = engine.session_context();
        let _ = context.deregister_table("t").unwrap();
        let table = StoreTable::new(&store, &table).at(Arc::new(moment));
        context.register_table("t", Arc::new(table)).unwrap();
    };
    let sql = "select v, count(*) from t group by v order by v";
    let transaction = session.begin().unwrap();
    insert(&transaction, 100).unwrap();
    let own = transaction.snapshot().unwrap();
    let others = store.snapshot().unwrap();
    assert_eq!(own.ts(), others.ts());
    at(own);
    assert_eq!(answer(&engine, sql).await, ["0|34", "1|34", "2|33"]);
    assert_ne!(origin(&engine, sql).await, "kept");
    at(others);
    assert_eq!(answer(&engine, sql).await, ["0|34", "1|33", "2|33"]);
    assert_eq!(origin(&engine, sql).await, "kept");
    at(transaction.snapshot().unwrap());
    assert_ne!(origin(&engine, sql).await, "kept");
    assert_eq!(answer(&engine, sql).await, ["0|34", "1|34", "2|33"]);
}

/// Who began goes away in the middle; who came later gets all rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_makers_end_is_not_the_others() {
    let engine = sharing(2, 7);
    let sql = "select a.a_id, b_id from a join b on a_i = b_i";
    let (a, b) = data();
    let stock = crate::common::engine(Joins::Stock, 2, 8192, &[], &[("a", &a), ("b", &b)]);
    let want = answer(&stock, sql).await;
    for taken in [0, 1, 5] {
        // Larger than what may be kept, so that each round makes it anew.
        engine.query("set corun.shared_work_bytes = 40000").await.unwrap();
        let (_, mut maker) = engine.stream(sql).await.unwrap();
        for _ in 0..taken {
            maker.next().await.unwrap().unwrap();
        }
        let session = engine.session();
        let other = tokio::spawn(async move { session.query(sql).await });
        tokio::task::yield_now().await;
        drop(maker);
        assert_eq!(
            lines(&other.await.unwrap().unwrap()),
            want,
            "{taken} batches taken"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_part_fails_who_waits_and_nobody_later() {
    let engine = sharing(2, 100);
    let sql = "select a_i, sum(10 / (a_id - 1500)) from a group by a_i";
    for _ in 0..20 {
        let tasks = (0..4).map(|_| {
            let session = engine.session();
            tokio::spawn(async move { session.query(sql).await.unwrap_err().primary })
        });
        for task in tasks.collect::<Vec<_>>() {
            let error = task.await.unwrap().to_lowercase();
            assert!(error.contains("divide by zero"), "{error}");
        }
    }
    assert_eq!(origin(&engine, sql).await, "here");
}

/// Too little memory fails statements that need more, and leaves nothing behind that others would need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_stay_within_their_budget() {
    let wide = table("a", 20_000, 2000, 2, 44);
    let options = EngineOptions {
        partitions: 2,
        batch_size: 512,
        memory_limit_bytes: Some(16 << 20),
        settings: vec![(SHARED.0.to_owned(), SHARED.1.to_owned())],
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    engine
        .register_batches("a", Arc::clone(&wide.schema), wide.partitions.clone())
        .unwrap();
    let mut kept = 0;
    for number in 0..200 {
        let sql = format!("select a_i, count(*), sum(a_id + {number}) from a group by a_i");
        engine.query(&sql).await.unwrap();
        let work = engine.shared_work();
        assert!(work.bytes <= 2 << 20, "{work:?}");
        kept = kept.max(work.results);
    }
    assert!(kept > 1, "{kept}");
    // All rows of the table are more than one result may have.
    let large = "select a_id, a_s, count(*) from a group by a_id, a_s";
    match engine.query(large).await {
        Ok(output) => assert_eq!(output.num_rows(), 20_000),
        Err(error) => assert!(error.primary.contains("esources"), "{error:?}"),
    }
    assert!(engine.shared_work().bytes <= 2 << 20);
    engine.query("set corun.shared_work_bytes = 0").await.unwrap();
    engine
        .query("select a_i, count(*) from a group by a_i")
        .await
        .unwrap();
    assert_eq!(engine.shared_work().bytes, 0);
}

/// Many sessions ask alike questions at once; some stop early, some are dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_get_right_rows_from_each_other() {
    let (a, b) = data();
    let tables = [("a", &a), ("b", &b)];
    let stock = engine(Joins::Stock, 2, 8192, &[], &tables);
    let corun = engine(Joins::Corun, 2, 50, &[("corun.share_work", "auto")], &tables);
    let sql = |constant: u64| {
        format!(
            "select a_i, count(*), sum(b_id) from a join b on a_i = b_i where b_id > {constant} group by a_i"
        )
    };
    let mut want = Vec::new();
    for constant in 0..4 {
        want.push(answer(&stock, &sql(constant)).await);
    }
    let want = Arc::new(want);
    let sessions = (0..8u64).map(|client| {
        let session = corun.session();
        let want = Arc::clone(&want);
        tokio::spawn(async move {
            let mut random = client + 1;
            for _ in 0..60 {
                random = random
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let constant = (random >> 33) % 4;
                let sql = sql(constant);
                match (random >> 40) % 5 {
                    0 => {
                        let (_, mut stream) = session.stream(&sql).await.unwrap();
                        stream.next().await.unwrap().unwrap();
                    }
                    1 => drop(session.stream(&sql).await.unwrap()),
                    _ => assert_eq!(
                        lines(&session.query(&sql).await.unwrap()),
                        want[constant as usize]
                    ),
                }
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
}
