//! A statement reads all tables of a store as of one moment, whatever writers do meanwhile, and neither waits for the other.

use crate::store::data::engine;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use corun_datafusion::{Coordinator, CoordinatorOptions, Engine, Joins, QueryOutput};
use corun_model::cache::coschedule::{LlcDomain, PolicyName, Priority};
use corun_model::cache::locality::Thresholds;
use corun_model::units::Bytes;
use corun_store::{Options, Store, TableDef, Type, Value};
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ACCOUNTS: i64 = 60;
const BALANCE: i64 = 1000;

/// Two tables of accounts.
fn bank() -> Store {
    let store = Store::in_memory(Options::default()).unwrap();
    let mut session = store.session_here().unwrap();
    for name in ["checking", "savings"] {
        let definition = TableDef::new(name)
            .column("id", Type::I64)
            .column("balance", Type::I64)
            .primary_key(&["id"])
            .index("by_balance", &["balance"]);
        let table = store.create_table(definition).unwrap();
        let transaction = session.begin().unwrap();
        for id in 0..ACCOUNTS {
            let mut row = table.new_row();
            row.set(0, id).unwrap();
            row.set(1, BALANCE).unwrap();
            transaction.insert(&table, &row).unwrap();
        }
        transaction.commit().unwrap();
    }
    drop(session);
    store
}

/// Moves money from an account of one table to one of the other.
fn transfer(store: &Store, number: i64) -> corun_store::Result<()> {
    let mut session = store.session_here()?;
    let transaction = session.begin()?;
    let names = if number % 2 == 0 {
        ["checking", "savings"]
    } else {
        ["savings", "checking"]
    };
    for (name, change) in names.iter().zip([-1, 1]) {
        let table = store.table(name)?;
        let id = Value::Int((number * 31 + change) % ACCOUNTS);
        let primary = table.primary();
        let Some(found) = transaction.fetch_for_update(&primary, &[id])? else {
            continue;
        };
        let balance = found.row.int(1) + change * (number % 17);
        if number % 5 == 0 {
            // A row that moves: deleted and inserted elsewhere.
            let mut row = table.new_row();
            row.set(0, found.row.int(0))?;
            row.set(1, balance)?;
            transaction.delete(&table, found.rid)?;
            transaction.insert(&table, &row)?;
        } else {
            transaction.update(&table, found.rid, |row| row.set(1, balance))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn number(output: &QueryOutput) -> i64 {
    let batch = output.batches.iter().find(|batch| batch.num_rows() == 1).unwrap();
    batch.column(0).as_primitive::<Int64Type>().value(0)
}

/// Runs `check` while two threads move money about; returns the transfers that were committed meanwhile.
async fn among_writers(store: &Store, check: impl AsyncFn()) -> u64 {
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (store, stop) = (store.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut number = writer;
                while !stop.load(Ordering::Relaxed) {
                    match transfer(&store, number) {
                        Ok(()) => number += 2,
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
            })
        })
        .collect();
    let before = store.stats().last;
    check().await;
    let after = store.stats().last;
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    after.0 - before.0
}

const SUMS: &[&str] = &[
    "select sum(c.balance + s.balance) from checking c join savings s on c.id = s.id",
    "select (select sum(balance) from checking) + (select sum(balance) from savings)",
    "select sum(balance) from (select * from checking union all select * from savings)",
    "with c as (select sum(balance) as b from checking) select b + (select sum(balance) from savings) from c",
    "select sum(balance) from everything",
    "execute prepared",
];

async fn define(engine: &Engine) {
    for sql in [
        "create view everything as select * from checking union all select * from savings",
        "prepare prepared as select sum(c.balance + s.balance) from checking c join savings s on c.id = s.id",
    ] {
        engine.query(sql).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_over_two_tables_never_change() {
    for joins in [Joins::Corun, Joins::Stock] {
        let store = bank();
        let engine = engine(2, 16, joins);
        engine.attach_store(&store).unwrap();
        define(&engine).await;
        let commits = among_writers(&store, async || {
            for _ in 0..20 {
                for sql in SUMS {
                    let sum = number(&engine.query(sql).await.unwrap());
                    assert_eq!(sum, 2 * ACCOUNTS * BALANCE, "{sql}");
                }
            }
        })
        .await;
        assert!(commits > 0);
        assert_eq!(
            store.stats().snapshots,
            0,
            "every statement has given its snapshot back"
        );
    }
}

fn coordinator_options() -> CoordinatorOptions {
    CoordinatorOptions {
        policy: PolicyName::Auto,
        priority: Priority::default(),
        domains: vec![LlcDomain {
            cache: Bytes::mib(4),
            cpus: corun_topology::affinity::allowed_cpus().expect("they can be asked for"),
        }],
        thresholds: Thresholds::default(),
        plan_choice: true,
        widen: true,
        overtakes_max: 8,
        waiting_max: 16,
        short_below_ns: 0.0,
        bypass_max: 4,
        partitioner: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinated_queries_read_one_moment_too() {
    let store = bank();
    let engine = engine(2, 16, Joins::Corun);
    engine.attach_store(&store).unwrap();
    let coordinator = Coordinator::new(&engine, coordinator_options()).unwrap();
    let commits = among_writers(&store, async || {
        for _ in 0..10 {
            for sql in &SUMS[..3] {
                let sum = number(&coordinator.query(sql).await.unwrap().0);
                assert_eq!(sum, 2 * ACCOUNTS * BALANCE, "{sql}");
            }
        }
    })
    .await;
    assert!(commits > 0);
}

#[tokio::test]
async fn a_result_half_read_stays_at_its_moment_and_blocks_nobody() {
    for (sql, rows_expected) in [
        ("select balance from checking", ACCOUNTS),
        ("select balance from checking where id between 0 and 12", 13),
    ] {
        let store = bank();
        let engine = engine(1, 8, Joins::Corun);
        engine.attach_store(&store).unwrap();
        let (_, mut rows) = engine.stream(sql).await.unwrap();
        let mut seen = vec![rows.next().await.unwrap().unwrap()];
        // Would wait for ever if the reader held a lock.
        for number in 0..200 {
            transfer(&store, number).unwrap();
        }
        while let Some(batch) = rows.next().await {
            seen.push(batch.unwrap());
        }
        drop(rows);
        assert!(seen.len() > 1, "{sql}");
        let balances: Vec<i64> = seen
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(balances, vec![BALANCE; rows_expected as usize], "{sql}");
        let now = engine
            .query("select count(*) from checking where balance <> 1000")
            .await
            .unwrap();
        assert!(number(&now) > 0, "the money moved meanwhile");
        assert_eq!(store.stats().snapshots, 0);
    }
}

#[tokio::test]
async fn a_dropped_result_gives_its_snapshot_back() {
    let store = bank();
    let engine = engine(2, 8, Joins::Corun);
    engine.attach_store(&store).unwrap();
    let (_, mut rows) = engine.stream("select * from checking, savings").await.unwrap();
    rows.next().await.unwrap().unwrap();
    assert_eq!(store.stats().snapshots, 1);
    drop(rows);
    for _ in 0..500 {
        if store.stats().snapshots == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the snapshot is still open");
}
