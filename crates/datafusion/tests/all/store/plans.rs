//! Which plans scans of a store's tables get: `EXPLAIN` as people see it, and the choice of an index.

use crate::store::data::{definition, engine, rows, store};
use corun_datafusion::{Engine, Joins};
use corun_store::{Options, Store, TableDef, Type};

async fn explained(engine: &Engine, sql: &str) -> String {
    let plan = engine.explain(sql, false).await.unwrap();
    format!("{sql}\n{plan}\n")
}

fn live() -> (Store, Engine) {
    let store = store(vec![(definition(true), rows(1000, 4))]);
    let engine = engine(2, 8192, Joins::Corun);
    engine.attach_store(&store).unwrap();
    (store, engine)
}

#[tokio::test]
async fn scans_show_their_index_their_range_and_their_moment() {
    let (_store, engine) = live();
    let mut text = String::new();
    for sql in [
        "select id, s from t",
        "select id, s from t limit 3",
        "select count(*) from t",
        "select s from t where id = 17",
        "select s from t where id in (1, 2, 3, 4, 5, 6)",
        "select s from t where id between 10 and 20 and n > 3",
        "select s from t where id between 10 and 900",
        "select id from t where i32 = 5 and day >= date '2020-01-10'",
        "select id from t where s = 'b' and i64 = 3 and n < 20",
        "select id from t where d = cast('1.25' as decimal(9, 2)) and i8 in (1, 2)",
        "select day, id from t where i32 = 5 order by i32, day nulls first",
        "select id from t where n > 47 order by n, id limit 4",
        "select id from t where f > cast(0 as double)",
        "select id from t where b",
        "select id from t where id < 0",
    ] {
        text.push_str(&explained(&engine, sql).await);
    }
    insta::assert_snapshot!(text);
}

/// Of several ranges each is found by the index; rows that no index finds are read once for all.
#[tokio::test]
async fn aggregates_of_ranges_are_found_one_by_one() {
    let (_store, engine) = live();
    let ranges = "select (select max(s) from t where id between 10 and 20) as a, (select max(s) from t where id between 900 and 910) as b";
    let plan = explained(&engine, ranges).await;
    assert!(!plan.contains("FILTER"), "{plan}");
    for sql in [
        "select (select max(s) from t where id = 17) as a, (select max(s) from t where id = 900) as b",
        "select (select max(s) from t where n % 2 = 1 and i8 is null) as a, (select min(s) from t where n % 2 = 1 and i8 is null) as b",
    ] {
        let plan = explained(&engine, sql).await;
        assert_eq!(plan.matches("StoreScan:").count(), 1, "{plan}");
    }
}

#[tokio::test]
async fn joins_of_corun_work_on_tables_of_a_store() {
    let (_store, engine) = live();
    let sql = "select a.id, b.s from t a join t b on a.i32 = b.i16 where b.n = 3";
    insta::assert_snapshot!(explained(&engine, sql).await);
}

#[tokio::test]
async fn an_index_is_used_where_it_leaves_most_rows_out() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = store
        .create_table(
            TableDef::new("t")
                .column("id", Type::I64)
                .column("name", Type::Text { max: 20 })
                .column("flag", Type::I8)
                .primary_key(&["id"])
                .index("by_name", &["name"])
                .index("by_flag", &["flag"]),
        )
        .unwrap();
    let mut session = store.session_here().unwrap();
    // More rows than are counted, so that their number in a range is estimated.
    for part in 0..40 {
        let transaction = session.begin().unwrap();
        for id in part * 1000..(part + 1) * 1000_i64 {
            let mut row = table.new_row();
            row.set(0, id).unwrap();
            row.set(1, format!("name {id:06}").as_str()).unwrap();
            row.set(2, i64::from(id % 100 == 0)).unwrap();
            transaction.insert(&table, &row).unwrap();
        }
        transaction.commit().unwrap();
    }
    let engine = engine(2, 8192, Joins::Corun);
    engine.attach_store(&store).unwrap();
    for (filter, index) in [
        ("id < 9000", Some("primary")),
        ("id < 15000", None),
        ("id > 39000", Some("primary")),
        ("id >= 10000 and id < 19000", Some("primary")),
        ("name < 'name 009000'", Some("by_name")),
        ("name < 'name 015000'", None),
        ("flag = 1", Some("by_flag")),
        // Nobody can tell how many rows of one key there are, when there are many.
        ("flag = 0", None),
        ("flag = 2", Some("by_flag")),
        ("flag = 1 and id = 700", Some("primary")),
        ("id = 700 or id = 701", Some("primary")),
        ("id = 700 or flag = 1", None),
        ("id + 1 = 700", None),
        ("name like 'name 0000%'", None),
    ] {
        let plan = engine
            .explain(&format!("select * from t where {filter}"), false)
            .await
            .unwrap();
        match index {
            Some(index) => assert!(plan.contains(&format!("index={index},")), "{filter}: {plan}"),
            None => assert!(plan.contains("StoreScan: table=t, full"), "{filter}: {plan}"),
        }
    }
    // What the optimizer knows of the table.
    let analyzed = engine
        .query("explain analyze select count(*) from t where id < 10")
        .await
        .unwrap();
    assert!(
        crate::common::lines(&analyzed)
            .join("\n")
            .contains("output_rows=10")
    );
}

#[tokio::test]
async fn an_index_made_later_is_used_and_a_dropped_one_is_not() {
    let store = store(vec![(definition(false), rows(1000, 4))]);
    let engine = engine(2, 8192, Joins::Corun);
    engine.attach_store(&store).unwrap();
    let sql = "select id from t where n = 7";
    let count = async || engine.query(sql).await.unwrap().num_rows();
    let uses = async || engine.explain(sql, false).await.unwrap().contains("index=late");
    let rows = count().await;
    assert!(!uses().await);
    let table = store.table("t").unwrap();
    let (_, half_read) = engine.stream(sql).await.unwrap();
    store.create_index(&table, "late", false, &["n"]).unwrap();
    assert!(uses().await);
    assert_eq!(count().await, rows);
    drop(half_read);
    store.drop_index(&table, "late").unwrap();
    assert!(!uses().await);
    assert_eq!(count().await, rows);
}

#[tokio::test]
async fn writing_by_sql_is_refused_and_says_what_to_do() {
    let (store, engine) = live();
    for (sql, expected) in [
        ("insert into t (id, n) values (5000, 1)", "bulk load"),
        ("delete from t where id = 1", "transaction of the store"),
        ("update t set n = 1 where id = 1", "transaction of the store"),
        ("drop table t", "Store::drop_table"),
        ("create index on t (n)", "Store::create_index"),
        ("create table t as select 1 as x", "already"),
    ] {
        let error = engine.query(sql).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    }
    assert_eq!(store.table("t").unwrap().rows(), 1000);
}

#[tokio::test]
async fn names_are_as_they_are_now_and_collisions_are_errors() {
    let (store, engine) = live();
    let small = || TableDef::new("later").column("k", Type::I64).primary_key(&["k"]);
    store.create_table(small()).unwrap();
    assert_eq!(engine.tables(), ["later", "t"]);
    assert_eq!(engine.query("select * from later").await.unwrap().num_rows(), 0);
    store.drop_table("later").unwrap();
    let error = engine.query("select * from later").await.unwrap_err().to_string();
    assert!(error.contains("later"), "{error}");

    engine.query("create table later as select 1 as k").await.unwrap();
    assert_eq!(engine.query("select * from later").await.unwrap().num_rows(), 1);
    store.create_table(small()).unwrap();
    let error = engine.query("select * from later").await.unwrap_err().to_string();
    assert!(error.contains("two tables named \"later\""), "{error}");
    store.drop_table("later").unwrap();
    assert_eq!(engine.query("select * from later").await.unwrap().num_rows(), 1);
    engine.query("drop table later").await.unwrap();
    assert_eq!(engine.tables(), ["t"]);

    let batch = rows(3, 1);
    let error = engine
        .register_batches("t", batch.schema(), vec![vec![batch.clone()]])
        .unwrap_err();
    assert!(
        error.to_string().contains("already a table named \"t\""),
        "{error}"
    );
    let other = crate::store::data::engine(1, 100, Joins::Corun);
    other
        .register_batches("t", batch.schema(), vec![vec![batch]])
        .unwrap();
    let error = other.attach_store(&store).unwrap_err().to_string();
    assert!(error.contains("two tables named \"t\""), "{error}");
}
