//! One small table, its rows, and what a call that was refused says. Not a test.

use corun_store::{Direction, Options, Result, Rid, RowBuf, Store, Table, TableDef, Transaction, Type};

/// A table with a text that can be long, and a second index.
pub fn definition(name: &str) -> TableDef {
    TableDef::new(name)
        .column("id", Type::I64)
        .column("name", Type::Text { max: 2_000_000 })
        .column("x", Type::I64)
        .primary_key(&["id"])
        .index("by_x", &["x"])
}

/// A store in memory with that table.
pub fn open(options: Options) -> (Store, Table) {
    let store = Store::in_memory(options).unwrap();
    let table = store.create_table(definition("t")).unwrap();
    (store, table)
}

/// A row of it with so many bytes of text.
pub fn row(table: &Table, id: i64, bytes: usize) -> RowBuf {
    let mut row = table.new_row();
    row.set(0, id).unwrap();
    row.set(1, "x".repeat(bytes).as_str()).unwrap();
    row.set(2, 0).unwrap();
    row
}

/// Puts such a row in.
pub fn insert(transaction: &Transaction<'_>, table: &Table, id: i64, bytes: usize) -> Result<Rid> {
    transaction.insert(table, &row(table, id, bytes))
}

/// The ids of its rows, in order.
pub fn ids(store: &Store, table: &Table) -> Vec<i64> {
    let (snapshot, primary) = (store.snapshot().unwrap(), table.primary());
    let rows = snapshot
        .scan(&primary, &primary.all(), Direction::Ascending)
        .unwrap();
    rows.map(|found| found.row.int(0)).collect()
}

/// What a refused call says.
pub fn text<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}
