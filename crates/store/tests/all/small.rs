//! Small scenarios on one thread that go through every unsafe path of versions, slots and garbage: run under Miri by `make miri`.

use corun_store::{Direction, Lock, Options, Rid, RowBuf, Store, Table, TableDef, Type};

fn open() -> (Store, Table) {
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .column("text", Type::Text { max: 12 })
        .primary_key(&["id"])
        .index("by_text", &["text"]);
    let table = store.create_table(definition).unwrap();
    (store, table)
}

fn row(table: &Table, id: i64, text: &str) -> RowBuf {
    let mut row = table.new_row();
    row.set(0, id).unwrap();
    row.set(1, text).unwrap();
    row
}

fn texts(store: &Store, table: &Table) -> Vec<String> {
    let (snapshot, index) = (store.snapshot().unwrap(), table.index("by_text").unwrap());
    let rows = snapshot.scan(&index, &index.all(), Direction::Ascending).unwrap();
    rows.map(|found| found.row.text(1).to_owned()).collect()
}

#[test]
fn versions_are_made_seen_and_freed() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let rids: Vec<Rid> = (0..3)
        .map(|id| transaction.insert(&table, &row(&table, id, "a")).unwrap())
        .collect();
    transaction.commit().unwrap();
    let old = store.snapshot().unwrap();
    for text in ["b", "longer", ""] {
        let transaction = session.begin().unwrap();
        let before = transaction
            .get(&table, rids[0], Lock::Exclusive)
            .unwrap()
            .unwrap();
        transaction
            .update(&table, rids[0], |row| row.set(1, "passing"))
            .unwrap();
        transaction
            .update(&table, rids[0], |row| row.set(1, text))
            .unwrap();
        // What was replaced is still there to its end.
        assert_ne!(before.text(1), text);
        transaction.commit().unwrap();
    }
    assert_eq!(texts(&store, &table), ["", "a", "a"]);
    assert_eq!(
        old.fetch(&table.primary(), &[0.into()])
            .unwrap()
            .unwrap()
            .row
            .text(1),
        "a"
    );
    drop(old);
    // Deleted and used again.
    let transaction = session.begin().unwrap();
    assert!(transaction.delete(&table, rids[1]).unwrap());
    transaction.commit().unwrap();
    for id in 10..14 {
        let transaction = session.begin().unwrap();
        transaction.insert(&table, &row(&table, id, "c")).unwrap();
        transaction.commit().unwrap();
    }
    assert_eq!(texts(&store, &table), ["", "a", "c", "c", "c", "c"]);
    assert_eq!(table.primary().entries(), 6);
}

#[test]
fn what_is_undone_is_nobodys() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    let savepoint = transaction.savepoint();
    let rid = transaction.insert(&table, &row(&table, 1, "undone")).unwrap();
    let read = transaction.get(&table, rid, Lock::Shared).unwrap().unwrap();
    assert_eq!(read.text(1), "undone");
    let beside = store.snapshot().unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    assert!(transaction.get(&table, rid, Lock::Shared).unwrap().is_none());
    transaction.insert(&table, &row(&table, 1, "kept")).unwrap();
    transaction.commit().unwrap();
    assert_eq!(beside.rows(&table, 0..table.rid_end()).unwrap().count(), 0);
    let transaction = session.begin().unwrap();
    transaction.insert(&table, &row(&table, 2, "aborted")).unwrap();
    transaction.abort();
    std::mem::forget(session.begin().unwrap());
    assert_eq!(texts(&store, &table), ["kept"]);
}

#[test]
fn ghosts_are_cleared_beside_newer_states() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let rid = transaction.insert(&table, &row(&table, 1, "a")).unwrap();
    transaction.commit().unwrap();
    // Snapshots of each state; they end from the oldest on, so that ghosts meet states that somebody still sees.
    let mut snapshots = Vec::new();
    for text in ["b", "a", "c", "b", "a"] {
        snapshots.push(store.snapshot().unwrap());
        let transaction = session.begin().unwrap();
        transaction.update(&table, rid, |row| row.set(1, text)).unwrap();
        transaction.commit().unwrap();
    }
    let index = table.index("by_text").unwrap();
    for expected in ["a", "b", "a", "c", "b"] {
        let snapshot = snapshots.remove(0);
        let rows = snapshot
            .scan(&index, &index.all(), Direction::Descending)
            .unwrap();
        assert_eq!(
            rows.map(|found| found.row.text(1)).collect::<Vec<_>>(),
            [expected]
        );
        drop(snapshot);
        session.begin().unwrap().commit().unwrap();
    }
    session.begin().unwrap().commit().unwrap();
    assert_eq!(index.entries(), 1);
    drop(session);
    store.drop_table("t").unwrap();
    drop((table, index));
    assert!(store.tables().is_empty());
}
