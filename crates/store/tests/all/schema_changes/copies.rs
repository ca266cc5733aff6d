//! Followers, backups and restored stores have what transactions defined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{Archive, ColumnDef, Follower, Options, Store, Ts, Type, Until, restore_to_on};

use super::model::{Model, Picked};
use super::{Dump, dump, dump_of, options};
use crate::crash_twin::random::Random;

#[test]
fn every_commit_is_whole_in_followers_backups_and_restored_stores() {
    for seed in 0..4 {
        let (disk, archive) = (Twin::new(seed), Twin::new(seed + 100));
        let kept = Archive::on(Arc::new(archive.clone()));
        let store_options = Options {
            archive: Some(kept.clone()),
            ..options()
        };
        let store = Store::open_on(Arc::new(disk.clone()), store_options).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let follower = Follower::open_on(&storage, options()).unwrap();
        let mut random = Random::new(seed);
        let mut model = Model::default();
        let mut at: BTreeMap<Ts, Dump> = BTreeMap::new();
        let mut backups: Vec<(Ts, Arc<dyn Storage>)> = Vec::new();
        let mut session = store.session_here().unwrap();
        for round in 0..50 {
            let transaction = session.begin().unwrap();
            let mut changed = model.clone();
            for _ in 0..1 + random.below(8) {
                changed.step(&transaction, &mut random, Picked::Both);
            }
            let ts = transaction.commit().unwrap();
            model = changed;
            at.insert(ts, dump(&store));
            if round % 15 == 3 {
                let to: Arc<dyn Storage> = Arc::new(Twin::new(round));
                let done = store.backup_on(&to).unwrap();
                assert_eq!(
                    dump(&Store::open_on(Arc::clone(&to), options()).unwrap()),
                    at[&done.ts]
                );
                let again: Arc<dyn Storage> = Arc::new(Twin::new(round));
                store.backup_on(&again).unwrap();
                backups.push((done.ts, again));
            }
            if round % 11 == 5 {
                // Not faster than the follower.
                let last = store.flush().unwrap();
                assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
                store.checkpoint().unwrap();
            }
            if random.once_in(6) {
                let last = store.flush().unwrap();
                assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
                let seen = dump_of(&follower.snapshot().unwrap(), &follower.tables());
                assert_eq!(seen, at[&ts], "seed {seed}, round {round}");
            }
        }
        store.archive_log().unwrap();
        for (from, backup) in &backups {
            for (ts, expected) in at.range(from..).step_by(6) {
                let target: Arc<dyn Storage> = Arc::new(Twin::new(1));
                restore_to_on(backup, &kept, Until::Ts(*ts), &target).unwrap();
                let restored = Store::open_on(target, options()).unwrap();
                assert_eq!(dump(&restored), *expected, "seed {seed}, commit {ts}");
            }
        }
        // A follower that begins now reads the checkpoint and all behind it.
        drop(follower);
        let follower = Follower::open_on(&storage, options()).unwrap();
        let last = store.flush().unwrap();
        assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
        let seen = dump_of(&follower.snapshot().unwrap(), &follower.tables());
        assert_eq!(seen, dump(&store));
    }
}

#[test]
fn folders_of_older_programs_take_definitions_in_transactions() {
    for format in ["format-1", "format-2"] {
        let disk = Twin::new(1);
        let fixture = format!("{}/tests/fixtures/{format}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(fixture).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            disk.put(name, &std::fs::read(&path).unwrap());
        }
        let store = super::open(&disk);
        let before = dump(&store);
        assert!(before.values().any(|(_, rows)| rows.len() > 100));
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        for table in transaction.tables() {
            let column = ColumnDef::new("added", Type::I64).default_value(5);
            transaction.add_column(&table, column).unwrap();
            transaction
                .rename_column(&table, &table.definition().columns[1].name, "renamed")
                .unwrap();
            let table = transaction.set_default(&table, "added", 6).unwrap();
            transaction
                .rename_table(table.name(), &format!("{}_2", table.name()))
                .unwrap();
        }
        assert_eq!(dump(&store), before);
        transaction.commit().unwrap();
        let seen = dump(&store);
        for (name, (_, rows)) in &before {
            let now = &seen[&format!("{name}_2")].1;
            assert!(now.iter().all(|row| row.last().unwrap() == "5"));
            let without: Vec<_> = now.iter().map(|row| row[..row.len() - 1].to_vec()).collect();
            assert_eq!(without, *rows);
        }
        assert_eq!(dump(&super::open(&disk.crash(1))), seen);
        store.checkpoint().unwrap();
        assert_eq!(dump(&super::open(&disk.crash(2))), seen);
    }
}
