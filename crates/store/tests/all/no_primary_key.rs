//! Tables without a primary key: rows by number and by other indexes, and clear errors for the rest.

use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{Direction, Lock, Options, Store, StoreError, Table, TableDef, Type, Value, verify_on};

use crate::refusal_support::text;

fn definition() -> TableDef {
    TableDef::new("events")
        .column("kind", Type::I32)
        .nullable("what", Type::Text { max: 20 })
}

fn fill(store: &Store, table: &Table) {
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            let mut row = table.new_row();
            for kind in [1, 2, 2, 3, 3, 3] {
                row.set("kind", kind)?;
                transaction.insert(table, &row)?;
            }
            Ok(())
        })
        .unwrap();
}

fn kinds(store: &Store, table: &Table) -> Vec<i64> {
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(table, 0..table.rid_end()).unwrap();
    let mut kinds: Vec<i64> = rows.map(|found| found.row.int("kind")).collect();
    kinds.sort_unstable();
    kinds
}

#[test]
fn rows_are_found_by_number_and_by_other_indexes_after_a_restart_too() {
    let disk = Twin::new(1);
    let mut store = Store::open_on(Arc::new(disk.clone()), Options::default()).unwrap();
    let table = store.create_table(definition()).unwrap();
    assert!(table.primary_key().is_none() && table.indexes().is_empty());
    fill(&store, &table);
    store.create_index(&table, "by_kind", false, &["kind"]).unwrap();
    let refused = text(store.create_index(&table, "primary", true, &["kind"]));
    assert!(refused.contains("made with the table"), "{refused}");
    store.checkpoint().unwrap();
    fill(&store, &table);
    drop(table);
    for round in 0..2 {
        let table = store.table("events").unwrap();
        // Every row of the table, as it is now: nobody else can add one meanwhile.
        let mut session = store.session_here().unwrap();
        let deleted = session
            .run(|transaction| {
                let mut deleted = 0;
                let mut scan = transaction.scan_table(&table, Lock::Exclusive)?;
                while let Some(found) = scan.next()? {
                    if found.row.int("kind") == 1 + round {
                        deleted += i32::from(transaction.delete(&table, found.rid)?);
                    } else {
                        transaction.update(&table, found.rid, |row| row.set("what", "seen"))?;
                    }
                }
                Ok(deleted)
            })
            .unwrap();
        assert_eq!(deleted, [2, 4][round as usize]);
        let by_kind = table.index("by_kind").unwrap();
        let transaction = session.begin().unwrap();
        let mut scan = transaction
            .scan(&by_kind, &by_kind.all(), Direction::Ascending, Lock::Shared)
            .unwrap();
        let mut of_index = Vec::new();
        while let Some(found) = scan.next().unwrap() {
            assert_eq!(found.row.get::<&str>("what").unwrap(), "seen");
            of_index.push(found.row.int("kind"));
        }
        drop(scan);
        transaction.commit().unwrap();
        assert_eq!(of_index, kinds(&store, &table));
        drop((by_kind, session, table));
        store.close().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        assert_eq!(verify_on(&storage).unwrap().tables[0].indexes, 1);
        store = Store::open_on(storage, Options::default()).unwrap();
    }
    // All its indexes can go.
    let table = store.table("events").unwrap();
    store.drop_index(&table, "by_kind").unwrap();
    assert!(matches!(
        store.drop_index(&table, "primary"),
        Err(StoreError::NoIndex { .. })
    ));
    assert_eq!(table.definition(), definition());
    let same = store.create_table_if_missing(definition()).unwrap();
    assert!(same.is_same(&table));
    assert_eq!(kinds(&store, &table), [3; 6]);
}

#[test]
fn operations_by_primary_key_say_that_there_is_none() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = store.create_table(definition().unique("one", &["what"])).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let mut row = table.new_row();
    row.set("kind", 1).unwrap();
    row.set("what", "x").unwrap();
    let key = [Value::Int(1)];
    let refused = [
        text(transaction.upsert(&table, &row)),
        text(transaction.update_by_key(&table, &key, |_| Ok(()))),
        text(transaction.delete_by_key(&table, &key)),
    ];
    for refused in refused {
        assert_eq!(
            refused,
            "table \"events\" has no primary key; find its rows by an index, or by number in a scan"
        );
    }
    // The transaction goes on, and unique indexes are as anywhere.
    let rid = transaction.insert(&table, &row).unwrap();
    assert!(matches!(
        transaction.insert(&table, &row),
        Err(StoreError::Duplicate { .. })
    ));
    let one = table.index("one").unwrap();
    let found = transaction.fetch(&one, &["x".into()]).unwrap().unwrap();
    assert_eq!(found.rid, rid);
    transaction.commit().unwrap();
}

#[test]
fn a_scan_of_the_table_keeps_writers_out_and_shows_it_as_it_was() {
    let options = Options {
        lock_timeout: Duration::from_millis(20),
        ..Options::default()
    };
    let store = Store::in_memory(options).unwrap();
    let table = store.create_table(definition()).unwrap();
    fill(&store, &table);
    let mut sessions: Vec<_> = (0..2).map(|_| store.session_here().unwrap()).collect();
    let (mut other, mut session) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    let transaction = session.begin().unwrap();
    let mut scan = transaction.scan_table(&table, Lock::Shared).unwrap();
    let mut row = table.new_row();
    row.set("kind", 9).unwrap();
    let mut read = Vec::new();
    while let Some(found) = scan.next().unwrap() {
        read.push(found.row.int("kind"));
        // Its own changes do not come into its way.
        transaction.insert(&table, &row).unwrap();
        transaction
            .update(&table, found.rid, |row| row.set("kind", 0))
            .unwrap();
        let waits = std::thread::scope(|scope| {
            let (other, table, row) = (&mut other, &table, &row);
            let insert = move || other.begin().unwrap().insert(table, row).map(drop);
            scope.spawn(insert).join().unwrap()
        });
        assert!(waits.unwrap_err().is_retryable());
    }
    assert_eq!(read, [1, 2, 2, 3, 3, 3]);
    transaction.commit().unwrap();
    assert_eq!(kinds(&store, &table), [0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9]);
}
