//! What keys, rows, handles and definitions are refused for: each error says what and where, and the transaction goes on.

use std::time::Duration;

use crate::refusal_support::{definition, ids, insert, open, text};
use corun_store::{
    COLUMNS_MAX, ColumnDef, Direction, INDEXES_MAX, Lock, Options, Result, Rid, RowBuf, RowError, Store,
    TableDef, Type, Value,
};

type Change = fn(&mut RowBuf) -> Result<(), RowError>;

#[test]
fn keys_rows_and_handles_that_are_refused() {
    let (store, table) = open(Options::default());
    let (other, _) = open(Options::default());
    let (primary, by_x) = (table.primary(), table.index("by_x").unwrap());
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let rid = insert(&transaction, &table, 1, 1).unwrap();
    assert_eq!(
        text(insert(&transaction, &table, 1, 1)),
        "table \"t\": there is a row with the key (1) of index \"primary\" already"
    );
    insert(&transaction, &table, 2, 1).unwrap();
    assert_eq!(
        text(transaction.update(&table, rid, |row| row.set(0, 2_i64))),
        "table \"t\": there is a row with the key (2) of index \"primary\" already"
    );
    assert_eq!(
        text(transaction.update(&table, Rid(77), |_| Ok(()))),
        "table \"t\" has no row 77"
    );
    assert!(!transaction.delete(&table, Rid(77)).unwrap());
    assert!(!transaction.delete(&table, Rid(1 << 30)).unwrap());
    assert_eq!(
        text(transaction.fetch(&by_x, &[1.into()])),
        "index \"by_x\" of table \"t\" is not unique; use first or scan"
    );
    assert_eq!(
        text(transaction.fetch(&primary, &[])),
        "index \"primary\": 0 values for 1 columns"
    );
    assert!(transaction.fetch(&primary, &[Value::Null]).unwrap().is_none());
    let refusals: [(&str, Change); 5] = [
        ("column \"id\" holds i64, not 'one'", |row| row.set(0, "one")),
        ("column \"id\" cannot be NULL", |row| row.set(0, Value::Null)),
        ("there is no column 9; the table has id, name, x", |row| {
            row.set(9, 1)
        }),
        ("column \"name\" takes text(2000000), not 2000001 bytes", |row| {
            row.set(1, &"x".repeat(2_000_001))
        }),
        ("column \"x\" holds i64, not 1.5", |row| row.set(2, 1.5)),
    ];
    for (said, change) in refusals {
        assert_eq!(text(transaction.update(&table, rid, change)), said);
    }
    let small = store
        .create_table(TableDef::new("small").column("id", Type::I8).primary_key(&["id"]))
        .unwrap();
    assert_eq!(
        small.new_row().set(0, 128_i64).unwrap_err().to_string(),
        "column \"id\" holds i8; 128 is out of its range"
    );
    assert_eq!(
        text(transaction.insert(&table, &small.new_row())),
        "the row was made for another table than \"t\", or for columns of it that were rolled back"
    );
    let said = "table \"t\" belongs to another store";
    let theirs = other.table("t").unwrap();
    assert_eq!(text(insert(&transaction, &theirs, 1, 1)), said);
    assert_eq!(text(transaction.lock_table(&theirs, Lock::Shared)), said);
    assert_eq!(
        text(store.snapshot().unwrap().rows(&theirs, 0..1).map(drop)),
        said
    );
    let mut another = other.session_here().unwrap();
    let savepoint = another.begin().unwrap().savepoint();
    transaction.commit().unwrap();
    let mut transaction = session.begin().unwrap();
    assert_eq!(
        text(transaction.rollback_to(&savepoint)),
        "the savepoint is not one of this transaction, or was rolled back"
    );
    drop(transaction);
    assert_eq!(ids(&store, &table), [1, 2]);
}

#[test]
fn definitions_that_are_refused() {
    let (store, table) = open(Options::default());
    let create = |definition: TableDef| text(store.create_table(definition));
    let bare = |name: &str| TableDef::new(name).column("id", Type::I64);
    assert_eq!(create(definition("t")), "there is a table \"t\" already");
    assert_eq!(text(store.table("u")), "there is no table \"u\"; there are t");
    assert_eq!(
        text(store.drop_table("u")),
        "there is no table \"u\"; there are t"
    );
    assert_eq!(
        text(Store::in_memory(Options::default()).unwrap().table("u")),
        "there is no table \"u\"; the store has no tables"
    );
    assert_eq!(
        text(store.create_index(&table, "by_x", false, &["x"])),
        "there is an index \"by_x\" already"
    );
    assert_eq!(
        text(store.drop_index(&table, "by_y")),
        "table \"t\" has no index \"by_y\""
    );
    assert_eq!(
        text(store.drop_index(&table, "primary")),
        "the primary key of table \"t\" cannot be dropped"
    );
    assert_eq!(
        create(bare("")),
        "table \"\": the name \"\" is empty or longer than 255 bytes"
    );
    assert_eq!(
        create(bare("u").index("i", &["id"]).index("primary", &["id"])),
        "table \"u\": \"primary\" is the name of the primary key's index, which is made with the table"
    );
    assert_eq!(
        create(bare("u").with_column(ColumnDef::new("n", Type::I8).default_value(200))),
        "table \"u\": the default of a column is refused: column \"n\" holds i8; 200 is out of its range"
    );
    assert_eq!(
        create(bare("u").column("id", Type::I8).primary_key(&["id"])),
        "table \"u\": column \"id\" is there twice"
    );
    assert_eq!(
        create(bare("u").primary_key(&["no"])),
        "table \"u\", index \"primary\": there is no column \"no\""
    );
    assert_eq!(
        create(bare("u").nullable("n", Type::I8).primary_key(&["n"])),
        "table \"u\": the primary key's column \"n\" may be NULL; make it a plain column"
    );
    assert_eq!(
        create(
            bare("u")
                .column(
                    "n",
                    Type::Decimal {
                        precision: 3,
                        scale: 4
                    }
                )
                .primary_key(&["id"])
        ),
        "table \"u\", column \"n\": a decimal has 1 to 38 digits, at most all of them after the point"
    );
    let said = create(
        bare("u")
            .column("n", Type::FixedBytes { bytes: 8 << 20 })
            .primary_key(&["id"]),
    );
    assert!(
        said.starts_with("table \"u\": a row takes at least") && said.ends_with("declare shorter columns"),
        "{said}"
    );
    let wide = (0..=COLUMNS_MAX).fold(TableDef::new("u"), |table, at| {
        table.column(&format!("c{at}"), Type::I8)
    });
    let said = create(wide.primary_key(&["c0"]));
    assert!(said.contains("columns; at least 1 and at most"), "{said}");
    for at in 0..INDEXES_MAX - 2 {
        store
            .create_index(&table, &format!("i{at}"), false, &["x"])
            .unwrap();
    }
    let said = text(store.create_index(&table, "more", false, &["x"]));
    assert!(said.contains("indexes") && said.contains("at most"), "{said}");
    store.drop_index(&table, "i0").unwrap();
    let said = text(store.create_index(&table, "more", false, &["x"]));
    assert!(
        said.contains("dropped ones included, until the store is opened again"),
        "{said}"
    );
}

#[test]
fn what_was_dropped_or_came_later() {
    let (store, table) = open(Options::default());
    let by_x = table.index("by_x").unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    insert(&transaction, &table, 2, 1).unwrap();
    transaction.commit().unwrap();
    let before = store.snapshot().unwrap();
    assert_eq!(
        text(store.create_index(&table, "one_x", true, &["x"])),
        "table \"t\": there is a row with the key (0) of index \"one_x\" already"
    );
    store.create_index(&table, "again", false, &["x"]).unwrap();
    let again = table.index("again").unwrap();
    assert_eq!(
        text(before.scan(&again, &again.all(), Direction::Ascending).map(drop)),
        "index \"again\" of table \"t\" was made after the snapshot"
    );
    store.drop_index(&table, "by_x").unwrap();
    let said = "index \"by_x\" of table \"t\" was dropped";
    assert_eq!(
        text(before.scan(&by_x, &by_x.all(), Direction::Ascending).map(drop)),
        said
    );
    let transaction = session.begin().unwrap();
    assert_eq!(
        text(transaction.first(&by_x, &by_x.all(), Direction::Ascending, Lock::Shared)),
        said
    );
    assert_eq!(
        text(
            transaction
                .scan(&by_x, &by_x.all(), Direction::Ascending, Lock::Shared)
                .map(drop)
        ),
        said
    );
    drop(transaction);
    // Waits for who uses the table.
    session.set_lock_timeout(Duration::ZERO);
    store.drop_table("t").unwrap();
    let transaction = session.begin().unwrap();
    assert_eq!(
        text(insert(&transaction, &table, 1, 1)),
        "table \"t\" was dropped, or emptied or written again as another; look it up by name"
    );
    // An old snapshot still shows what it showed.
    assert_eq!(before.rows(&table, 0..10).unwrap().count(), 2);
    assert!(store.tables().is_empty());
}
