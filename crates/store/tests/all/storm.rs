//! Deadlock storms, lock timeouts and panics: everything ends, what was not committed is gone, and its locks are free.
//!
//! `STORE_ROUNDS=50` makes it so many times as long.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::clients::{Clients, MEMBERS};
use corun_exec::teams;
use corun_store::lock::{HeldBy, LockError, LockName};
use corun_store::{
    Direction, Lock, Options, Result, Rid, Store, StoreError, Table, TableDef, Transaction, Type,
};

fn rounds() -> u64 {
    std::env::var("STORE_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(1)
}

fn open(options: Options) -> (Store, Table) {
    let store = Store::in_memory(options).unwrap();
    let definition = TableDef::new("account")
        .column("id", Type::I64)
        .column("balance", Type::I64)
        .primary_key(&["id"])
        .index("by_balance", &["balance"]);
    let table = store.create_table(definition).unwrap();
    (store, table)
}

fn fill(store: &Store, table: &Table, ids: i64) -> Vec<Rid> {
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let rids = (0..ids).map(|id| insert(&transaction, table, id, 100).unwrap());
    let rids = rids.collect();
    transaction.commit().unwrap();
    rids
}

fn insert(transaction: &Transaction<'_>, table: &Table, id: i64, balance: i64) -> Result<Rid> {
    let mut row = table.new_row();
    row.set(0, id)?;
    row.set(1, balance)?;
    transaction.insert(table, &row)
}

fn sum(store: &Store, table: &Table) -> i64 {
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(table, 0..table.rid_end()).unwrap();
    rows.map(|found| found.row.int(1)).sum()
}

/// Nobody holds or waits for anything: one transaction gets it all at once.
fn check_free(store: &Store, table: &Table) {
    let mut session = store.session_here().unwrap();
    session.set_lock_timeout(Duration::ZERO);
    let transaction = session.begin().unwrap();
    transaction.lock_table(table, Lock::Exclusive).unwrap();
    for rid in 0..table.rid_end() {
        transaction.get(table, Rid(rid), Lock::Exclusive).unwrap();
    }
    insert(&transaction, table, -1, 0).unwrap();
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 20) % below) as i64
    }
}

/// Moves money between rows in random order: upgrades, ranges with inserts into them, rows deleted and put back.
fn transfer(transaction: &Transaction<'_>, table: &Table, ids: i64, random: &mut Random) -> Result<()> {
    let (primary, by_balance) = (table.primary(), table.index("by_balance").unwrap());
    for _ in 0..1 + random.below(3) {
        let (from, to, amount) = (
            random.below(ids as u64),
            random.below(ids as u64),
            1 + random.below(9),
        );
        match random.below(6) {
            0 => {
                // Reads a range, then adds to it: two of those are a deadlock of intervals.
                let range = primary.between(
                    &[],
                    Bound::Included(from.into()),
                    Bound::Included((from + 3).into()),
                )?;
                let mut scan = transaction.scan(&primary, &range, Direction::Ascending, Lock::Shared)?;
                while scan.next()?.is_some() {}
                teams::yield_now();
                let found = transaction
                    .fetch_for_update(&primary, &[from.into()])?
                    .expect("ids stay");
                let (rid, balance) = (found.rid, found.row.int(1));
                transaction.delete(table, rid)?;
                insert(transaction, table, from, balance)?;
            }
            1 => {
                let range = by_balance.between(&[], Bound::Included(90.into()), Bound::Unbounded)?;
                transaction.first(&by_balance, &range, Direction::Descending, Lock::Shared)?;
            }
            _ => {
                let lock = random.below(2) == 0;
                for (id, change) in [(from, -amount), (to, amount)] {
                    let found = match lock {
                        true => transaction.fetch(&primary, &[id.into()])?,
                        false => transaction.fetch_for_update(&primary, &[id.into()])?,
                    };
                    let found = found.expect("ids stay");
                    let balance = found.row.int(1);
                    teams::yield_now();
                    transaction.update(table, found.rid, |row| row.set(1, balance + change))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn everything_ends_in_a_storm_of_deadlocks() {
    storm_of_deadlocks(Clients::Threads);
}

#[test]
fn everything_ends_in_a_storm_of_deadlocks_on_teams() {
    storm_of_deadlocks(MEMBERS);
    storm_of_deadlocks(Clients::Members { threads: 1, team: 4 });
}

fn storm_of_deadlocks(clients: Clients) {
    const IDS: i64 = 6;
    for (timeout, threads) in [(Duration::from_secs(30), 6), (Duration::from_millis(3), 4)] {
        let (store, table) = open(Options {
            lock_timeout: timeout,
            detect_after: Duration::from_micros(500),
            ..Options::default()
        });
        fill(&store, &table, IDS);
        let (deadlocks, timeouts, longest) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        clients.run(
            threads,
            |thread| {
                let table = &table;
                let mut random = Random(thread as u64 + 1);
                let mut session = store.session(0, corun_store::park::current()).unwrap();
                for _ in 0..150 * rounds() {
                    let transaction = session.begin().unwrap();
                    match transfer(&transaction, table, IDS, &mut random) {
                        Ok(()) => drop(transaction.commit().unwrap()),
                        Err(StoreError::Lock(LockError::Deadlock { parties, .. })) => {
                            assert!(parties.len() >= 2, "{parties:?}");
                            deadlocks.fetch_add(1, Ordering::Relaxed);
                            // Nothing but the end is possible.
                            let more = transaction.fetch(&table.primary(), &[1.into()]).err();
                            assert!(matches!(more, Some(StoreError::Ended)), "{more:?}");
                            let more = transaction.commit();
                            assert!(matches!(more, Err(StoreError::Ended)), "{more:?}");
                        }
                        Err(StoreError::Lock(LockError::Timeout { waited, .. })) => {
                            assert!(waited >= timeout, "{waited:?}");
                            longest.fetch_max(waited.as_millis() as u64, Ordering::Relaxed);
                            timeouts.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            },
            || (),
        );
        assert_eq!(sum(&store, &table), IDS * 100);
        assert_eq!(table.rows() as i64, IDS);
        assert!(
            deadlocks.load(Ordering::Relaxed) + timeouts.load(Ordering::Relaxed) > 0,
            "it was no storm"
        );
        if timeout > Duration::from_secs(1) {
            assert_eq!(timeouts.load(Ordering::Relaxed), 0, "every circle is found");
        }
        check_free(&store, &table);
    }
}

#[test]
fn a_wait_ends_at_its_timeout_and_says_for_whom() {
    let (store, table) = open(Options {
        detect_after: Duration::from_millis(1),
        ..Options::default()
    });
    let rids = fill(&store, &table, 3);
    let mut one = store.session_here().unwrap();
    let holder = one.begin().unwrap();
    holder.get(&table, rids[1], Lock::Exclusive).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| wait_in_vain(&store, &table, rids[1]));
    });
    holder.commit().unwrap();
    assert_eq!(table.rows(), 3, "what it inserted is gone");
    check_free(&store, &table);
}

/// For a row that another thread has.
fn wait_in_vain(store: &Store, table: &Table, rid: Rid) {
    let mut two = store.session_here().unwrap();
    two.set_lock_timeout(Duration::from_millis(20));
    let waiter = two.begin().unwrap();
    insert(&waiter, table, 10, 5).unwrap();
    let started = Instant::now();
    let refused = waiter.get(table, rid, Lock::Shared).err().unwrap();
    assert!(started.elapsed() >= Duration::from_millis(20));
    match &refused {
        StoreError::Lock(LockError::Timeout {
            what: LockName::Row(row),
            mode: "S",
            by: HeldBy::One(_),
            ..
        }) => assert_eq!(row.rid, rid.0),
        other => panic!("{other:?}"),
    }
    let text = refused.to_string();
    assert!(
        text.contains("for S on row 1 of table 1, held by transaction slot")
            && text.ends_with("abort the transaction and try again, or allow longer waits"),
        "{text}"
    );
    assert!(refused.is_retryable());
    let after = insert(&waiter, table, 11, 5).unwrap_err();
    assert!(matches!(after, StoreError::Ended) && after.is_retryable());
    waiter.abort();
}

#[test]
fn two_in_a_circle_and_one_gives_way() {
    let (store, table) = open(Options {
        lock_timeout: Duration::from_secs(60),
        ..Options::default()
    });
    let rids = fill(&store, &table, 2);
    let mut one = store.session_here().unwrap();
    let mine = one.begin().unwrap();
    mine.update(&table, rids[0], |row| row.set(1, 1_i64)).unwrap();
    let (has_locked, locked) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut two = store.session_here().unwrap();
            let theirs = two.begin().unwrap();
            theirs.update(&table, rids[1], |row| row.set(1, 2_i64)).unwrap();
            has_locked.send(()).unwrap();
            match theirs.update(&table, rids[0], |row| row.set(1, 2_i64)) {
                Ok(()) => drop(theirs.commit().unwrap()),
                Err(error) => check_deadlock(&error),
            }
        });
        locked.recv().unwrap();
        match mine.update(&table, rids[1], |row| row.set(1, 1_i64)) {
            Ok(()) => drop(mine.commit().unwrap()),
            Err(error) => {
                check_deadlock(&error);
                mine.abort();
            }
        }
    });
    let total = sum(&store, &table);
    assert!(total == 2 || total == 4, "one of them, whole: {total}");
    check_free(&store, &table);
}

fn check_deadlock(error: &StoreError) {
    let text = error.to_string();
    assert!(
        text.starts_with("deadlock of 2 transactions (slots [") && text.ends_with("abort it and try again"),
        "{text}"
    );
    assert!(error.is_retryable());
}

#[test]
fn an_insert_waits_for_those_who_read_the_interval() {
    let (store, table) = open(Options {
        lock_timeout: Duration::from_millis(20),
        ..Options::default()
    });
    fill(&store, &table, 3);
    let primary = table.primary();
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    let reading = one.begin().unwrap();
    assert!(reading.fetch(&primary, &[50.into()]).unwrap().is_none());
    let writing = two.begin().unwrap();
    insert(&writing, &table, 51, 0).unwrap();
    let refused = insert(&writing, &table, 50, 0).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("for an entry on a key of index 1 that begins with"),
        "{text}"
    );
    writing.abort();
    assert!(reading.fetch(&primary, &[50.into()]).unwrap().is_none());
    reading.commit().unwrap();
    assert_eq!((table.rows(), primary.entries()), (3, 3));
    check_free(&store, &table);
}

#[test]
fn a_panic_takes_its_own_transaction_alone() {
    let (store, table) = open(Options::default());
    let rids = fill(&store, &table, 5);
    let mut other = store.session_here().unwrap();
    other.set_lock_timeout(Duration::ZERO);
    let beside = other.begin().unwrap();
    beside.update(&table, rids[4], |row| row.set(1, 7_i64)).unwrap();
    let mut session = store.session_here().unwrap();
    for round in 0..4 {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let transaction = session.begin().unwrap();
            insert(&transaction, &table, 20, 1).unwrap();
            transaction.delete(&table, rids[1]).unwrap();
            transaction
                .update(&table, rids[0], |row| row.set(1, 5_i64))
                .unwrap();
            let primary = table.primary();
            let mut scan = transaction
                .scan(&primary, &primary.all(), Direction::Ascending, Lock::Shared)
                .unwrap();
            scan.next().unwrap();
            match round {
                0 => panic!("in the middle"),
                1 => transaction
                    .update(&table, rids[2], |_| panic!("in the change"))
                    .unwrap(),
                2 => {
                    // Having used the transaction in there as well.
                    let change =
                        |_: &mut corun_store::RowBuf| -> std::result::Result<(), corun_store::RowError> {
                            insert(&transaction, &table, 21, 1).unwrap();
                            panic!("in the change, behind another")
                        };
                    transaction.update(&table, rids[2], change).unwrap();
                }
                _ => {
                    transaction.savepoint();
                    std::panic::panic_any(7);
                }
            }
        }));
        assert!(outcome.is_err());
        assert_eq!(table.rows(), 5);
        assert_eq!(sum(&store, &table), 500);
        // Its locks are free, the other's are not.
        let mut third = store.session_here().unwrap();
        third.set_lock_timeout(Duration::ZERO);
        let free = third.begin().unwrap();
        for rid in &rids[..4] {
            assert!(free.get(&table, *rid, Lock::Exclusive).unwrap().is_some());
        }
        insert(&free, &table, 20, 1).unwrap();
        assert!(free.get(&table, rids[4], Lock::Shared).is_err());
        // And the session goes on.
        insert(&session.begin().unwrap(), &table, 22, 1).unwrap();
    }
    beside.commit().unwrap();
    assert_eq!(sum(&store, &table), 407);
    check_free(&store, &table);
}

#[test]
fn a_change_that_changes_its_row_otherwise_is_refused() {
    let (store, table) = open(Options::default());
    let rids = fill(&store, &table, 2);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let refused = transaction.update(&table, rids[0], |row| {
        transaction
            .update(&table, rids[0], |row| row.set(1, 1_i64))
            .unwrap();
        row.set(1, 2_i64)
    });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "row 0 of table \"account\" was changed by the function that was to change it"
    );
    let refused = transaction.update(&table, rids[1], |row| {
        assert!(transaction.delete(&table, rids[1]).unwrap());
        row.set(1, 2_i64)
    });
    assert!(matches!(refused, Err(StoreError::ChangedMeanwhile { .. })));
    transaction.commit().unwrap();
    assert_eq!((sum(&store, &table), table.rows()), (1, 1));
}

#[test]
fn panics_in_a_storm_leave_no_lock() {
    panics_in_a_storm(Clients::Threads);
}

#[test]
fn panics_in_a_storm_on_teams_leave_no_lock() {
    panics_in_a_storm(MEMBERS);
}

fn panics_in_a_storm(clients: Clients) {
    const IDS: i64 = 5;
    let (store, table) = open(Options {
        lock_timeout: Duration::from_secs(30),
        ..Options::default()
    });
    fill(&store, &table, IDS);
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<u8>() {
            quiet(info);
        }
    }));
    clients.run(
        4,
        |thread| {
            let table = &table;
            let mut random = Random(thread as u64 + 77);
            let mut session = store.session_here().unwrap();
            for _ in 0..100 * rounds() {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    let transaction = session.begin().unwrap();
                    match transfer(&transaction, table, IDS, &mut random) {
                        Ok(()) if random.below(3) == 0 => std::panic::panic_any(1_u8),
                        Ok(()) => drop(transaction.commit().unwrap()),
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }));
                if let Err(payload) = outcome {
                    assert!(payload.is::<u8>());
                }
            }
        },
        || (),
    );
    assert_eq!(sum(&store, &table), IDS * 100);
    check_free(&store, &table);
}
