//! Columns and tables that are changed: renamed, dropped, with and without NULL and defaults.

use std::sync::Arc;

use corun_store::storage::Twin;
use corun_store::{ColumnDef, Direction, Follower, Store, StoreError, Type, Value};

use super::{dump, open, options, row, rows, with_table};
use crate::refusal_support::text;

#[test]
fn a_dropped_column_is_gone_and_snapshots_of_before_have_it() {
    let disk = Twin::new(2);
    let store = open(&disk);
    let old = with_table(&store);
    store
        .add_column(&old, ColumnDef::new("more", Type::I64).default_value(7))
        .unwrap();
    let before = store.snapshot().unwrap();
    assert_eq!(
        text(store.drop_column(&old, "size")),
        "column \"size\" of table \"t\" is in index \"by_size\"; drop the index first (a primary key stays with its table)"
    );
    assert!(text(store.drop_column(&old, "id")).contains("in index \"primary\""));
    assert!(text(store.drop_column(&old, "sise")).contains("the table has id, name, size, more"));
    let table = store.drop_column(&old, "name").unwrap();
    let names = |table: &corun_store::Table| -> Vec<String> {
        table
            .definition()
            .columns
            .into_iter()
            .map(|column| column.name)
            .collect()
    };
    assert_eq!(names(&table), ["id", "size", "more"]);
    // Whoever has the old handle reads the old rows by his snapshot, and changes nothing.
    let (by_size, by_id) = (old.index("by_size").unwrap(), old.primary());
    assert_eq!(
        before
            .scan(&by_size, &by_size.all(), Direction::Ascending)
            .unwrap()
            .count(),
        10
    );
    let found = before.fetch(&by_id, &[4.into()]).unwrap().unwrap();
    assert_eq!((found.row.text("name"), found.row.int("more")), ("n4", 7));
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    assert!(text(transaction.insert(&old, &row(&old, 11))).contains("look it up by name"));
    assert!(matches!(
        transaction.drop_column(&old, "more"),
        Err(StoreError::Dropped { .. })
    ));
    drop(transaction);
    assert_eq!(
        before.rows(&table, 0..table.rid_end()).unwrap().count(),
        0,
        "it was made later"
    );
    let expected: Vec<Vec<String>> = (0..10_i64)
        .map(|id| [id, id % 3, 7].iter().map(ToString::to_string).collect())
        .collect();
    assert_eq!(rows(&store.snapshot().unwrap(), &table), expected);
    assert_eq!(table.rows(), 10);
    let seen = dump(&store);
    drop(session);
    assert_eq!(dump(&open(&disk.crash(1))), seen);
    store.checkpoint().unwrap();
    assert_eq!(dump(&open(&disk.crash(2))), seen);
    // Free row numbers are used again.
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            for id in 0..5 {
                transaction.delete_by_key(&table, &[id.into()])?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(table.rows(), 5);
    assert!(text(store.drop_column(&table, "id")).contains("primary"));
}

#[test]
fn null_and_defaults_come_and_go() {
    let disk = Twin::new(3);
    let store = open(&disk);
    let table = with_table(&store);
    let mut session = store.session_here().unwrap();
    let set = |session: &mut corun_store::Session, table: &corun_store::Table, id: i64, name: Value<'_>| {
        session.run(|transaction| {
            transaction
                .update_by_key(table, &[id.into()], |row| row.set("name", name))
                .map(drop)
        })
    };
    set(&mut session, &table, 4, Value::Null).unwrap();
    assert!(text(store.set_not_null(&table, "name")).contains("column \"name\" cannot be NULL"));
    // In one transaction: the NULLs go, and then none can come.
    let transaction = session.begin().unwrap();
    transaction
        .update_by_key(&table, &[4.into()], |row| row.set("name", "filled"))
        .unwrap();
    let strict = transaction.set_not_null(&table, "name").unwrap();
    assert!(
        transaction
            .update_by_key(&strict, &[4.into()], |row| row.set("name", Value::Null))
            .is_err()
    );
    transaction
        .update_by_key(&strict, &[5.into()], |row| row.set("name", "five"))
        .unwrap();
    transaction.commit().unwrap();
    assert!(set(&mut session, &strict, 4, Value::Null).is_err());
    let strict = store.set_default(&strict, "name", "anon").unwrap();
    assert!(text(store.set_default(&strict, "name", 5)).contains("default"));
    let mut begun = strict.new_row();
    begun.set("id", 40).unwrap();
    begun.set("size", 1).unwrap();
    session
        .run(|transaction| transaction.insert(&strict, &begun).map(drop))
        .unwrap();
    let strict = store.drop_default(&strict, "name").unwrap();
    let mut begun = strict.new_row();
    begun.set("id", 41).unwrap();
    begun.set("size", 1).unwrap();
    assert!(
        session
            .run(|transaction| transaction.insert(&strict, &begun).map(drop))
            .is_err()
    );
    let loose = store.drop_not_null(&strict, "name").unwrap();
    assert!(text(store.drop_not_null(&loose, "id")).contains("primary key"));
    set(&mut session, &loose, 5, Value::Null).unwrap();
    let seen = dump(&store);
    let name = |id: &str| seen["t"].1.iter().find(|row| row[0] == id).unwrap()[1].clone();
    assert_eq!([name("4"), name("5"), name("40")], ["'filled'", "NULL", "'anon'"]);
    assert_eq!(dump(&open(&disk.crash(1))), seen);
}

#[test]
fn rows_that_show_the_default_of_an_added_column_keep_it() {
    let disk = Twin::new(4);
    let store = open(&disk);
    let table = with_table(&store);
    store
        .add_column(&table, ColumnDef::new("more", Type::I64).default_value(7))
        .unwrap();
    store.checkpoint().unwrap();
    let table = store.set_default(&table, "more", 8).unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| transaction.insert(&table, &row(&table, 10)).map(drop))
        .unwrap();
    let seen = dump(&store);
    let more: Vec<&str> = seen["t"].1.iter().map(|row| row[3].as_str()).collect();
    assert_eq!(more.iter().filter(|more| **more == "7").count(), 10);
    assert_eq!(more.iter().filter(|more| **more == "8").count(), 1);
    drop(session);
    for round in 0..2 {
        assert_eq!(dump(&open(&disk.crash(round))), seen);
        store.checkpoint().unwrap();
    }
    // Of a column that was there from the beginning no row lacks it, and none is written again.
    let same = store.set_default(&table, "size", 5).unwrap();
    assert!(same.is_same(&table));
    let with = same.definition();
    assert_eq!(
        with.columns[2].default,
        Some(corun_store::Constant::from(Value::Int(5)))
    );
    assert_eq!(open(&disk.crash(9)).table("t").unwrap().definition(), with);
}

#[test]
fn renamed_columns_and_tables_are_found_by_their_new_names() {
    let disk = Twin::new(5);
    let store = open(&disk);
    let table = with_table(&store);
    let storage: Arc<dyn corun_store::storage::Storage> = Arc::new(disk.clone());
    let follower = Follower::open_on(&storage, options()).unwrap();
    let mut begun = row(&table, 12);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    transaction.rename_column(&table, "name", "label").unwrap();
    transaction.rename_column(&table, "size", "name").unwrap();
    transaction.rename_table("t", "u").unwrap();
    let within = transaction.table("u").unwrap();
    assert_eq!(
        (
            within.column("label"),
            within.column("name"),
            within.column("size")
        ),
        (Some(1), Some(2), None)
    );
    assert_eq!((within.name(), within.definition().name.as_str()), ("u", "u"));
    assert_eq!((table.column("label"), table.name()), (None, "t"));
    transaction
        .update_by_key(&table, &[1.into()], |row| {
            row.set("label", "one")?;
            row.set("name", 11)
        })
        .unwrap();
    transaction.commit().unwrap();
    assert_eq!((table.name(), table.column("name")), ("u", Some(2)));
    assert_eq!(table.definition().indexes[1].columns, ["name", "id"]);
    // A row that was begun before has the names of then, and those that came.
    begun.set("size", 1).unwrap();
    begun.set("label", "twelve").unwrap();
    session
        .run(|transaction| transaction.insert(&table, &begun).map(drop))
        .unwrap();
    assert!(text(store.rename_column(&table, "label", "name")).contains("twice"));
    assert!(text(store.rename_column(&table, "size", "x")).contains("the table has id, label, name"));
    let snapshot = store.snapshot().unwrap();
    let by_id = table.primary();
    for (id, label, name) in [(0, "n0", 0), (1, "one", 11), (12, "twelve", 1)] {
        let found = snapshot.fetch(&by_id, &[id.into()]).unwrap().unwrap();
        assert_eq!((found.row.text("label"), found.row.int("name")), (label, name));
    }
    let seen = dump(&store);
    assert_eq!(dump(&open(&disk.crash(1))), seen);
    let last = store.flush().unwrap();
    assert!(
        follower
            .wait_for(last, std::time::Duration::from_secs(60))
            .unwrap()
    );
    assert_eq!(
        super::dump_of(&follower.snapshot().unwrap(), &follower.tables()),
        seen
    );
}

#[test]
fn writing_a_table_again_is_refused_where_there_is_no_memory() {
    let options = corun_store::Options {
        memory_max: 4 << 20,
        ..options()
    };
    let store = Store::in_memory(options).unwrap();
    let table = with_table(&store);
    let mut session = store.session_here().unwrap();
    let long = "x".repeat(40);
    for part in 0..20 {
        session
            .run(|transaction| {
                for id in 0..1000 {
                    let mut row = row(&table, 100 + part * 1000 + id);
                    row.set("name", long.as_str())?;
                    transaction.insert(&table, &row)?;
                }
                Ok(())
            })
            .unwrap();
    }
    let used = store.stats().row_bytes;
    let transaction = session.begin().unwrap();
    let refused = transaction.drop_not_null(&table, "size");
    assert!(
        matches!(refused, Err(StoreError::MemoryFull { .. })),
        "{refused:?}"
    );
    // It goes on, and what was begun takes no memory any more.
    transaction.delete_by_key(&table, &[1.into()]).unwrap();
    transaction.commit().unwrap();
    assert!(
        store.stats().row_bytes <= used + 1000,
        "{} {used}",
        store.stats().row_bytes
    );
}
