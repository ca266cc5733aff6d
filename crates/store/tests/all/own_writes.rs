//! Snapshots of a transaction: what was committed when they were taken, and what the transaction had written by then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lock::support::Random;
use crate::refusal_support::{definition, ids, insert, open, row, text};
use corun_store::storage::Twin;
use corun_store::{
    Direction, Durability, Options, Result, Rid, Savepoint, Snapshot, Store, StoreError, Table, Transaction,
};

pub const IDS: u64 = 12;

/// id to x.
pub type Model = BTreeMap<i64, i64>;

pub fn check(view: &Snapshot, table: &Table, model: &Model) {
    let primary = table.primary();
    let by_x = table.index("by_x").unwrap();
    let pair = |found: corun_store::Found<'_>| (found.row.int(0), found.row.int(2));
    let scanned: Vec<_> = view
        .scan(&primary, &primary.all(), Direction::Ascending)
        .unwrap()
        .map(pair)
        .collect();
    assert!(
        scanned
            .iter()
            .eq(model.iter().map(|(id, x)| (*id, *x)).collect::<Vec<_>>().iter()),
        "{scanned:?} {model:?}"
    );
    let mut by_number: Vec<_> = view.rows(table, 0..table.rid_end()).unwrap().map(pair).collect();
    by_number.sort_unstable();
    assert_eq!(by_number, scanned);
    let back: Vec<_> = view
        .scan(&by_x, &by_x.all(), Direction::Descending)
        .unwrap()
        .map(|found| found.row.int(2))
        .collect();
    let mut xs: Vec<_> = model.values().copied().collect();
    xs.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(back, xs);
    for id in 0..IDS as i64 {
        let found = view.fetch(&primary, &[id.into()]).unwrap().map(pair);
        assert_eq!(found, model.get(&id).map(|x| (id, *x)));
    }
}

pub fn put(transaction: &Transaction<'_>, table: &Table, id: i64, x: i64) -> Result<Rid> {
    let mut row = row(table, id, 1);
    row.set(2, x)?;
    transaction.upsert(table, &row)
}

/// One transaction of random steps; another session changes rows of its own meanwhile. How often a snapshot went on when later changes were
/// undone.
fn transaction(store: &Store, table: &Table, committed: &mut Model, random: &mut Random) -> usize {
    let mut kept = 0;
    let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
    let mut transaction = session.begin().unwrap();
    // What it wrote; none: deleted.
    let mut own: BTreeMap<i64, Option<i64>> = BTreeMap::new();
    let merge = |committed: &Model, own: &BTreeMap<i64, Option<i64>>| {
        let mut model = committed.clone();
        for (id, x) in own {
            match x {
                Some(x) => model.insert(*id, *x),
                None => model.remove(id),
            };
        }
        model
    };
    // With the changes before it, as of views.
    let mut savepoint: Option<(Savepoint, BTreeMap<i64, Option<i64>>, usize)> = None;
    let mut views: Vec<(Snapshot, Model, usize)> = Vec::new();
    let mut changes = 0;
    for _ in 0..40 {
        // Even ids are the transaction's.
        let (id, x) = (random.below(IDS / 2) as i64 * 2, random.below(5) as i64);
        match random.below(8) {
            0..=2 => {
                put(&transaction, table, id, x).unwrap();
                own.insert(id, Some(x));
                changes += 1;
            }
            3 => {
                if transaction.delete_by_key(table, &[id.into()]).unwrap() {
                    own.insert(id, None);
                    changes += 1;
                }
            }
            4 => {
                let theirs = other.begin().unwrap();
                put(&theirs, table, id + 1, x).unwrap();
                if random.below(3) > 0 {
                    theirs.commit().unwrap();
                    committed.insert(id + 1, x);
                }
            }
            5 => views.push((transaction.snapshot().unwrap(), merge(committed, &own), changes)),
            6 => savepoint = Some((transaction.savepoint(), own.clone(), changes)),
            _ => {
                if let Some((savepoint, before, since)) = savepoint.take() {
                    transaction.rollback_to(&savepoint).unwrap();
                    own = before;
                    if views.iter().all(|(.., shown)| *shown <= since) {
                        // None of them has shown what was undone: they go on.
                        kept += usize::from(changes > since) * views.len();
                    } else {
                        for (view, ..) in views.drain(..) {
                            assert!(matches!(
                                view.rows(table, 0..1).err(),
                                Some(StoreError::SnapshotEnded)
                            ));
                        }
                    }
                }
            }
        }
        for (view, model, _) in &views {
            check(view, table, model);
        }
    }
    check(&store.snapshot().unwrap(), table, committed);
    if random.below(3) > 0 {
        transaction.commit().unwrap();
        *committed = merge(committed, &own);
    } else {
        transaction.abort();
    }
    let primary = table.primary();
    for (view, ..) in &views {
        let said = "the snapshot showed what its transaction had written, which has ended or was rolled back to a savepoint; take another";
        assert_eq!(text(view.fetch(&primary, &[0.into()]).map(drop)), said);
        assert_eq!(
            text(
                view.scan(&primary, &primary.all(), Direction::Ascending)
                    .map(drop)
            ),
            said
        );
    }
    check(&store.snapshot().unwrap(), table, committed);
    kept
}

#[test]
fn a_transaction_sees_what_it_has_written_and_what_was_committed() {
    let mut kept = 0;
    for seed in 1..20 {
        let mut random = Random::seeded(seed);
        let (store, table) = open(Options::default());
        let mut committed = Model::new();
        for _ in 0..12 {
            kept += transaction(&store, &table, &mut committed, &mut random);
        }
    }
    assert!(kept > 0, "no snapshot went on behind a savepoint");
}

#[test]
fn what_another_has_not_committed_is_not_seen_whatever_its_number() {
    let (store, table) = open(Options::default());
    let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
    session
        .run(|transaction| insert(transaction, &table, 1, 1))
        .unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 2, 1).unwrap();
    // The other's first change; the transaction's was its session's second.
    let theirs = other.begin().unwrap();
    put(&theirs, &table, 1, 9).unwrap();
    insert(&theirs, &table, 3, 1).unwrap();
    let expected = Model::from([(1, 0), (2, 0)]);
    let view = transaction.snapshot().unwrap();
    check(&view, &table, &expected);
    theirs.commit().unwrap();
    check(&view, &table, &expected);
}

#[test]
fn a_statement_does_not_see_the_rows_it_adds() {
    let (store, table) = open(Options::default());
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for id in 0..10 {
        insert(&transaction, &table, id, 1).unwrap();
    }
    let view = transaction.snapshot().unwrap();
    let primary = table.primary();
    for found in view.scan(&primary, &primary.all(), Direction::Ascending).unwrap() {
        insert(&transaction, &table, found.row.int(0) + 10, 1).unwrap();
    }
    // A scan that has begun may be read to its end, whatever becomes of the transaction.
    let mut scan = view.scan(&primary, &primary.all(), Direction::Ascending).unwrap();
    let first = scan.next().unwrap();
    transaction.commit().unwrap();
    assert_eq!(first.row.int(0), 0);
    assert_eq!(
        scan.count(),
        0,
        "nothing of it was committed when the snapshot was taken"
    );
    assert_eq!(ids(&store, &table), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_durable_transaction_waits_for_what_its_snapshots_showed() {
    let options = Options {
        flush_every: Duration::from_secs(600),
        ..Options::default()
    };
    let store = Store::open_on(Arc::new(Twin::new(1)), options).unwrap();
    let table = store.create_table(definition("t")).unwrap();
    let (mut writer, mut reader) = (store.session_here().unwrap(), store.session_here().unwrap());
    let transaction = writer.begin().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    let written = transaction.commit_with(Durability::Asynchronous).unwrap();
    let transaction = reader.begin().unwrap();
    assert_eq!(
        transaction
            .snapshot()
            .unwrap()
            .rows(&table, 0..table.rid_end())
            .unwrap()
            .count(),
        1
    );
    transaction.commit().unwrap();
    assert!(store.stats().durable >= written);
}

/// Others write a negative x first, and none that they commit. A snapshot is read by another thread while its transaction ends.
#[test]
fn nothing_of_others_is_seen_before_it_is_committed() {
    let (store, table) = open(Options {
        lock_timeout: Duration::from_secs(60),
        ..Options::default()
    });
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| (0..IDS as i64).try_for_each(|id| insert(transaction, &table, id, 1).map(drop)))
        .unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, table, ended) = (&store, &table, &ended);
        let writer = move |seed: u64| {
            let mut random = Random::seeded(seed);
            while !ended.load(Ordering::Relaxed) {
                // Its changes are numbered from the beginning, lower than those that the snapshots know as their own.
                let mut session = store.session_here().unwrap();
                let transaction = session.begin().unwrap();
                let id = random.below(IDS) as i64;
                put(&transaction, table, id, -1).unwrap();
                put(&transaction, table, id, 1 + random.below(9) as i64).unwrap();
                if random.below(2) == 0 {
                    transaction.commit().unwrap();
                }
            }
        };
        (1..3).for_each(|seed| drop(scope.spawn(move || writer(seed))));
        let (send, views) = std::sync::mpsc::sync_channel::<Snapshot>(1);
        scope.spawn(move || {
            for view in views {
                for _ in 0..3 {
                    let Ok(rows) = view.rows(table, 0..table.rid_end()) else {
                        break;
                    };
                    rows.for_each(|found| assert!(found.row.int(2) >= 0, "{found:?}"));
                }
            }
        });
        let mut random = Random::seeded(99);
        for _ in 0..400 {
            let mut transaction = session.begin().unwrap();
            let savepoint = transaction.savepoint();
            put(&transaction, table, random.below(IDS) as i64, 5).unwrap();
            send.send(transaction.snapshot().unwrap()).unwrap();
            // A row that another may have had just now, while the snapshot is read.
            put(&transaction, table, random.below(IDS) as i64, 6).unwrap();
            match random.below(3) {
                0 => drop(transaction.commit().unwrap()),
                1 => transaction.rollback_to(&savepoint).unwrap(),
                _ => transaction.abort(),
            }
        }
        ended.store(true, Ordering::Relaxed);
        drop(send);
    });
}
