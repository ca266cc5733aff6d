//! Reads a store that was opened again, and checks that all ways to its rows lead to the same ones.

use corun_store::{Direction, Index, Lock, Snapshot, Store, Table, Value};

use crate::crash_twin::bank::{self, Acks};
use crate::crash_twin::history::{Content, TableContent};

/// All it holds. Panics if an index disagrees with the rows, or if what always holds does not.
pub fn content(store: &Store) -> Content {
    let snapshot = store.snapshot().unwrap();
    let stats = store.stats();
    assert_eq!(snapshot.ts(), stats.last);
    assert_eq!(stats.durable, stats.last, "what was read back is durable");
    let mut content = Content::new();
    for table in store.tables() {
        let rows = snapshot.rows(&table, 0..table.rid_end()).unwrap();
        let found = TableContent {
            rows: rows
                .map(|found| (found.rid.0, found.row.encoded().to_vec()))
                .collect(),
            indexes: table
                .indexes()
                .iter()
                .map(|index| index.name().to_owned())
                .collect(),
        };
        assert_eq!(table.rows(), found.rows.len() as u64, "{}", table.name());
        for index in table.indexes() {
            check_index(&snapshot, &table, &index, &found);
        }
        content.insert(table.name().to_owned(), found);
    }
    content
}

fn check_index(snapshot: &Snapshot, table: &Table, index: &Index, content: &TableContent) {
    let name = format!("{}.{}", table.name(), index.name());
    assert_eq!(index.entries(), content.rows.len() as u64, "entries of {name}");
    let mut rids = Vec::new();
    let mut before: Option<Vec<String>> = None;
    for found in snapshot.scan(index, &index.all(), Direction::Ascending).unwrap() {
        assert_eq!(content.rows[&found.rid.0], found.row.encoded(), "{name}");
        let key: Vec<Value<'_>> = index
            .columns()
            .iter()
            .map(|&column| found.row.value(column))
            .collect();
        let printed: Vec<String> = key.iter().map(sortable).collect();
        if let Some(before) = &before {
            assert!(*before <= printed, "{name}: {before:?} before {printed:?}");
            assert!(
                !index.is_unique() || *before != printed,
                "{name}: {printed:?} twice"
            );
        }
        before = Some(printed);
        if index.is_unique() {
            let same = snapshot.fetch(index, &key).unwrap().unwrap();
            assert_eq!(same.rid, found.rid, "{name}");
        }
        rids.push(found.rid.0);
    }
    let back = snapshot.scan(index, &index.all(), Direction::Descending).unwrap();
    let mut back: Vec<u32> = back.map(|found| found.rid.0).collect();
    back.reverse();
    assert_eq!(rids, back, "{name}");
    rids.sort_unstable();
    assert!(rids.iter().eq(content.rows.keys()), "{name}");
}

/// Text that sorts as the value does: NULL first, numbers from 0 up.
fn sortable(value: &Value<'_>) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int(number) => format!("{:020}", i128::from(*number) - i128::from(i64::MIN)),
        Value::Text(text) => (*text).to_owned(),
        other => panic!("no key of this test has {other:?}"),
    }
}

/// What was acknowledged is there, and money neither came nor went.
pub fn acknowledged(store: &Store, acks: &Acks) {
    let last = store.stats().last.0;
    assert!(
        last >= acks.ts,
        "commit {} was durable, and the last one is {last}",
        acks.ts
    );
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let Ok(counter) = store.table("counter") else {
        assert!(acks.counts.iter().all(|count| *count == 0));
        return;
    };
    let key = counter.primary();
    for (client, acked) in acks.counts.iter().enumerate() {
        let found = transaction.fetch(&key, &[(client as i64).into()]).unwrap();
        let count = found.map_or(0, |found| found.row.int(1));
        assert!(
            count >= *acked,
            "client {client} was told {acked}, and has {count}"
        );
    }
    let account = store.table("account").unwrap();
    let key = account.primary();
    let mut scan = transaction
        .scan(&key, &key.all(), Direction::Ascending, Lock::Shared)
        .unwrap();
    let (mut sum, mut rows) = (0, 0);
    while let Some(found) = scan.next().unwrap() {
        sum += found.row.int(1);
        rows += 1;
    }
    assert!(
        (rows, sum) == (0, 0) || (rows, sum) == (bank::ACCOUNTS, bank::total()),
        "{rows} {sum}"
    );
}
