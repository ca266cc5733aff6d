//! Backups and an archive of the log: every commit can be had again, and an archive with a hole says where.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use corun_store::storage::{Storage, Twin};
use corun_store::{
    Archive, Durability, Follower, Options, Store, StoreError, Table, TableDef, Ts, Type, Until,
    restore_to_on,
};

use crate::crash_twin::random::Random;

type Rows = BTreeMap<i64, i64>;

fn open(disk: &Twin, archive: &Twin) -> Result<Store, StoreError> {
    let options = Options {
        // Segments of 4 KiB; checkpoints are asked for.
        checkpoint_log_bytes: 16 << 10,
        archive: Some(Archive::on(Arc::new(archive.clone()))),
        recovery_threads: 1,
        ..Options::default()
    };
    Store::open_on(Arc::new(disk.clone()), options)
}

fn definition() -> TableDef {
    TableDef::new("t")
        .column("id", Type::I64)
        .column("value", Type::I64)
        .primary_key(&["id"])
}

/// One commit; the rows are then `rows`.
fn change(
    store: &Store,
    rows: &mut Rows,
    random: &mut Random,
    durability: Durability,
) -> Result<Ts, StoreError> {
    let table = store.table("t")?;
    let mut session = store.session_here()?;
    let transaction = session.begin()?;
    let mut after = rows.clone();
    for _ in 0..1 + random.below(4) {
        let (id, value) = (random.below(50) as i64, random.below(1 << 40) as i64);
        if random.below(4) == 0 {
            transaction.delete_by_key(&table, &[id.into()])?;
            after.remove(&id);
        } else {
            let mut row = table.new_row();
            row.set("id", id)?;
            row.set("value", value)?;
            transaction.upsert(&table, &row)?;
            after.insert(id, value);
        }
    }
    let ts = transaction.commit_with(durability)?;
    *rows = after;
    Ok(ts)
}

fn rows(store: &Store) -> Rows {
    let table: Table = store.table("t").unwrap();
    let snapshot = store.snapshot().unwrap();
    let found = snapshot.rows(&table, 0..table.rid_end()).unwrap();
    found
        .map(|found| (found.row.int("id"), found.row.int("value")))
        .collect()
}

/// The store that is made of a backup.
fn restore(backup: &Twin, archive: &Twin, until: Until) -> Result<Twin, StoreError> {
    let (backup, target): (Arc<dyn Storage>, _) = (Arc::new(backup.clone()), Twin::new(u64::MAX));
    let archive = Archive::on(Arc::new(archive.clone()));
    let to: Arc<dyn Storage> = Arc::new(target.clone());
    let verified = restore_to_on(&backup, &archive, until, &to)?;
    if let Until::Ts(ts) = until {
        assert_eq!(verified.last, ts);
    }
    // What is said to be restored survives a crash.
    Ok(target.crash(verified.last.0))
}

fn restored(backup: &Twin, archive: &Twin, until: Until) -> Result<(Ts, Rows), StoreError> {
    let disk = restore(backup, archive, until)?;
    let store = Store::open_on(Arc::new(disk), Options::default())?;
    assert!(store.damage().is_none());
    Ok((store.stats().last, rows(&store)))
}

fn backup(store: &Store, number: u64) -> (Twin, Ts) {
    let disk = Twin::new(number);
    let to: Arc<dyn Storage> = Arc::new(disk.clone());
    let done = store.backup_on(&to).unwrap();
    (disk.crash(number), done.ts)
}

/// What a message says of the file; of another error, a panic.
fn archive_error(of: Result<impl Sized, StoreError>) -> String {
    match of.map(drop) {
        Err(StoreError::Archive { file, what }) => format!("{file}: {what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_commit_behind_a_backup_can_be_restored_whatever_crashed() {
    let (mut crashes, mut restores) = (0, 0);
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let (mut disk, mut archive) = (Twin::new(seed), Twin::new(1000 + seed));
        let mut store = open(&disk, &archive).unwrap();
        store.create_table(definition()).unwrap();
        // What each commit left.
        let mut known = BTreeMap::from([(store.flush().unwrap(), Rows::new())]);
        let mut backups = vec![backup(&store, 0)];
        for round in 0..25 {
            match random.below(10) {
                0 => drop(store.checkpoint()),
                1 => backups.push(backup(&store, round)),
                2 => drop(store.archive_log()),
                3 => {
                    // Power fails, at any moment of a checkpoint too.
                    crashes += 1;
                    let at = random.below(30);
                    [&disk, &archive][random.below(2) as usize].stop_after(at);
                    let newest = known.last_key_value().unwrap().1.clone();
                    let _ = change(&store, &mut newest.clone(), &mut random, Durability::Asynchronous);
                    let _ = store.checkpoint();
                    let _ = store.archive_log();
                    let crash = random.below(1 << 30);
                    (disk, archive) = (disk.crash(crash), archive.crash(crash + 1));
                    store = open(&disk, &archive).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    let last = store.stats().last;
                    known.retain(|ts, _| *ts <= last);
                    // The commit that may have been lost.
                    known.insert(last, rows(&store));
                }
                _ => {}
            }
            let (_, newest) = known.last_key_value().unwrap();
            let mut newest = newest.clone();
            for _ in 0..random.below(25) {
                let durability = [Durability::Durable, Durability::Asynchronous][random.below(2) as usize];
                let ts = change(&store, &mut newest, &mut random, durability).unwrap();
                known.insert(ts, newest.clone());
            }
        }
        let last = store.archive_log().unwrap();
        assert_eq!(last, *known.last_key_value().unwrap().0, "seed {seed}");
        for (backup, from) in &backups {
            for (ts, known) in known.range(*from..) {
                if random.below(12) > 0 && *ts != last && ts != from {
                    continue;
                }
                restores += 1;
                let found = restored(backup, &archive, Until::Ts(*ts));
                let found =
                    found.unwrap_or_else(|error| panic!("seed {seed}, backup {from} to {ts}: {error}"));
                assert!(
                    found == (*ts, known.clone()),
                    "seed {seed}, backup {from} to {ts}"
                );
            }
            let newest = restored(backup, &archive, Until::Newest).unwrap();
            assert!(
                newest == (last, known[&last].clone()),
                "seed {seed}, backup {from}"
            );
        }
        store.close().unwrap();
    }
    assert!(crashes > 30 && restores > 500, "{crashes}, {restores}");
}

/// A backup, and an archive of some segments behind it.
fn some() -> (Twin, Twin, Store, Ts) {
    let archive = Twin::new(2);
    let store = open(&Twin::new(1), &archive).unwrap();
    store.create_table(definition()).unwrap();
    let (copy, _) = backup(&store, 3);
    let (mut rows, mut random) = (Rows::new(), Random::new(4));
    for _ in 0..300 {
        change(&store, &mut rows, &mut random, Durability::Asynchronous).unwrap();
        if random.below(10) == 0 {
            store.flush().unwrap();
        }
    }
    let last = store.archive_log().unwrap();
    (copy, archive, store, last)
}

fn segments(archive: &Twin) -> Vec<String> {
    let mut names = archive.names().unwrap();
    names.retain(|name| name.starts_with("log-"));
    names
}

#[test]
fn what_is_missing_swapped_or_damaged_in_an_archive_is_named() {
    let (copy, archive, _store, last) = some();
    let names = segments(&archive);
    assert!(names.len() >= 4, "{names:?}");
    for (at, name) in names.iter().enumerate() {
        let without = archive.kill();
        without.remove(name).unwrap();
        for until in [Until::Ts(last), Until::Newest] {
            assert!(restored(&copy, &without, until).is_err(), "{name}: {until:?}");
        }
        let said = archive_error(restored(&copy, &without, Until::Ts(last)));
        // What the first was called nobody knows.
        let named = if at == 0 {
            "the file with commit 2 is missing"
        } else {
            name
        };
        assert!(said.contains(named), "{name}: {said}");
        // What comes before it can be restored.
        let first: u64 = name[4..24].parse().unwrap();
        if at > 0 {
            let (found, _) = restored(&copy, &without, Until::Ts(Ts(first - 1))).unwrap();
            assert_eq!(found, Ts(first - 1));
        }
        let length = archive.bytes(name).unwrap().len();
        for offset in [0, 20, 32, length / 2, length - 1] {
            let damaged = archive.kill();
            damaged.flip(name, offset as u64, 3).unwrap();
            // In the marks at the very end there is nothing to be restored, nor in what the backup has.
            let is_needed = offset + 1 < length && (at, offset) != (0, 32);
            match restored(&copy, &damaged, Until::Newest) {
                Ok((found, _)) => assert!(!is_needed && found == last),
                Err(error) => assert!(error.to_string().contains(name), "{name} at {offset}: {error}"),
            }
        }
        let other = &names[(at + 1) % names.len()];
        let swapped = archive.kill();
        swapped.put(name, &archive.bytes(other).unwrap());
        swapped.put(other, &archive.bytes(name).unwrap());
        let said = archive_error(restored(&copy, &swapped, Until::Ts(last)));
        assert!(said.contains(name) || said.contains(other), "{said}");
    }
    // Wherever the newest is cut, between two commits too.
    let newest = names.last().unwrap();
    let bytes = archive.bytes(newest).unwrap();
    for length in (32..bytes.len()).step_by(7) {
        let cut = archive.kill();
        cut.put(newest, &bytes[..length]);
        match restored(&copy, &cut, Until::Newest) {
            Ok((found, _)) => assert_eq!(found, last, "only marks were cut"),
            Err(error) => assert!(error.to_string().contains(newest), "{length}: {error}"),
        }
    }
    let said = archive_error(restored(&copy, &archive, Until::Ts(last.next())));
    assert!(said.contains(&format!("ends with commit {last}")), "{said}");
    let said = archive_error(restored(&copy, &archive, Until::Ts(Ts::ZERO)));
    assert!(said.contains("take an earlier one"), "{said}");
    let (other, _) = backup(&open(&Twin::new(8), &Twin::new(9)).unwrap(), 10);
    let said = restored(&other, &archive, Until::Newest).unwrap_err().to_string();
    assert!(said.contains("belongs to another store"), "{said}");
}

#[test]
fn a_time_is_found() {
    let (copy, archive, store, _) = some();
    let (mut rows, mut random) = (rows(&store), Random::new(9));
    let mut moments = Vec::new();
    for _ in 0..5 {
        let ts = change(&store, &mut rows, &mut random, Durability::Durable).unwrap();
        store.archive_log().unwrap();
        moments.push((SystemTime::now(), ts, rows.clone()));
        // The clock goes on.
        std::thread::sleep(Duration::from_millis(2));
    }
    let (newest, rest) = moments.split_last().unwrap();
    for (time, ts, rows) in rest {
        let found = restored(&copy, &archive, Until::Time(*time)).unwrap();
        assert!(found == (*ts, rows.clone()), "{ts} and {}", found.0);
    }
    // Whether more was committed before that time the archive does not say.
    let said = archive_error(restored(&copy, &archive, Until::Time(newest.0)));
    assert!(said.contains("restore to the newest"), "{said}");
    let said = archive_error(restored(&copy, &archive, Until::Time(SystemTime::UNIX_EPOCH)));
    assert!(said.contains("take an earlier one"), "{said}");
}

#[test]
fn an_archive_is_of_one_history() {
    let (copy, archive, store, last) = some();
    let earlier = restore(&copy, &archive, Until::Ts(Ts(last.0 - 5))).unwrap();
    assert!(matches!(open(&earlier, &archive), Err(StoreError::InUse { .. })));
    store.close().unwrap();
    let said = archive_error(open(&earlier, &archive));
    assert!(said.contains("another history"), "{said}");
    // Without an archive for a while, until it is longer: then the file is another.
    let (mut rows, mut random) = (Rows::new(), Random::new(5));
    let alone = Store::open_on(Arc::new(earlier.clone()), Options::default()).unwrap();
    for _ in 0..9 {
        change(&alone, &mut rows, &mut random, Durability::Durable).unwrap();
    }
    alone.close().unwrap();
    let alone = open(&earlier, &archive).unwrap();
    let said = alone.archive_log().unwrap_err().to_string();
    assert!(
        said.contains("another history") && said.contains("log-"),
        "{said}"
    );
    alone.close().unwrap();
    // Nor of two stores, nor of the folder itself.
    let disk = Twin::new(20);
    assert!(matches!(open(&disk, &disk), Err(StoreError::InUse { .. })));
    let said = open(&disk, &archive).map(drop).unwrap_err().to_string();
    assert!(said.contains("another store"), "{said}");
}

#[test]
fn an_archive_that_takes_nothing_keeps_the_log_where_it_is() {
    let (copy, archive, store, _) = some();
    let (mut rows, mut random) = (rows(&store), Random::new(6));
    archive.full_at(Some(archive.used() + 100));
    let mut last = Ts::ZERO;
    for _ in 0..300 {
        last = change(&store, &mut rows, &mut random, Durability::Asynchronous).unwrap();
    }
    let said = store.checkpoint().unwrap_err().to_string();
    assert!(said.contains("twin-2") && said.contains("log-"), "{said}");
    assert!(store.archive_log().is_err());
    let kept = store.stats().log_bytes;
    assert!(kept > 4096, "{kept}");
    // Commits go on meanwhile; with room it gets them all.
    archive.full_at(None);
    store.checkpoint().unwrap();
    assert!(store.stats().log_bytes < kept);
    store.archive_log().unwrap();
    assert!(restored(&copy, &archive, Until::Ts(last)).unwrap() == (last, rows));
}

#[test]
fn a_backup_of_a_follower_can_be_brought_further() {
    let (_, archive, store, _) = some();
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        archive: Some(Archive::on(Arc::new(Twin::new(31)))),
        ..Options::default()
    };
    drop((archive, store));
    let kept = Options::clone(&options).archive.unwrap();
    let store = Store::open(place.path().join("store"), options).unwrap();
    store.create_table(definition()).unwrap();
    let (mut rows, mut random) = (Rows::new(), Random::new(7));
    let first = change(&store, &mut rows, &mut random, Durability::Durable).unwrap();
    let follower = Follower::open(place.path().join("store"), Options::default()).unwrap();
    assert!(follower.wait_for(first, Duration::from_secs(60)).unwrap());
    follower.backup(place.path().join("copy")).unwrap();
    let last = change(&store, &mut rows, &mut random, Durability::Durable).unwrap();
    store.archive_log().unwrap();
    let copy: Arc<dyn Storage> =
        Arc::new(corun_store::storage::Folder::open(place.path().join("copy")).unwrap());
    let target: Arc<dyn Storage> = Arc::new(Twin::new(32));
    let verified = restore_to_on(&copy, &kept, Until::Newest, &target).unwrap();
    assert_eq!(
        (verified.last, verified.tables[0].rows),
        (last, rows.len() as u64)
    );
}

#[test]
fn what_an_archive_has_no_crash_takes_from_the_store() {
    let mut with_more = 0;
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let (disk, archive) = (Twin::new(seed), Twin::new(100 + seed));
        let store = open(&disk, &archive).unwrap();
        store.create_table(definition()).unwrap();
        let (copy, _) = backup(&store, 200 + seed);
        disk.slow_sync(Duration::from_micros(random.below(300)));
        let stop = AtomicBool::new(false);
        let (disk, archive) = std::thread::scope(|scope| {
            // It commits while the log is copied, and nobody waits for it.
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let (mut rows, mut random) = (Rows::new(), Random::new(seed));
                while !stop.load(Ordering::Relaxed) {
                    change(store, &mut rows, &mut random, Durability::Asynchronous).unwrap();
                }
            });
            for _ in 0..1 + random.below(20) {
                match random.below(4) {
                    0 => drop(store.checkpoint().unwrap()),
                    _ => drop(store.archive_log().unwrap()),
                }
            }
            // The archive first: the store goes on meanwhile.
            let left = archive.crash(seed);
            let crashed = disk.crash(seed);
            stop.store(true, Ordering::Relaxed);
            (crashed, left)
        });
        let store = open(&disk, &archive).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let last = store.stats().last;
        with_more += u64::from(last.0 > 20);
        assert_eq!(store.archive_log().unwrap(), last, "seed {seed}");
        assert!(
            restored(&copy, &archive, Until::Newest).unwrap() == (last, rows(&store)),
            "seed {seed}"
        );
    }
    assert!(with_more > 6, "{with_more}");
}
