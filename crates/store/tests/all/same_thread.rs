//! Two transactions of one thread: one that would wait for the other is told so.

use std::time::Duration;

use crate::clients::Clients;
use crate::refusal_support::{ids, insert, open, text};
use corun_exec::teams;
use corun_store::lock::LockError;
use corun_store::{Lock, Options, StoreError};

fn patient() -> Options {
    Options {
        lock_timeout: Duration::from_secs(3600),
        ..Options::default()
    }
}

#[test]
fn a_thread_does_not_wait_for_itself() {
    let (store, table) = open(patient());
    let primary = table.primary();
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    one.run(|transaction| insert(transaction, &table, 1, 1)).unwrap();
    let first = one.begin().unwrap();
    let rid = first
        .fetch_for_update(&primary, &[1.into()])
        .unwrap()
        .unwrap()
        .rid;
    let second = two.begin().unwrap();
    insert(&second, &table, 2, 1).unwrap();
    assert_eq!(
        text(second.fetch(&primary, &[1.into()])),
        "row 0 of table 1 is held by transaction slot 0 of the same thread, which would wait for itself (S); \
         end that transaction first, or do all in one"
    );
    for refused in [
        second.get(&table, rid, Lock::Exclusive).map(drop),
        insert(&second, &table, 1, 1).map(drop),
        second.delete(&table, rid).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, StoreError::Lock(LockError::SameThread { slot: 0, .. })),
            "{error}"
        );
        assert!(!error.is_retryable());
    }
    // Another thread waits.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut session = store.session_here().unwrap();
            session.run(|transaction| transaction.delete(&table, rid))
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        first.commit().unwrap();
        assert!(waits.join().unwrap().unwrap());
    });
    // The transaction goes on.
    insert(&second, &table, 3, 1).unwrap();
    assert!(second.fetch(&primary, &[1.into()]).unwrap().is_none());
    second.commit().unwrap();
    assert_eq!(ids(&store, &table), [2, 3]);
}

#[test]
fn user_level_threads_of_one_thread_wait_for_each_other() {
    let (store, table) = open(patient());
    let primary = table.primary();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| insert(transaction, &table, 1, 1))
        .unwrap();
    let client = |_| {
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        let found = transaction.fetch_for_update(&primary, &[1.into()]).unwrap();
        let x = found.unwrap().row.int("x");
        teams::yield_now();
        let changed = transaction.update_by_key(&table, &[1.into()], |row| row.set("x", x + 1));
        assert!(changed.unwrap());
        transaction.commit().unwrap();
    };
    Clients::Members { threads: 1, team: 3 }.run(3, client, || ());
    let snapshot = store.snapshot().unwrap();
    let found = snapshot.fetch(&primary, &[1.into()]).unwrap();
    assert_eq!(found.unwrap().row.int("x"), 3);
}
