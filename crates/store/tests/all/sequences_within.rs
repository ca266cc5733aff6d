//! Sequences that transactions make and drop: with the rest of the transaction or not at all, whatever happens to the store, and no number twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{Follower, Options, SequenceDef, Session, Store, StoreError, TableDef, Transaction, Type};

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

fn names(store: &Store) -> Vec<String> {
    let sequences = store.sequences();
    sequences.iter().map(|one| one.name().to_owned()).collect()
}

#[test]
fn others_see_them_come_and_go_with_the_transaction() {
    let store = Store::in_memory(Options::default()).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let made = transaction.create_sequence(SequenceDef::new("s")).unwrap();
    assert_eq!((made.next_value().unwrap(), made.next_value().unwrap()), (1, 2));
    assert_eq!(transaction.sequence("s").unwrap().next_value().unwrap(), 3);
    assert!(matches!(
        transaction.create_sequence(SequenceDef::new("s")),
        Err(StoreError::Exists { .. })
    ));
    assert_eq!((names(&store).len(), transaction.sequences().len()), (0, 1));
    transaction.commit().unwrap();
    let seen = store.sequence("s").unwrap();
    assert_eq!((seen.next_value().unwrap(), made.next_value().unwrap()), (4, 5));

    // One that is dropped is the others' until the commit.
    let transaction = session.begin().unwrap();
    transaction.drop_sequence("s").unwrap();
    assert!(matches!(
        transaction.sequence("s"),
        Err(StoreError::NoSequence { .. })
    ));
    assert!(matches!(
        transaction.drop_sequence("s"),
        Err(StoreError::NoSequence { .. })
    ));
    assert_eq!(store.sequence("s").unwrap().next_value().unwrap(), 6);
    let again = transaction.create_sequence(SequenceDef {
        start: 100,
        ..SequenceDef::new("s")
    });
    let again = again.unwrap();
    assert_eq!(
        (again.next_value().unwrap(), seen.next_value().unwrap()),
        (100, 7)
    );
    transaction.abort();
    assert!(text(again.next_value()).contains("was dropped"));
    assert!(text(again.set(1, false)).contains("was dropped"));
    assert_eq!(store.sequence("s").unwrap().next_value().unwrap(), 8);
    let transaction = session.begin().unwrap();
    transaction.drop_sequence("s").unwrap();
    transaction.commit().unwrap();
    assert!(text(seen.next_value()).contains("was dropped"));
    assert!(names(&store).is_empty());
}

#[test]
fn savepoints_take_them_back() {
    let store = Store::in_memory(Options::default()).unwrap();
    store.create_sequence(SequenceDef::new("old")).unwrap();
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    let first = transaction.create_sequence(SequenceDef::new("first")).unwrap();
    let savepoint = transaction.savepoint();
    let second = transaction.create_sequence(SequenceDef::new("second")).unwrap();
    transaction.drop_sequence("old").unwrap();
    transaction.drop_sequence("first").unwrap();
    transaction.create_sequence(SequenceDef::new("first")).unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    assert!(text(second.next_value()).contains("was dropped"));
    assert_eq!(first.next_value().unwrap(), 1);
    let seen = transaction.sequences();
    let seen: Vec<&str> = seen.iter().map(|one| one.name()).collect();
    assert_eq!(seen, ["first", "old"]);
    transaction.commit().unwrap();
    assert_eq!(names(&store), ["first", "old"]);
    assert_eq!(store.sequence("first").unwrap().next_value().unwrap(), 2);
}

#[test]
fn one_may_be_set_and_dropped_before_anybody_sees_it() {
    let disk = Twin::new(3);
    let store = open(&disk);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    transaction.create_schema("sales").unwrap();
    let set = transaction
        .create_sequence(SequenceDef::new("set").in_schema("sales"))
        .unwrap();
    assert_eq!(set.next_value().unwrap(), 1);
    set.set(500, true).unwrap();
    let shortly = transaction.create_sequence(SequenceDef::new("shortly")).unwrap();
    shortly.next_value().unwrap();
    transaction.drop_sequence("shortly").unwrap();
    assert!(text(transaction.drop_schema("sales")).contains("sequence sales.set"));
    assert!(matches!(
        transaction.create_sequence(SequenceDef::new("s").in_schema("none")),
        Err(StoreError::NoSchema { .. })
    ));
    transaction.commit().unwrap();
    assert!(text(shortly.next_value()).contains("was dropped"));
    assert_eq!(set.next_value().unwrap(), 501);
    drop((session, shortly, set, store));
    let store = open(&disk.crash(1));
    assert_eq!(names(&store), ["set"]);
    let next = store.sequence_in("sales", "set").unwrap().next_value().unwrap();
    assert!((502..=533).contains(&next), "{next}");
}

#[test]
fn two_that_make_one_of_a_name_wait_for_each_other() {
    let store = Store::in_memory(Options::default()).unwrap();
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    let first = one.begin().unwrap();
    first.create_sequence(SequenceDef::new("s")).unwrap();
    // A table of the name is something else.
    let table = TableDef::new("s").column("id", Type::I64).primary_key(&["id"]);
    two.run(|two| two.create_table(table.clone()).map(drop)).unwrap();
    two.set_lock_timeout(Duration::ZERO);
    let mut second = two.begin().unwrap();
    let savepoint = second.savepoint();
    assert!(
        second
            .create_sequence(SequenceDef::new("s"))
            .unwrap_err()
            .is_retryable()
    );
    second.rollback_to(&savepoint).unwrap();
    second.create_sequence(SequenceDef::new("other")).unwrap();
    first.commit().unwrap();
    assert!(matches!(
        second.create_sequence(SequenceDef::new("s")),
        Err(StoreError::Exists { .. })
    ));
    second.drop_sequence("s").unwrap();
    second.commit().unwrap();
    assert_eq!(names(&store), ["other"]);
}

/// Another thread takes numbers while transactions drop the sequence, or do not; the log can be read whatever the order was.
#[test]
fn numbers_that_are_taken_meanwhile_lie_before_the_end_in_the_log() {
    for seed in 0..15 {
        let disk = Twin::new(seed);
        let store = open(&disk);
        let mut random = Random::new(seed);
        let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
        for round in 0..6 {
            let definition = SequenceDef {
                cache: 1,
                ..SequenceDef::new("s")
            };
            let transaction = session.begin().unwrap();
            let made = transaction.create_sequence(definition).unwrap();
            let begun = AtomicBool::new(false);
            let commits = random.below(4) > 0;
            let taken = std::thread::scope(|scope| {
                let (begun, made) = (&begun, &made);
                // From before it is committed to after its end.
                let taker = scope.spawn(move || {
                    let mut taken = Vec::new();
                    while let Ok(number) = made.next_value() {
                        taken.push(number);
                        begun.store(true, Ordering::Release);
                    }
                    taken
                });
                while !begun.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                if commits {
                    transaction.commit().unwrap();
                    store.sequence("s").unwrap().next_value().unwrap();
                    other.run(|other| other.drop_sequence("s")).unwrap();
                } else {
                    transaction.abort();
                }
                taker.join().unwrap()
            });
            assert!(
                taken.windows(2).all(|pair| pair[0] < pair[1]),
                "seed {seed}, round {round}"
            );
        }
        drop((session, other, store));
        assert!(names(&open(&disk.crash(seed))).is_empty());
    }
}

/// What there must be: of each sequence the number that must be next, and how many may have been lost.
type Model = BTreeMap<String, (i64, i64)>;

const CACHE: i64 = 5;

/// Takes numbers.
fn take(of: &corun_store::Sequence, known: &mut (i64, i64), count: usize) {
    for _ in 0..count {
        let number = of.next_value().unwrap();
        assert!(
            (known.0..=known.0 + known.1).contains(&number),
            "{}: {number} {known:?}",
            of.name()
        );
        *known = (number + 1, 0);
    }
}

/// A transaction of random steps.
fn steps(transaction: &Transaction<'_>, model: &mut Model, table: &corun_store::Table, random: &mut Random) {
    for _ in 0..random.below(8) {
        let name = format!("s{}", random.below(3));
        match (random.below(5), model.contains_key(&name)) {
            (0, false) => {
                let definition = SequenceDef {
                    cache: CACHE as u32,
                    ..SequenceDef::new(&name)
                };
                transaction.create_sequence(definition).unwrap();
                model.insert(name, (1, 0));
            }
            (0, true) => {
                transaction.drop_sequence(&name).unwrap();
                model.remove(&name);
            }
            (1, _) => {
                let mut row = table.new_row();
                row.set("id", random.below(20) as i64).unwrap();
                transaction.upsert(table, &row).unwrap();
            }
            (2, true) => {
                let value = random.below(1000) as i64;
                transaction.sequence(&name).unwrap().set(value, true).unwrap();
                model.insert(name, (value + 1, 0));
            }
            (_, true) => {
                let sequence = transaction.sequence(&name).unwrap();
                let known = model.get_mut(&name).unwrap();
                take(&sequence, known, random.below(12) as usize);
            }
            _ => assert!(transaction.sequence(&name).is_err()),
        }
    }
}

fn run(session: &mut Session, store: &Store, model: &mut Model, random: &mut Random) {
    let table = store.table("t").unwrap();
    let mut then = model.clone();
    let transaction = session.begin().unwrap();
    steps(&transaction, &mut then, &table, random);
    if random.below(3) > 0 {
        transaction.commit().unwrap();
        *model = then;
    } else {
        transaction.abort();
        // What was taken of those there were is taken, and what was set is set: the model asks the store once.
        for (name, known) in model.iter_mut() {
            let (last, called) = store.sequence(name).unwrap().last();
            *known = (last + i64::from(called), 0);
        }
    }
}

#[test]
fn they_come_and_go_through_crashes_checkpoints_backups_and_followers() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let mut disk = Twin::new(seed);
        let mut store = open(&disk);
        let table = TableDef::new("t").column("id", Type::I64).primary_key(&["id"]);
        store.create_table(table).unwrap();
        let mut model = Model::new();
        let mut follower: Option<Follower> = None;
        let mut copy_of: Option<Store> = None;
        for round in 0..40 {
            match random.below(8) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    follower = None;
                    disk = disk.crash(seed * 100 + round);
                    store = open(&disk);
                    model.values_mut().for_each(|known| known.1 = CACHE);
                }
                2 => {
                    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
                    follower = Some(Follower::open_on(&storage, options()).unwrap());
                }
                3 => {
                    let copy: Arc<dyn Storage> = Arc::new(Twin::new(seed));
                    store.backup_on(&copy).unwrap();
                    copy_of = Some(Store::open_on(copy, options()).unwrap());
                }
                _ => {
                    let mut session = store.session_here().unwrap();
                    run(&mut session, &store, &mut model, &mut random);
                }
            }
            let expected: Vec<&String> = model.keys().collect();
            assert_eq!(
                names(&store).iter().collect::<Vec<_>>(),
                expected,
                "seed {seed}, round {round}"
            );
            if let Some(copy) = copy_of.take() {
                assert_eq!(names(&copy), names(&store));
                for (name, known) in &model {
                    let mut known = (known.0, known.1 + CACHE);
                    take(&copy.sequence(name).unwrap(), &mut known, 3);
                }
            }
        }
        if let Some(follower) = follower {
            let last = store.flush().unwrap();
            // A commit behind all says that they are on disk.
            store.create_sequence(SequenceDef::new("behind")).unwrap();
            assert!(
                follower.wait_for(last, Duration::from_secs(60)).unwrap(),
                "seed {seed}: {:?}",
                follower.lag()
            );
            let folder = tempfile::tempdir().unwrap();
            follower.backup(folder.path().join("copy")).unwrap();
            let copy = Store::open(folder.path().join("copy"), options()).unwrap();
            let mut there = names(&copy);
            there.retain(|name| name != "behind");
            assert!(there.iter().eq(model.keys()), "seed {seed}: {there:?}");
            for (name, known) in &model {
                let mut known = (known.0, known.1 + CACHE);
                take(&copy.sequence(name).unwrap(), &mut known, 3);
            }
        }
    }
}
