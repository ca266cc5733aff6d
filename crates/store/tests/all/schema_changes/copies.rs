//! Followers, backups and restored stores have what transactions defined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{Archive, Follower, Options, Store, Ts, Until, restore_to_on};

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
