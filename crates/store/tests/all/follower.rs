//! Followers: each shows a beginning of the store's commits, whole, whatever the store does: checkpoints, definitions, restarts, crashes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    Durability, Follower, Options, Session, Snapshot, Store, StoreError, Table, TableDef, Ts, Type, Value,
};

use crate::crash_twin::random::Random;

/// How long a follower may take before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(120);

fn options() -> Options {
    Options {
        workers: 3,
        flush_every: Duration::from_millis(1),
        checkpoint_log_bytes: 0,
        ..Options::default()
    }
}

fn open(disk: &Twin) -> Store {
    Store::open_on(Arc::new(disk.clone()), options()).unwrap_or_else(|error| panic!("{error}"))
}

fn follow(disk: &Twin) -> Follower {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    Follower::open_on(&storage, options()).unwrap_or_else(|error| panic!("{error}"))
}

fn definition() -> TableDef {
    TableDef::new("t")
        .column("id", Type::I64)
        .column("value", Type::I64)
        .nullable("text", Type::Text { max: 300 })
        .primary_key(&["id"])
        .unique("by_value", &["value"])
}

type Rows = BTreeMap<i64, (i64, Option<String>)>;

fn rows(snapshot: &Snapshot, table: &Table) -> Rows {
    let found = snapshot.rows(table, 0..table.rid_end()).unwrap();
    let rows: Rows = found
        .map(|found| {
            let row = found.row;
            let text = row.get::<Option<String>>("text").unwrap();
            (row.get("id").unwrap(), (row.get("value").unwrap(), text))
        })
        .collect();
    // The indexes say the same.
    let by_value = table.index("by_value").unwrap();
    let range = by_value.prefix(&[]).unwrap();
    let scan = snapshot
        .scan(&by_value, &range, corun_store::Direction::Ascending)
        .unwrap();
    let values: Vec<i64> = scan.map(|found| found.row.get("value").unwrap()).collect();
    assert!(values.is_sorted() && values.len() == rows.len());
    let by_id = table.primary();
    for (id, (value, _)) in rows.iter().take(20) {
        let found = snapshot.fetch(&by_id, &[(*id).into()]).unwrap().unwrap();
        assert_eq!(found.row.get::<i64>("value").unwrap(), *value);
    }
    rows
}

/// A transaction of some changes, which keeps values unique; two rows change values with each other now and then.
fn change(session: &mut Session, table: &Table, model: &mut Rows, random: &mut Random, next: &mut i64) -> Ts {
    let transaction = session.begin().unwrap();
    for _ in 0..1 + random.below(5) {
        let id = random.below(200) as i64;
        *next += 1;
        let text =
            (random.below(3) > 0).then(|| format!("text {next} {}", "x".repeat(random.below(200) as usize)));
        match (random.below(4), model.contains_key(&id)) {
            (0, true) => {
                assert!(transaction.delete_by_key(table, &[id.into()]).unwrap());
                model.remove(&id);
            }
            (1, true) => {
                let Some(other) = model.keys().copied().find(|other| *other != id) else {
                    continue;
                };
                let (a, b) = (model[&id].0, model[&other].0);
                for (id, value) in [(id, -*next), (other, a), (id, b)] {
                    let changed =
                        transaction.update_by_key(table, &[id.into()], |row| row.set("value", value));
                    assert!(changed.unwrap());
                    model.get_mut(&id).unwrap().0 = value;
                }
            }
            _ => {
                let mut row = table.new_row();
                row.set("id", id).unwrap();
                row.set("value", *next).unwrap();
                row.set("text", text.as_deref().map_or(Value::Null, Value::Text))
                    .unwrap();
                transaction.upsert(table, &row).unwrap();
                model.insert(id, (*next, text));
            }
        }
    }
    transaction.commit_with(Durability::Durable).unwrap()
}

#[test]
fn a_follower_has_what_the_store_had_at_each_commit() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let disk = Twin::new(seed);
        let mut store = open(&disk);
        store.create_table(definition()).unwrap();
        let (mut model, mut next) = (Rows::new(), 0);
        let mut follower = follow(&disk);
        for round in 0..30 {
            match random.below(8) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    store.close().unwrap();
                    store = open(&disk);
                }
                2 => follower = follow(&disk),
                3 if round % 2 == 0 => {
                    let table = store.table("t").unwrap();
                    store
                        .create_index(&table, &format!("i{round}"), false, &["text", "id"])
                        .unwrap();
                }
                _ => {}
            }
            let table = store.table("t").unwrap();
            let mut session = store.session_here().unwrap();
            let mut newest = Ts::ZERO;
            for _ in 0..1 + random.below(30) {
                newest = change(&mut session, &table, &mut model, &mut random, &mut next);
            }
            assert!(
                follower.wait_for(newest, PATIENCE).unwrap(),
                "seed {seed}, round {round}: {:?}",
                follower.lag()
            );
            let lag = follower.lag().unwrap();
            assert!(lag.durable >= lag.applied && lag.applied >= newest, "{lag:?}");
            let snapshot = follower.snapshot().unwrap();
            let table = follower.table("t").unwrap();
            assert!(rows(&snapshot, &table) == model, "seed {seed}, round {round}");
            assert_eq!(table.rows(), model.len() as u64);
        }
        // A copy of the follower is one of the store.
        let folder = tempfile::tempdir().unwrap();
        follower.backup(folder.path().join("copy")).unwrap();
        let copy = Store::open(folder.path().join("copy"), Options::default()).unwrap();
        assert!(rows(&copy.snapshot().unwrap(), &copy.table("t").unwrap()) == model);
    }
}

#[test]
fn snapshots_of_a_follower_stay_as_they_are_while_it_goes_on() {
    let disk = Twin::new(1);
    let store = open(&disk);
    let table = store.create_table(definition()).unwrap();
    let (mut model, mut next, mut random) = (Rows::new(), 0, Random::new(7));
    let mut session = store.session_here().unwrap();
    let follower = follow(&disk);
    let mut kept = Vec::new();
    for _ in 0..40 {
        let newest = change(&mut session, &table, &mut model, &mut random, &mut next);
        assert!(follower.wait_for(newest, PATIENCE).unwrap());
        kept.push((follower.snapshot().unwrap(), model.clone()));
    }
    let table = follower.table("t").unwrap();
    for (snapshot, model) in &kept {
        assert!(rows(snapshot, &table) == *model);
    }
}

#[test]
fn what_a_crash_takes_from_the_store_a_follower_never_had() {
    let mut cut = 0;
    for seed in 0..60 {
        let disk = Twin::new(seed);
        let store = open(&disk);
        let table = store.create_table(definition()).unwrap();
        let (mut model, mut next, mut random) = (Rows::new(), 0, Random::new(seed));
        let mut session = store.session_here().unwrap();
        let follower = follow(&disk);
        for _ in 0..5 {
            change(&mut session, &table, &mut model, &mut random, &mut next);
        }
        let insert = |session: &mut Session, table: &Table, id: i64| {
            let transaction = session.begin().unwrap();
            let mut row = table.new_row();
            row.set("id", id).unwrap();
            row.set("value", -id).unwrap();
            row.set("text", "lost, perhaps").unwrap();
            transaction.insert(table, &row).unwrap();
            transaction.commit_with(Durability::Asynchronous)
        };
        disk.stop_after(random.below(6));
        for id in 1000..1000 + random.below(40) as i64 {
            if insert(&mut session, &table, id).is_err() {
                break;
            }
        }
        let said = store.stats().last;
        std::thread::sleep(Duration::from_millis(random.below(12)));
        // The same disk goes on, with what a crash leaves of it.
        let shown = follower.lag().map_or(Ts::ZERO, |lag| lag.applied);
        let after = disk.crash(seed);
        let store = open(&after);
        assert!(
            store.stats().last >= shown,
            "seed {seed}: {shown} was shown, {} is left",
            store.stats().last
        );
        cut += u64::from(store.stats().last < said);
    }
    assert!(cut > 5, "{cut}");
}

#[test]
fn a_follower_on_a_folder_that_is_written_all_the_time_shows_whole_commits() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("store");
    let store = Store::open(
        &place,
        Options {
            checkpoint_log_bytes: 256 << 10,
            ..options()
        },
    )
    .unwrap();
    let table = store
        .create_table(
            TableDef::new("account")
                .column("id", Type::I64)
                .column("balance", Type::I64)
                .primary_key(&["id"]),
        )
        .unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            for id in 0..100_i64 {
                let mut row = table.new_row();
                row.set("id", id)?;
                row.set("balance", 100)?;
                transaction.insert(&table, &row)?;
            }
            Ok(())
        })
        .unwrap();
    let loaded = store.stats().durable;
    let stop = AtomicBool::new(false);
    /// Ends the others when this thread ends, by a panic too.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        for worker in 0..2 {
            let (store, table, stop) = (&store, &table, &stop);
            scope.spawn(move || {
                let mut session = store.session(worker, corun_store::park::current()).unwrap();
                session.set_durability(Durability::Asynchronous);
                let mut at = worker as i64;
                while !stop.load(Ordering::Relaxed) {
                    at = (at * 31 + 7) % 99;
                    let moved = session.run(|transaction| {
                        for (id, change) in [(at, -1), (at + 1, 1)] {
                            let changed = transaction.update_by_key(table, &[id.into()], |row| {
                                let balance = row.row().int("balance");
                                row.set("balance", balance + change)
                            });
                            assert!(changed?);
                        }
                        Ok(())
                    });
                    moved.unwrap();
                }
            });
        }
        for _ in 0..8 {
            let mut follower = Follower::open(&place, options()).unwrap();
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(10));
                let (Ok(lag), Ok(snapshot)) = (follower.lag(), follower.snapshot()) else {
                    // A checkpoint was faster than this machine's reader.
                    let told = follower.snapshot().unwrap_err().to_string();
                    assert!(told.contains("open it again"), "{told}");
                    follower = Follower::open(&place, options()).unwrap();
                    continue;
                };
                if lag.applied < loaded {
                    // The log does not say yet that the accounts are on disk.
                    continue;
                }
                let table = follower.table("account").unwrap();
                let balances = snapshot.rows(&table, 0..table.rid_end()).unwrap();
                let balances: Vec<i64> = balances.map(|found| found.row.int("balance")).collect();
                assert_eq!((balances.len(), balances.iter().sum::<i64>()), (100, 10_000));
            }
        }
    });
    let last = store.flush().unwrap();
    // The last checkpoints may be faster than a follower, too; then it says so, and does not wait for log that is gone.
    let mut tries = 0;
    let follower = loop {
        let follower = Follower::open(&place, options()).unwrap();
        match follower.wait_for(last, PATIENCE) {
            Ok(has_it) => {
                assert!(has_it, "{:?}", follower.lag());
                break follower;
            }
            Err(error) => assert!(error.to_string().contains("open it again"), "{error}"),
        }
        tries += 1;
        assert!(tries < 10, "nothing is committed any more");
    };
    assert!(!follower.wait_for(last.next(), Duration::from_millis(30)).unwrap());
    let none = Follower::open(folder.path().join("nowhere"), options())
        .err()
        .unwrap();
    assert!(matches!(none, StoreError::NoStore { .. }), "{none}");
}
