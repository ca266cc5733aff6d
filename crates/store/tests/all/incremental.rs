//! Checkpoints that write what has changed: after any changes, checkpoints, closings and crashes the store holds the same rows as a naive
//! map, files stay few, and little is written where little has changed. Folders of the first format open.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    CheckpointDone, Durability, Options, Rid, Store, Table, TableDef, Transaction, Type, Value,
};

use crate::crash_twin::random::Random;

type Model = BTreeMap<i64, (Rid, String)>;

fn options() -> Options {
    Options {
        checkpoint_log_bytes: 0,
        ..Options::default()
    }
}

fn open(disk: &Twin) -> Store {
    Store::open_on(Arc::new(disk.clone()), options()).unwrap_or_else(|error| panic!("{error}"))
}

fn definition(name: &str) -> TableDef {
    TableDef::new(name)
        .column("id", Type::I64)
        .column("text", Type::Text { max: 400 })
        .primary_key(&["id"])
}

fn put(transaction: &Transaction<'_>, table: &Table, model: &mut Model, id: i64, text: String) {
    if let Some((rid, before)) = model.get_mut(&id) {
        transaction
            .update(table, *rid, |row| row.set(1, text.as_str()))
            .unwrap();
        *before = text;
        return;
    }
    let mut row = table.new_row();
    row.set(0, id).unwrap();
    row.set(1, text.as_str()).unwrap();
    let rid = transaction.insert(table, &row).unwrap();
    model.insert(id, (rid, text));
}

fn found(store: &Store, name: &str) -> Model {
    let table = store.table(name).unwrap();
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(&table, 0..table.rid_end()).unwrap();
    rows.map(|found| (found.row.int(0), (found.rid, found.row.text(1).to_owned())))
        .collect()
}

fn files(disk: &Twin) -> Vec<String> {
    let names = disk.names().unwrap().into_iter();
    names.filter(|name| name.starts_with("checkpoint-")).collect()
}

#[test]
fn whatever_changes_is_there_after_any_checkpoint() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let disk = Twin::new(seed);
        let mut store = open(&disk);
        let mut models: Vec<Model> = vec![Model::new(); 2];
        let mut names = vec!["t0".to_owned(), "t1".to_owned()];
        for name in &names {
            store.create_table(definition(name)).unwrap();
        }
        for round in 0..40 {
            match random.below(12) {
                0 if round % 3 == 0 => {
                    let which = random.below(2) as usize;
                    store.drop_table(&names[which]).unwrap();
                    names[which] = format!("t{}", round + 10);
                    models[which].clear();
                    store.create_table(definition(&names[which])).unwrap();
                }
                1..4 => drop(store.checkpoint().unwrap()),
                4 => {
                    store.close().unwrap();
                    store = open(&disk);
                }
                _ => {
                    let which = random.below(2) as usize;
                    let (model, table) = (&mut models[which], store.table(&names[which]).unwrap());
                    let mut session = store.session_here().unwrap();
                    let transaction = session.begin().unwrap();
                    // Some rows here and there, or all of some ranges.
                    let first = random.below(6000) as i64;
                    let step = 1 + random.below(300) as i64;
                    let deletes = random.below(3) == 0;
                    for id in (first..first + 1500.min(step * 40)).step_by(step as usize) {
                        match deletes {
                            true => {
                                if let Some((rid, _)) = model.remove(&id) {
                                    assert!(transaction.delete(&table, rid).unwrap());
                                }
                            }
                            false => put(&transaction, &table, model, id, format!("{seed} {round} {id}")),
                        }
                    }
                    transaction.commit().unwrap();
                }
            }
            assert!(files(&disk).len() < 20);
        }
        for (name, model) in names.iter().zip(&models) {
            assert!(found(&store, name) == *model, "seed {seed}, before");
        }
        drop(store);
        let store = open(&disk.crash(seed));
        for (name, model) in names.iter().zip(&models) {
            assert!(found(&store, name) == *model, "seed {seed}, after");
        }
    }
}

/// A store of 40,000 rows and its checkpoint.
fn of_40_000(disk: &Twin) -> (Store, Model, CheckpointDone) {
    let store = open(disk);
    let table = store.create_table(definition("t")).unwrap();
    let mut model = Model::new();
    let mut session = store.session_here().unwrap();
    for part in 0..40 {
        let transaction = session.begin().unwrap();
        for id in part * 1000..part * 1000 + 1000 {
            put(&transaction, &table, &mut model, id, format!("{id:0200}"));
        }
        transaction.commit_with(Durability::Asynchronous).unwrap();
    }
    drop(session);
    let done = store.checkpoint().unwrap().unwrap();
    assert_eq!(done.rows, 40_000);
    (store, model, done)
}

fn change(store: &Store, model: &mut Model, ids: impl Iterator<Item = i64>, text: &str) {
    let table = store.table("t").unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for id in ids {
        put(&transaction, &table, model, id, format!("{text} {id:0190}"));
    }
    transaction.commit().unwrap();
}

#[test]
fn what_has_not_changed_is_not_written_again() {
    let disk = Twin::new(1);
    let (store, mut model, all) = of_40_000(&disk);
    assert_eq!(
        store.checkpoint().unwrap().unwrap().bytes,
        0,
        "nothing has changed at all"
    );

    // The marks of commits are ahead by some thousands: ranges are looked at once in vain, and cost their bits.
    change(&store, &mut model, std::iter::once(5), "one");
    let done = store.checkpoint().unwrap().unwrap();
    assert!(done.bytes < all.bytes / 500, "{done:?}");

    // 1 % side by side: at most the ranges in which they are.
    change(&store, &mut model, 20_000..20_400, "hot");
    let done = store.checkpoint().unwrap().unwrap();
    assert!(done.bytes < all.bytes / 20, "{done:?}");

    drop(store);
    assert!(found(&open(&disk.crash(1)), "t") == model);
}

#[test]
fn changes_spread_over_all_rows_cost_what_they_are_and_a_rewrite_now_and_then() {
    let disk = Twin::new(1);
    let (mut store, mut model, all) = of_40_000(&disk);
    let (mut bytes, mut most) = (0, 0);
    for round in 0..40 {
        change(&store, &mut model, (round..40_000).step_by(100), "spread");
        let done = store.checkpoint().unwrap().unwrap();
        bytes += done.bytes;
        most = most.max(files(&disk).len());
        if round % 9 == 8 {
            store.close().unwrap();
            store = open(&disk);
        }
    }
    assert!(
        bytes / 40 < all.bytes / 10,
        "{} of {} on average",
        bytes / 40,
        all.bytes
    );
    assert!(most < 30, "{most} files");
    let on_disk: usize = files(&disk)
        .iter()
        .map(|name| disk.bytes(name).unwrap().len())
        .sum();
    assert!((on_disk as u64) < all.bytes * 5 / 2, "{on_disk} of {}", all.bytes);
    drop(store);
    assert!(found(&open(&disk.crash(1)), "t") == model);
}

#[test]
fn rows_that_are_gone_stay_gone() {
    let disk = Twin::new(1);
    let (store, mut model, _) = of_40_000(&disk);
    let table = store.table("t").unwrap();
    let delete = |store: &Store, model: &mut Model, ids: std::ops::Range<i64>| {
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        for id in ids {
            let (rid, _) = model.remove(&id).unwrap();
            assert!(transaction.delete(&table, rid).unwrap());
        }
        transaction.commit().unwrap();
    };
    // A few of a range, whole ranges, all but one row.
    for ids in [3000..3010, 5000..9000, 9000..39_999] {
        delete(&store, &mut model, ids);
        store.checkpoint().unwrap();
        assert!(found(&open(&disk.crash(7)), "t") == model);
    }
    // Their numbers are used again.
    change(&store, &mut model, 50_000..52_000, "again");
    store.checkpoint().unwrap();
    drop(store);
    assert!(found(&open(&disk.crash(8)), "t") == model);
}

#[test]
fn files_of_a_checkpoint_that_are_lost_cut_or_swapped_are_named() {
    let disk = Twin::new(1);
    let (store, mut model, _) = of_40_000(&disk);
    change(&store, &mut model, 0..40, "later");
    store.checkpoint().unwrap();
    store.close().unwrap();
    let names = files(&disk);
    assert_eq!(names.len(), 2);
    let refused = |disk: &Twin| match Store::open_on(Arc::new(disk.clone()), options()) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    };
    for (name, other) in [(&names[0], &names[1]), (&names[1], &names[0])] {
        let broken = disk.kill();
        broken.remove(name).unwrap();
        assert!(refused(&broken).contains(name));
        let broken = disk.kill();
        let bytes = disk.bytes(name).unwrap();
        broken.put(name, &bytes[..bytes.len() - 1]);
        assert!(refused(&broken).contains(name));
        broken.put(name, &disk.bytes(other).unwrap());
        assert!(refused(&broken).contains(name));
    }
    // A copy under another name does not count, and goes.
    let copy = "checkpoint-00000000000000000099-0.corun";
    disk.put(copy, &disk.bytes(&names[0]).unwrap());
    let store = open(&disk);
    assert!(found(&store, "t") == model);
    change(&store, &mut model, 0..1, "last");
    store.checkpoint().unwrap();
    assert!(!files(&disk).contains(&copy.to_owned()));
}

#[test]
fn a_folder_of_the_first_format_opens_and_its_next_checkpoint_is_of_the_newest() {
    let disk = Twin::new(1);
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1");
    for entry in std::fs::read_dir(fixture).unwrap() {
        let path = entry.unwrap().path();
        disk.put(
            path.file_name().unwrap().to_str().unwrap(),
            &std::fs::read(&path).unwrap(),
        );
    }
    let check = |store: &Store| {
        let table = store.table("account").unwrap();
        let snapshot = store.snapshot().unwrap();
        let rows = snapshot.rows(&table, 0..table.rid_end()).unwrap();
        let rows: BTreeMap<i64, (String, bool)> = rows
            .map(|found| {
                let note = found.row.value(2) == Value::Null;
                (found.row.int(0), (found.row.text(1).to_owned(), note))
            })
            .collect();
        let written = (0..1500).filter(|id| id % 20 != 0).map(|id| match id % 10 {
            0 => (id, ("changed".to_owned(), id % 3 == 0)),
            _ => (id, (format!("owner {}", id % 7), id % 3 == 0)),
        });
        let late = (2000..2010).map(|id| (id, ("late".to_owned(), true)));
        assert!(rows == written.chain(late).collect());
        assert_eq!(store.tables().len(), 1, "the other was dropped");
    };
    let store = open(&disk);
    check(&store);
    assert_eq!(store.checkpoint().unwrap().unwrap().rows, 1435);
    drop(store);
    let store = open(&disk.crash(1));
    check(&store);
    assert_eq!(store.checkpoint().unwrap().unwrap().bytes, 0);
}
