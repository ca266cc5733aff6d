//! What a transaction has defined, itself and others see as they should; what it takes back is gone.

use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::Twin;
use corun_store::{ColumnDef, Direction, Lock, Options, Store, StoreError, TableDef, Transaction, Type};

use super::{Dump, dump, dump_of, open, options, row, rows, sorted, with_table};
use crate::refusal_support::text;

fn memory() -> Store {
    Store::in_memory(options()).unwrap()
}

fn small(name: &str) -> TableDef {
    TableDef::new(name).column("id", Type::I64).primary_key(&["id"])
}

#[test]
fn a_transaction_sees_what_it_defines_and_others_when_it_has_committed() {
    let disk = Twin::new(1);
    let store = open(&disk);
    let old = with_table(&store);
    let before = dump(&store);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();

    let made = transaction.create_table(small("new")).unwrap();
    let mut one = made.new_row();
    one.set("id", 1).unwrap();
    transaction.insert(&made, &one).unwrap();
    transaction
        .add_column(&old, ColumnDef::new("more", Type::I64).default_value(7))
        .unwrap();
    transaction
        .create_index(&old, "by_more", false, &["more", "id"])
        .unwrap();
    transaction.drop_index(&old, "by_size").unwrap();

    // Its own handle has all that.
    let table = transaction.table("t").unwrap();
    assert!(table.is_same(&old));
    assert_eq!((table.column("more"), old.column("more")), (Some(3), None));
    assert!(table.index("by_more").is_some() && table.index("by_size").is_none());
    assert!(old.index("by_more").is_none() && old.index("by_size").is_some());
    let mut more = row(&table, 10);
    more.set("more", 70).unwrap();
    transaction.insert(&table, &more).unwrap();
    transaction
        .update_by_key(&old, &[3.into()], |row| row.set("more", 33))
        .unwrap();
    let by_more = table.index("by_more").unwrap();
    let seven = by_more.prefix(&[7.into()]).unwrap();
    let mut scan = transaction
        .scan(&by_more, &seven, Direction::Ascending, Lock::Shared)
        .unwrap();
    let (mut count, by_id) = (0, table.primary());
    while let Some(found) = scan.next().unwrap() {
        assert_eq!(found.row.get::<i64>("more").unwrap(), 7);
        count += 1;
    }
    assert_eq!(count, 9);
    let first = transaction.fetch(&by_id, &[0.into()]).unwrap().unwrap();
    assert_eq!((first.row.columns(), first.row.int("more")), (4, 7));
    // So has its snapshot.
    let own = transaction.snapshot().unwrap();
    let seen = dump_of(&own, &transaction.tables());
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["new", "t"]);
    assert_eq!(seen["t"].1.len(), 11);
    assert_eq!(seen["t"].0.columns.len(), 4);
    assert!(seen["t"].1.iter().any(|row| row[0] == "3" && row[3] == "33"));
    let by_size = old.index("by_size").unwrap();
    assert!(text(own.scan(&by_size, &by_size.all(), Direction::Ascending)).contains("was dropped"));
    drop(own);

    // Others have nothing of it, without waiting; and neither has a checkpoint.
    assert_eq!(dump(&store), before);
    assert!(matches!(store.table("new"), Err(StoreError::NoTable { .. })));
    store.checkpoint().unwrap();
    assert_eq!(dump(&open(&disk.crash(7))), before);
    let older = store.snapshot().unwrap();

    let ts = transaction.commit().unwrap();
    assert_eq!(dump(&store), seen);
    assert!(store.snapshot().unwrap().ts() >= ts);
    assert_eq!((old.column("more"), table.column("more")), (Some(3), Some(3)));
    // A snapshot of before reads the old rows.
    assert_eq!(older.rows(&old, 0..old.rid_end()).unwrap().count(), 10);
    assert!(text(older.scan(&by_more, &by_more.all(), Direction::Ascending)).contains("after the snapshot"));
    drop((session, older, old, table, made, by_more, by_size));
    assert_eq!(dump(&open(&disk.crash(8))), seen);
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(dump(&store), seen);
    store.checkpoint().unwrap();
    store.close().unwrap();
    assert_eq!(dump(&open(&disk)), seen);
}

#[test]
fn what_is_rolled_back_is_gone() {
    let store = memory();
    let table = with_table(&store);
    let before = dump(&store);
    let mut session = store.session_here().unwrap();
    let everything = |transaction: &Transaction<'_>| {
        transaction.create_table(small("new")).unwrap();
        transaction
            .add_column(&table, ColumnDef::new("more", Type::I64).nullable())
            .unwrap();
        transaction
            .create_index(&table, "by_more", true, &["more"])
            .unwrap();
        transaction.drop_index(&table, "by_size").unwrap();
        transaction.rename_column(&table, "name", "label").unwrap();
        transaction.insert(&table, &row_of(transaction, 11)).unwrap();
        let other = transaction.drop_column(&table, "label").unwrap();
        assert_eq!(other.definition().columns.len(), 3);
        transaction.delete_by_key(&other, &[1.into()]).unwrap();
        transaction.rename_table("t", "u").unwrap();
        transaction.truncate_table("u").unwrap();
        transaction.drop_table("u").unwrap();
    };
    fn row_of(transaction: &Transaction<'_>, id: i64) -> corun_store::RowBuf {
        let mut row = transaction.table("t").unwrap().new_row();
        row.set("id", id).unwrap();
        row.set("label", "l").unwrap();
        row.set("size", 1).unwrap();
        row
    }
    for _ in 0..3 {
        let transaction = session.begin().unwrap();
        everything(&transaction);
        assert_eq!(dump(&store), before);
        transaction.abort();
        assert_eq!(dump(&store), before);
    }
    let mut transaction = session.begin().unwrap();
    transaction.insert(&table, &row(&table, 20)).unwrap();
    let savepoint = transaction.savepoint();
    for _ in 0..3 {
        everything(&transaction);
        let inner = transaction.savepoint();
        let begun = transaction.create_table(small("later")).unwrap();
        transaction.rollback_to(&savepoint).unwrap();
        assert!(matches!(
            transaction.rollback_to(&inner),
            Err(StoreError::NoSavepoint)
        ));
        assert!(matches!(
            transaction.insert(&begun, &begun.new_row()),
            Err(StoreError::Dropped { .. } | StoreError::Row(_))
        ));
        assert_eq!(transaction.tables().len(), 1);
        transaction
            .update_by_key(&table, &[20.into()], |row| row.set("size", 2))
            .unwrap();
    }
    // The table is used on, with the index that was dropped.
    transaction.insert(&table, &row(&table, 21)).unwrap();
    transaction.commit().unwrap();
    let table = store.table("t").unwrap();
    assert_eq!(rows(&store.snapshot().unwrap(), &table).len(), 12);
    assert_eq!(sorted(table.definition()), before["t"].0);
}

#[test]
fn a_savepoint_of_definitions_that_were_rolled_back_is_none() {
    let store = memory();
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    let first = transaction.savepoint();
    transaction.create_table(small("a")).unwrap();
    let second = transaction.savepoint();
    transaction.rollback_to(&first).unwrap();
    transaction.create_table(small("b")).unwrap();
    assert!(matches!(
        transaction.rollback_to(&second),
        Err(StoreError::NoSavepoint)
    ));
    transaction.commit().unwrap();
    assert_eq!(dump(&store).into_keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn two_that_make_one_name_wait_for_each_other() {
    let store = memory();
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    two.set_lock_timeout(Duration::from_millis(1));
    for commits in [false, true] {
        let first = one.begin().unwrap();
        first.create_table(small("a")).unwrap();
        let second = two.begin().unwrap();
        // Another name is free.
        second.create_table(small(&format!("b{commits}"))).unwrap();
        let refused = second.create_table(small("a")).unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        assert!(refused.to_string().contains("the name of a table"), "{refused}");
        second.abort();
        match commits {
            true => drop(first.commit().unwrap()),
            false => first.abort(),
        }
    }
    let second = two.begin().unwrap();
    let refused = second.create_table(small("a"));
    assert!(matches!(refused, Err(StoreError::Exists { .. })), "{refused:?}");
    // One that drops it keeps the name until the end.
    second.drop_table("a").unwrap();
    second.create_table(small("a").index("by_id", &["id"])).unwrap();
    one.set_lock_timeout(Duration::from_millis(1));
    let first = one.begin().unwrap();
    assert!(first.create_table(small("a")).unwrap_err().is_retryable());
    assert!(has_ended(&first));
    drop(first);
    second.commit().unwrap();
    assert_eq!(store.table("a").unwrap().indexes().len(), 2);
    // Of threads that make one name at once, one makes it.
    std::thread::scope(|scope| {
        let made: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut session = store.session_here().unwrap();
                    session.set_lock_timeout(Duration::from_secs(60));
                    session
                        .run(|transaction| transaction.create_table(small("c")).map(drop))
                        .is_ok()
                })
            })
            .collect();
        let made = made.into_iter().map(|made| made.join().unwrap());
        assert_eq!(made.filter(|made| *made).count(), 1);
    });
}

/// After a lock timeout nothing but the end is possible, for definitions either.
fn has_ended(transaction: &Transaction<'_>) -> bool {
    let refused = (transaction.table("a").map(drop), transaction.drop_table("a"));
    matches!(refused, (Err(StoreError::Ended), Err(StoreError::Ended)))
}

#[test]
fn names_come_and_go_within_one_transaction() {
    let disk = Twin::new(3);
    let store = open(&disk);
    with_table(&store);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    // Created and dropped.
    let gone = transaction.create_table(small("gone")).unwrap();
    let mut one = gone.new_row();
    one.set("id", 1).unwrap();
    transaction.insert(&gone, &one).unwrap();
    transaction.drop_table("gone").unwrap();
    assert!(matches!(
        transaction.insert(&gone, &one),
        Err(StoreError::Dropped { .. })
    ));
    assert!(matches!(
        transaction.drop_table("gone"),
        Err(StoreError::NoTable { .. })
    ));
    // Dropped and created, with another definition.
    transaction.drop_table("t").unwrap();
    assert!(transaction.table("t").is_err());
    let table = transaction.create_table(small("t")).unwrap();
    transaction
        .insert(&table, &{
            let mut row = table.new_row();
            row.set("id", 5).unwrap();
            row
        })
        .unwrap();
    // Created, filled and emptied.
    let emptied = transaction.create_table(small("emptied")).unwrap();
    transaction
        .insert(&emptied, &{
            let mut row = emptied.new_row();
            row.set("id", 5).unwrap();
            row
        })
        .unwrap();
    let again = transaction.truncate_table("emptied").unwrap();
    assert!(!again.is_same(&emptied));
    assert_eq!(
        transaction
            .snapshot()
            .unwrap()
            .rows(&again, 0..again.rid_end())
            .unwrap()
            .count(),
        0
    );
    // Two change their names.
    transaction.rename_table("t", "x").unwrap();
    transaction.rename_table("emptied", "t").unwrap();
    transaction.rename_table("x", "emptied").unwrap();
    assert!(matches!(
        transaction.rename_table("t", "emptied"),
        Err(StoreError::Exists { .. })
    ));
    assert!(matches!(
        transaction.rename_table("x", "y"),
        Err(StoreError::NoTable { .. })
    ));
    assert!(matches!(
        transaction.rename_table("t", ""),
        Err(StoreError::Schema(_))
    ));
    transaction.commit().unwrap();
    drop(session);
    let check = |dump: Dump| {
        assert_eq!(dump.keys().collect::<Vec<_>>(), ["emptied", "t"]);
        assert_eq!(dump["t"].1, Vec::<Vec<String>>::new());
        assert_eq!(dump["emptied"].1, [["5"]]);
        assert_eq!(
            (dump["t"].0.name.as_str(), dump["emptied"].0.name.as_str()),
            ("t", "emptied")
        );
    };
    check(dump(&store));
    assert_eq!((table.name(), again.name()), ("emptied", "t"));
    check(dump(&open(&disk.crash(1))));
    store.checkpoint().unwrap();
    check(dump(&open(&disk.crash(2))));
}

#[test]
fn an_index_that_is_refused_leaves_the_transaction_as_it_was() {
    let store = memory();
    let table = with_table(&store);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let refused = transaction.create_index(&table, "unique", true, &["size"]);
    assert!(
        matches!(refused, Err(StoreError::Duplicate { .. })),
        "{refused:?}"
    );
    assert!(matches!(
        transaction.create_index(&table, "by_size", false, &["id"]),
        Err(StoreError::Exists { .. })
    ));
    assert!(matches!(
        transaction.create_index(&table, "i", false, &["nothing"]),
        Err(StoreError::Schema(_))
    ));
    assert!(matches!(
        transaction.drop_index(&table, "nothing"),
        Err(StoreError::NoIndex { .. })
    ));
    assert!(matches!(
        transaction.drop_index(&table, "primary"),
        Err(StoreError::PrimaryKey { .. })
    ));
    // Without the rows that are in its way it is made, and refuses others.
    for id in 3..10 {
        transaction.delete_by_key(&table, &[id.into()]).unwrap();
    }
    transaction
        .create_index(&table, "unique", true, &["size"])
        .unwrap();
    let twice = transaction.insert(&table, &row(&table, 30));
    assert!(matches!(twice, Err(StoreError::Duplicate { .. })), "{twice:?}");
    // A unique index that was dropped is in nobody's way, and one of its name can be made.
    transaction.drop_index(&table, "unique").unwrap();
    transaction.insert(&table, &row(&table, 30)).unwrap();
    transaction
        .create_index(&table, "unique", false, &["size"])
        .unwrap();
    transaction.commit().unwrap();
    let found = rows(&store.snapshot().unwrap(), &table);
    assert_eq!((found.len(), table.indexes().len()), (4, 3));
    assert!(!table.index("unique").unwrap().is_unique());
}

#[test]
fn rows_begun_in_columns_that_were_rolled_back_are_refused() {
    let store = memory();
    let table = with_table(&store);
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    let savepoint = transaction.savepoint();
    transaction
        .add_column(&table, ColumnDef::new("more", Type::Text { max: 9 }).nullable())
        .unwrap();
    let mut begun = row(&transaction.table("t").unwrap(), 50);
    begun.set("more", "text").unwrap();
    transaction.insert(&table, &begun).unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    // Another column is in its place.
    transaction
        .add_column(&table, ColumnDef::new("other", Type::I64).default_value(1))
        .unwrap();
    assert!(text(transaction.insert(&table, &begun)).contains("rolled back"));
    assert!(begun.set("other", 5).is_err());
    let mut early = table.new_row();
    assert!(
        early.set("other", 5).is_err(),
        "the handle is of before, and shows what is committed"
    );
    transaction.commit().unwrap();
    assert!(begun.set("other", 5).is_err());
    early.set("other", 5).unwrap();
    early.set("id", 60).unwrap();
    early.set("size", 1).unwrap();
    session
        .run(|transaction| transaction.insert(&table, &early).map(drop))
        .unwrap();
    let refused = session.run(|transaction| transaction.insert(&table, &begun).map(drop));
    assert!(text(refused).contains("rolled back"));
    assert_eq!(rows(&store.snapshot().unwrap(), &table).len(), 11);
}

#[test]
fn a_suspended_transaction_keeps_its_definitions_and_a_session_that_ends_takes_them_back() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = with_table(&store);
    let before = dump(&store);
    for commits in [false, true] {
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        transaction.create_table(small("new")).unwrap();
        transaction
            .add_column(&table, ColumnDef::new("more", Type::I64).nullable())
            .unwrap();
        transaction.suspend();
        assert_eq!(dump(&store), before);
        let ended = std::thread::spawn(move || {
            if commits {
                let transaction = session.resume_here().unwrap();
                assert_eq!(transaction.table("t").unwrap().column("more"), Some(3));
                transaction.commit().unwrap();
            }
        });
        ended.join().unwrap();
        assert_eq!(dump(&store).len(), if commits { 2 } else { 1 });
    }
    // A transaction that was forgotten is undone by the next.
    let before = dump(&store);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    transaction.drop_table("new").unwrap();
    std::mem::forget(transaction);
    session.begin().unwrap().commit().unwrap();
    assert_eq!(dump(&store), before);
}

#[test]
fn definitions_wait_for_those_who_use_the_table_and_a_circle_is_found() {
    let store = Arc::new(memory());
    let table = with_table(&store);
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    for session in [&mut one, &mut two] {
        session.set_lock_timeout(Duration::from_secs(60));
    }
    // Each has a row, and wants the table.
    let barrier = std::sync::Barrier::new(2);
    let work = |session: &mut corun_store::Session, id: i64, column: &str| {
        let mut met = false;
        session
            .run(|transaction| {
                transaction.update_by_key(&table, &[id.into()], |row| row.set("size", 9))?;
                if !std::mem::replace(&mut met, true) {
                    barrier.wait();
                }
                transaction.add_column(&table, ColumnDef::new(column, Type::I64).nullable())
            })
            .unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(&mut one, 1, "a"));
        work(&mut two, 2, "b");
    });
    let definition = table.definition();
    let mut names: Vec<_> = definition.columns[3..]
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(rows(&store.snapshot().unwrap(), &table).len(), 10);
}
