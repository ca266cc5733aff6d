//! A folder with a store in it is a schema.

use super::common::{numbers, open, session};
use super::{rows, run};
use corun_store::{Options, Store, TableDef, Type, Value};

#[tokio::test]
async fn a_store_is_a_schema_beside_files() {
    let folder = tempfile::tempdir().unwrap();
    numbers(&folder.path().join("t.parquet"), "id", &[1, 2, 3]);
    let bank = folder.path().join("bank");
    let store = Store::open(&bank, Options::default()).unwrap();
    let definition = TableDef::new("account")
        .column("id", Type::I64)
        .column("owner", Type::TEXT)
        .primary_key(&["id"]);
    let table = store.create_table(definition).unwrap();
    let mut session_of_store = store.session_here().unwrap();
    let transaction = session_of_store.begin().unwrap();
    for (id, owner) in [(1, "Ada"), (2, "Bob")] {
        let mut row = table.new_row();
        row.set(0, Value::Int(id)).unwrap();
        row.set(1, Value::Text(owner)).unwrap();
        transaction.insert(&table, &row).unwrap();
    }
    transaction.commit().unwrap();
    drop(session_of_store);
    store.close().unwrap();
    drop(store);
    let data = open(folder.path());
    let context = session(&data);
    let sql = "select owner from bank.account a join t on a.id = t.id order by owner";
    assert_eq!(rows(&data, &context, sql).await, ["Ada", "Bob"]);
    for sql in [
        "insert into bank.account values (3, 'x')",
        "drop table bank.account",
        "copy t to 'bank/x.parquet'",
    ] {
        assert!(run(&data, &context, sql).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn a_store_that_somebody_has_open_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("bank"), Options::default()).unwrap();
    let data = open(folder.path());
    let error = run(&data, &session(&data), "select * from bank.account")
        .await
        .unwrap_err();
    assert!(error.contains("cannot open the store"), "{error}");
    drop(store);
}
