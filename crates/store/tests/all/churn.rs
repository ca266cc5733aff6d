//! Memory stays bounded however long a store runs: asserted on counts, never on time. The tests with threads are the ones to run
//! under the sanitizers (`make asan`, `make tsan`).
//!
//! `STORE_ROUNDS=50` makes each test so many times as long; 1 is the slice of the normal tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::clients::{Clients, MEMBERS};
use corun_store::storage::Twin;
use corun_store::{Direction, Durability, Lock, Options, Rid, RowBuf, Session, Store, Table, TableDef, Type};

fn rounds() -> u64 {
    std::env::var("STORE_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(1)
}

fn table(store: &Store) -> Table {
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .column("key", Type::I64)
        .column("text", Type::Text { max: 30 })
        .primary_key(&["id"])
        .index("by_key", &["key"])
        .index("by_text", &["text", "key"]);
    store.create_table(definition).unwrap()
}

fn row(table: &Table, id: i64, key: i64) -> RowBuf {
    let mut row = table.new_row();
    row.set(0, id).unwrap();
    row.set(1, key).unwrap();
    row.set(2, text(key).as_str()).unwrap();
    row
}

fn text(key: i64) -> String {
    format!("{:width$}", key, width = (key % 29).unsigned_abs() as usize)
}

fn change(row: &mut RowBuf, key: i64) -> Result<(), corun_store::RowError> {
    row.set(1, key)?;
    row.set(2, text(key).as_str())
}

fn options(workers: usize) -> Options {
    Options {
        workers,
        ..Options::default()
    }
}

/// Transactions that leave nothing and so clear what others left. They commit something, since what was taken out of a slot goes
/// after a later commit only: a snapshot of now may be reading it.
fn clear(store: &Store, session: &mut Session, times: usize) {
    let later = TableDef::new("later")
        .column("id", Type::I64)
        .primary_key(&["id"]);
    let later = store.create_table(later).unwrap();
    for id in 0..times as i64 {
        let transaction = session.begin().unwrap();
        let mut row = later.new_row();
        row.set(0, id).unwrap();
        transaction.insert(&later, &row).unwrap();
        transaction.commit().unwrap();
    }
    store.drop_table("later").unwrap();
    // Lets go of the table.
    drop(later);
    session.begin().unwrap().commit().unwrap();
}

/// Checks that nothing but the rows is left: entries, bytes.
fn check_clean(store: &Store, table: &Table) {
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(table, 0..table.rid_end()).unwrap().count() as u64;
    assert_eq!(table.rows(), rows);
    for index in table.indexes() {
        assert_eq!(index.entries(), rows, "{index:?}");
        let found = snapshot
            .scan(&index, &index.all(), Direction::Descending)
            .unwrap();
        assert_eq!(found.count() as u64, rows, "{index:?}");
    }
}

#[test]
fn updates_of_few_rows_leave_nothing() {
    let store = Store::in_memory(options(1)).unwrap();
    let table = table(&store);
    let mut session = store.session_here().unwrap();
    let setup = session.begin().unwrap();
    let rids: Vec<Rid> = (0..10)
        .map(|id| setup.insert(&table, &row(&table, id, 0)).unwrap())
        .collect();
    setup.commit().unwrap();
    let mut peak = 0;
    for at in 0..100_000 * rounds() as i64 {
        let transaction = session.begin().unwrap();
        transaction
            .update(&table, rids[at as usize % 10], |row| change(row, at % 1000))
            .unwrap();
        transaction.commit().unwrap();
        peak = peak.max(store.stats().row_bytes);
    }
    assert!(peak < 200_000, "{peak} bytes");
    assert!(table.index("by_key").unwrap().entries() < 600);
    clear(&store, &mut session, 50);
    check_clean(&store, &table);
    drop(session);
    // Ten rows of a head, an id, a key, an end, and up to 28 bytes of text.
    assert!(store.stats().row_bytes <= 10 * 80, "{}", store.stats().row_bytes);
}

#[test]
fn queues_reuse_their_rows_whoever_inserts_and_deletes() {
    for workers in [1, 3] {
        let store = Store::in_memory(options(workers)).unwrap();
        let table = table(&store);
        let by_id = table.primary();
        let mut producer = store.session(0, corun_store::park::current()).unwrap();
        let mut consumer = store.session(workers - 1, corun_store::park::current()).unwrap();
        for at in 0..30_000 * rounds() as i64 {
            let transaction = producer.begin().unwrap();
            transaction.insert(&table, &row(&table, at, -at)).unwrap();
            transaction.commit().unwrap();
            if at >= 100 {
                let transaction = consumer.begin().unwrap();
                let first = transaction
                    .first(&by_id, &by_id.all(), Direction::Ascending, Lock::Exclusive)
                    .unwrap()
                    .unwrap();
                assert_eq!(first.row.int(0), at - 100);
                let rid = first.rid;
                assert!(transaction.delete(&table, rid).unwrap());
                transaction.commit().unwrap();
            }
            assert!(table.rid_end() < 2048, "{workers} workers: {}", table.rid_end());
            assert!(by_id.entries() < 1500, "{}", by_id.entries());
        }
        clear(&store, &mut consumer, 50);
        drop(producer);
        check_clean(&store, &table);
        assert_eq!(table.rows(), 100);
        drop(consumer);
        assert!(store.stats().row_bytes < 100 * 80, "{}", store.stats().row_bytes);
    }
}

#[test]
fn what_a_snapshot_kept_goes_after_it() {
    let store = Store::in_memory(options(1)).unwrap();
    let table = table(&store);
    let mut session = store.session_here().unwrap();
    for round in 0..3 * rounds() as i64 {
        let transaction = session.begin().unwrap();
        let rids: Vec<Rid> = (0..100)
            .map(|id| transaction.insert(&table, &row(&table, id, id)).unwrap())
            .collect();
        transaction.commit().unwrap();
        let snapshot = store.snapshot().unwrap();
        for at in 0..20_000 {
            let transaction = session.begin().unwrap();
            transaction
                .update(&table, rids[at as usize % 100], |row| change(row, at))
                .unwrap();
            // Some of it is undone: that must not stay either.
            if at % 5 == 0 {
                transaction.abort();
            } else {
                transaction.commit().unwrap();
            }
        }
        let by_key = table.index("by_key").unwrap();
        assert!(by_key.entries() > 15_000);
        let seen: Vec<i64> = snapshot
            .scan(&by_key, &by_key.all(), Direction::Ascending)
            .unwrap()
            .map(|found| found.row.int(1))
            .collect();
        assert_eq!(seen, (0..100).collect::<Vec<i64>>(), "round {round}");
        drop(snapshot);
        let transaction = session.begin().unwrap();
        for rid in rids {
            assert!(transaction.delete(&table, rid).unwrap());
        }
        transaction.commit().unwrap();
        clear(&store, &mut session, 400);
        check_clean(&store, &table);
        assert_eq!(table.rows(), 0);
        assert!(table.rid_end() <= 1024, "{}", table.rid_end());
    }
    drop(session);
    assert_eq!(store.stats().row_bytes, 0);
}

#[test]
fn sessions_come_and_go_and_others_clear_behind_them() {
    let store = Store::in_memory(options(2)).unwrap();
    let table = table(&store);
    for at in 0..3000 * rounds() as i64 {
        let mut session = store.session(at as usize, corun_store::park::current()).unwrap();
        let snapshot = (at % 3 == 0).then(|| store.snapshot().unwrap());
        let transaction = session.begin().unwrap();
        let rid = transaction.insert(&table, &row(&table, at, at)).unwrap();
        transaction.commit().unwrap();
        let transaction = session.begin().unwrap();
        assert!(transaction.delete(&table, rid).unwrap());
        transaction.commit().unwrap();
        drop(session);
        drop(snapshot);
    }
    assert!(table.primary().entries() < 1500, "{}", table.primary().entries());
    let mut session = store.session_here().unwrap();
    clear(&store, &mut session, 50);
    drop(session);
    check_clean(&store, &table);
    assert_eq!(store.stats().row_bytes, 0);
}

/// Writers change keys to and fro, insert and delete; readers hold snapshots that come and go, and lock the whole table.
#[test]
fn what_is_durable_goes_although_other_things_wait_for_the_disk() {
    const ROWS: i64 = 6_000;
    let options = Options {
        durability: Durability::Asynchronous,
        flush_every: Duration::from_secs(3600),
        ..options(1)
    };
    let store = Store::open_on(Arc::new(Twin::new(1)), options).unwrap();
    let table = table(&store);
    let mut session = store.session_here().unwrap();
    let rids: Vec<Rid> = (0..ROWS)
        .map(|id| {
            let transaction = session.begin().unwrap();
            let rid = transaction.insert(&table, &row(&table, id, id)).unwrap();
            transaction.commit().unwrap();
            rid
        })
        .collect();
    let mut delete = |rids: &[Rid]| {
        for &rid in rids {
            let transaction = session.begin().unwrap();
            assert!(transaction.delete(&table, rid).unwrap());
            transaction.commit().unwrap();
        }
    };
    // What these leave waits, more than one session keeps.
    let (first, second) = rids.split_at(rids.len() / 2);
    delete(first);
    store.flush().unwrap();
    // It may go now, and goes while what these leave waits.
    delete(second);
    for index in table.indexes() {
        assert_eq!(index.entries(), second.len() as u64, "{index:?}");
    }
}

#[test]
fn threads_and_snapshots_come_and_go() {
    clients_and_snapshots(Clients::Threads, 4000 * rounds());
}

#[test]
fn members_and_snapshots_come_and_go() {
    clients_and_snapshots(MEMBERS, 2000 * rounds());
}

fn clients_and_snapshots(clients: Clients, transactions: u64) {
    const ROWS: i64 = 40;
    let threads = 4;
    let store = Store::in_memory(Options {
        // Waits are short here; a thread that is preempted is no deadlock.
        lock_timeout: Duration::from_secs(60),
        ..options(threads)
    })
    .unwrap();
    let table = table(&store);
    let by_key = table.index("by_key").unwrap();
    let by_text = table.index("by_text").unwrap();
    let primary = table.primary();
    let mut session = store.session_here().unwrap();
    let setup = session.begin().unwrap();
    for id in 0..ROWS {
        setup.insert(&table, &row(&table, id, 0)).unwrap();
    }
    setup.commit().unwrap();
    let writing = AtomicUsize::new(threads);
    let (store_of_clients, table_of_clients) = (&store, &table);
    let write = |thread: usize| {
        let (store, table, primary) = (store_of_clients, table_of_clients, &primary);
        let mut session = store.session(thread, corun_store::park::current()).unwrap();
        let mut seed = thread as u64 + 1;
        let mut random = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below) as i64
        };
        for _ in 0..transactions {
            // A row is replaced by one of the same id in the same transaction, now and then: the sum of ids stays.
            let (id, key, what) = (random(ROWS as u64), random(6), random(10));
            let transaction = session.begin().unwrap();
            let done: corun_store::Result<()> = (|| {
                let found = transaction
                    .fetch_for_update(primary, &[id.into()])?
                    .expect("ids stay");
                if what == 0 {
                    transaction.delete(table, found.rid)?;
                    transaction.insert(table, &row(table, id, key))?;
                } else {
                    transaction.update(table, found.rid, |row| change(row, key))?;
                    transaction.update(table, found.rid, |row| change(row, key / 2))?;
                }
                Ok(())
            })();
            match done {
                Ok(()) if what != 1 => drop(transaction.commit().unwrap()),
                Ok(()) => transaction.abort(),
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    transaction.abort();
                }
            }
            if what == 2 && random(4) == 0 {
                session = store.session(thread, corun_store::park::current()).unwrap();
            }
        }
        writing.fetch_sub(1, Ordering::Release);
    };
    let read = |reader: usize| {
        let (store, table, by_key, by_text) = (store_of_clients, table_of_clients, &by_key, &by_text);
        let mut kept = Vec::new();
        let mut session = store.session(reader, corun_store::park::current()).unwrap();
        let mut at = 0_usize;
        while writing.load(Ordering::Acquire) > 0 {
            at += 1;
            let snapshot = store.snapshot().unwrap();
            for (index, direction) in [
                (by_key, Direction::Ascending),
                (by_text, Direction::Descending),
                (by_text, Direction::Ascending),
            ] {
                let rows = snapshot.scan(index, &index.all(), direction).unwrap();
                let ids: Vec<i64> = rows
                    .map(|found| {
                        assert_eq!(found.row.text(2), text(found.row.int(1)));
                        found.row.int(0)
                    })
                    .collect();
                assert_eq!(ids.len() as i64, ROWS);
                assert_eq!(ids.iter().sum::<i64>(), ROWS * (ROWS - 1) / 2);
            }
            assert_eq!(
                snapshot.rows(table, 0..table.rid_end()).unwrap().count() as i64,
                ROWS
            );
            kept.push(snapshot);
            if kept.len() > 5 {
                kept.remove(at % 5);
            }
            if at.is_multiple_of(16) {
                kept.clear();
                // Reads every row without locks on rows.
                let transaction = session.begin().unwrap();
                let read: corun_store::Result<i64> = (|| {
                    transaction.lock_table(table, Lock::Shared)?;
                    let mut sum = 0;
                    for rid in 0..table.rid_end() {
                        let found = transaction.get(table, Rid(rid), Lock::Shared)?;
                        sum += found.map_or(0, |row| row.int(0));
                    }
                    Ok(sum)
                })();
                match read {
                    Ok(sum) => {
                        assert_eq!(sum, ROWS * (ROWS - 1) / 2);
                        transaction.commit().unwrap();
                    }
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
        }
    };
    clients.run(
        threads + 2,
        |client| match client.checked_sub(threads) {
            None => write(client),
            Some(reader) => read(reader),
        },
        || (),
    );
    clear(&store, &mut session, 1000 * rounds() as usize);
    check_clean(&store, &table);
    assert_eq!(table.rows() as i64, ROWS);
    drop(session);
    assert!(
        store.stats().row_bytes <= ROWS as u64 * 80,
        "{}",
        store.stats().row_bytes
    );
}

/// Sessions clear what others left behind while those change the same rows: nobody follows a version that another has freed.
#[test]
fn clearing_and_changing_the_same_rows() {
    clearing_and_changing(Clients::Threads, 6000 * rounds());
}

#[test]
fn clearing_and_changing_the_same_rows_on_teams() {
    clearing_and_changing(MEMBERS, 3000 * rounds());
}

fn clearing_and_changing(clients: Clients, transactions: u64) {
    let threads = 3;
    let store = Store::in_memory(options(threads)).unwrap();
    let table = table(&store);
    let mut session = store.session_here().unwrap();
    let setup = session.begin().unwrap();
    let rids: Vec<Rid> = (0..4)
        .map(|id| setup.insert(&table, &row(&table, id, 0)).unwrap())
        .collect();
    setup.commit().unwrap();
    clients.run(
        threads,
        |thread| {
            let table = &table;
            let mut session = store.session(thread, corun_store::park::current()).unwrap();
            for at in 0..transactions as i64 {
                // Keeps a backlog, which is then cleared in large parts while the others go on.
                let snapshot = (at % 64 == 0).then(|| store.snapshot().unwrap());
                for rid in 0..2 {
                    let transaction = session.begin().unwrap();
                    let rid = rids[(at as usize + thread + rid) % rids.len()];
                    match transaction.update(table, rid, |row| change(row, at % 5)) {
                        Ok(()) => drop(transaction.commit().unwrap()),
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
                drop(snapshot);
            }
        },
        || (),
    );
    clear(&store, &mut session, 1000 * rounds() as usize);
    check_clean(&store, &table);
}
