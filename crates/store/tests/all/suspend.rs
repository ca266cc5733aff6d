//! Transactions that outlive a call: each statement comes later than the one before it, perhaps on another thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::lock::support::{Random, until};
use crate::refusal_support::{definition, ids, insert, open, text};
use corun_store::lock::LockError;
use corun_store::storage::Twin;
use corun_store::{
    Lock, Options, Result, Session, Store, StoreError, Table, Transaction, WorkerOptions, Workers,
};

/// Who is woken through another thread's park sleeps through the test.
fn patient() -> Options {
    Options {
        lock_timeout: Duration::from_secs(3600),
        detect_after: Duration::from_secs(3600),
        ..Options::default()
    }
}

/// Runs a statement of a session on a thread of its own.
fn statement<R: Send + 'static>(
    mut session: Session,
    work: impl FnOnce(&mut Transaction<'_>) -> R + Send + 'static,
) -> (Session, R) {
    let thread = std::thread::spawn(move || {
        let mut transaction = session.resume_here().unwrap();
        let answer = work(&mut transaction);
        transaction.suspend();
        (session, answer)
    });
    thread.join().unwrap()
}

fn change(transaction: &Transaction<'_>, table: &Table, id: i64, x: i64) -> Result<bool> {
    transaction.update_by_key(table, &[id.into()], |row| row.set("x", x))
}

fn x_of(store: &Store, table: &Table, id: i64) -> i64 {
    let (snapshot, primary) = (store.snapshot().unwrap(), table.primary());
    snapshot
        .fetch(&primary, &[id.into()])
        .unwrap()
        .unwrap()
        .row
        .int("x")
}

#[test]
fn statements_of_one_transaction_run_on_many_threads() {
    let twin = Twin::new(1);
    let store = Store::open_on(Arc::new(twin.clone()), patient()).unwrap();
    let table = store.create_table(definition("t")).unwrap();
    let mut session = store.session_here().unwrap();
    session.begin().unwrap().suspend();
    assert!(session.is_suspended());
    for id in 0..20 {
        let table = table.clone();
        let inserted;
        (session, inserted) = statement(session, move |transaction| insert(transaction, &table, id, 5));
        inserted.unwrap();
    }
    let savepoint;
    (session, savepoint) = statement(session, |transaction| transaction.savepoint());
    // A statement that fails leaves the transaction as it was.
    let other = table.clone();
    let refused;
    (session, refused) = statement(session, move |transaction| insert(transaction, &other, 7, 5));
    assert!(matches!(refused, Err(StoreError::Duplicate { .. })));
    let other = table.clone();
    (session, _) = statement(session, move |transaction| {
        assert!(change(transaction, &other, 3, 1).unwrap());
        insert(transaction, &other, 100, 5).unwrap();
    });
    (session, _) = statement(session, move |transaction| {
        transaction.rollback_to(&savepoint).unwrap()
    });
    assert_eq!(table.rows(), 0, "nothing is visible yet");
    let lost = Store::open_on(Arc::new(twin.crash(2)), Options::default()).unwrap();
    assert_eq!(lost.table("t").unwrap().rows(), 0, "nor would a crash leave it");
    session.resume_here().unwrap().commit().unwrap();
    assert!(!session.is_suspended());
    drop(session);
    drop(store);
    let store = Store::open_on(Arc::new(twin.crash(1)), Options::default()).unwrap();
    let table = store.table("t").unwrap();
    assert_eq!(ids(&store, &table), (0..20).collect::<Vec<_>>());
    assert_eq!(x_of(&store, &table, 3), 0);
}

#[test]
fn who_waits_is_woken_on_the_thread_where_it_waits() {
    let (store, table) = open(patient());
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    one.run(|transaction| insert(transaction, &table, 1, 1)).unwrap();
    let first = one.begin().unwrap();
    change(&first, &table, 1, 10).unwrap();
    first.suspend();
    // Begun here, it waits elsewhere; what it waits for ends on a third thread.
    two.begin().unwrap().suspend();
    let of_waiter = table.clone();
    let waiter = std::thread::spawn(move || {
        let transaction = two.resume_here().unwrap();
        change(&transaction, &of_waiter, 1, 20).unwrap();
        transaction.commit().unwrap();
    });
    until(|| store.stats().locks.waiting == 1);
    assert!(!waiter.is_finished());
    std::thread::spawn(move || one.resume_here().unwrap().commit().unwrap());
    waiter.join().unwrap();
    assert_eq!(x_of(&store, &table, 1), 20);
}

#[test]
fn a_suspended_transaction_keeps_its_locks_and_belongs_to_no_thread() {
    let (store, table) = open(Options::default());
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    one.run(|transaction| insert(transaction, &table, 1, 1)).unwrap();
    let first = one.begin().unwrap();
    change(&first, &table, 1, 10).unwrap();
    first.suspend();
    // The thread does not wait for itself: any other may go on with the first.
    two.set_lock_timeout(Duration::ZERO);
    let second = two.begin().unwrap();
    let refused = change(&second, &table, 1, 20);
    assert!(matches!(
        refused,
        Err(StoreError::Lock(LockError::Timeout { .. }))
    ));
    drop(second);
    let first = one.resume_here().unwrap();
    let second = two.begin().unwrap();
    let refused = change(&second, &table, 1, 20);
    assert!(matches!(
        refused,
        Err(StoreError::Lock(LockError::SameThread { .. }))
    ));
    drop((first, second));
    assert_eq!(x_of(&store, &table, 1), 0, "dropped, it is aborted");
}

#[test]
fn a_session_with_a_suspended_transaction_begins_no_other_and_ends_it_when_dropped() {
    let (store, table) = open(Options::default());
    let mut session = store.session_here().unwrap();
    assert_eq!(
        text(session.resume_here()),
        "the session has no suspended transaction; begin one"
    );
    session.begin().unwrap().suspend();
    assert_eq!(
        text(store.close()),
        "transactions that are open: 1; commit or abort them, then close the store again"
    );
    let said =
        "the session has a suspended transaction; resume it, and commit or abort it, before another begins";
    assert_eq!(text(session.begin()), said);
    assert_eq!(text(session.run(|_| Ok(()))), said);
    let transaction = session.resume_here().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    transaction.suspend();
    drop(session);
    let mut session = store.session_here().unwrap();
    session.set_lock_timeout(Duration::ZERO);
    let alone = session.begin().unwrap();
    alone.lock_table(&table, Lock::Exclusive).unwrap();
    drop(alone);
    assert_eq!(ids(&store, &table), []);
    // One that did nothing is gone, too.
    session.begin().unwrap().suspend();
    drop(session);
    store.close().unwrap();
}

#[test]
fn a_store_that_was_dropped_ends_what_is_suspended() {
    let (store, table) = open(Options::default());
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    transaction.suspend();
    drop(store);
    assert_eq!(text(session.resume_here()), "the store is closed");
    assert!(!session.is_suspended());
}

#[test]
fn a_job_leaves_no_transaction_to_the_next_one() {
    let (store, table) = open(Options::default());
    let options = WorkerOptions {
        threads: 1,
        ..WorkerOptions::default()
    };
    let workers = Workers::start(&store, options, |_| ()).unwrap();
    let job = |id: i64, suspend: bool| {
        let table = table.clone();
        let pending = workers.submit(0, move |session| {
            let transaction = session.begin()?;
            insert(&transaction, &table, id, 1)?;
            match suspend {
                true => transaction.suspend(),
                false => drop(transaction.commit()?),
            }
            Ok::<_, StoreError>(())
        });
        pending.wait().unwrap()
    };
    job(1, true).unwrap();
    job(1, false).unwrap();
    job(2, true).unwrap();
    drop(workers);
    assert_eq!(ids(&store, &table), [1]);
    store.close().unwrap();
}

/// Few threads serve more clients, one statement at a time, whoever comes; locks are waited for, refused, and held by who is suspended.
#[test]
fn sessions_wander_among_threads_and_lose_nothing() {
    const IDS: u64 = 8;
    const STATEMENTS: usize = 1500;
    let (store, table) = open(Options {
        lock_timeout: Duration::from_millis(3),
        detect_after: Duration::from_micros(200),
        ..Options::default()
    });
    let session = || store.session_here().unwrap();
    session()
        .run(|transaction| (0..IDS as i64).try_for_each(|id| insert(transaction, &table, id, 1).map(drop)))
        .unwrap();
    let idle = Mutex::new((0..8).map(|_| session()).collect::<VecDeque<Session>>());
    let (left, moves) = (AtomicUsize::new(STATEMENTS), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for seed in 1..5 {
            let (idle, left, moves, table) = (&idle, &left, &moves, &table);
            scope.spawn(move || {
                let mut random = Random::seeded(seed);
                while left
                    .try_update(SeqCst, SeqCst, |left| left.checked_sub(1))
                    .is_ok()
                {
                    let mut session = idle
                        .lock()
                        .unwrap()
                        .pop_front()
                        .expect("more sessions than threads");
                    let mut transaction = match session.is_suspended() {
                        true => session.resume_here().unwrap(),
                        false => {
                            session.set_park(corun_store::park::current());
                            session.begin().unwrap()
                        }
                    };
                    let savepoint = transaction.savepoint();
                    let (from, to) = (random.below(IDS) as i64, random.below(IDS) as i64);
                    let add = |id: i64, more: i64| -> Result<()> {
                        let primary = table.primary();
                        let found = transaction
                            .fetch_for_update(&primary, &[id.into()])?
                            .expect("ids stay");
                        let (rid, x) = (found.rid, found.row.int("x"));
                        transaction.update(table, rid, |row| row.set("x", x + more))
                    };
                    match add(from, -1).and_then(|()| add(to, 1)) {
                        Ok(()) => drop(moves.fetch_add(1, SeqCst)),
                        Err(error) => {
                            assert!(error.is_retryable(), "{error}");
                            transaction.rollback_to(&savepoint).unwrap();
                        }
                    }
                    match random.below(8) {
                        0..3 => drop(transaction.commit().unwrap()),
                        3 => transaction.abort(),
                        _ => transaction.suspend(),
                    }
                    idle.lock().unwrap().push_back(session);
                }
            });
        }
    });
    assert!(moves.load(SeqCst) > 0);
    drop(idle);
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(&table, 0..table.rid_end()).unwrap();
    assert_eq!(rows.map(|found| found.row.int("x")).sum::<i64>(), 0);
    let mut session = session();
    session.set_lock_timeout(Duration::ZERO);
    session
        .begin()
        .unwrap()
        .lock_table(&table, Lock::Exclusive)
        .unwrap();
}
