//! Tables that are emptied at once.

use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{ColumnDef, Follower, Options, Store, StoreError, Type};

use crate::crash_twin::random::Random;
use crate::refusal_support::{definition, ids, insert, row, text};

fn options() -> Options {
    Options {
        checkpoint_log_bytes: 0,
        flush_every: Duration::from_millis(1),
        lock_timeout: Duration::from_millis(50),
        ..Options::default()
    }
}

fn open(disk: &Twin) -> Store {
    Store::open_on(Arc::new(disk.clone()), options()).unwrap_or_else(|error| panic!("{error}"))
}

fn put(store: &Store, from: i64, to: i64) {
    let table = store.table("t").unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            for id in from..to {
                transaction.upsert(&table, &row(&table, id, 10))?;
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_truncated_table_is_empty_and_snapshots_of_before_are_as_before() {
    let store = Store::in_memory(options()).unwrap();
    let old = store.create_table(definition("t")).unwrap();
    put(&store, 0, 100);
    store.create_index(&old, "late", false, &["x", "id"]).unwrap();
    let more = ColumnDef::new("more", Type::I64).default_value(9);
    store.add_column(&old, more).unwrap();
    let before = store.snapshot().unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &old, 100, 1).unwrap();
    // A transaction that uses the table keeps it from being emptied.
    assert!(store.truncate_table("t").unwrap_err().is_retryable());
    transaction.commit().unwrap();

    let table = store.truncate_table("t").unwrap();
    assert!(store.table("t").unwrap().is_same(&table) && !table.is_same(&old));
    assert_eq!(table.definition(), old.definition());
    assert_eq!((table.rows(), ids(&store, &table)), (0, vec![]));
    assert_eq!(before.rows(&old, 0..old.rid_end()).unwrap().count(), 100);
    let transaction = session.begin().unwrap();
    let refused = insert(&transaction, &old, 1, 1);
    assert!(matches!(refused, Err(StoreError::Dropped { .. })), "{refused:?}");
    transaction.abort();
    put(&store, 0, 3);
    assert_eq!(ids(&store, &table), [0, 1, 2]);
    assert!(text(store.truncate_table("nothing")).contains("there is no table"));
}

#[test]
fn it_stays_empty_after_crashes_in_checkpoints_backups_and_followers() {
    for seed in 0..15 {
        let mut random = Random::new(seed);
        let mut disk = Twin::new(seed);
        let mut store = open(&disk);
        store.create_table(definition("t")).unwrap();
        let (mut count, mut follower) = (0, None);
        for round in 0..40 {
            let storage: Arc<dyn Storage> = Arc::new(disk.clone());
            match random.below(8) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    follower = None;
                    store.close().unwrap();
                    disk = disk.crash(seed + round);
                    store = open(&disk);
                    // It says that those of before are on disk, for a follower.
                    put(&store, count, count + 1);
                    count += 1;
                }
                2 => {
                    store.truncate_table("t").unwrap();
                    count = 0;
                }
                3 => follower = Some(Follower::open_on(&storage, options()).unwrap()),
                4 => {
                    let copy: Arc<dyn Storage> = Arc::new(Twin::new(seed));
                    store.backup_on(&copy).unwrap();
                    let copy = Store::open_on(copy, options()).unwrap();
                    assert_eq!(copy.table("t").unwrap().rows(), count as u64);
                }
                _ => {
                    let more = random.below(1500) as i64;
                    put(&store, count, count + more);
                    count += more;
                }
            }
            let table = store.table("t").unwrap();
            assert!(
                ids(&store, &table).into_iter().eq(0..count),
                "seed {seed}, round {round}"
            );
            if let Some(follower) = &follower {
                let last = store.flush().unwrap();
                assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
                assert_eq!(follower.table("t").unwrap().rows(), count as u64);
            }
        }
    }
}

#[test]
fn a_crash_while_it_is_emptied_leaves_all_rows_or_none() {
    let (mut all, mut none) = (0, 0);
    for seed in 0..120 {
        let disk = Twin::new(seed);
        let store = open(&disk);
        store.create_table(definition("t")).unwrap();
        put(&store, 0, 50);
        disk.stop_after(seed % 8);
        let done = store.truncate_table("t").is_ok();
        drop(store);
        let store = open(&disk.crash(seed));
        let table = store.table("t").unwrap();
        let left = ids(&store, &table);
        match left.len() {
            0 => none += 1,
            50 if !done => all += 1,
            _ => panic!("seed {seed}: {} rows are left", left.len()),
        }
        put(&store, 0, 5);
        assert!(ids(&store, &table).len() >= 5);
    }
    assert!(all > 3 && none > 3, "{all} {none}");
}
