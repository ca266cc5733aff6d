//! A crash at every write of a transaction that changes definitions and rows leaves all of it or nothing.

use corun_store::storage::Twin;
use corun_store::{ColumnDef, Durability, Result, Store, TableDef, Type, Value, verify_on};
use std::sync::Arc;

use super::{Dump, dump, open, row, with_table};

/// One transaction with every kind of definition, and rows between them.
fn change(store: &Store, durability: Durability) -> Result<()> {
    let mut session = store.session_here()?;
    let mut transaction = session.begin()?;
    let table = transaction.table("t")?;
    transaction.update_by_key(&table, &[1.into()], |row| row.set("size", 100))?;
    transaction.add_column(
        &table,
        ColumnDef::new("more", Type::Text { max: 300 }).default_value("as before"),
    )?;
    for id in 2..6 {
        let long = "l".repeat(id as usize * 50);
        transaction.update_by_key(&table, &[id.into()], |row| row.set("more", long.as_str()))?;
    }
    transaction.create_index(&table, "by_more", false, &["more"])?;
    let definition = TableDef::new("new")
        .column("id", Type::I64)
        .nullable("x", Type::I64)
        .primary_key(&["id"]);
    let new = transaction.create_table(definition)?;
    for id in 0..20 {
        let mut row = new.new_row();
        row.set("id", id)?;
        row.set("x", if id % 2 == 0 { Value::Null } else { Value::Int(id) })?;
        transaction.insert(&new, &row)?;
    }
    let savepoint = transaction.savepoint();
    transaction.drop_table("new")?;
    transaction.add_column(&table, ColumnDef::new("never", Type::I64).nullable())?;
    transaction.update_by_key(&table, &[7.into()], |row| row.set("never", 7))?;
    transaction.rollback_to(&savepoint)?;
    transaction.delete_by_key(&new, &[3.into()])?;
    transaction.rename_column(&table, "name", "label")?;
    transaction.drop_index(&table, "by_size")?;
    let table = transaction.drop_column(&table, "size")?;
    transaction.delete_by_key(&table, &[1.into()])?;
    let mut added = table.new_row();
    added.set("id", 77)?;
    added.set("label", "last")?;
    transaction.insert(&table, &added)?;
    transaction.rename_table("new", "newer")?;
    transaction.drop_table("old")?;
    transaction.truncate_table("full")?;
    transaction.commit_with(durability).map(drop)
}

fn base(disk: &Twin) -> Store {
    let store = open(disk);
    with_table(&store);
    for name in ["old", "full"] {
        let table = store
            .create_table(TableDef::new(name).column("id", Type::I64))
            .unwrap();
        let mut session = store.session_here().unwrap();
        let mut row = table.new_row();
        row.set("id", 4).unwrap();
        session
            .run(|transaction| transaction.insert(&table, &row).map(drop))
            .unwrap();
    }
    store
}

fn after() -> Dump {
    let disk = Twin::new(0);
    let store = base(&disk);
    change(&store, Durability::Durable).unwrap();
    let after = dump(&store);
    assert_eq!(after.keys().collect::<Vec<_>>(), ["full", "newer", "t"]);
    assert_eq!(
        (after["t"].1.len(), after["newer"].1.len(), after["full"].1.len()),
        (10, 19, 0)
    );
    after
}

#[test]
fn a_crash_at_any_write_leaves_all_of_a_transaction_or_nothing() {
    let after = after();
    let (mut all, mut none) = (0, 0);
    for seed in 0..6 {
        for effects in 0.. {
            let disk = Twin::new(seed);
            let store = base(&disk);
            let before = dump(&store);
            if seed % 2 == 1 {
                store.checkpoint().unwrap();
            }
            disk.stop_after(effects);
            let done = change(&store, Durability::Durable).is_ok();
            // And while a checkpoint is written behind it.
            let checkpointed = done && store.checkpoint().is_ok();
            drop(store);
            let disk = disk.crash(seed * 100 + effects);
            let store = open(&disk);
            let found = dump(&store);
            assert!(
                found == after || !done && found == before,
                "seed {seed}, effects {effects}: {found:#?}"
            );
            match found == after {
                true => all += 1,
                false => none += 1,
            }
            // It goes on, and another crash finds the same.
            let table = store.table("t").unwrap();
            let mut session = store.session_here().unwrap();
            session
                .run(|transaction| transaction.delete_by_key(&table, &[5.into()]).map(drop))
                .unwrap();
            let found = dump(&store);
            store.checkpoint().unwrap();
            assert_eq!(dump(&open(&disk.crash(seed))), found);
            drop((session, table));
            store.close().unwrap();
            verify_on(&(Arc::new(disk) as Arc<dyn corun_store::storage::Storage>)).unwrap();
            if checkpointed {
                break;
            }
        }
    }
    assert!(all > 20 && none > 5, "{all} {none}");
}

#[test]
fn an_asynchronous_commit_is_there_with_all_that_came_before_it() {
    let after = after();
    let (mut all, mut none) = (0, 0);
    for seed in 0..60 {
        let disk = Twin::new(seed);
        let store = base(&disk);
        let before = dump(&store);
        disk.stop_after(seed % 7);
        let _ = change(&store, Durability::Asynchronous);
        if seed % 3 == 0 {
            let _ = store.flush();
        }
        let found = dump(&open(&disk.crash(seed)));
        assert!(found == after || found == before, "seed {seed}");
        match found == after {
            true => all += 1,
            false => none += 1,
        }
        drop(store);
    }
    assert!(all > 0 && none > 5, "{all} {none}");
}

#[test]
fn a_log_that_refuses_a_commit_of_definitions_undoes_them() {
    let disk = Twin::new(1);
    let store = base(&disk);
    let before = dump(&store);
    disk.full_at(Some(disk.used()));
    let mut refused = 0;
    // The room that the log has reserved takes some.
    for number in 0..40_000 {
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        let table = transaction.table("t").unwrap();
        let more = ColumnDef::new("more", Type::Text { max: 100_000 }).nullable();
        transaction.add_column(&table, more).unwrap();
        let table = transaction.table("t").unwrap();
        let long = "x".repeat(99_000);
        for id in 0..40 {
            let mut row = row(&table, 1000 + id);
            row.set("more", long.as_str()).unwrap();
            transaction.insert(&table, &row).unwrap();
        }
        transaction
            .create_table(TableDef::new("late").column("id", Type::I64))
            .unwrap();
        match transaction.commit() {
            Ok(_) => {
                // Back to what it was.
                let transaction = session.begin().unwrap();
                transaction.drop_table("late").unwrap();
                for id in 0..40 {
                    transaction.delete_by_key(&table, &[(1000 + id).into()]).unwrap();
                }
                if transaction.drop_column(&table, "more").is_err() || transaction.commit().is_err() {
                    return;
                }
            }
            Err(_) => {
                assert_eq!(dump(&store), before, "after {number}");
                refused += 1;
                if refused == 3 {
                    break;
                }
            }
        }
    }
    assert_eq!(refused, 3);
    disk.full_at(None);
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            transaction.add_column(
                &transaction.table("t")?,
                ColumnDef::new("more", Type::I64).nullable(),
            )
        })
        .unwrap();
    assert_eq!(store.table("t").unwrap().definition().columns.len(), 4);
}
