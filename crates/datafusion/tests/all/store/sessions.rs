//! Tables of a session: its statements read at the moment that it names, with what its transaction has written and defined.

use crate::common::lines;
use crate::store::data::engine;
use corun_datafusion::store::{Moments, StoreTable};
use corun_datafusion::{Engine, Joins};
use corun_store::{ColumnDef, Options, Rid, Snapshot, Store, Table, TableDef, Transaction, Type};
use datafusion::error::{DataFusionError, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A session's moment, and how often it was asked for.
#[derive(Debug, Default)]
struct Session {
    moment: Mutex<Option<Arc<Snapshot>>>,
    asked: AtomicUsize,
}

impl Moments for Session {
    fn now(&self) -> Result<Arc<Snapshot>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let moment = self.moment.lock().unwrap().clone();
        moment.ok_or_else(|| DataFusionError::Execution("the session names no moment".to_owned()))
    }
}

impl Session {
    fn set(&self, moment: Snapshot) {
        *self.moment.lock().unwrap() = Some(Arc::new(moment));
    }

    fn end(&self) {
        *self.moment.lock().unwrap() = None;
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

fn definition(name: &str) -> TableDef {
    TableDef::new(name)
        .column("id", Type::I64)
        .column("x", Type::I64)
        .primary_key(&["id"])
        .index("by_x", &["x"])
}

fn put(transaction: &Transaction<'_>, table: &Table, id: i64, x: i64) -> Rid {
    let mut row = table.new_row();
    row.set(0, id).unwrap();
    row.set(1, x).unwrap();
    transaction.upsert(table, &row).unwrap()
}

/// Two tables with a hundred rows.
fn two_tables() -> (Store, Table, Table) {
    let store = Store::in_memory(Options::default()).unwrap();
    let [one, two] = ["one", "two"].map(|name| store.create_table(definition(name)).unwrap());
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for id in 0..100 {
        put(&transaction, &one, id, 1);
        put(&transaction, &two, id, 1);
    }
    transaction.commit().unwrap();
    (store, one, two)
}

fn register(engine: &Engine, name: &str, store: &Store, table: &Table, of: &Arc<Session>) {
    let table = StoreTable::new(store, table).of_session(Arc::clone(of) as Arc<dyn Moments>);
    let context = engine.session_context();
    let _ = context.deregister_table(name).unwrap();
    context.register_table(name, Arc::new(table)).unwrap();
}

async fn answer(engine: &Engine, sql: &str) -> Vec<String> {
    lines(
        &engine
            .query(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}")),
    )
}

const BOTH: &str = "select sum(one.x + two.x) from one join two on one.id = two.id";

#[tokio::test]
async fn a_statement_asks_once_and_sees_what_its_transaction_wrote() {
    for partitions in [1, 3] {
        let (store, one, two) = two_tables();
        let engine = engine(partitions, 8, Joins::Corun);
        let of = Arc::new(Session::default());
        register(&engine, "one", &store, &one, &of);
        register(&engine, "two", &store, &two, &of);
        let refused = engine.query(BOTH).await.unwrap_err();
        assert!(refused.to_string().contains("names no moment"), "{refused}");
        of.asked();

        let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
        let first = store.snapshot().unwrap();
        let transaction = session.begin().unwrap();
        put(&transaction, &one, 5, 100);
        put(&transaction, &one, 500, 7);
        transaction.delete_by_key(&two, &[6.into()]).unwrap();
        other
            .run(|other| {
                put(other, &one, 7, 1_000_000);
                Ok(())
            })
            .unwrap();
        of.set(transaction.snapshot_at(&first).unwrap());
        // 98 pairs of ones and 101 for row 5; row 6 has no other.
        for (sql, expected) in [
            (BOTH, "297"),
            (
                "select (select sum(x) from one) + (select sum(x) from two)",
                "305",
            ),
            ("select count(*) from one where id >= 400", "1"),
            ("select x from one where id = 5", "100"),
            ("select count(*) from two where id between 5 and 7", "2"),
            ("select id from one where x = 7", "500"),
            (
                "with s as (select sum(x) as s from one) select a.s + b.s from s a, s b",
                "412",
            ),
        ] {
            assert_eq!(answer(&engine, sql).await, [expected], "{sql}");
            assert_eq!(of.asked(), 1, "{sql}");
        }
        // As a statement of READ COMMITTED sees it.
        of.set(transaction.snapshot().unwrap());
        assert_eq!(
            answer(&engine, "select x from one where id in (5, 7, 500) order by id").await,
            ["100", "1000000", "7"]
        );
        transaction.abort();
        let ended = engine.query(BOTH).await.unwrap_err();
        assert!(ended.to_string().contains("has ended"), "{ended}");
        of.set(store.snapshot().unwrap());
        assert_eq!(answer(&engine, "select count(*) from one").await, ["100"]);
    }
}

/// Two sessions of one store in one statement do not see with each other's eyes.
#[tokio::test]
async fn sessions_do_not_share_their_moments() {
    let (store, one, _) = two_tables();
    let engine = engine(2, 8, Joins::Corun);
    let (mine, others) = (Arc::new(Session::default()), Arc::new(Session::default()));
    register(&engine, "mine", &store, &one, &mine);
    register(&engine, "others", &store, &one, &others);
    let plain = StoreTable::new(&store, &one);
    engine
        .session_context()
        .register_table("plain", Arc::new(plain))
        .unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    others.set(store.snapshot().unwrap());
    put(&transaction, &one, 1000, 1);
    mine.set(transaction.snapshot().unwrap());
    for tables in [
        ["mine", "others", "plain"],
        ["plain", "mine", "others"],
        ["others", "plain", "mine"],
    ] {
        let counts = tables.map(|table| format!("(select count(*) from {table}) as of_{table}"));
        let expected = tables.map(|table| if table == "mine" { "101" } else { "100" });
        let sql = format!("select {}", counts.join(", "));
        assert_eq!(answer(&engine, &sql).await, [expected.join("|")], "{sql}");
    }
    assert_eq!((mine.asked(), others.asked()), (3, 3));
}

/// A prepared statement asks whenever it runs.
#[tokio::test]
async fn a_prepared_statement_reads_the_moment_of_its_run() {
    let (store, one, _) = two_tables();
    let engine = engine(2, 8, Joins::Corun);
    let of = Arc::new(Session::default());
    register(&engine, "one", &store, &one, &of);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    of.set(transaction.snapshot().unwrap());
    engine
        .query("prepare p as select count(*) from one where x = 1")
        .await
        .unwrap();
    for id in 200..203 {
        put(&transaction, &one, id, 1);
        of.set(transaction.snapshot().unwrap());
        assert_eq!(answer(&engine, "execute p").await, [(id - 99).to_string()]);
    }
}

/// What a transaction has defined its statements read: a table, a column and an index that it has made.
#[tokio::test]
async fn definitions_of_the_transaction_are_read() {
    let (store, one, _) = two_tables();
    let engine = engine(2, 8, Joins::Corun);
    let of = Arc::new(Session::default());
    let first = store.snapshot().unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let made = transaction.create_table(definition("made")).unwrap();
    for id in 0..50 {
        put(&transaction, &made, id, id % 5);
    }
    transaction
        .add_column(
            &one,
            ColumnDef::new("note", Type::Text { max: 20 }).default_value("none"),
        )
        .unwrap();
    transaction
        .create_index(&one, "by_note", false, &["note"])
        .unwrap();
    let within = transaction.table("one").unwrap();
    let note = |id: i64| {
        let primary = one.primary();
        let found = transaction.fetch_for_update(&primary, &[id.into()]);
        let rid = found.unwrap().unwrap().rid;
        transaction
            .update(&within, rid, |row| row.set(2, "changed"))
            .unwrap();
    };
    note(3);
    note(4);
    register(&engine, "made", &store, &made, &of);
    register(&engine, "one", &store, &within, &of);
    let before = of_others(&store, &one).await;
    for view in [
        transaction.snapshot().unwrap(),
        transaction.snapshot_at(&first).unwrap(),
    ] {
        of.set(view);
        for (sql, expected) in [
            ("select count(*), sum(x) from made", vec!["50|100"]),
            (
                "select id from made where x = 3 and id < 10 order by id",
                vec!["3", "8"],
            ),
            (
                "select note, count(*) from one group by note order by note",
                vec!["changed|2", "none|98"],
            ),
            (
                "select id from one where note = 'changed' order by id",
                vec!["3", "4"],
            ),
            (
                "select made.id, note from made join one on made.id = one.id where made.id between 2 and 3 order by 1",
                vec!["2|none", "3|changed"],
            ),
        ] {
            assert_eq!(answer(&engine, sql).await, expected, "{sql}");
        }
    }
    let plan = engine
        .explain("select id from one where note = 'changed'", false)
        .await
        .unwrap();
    assert!(plan.contains("index=by_note"), "{plan}");
    assert_eq!(of_others(&store, &one).await, before, "others see nothing of it");
    assert_eq!(before, ["0|1", "1|1", "2|1"]);

    // Taken back: the table has no such column any more, which a plan of before finds out.
    let planned = engine
        .session_context()
        .sql("select note from one")
        .await
        .unwrap();
    of.end();
    transaction.abort();
    of.set(store.snapshot().unwrap());
    assert!(planned.collect().await.is_err());
    let refused = engine.query("select note from one").await;
    assert!(refused.is_err());
    register(&engine, "one", &store, &one, &of);
    assert_eq!(
        answer(&engine, "select * from one where id < 3 order by id").await,
        before
    );
}

async fn of_others(store: &Store, table: &Table) -> Vec<String> {
    let engine = engine(1, 8, Joins::Corun);
    let table = StoreTable::new(store, table);
    engine
        .session_context()
        .register_table("one", Arc::new(table))
        .unwrap();
    answer(&engine, "select * from one where id < 3 order by id").await
}
