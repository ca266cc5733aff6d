//! Reads of many rows at once, and scans that are ahead of their rows, beside reads of single rows: on the same snapshot while others
//! change the rows, in a transaction that has them locked, and beside a transaction's own changes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_store::{
    Direction, Found, Index, KEY_BYTES_MAX, Lock, Options, Result, Rid, RowBuf, RowError, Session, Snapshot,
    Store, StoreError, Table, TableDef, Transaction, Type, Value,
};

use crate::crash_twin::random::Random;

/// Keys there are; about half of them have a row at a time.
const IDS: i64 = 700;

fn open() -> (Store, Table) {
    let store = Store::in_memory(Options {
        workers: 2,
        ..Options::default()
    })
    .unwrap();
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .nullable("code", Type::I64)
        .column("name", Type::Text { max: 200 })
        .column("payload", Type::Bytes { max: 3000 })
        .primary_key(&["id"])
        .unique("by_code", &["code"])
        .unique("by_name", &["name"])
        .index("by_payload", &["payload"]);
    let table = store.create_table(definition).unwrap();
    (store, table)
}

/// Names share all that an index keeps of them with some others.
fn name(number: i64) -> String {
    format!(
        "{}{number}",
        ["p", "q"][number as usize % 2].repeat(KEY_BYTES_MAX + 3)
    )
}

/// Sets all but the id. Rows are longer and shorter than what the caches are asked for.
fn fill(row: &mut RowBuf, random: &mut Random) -> std::result::Result<(), RowError> {
    let code = random.below(IDS as u64 * 4) as i64;
    match code % 9 {
        0 => row.set("code", Value::Null)?,
        _ => row.set("code", code)?,
    }
    row.set("name", name(random.below(IDS as u64 * 4) as i64).as_str())?;
    let bytes = [0, 30, 900, 3000][random.below(4) as usize];
    row.set("payload", &vec![code as u8; bytes][..])
}

/// Inserts, updates and deletes some rows. A key that is there is left alone.
fn change(transaction: &Transaction<'_>, table: &Table, random: &mut Random) -> Result<()> {
    let by_id = table.primary();
    for _ in 0..1 + random.below(6) {
        let id = random.below(IDS as u64) as i64;
        let rid = transaction
            .fetch_for_update(&by_id, &[id.into()])?
            .map(|found| found.rid);
        let done = match rid {
            None => {
                let mut row = table.new_row();
                row.set("id", id)?;
                fill(&mut row, random)?;
                transaction.insert(table, &row).map(drop)
            }
            Some(rid) if random.below(3) == 0 => transaction.delete(table, rid).map(drop),
            Some(rid) => transaction.update(table, rid, |row| fill(row, random)),
        };
        match done {
            Err(StoreError::Duplicate { .. }) => {}
            other => other?,
        }
    }
    Ok(())
}

fn write(session: &mut Session, table: &Table, random: &mut Random) {
    let aborts = random.below(8) == 0;
    let changed = session.run(|transaction| {
        change(transaction, table, random)?;
        match aborts {
            true => Err(StoreError::Closed),
            false => Ok(()),
        }
    });
    match changed {
        Ok(()) | Err(StoreError::Closed) => {}
        Err(error) => assert!(error.is_retryable(), "{error}"),
    }
}

/// Keys of an index, there or not, some twice: none, one, and as many as make several groups.
fn keys(index: &Index, random: &mut Random) -> Vec<[Value<'static>; 1]> {
    let count = [0, 1, 2, 16, 31, 32, 33, 100][random.below(8) as usize];
    let key = |random: &mut Random| match index.name() {
        "primary" => Value::Int(random.below(IDS as u64) as i64),
        "by_code" => match random.below(IDS as u64 * 4) as i64 {
            code if code % 9 == 0 => Value::Null,
            code => Value::Int(code),
        },
        _ => Value::Text(name(random.below(IDS as u64 * 4) as i64).leak()),
    };
    (0..count).map(|_| [key(random)]).collect()
}

fn unique(table: &Table) -> [Index; 3] {
    [
        table.primary(),
        table.index("by_code").unwrap(),
        table.index("by_name").unwrap(),
    ]
}

/// Batches and scans return what reads of single rows do.
fn check(snapshot: &Snapshot, table: &Table, random: &mut Random) -> usize {
    let rows: BTreeMap<Rid, Vec<u8>> = snapshot
        .rows(table, 0..table.rid_end())
        .unwrap()
        .map(|found| (found.rid, found.row.encoded().to_vec()))
        .collect();
    let mut read = 0;
    for index in unique(table) {
        let keys = keys(&index, random);
        let batch = snapshot
            .fetch_many(&index, keys.iter().map(|key| &key[..]))
            .unwrap();
        assert_eq!(batch.len(), keys.len());
        for (key, found) in keys.iter().zip(batch) {
            assert_eq!(found, snapshot.fetch(&index, key).unwrap(), "{index:?} {key:?}");
            if let Some(found) = found {
                assert_eq!(rows[&found.rid], found.row.encoded());
                read += 1;
            }
        }
    }
    for index in table.indexes() {
        let scan = |direction| snapshot.scan(&index, &index.all(), direction).unwrap();
        let up: Vec<Found<'_>> = scan(Direction::Ascending).collect();
        let mut down: Vec<Found<'_>> = scan(Direction::Descending).collect();
        down.reverse();
        assert_eq!(up, down, "{index:?}");
        assert_eq!(up.len(), rows.len(), "{index:?}");
        assert!(up.iter().all(|found| rows[&found.rid] == found.row.encoded()));
        // Cut keys are compared whole.
        let key = |found: &Found<'_>| (found.row.value(index.columns()[0]).to_key(), found.rid);
        assert!(up.is_sorted_by_key(key), "{index:?}");
    }
    read
}

/// What orders as a value does in an index.
trait ToKey {
    fn to_key(&self) -> (i64, Vec<u8>);
}

impl ToKey for Value<'_> {
    fn to_key(&self) -> (i64, Vec<u8>) {
        match self {
            Value::Int(int) => (*int, Vec::new()),
            Value::Text(text) => (0, text.as_bytes().to_vec()),
            Value::Bytes(bytes) => (0, bytes.to_vec()),
            _ => (i64::MIN, Vec::new()),
        }
    }
}

#[test]
fn batches_and_scans_of_a_snapshot_return_what_single_reads_do() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let mut random = Random::new(7);
    for _ in 0..300 {
        write(&mut session, &table, &mut random);
    }
    drop(session);
    let (store, table, done) = (&store, &table, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            scope.spawn(move || {
                let mut session = store.session(worker, corun_store::park::current()).unwrap();
                let mut random = Random::new(100 + worker as u64);
                while !done.load(Ordering::Relaxed) {
                    write(&mut session, table, &mut random);
                }
            });
        }
        let mut read = 0;
        for _ in 0..60 {
            let snapshot = store.snapshot().unwrap();
            read += check(&snapshot, table, &mut random);
            // What it shows gets older.
            std::thread::yield_now();
            read += check(&snapshot, table, &mut random);
        }
        done.store(true, Ordering::Relaxed);
        assert!(read > 500, "{read} rows read in batches");
    });
}

#[test]
fn batches_of_a_transaction_return_what_single_reads_do() {
    let (store, table) = open();
    let (store, table, done) = (&store, &table, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut session = store.session(1, corun_store::park::current()).unwrap();
            let mut random = Random::new(1);
            while !done.load(Ordering::Relaxed) {
                write(&mut session, table, &mut random);
            }
        });
        let mut session = store.session_here().unwrap();
        let mut random = Random::new(2);
        let mut read = 0;
        for round in 0..150 {
            let lock = [Lock::Shared, Lock::Exclusive][round % 2];
            let checked = session.run(|transaction| {
                // Its own changes are seen, too.
                change(transaction, table, &mut random)?;
                for index in unique(table) {
                    let keys = keys(&index, &mut random);
                    let batch = transaction.fetch_many(&index, keys.iter().map(|key| &key[..]), lock)?;
                    assert_eq!(batch.len(), keys.len());
                    for (key, found) in keys.iter().zip(batch) {
                        assert_eq!(found, transaction.fetch(&index, key)?, "{index:?} {key:?}");
                        read += usize::from(found.is_some());
                    }
                }
                Ok(())
            });
            assert!(checked.is_ok() || checked.unwrap_err().is_retryable());
        }
        done.store(true, Ordering::Relaxed);
        assert!(read > 200, "{read} rows read in batches");
    });
}

#[test]
fn a_scan_returns_rows_as_they_were_when_it_began_however_far_it_is_ahead() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let insert = |transaction: &Transaction<'_>, id: i64, mark: u8| {
        let mut row = table.new_row();
        row.set("id", id).unwrap();
        row.set("code", id).unwrap();
        row.set("name", name(id).as_str()).unwrap();
        row.set("payload", &[mark][..]).unwrap();
        transaction.insert(&table, &row).unwrap()
    };
    let transaction = session.begin().unwrap();
    let rids: Vec<Rid> = (0..200).map(|at| insert(&transaction, 2 * at, 0)).collect();
    transaction.commit().unwrap();
    for direction in [Direction::Ascending, Direction::Descending] {
        let mut transaction = session.begin().unwrap();
        for index in unique(&table) {
            let savepoint = transaction.savepoint();
            let mut scan = transaction
                .scan(&index, &index.all(), direction, Lock::Exclusive)
                .unwrap();
            let mut found = Vec::new();
            while let Some(next) = scan.next().unwrap() {
                assert_eq!(next.row.bytes("payload"), [0], "what it changed itself");
                found.push(next.row.int("id"));
                let at = found.len() - 1;
                let (of, distance) = (|at: usize| rids[at.min(199)], [1, 5, 9, 15, 17, 40][at % 6]);
                let rid = match direction {
                    Direction::Ascending => of(at + distance),
                    Direction::Descending => of((199_usize).saturating_sub(at + distance)),
                };
                // A row that is still to come goes, comes again, or changes; others come beside it.
                match at % 3 {
                    0 => drop(transaction.delete(&table, rid).unwrap()),
                    1 => match transaction.update(&table, rid, |row| row.set("payload", &[1][..])) {
                        Ok(()) | Err(StoreError::NoRow { .. }) => {}
                        Err(error) => panic!("{error}"),
                    },
                    _ => drop(insert(&transaction, 1001 + 2 * at as i64, 1)),
                }
            }
            if index.name() == "by_name" {
                // Names do not order as numbers.
                found.sort_unstable();
            } else if direction == Direction::Descending {
                found.reverse();
            }
            assert_eq!(
                found,
                (0..200).map(|at| 2 * at).collect::<Vec<i64>>(),
                "{index:?}"
            );
            transaction.rollback_to(&savepoint).unwrap();
        }
        transaction.abort();
    }
}

#[test]
fn batches_refuse_what_single_reads_refuse() {
    let (store, table) = open();
    let other = Store::in_memory(Options::default()).unwrap();
    let by_payload = table.index("by_payload").unwrap();
    let snapshot = store.snapshot().unwrap();
    let (key, two, text) = (
        [Value::Int(1)],
        [Value::Int(1), Value::Int(2)],
        [Value::Text("a")],
    );
    let fetch = |snapshot: &Snapshot, index: &Index, key: &[Value<'_>]| {
        let one = snapshot.fetch(index, key).unwrap_err().to_string();
        let many = snapshot.fetch_many(index, [key]).unwrap_err().to_string();
        assert_eq!(one, many);
        many
    };
    assert!(fetch(&snapshot, &by_payload, &key).contains("unique"));
    fetch(&snapshot, &table.primary(), &two);
    fetch(&snapshot, &table.primary(), &text);
    fetch(&other.snapshot().unwrap(), &table.primary(), &key);
    let by_code = table.index("by_code").unwrap();
    store.drop_index(&table, "by_code").unwrap();
    assert!(fetch(&snapshot, &by_code, &key).contains("dropped"));
}
