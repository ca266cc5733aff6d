//! Transactions that read at one moment whatever they write, that ask whether a row is as they have read it, and that do not wait for locks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corun_store::lock::LockError;
use corun_store::park::{self, Park};
use corun_store::{
    Direction, Lock, Options, Result, Rid, Snapshot, Store, StoreError, Table, TableDef, Transaction, Type,
};

use crate::lock::support::Random;
use crate::own_writes::{IDS, Model, check, put};
use crate::refusal_support::{insert, open, row, text};

/// Others change and delete rows again and again, so that the memory of old versions is used again as soon as it is free; the transaction's
/// snapshots show what they showed, whichever of them are still open.
#[test]
fn the_first_moment_stays_while_others_change_rows() {
    for seed in 1..30 {
        let mut random = Random::seeded(seed);
        let (store, table) = open(Options::default());
        let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
        let committed: Model = (0..IDS as i64).map(|id| (id, id)).collect();
        session
            .run(|transaction| {
                committed
                    .iter()
                    .try_for_each(|(id, x)| put(transaction, &table, *id, *x).map(drop))
            })
            .unwrap();
        let transaction = session.begin().unwrap();
        let first = store.snapshot().unwrap();
        check(&first, &table, &committed);
        // The model of the transaction; others change the odd ids.
        let mut own = committed.clone();
        let mut views: Vec<(Snapshot, Model)> = vec![(first, own.clone())];
        for _ in 0..60 {
            let (id, x) = (random.below(IDS / 2) as i64 * 2, random.below(9) as i64);
            match random.below(8) {
                0 => {
                    put(&transaction, &table, id, x).unwrap();
                    own.insert(id, x);
                }
                1 => {
                    transaction.delete_by_key(&table, &[id.into()]).unwrap();
                    own.remove(&id);
                }
                2 => {
                    let (at, _) = &views[random.below(views.len() as u64) as usize];
                    views.push((transaction.snapshot_at(at).unwrap(), own.clone()));
                }
                3 if views.len() > 1 => {
                    views.swap_remove(random.below(views.len() as u64) as usize);
                }
                4 => other
                    .run(|other| other.delete_by_key(&table, &[(id + 1).into()]).map(drop))
                    .unwrap(),
                _ => other
                    .run(|other| put(other, &table, id + 1, x).map(drop))
                    .unwrap(),
            }
            for (view, model) in &views {
                check(view, &table, model);
            }
            assert_eq!(store.stats().snapshots, 1, "they are of one moment");
        }
        // The first that was read, or any: the last of them keeps the moment.
        views.truncate(1);
        let (last, model) = &views[0];
        for round in 0..50 {
            other.run(|other| put(other, &table, 1, round).map(drop)).unwrap();
        }
        check(last, &table, model);
        views.clear();
        assert_eq!(store.stats().snapshots, 0);
        transaction.commit().unwrap();
    }
}

/// Old versions go once the last snapshot of their moment is closed, and not before.
#[test]
fn old_versions_go_with_the_last_snapshot_of_their_moment() {
    let (store, table) = open(Options::default());
    let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
    let rid = session
        .run(|transaction| insert(transaction, &table, 1, 100_000))
        .unwrap();
    let update = |other: &mut corun_store::Session| {
        let change = |row: &mut corun_store::RowBuf| row.set(2, row.row().int(2) + 1);
        other
            .run(|transaction| transaction.update(&table, rid, change))
            .unwrap();
    };
    let transaction = session.begin().unwrap();
    let first = store.snapshot().unwrap();
    let view = transaction.snapshot_at(&first).unwrap();
    drop(first);
    (0..20).for_each(|_| update(&mut other));
    let kept: u64 = store.stats().row_bytes;
    assert!(kept > 20 * 100_000, "{kept}");
    let primary = table.primary();
    let found = view.fetch(&primary, &[1.into()]).unwrap().unwrap();
    assert_eq!(found.row.int(2), 0);
    drop(view);
    update(&mut other);
    let left = store.stats().row_bytes;
    assert!(left + 15 * 100_000 < kept, "{left} of {kept}");
    transaction.commit().unwrap();
}

/// The moment of a snapshot, with a table and an index that the transaction has made since.
#[test]
fn what_the_transaction_defines_is_read_at_an_earlier_moment() {
    let (store, table) = open(Options::default());
    let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
    session
        .run(|transaction| (0..5).try_for_each(|id| insert(transaction, &table, id, 1).map(drop)))
        .unwrap();
    let first = store.durable_snapshot().unwrap();
    let transaction = session.begin().unwrap();
    let made = transaction
        .create_table(TableDef::new("made").column("id", Type::I64).primary_key(&["id"]))
        .unwrap();
    let mut one = made.new_row();
    one.set(0, 7).unwrap();
    transaction.insert(&made, &one).unwrap();
    // Rows of a table nobody has changed since.
    transaction
        .create_index(&table, "by_name", false, &["name"])
        .unwrap();
    let table_within = transaction.table("t").unwrap();
    let view = transaction.snapshot_at(&first).unwrap();
    let rows = |table: &Table| view.rows(table, 0..table.rid_end()).unwrap().count();
    assert_eq!((rows(&made), rows(&table_within)), (1, 5));
    let by_name = table_within.index("by_name").unwrap();
    let found = view.scan(&by_name, &by_name.all(), Direction::Ascending).unwrap();
    assert_eq!(found.count(), 5);
    assert_eq!(first.rows(&made, 0..made.rid_end()).unwrap().count(), 0);
    transaction.commit().unwrap();
    other
        .run(|transaction| insert(transaction, &table, 9, 1).map(drop))
        .unwrap();
}

#[test]
fn a_moment_of_another_store_is_refused() {
    let (store, _) = open(Options::default());
    let (other, _) = open(Options::default());
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    assert_eq!(
        text(transaction.snapshot_at(&other.snapshot().unwrap())),
        "the snapshot belongs to another store"
    );
    transaction.snapshot_at(&store.snapshot().unwrap()).unwrap();
}

/// What a snapshot shows of a row against what the row is, in every way they can differ.
#[test]
fn a_row_is_the_newest_until_anybody_else_changes_it() {
    let (store, table) = open(Options::default());
    let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
    let rids: Vec<Rid> = session
        .run(|transaction| (0..6).map(|id| insert(transaction, &table, id, 1)).collect())
        .unwrap();
    let transaction = session.begin().unwrap();
    let set = |transaction: &Transaction<'_>, rid: Rid, x: i64| {
        transaction.update(&table, rid, |row| row.set(2, x)).unwrap();
    };
    set(&transaction, rids[0], 1);
    transaction.delete(&table, rids[1]).unwrap();
    let added = insert(&transaction, &table, 10, 1).unwrap();
    let plain = store.snapshot().unwrap();
    let view = transaction.snapshot().unwrap();
    let others = other.begin().unwrap();
    set(&others, rids[2], 1);
    others.delete(&table, rids[3]).unwrap();
    let theirs = insert(&others, &table, 11, 1).unwrap();
    // Not committed, and not locked by who asks: it is not what is shown either.
    assert!(!view.is_newest(&table, rids[2]).unwrap());
    others.commit().unwrap();
    for rid in rids.iter().chain([&added, &theirs]) {
        transaction.get(&table, *rid, Lock::Exclusive).unwrap();
    }
    let nobodys = Rid(table.rid_end() + 1000);
    let newest = |view: &Snapshot| {
        let rids = rids.iter().chain([&added, &theirs, &nobodys]);
        rids.map(|rid| view.is_newest(&table, *rid).unwrap())
            .collect::<Vec<_>>()
    };
    // Its own update, deletion and insertion; others'; two rows nobody has changed.
    let before = [true, true, false, false, true, true, true, false, true];
    assert_eq!(newest(&view), before);
    assert_eq!(newest(&transaction.snapshot_at(&plain).unwrap()), before);
    assert_eq!(
        newest(&plain),
        [false, false, false, false, true, true, false, false, true]
    );
    assert_eq!(newest(&transaction.snapshot().unwrap()), [true; 9]);
    // Later changes of its own.
    set(&transaction, rids[0], 2);
    set(&transaction, rids[4], 2);
    transaction.delete(&table, rids[5]).unwrap();
    transaction.delete(&table, added).unwrap();
    assert_eq!(
        newest(&view),
        [false, true, false, false, false, false, false, false, true]
    );
    assert_eq!(newest(&transaction.snapshot().unwrap()), [true; 9]);
    transaction.commit().unwrap();
    assert_eq!(
        text(view.is_newest(&table, rids[0])),
        "the snapshot showed what its transaction had written, which has ended or was rolled back to a savepoint; take another"
    );
}

/// A row that was deleted before the snapshot, and whose number is another row's now.
#[test]
fn a_number_that_is_used_again_is_no_row_that_was_read() {
    let (store, table) = open(Options::default());
    let mut session = store.session_here().unwrap();
    let rid = session
        .run(|transaction| insert(transaction, &table, 1, 1))
        .unwrap();
    session
        .run(|transaction| transaction.delete(&table, rid).map(drop))
        .unwrap();
    let before = store.snapshot().unwrap();
    assert!(before.is_newest(&table, rid).unwrap());
    // As many as it takes until the number comes again.
    let again = (2..500).any(|id| {
        session
            .run(|transaction| insert(transaction, &table, id, 1))
            .unwrap()
            == rid
    });
    assert_eq!(before.is_newest(&table, rid).unwrap(), !again);
    drop(before);
    assert!(store.snapshot().unwrap().is_newest(&table, rid).unwrap());
}

/// Counts how often its client has parked.
struct Counting(Arc<dyn Park>, AtomicU64);

impl Park for Counting {
    fn park(&self, deadline: Option<Instant>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.park(deadline);
    }

    fn unpark(&self) {
        self.0.unpark();
    }
}

/// One that has locked what others want.
fn locked(store: &Store, what: impl FnOnce(&Transaction<'_>)) -> corun_store::Session {
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    what(&transaction);
    // Else it would be refused to wait for a transaction of the same thread.
    transaction.suspend();
    session
}

type Want = Box<dyn Fn(&Transaction<'_>, &Table) -> Result<()>>;

/// First without waiting, then again from a savepoint: what was written before stays, what was shown before is shown again.
#[test]
fn a_transaction_tries_without_waiting_and_then_waits() {
    let wants: [(&str, Want); 4] = [
        (
            "a row",
            Box::new(|transaction, table| {
                let primary = table.primary();
                let found = transaction.fetch_for_update(&primary, &[1.into()])?;
                assert_eq!(found.unwrap().row.int(2), 50);
                Ok(())
            }),
        ),
        (
            "a row that others have read",
            Box::new(|transaction, table| put(transaction, table, 2, 5).map(drop)),
        ),
        (
            "an interval of keys",
            Box::new(|transaction, table| insert(transaction, table, 100, 1).map(drop)),
        ),
        (
            "the table",
            Box::new(|transaction, table| transaction.lock_table(table, Lock::Exclusive)),
        ),
    ];
    for (what, want) in wants {
        let (store, table) = open(Options::default());
        let park = Arc::new(Counting(park::current(), AtomicU64::new(0)));
        let mut session = store.session(0, Arc::clone(&park) as Arc<dyn Park>).unwrap();
        session
            .run(|transaction| (0..5).try_for_each(|id| insert(transaction, &table, id, 1).map(drop)))
            .unwrap();
        let mut other = locked(&store, |other| {
            put(other, &table, 1, 50).unwrap();
            other.fetch(&table.primary(), &[2.into()]).unwrap();
            let primary = table.primary();
            let range = primary.between(
                &[],
                std::ops::Bound::Included(90.into()),
                std::ops::Bound::Included(110.into()),
            );
            let none = other.first(&primary, &range.unwrap(), Direction::Ascending, Lock::Shared);
            assert!(none.unwrap().is_none());
        });
        let mut transaction = session.begin().unwrap();
        let usual = transaction.lock_timeout();
        put(&transaction, &table, 4, 40).unwrap();
        let view = transaction.snapshot().unwrap();
        let before = park.1.load(Ordering::Relaxed);
        for _ in 0..3 {
            transaction.set_lock_timeout(Duration::ZERO);
            let savepoint = transaction.savepoint();
            put(&transaction, &table, 3, 30).unwrap();
            let refused = want(&transaction, &table).unwrap_err();
            assert!(
                matches!(refused, StoreError::Lock(LockError::Timeout { .. })),
                "{what}: {refused}"
            );
            assert!(matches!(transaction.snapshot(), Err(StoreError::Ended)));
            transaction.rollback_to(&savepoint).unwrap();
            transaction.set_lock_timeout(usual);
        }
        assert_eq!(park.1.load(Ordering::Relaxed), before, "{what}");
        // The statement's snapshot is good still: what was undone it has never shown.
        let primary = table.primary();
        let x = |view: &Snapshot, id: i64| view.fetch(&primary, &[id.into()]).unwrap().unwrap().row.int(2);
        assert_eq!((x(&view, 1), x(&view, 3), x(&view, 4)), (0, 0, 40), "{what}");
        other.resume_here().unwrap().commit().unwrap();
        transaction.set_lock_timeout(Duration::from_secs(60));
        want(&transaction, &table).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(x(&view, 4), 40);
        transaction.commit().unwrap();
        let now = store.snapshot().unwrap();
        let xs: BTreeMap<i64, i64> = [1, 3, 4].into_iter().map(|id| (id, x(&now, id))).collect();
        assert_eq!(xs, BTreeMap::from([(1, 50), (3, 0), (4, 40)]), "{what}");
    }
}

/// The time is the session's, so that the next transaction has it, too.
#[test]
fn a_lock_timeout_outlasts_the_transaction() {
    let (store, table) = open(Options::default());
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| transaction.insert(&table, &row(&table, 1, 1)).map(drop))
        .unwrap();
    let _other = locked(&store, |other| assert!(put(other, &table, 1, 5).is_ok()));
    session
        .begin()
        .unwrap()
        .set_lock_timeout(Duration::from_millis(1));
    let transaction = session.begin().unwrap();
    assert_eq!(transaction.lock_timeout(), Duration::from_millis(1));
    assert!(matches!(
        put(&transaction, &table, 1, 6),
        Err(StoreError::Lock(LockError::Timeout { .. }))
    ));
}
