//! Keys longer than an index keeps, many of which share all that it keeps, beside an ordered map: unique violations, fetches,
//! scans in both directions and on from any place, what is locked, and a store that is opened again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::Twin;
use corun_store::{
    Direction, Index, KEY_BYTES_MAX, Lock, Options, Result, Rid, Session, Store, StoreError, Table, TableDef,
    Transaction, Type, Value,
};
use proptest::prelude::*;

fn open(disk: &Twin) -> Store {
    let options = Options {
        lock_timeout: Duration::from_millis(200),
        ..Options::default()
    };
    Store::open_on(Arc::new(disk.clone()), options).unwrap()
}

/// The index under test is the primary key's, or a unique one beside a short one.
fn table(store: &Store, primary: bool) -> Table {
    let definition = TableDef::new("t")
        .column("name", Type::Text { max: 5000 })
        .column("number", Type::I64);
    let definition = match primary {
        true => definition.primary_key(&["name"]),
        false => definition.primary_key(&["number"]).unique("by_name", &["name"]),
    };
    store
        .create_table(definition.index("by_name_and_number", &["name", "number"]))
        .unwrap()
}

fn by_name(table: &Table) -> Index {
    table.index("by_name").unwrap_or_else(|| table.primary())
}

fn insert(transaction: &Transaction<'_>, table: &Table, name: &str, number: i64) -> Result<Rid> {
    let mut row = table.new_row();
    row.set(0, name)?;
    row.set(1, number)?;
    transaction.insert(table, &row)
}

/// A key: mostly of a few beginnings that fill what an index keeps, with ends that differ.
fn name(number: usize) -> String {
    let beginnings = [
        "",
        "a",
        &"p".repeat(KEY_BYTES_MAX),
        &"p".repeat(KEY_BYTES_MAX - 1),
        &"p".repeat(300),
    ];
    let ends = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "b", "\u{1}", "ä", "z"];
    format!("{}{}", beginnings[number % 5], ends[number / 5 % 11])
}

type Model = BTreeMap<String, i64>;

/// Every way to read, against the map.
fn check(store: &Store, session: &mut Session, table: &Table, model: &Model, low: &str, high: &str) {
    let index = by_name(table);
    let bounds: [(Bound<&str>, Bound<&str>); 5] = [
        (Bound::Unbounded, Bound::Unbounded),
        (Bound::Included(low), Bound::Excluded(high)),
        (Bound::Excluded(low), Bound::Included(high)),
        (Bound::Excluded(low), Bound::Unbounded),
        (Bound::Unbounded, Bound::Included(low)),
    ];
    let transaction = session.begin().unwrap();
    let snapshot = store.snapshot().unwrap();
    for index in [&index, &table.index("by_name_and_number").unwrap()] {
        for (low, high) in bounds {
            let within = |name: &str| {
                let above = match low {
                    Bound::Included(low) => name >= low,
                    Bound::Excluded(low) => name > low,
                    Bound::Unbounded => true,
                };
                above
                    && match high {
                        Bound::Included(high) => name <= high,
                        Bound::Excluded(high) => name < high,
                        Bound::Unbounded => true,
                    }
            };
            let mut expected: Vec<i64> = model
                .iter()
                .filter(|(name, _)| within(name))
                .map(|(_, at)| *at)
                .collect();
            let range = index
                .between(&[], low.map(Value::Text), high.map(Value::Text))
                .unwrap();
            for direction in [Direction::Ascending, Direction::Descending] {
                let found: Vec<i64> = snapshot
                    .scan(index, &range, direction)
                    .unwrap()
                    .map(|found| found.row.int(1))
                    .collect();
                assert_eq!(found, expected, "{low:?} {high:?} {direction:?}");
                let mut scan = transaction.scan(index, &range, direction, Lock::Shared).unwrap();
                for number in &expected {
                    assert_eq!(scan.next().unwrap().unwrap().row.int(1), *number);
                }
                assert!(scan.next().unwrap().is_none());
                let first = transaction.first(index, &range, direction, Lock::Shared).unwrap();
                assert_eq!(first.map(|found| found.row.int(1)), expected.first().copied());
                expected.reverse();
            }
            // From each place on.
            let mut scan = snapshot.scan(index, &range, Direction::Ascending).unwrap();
            for at in 1..=expected.len() {
                scan.next().unwrap();
                let rest = snapshot
                    .scan_after(index, &range, &scan.place().unwrap())
                    .unwrap();
                assert_eq!(
                    rest.map(|found| found.row.int(1)).collect::<Vec<_>>(),
                    expected[at..]
                );
            }
        }
    }
    let keys: Vec<String> = (0..55).map(name).collect();
    let values: Vec<[Value<'_>; 1]> = keys.iter().map(|key| [Value::Text(key)]).collect();
    let many = transaction
        .fetch_many(&index, values.iter().map(|key| &key[..]), Lock::Shared)
        .unwrap();
    for (key, found) in keys.iter().zip(many) {
        let expected = model.get(key).copied();
        assert_eq!(found.map(|found| found.row.int(1)), expected, "{key:?}");
        let key = [Value::Text(key)];
        assert_eq!(
            transaction
                .fetch(&index, &key)
                .unwrap()
                .map(|found| found.row.int(1)),
            expected
        );
        assert_eq!(
            snapshot
                .fetch(&index, &key)
                .unwrap()
                .map(|found| found.row.int(1)),
            expected
        );
    }
    transaction.commit().unwrap();
}

#[derive(Clone, Debug)]
enum Op {
    Insert(usize),
    Rename(usize, usize),
    Delete(usize),
    Commit,
    Abort,
    Check(usize, usize),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0_usize..55).prop_map(Op::Insert),
        6 => (0_usize..55, 0_usize..55).prop_map(|(from, to)| Op::Rename(from, to)),
        4 => (0_usize..55).prop_map(Op::Delete),
        4 => Just(Op::Commit),
        1 => Just(Op::Abort),
        2 => (0_usize..55, 0_usize..55).prop_map(|(low, high)| Op::Check(low, high)),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.min(150)))]

    #[test]
    fn long_keys_do_what_a_map_does(primary in any::<bool>(), ops in prop::collection::vec(op(), 1..80)) {
        let disk = Twin::new(1);
        let mut store = open(&disk);
        table(&store, primary);
        let mut model = Model::new();
        let mut number = 0;
        // One transaction for the operations up to the next that ends it.
        for part in ops.split_inclusive(|op| !matches!(op, Op::Insert(_) | Op::Rename(..) | Op::Delete(_))) {
            let mut session = store.session_here().unwrap();
            let table = store.table("t").unwrap();
            let index = by_name(&table);
            let transaction = session.begin().unwrap();
            let mut changed = model.clone();
            for op in part {
                match *op {
                    Op::Insert(at) => {
                        number += 1;
                        let key = name(at);
                        match insert(&transaction, &table, &key, number) {
                            Ok(_) => prop_assert!(changed.insert(key, number).is_none()),
                            Err(StoreError::Duplicate { .. }) => prop_assert!(changed.contains_key(&key)),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    Op::Rename(from, to) => {
                        let (from, to) = (name(from), name(to));
                        let found = transaction.fetch_for_update(&index, &[Value::Text(&from)]).unwrap();
                        prop_assert_eq!(found.is_some(), changed.contains_key(&from));
                        let Some(found) = found else { continue };
                        match transaction.update(&table, found.rid, |row| row.set(0, to.as_str())) {
                            Ok(()) => {
                                let number = changed.remove(&from).unwrap();
                                prop_assert!(changed.insert(to, number).is_none());
                            }
                            Err(StoreError::Duplicate { .. }) => prop_assert!(from != to && changed.contains_key(&to)),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    Op::Delete(at) => {
                        let found = transaction.fetch_for_update(&index, &[Value::Text(&name(at))]).unwrap();
                        prop_assert_eq!(found.is_some(), changed.remove(&name(at)).is_some());
                        if let Some(found) = found {
                            transaction.delete(&table, found.rid).unwrap();
                        }
                    }
                    Op::Commit | Op::Abort | Op::Check(..) | Op::Reopen => {}
                }
            }
            if matches!(part.last(), Some(Op::Abort)) {
                transaction.abort();
            } else {
                transaction.commit().unwrap();
                model = changed;
            }
            match part.last() {
                Some(Op::Check(low, high)) => check(&store, &mut session, &table, &model, &name(*low), &name(*high)),
                Some(Op::Reopen) => {
                    drop((session, table, index));
                    store.close().unwrap();
                    store = open(&disk);
                    let table = store.table("t").unwrap();
                    check(&store, &mut store.session_here().unwrap(), &table, &model, "a", "b");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn an_index_over_rows_that_are_there_finds_two_of_a_long_key() {
    let store = open(&Twin::new(1));
    let table = store
        .create_table(
            TableDef::new("t")
                .column("number", Type::I64)
                .nullable("name", Type::Bytes { max: 100 })
                .nullable("rest", Type::Text { max: 70 })
                .primary_key(&["number"]),
        )
        .unwrap();
    let mut session = store.session_here().unwrap();
    let add = |session: &mut Session, number: i64, name: Option<&str>, rest: Option<&str>| {
        let transaction = session.begin().unwrap();
        let mut row = table.new_row();
        row.set(0, number).unwrap();
        row.set(1, name.map(str::as_bytes)).unwrap();
        row.set(2, rest).unwrap();
        transaction
            .insert(&table, &row)
            .map(|_| transaction.commit().unwrap())
    };
    let long = "x".repeat(90);
    // NULL behind what the index keeps.
    add(&mut session, 1, Some(&long), None).unwrap();
    add(&mut session, 2, Some(&long), None).unwrap();
    add(&mut session, 3, Some(&long), Some("a")).unwrap();
    add(&mut session, 4, Some(&long), Some("b")).unwrap();
    store
        .create_index(&table, "both", true, &["name", "rest"])
        .unwrap();
    let error = store.create_index(&table, "name", true, &["name"]).unwrap_err();
    assert!(matches!(error, StoreError::Duplicate { .. }), "{error}");
    add(&mut session, 5, Some(&long), None).unwrap();
    let error = add(&mut session, 6, Some(&long), Some("a")).unwrap_err();
    assert!(error.to_string().contains("index \"both\""), "{error}");
    let both = table.index("both").unwrap();
    let snapshot = store.snapshot().unwrap();
    let range = both
        .between(
            &[Value::Bytes(long.as_bytes())],
            Bound::Excluded("a".into()),
            Bound::Unbounded,
        )
        .unwrap();
    let found: Vec<i64> = snapshot
        .scan(&both, &range, Direction::Ascending)
        .unwrap()
        .map(|found| found.row.int(0))
        .collect();
    assert_eq!(found, [4]);
}

/// Every transaction counts the rows of a range within one cut key and adds one of that number: only one after the other do they
/// all count differently.
#[test]
fn transactions_that_count_long_keys_and_add_one_are_serializable() {
    let store = open(&Twin::new(1));
    let table = table(&store, true);
    let long = "p".repeat(100);
    let count = |transaction: &Transaction<'_>| -> Result<i64> {
        let (low, high) = (format!("{long}a"), format!("{long}z"));
        let index = table.primary();
        let range = index.between(
            &[],
            Bound::Included(Value::Text(&low)),
            Bound::Excluded(Value::Text(&high)),
        )?;
        let mut scan = transaction.scan(&index, &range, Direction::Ascending, Lock::Shared)?;
        let mut count = 0;
        while scan.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, table, long, count) = (&store, &table, &long, &count);
            scope.spawn(move || {
                let mut session = store.session_here().unwrap();
                for at in 0..10 {
                    session
                        .run(|transaction| {
                            let number = count(transaction)?;
                            insert(transaction, table, &format!("{long}k{thread}-{at}"), number).map(drop)
                        })
                        .unwrap();
                }
            });
        }
    });
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(&table, 0..table.rid_end()).unwrap();
    let mut numbers: Vec<i64> = rows.map(|found| found.row.int(1)).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..40));
}

#[test]
fn an_insert_waits_for_who_found_no_such_long_key_and_one_of_two_gets_it() {
    let store = open(&Twin::new(1));
    let table = table(&store, false);
    let long = "p".repeat(100);
    let (key, other) = (format!("{long}a"), format!("{long}b"));
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    let transaction = one.begin().unwrap();
    insert(&transaction, &table, &other, 1).unwrap();
    transaction.commit().unwrap();
    let reader = one.begin().unwrap();
    assert!(
        reader
            .fetch(&by_name(&table), &[Value::Text(&key)])
            .unwrap()
            .is_none()
    );
    let writer = two.begin().unwrap();
    let error = insert(&writer, &table, &key, 2).unwrap_err();
    assert!(error.is_retryable(), "{error}");
    drop(writer);
    reader.commit().unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (store, table, long) = (&store, &table, &long);
                scope.spawn(move || {
                    let mut session = store.session_here().unwrap();
                    let mut won = 0;
                    for at in 0..20 {
                        let name = format!("{long}c{at}");
                        match session.run(|transaction| {
                            insert(transaction, table, &name, 1000 + thread * 100 + at).map(drop)
                        }) {
                            Ok(_) => won += 1,
                            Err(StoreError::Duplicate { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    won
                })
            })
            .collect();
        let won: i64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(won, 20);
    });
}
