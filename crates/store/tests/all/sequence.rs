//! Sequences: no number is given out twice, whoever asks, and whatever happens to the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{Follower, Options, SequenceDef, Store, StoreError, TableDef, Type};

use crate::crash_twin::random::Random;
use crate::refusal_support::text;

fn options() -> Options {
    Options {
        flush_every: Duration::from_millis(1),
        checkpoint_log_bytes: 0,
        ..Options::default()
    }
}

fn open(disk: &Twin) -> Store {
    Store::open_on(Arc::new(disk.clone()), options()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn numbers_go_up_or_down_to_their_end() {
    let store = Store::in_memory(Options::default()).unwrap();
    let down = SequenceDef {
        start: -5,
        increment: -10,
        cache: 3,
        ..SequenceDef::new("down")
    };
    let down = store.create_sequence(down).unwrap();
    let numbers: Vec<i64> = (0..7).map(|_| down.next_value().unwrap()).collect();
    assert_eq!(numbers, [-5, -15, -25, -35, -45, -55, -65]);
    let end = SequenceDef {
        start: i64::MAX - 3,
        increment: 2,
        ..SequenceDef::new("end")
    };
    let end = store.create_sequence(end).unwrap();
    assert_eq!(
        (end.next_value().unwrap(), end.next_value().unwrap()),
        (i64::MAX - 3, i64::MAX - 1)
    );
    for _ in 0..3 {
        assert!(text(end.next_value()).contains("end of the 64-bit integers"));
    }
    let names: Vec<String> = store
        .sequences()
        .iter()
        .map(|one| one.name().to_owned())
        .collect();
    assert_eq!(names, ["down", "end"]);

    let refused = |change: fn(&mut SequenceDef)| {
        let mut definition = SequenceDef::new("s");
        change(&mut definition);
        text(store.create_sequence(definition))
    };
    assert!(refused(|s| s.increment = 0).contains("increment is 0"));
    assert!(refused(|s| s.cache = 0).contains("cache is 0"));
    assert!(refused(|s| s.name.clear()).contains("empty"));
    assert!(refused(|s| s.name = "end".to_owned()).contains("a sequence \"end\" already"));
    store.drop_sequence("end").unwrap();
    assert!(text(end.next_value()).contains("was dropped"));
    assert!(matches!(
        store.sequence("end"),
        Err(StoreError::NoSequence { .. })
    ));
    assert!(matches!(
        store.drop_sequence("end"),
        Err(StoreError::NoSequence { .. })
    ));
    let again = store.create_sequence(SequenceDef::new("end")).unwrap();
    assert_eq!(again.next_value().unwrap(), 1);
}

#[test]
fn many_threads_get_each_number_once_and_none_is_left_out() {
    let disk = Twin::new(1);
    let store = open(&disk);
    let sequence = store.create_sequence(SequenceDef::new("s")).unwrap();
    let numbers: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let take = || (0..500).map(|_| sequence.next_value().unwrap()).collect();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(numbers.iter().all(|of_thread| of_thread.is_sorted()));
    let mut all: Vec<i64> = numbers.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(1..=2000));
}

#[test]
fn numbers_that_were_reserved_wait_for_the_disk_once() {
    let disk = Twin::new(1);
    let store = open(&disk);
    let sequence = store.create_sequence(SequenceDef::new("s")).unwrap();
    assert_eq!(sequence.next_value().unwrap(), 1);
    let before = store.stats().last;
    sequence.reserve(1000).unwrap();
    sequence.reserve(1000).unwrap();
    assert!((2..=1001).all(|number| sequence.next_value().unwrap() == number));
    assert_eq!(store.stats().last, before.next());
    assert_eq!(sequence.next_value().unwrap(), 1002);
    assert_eq!(sequence.last(), (1002, true));
    drop((store, sequence));
    let store = open(&disk.crash(1));
    assert!(store.sequence("s").unwrap().next_value().unwrap() > 1002);

    // Of a sequence that nobody else has.
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let own = transaction.create_sequence(SequenceDef::new("own")).unwrap();
    own.reserve(100).unwrap();
    assert_eq!(own.next_value().unwrap(), 1);
    transaction.commit().unwrap();
    drop(own);
    let store = {
        drop((session, store));
        open(&disk.crash(2))
    };
    drop(store);
}

#[test]
fn no_number_comes_twice_after_crashes_restarts_and_checkpoints() {
    for seed in 0..25 {
        let mut random = Random::new(seed);
        let mut disk = Twin::new(seed);
        let mut store = open(&disk);
        store
            .create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))
            .unwrap();
        let cache = 1 + random.below(40) as u32;
        let definition = SequenceDef {
            cache,
            ..SequenceDef::new("s")
        };
        store.create_sequence(definition.clone()).unwrap();
        let (mut given, mut last, mut restarts) = (HashSet::new(), 0, 0);
        let mut follower = None;
        for round in 0..40 {
            let storage: Arc<dyn Storage> = Arc::new(disk.clone());
            let sequence = store.sequence("s").unwrap();
            assert_eq!(*sequence.definition(), definition);
            match random.below(9) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    follower = None;
                    // With what was not synced, or without a part of it.
                    disk = disk.crash(seed * 100 + round);
                    store = open(&disk);
                    restarts += 1;
                }
                2 => {
                    follower = None;
                    store.close().unwrap();
                    store = open(&disk);
                    restarts += 1;
                }
                3 => {
                    // A copy goes on as if it were the store.
                    let copy: Arc<dyn Storage> = Arc::new(Twin::new(seed));
                    store.backup_on(&copy).unwrap();
                    let copy = Store::open_on(copy, options()).unwrap();
                    let number = copy.sequence("s").unwrap().next_value().unwrap();
                    assert!(!given.contains(&number), "seed {seed}, round {round}");
                }
                4 => follower = Some(Follower::open_on(&storage, options()).unwrap()),
                5 => {
                    store.create_sequence(SequenceDef::new("other")).unwrap();
                    store.sequence("other").unwrap().next_value().unwrap();
                    store.drop_sequence("other").unwrap();
                }
                6 => {
                    let table = store.table("t").unwrap();
                    let mut session = store.session_here().unwrap();
                    let mut row = table.new_row();
                    row.set("id", round as i64).unwrap();
                    session
                        .run(|transaction| transaction.upsert(&table, &row))
                        .unwrap();
                }
                _ => {
                    let count = random.below(90);
                    if random.below(3) == 0 {
                        sequence.reserve(count as u32).unwrap();
                    }
                    for _ in 0..count {
                        let number = sequence.next_value().unwrap();
                        assert!(given.insert(number), "seed {seed}, round {round}: {number} again");
                        assert!(number > last);
                        last = number;
                    }
                }
            }
            if let Some(follower) = &follower {
                // A commit behind them says that those of before a restart are on disk.
                let mut session = store.session_here().unwrap();
                let (transaction, table) = (session.begin().unwrap(), store.table("t").unwrap());
                let mut row = table.new_row();
                row.set("id", -1).unwrap();
                transaction.upsert(&table, &row).unwrap();
                let ts = transaction.commit().unwrap();
                assert!(
                    follower.wait_for(ts, Duration::from_secs(60)).unwrap(),
                    "seed {seed}, round {round}: {ts} {:?}",
                    follower.lag()
                );
            }
        }
        if let Some(follower) = follower {
            let folder = tempfile::tempdir().unwrap();
            follower.backup(folder.path().join("copy")).unwrap();
            let copy = Store::open(folder.path().join("copy"), options()).unwrap();
            let number = copy.sequence("s").unwrap().next_value().unwrap();
            assert!(!given.contains(&number));
        }
        // No more is lost than a block for each restart.
        let most = given.len() as i64 + i64::from(cache) * restarts;
        assert!(last <= most, "seed {seed}: {last} {most}");
    }
}

#[test]
fn a_disk_that_fails_gives_no_number_that_a_crash_takes_back() {
    let mut failures = 0;
    for seed in 0..60 {
        let disk = Twin::new(seed);
        let store = open(&disk);
        let definition = SequenceDef {
            cache: 4,
            ..SequenceDef::new("s")
        };
        let sequence = store.create_sequence(definition).unwrap();
        disk.stop_after(seed % 20);
        let mut given = Vec::new();
        for number in 0..40 {
            if number % 7 == seed % 7 && sequence.reserve(number as u32 % 11).is_err() {
                failures += 1;
            }
            match sequence.next_value() {
                Ok(number) => given.push(number),
                Err(_) => {
                    failures += 1;
                    break;
                }
            }
        }
        drop((store, sequence));
        let store = open(&disk.crash(seed));
        let next = store.sequence("s").unwrap().next_value().unwrap();
        assert!(
            given.iter().all(|&number| number < next),
            "seed {seed}: {next} after {given:?}"
        );
    }
    assert!(failures > 10, "{failures}");
}

#[test]
fn it_is_set_to_any_number_and_goes_on_from_there() {
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = SequenceDef {
        start: 100,
        increment: -7,
        cache: 3,
        ..SequenceDef::new("s")
    };
    let sequence = store.create_sequence(definition.clone()).unwrap();
    assert_eq!(sequence.last(), (100, false));
    assert_eq!(
        (sequence.next_value().unwrap(), sequence.last()),
        (100, (100, true))
    );
    for (value, called, next) in [(5, true, -2), (5, false, 5), (i64::MIN + 7, true, i64::MIN)] {
        sequence.set(value, called).unwrap();
        assert_eq!(sequence.last(), (value, called));
        assert_eq!(
            (sequence.next_value().unwrap(), sequence.last()),
            (next, (next, true))
        );
    }
    assert!(text(sequence.next_value()).contains("end of the 64-bit integers"));
    assert_eq!(sequence.last(), (i64::MIN, true));
    sequence.set(1, true).unwrap();
    assert_eq!(sequence.next_value().unwrap(), -6);
    // What `last` says sets it to where it is.
    let (value, called) = sequence.last();
    sequence.set(value, called).unwrap();
    assert_eq!(sequence.next_value().unwrap(), -13);
    assert_eq!(*sequence.definition(), definition);
    store.drop_sequence("s").unwrap();
    assert!(text(sequence.set(1, true)).contains("was dropped"));
}

#[test]
fn where_it_was_set_to_lasts_through_crashes_checkpoints_backups_and_followers() {
    for seed in 0..25 {
        let mut random = Random::new(seed);
        let mut disk = Twin::new(seed);
        let mut store = open(&disk);
        let cache = 1 + random.below(20) as u32;
        let definition = SequenceDef {
            increment: 3,
            cache,
            ..SequenceDef::new("s")
        };
        store.create_sequence(definition).unwrap();
        // The number that must be next, if none was lost, and how many may have been.
        let (mut next, mut lost) = (1_i64, 0_i64);
        let mut follower = None;
        for round in 0..40 {
            let sequence = store.sequence("s").unwrap();
            match random.below(8) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    follower = None;
                    disk = disk.crash(seed * 100 + round);
                    store = open(&disk);
                    lost = i64::from(cache);
                }
                2 => {
                    let copy: Arc<dyn Storage> = Arc::new(Twin::new(seed));
                    store.backup_on(&copy).unwrap();
                    let copy = Store::open_on(copy, options()).unwrap();
                    let number = copy.sequence("s").unwrap().next_value().unwrap();
                    let most = next + 3 * i64::from(cache);
                    assert!(
                        (next..=most).contains(&number),
                        "seed {seed}, round {round}: {number}"
                    );
                }
                3 => {
                    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
                    follower = Some(Follower::open_on(&storage, options()).unwrap());
                }
                4 => {
                    let value = random.below(1000) as i64 - 500;
                    let called = random.once_in(2);
                    sequence.set(value, called).unwrap();
                    (next, lost) = (value + if called { 3 } else { 0 }, 0);
                }
                _ => {
                    for _ in 0..1 + random.below(30) {
                        let number = sequence.next_value().unwrap();
                        let most = next + 3 * lost;
                        assert!(
                            (next..=most).contains(&number),
                            "seed {seed}, round {round}: {number}"
                        );
                        (next, lost) = (number + 3, 0);
                    }
                }
            }
        }
        if let Some(follower) = follower {
            // A commit behind all says that they are on disk.
            let last = store.flush().unwrap();
            store.create_sequence(SequenceDef::new("other")).unwrap();
            assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
            let folder = tempfile::tempdir().unwrap();
            follower.backup(folder.path().join("copy")).unwrap();
            let copy = Store::open(folder.path().join("copy"), options()).unwrap();
            let number = copy.sequence("s").unwrap().next_value().unwrap();
            let most = next + 3 * i64::from(cache);
            assert!((next..=most).contains(&number), "seed {seed}: {number} {next}");
        }
    }
}
