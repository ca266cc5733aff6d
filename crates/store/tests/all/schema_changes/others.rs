//! Others work on a table while transactions alter it, and commit or take it back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    ColumnDef, Direction, Durability, Follower, Options, Result, Snapshot, Store, StoreError, Table,
    TableDef, Transaction, Type,
};

use super::{dump, dump_of, open, options};
use crate::crash_twin::random::Random;

const ACCOUNTS: i64 = 60;
const EACH: i64 = 1000;

fn money(snapshot: &Snapshot, table: &Table) -> (usize, i64) {
    let rows = snapshot.rows(table, 0..table.rid_end()).unwrap();
    let balances: Vec<i64> = rows
        .map(|found| found.row.get::<i64>("balance").unwrap())
        .collect();
    (balances.len(), balances.iter().sum())
}

/// Moves money, by a handle that may be of before.
fn transfer(transaction: &Transaction<'_>, random: &mut Random) -> Result<()> {
    let table = transaction.table("account")?;
    let (from, to) = (
        random.below(ACCOUNTS as u64) as i64,
        random.below(ACCOUNTS as u64) as i64,
    );
    if from == to {
        return Ok(());
    }
    for (id, by) in [(from, -5), (to, 5)] {
        let changed = transaction.update_by_key(&table, &[id.into()], |row| {
            let balance: i64 = row.row().get("balance")?;
            row.set("balance", balance + by)
        })?;
        assert!(changed, "account {id}");
    }
    Ok(())
}

/// One definition, by chance.
fn alter(transaction: &Transaction<'_>, random: &mut Random, at: u64) -> Result<()> {
    let table = transaction.table("account")?;
    let definition = table.definition();
    let extra: Vec<&str> = (definition.columns.iter())
        .map(|column| column.name.as_str())
        .filter(|name| name.starts_with('x'))
        .collect();
    let one = extra
        .get(random.below(extra.len().max(1) as u64) as usize)
        .copied();
    match (random.below(7), one) {
        (0 | 1, _) if extra.len() < 6 => {
            let column = ColumnDef::new(&format!("x{at}"), Type::I64)
                .nullable()
                .default_value(at as i64);
            transaction.add_column(&table, column)?;
            let id = random.below(ACCOUNTS as u64) as i64;
            transaction
                .update_by_key(&table, &[id.into()], |row| row.set(format!("x{at}").as_str(), 5))
                .map(drop)
        }
        (2, Some(column)) => match transaction.drop_column(&table, column) {
            Err(StoreError::ColumnInIndex { index, .. }) => transaction.drop_index(&table, &index),
            other => other.map(drop),
        },
        (3, Some(column)) => transaction.rename_column(&table, column, &format!("x{at}")),
        (4, _) if definition.indexes.len() < 4 => {
            transaction.create_index(&table, &format!("i{at}"), false, &["balance", "id"])
        }
        (5, _) => match definition
            .indexes
            .iter()
            .find(|index| index.name.starts_with('i'))
        {
            Some(index) => transaction.drop_index(&table, &index.name),
            None => Ok(()),
        },
        (6, Some(column)) => transaction.set_default(&table, column, 9).map(drop),
        _ => transfer(transaction, random),
    }
}

/// What a transaction does again that others came before.
fn comes_too_late(error: &StoreError) -> bool {
    // The table was written again between the look at its name and its lock.
    error.is_retryable()
        || matches!(
            error,
            StoreError::Dropped { .. } | StoreError::IndexUnusable { .. }
        )
}

#[test]
fn money_moves_while_the_table_is_altered_and_altered_back() {
    storm(false);
}

#[test]
fn money_moves_while_the_table_is_altered_and_checkpoints_are_written() {
    storm(true);
}

/// A follower goes on as long as no checkpoints overtake it.
fn storm(checkpoints: bool) {
    let disk = Twin::new(11);
    let options = Options {
        lock_timeout: Duration::from_secs(60),
        detect_after: Duration::from_millis(2),
        ..options()
    };
    let store = Store::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    let definition = TableDef::new("account")
        .column("id", Type::I64)
        .column("balance", Type::I64)
        .primary_key(&["id"]);
    let table = store.create_table(definition).unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            (0..ACCOUNTS).try_for_each(|id| {
                let mut row = table.new_row();
                row.set("id", id)?;
                row.set("balance", EACH)?;
                transaction.insert(&table, &row).map(drop)
            })
        })
        .unwrap();
    drop((session, table));
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut follower = Follower::open_on(&storage, options.clone()).unwrap();
    let (stop, moved, read) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let store_ = &store;
    let (stop, moved, read) = (&stop, &moved, &read);
    let (mut committed, mut rolled_back) = (0, 0);
    std::thread::scope(|scope| {
        let _ends = Ends(stop);
        for worker in 0..2 {
            scope.spawn(move || {
                let _ends = Ends(stop);
                let mut random = Random::new(worker);
                let mut session = store_.session_here().unwrap();
                session.set_durability(Durability::Asynchronous);
                while !stop.load(Ordering::Relaxed) {
                    match session.run(|transaction| transfer(transaction, &mut random)) {
                        Ok(()) => drop(moved.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert!(comes_too_late(&error), "{error}"),
                    }
                }
            });
        }
        scope.spawn(move || {
            let _ends = Ends(stop);
            while !stop.load(Ordering::Relaxed) {
                // First the handle: a table that is written again has no rows in snapshots of before.
                let table = store_.table("account").unwrap();
                let snapshot = store_.snapshot().unwrap();
                assert_eq!(money(&snapshot, &table), (ACCOUNTS as usize, ACCOUNTS * EACH));
                for index in table.indexes() {
                    match snapshot.scan(&index, &index.all(), Direction::Ascending) {
                        Ok(scan) => assert_eq!(scan.count(), ACCOUNTS as usize),
                        Err(error) => assert!(comes_too_late(&error), "{error}"),
                    }
                }
                read.fetch_add(1, Ordering::Relaxed);
            }
        });
        scope.spawn(move || {
            let _ends = Ends(stop);
            while !stop.load(Ordering::Relaxed) {
                if checkpoints {
                    store_.checkpoint().unwrap();
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let mut random = Random::new(99);
        let mut session = store.session_here().unwrap();
        let mut at = 0;
        while committed < 80 {
            let goes_on = (moved.load(Ordering::Relaxed), read.load(Ordering::Relaxed));
            let mut transaction = session.begin().unwrap();
            let mut all = Ok(());
            let savepoint = transaction.savepoint();
            for _ in 0..1 + random.below(4) {
                at += 1;
                all = all.and_then(|()| alter(&transaction, &mut random, at));
                if all.is_ok() && random.once_in(5) {
                    all = transaction.rollback_to(&savepoint);
                }
            }
            match all {
                Ok(()) if random.once_in(2) => {
                    transaction.commit().unwrap();
                    committed += 1;
                }
                Ok(()) => {
                    transaction.abort();
                    rolled_back += 1;
                }
                Err(error) => assert!(comes_too_late(&error), "{error}"),
            }
            while moved.load(Ordering::Relaxed) < goes_on.0 + 3 || read.load(Ordering::Relaxed) == goes_on.1 {
                assert!(!stop.load(Ordering::Relaxed), "another thread has failed");
                std::thread::yield_now();
            }
        }
    });
    assert!(rolled_back > 15, "{rolled_back}");
    let seen = dump(&store);
    let last = store.flush().unwrap();
    if checkpoints {
        follower = Follower::open_on(&storage, options).unwrap();
    }
    assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
    assert_eq!(dump_of(&follower.snapshot().unwrap(), &follower.tables()), seen);
    store.close().unwrap();
    assert_eq!(dump(&open(&disk)), seen);
}

#[test]
fn tables_are_made_and_dropped_by_many_at_once() {
    let disk = Twin::new(12);
    let store = open(&disk);
    let made: Vec<BTreeMap<String, i64>> = std::thread::scope(|scope| {
        let store = &store;
        let threads: Vec<_> = (0..4_u64)
            .map(|worker| {
                scope.spawn(move || {
                    let mut random = Random::new(worker);
                    let mut session = store.session_here().unwrap();
                    session.set_lock_timeout(Duration::from_secs(60));
                    let mut mine: BTreeMap<String, i64> = BTreeMap::new();
                    for round in 0..60_i64 {
                        let before = mine.clone();
                        let mut transaction = session.begin().unwrap();
                        let savepoint = transaction.savepoint();
                        let name = format!("t{worker}_{}", random.below(5));
                        match mine.contains_key(&name) {
                            true => {
                                transaction.drop_table(&name).unwrap();
                                mine.remove(&name);
                            }
                            false => {
                                let definition = TableDef::new(&name).column("id", Type::I64);
                                let table = transaction.create_table(definition).unwrap();
                                let mut row = table.new_row();
                                row.set("id", round).unwrap();
                                transaction.insert(&table, &row).unwrap();
                                mine.insert(name, round);
                            }
                        }
                        match random.below(4) {
                            0 => {
                                transaction.abort();
                                mine = before;
                            }
                            1 => {
                                transaction.rollback_to(&savepoint).unwrap();
                                transaction.commit().unwrap();
                                mine = before;
                            }
                            _ => drop(transaction.commit().unwrap()),
                        }
                    }
                    mine
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let expected: BTreeMap<String, Vec<Vec<String>>> = (made.into_iter().flatten())
        .map(|(name, id)| (name, vec![vec![id.to_string()]]))
        .collect();
    let found = |store: &Store| -> BTreeMap<String, Vec<Vec<String>>> {
        dump(store)
            .into_iter()
            .map(|(name, (_, rows))| (name, rows))
            .collect()
    };
    assert_eq!(found(&store), expected);
    assert_eq!(found(&open(&disk.crash(1))), expected);
}

#[test]
fn who_drops_empties_or_renames_a_table_finds_it_written_again() {
    let store = Store::in_memory(options()).unwrap();
    for what in 0..3 {
        let definition = TableDef::new("t").column("id", Type::I64).column("x", Type::I64);
        let table = store.create_table(definition).unwrap();
        let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
        let first = one.begin().unwrap();
        first.drop_column(&table, "x").unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                two.set_lock_timeout(Duration::from_secs(60));
                two.run(|transaction| match what {
                    0 => transaction.rename_table("t", "u"),
                    1 => transaction.truncate_table("t").map(drop),
                    _ => transaction.drop_table("t"),
                })
            });
            // It may come before the other waits: then it finds the table as it is by then.
            std::thread::sleep(Duration::from_millis(20));
            first.commit().unwrap();
            waits.join().unwrap().unwrap();
        });
        let names: Vec<_> = dump(&store).into_keys().collect();
        match what {
            0 => assert_eq!(names, ["u"]),
            1 => assert_eq!(names, ["t", "u"]),
            _ => assert_eq!(names, ["u"]),
        }
        assert_eq!(store.table("u").unwrap().definition().columns.len(), 1);
        if what == 1 {
            store.drop_table("t").unwrap();
        }
    }
}
