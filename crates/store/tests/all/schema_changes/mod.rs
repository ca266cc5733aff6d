//! Definitions inside transactions: what each shows to whom, after commits, rollbacks and crashes, and what copies make of them.

mod basics;
mod columns;
mod constraints;
mod constraints_last;
mod constraints_model;
mod copies;
mod crash;
mod model;
mod others;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::Twin;
use corun_store::{Direction, Options, RowRef, Snapshot, Store, Table, TableDef, Type};

/// A table as a reader sees it: its definition, and the values of its rows in order.
pub type Dump = BTreeMap<String, (TableDef, Vec<Vec<String>>)>;

pub fn options() -> Options {
    Options {
        workers: 2,
        checkpoint_log_bytes: 0,
        flush_every: Duration::from_millis(1),
        lock_timeout: Duration::from_millis(50),
        recovery_threads: 1,
        ..Options::default()
    }
}

pub fn open(disk: &Twin) -> Store {
    Store::open_on(Arc::new(disk.clone()), options()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn values(row: RowRef<'_>) -> Vec<String> {
    (0..row.columns())
        .map(|column| row.value(column).to_string())
        .collect()
}

/// The rows of a table by a snapshot; its indexes must say the same.
pub fn rows(snapshot: &Snapshot, table: &Table) -> Vec<Vec<String>> {
    let found = snapshot.rows(table, 0..table.rid_end()).unwrap();
    let mut rows: Vec<_> = found.map(|found| values(found.row)).collect();
    rows.sort();
    for index in table.indexes() {
        let scan = snapshot.scan(&index, &index.all(), Direction::Ascending).unwrap();
        let mut of_index: Vec<_> = scan.map(|found| values(found.row)).collect();
        of_index.sort();
        assert_eq!(
            of_index,
            rows,
            "index {:?} of {:?}",
            index.name(),
            table.definition()
        );
    }
    rows
}

/// Indexes in the order of their names: it may be another after a restart.
pub fn sorted(mut definition: TableDef) -> TableDef {
    definition.indexes.sort_by(|one, other| one.name.cmp(&other.name));
    definition
}

pub fn dump_of(snapshot: &Snapshot, tables: &[Table]) -> Dump {
    let table = |table: &Table| {
        let what = (sorted(table.definition()), rows(snapshot, table));
        (what.0.name.clone(), what)
    };
    tables.iter().map(table).collect()
}

/// All that is committed.
pub fn dump(store: &Store) -> Dump {
    dump_of(&store.snapshot().unwrap(), &store.tables())
}

/// A small table with rows 0 to 9.
pub fn with_table(store: &Store) -> Table {
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .nullable("name", Type::Text { max: 40 })
        .column("size", Type::I32)
        .primary_key(&["id"])
        .index("by_size", &["size", "id"]);
    let table = store.create_table(definition).unwrap();
    let mut session = store.session_here().unwrap();
    let put = |transaction: &mut corun_store::Transaction<'_>| {
        (0..10).try_for_each(|id| transaction.insert(&table, &row(&table, id)).map(drop))
    };
    session.run(put).unwrap();
    table
}

pub fn row(table: &Table, id: i64) -> corun_store::RowBuf {
    let mut row = table.new_row();
    row.set("id", id).unwrap();
    row.set("name", format!("n{id}").as_str()).unwrap();
    row.set("size", id % 3).unwrap();
    row
}
