//! Columns that are added to tables with rows: what the rows show, whoever reads them, and after whatever happened to the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    ColumnDef, Direction, Durability, Follower, Lock, Options, RowRef, Snapshot, Store, StoreError, Table,
    TableDef, Type, Value, verify_on,
};

use crate::crash_twin::random::Random;
use crate::refusal_support::text;

fn definition() -> TableDef {
    TableDef::new("t")
        .column("id", Type::I64)
        .nullable("name", Type::Text { max: 40 })
        .primary_key(&["id"])
}

/// Columns that are added, one after the other: of every kind, and so many that the NULL bits take a second byte.
fn added(at: usize) -> ColumnDef {
    let name = format!("c{at}");
    let column = |data_type| ColumnDef::new(&name, data_type);
    match at % 7 {
        0 => column(Type::I32).default_value(-7),
        1 => column(Type::Text { max: 30 }).nullable(),
        // The first makes rows that are longer than 64 KiB possible: ends of fields take four bytes then.
        2 => column(Type::Text {
            max: if at == 2 { 70_000 } else { 300 },
        })
        .nullable()
        .default_value("a default"),
        3 => column(Type::FixedText { bytes: 5 }).default_value("ab"),
        4 => column(Type::F64).nullable().default_value(0.5),
        5 => column(Type::Bool).default_value(true),
        _ => column(Type::FixedBytes { bytes: 2 }).nullable(),
    }
}

/// What rows show of it that were there before, as a text.
fn shown(at: usize) -> String {
    ["-7", "NULL", "'a default'", "'ab   '", "0.5", "true", "NULL"][at % 7].to_owned()
}

fn a_value(at: usize, random: u64) -> (Value<'static>, String) {
    let value = match at % 7 {
        0 => Value::Int(random as i64 % 1000),
        1 => [Value::Null, Value::Text(""), Value::Text("some text")][random as usize % 3],
        2 => [Value::Null, Value::Text("a default"), Value::Text("x")][random as usize % 3],
        3 => [Value::Text("abcde"), Value::Text("vwxyz")][random as usize % 2],
        4 => Value::Float((random % 100) as f64),
        5 => Value::Bool(random.is_multiple_of(2)),
        _ => [Value::Null, Value::Bytes(&[1, 2])][random as usize % 2],
    };
    (value, value.to_string())
}

/// The values of each row, by id.
type Rows = BTreeMap<i64, Vec<String>>;

fn rows(snapshot: &Snapshot, table: &Table) -> Rows {
    let found = snapshot.rows(table, 0..table.rid_end()).unwrap();
    let rows: Rows = found
        .map(|found| {
            let values = (1..found.row.columns()).map(|column| found.row.value(column).to_string());
            (found.row.int(0), values.collect())
        })
        .collect();
    // Indexes of added columns say the same.
    for index in table.indexes().iter().filter(|index| index.name() != "primary") {
        let Ok(scan) = snapshot.scan(index, &index.all(), Direction::Ascending) else {
            continue;
        };
        let column = index.columns()[0];
        let mut of_index: Vec<(i64, String)> = scan
            .map(|found| (found.row.int(0), found.row.value(column).to_string()))
            .collect();
        of_index.sort();
        let of_rows: Vec<(i64, String)> = rows
            .iter()
            .map(|(id, row)| (*id, row[column - 1].clone()))
            .collect();
        assert_eq!(of_index, of_rows);
    }
    rows
}

fn options() -> Options {
    Options {
        workers: 2,
        flush_every: Duration::from_millis(1),
        checkpoint_log_bytes: 0,
        ..Options::default()
    }
}

fn open(disk: &Twin) -> (Store, Table) {
    let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap_or_else(|error| panic!("{error}"));
    let table = store.table("t").unwrap();
    (store, table)
}

/// One transaction of a few changes.
fn change(store: &Store, table: &Table, model: &mut Rows, random: &mut Random) -> Result<(), StoreError> {
    let mut session = store.session_here().unwrap();
    let transaction = session.begin()?;
    for _ in 0..1 + random.below(6) {
        let id = random.below(80) as i64;
        let columns = table.definition().columns.len() - 2;
        match (random.below(5), model.get_mut(&id)) {
            (0, Some(_)) => {
                assert!(transaction.delete_by_key(table, &[id.into()])?);
                model.remove(&id);
            }
            (1 | 2, Some(row)) if columns > 0 => {
                let at = random.below(columns as u64) as usize;
                let (value, says) = a_value(at, random.word());
                transaction.update_by_key(table, &[id.into()], |row| row.set(at + 2, value))?;
                row[at + 1] = says;
            }
            _ => {
                let name = format!("name {}", random.below(1000));
                let mut row = table.new_row();
                row.set("id", id)?;
                row.set("name", &name)?;
                let mut values = vec![format!("'{name}'")];
                for at in 0..columns {
                    let (value, says) = a_value(at, random.word());
                    match random.below(3) {
                        0 => values.push(shown(at)),
                        _ => {
                            row.set(at + 2, value)?;
                            values.push(says);
                        }
                    }
                }
                transaction.upsert(table, &row)?;
                model.insert(id, values);
            }
        }
    }
    transaction.commit_with(Durability::Durable).map(drop)
}

fn add(store: &Store, table: &Table, model: &mut Rows) -> Result<(), StoreError> {
    let at = table.definition().columns.len() - 2;
    store.add_column(table, added(at))?;
    model.values_mut().for_each(|row| row.push(shown(at)));
    Ok(())
}

#[test]
fn rows_of_before_show_the_default_whoever_reads_them() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = store.create_table(definition()).unwrap();
    let mut session = store.session_here().unwrap();
    let mut begun = table.new_row();
    for id in 0..3 {
        begun.set("id", id).unwrap();
        begun.set("name", format!("n{id}").as_str()).unwrap();
        session
            .run(|transaction| transaction.insert(&table, &begun))
            .unwrap();
    }
    let (before, by_id) = (store.snapshot().unwrap(), table.primary());
    let old = before.fetch(&by_id, &[0.into()]).unwrap().unwrap().row;
    assert_eq!(old.columns(), 2);
    let size = ColumnDef::new("size", Type::I32).default_value(5);
    store.add_column(&table, size.clone()).unwrap();
    // A row that was read before is as it was; who reads it again is shown the column, too.
    assert_eq!(old.columns(), 2);
    assert!(old.get::<i64>("size").is_err());
    let old = before.fetch(&by_id, &[0.into()]).unwrap().unwrap().row;
    assert_eq!((old.columns(), old.int("size"), old.int(2)), (3, 5, 5));
    assert_eq!(old.get::<Option<i32>>("size").unwrap(), Some(5));
    assert!(old.get::<i64>("sise").unwrap_err().to_string().contains("size"));
    assert!(old.get::<i64>(3).is_err());
    assert_eq!(
        (table.column("size"), table.definition().columns.len()),
        (Some(2), 3)
    );
    assert_eq!(table.definition().columns[2], size);

    // Rows that were begun before: with the default, and with another value.
    begun.set("id", 3).unwrap();
    let mut transaction = session.begin().unwrap();
    transaction.insert(&table, &begun).unwrap();
    begun.set("id", 4).unwrap();
    begun.set("size", 44).unwrap();
    transaction.insert(&table, &begun).unwrap();
    // A change of an old row, and of one of its new fields.
    transaction
        .update_by_key(&table, &[1.into()], |row| row.set("name", "changed"))
        .unwrap();
    transaction
        .update_by_key(&table, &[2.into()], |row| row.set("size", 22))
        .unwrap();
    let savepoint = transaction.savepoint();
    transaction
        .update_by_key(&table, &[0.into()], |row| row.set("size", 0))
        .unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    transaction.commit().unwrap();
    let snapshot = store.snapshot().unwrap();
    let all = |snapshot: &Snapshot| -> Vec<(i64, i64)> {
        let found = snapshot.scan(&by_id, &by_id.all(), Direction::Ascending).unwrap();
        found
            .map(|found| (found.row.int("id"), found.row.int("size")))
            .collect()
    };
    assert_eq!(all(&snapshot), [(0, 5), (1, 5), (2, 22), (3, 5), (4, 44)]);
    assert_eq!(all(&before), [(0, 5), (1, 5), (2, 5)]);

    // An index over it; unique ones see the defaults.
    store.create_index(&table, "by_size", false, &["size"]).unwrap();
    let refused = text(store.create_index(&table, "one", true, &["size"]));
    assert!(refused.contains("key (5)"), "{refused}");
    let by_size = table.index("by_size").unwrap();
    let transaction = session.begin().unwrap();
    let mut scan = transaction
        .scan(
            &by_size,
            &by_size.point(&[5.into()]).unwrap(),
            Direction::Ascending,
            Lock::Shared,
        )
        .unwrap();
    let mut ids = Vec::new();
    while let Some(found) = scan.next().unwrap() {
        ids.push(found.row.int(0));
    }
    assert_eq!(ids, [0, 1, 3]);
    drop(scan);
    transaction.commit().unwrap();
}

#[test]
fn columns_that_cannot_be_added_are_refused() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = store.create_table(definition()).unwrap();
    let add = |column| text(store.add_column(&table, column));
    assert!(add(ColumnDef::new("name", Type::I64).default_value(1)).contains("twice"));
    assert!(add(ColumnDef::new("n", Type::I64)).contains("\"n\" cannot be NULL"));
    assert!(add(ColumnDef::new("n", Type::I64).default_value("x")).contains("holds i64, not 'x'"));
    assert!(add(ColumnDef::new("n", Type::I8).default_value(300)).contains("out of its range"));
    assert!(add(ColumnDef::new("n", Type::I8).default_value(Value::Null)).contains("cannot be NULL"));
    assert!(add(ColumnDef::new("n", Type::FixedBytes { bytes: 9 << 20 }).nullable()).contains("the most is"));
    assert!(add(ColumnDef::new("", Type::I64).nullable()).contains("is empty"));
    assert_eq!(table.definition(), definition());
    let other = Store::in_memory(Options::default()).unwrap();
    let refused = other.add_column(&table, ColumnDef::new("n", Type::I64).nullable());
    assert!(text(refused).contains("another store"));
    store.drop_table("t").unwrap();
    assert!(add(ColumnDef::new("n", Type::I64).nullable()).contains("was dropped"));
}

#[test]
fn a_table_has_as_many_columns_added_as_it_can_have() {
    let disk = Twin::new(3);
    let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    let table = store.create_table(definition()).unwrap();
    let mut model = Rows::new();
    let mut random = Random::new(1);
    for at in 0..1022 {
        if at % 100 == 0 {
            change(&store, &table, &mut model, &mut random).unwrap();
        }
        add(&store, &table, &mut model).unwrap();
    }
    let more = store.add_column(&table, ColumnDef::new("more", Type::I64).nullable());
    assert!(text(more).contains("1025 columns"));
    assert!(rows(&store.snapshot().unwrap(), &table) == model);
    store.checkpoint().unwrap();
    drop((store, table));
    let (store, table) = open(&disk);
    assert!(rows(&store.snapshot().unwrap(), &table) == model);
}

#[test]
fn added_columns_come_through_checkpoints_restarts_crashes_backups_and_followers() {
    for seed in 0..16 {
        let mut random = Random::new(seed);
        let mut disk = Twin::new(seed);
        let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
        store.create_table(definition()).unwrap();
        let (mut store, mut table) = (store.clone(), store.table("t").unwrap());
        let mut model = Rows::new();
        let mut follower = None;
        let mut kept: Vec<(Snapshot, Rows, usize)> = Vec::new();
        for round in 0..60 {
            let storage: Arc<dyn Storage> = Arc::new(disk.clone());
            match random.below(12) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    kept.clear();
                    follower = None;
                    store.close().unwrap();
                    disk = match random.once_in(2) {
                        true => disk.crash(seed + round),
                        false => disk,
                    };
                    (store, table) = open(&disk);
                    // It says that those of before are on disk, for a follower.
                    change(&store, &table, &mut model, &mut random).unwrap();
                }
                2 => follower = Some(Follower::open_on(&storage, options()).unwrap()),
                3 | 4 => add(&store, &table, &mut model).unwrap(),
                5 => kept.push((
                    store.snapshot().unwrap(),
                    model.clone(),
                    table.definition().columns.len(),
                )),
                6 if table.column("c1").is_some() && table.index("by_c1").is_none() => {
                    store.create_index(&table, "by_c1", false, &["c1", "id"]).unwrap();
                }
                7 if table.column("c0").is_some() && table.index("by_c0").is_none() => {
                    store.create_index(&table, "by_c0", false, &["c0"]).unwrap();
                }
                8 => {
                    let copy: Arc<dyn Storage> = Arc::new(Twin::new(seed));
                    store.backup_on(&copy).unwrap();
                    assert_eq!(verify_on(&copy).unwrap().tables[0].rows, model.len() as u64);
                    let copy = Store::open_on(copy, options()).unwrap();
                    assert!(rows(&copy.snapshot().unwrap(), &copy.table("t").unwrap()) == model);
                }
                _ => (0..random.below(9))
                    .for_each(|_| change(&store, &table, &mut model, &mut random).unwrap()),
            }
            let context = format!("seed {seed}, round {round}");
            assert!(rows(&store.snapshot().unwrap(), &table) == model, "{context}");
            for (snapshot, model, columns) in &kept {
                let with_defaults = |(id, row): (&i64, &Vec<String>)| {
                    let later = *columns..table.definition().columns.len();
                    let later = later.map(|column| shown(column - 2));
                    (*id, row.iter().cloned().chain(later).collect::<Vec<_>>())
                };
                let model: Rows = model.iter().map(with_defaults).collect();
                assert!(rows(snapshot, &table) == model, "{context}");
            }
            if let Some(follower) = &follower {
                let last = store.flush().unwrap();
                assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
                let (snapshot, table) = (follower.snapshot().unwrap(), follower.table("t").unwrap());
                assert!(rows(&snapshot, &table) == model, "{context}");
            }
        }
        drop(kept);
    }
}

#[test]
fn a_crash_while_columns_are_added_leaves_what_was_there_before_or_after() {
    let (mut without, mut with) = (0, 0);
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let disk = Twin::new(seed);
        let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
        let table = store.create_table(definition()).unwrap();
        let mut model = Rows::new();
        for _ in 0..5 {
            change(&store, &table, &mut model, &mut random).unwrap();
        }
        disk.stop_after(random.below(12));
        let mut before = model.clone();
        let mut columns = table.definition().columns.len();
        let mut went = Ok(());
        for step in 0..9 {
            before = model.clone();
            columns = table.definition().columns.len();
            went = match step % 3 {
                0 => {
                    let at = columns - 2;
                    model.values_mut().for_each(|row| row.push(shown(at)));
                    store.add_column(&table, added(at))
                }
                1 => change(&store, &table, &mut model, &mut random),
                _ => store.checkpoint().map(drop),
            };
            if went.is_err() {
                break;
            }
        }
        if went.is_ok() {
            continue;
        }
        drop((store, table));
        let (store, table) = open(&disk.crash(seed));
        let found = rows(&store.snapshot().unwrap(), &table);
        assert!(found == before || found == model, "seed {seed}");
        match table.definition().columns.len() == columns {
            true => without += 1,
            false => with += 1,
        }
        // It goes on.
        let mut model = found;
        add(&store, &table, &mut model).unwrap();
        change(&store, &table, &mut model, &mut random).unwrap();
        assert!(rows(&store.snapshot().unwrap(), &table) == model);
    }
    assert!(without > 5 && with > 1, "{without} {with}");
}

#[test]
fn defaults_of_a_definition_are_there_after_a_restart() {
    let disk = Twin::new(8);
    let definition = definition()
        .with_column(ColumnDef::new("state", Type::Text { max: 9 }).default_value("new"))
        .with_column(ColumnDef::new("rate", Type::F64).nullable().default_value(-0.25));
    let insert = |store: &Store, id: i64| {
        let table = store.table("t").unwrap();
        let mut session = store.session_here().unwrap();
        let mut row = table.new_row();
        row.set("id", id).unwrap();
        session
            .run(|transaction| transaction.insert(&table, &row))
            .unwrap();
        // As new, and with what is set instead of the defaults.
        row.clear();
        row.set("id", id + 1).unwrap();
        row.set("state", "old").unwrap();
        row.set("rate", Value::Null).unwrap();
        session
            .run(|transaction| transaction.insert(&table, &row))
            .unwrap();
    };
    let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    store.create_table(definition.clone()).unwrap();
    insert(&store, 0);
    drop(store);
    let (store, table) = open(&disk);
    assert_eq!(table.definition(), definition);
    insert(&store, 2);
    store.checkpoint().unwrap();
    drop((store, table));
    let (store, table) = open(&disk);
    let same = store.create_table_if_missing(definition).unwrap();
    assert!(same.is_same(&table));
    let other = TableDef {
        columns: table
            .definition()
            .columns
            .into_iter()
            .map(|column| ColumnDef {
                default: None,
                ..column
            })
            .collect(),
        ..table.definition()
    };
    let refused = text(store.create_table_if_missing(other));
    assert!(
        refused.contains("column \"state\" has the default 'new', not no default"),
        "{refused}"
    );
    insert(&store, 4);
    let expected = (0..6).map(|id| match id % 2 {
        0 => (id, ["NULL", "'new'", "-0.25"].map(str::to_owned).to_vec()),
        _ => (id, ["NULL", "'old'", "NULL"].map(str::to_owned).to_vec()),
    });
    assert!(rows(&store.snapshot().unwrap(), &table) == expected.collect());
}

#[test]
fn a_folder_of_the_second_format_takes_columns_and_keeps_its_old_files() {
    let disk = Twin::new(1);
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-2");
    for entry in std::fs::read_dir(fixture).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        disk.put(name, &std::fs::read(&path).unwrap());
    }
    let open = || Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    let mut model: BTreeMap<i64, (String, bool, i64)> = (0..1500)
        .filter(|&id| id != 5)
        .map(|id| {
            let owner = match id {
                10..20 => "delta",
                20..30 => "log",
                40 => "patch",
                _ => "first",
            };
            (id, (owner.to_owned(), id % 3 != 0, 5))
        })
        .collect();
    let check = |store: &Store, model: &BTreeMap<i64, (String, bool, i64)>| {
        let (snapshot, table) = (store.snapshot().unwrap(), store.table("account").unwrap());
        let by_owner = table.index("by_owner").unwrap();
        let scan = snapshot
            .scan(&by_owner, &by_owner.all(), Direction::Ascending)
            .unwrap();
        let found: BTreeMap<i64, (String, bool, i64)> = scan
            .map(|found| {
                let row = found.row;
                let owner = row.text("owner").to_owned();
                (row.int("id"), (owner, row.is_null("note"), row.int("size")))
            })
            .collect();
        assert!(found == *model);
    };
    let store = open();
    let table = store.table("account").unwrap();
    store
        .add_column(&table, ColumnDef::new("size", Type::I64).default_value(5))
        .unwrap();
    check(&store, &model);
    let mut session = store.session_here().unwrap();
    for id in [12, 700] {
        session
            .run(|transaction| {
                transaction.update_by_key(&table, &[Value::Int(id)], |row| row.set("size", id))
            })
            .unwrap();
        model.get_mut(&id).unwrap().2 = id;
    }
    drop((session, table));
    for _ in 0..2 {
        store.checkpoint().unwrap();
    }
    check(&store, &model);
    store.close().unwrap();
    let first = "checkpoint-00000000000000000002-0.corun";
    assert!(
        disk.bytes(first).is_ok(),
        "rows of before are still where they were"
    );
    let store = open();
    check(&store, &model);
    store
        .add_column(&store.table("account").unwrap(), added(2))
        .unwrap();
    store.close().unwrap();
    check(&open(), &model);
}

#[test]
fn columns_are_added_while_others_read_and_write() {
    const COLUMNS: i64 = 30;
    let disk = Twin::new(4);
    let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    let table = store.create_table(definition()).unwrap();
    let (stop, changes, scans) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    // What a row can hold in the column that was added as number `at`: its default, or what its writer has set.
    let check = |row: RowRef<'_>| {
        for column in 2..row.columns() {
            let (at, value) = (column as i64 - 2, row.int(column));
            assert!(
                value == -at || value == row.int(0) * at,
                "column {column}: {value}"
            );
            assert_eq!(row.get::<i64>(format!("c{at}").as_str()).unwrap(), value);
        }
    };
    /// Ends the others when this thread ends, by a panic too.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        for worker in 0..2_u64 {
            let (store, table, stop, changes) = (&store, &table, &stop, &changes);
            scope.spawn(move || {
                let _ends = Ends(stop);
                let mut session = store.session_here().unwrap();
                session.set_durability(Durability::Asynchronous);
                let (mut random, mut row) = (Random::new(worker), table.new_row());
                while !stop.load(Ordering::Relaxed) {
                    let id = random.below(300) as i64;
                    let columns = table.definition().columns.len();
                    // A row that was begun long ago, as a rule.
                    if random.once_in(50) {
                        row = table.new_row();
                    }
                    row.set("id", id).unwrap();
                    let written = session.run(|transaction| {
                        if random.once_in(3) {
                            for at in 2..columns {
                                row.set(at, id * (at as i64 - 2))?;
                            }
                            transaction.upsert(table, &row).map(drop)?;
                            row = table.new_row();
                            return Ok(());
                        }
                        let key = [Value::Int(id)];
                        transaction.update_by_key(table, &key, |row| {
                            row.set(
                                columns - 1,
                                if columns > 2 { id * (columns as i64 - 3) } else { 0 },
                            )
                        })?;
                        if random.once_in(5) {
                            transaction.delete_by_key(table, &key)?;
                        }
                        Ok(())
                    });
                    match written {
                        Ok(()) => drop(changes.fetch_add(1, Ordering::Relaxed)),
                        // There are no columns to be added yet, and the name is none of integers.
                        Err(StoreError::Row(_)) if columns == 2 => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let (store, table, stop, scans, check) = (&store, &table, &stop, &scans, &check);
        scope.spawn(move || {
            let _ends = Ends(stop);
            while !stop.load(Ordering::Relaxed) {
                let snapshot = store.snapshot().unwrap();
                let rows = snapshot.rows(table, 0..table.rid_end()).unwrap();
                rows.for_each(|found| check(found.row));
                scans.fetch_add(1, Ordering::Relaxed);
            }
        });
        for at in 0..COLUMNS {
            let goes_on = (changes.load(Ordering::Relaxed), scans.load(Ordering::Relaxed));
            let column = ColumnDef::new(&format!("c{at}"), [Type::I32, Type::I64][at as usize % 2]);
            let column = match at % 3 {
                0 => column.nullable(),
                _ => column,
            };
            store.add_column(table, column.default_value(-at)).unwrap();
            if at % 7 == 0 {
                store.checkpoint().unwrap();
            }
            while changes.load(Ordering::Relaxed) < goes_on.0 + 30
                || scans.load(Ordering::Relaxed) == goes_on.1
            {
                assert!(!stop.load(Ordering::Relaxed));
                std::thread::yield_now();
            }
        }
    });
    let found = rows(&store.snapshot().unwrap(), &table);
    assert!(!found.is_empty());
    drop(table);
    store.close().unwrap();
    let (store, table) = open(&disk);
    assert!(rows(&store.snapshot().unwrap(), &table) == found);
}
