//! Going back to a savepoint after a deadlock or a lock timeout: the others go on, and so does the transaction.

use std::time::Duration;

use crate::clients::{Clients, MEMBERS};
use crate::lock::support::{Random, until};
use crate::refusal_support::{ids, insert, open, row};
use corun_exec::teams;
use corun_store::lock::LockError;
use corun_store::{Direction, Lock, Options, Result, Store, StoreError, Table, Transaction};

fn patient() -> Options {
    Options {
        lock_timeout: Duration::from_secs(120),
        ..Options::default()
    }
}

fn fill(store: &Store, table: &Table, ids: i64) {
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| (0..ids).try_for_each(|id| insert(transaction, table, id, 1).map(drop)))
        .unwrap();
}

fn add(transaction: &Transaction<'_>, table: &Table, id: i64, more: i64) -> Result<()> {
    let primary = table.primary();
    let found = transaction.fetch_for_update(&primary, &[id.into()])?;
    let found = found.expect("ids stay");
    let (rid, x) = (found.rid, found.row.int(2));
    transaction.update(table, rid, |row| row.set(2, x + more))
}

fn xs(store: &Store, table: &Table) -> Vec<i64> {
    let (snapshot, primary) = (store.snapshot().unwrap(), table.primary());
    let rows = snapshot.scan(&primary, &primary.all(), Direction::Ascending);
    rows.unwrap().map(|found| found.row.int(2)).collect()
}

/// The transaction has x of row 0, makes a savepoint, does `since`, and wants row 1. The other has row 1 and more, and wants what `since`
/// took: `wants`.
fn victim(
    since: impl Fn(&Transaction<'_>, &Table) -> Result<()> + Sync,
    wants: impl Fn(&Transaction<'_>, &Table) -> Result<()> + Sync,
) -> (Store, Table) {
    let (store, table) = open(patient());
    fill(&store, &table, 4);
    std::thread::scope(|scope| {
        let mut session = store.session_here().unwrap();
        let mut transaction = session.begin().unwrap();
        add(&transaction, &table, 0, 10).unwrap();
        let savepoint = transaction.savepoint();
        since(&transaction, &table).unwrap();
        let (gate, has_locked) = std::sync::mpsc::channel();
        let (store, of_other) = (&store, &table);
        let wants = &wants;
        let other = scope.spawn(move || {
            let mut session = store.session_here().unwrap();
            let transaction = session.begin().unwrap();
            add(&transaction, of_other, 1, 100).unwrap();
            // It has more locks, so the transaction gives way.
            for rid in 100..120 {
                let none = transaction.get(of_other, corun_store::Rid(rid), Lock::Exclusive);
                assert!(none.unwrap().is_none());
            }
            gate.send(()).unwrap();
            wants(&transaction, of_other).unwrap();
            transaction.commit().unwrap();
            // What the transaction had before its savepoint it has still.
            session.set_lock_timeout(Duration::ZERO);
            let refused = add(&session.begin().unwrap(), of_other, 0, 1);
            assert!(matches!(
                refused,
                Err(StoreError::Lock(LockError::Timeout { .. }))
            ));
        });
        has_locked.recv().unwrap();
        let refused = add(&transaction, &table, 1, 20).unwrap_err();
        assert!(
            matches!(refused, StoreError::Lock(LockError::Deadlock { .. })),
            "{refused}"
        );
        assert!(matches!(add(&transaction, &table, 1, 20), Err(StoreError::Ended)));
        // A savepoint made now is none.
        let late = transaction.savepoint();
        assert!(matches!(
            transaction.rollback_to(&late),
            Err(StoreError::NoSavepoint)
        ));
        transaction.rollback_to(&savepoint).unwrap();
        other.join().unwrap();
        // The same again.
        since(&transaction, &table).unwrap();
        add(&transaction, &table, 1, 20).unwrap();
        transaction.commit().unwrap();
    });
    assert_eq!(store.stats().locks.deadlocks, 1);
    let mut session = store.session_here().unwrap();
    session.set_lock_timeout(Duration::ZERO);
    session
        .begin()
        .unwrap()
        .lock_table(&table, Lock::Exclusive)
        .unwrap();
    (store, table)
}

#[test]
fn a_victim_goes_back_and_both_commit() {
    let (store, table) = victim(
        |transaction, table| add(transaction, table, 2, 10),
        |transaction, table| add(transaction, table, 2, 100),
    );
    assert_eq!(xs(&store, &table), [10, 120, 110, 0]);
}

#[test]
fn rows_that_a_victim_had_read_can_be_changed() {
    let (store, table) = victim(
        |transaction, table| {
            // Read, so that it has the row shared when it changes it.
            let primary = table.primary();
            let found = transaction.fetch(&primary, &[2.into()])?;
            let (rid, x) = found.map(|found| (found.rid, found.row.int(2))).unwrap();
            transaction.update(table, rid, |row| row.set(2, x + 10))
        },
        |transaction, table| add(transaction, table, 2, 100),
    );
    assert_eq!(xs(&store, &table), [10, 120, 110, 0]);
}

#[test]
fn ranges_that_a_victim_had_read_take_rows_of_others() {
    let (store, table) = victim(
        |transaction, table| {
            let by_x = table.index("by_x").unwrap();
            let all = by_x.prefix(&[7.into()])?;
            transaction
                .scan(&by_x, &all, Direction::Ascending, Lock::Shared)?
                .next()
                .map(drop)
        },
        |transaction, table| {
            let mut new = row(table, 50, 1);
            new.set(2, 7)?;
            transaction.insert(table, &new).map(drop)
        },
    );
    assert_eq!(xs(&store, &table), [10, 120, 0, 0, 7]);
}

#[test]
fn a_table_that_a_victim_had_locked_is_others() {
    let (store, table) = open(patient());
    let second = store
        .create_table(crate::refusal_support::definition("second"))
        .unwrap();
    fill(&store, &table, 2);
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    add(&transaction, &table, 0, 1).unwrap();
    let savepoint = transaction.savepoint();
    transaction.lock_table(&second, Lock::Shared).unwrap();
    insert(&transaction, &second, 1, 1).unwrap();
    std::thread::scope(|scope| {
        let (gate, has_locked) = std::sync::mpsc::channel();
        let other = scope.spawn({
            let (store, table, second) = (&store, &table, &second);
            move || {
                let mut session = store.session_here().unwrap();
                let transaction = session.begin().unwrap();
                add(&transaction, table, 1, 1).unwrap();
                for rid in 100..120 {
                    transaction
                        .get(table, corun_store::Rid(rid), Lock::Exclusive)
                        .unwrap();
                }
                gate.send(()).unwrap();
                transaction.lock_table(second, Lock::Exclusive).unwrap();
                insert(&transaction, second, 1, 1).unwrap();
                transaction.commit().unwrap();
            }
        });
        has_locked.recv().unwrap();
        until(|| store.stats().locks.waiting == 1);
        let refused = add(&transaction, &table, 1, 1);
        assert!(
            matches!(refused, Err(StoreError::Lock(LockError::Deadlock { .. }))),
            "{refused:?}"
        );
        transaction.rollback_to(&savepoint).unwrap();
        other.join().unwrap();
    });
    // The session knows that it has nothing of the table any more.
    let refused = insert(&transaction, &second, 1, 1);
    assert!(matches!(refused, Err(StoreError::Duplicate { .. })));
    insert(&transaction, &second, 2, 1).unwrap();
    transaction.commit().unwrap();
    assert_eq!(
        (ids(&store, &second), xs(&store, &table)),
        (vec![1, 2], vec![1, 1])
    );
}

#[test]
fn after_a_timeout_too_and_without_one_locks_are_kept() {
    let (store, table) = open(Options::default());
    fill(&store, &table, 4);
    std::thread::scope(|scope| {
        let mut session = store.session_here().unwrap();
        session.set_lock_timeout(Duration::ZERO);
        let mut transaction = session.begin().unwrap();
        let savepoint = transaction.savepoint();
        add(&transaction, &table, 1, 1).unwrap();
        transaction.rollback_to(&savepoint).unwrap();
        let (store, table) = (&store, &table);
        let elsewhere = move |id| {
            let mut session = store.session_here().unwrap();
            session.set_lock_timeout(Duration::ZERO);
            add(&session.begin().unwrap(), table, id, 1)
        };
        let refused = scope.spawn(move || elsewhere(1)).join().unwrap();
        assert!(matches!(
            refused,
            Err(StoreError::Lock(LockError::Timeout { .. }))
        ));
        let mut other = store.session_here().unwrap();
        let holder = other.begin().unwrap();
        add(&holder, table, 3, 1).unwrap();
        holder.suspend();
        let refused = add(&transaction, table, 3, 1);
        assert!(matches!(
            refused,
            Err(StoreError::Lock(LockError::Timeout { .. }))
        ));
        transaction.rollback_to(&savepoint).unwrap();
        scope.spawn(move || elsewhere(1)).join().unwrap().unwrap();
        add(&transaction, table, 2, 1).unwrap();
        transaction.commit().unwrap();
    });
    assert_eq!(xs(&store, &table), [0, 0, 1, 0]);
}

/// Clients move money, one transfer a statement; a statement that is refused is tried again, the transaction only when that does not help.
fn storm(clients: Clients) {
    const IDS: u64 = 6;
    let (store, table) = open(Options {
        detect_after: Duration::from_micros(300),
        ..patient()
    });
    fill(&store, &table, IDS as i64);
    let client = |number: usize| {
        let mut random = Random::seeded(number as u64 + 1);
        let mut session = store.session(0, corun_store::park::current()).unwrap();
        let (mut recovered, mut moved) = (0, 0);
        for _ in 0..150 {
            let mut transaction = session.begin().unwrap();
            let mut done = 0;
            'statements: for _ in 0..3 {
                let (from, to) = (random.below(IDS) as i64, random.below(IDS) as i64);
                let savepoint = transaction.savepoint();
                for attempt in 0..4 {
                    let transfer = add(&transaction, &table, from, -1).and_then(|()| {
                        teams::yield_now();
                        add(&transaction, &table, to, 1)
                    });
                    match transfer {
                        Ok(()) => {
                            recovered += u64::from(attempt > 0);
                            done += 1;
                            continue 'statements;
                        }
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                    transaction.rollback_to(&savepoint).unwrap();
                }
                break;
            }
            // What its statements did stands, whatever the last one came to.
            transaction.commit().unwrap();
            moved += done;
        }
        assert!(moved > 0);
        recovered
    };
    let recovered: u64 = clients.run(6, client, || ()).into_iter().sum();
    assert!(recovered > 0, "no statement that was refused succeeded later");
    assert_eq!(xs(&store, &table).iter().sum::<i64>(), 0);
    assert_eq!(store.stats().locks.timeouts, 0);
}

#[test]
fn statements_are_tried_again_in_a_storm_of_deadlocks() {
    storm(Clients::Threads);
    storm(MEMBERS);
}
