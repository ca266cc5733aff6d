//! Indexes that are made while transactions write: each has what the table has, or there is none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    Direction, Durability, Lock, Options, Store, StoreError, Table, TableDef, Type, Value, park, verify_on,
};

use crate::crash_twin::random::Random;
use crate::refusal_support::text;

const ROWS: i64 = 3000;

fn options() -> Options {
    Options {
        workers: 4,
        checkpoint_log_bytes: 0,
        flush_every: Duration::from_millis(1),
        ..Options::default()
    }
}

fn definition() -> TableDef {
    TableDef::new("t")
        .column("id", Type::I64)
        .column("value", Type::I64)
        .nullable("text", Type::Text { max: 300 })
        .primary_key(&["id"])
}

fn put(store: &Store, table: &Table, ids: std::ops::Range<i64>) {
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            let mut row = table.new_row();
            for id in ids.clone() {
                row.set("id", id)?;
                row.set("value", id * 1000)?;
                row.set(
                    "text",
                    text_of(id * 1000).as_deref().map_or(Value::Null, Value::Text),
                )?;
                transaction.insert(table, &row)?;
            }
            Ok(())
        })
        .unwrap();
}

/// Texts share their first 64 bytes, so that the index cuts keys of several rows to the same; some are NULL.
fn text_of(value: i64) -> Option<String> {
    (value % 7 != 0).then(|| format!("{}{value}", "x".repeat(62 + (value % 3) as usize)))
}

/// Entries of an index in its order, and rows of the table sorted by the same column.
fn compare(store: &Store, table: &Table, name: &str) {
    let index = table.index(name).unwrap();
    let column = index.columns()[0];
    let snapshot = store.snapshot().unwrap();
    let scan = snapshot.scan(&index, &index.all(), Direction::Ascending).unwrap();
    let mut of_index: Vec<(String, i64)> = scan
        .map(|found| (found.row.value(column).to_string(), found.row.int(0)))
        .collect();
    let rows = snapshot.rows(table, 0..table.rid_end()).unwrap();
    let mut of_rows: Vec<(String, i64)> = rows
        .map(|found| (found.row.value(column).to_string(), found.row.int(0)))
        .collect();
    of_index.sort();
    of_rows.sort();
    assert!(
        of_index == of_rows,
        "{name}: {} entries, {} rows",
        of_index.len(),
        of_rows.len()
    );
}

/// Ends the writers when the test does, by a panic too.
struct Ends<'a>(&'a AtomicBool);
impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes until it is told to end: changes, deletes, inserts, changes a value there and back, rolls back. Values stay unique.
fn write(store: &Store, table: &Table, worker: usize, stop: &AtomicBool, commits: &AtomicU64) {
    let _ends = Ends(stop);
    let mut session = store.session(worker, park::current()).unwrap();
    session.set_durability(Durability::Asynchronous);
    let mut random = Random::new(worker as u64);
    let mut next = 1_000_000 * (worker as i64 + 1) * 1000;
    while !stop.load(Ordering::Relaxed) {
        let abort = random.once_in(4);
        let (first, kind) = (random.below(ROWS as u64) as i64, random.below(4));
        next += 10;
        let done = session.run(|transaction| {
            for id in first..(first + 3).min(ROWS) {
                let key = [Value::Int(id)];
                let value = next + (id - first);
                let set = |row: &mut corun_store::RowBuf, value: i64| {
                    row.set("value", value)?;
                    row.set("text", text_of(value).as_deref().map_or(Value::Null, Value::Text))
                };
                match kind {
                    0 => drop(transaction.delete_by_key(table, &key)?),
                    1 => {
                        let mut row = table.new_row();
                        row.set("id", id)?;
                        set(&mut row, value)?;
                        transaction.upsert(table, &row)?;
                    }
                    2 => drop(transaction.update_by_key(table, &key, |row| set(row, value))?),
                    _ => {
                        let mut was = 0;
                        transaction.update_by_key(table, &key, |row| {
                            was = row.row().int("value");
                            set(row, value)
                        })?;
                        transaction.update_by_key(table, &key, |row| set(row, was))?;
                    }
                }
            }
            match abort {
                true => Err(StoreError::NoSavepoint),
                false => Ok(()),
            }
        });
        match done {
            Ok(()) => drop(commits.fetch_add(1, Ordering::Relaxed)),
            Err(StoreError::NoSavepoint) if abort => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn an_index_that_is_made_while_others_write_is_the_table() {
    let disk = Twin::new(1);
    let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    let table = store.create_table(definition()).unwrap();
    put(&store, &table, 0..ROWS);
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let kinds = [
        ("by_value", true, ["value"]),
        ("by_text", false, ["text"]),
        ("one_text", true, ["text"]),
        ("values", false, ["value"]),
    ];
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        for worker in 0..3 {
            let (store, table, stop, commits) = (&store, &table, &stop, &commits);
            scope.spawn(move || write(store, table, worker, stop, commits));
        }
        for (name, unique, columns) in kinds {
            let begun = commits.load(Ordering::Relaxed);
            while commits.load(Ordering::Relaxed) == begun {
                assert!(!stop.load(Ordering::Relaxed), "a writer has ended");
                std::thread::yield_now();
            }
            let before = store.snapshot().unwrap();
            store
                .create_index_concurrently(&table, name, unique, &columns)
                .unwrap();
            compare(&store, &table, name);
            let index = table.index(name).unwrap();
            let early = before.scan(&index, &index.all(), Direction::Ascending);
            assert!(text(early.map(drop)).contains("after the snapshot"));
        }
        // And it stays so.
        let begun = commits.load(Ordering::Relaxed);
        while commits.load(Ordering::Relaxed) < begun + 200 {
            assert!(!stop.load(Ordering::Relaxed), "a writer has ended");
            std::thread::yield_now();
        }
        kinds.iter().for_each(|(name, ..)| compare(&store, &table, name));
    });
    kinds.iter().for_each(|(name, ..)| compare(&store, &table, name));
    // Entries of old rows go in the end: no ghost is left out that the building has put in.
    let mut session = store.session_here().unwrap();
    let mut at = 0;
    let entries = || kinds.map(|(name, ..)| table.index(name).unwrap().entries());
    while entries() != [table.rows(); 4] {
        assert!(at < 20_000, "{:?} of {} rows", entries(), table.rows());
        at += 1;
        let transaction = session.begin().unwrap();
        transaction
            .update_by_key(&table, &[Value::Int(at % ROWS)], |row| row.set("id", at % ROWS))
            .unwrap();
        transaction.commit_with(Durability::Durable).unwrap();
    }
    drop((session, table));
    store.checkpoint().unwrap();
    store.close().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk);
    assert_eq!(verify_on(&storage).unwrap().tables[0].indexes, 5);
    let store = Store::open_on(storage, options()).unwrap();
    let table = store.table("t").unwrap();
    kinds.iter().for_each(|(name, ..)| compare(&store, &table, name));
}

#[test]
fn a_row_that_is_locked_is_waited_for_and_nobody_else_waits_meanwhile() {
    let store = Store::in_memory(options()).unwrap();
    let table = store.create_table(definition()).unwrap();
    put(&store, &table, 0..200);
    let mut sessions: Vec<_> = (0..2)
        .map(|worker| store.session(worker, park::current()).unwrap())
        .collect();
    let mut writer = sessions.pop().unwrap();
    let mut other = sessions.pop().unwrap();
    std::thread::scope(|scope| {
        let building = {
            let (store, table) = (&store, &table);
            let go = Arc::new(std::sync::Barrier::new(2));
            let wait = Arc::clone(&go);
            let building = scope.spawn(move || {
                wait.wait();
                store.create_index_concurrently(table, "by_value", true, &["value"])
            });
            // The table's lock is waited for, and the row's.
            let transaction = writer.begin().unwrap();
            transaction
                .update_by_key(table, &[Value::Int(100)], |row| row.set("value", -5))
                .unwrap();
            go.wait();
            std::thread::sleep(Duration::from_millis(20));
            assert!(table.index("by_value").is_none());
            transaction.commit().unwrap();
            building
        };
        // Rows change while it is being made, or when it is: whichever comes first.
        for id in 0..200 {
            let transaction = other.begin().unwrap();
            transaction
                .update_by_key(&table, &[Value::Int(id)], |row| row.set("value", 9_000_000 + id))
                .unwrap();
            transaction.commit().unwrap();
        }
        building.join().unwrap().unwrap();
    });
    compare(&store, &table, "by_value");
}

#[test]
fn rows_of_one_key_are_an_error_that_leaves_nothing() {
    for columns in [["value"], ["text"]] {
        let disk = Twin::new(5);
        let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
        let table = store.create_table(definition()).unwrap();
        put(&store, &table, 0..500);
        let mut session = store.session_here().unwrap();
        let same = |session: &mut corun_store::Session, id: i64, value: i64| {
            session.run(|transaction| {
                transaction.update_by_key(&table, &[Value::Int(id)], |row| {
                    row.set("value", value)?;
                    row.set("text", text_of(value).as_deref().map_or(Value::Null, Value::Text))
                })
            })
        };
        same(&mut session, 400, 3000).unwrap();
        let make = || store.create_index_concurrently(&table, "one", true, &columns);
        let refused = make();
        assert!(
            matches!(refused, Err(StoreError::Duplicate { .. })),
            "{refused:?}"
        );
        assert!(table.index("one").is_none());
        assert_eq!(table.definition().indexes.len(), 1);
        // Nothing keeps rows from being alike, the name is free, and after a crash it is the same.
        same(&mut session, 401, 3000).unwrap();
        let crashed = Store::open_on(Arc::new(disk.crash(1)), options()).unwrap();
        assert_eq!(crashed.table("t").unwrap().indexes().len(), 1);
        for id in [400, 401] {
            same(&mut session, id, id * 1000).unwrap();
        }
        make().unwrap();
        compare(&store, &table, "one");
        let refused = same(&mut session, 400, 3000);
        assert!(
            matches!(refused, Err(StoreError::Duplicate { .. })),
            "{refused:?}"
        );
        let refused = make();
        assert!(matches!(refused, Err(StoreError::Exists { .. })), "{refused:?}");
    }
}

#[test]
fn a_table_that_goes_meanwhile_and_columns_that_come_do_no_harm() {
    for round in 0..30 {
        let store = Store::in_memory(options()).unwrap();
        let table = store.create_table(definition()).unwrap();
        put(&store, &table, 0..2000);
        let done = std::thread::scope(|scope| {
            let make = || store.create_index_concurrently(&table, "i", false, &["value"]);
            let building = scope.spawn(make);
            match round % 3 {
                0 => drop(store.truncate_table("t").unwrap()),
                1 => store.drop_table("t").unwrap(),
                _ => {
                    let column = corun_store::ColumnDef::new("new", Type::I64).default_value(1);
                    store.add_column(&table, column).unwrap();
                    put(&store, &table, 2000..2100);
                }
            }
            building.join().unwrap()
        });
        match done {
            Ok(()) if round % 3 == 2 => compare(&store, &table, "i"),
            Ok(()) => {}
            Err(StoreError::Dropped { .. }) if round % 3 != 2 => {
                let indexes = store.table("t").map_or(1, |table| table.indexes().len());
                assert_eq!(indexes, 1);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A range that nobody is in is read, and then somebody is in it, or not: never both, with an index that has just been made.
#[test]
fn ranges_of_an_index_that_was_just_made_are_locked() {
    let store = Store::in_memory(options()).unwrap();
    let table = store.create_table(definition()).unwrap();
    put(&store, &table, 0..ROWS);
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        for worker in 0..2 {
            let (store, table, stop, commits) = (&store, &table, &stop, &commits);
            scope.spawn(move || write(store, table, worker, stop, commits));
        }
        for round in 0..5 {
            let name = format!("values{round}");
            store
                .create_index_concurrently(&table, &name, false, &["value"])
                .unwrap();
            let index = table.index(&name).unwrap();
            let mut session = store.session(3, park::current()).unwrap();
            for _ in 0..5 {
                let read = |transaction: &corun_store::Transaction<'_>| {
                    let mut scan =
                        transaction.scan(&index, &index.all(), Direction::Ascending, Lock::Shared)?;
                    let mut rows = BTreeMap::new();
                    while let Some(found) = scan.next()? {
                        rows.insert(found.row.int("id"), found.row.int("value"));
                    }
                    Ok::<_, StoreError>(rows)
                };
                let (once, again) = session
                    .run(|transaction| Ok((read(transaction)?, read(transaction)?)))
                    .unwrap();
                assert!(once == again);
            }
        }
    });
}

#[test]
fn a_crash_while_an_index_is_made_leaves_a_whole_one_or_none() {
    let (mut with, mut without) = (0, 0);
    for seed in 0..1000 {
        // Until chance has shown enough of both.
        if seed >= 100 && with > 5 && without > 5 {
            break;
        }
        let disk = Twin::new(seed);
        let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
        let table = store.create_table(definition()).unwrap();
        put(&store, &table, 0..150);
        disk.stop_after(seed * 7 % 120);
        let done = std::thread::scope(|scope| {
            let building = scope.spawn(|| store.create_index_concurrently(&table, "i", true, &["value"]));
            // Commits and a checkpoint in the middle of it.
            let mut session = store.session(1, park::current()).unwrap();
            for id in 150..160 {
                let transaction = session.begin().unwrap();
                let mut row = table.new_row();
                row.set("id", id).unwrap();
                row.set("value", -id).unwrap();
                transaction.insert(&table, &row).unwrap();
                if transaction.commit().is_err() {
                    break;
                }
            }
            let _ = store.checkpoint();
            building.join().unwrap()
        });
        drop((store, table));
        let store = Store::open_on(Arc::new(disk.crash(seed)), options()).unwrap();
        let table = store.table("t").unwrap();
        match table.index("i") {
            Some(_) => {
                with += 1;
                compare(&store, &table, "i");
            }
            None => {
                without += 1;
                assert!(done.is_err(), "seed {seed}");
                store
                    .create_index_concurrently(&table, "i", true, &["value"])
                    .unwrap();
                compare(&store, &table, "i");
            }
        }
    }
    assert!(with > 5 && without > 5, "{with} {without}");
}
