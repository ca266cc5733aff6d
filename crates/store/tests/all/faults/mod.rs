//! Faults below a store: what it says, what it still does, and that nothing acknowledged is lost once the fault is gone.

mod damage;
mod folder;
mod live;

use std::sync::Arc;

use corun_store::storage::Twin;
use corun_store::{Durability, Options, Session, Store, StoreError, TableDef, Type};

/// Options without checkpoints of their own.
fn options() -> Options {
    Options {
        checkpoint_log_bytes: 0,
        ..Options::default()
    }
}

fn open(disk: &Twin) -> Store {
    Store::open_on(Arc::new(disk.clone()), options()).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(disk: &Twin, options: Options) -> String {
    match Store::open_on(Arc::new(disk.clone()), options) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

fn make_table(store: &Store) {
    let table = TableDef::new("t")
        .column("id", Type::I64)
        .column("text", Type::Text { max: 2000 })
        .primary_key(&["id"]);
    store.create_table(table).unwrap();
}

/// Inserts one row in a transaction.
fn put(store: &Store, session: &mut Session, id: i64, durability: Durability) -> Result<(), StoreError> {
    let table = store.table("t")?;
    let transaction = session.begin()?;
    let mut row = table.new_row();
    row.set(0, id)?;
    row.set(1, "x".repeat(200).as_str())?;
    transaction.insert(&table, &row)?;
    transaction.commit_with(durability)?;
    Ok(())
}

/// Inserts rows of these numbers, durably.
fn fill(store: &Store, ids: std::ops::Range<i64>) {
    let mut session = store.session_here().unwrap();
    for id in ids {
        put(store, &mut session, id, Durability::Durable).unwrap();
    }
}

/// The numbers of all rows, as a snapshot and as a transaction see them.
fn ids(store: &Store) -> Vec<i64> {
    let table = store.table("t").unwrap();
    let key = table.primary();
    let snapshot = store.snapshot().unwrap();
    let scan = snapshot
        .scan(&key, &key.all(), corun_store::Direction::Ascending)
        .unwrap();
    let seen: Vec<i64> = scan.map(|found| found.row.int(0)).collect();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for id in &seen {
        assert!(transaction.fetch(&key, &[(*id).into()]).unwrap().is_some());
    }
    seen
}

fn has(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}
