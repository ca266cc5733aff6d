//! One test for each defect that reading the store as a stranger found: the smallest case that shows it.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::Twin;
use corun_store::{
    Direction, Durability, Lock, Options, Rid, RowBuf, Session, Store, StoreError, Table, TableDef, Type,
    Value,
};

fn numbers(store: &Store) -> Table {
    let definition = TableDef::new("numbers")
        .column("id", Type::I64)
        .column("value", Type::I64)
        .primary_key(&["id"])
        .index("by_value", &["value"]);
    store.create_table(definition).unwrap()
}

fn row(table: &Table, id: i64, value: i64) -> RowBuf {
    let mut row = table.new_row();
    row.set(0, id).unwrap();
    row.set(1, value).unwrap();
    row
}

fn insert(session: &mut Session, table: &Table, id: i64, value: i64) -> Rid {
    let transaction = session.begin().unwrap();
    let rid = transaction.insert(table, &row(table, id, value)).unwrap();
    transaction.commit().unwrap();
    rid
}

/// Some transactions of its own, so that it clears what it can.
fn clear(session: &mut Session, times: usize) {
    for _ in 0..times {
        session.begin().unwrap().commit().unwrap();
    }
}

#[test]
fn a_savepoint_of_a_part_that_was_rolled_back_is_refused() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    transaction.insert(&table, &row(&table, 1, 1)).unwrap();
    let first = transaction.savepoint();
    transaction.insert(&table, &row(&table, 2, 2)).unwrap();
    let second = transaction.savepoint();
    transaction.rollback_to(&first).unwrap();
    for id in 3..6 {
        transaction.insert(&table, &row(&table, id, id)).unwrap();
    }
    assert!(matches!(
        transaction.rollback_to(&second),
        Err(StoreError::NoSavepoint)
    ));
    transaction.commit().unwrap();
    let snapshot = store.snapshot().unwrap();
    let primary = table.primary();
    let ids: Vec<i64> = snapshot
        .scan(&primary, &primary.all(), Direction::Ascending)
        .unwrap()
        .map(|found| found.row.int(0))
        .collect();
    assert_eq!(ids, [1, 3, 4, 5]);
}

#[test]
fn a_savepoint_of_another_session_is_refused() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    let theirs = two.begin().unwrap().savepoint();
    let mut transaction = one.begin().unwrap();
    transaction.insert(&table, &row(&table, 1, 1)).unwrap();
    transaction.savepoint();
    assert!(matches!(
        transaction.rollback_to(&theirs),
        Err(StoreError::NoSavepoint)
    ));
    transaction.commit().unwrap();
    assert_eq!(table.rows(), 1);
}

#[test]
fn zero_and_minus_zero_are_different_keys() {
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .column("x", Type::F64)
        .primary_key(&["id"])
        .index("by_x", &["x"]);
    let table = store.create_table(definition).unwrap();
    let by_x = table.index("by_x").unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let mut row = table.new_row();
    row.set(0, 1_i64).unwrap();
    row.set(1, 0.0).unwrap();
    let rid = transaction.insert(&table, &row).unwrap();
    transaction.commit().unwrap();
    let transaction = session.begin().unwrap();
    transaction.update(&table, rid, |row| row.set(1, -0.0)).unwrap();
    transaction.commit().unwrap();
    let snapshot = store.snapshot().unwrap();
    let found = snapshot
        .scan(&by_x, &by_x.all(), Direction::Ascending)
        .unwrap()
        .count();
    assert_eq!(found, 1, "the row is in every index");
}

#[test]
fn rows_behind_an_entry_of_an_old_state_are_found() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let (primary, by_value) = (table.primary(), table.index("by_value").unwrap());
    let mut session = store.session_here().unwrap();
    let rid = insert(&mut session, &table, 1, 5);
    let _old = store.snapshot().unwrap();
    let transaction = session.begin().unwrap();
    transaction
        .update(&table, rid, |row| {
            row.set(0, 2_i64)?;
            row.set(1, 6_i64)
        })
        .unwrap();
    transaction.insert(&table, &row(&table, 1, 7)).unwrap();
    for index in [&primary, &by_value] {
        for (direction, value) in [(Direction::Ascending, 6), (Direction::Descending, 7)] {
            let first = transaction.first(index, &by_value.all(), direction, Lock::Shared);
            let value = if index.name() == "primary" {
                13 - value
            } else {
                value
            };
            assert_eq!(
                first.unwrap().unwrap().row.int(1),
                value,
                "{index:?} {direction:?}"
            );
        }
    }
    assert_eq!(
        transaction
            .fetch(&primary, &[1.into()])
            .unwrap()
            .unwrap()
            .row
            .int(1),
        7
    );
}

#[test]
fn a_transaction_that_read_free_rows_can_still_insert() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    insert(&mut session, &table, 0, 0);
    let (mut reader, mut writer) = (store.session_here().unwrap(), session);
    let reading = reader.begin().unwrap();
    for rid in 0..300 {
        reading.get(&table, Rid(rid), Lock::Shared).unwrap();
    }
    // Another's, and one's own.
    insert(&mut writer, &table, 1, 1);
    let rid = reading.insert(&table, &row(&table, 2, 2)).unwrap();
    assert!(reading.get(&table, rid, Lock::Shared).unwrap().is_some());
    reading.commit().unwrap();
    assert_eq!(table.rows(), 3);
}

#[test]
fn a_dropped_table_of_another_store_does_no_harm() {
    let (store, other) = (
        Store::in_memory(Options::default()).unwrap(),
        Store::in_memory(Options::default()).unwrap(),
    );
    let (table, foreign) = (numbers(&store), numbers(&other));
    let foreign_primary = foreign.primary();
    insert(&mut other.session_here().unwrap(), &foreign, 7, 7);
    other.drop_table("numbers").unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    transaction.insert(&table, &row(&table, 1, 1)).unwrap();
    let refused = transaction.insert(&foreign, &row(&foreign, 1, 1));
    assert!(
        matches!(refused, Err(StoreError::OtherStore { .. })),
        "{refused:?}"
    );
    let refused = store
        .snapshot()
        .unwrap()
        .fetch(&foreign_primary, &[7.into()])
        .err();
    assert!(
        matches!(refused, Some(StoreError::OtherStore { .. })),
        "{refused:?}"
    );
    transaction.commit().unwrap();
    let snapshot = store.snapshot().unwrap();
    let primary = table.primary();
    assert_eq!(
        snapshot.fetch(&primary, &[1.into()]).unwrap().unwrap().row.int(1),
        1
    );
}

#[test]
fn a_table_that_was_dropped_meanwhile_does_not_disturb_the_rest() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    insert(&mut session, &table, 1, 1);
    store.drop_table("numbers").unwrap();
    let again = numbers(&store);
    let transaction = session.begin().unwrap();
    transaction.insert(&again, &row(&again, 1, 1)).unwrap();
    let refused = transaction.insert(&table, &row(&table, 2, 2));
    assert!(matches!(refused, Err(StoreError::Dropped { .. })), "{refused:?}");
    transaction.commit().unwrap();
    assert_eq!(again.rows(), 1);
}

#[test]
fn a_dropped_table_gives_its_memory_back() {
    let store = Store::in_memory(Options::default()).unwrap();
    for round in 0..3 {
        let table = numbers(&store);
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        for id in 0..5000 {
            let rid = transaction.insert(&table, &row(&table, id, id)).unwrap();
            if id % 3 == 0 {
                transaction.delete(&table, rid).unwrap();
            }
        }
        transaction.commit().unwrap();
        store.drop_table("numbers").unwrap();
        drop(table);
        clear(&mut session, 100);
        // What was emptied goes after one more commit: a snapshot of now may be reading it.
        let definition = TableDef::new(&format!("next{round}")).column("id", Type::I64);
        store.create_table(definition.primary_key(&["id"])).unwrap();
        clear(&mut session, 100);
        drop(session);
        assert_eq!(store.stats().row_bytes, 0, "round {round}");
    }
}

#[test]
fn deleted_rows_are_not_counted_in_the_bytes_of_a_table() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    let mut least = u64::MAX;
    for id in 0..2000 {
        let rid = insert(&mut session, &table, id, 0);
        let transaction = session.begin().unwrap();
        transaction.delete(&table, rid).unwrap();
        transaction.commit().unwrap();
        clear(&mut session, 2);
        least = least.min(table.bytes());
    }
    assert_eq!(table.rows(), 0);
    assert!(table.bytes() <= least + 8192, "{} after {least}", table.bytes());
}

#[test]
fn a_forgotten_transaction_is_undone_when_the_next_begins() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    let forgotten = session.begin().unwrap();
    forgotten.insert(&table, &row(&table, 1, 1)).unwrap();
    std::mem::forget(forgotten);
    session.begin().unwrap().commit().unwrap();
    assert_eq!(table.rows(), 0);
    insert(&mut store.session_here().unwrap(), &table, 1, 2);
    let forgotten = session.begin().unwrap();
    forgotten.insert(&table, &row(&table, 3, 3)).unwrap();
    std::mem::forget(forgotten);
    drop(session);
    insert(&mut store.session_here().unwrap(), &table, 3, 4);
    assert_eq!(table.rows(), 2);
    // One that did not even get the table's lock.
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    let alone = one.begin().unwrap();
    alone.lock_table(&table, Lock::Exclusive).unwrap();
    two.set_lock_timeout(Duration::ZERO);
    let forgotten = two.begin().unwrap();
    assert!(forgotten.lock_table(&table, Lock::Shared).is_err());
    std::mem::forget(forgotten);
    alone.abort();
    insert(&mut two, &table, 5, 5);
}

#[test]
fn a_checkpoint_has_room_beside_all_snapshots() {
    let options = Options {
        snapshots_max: 1,
        ..Options::default()
    };
    let store = Store::open_on(Arc::new(Twin::new(1)), options).unwrap();
    let table = numbers(&store);
    insert(&mut store.session_here().unwrap(), &table, 1, 1);
    let _only = store.snapshot().unwrap();
    assert!(store.snapshot().is_err());
    assert_eq!(store.checkpoint().unwrap().unwrap().rows, 1);
    assert_eq!(store.checkpoint().unwrap().unwrap().rows, 0);
    assert_eq!(store.stats().snapshots, 1);
}

#[test]
fn nothing_is_cleared_under_a_transaction_that_has_locked_the_table() {
    let store = Store::in_memory(Options::default()).unwrap();
    let (table, elsewhere) = (numbers(&store), {
        let definition = TableDef::new("elsewhere")
            .column("id", Type::I64)
            .primary_key(&["id"]);
        store.create_table(definition).unwrap()
    });
    let mut session = store.session_here().unwrap();
    let rids: Vec<Rid> = (0..10).map(|id| insert(&mut session, &table, id, id)).collect();
    let snapshot = store.snapshot().unwrap();
    let transaction = session.begin().unwrap();
    for rid in rids {
        transaction.delete(&table, rid).unwrap();
    }
    transaction.commit().unwrap();
    let mut reader = store.session_here().unwrap();
    let reading = reader.begin().unwrap();
    // It reads without locks on rows from now on: nobody may take away what it is led to.
    reading.lock_table(&table, Lock::Shared).unwrap();
    drop(snapshot);
    let primary = table.primary();
    let transaction = session.begin().unwrap();
    let mut row = elsewhere.new_row();
    row.set(0, 1_i64).unwrap();
    transaction.insert(&elsewhere, &row).unwrap();
    transaction.commit().unwrap();
    assert_eq!(primary.entries(), 10);
    reading.commit().unwrap();
    clear(&mut session, 3);
    assert_eq!(primary.entries(), 0);
    // The lock is free: nobody was left waiting or counted.
    let mut alone = store.session_here().unwrap();
    alone
        .begin()
        .unwrap()
        .lock_table(&table, Lock::Exclusive)
        .unwrap();
}

#[test]
fn a_durable_look_at_what_is_gone_waits_until_that_is_durable() {
    let twin = Twin::new(1);
    let options = Options {
        flush_every: Duration::from_secs(600),
        ..Options::default()
    };
    let store = Store::open_on(Arc::new(twin), options).unwrap();
    let table = numbers(&store);
    let (primary, by_value) = (table.primary(), table.index("by_value").unwrap());
    let mut session = store.session_here().unwrap();
    let mut looking = store.session_here().unwrap();
    for look in 0..6 {
        session.set_durability(Durability::Durable);
        let rid = insert(&mut session, &table, 1, 5);
        session.set_durability(Durability::Asynchronous);
        let transaction = session.begin().unwrap();
        transaction.delete(&table, rid).unwrap();
        let deleted = transaction.commit().unwrap();
        clear(&mut session, 3);
        // The trace stays until the deletion is durable: who finds it has seen that commit.
        assert_eq!(primary.entries(), 1);
        let transaction = looking.begin().unwrap();
        match look {
            0 => assert!(transaction.fetch(&primary, &[1.into()]).unwrap().is_none()),
            1 => assert!(transaction.get(&table, rid, Lock::Shared).unwrap().is_none()),
            2 => {
                let range = by_value.point(&[5.into()]).unwrap();
                let first = transaction.first(&by_value, &range, Direction::Descending, Lock::Shared);
                assert!(first.unwrap().is_none());
            }
            3 => assert!(!transaction.delete(&table, rid).unwrap()),
            4 => {
                let answer = transaction.update(&table, rid, |row| row.set(1, 6_i64));
                assert!(matches!(answer, Err(StoreError::NoRow { .. })), "{answer:?}");
            }
            _ => {
                let range = by_value
                    .between(&[], Bound::Excluded(Value::Int(3)), Bound::Unbounded)
                    .unwrap();
                let mut scan = transaction
                    .scan(&by_value, &range, Direction::Ascending, Lock::Shared)
                    .unwrap();
                assert!(scan.next().unwrap().is_none());
            }
        }
        transaction.commit().unwrap();
        assert!(store.stats().durable >= deleted, "look {look}");
    }
}

#[test]
fn a_durable_transaction_that_was_told_of_a_key_waits_until_that_is_durable() {
    let options = Options {
        flush_every: Duration::from_secs(600),
        ..Options::default()
    };
    let store = Store::open_on(Arc::new(Twin::new(1)), options).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    let mut told = store.session_here().unwrap();
    session.set_durability(Durability::Asynchronous);
    insert(&mut session, &table, 1, 5);
    let inserted = store.stats().last;
    assert!(store.stats().durable < inserted);
    let transaction = told.begin().unwrap();
    let answer = transaction.insert(&table, &row(&table, 1, 6));
    assert!(matches!(answer, Err(StoreError::Duplicate { .. })), "{answer:?}");
    transaction.commit().unwrap();
    assert!(store.stats().durable >= inserted);
}

#[test]
fn rows_freed_by_one_worker_serve_another() {
    let options = Options {
        workers: 2,
        ..Options::default()
    };
    let store = Store::in_memory(options).unwrap();
    let table = numbers(&store);
    let park = corun_store::park::current;
    let (mut producer, mut consumer) = (
        store.session(0, park()).unwrap(),
        store.session(1, park()).unwrap(),
    );
    for id in 0..20_000 {
        let rid = insert(&mut producer, &table, id, id);
        let transaction = consumer.begin().unwrap();
        transaction.delete(&table, rid).unwrap();
        transaction.commit().unwrap();
    }
    assert!(table.rid_end() < 2000, "{}", table.rid_end());
}

#[test]
fn an_entry_goes_although_a_passing_state_had_its_key() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    let rid = insert(&mut session, &table, 1, 0);
    let change = |session: &mut Session, values: &[i64]| {
        let transaction = session.begin().unwrap();
        for &value in values {
            transaction.update(&table, rid, |row| row.set(1, value)).unwrap();
        }
        transaction.commit().unwrap();
    };
    let first = store.snapshot().unwrap();
    change(&mut session, &[7, 0]);
    let second = store.snapshot().unwrap();
    change(&mut session, &[7, 0]);
    drop(first);
    clear(&mut session, 2);
    drop(second);
    clear(&mut session, 2);
    assert_eq!(table.index("by_value").unwrap().entries(), 1);
}

#[test]
fn what_an_idle_session_left_is_cleared_by_others() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut idle = store.session_here().unwrap();
    let rid = insert(&mut idle, &table, 1, 0);
    let snapshot = store.snapshot().unwrap();
    for value in 0..20_000 {
        let transaction = idle.begin().unwrap();
        transaction.update(&table, rid, |row| row.set(1, value)).unwrap();
        transaction.commit().unwrap();
    }
    drop(snapshot);
    let by_value = table.index("by_value").unwrap();
    assert!(by_value.entries() > 10_000);
    let mut busy = store.session_here().unwrap();
    clear(&mut busy, 200);
    assert!(by_value.entries() < 3000, "{}", by_value.entries());
    drop(idle);
    clear(&mut busy, 50);
    assert_eq!(by_value.entries(), 1);
}

crate::on_teams! {
    a_savepoint_of_a_part_that_was_rolled_back_is_refused,
    a_savepoint_of_another_session_is_refused,
    zero_and_minus_zero_are_different_keys,
    rows_behind_an_entry_of_an_old_state_are_found,
    a_transaction_that_read_free_rows_can_still_insert,
    a_dropped_table_of_another_store_does_no_harm,
    a_table_that_was_dropped_meanwhile_does_not_disturb_the_rest,
    a_dropped_table_gives_its_memory_back,
    deleted_rows_are_not_counted_in_the_bytes_of_a_table,
    a_forgotten_transaction_is_undone_when_the_next_begins,
    a_checkpoint_has_room_beside_all_snapshots,
    nothing_is_cleared_under_a_transaction_that_has_locked_the_table,
    a_durable_look_at_what_is_gone_waits_until_that_is_durable,
    rows_freed_by_one_worker_serve_another,
    an_entry_goes_although_a_passing_state_had_its_key,
    what_an_idle_session_left_is_cleared_by_others,
}

#[test]
fn nulls_are_never_the_same_in_a_unique_index() {
    let twin = Twin::new(1);
    let store = Store::open_on(Arc::new(twin.clone()), Options::default()).unwrap();
    let definition = TableDef::new("people")
        .column("id", Type::I64)
        .nullable("email", Type::Text { max: 20 })
        .nullable("number", Type::I32)
        .primary_key(&["id"])
        .unique("by_both", &["email", "number"]);
    let table = store.create_table(definition).unwrap();
    let mut session = store.session_here().unwrap();
    let mut add = |id: i64, email: Option<&str>, number: Option<i64>| {
        let mut row = table.new_row();
        row.set(0, id)?;
        if let Some(email) = email {
            row.set(1, email)?;
        }
        if let Some(number) = number {
            row.set(2, number)?;
        }
        let transaction = session.begin()?;
        transaction.insert(&table, &row)?;
        transaction.commit()
    };
    // An empty text and the smallest number are values, although their bytes are zeros.
    let rows = [
        (None, None),
        (None, None),
        (None, Some(5)),
        (None, Some(5)),
        (Some("a"), None),
        (Some("a"), None),
        (Some(""), Some(i64::from(i32::MIN))),
        (Some("a"), Some(5)),
    ];
    for (id, (email, number)) in rows.into_iter().enumerate() {
        add(id as i64, email, number).unwrap();
    }
    for (email, number) in [("", i64::from(i32::MIN)), ("a", 5)] {
        let answer = add(100, Some(email), Some(number));
        assert!(matches!(answer, Err(StoreError::Duplicate { .. })), "{answer:?}");
    }
    store
        .create_index(&table, "later", true, &["email", "number"])
        .unwrap();
    for column in ["email", "number"] {
        let refused = store.create_index(&table, column, true, &[column]);
        assert!(
            matches!(refused, Err(StoreError::Duplicate { .. })),
            "{refused:?}"
        );
    }
    drop(session);
    store.close().unwrap();
    let store = Store::open_on(Arc::new(twin), Options::default()).unwrap();
    let table = store.table("people").unwrap();
    let later = table.index("later").unwrap();
    let snapshot = store.snapshot().unwrap();
    let found = snapshot.scan(&later, &later.all(), Direction::Ascending).unwrap();
    assert_eq!(found.count(), rows.len());
}

#[test]
fn rows_and_their_numbers_can_be_shown() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let row = row(&table, 1, -2);
    assert_eq!(
        format!("{row:?} {:?}", row.row()),
        "[Int(1), Int(-2)] [Int(1), Int(-2)]"
    );
    let rid = insert(&mut store.session_here().unwrap(), &table, 3, 4);
    assert_eq!(rid.to_string(), rid.0.to_string());
}

#[test]
fn a_scan_does_not_meet_what_its_loop_changes() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    let rids: Vec<Rid> = (0..20).map(|id| insert(&mut session, &table, id, id)).collect();
    let by_value = table.index("by_value").unwrap();
    for direction in [Direction::Ascending, Direction::Descending] {
        let transaction = session.begin().unwrap();
        // A change of before the scan is shown.
        transaction
            .update(&table, rids[0], |row| row.set(1, 7_i64))
            .unwrap();
        let mut scan = transaction
            .scan(&by_value, &by_value.all(), direction, Lock::Exclusive)
            .unwrap();
        let mut met = Vec::new();
        while let Some(found) = scan.next().unwrap() {
            let (id, value) = (found.row.int(0), found.row.int(1));
            met.push((id, value));
            assert!(met.len() <= 20, "{met:?}");
            if found.rid == rids[10] {
                continue;
            }
            // Ahead of the scan, behind it, and far away.
            for moved in [value + 3, value - 3, 100 + value] {
                transaction
                    .update(&table, found.rid, |row| row.set(1, moved))
                    .unwrap();
            }
            transaction
                .insert(&table, &row(&table, 1000 + id, value + 1))
                .unwrap();
            // Another row goes before the scan comes to it: it is as it was.
            if met.len() == 3 {
                assert!(transaction.delete(&table, rids[10]).unwrap());
            }
        }
        let mut expected: Vec<(i64, i64)> = (1..20).map(|id| (id, id)).collect();
        expected.insert(6, (0, 7));
        expected[6..8].sort_by_key(|&(id, _)| rids[id as usize]);
        if direction == Direction::Descending {
            expected.reverse();
        }
        assert_eq!(met, expected);
        // The next one shows all of it.
        let mut scan = transaction
            .scan(&by_value, &by_value.all(), direction, Lock::Shared)
            .unwrap();
        let rows = std::iter::from_fn(|| scan.next().unwrap().map(drop)).count();
        assert_eq!(rows, 38);
        transaction.abort();
    }
}

#[test]
fn transactions_that_give_way_run_again() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = numbers(&store);
    let mut session = store.session_here().unwrap();
    let rids = [1, 2].map(|id| insert(&mut session, &table, id, 1000));
    let move_one = |session: &mut Session, from: Rid, to: Rid| {
        session.run(|transaction| {
            for (rid, change) in [(from, -1), (to, 1)] {
                transaction.update(&table, rid, |row| {
                    let value = row.row().int(1);
                    row.set(1, value + change)
                })?;
                std::thread::yield_now();
            }
            Ok(())
        })
    };
    std::thread::scope(|scope| {
        for (from, to) in [(rids[0], rids[1]), (rids[1], rids[0]), (rids[0], rids[1])] {
            let (store, move_one) = (&store, &move_one);
            scope.spawn(move || {
                let mut session = store.session_here().unwrap();
                for _ in 0..200 {
                    move_one(&mut session, from, to).unwrap();
                }
            });
        }
    });
    let values = session.run(|transaction| {
        let mut values = [0; 2];
        for (value, rid) in values.iter_mut().zip(rids) {
            *value = transaction.get(&table, rid, Lock::Shared)?.unwrap().int(1);
        }
        Ok(values)
    });
    assert_eq!(values.unwrap(), [800, 1200]);
    // Other errors are the caller's, and nothing of it stays.
    let refused = session.run(|transaction| {
        transaction.delete(&table, rids[0])?;
        transaction.insert(&table, &row(&table, 2, 0))
    });
    assert!(
        matches!(refused, Err(StoreError::Duplicate { .. })),
        "{refused:?}"
    );
    assert_eq!(table.rows(), 2);
}
