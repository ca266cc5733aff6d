//! `create_table_if_missing`: the table there is if it is as defined, or what it has otherwise.

use std::sync::Arc;

use crate::refusal_support::{definition, insert, open, row, text};
use corun_store::storage::Twin;
use corun_store::{Options, Store, StoreError, TableDef, Type};

#[test]
fn the_table_is_made_once() {
    let twin = Twin::new(1);
    let store = Store::open_on(Arc::new(twin.clone()), Options::default()).unwrap();
    let tables: Vec<_> = std::thread::scope(|scope| {
        let make = || store.create_table_if_missing(definition("t")).unwrap();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(tables.iter().all(|table| table.is_same(&tables[0])));
    assert!(matches!(
        store.create_table(definition("t")),
        Err(StoreError::Exists { .. })
    ));
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| insert(transaction, &tables[0], 1, 1))
        .unwrap();
    drop((session, tables));
    store.close().unwrap();
    let store = Store::open_on(Arc::new(twin), Options::default()).unwrap();
    let table = store.create_table_if_missing(definition("t")).unwrap();
    assert_eq!(table.rows(), 1);
    // Rows made for one handle are the other's.
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| transaction.upsert(&store.table("t")?, &row(&table, 1, 2)))
        .unwrap();
}

#[test]
fn the_first_difference_is_said() {
    let (store, table) = open(Options::default());
    let said = |definition: TableDef| {
        let said = text(store.create_table_if_missing(definition));
        let what = said.strip_prefix("there is a table \"t\" already, and it is not as defined: ");
        what.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let columns = || {
        TableDef::new("t")
            .column("id", Type::I64)
            .column("name", Type::Text { max: 2_000_000 })
    };
    let whole = || columns().column("x", Type::I64);
    assert_eq!(
        said(columns().column("y", Type::I64).primary_key(&["id"])),
        "it has no column \"y\""
    );
    assert_eq!(
        said(columns().column("x", Type::I32).primary_key(&["id"])),
        "column \"x\" holds i64, not i32"
    );
    assert_eq!(
        said(columns().nullable("x", Type::I64).primary_key(&["id"])),
        "column \"x\" cannot be NULL"
    );
    assert_eq!(
        said(columns().primary_key(&["id"])),
        "it has another column \"x\""
    );
    let swapped = TableDef::new("t")
        .column("x", Type::I64)
        .column("id", Type::I64)
        .column("name", Type::Text { max: 2_000_000 });
    assert_eq!(
        said(swapped.primary_key(&["id"])),
        "column \"x\" is at position 2, not 0"
    );
    assert_eq!(
        said(whole().primary_key(&["id", "x"])),
        "index \"primary\" is of (id), not (id, x)"
    );
    assert_eq!(
        said(whole().primary_key(&["id"])),
        "it has another index \"by_x\""
    );
    assert_eq!(
        said(whole().primary_key(&["id"]).index("by_y", &["x"])),
        "it has no index \"by_y\""
    );
    assert_eq!(
        said(whole().primary_key(&["id"]).unique("by_x", &["x"])),
        "index \"by_x\" is not unique"
    );
    assert_eq!(
        said(whole().index("by_x", &["x"])),
        "it has another index \"primary\""
    );
    // The order of indexes does not matter, nor when they were made.
    store.create_index(&table, "by_id_x", true, &["x", "id"]).unwrap();
    let same = whole()
        .primary_key(&["id"])
        .unique("by_id_x", &["x", "id"])
        .index("by_x", &["x"]);
    assert!(store.create_table_if_missing(same).unwrap().is_same(&table));
}
