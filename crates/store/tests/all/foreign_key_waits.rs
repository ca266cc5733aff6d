//! Foreign keys: who waits for whom, and for what not.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use corun_store::ReferentialAction::NoAction;
use corun_store::{Lock, Options, Rid, Store, StoreError, Transaction};

use crate::foreign_keys::{Shop, both, by_id, customer, orders, put};
use crate::refusal_support::text;

fn until_somebody_waits(store: &Store) {
    let patience = Instant::now() + Duration::from_secs(20);
    while store.stats().locks.waiting == 0 {
        assert!(Instant::now() < patience, "nobody waits");
        std::thread::yield_now();
    }
}

#[test]
fn who_refers_and_who_deletes_wait_for_each_other() {
    for definition in both(&by_id(NoAction, NoAction)) {
        let shop = Shop::new(definition);
        shop.run(|transaction| put(transaction, &shop.customers, &[7.into()]))
            .unwrap();
        // The order is not committed: the customer cannot go before it is.
        let mut session = shop.store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        put(&transaction, &shop.orders, &[70.into(), 7.into()]).unwrap();
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            let shop = &shop;
            scope.spawn(move || send.send(shop.delete(7)).unwrap());
            until_somebody_waits(&shop.store);
            assert!(receive.try_recv().is_err());
            transaction.commit().unwrap();
            assert!(text(receive.recv().unwrap()).contains("still referenced"));
        });
        // The customer goes: an order waits until that is sure.
        for commits in [false, true] {
            shop.run(|transaction| transaction.delete_by_key(&shop.orders, &[70.into()]))
                .unwrap();
            let transaction = session.begin().unwrap();
            transaction.delete_by_key(&shop.customers, &[7.into()]).unwrap();
            let (send, receive) = channel();
            std::thread::scope(|scope| {
                let shop = &shop;
                scope.spawn(move || {
                    let put = shop.run(|transaction| put(transaction, &shop.orders, &[70.into(), 7.into()]));
                    send.send(put).unwrap();
                });
                until_somebody_waits(&shop.store);
                match commits {
                    false => transaction.abort(),
                    true => drop(transaction.commit().unwrap()),
                }
                assert_eq!(receive.recv().unwrap().is_ok(), !commits);
            });
        }
    }
}

#[test]
fn other_columns_of_a_row_that_is_referred_to_may_change_meanwhile() {
    let shop = Shop::new(orders().with_foreign_key(by_id(NoAction, NoAction)));
    let sessions = || {
        let mut session = shop.store.session_here().unwrap();
        session.set_lock_timeout(Duration::ZERO);
        session
    };
    let (mut one, mut two) = (sessions(), sessions());
    let note = |transaction: &Transaction<'_>| {
        transaction.update_by_key(&shop.customers, &[1.into()], |row| row.set("note", 1))
    };
    for first_refers in [true, false] {
        let (a, b) = (one.begin().unwrap(), two.begin().unwrap());
        let (refers, changes) = if first_refers { (&a, &b) } else { (&b, &a) };
        if !first_refers {
            assert!(note(changes).unwrap());
        }
        put(refers, &shop.orders, &[15.into(), 1.into()]).unwrap();
        assert!(note(changes).unwrap());
        // But not its key.
        let key = |row: &mut corun_store::RowBuf| row.set("id", 5);
        let refused = changes.update_by_key(&shop.customers, &[1.into()], key);
        assert!(refused.unwrap_err().is_retryable());
    }
    // Whether the row has the key depends on a transaction: who refers to it waits.
    let mut a = one.begin().unwrap();
    let to = |transaction: &Transaction<'_>, from: i64, to: i64| {
        transaction
            .update_by_key(&shop.customers, &[from.into()], |row| row.set("id", to))
            .unwrap()
    };
    put(&a, &shop.customers, &[9.into()]).unwrap();
    to(&a, 9, 8);
    let savepoint = a.savepoint();
    to(&a, 8, 9);
    for (id, waits) in [(9, true), (8, true), (7, false)] {
        let b = two.begin().unwrap();
        let refused = put(&b, &shop.orders, &[77.into(), id.into()]).unwrap_err();
        // It would wait for its own thread.
        assert_eq!(matches!(refused, StoreError::Lock(_)), waits, "{refused}");
    }
    a.rollback_to(&savepoint).unwrap();
    a.commit().unwrap();
    let b = two.begin().unwrap();
    let refused = put(&b, &shop.orders, &[77.into(), 9.into()]);
    assert!(matches!(refused, Err(StoreError::ForeignKey(_))));
    put(&b, &shop.orders, &[77.into(), 8.into()]).unwrap();
}

#[test]
fn without_room_for_a_snapshot_rows_are_locked() {
    let options = Options {
        snapshots_max: 1,
        ..Options::default()
    };
    let store = Store::in_memory(options).unwrap();
    let customers = store.create_table(customer()).unwrap();
    let key = by_id(NoAction, NoAction);
    let definition = orders()
        .index("by_customer", &["customer_id"])
        .with_foreign_key(key);
    let orders = store.create_table(definition).unwrap();
    let only = store.snapshot().unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            put(transaction, &customers, &[1.into()])?;
            put(transaction, &orders, &[1.into(), 1.into()])?;
            assert!(put(transaction, &orders, &[2.into(), 2.into()]).is_err());
            assert!(transaction.delete_by_key(&customers, &[1.into()]).is_err());
            Ok(())
        })
        .unwrap();
    drop(only);
    assert_eq!((customers.rows(), orders.rows()), (1, 1));
}

#[test]
fn two_that_delete_what_the_other_refers_to_are_a_deadlock() {
    let shop = Shop::new(orders().with_foreign_key(by_id(NoAction, NoAction)));
    shop.run(|transaction| {
        put(transaction, &shop.customers, &[7.into()])?;
        put(transaction, &shop.customers, &[8.into()])
    })
    .unwrap();
    let barrier = std::sync::Barrier::new(2);
    let work = |mine: i64, other: i64| {
        let mut session = shop.store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        put(&transaction, &shop.orders, &[(mine * 10).into(), mine.into()]).unwrap();
        barrier.wait();
        let done = transaction.delete_by_key(&shop.customers, &[other.into()]);
        match done {
            Err(error) if error.is_retryable() => true,
            // The other has given way, or goes on.
            Ok(true) | Err(StoreError::ForeignKey(_)) => false,
            other => panic!("{other:?}"),
        }
    };
    let deadlocks = std::thread::scope(|scope| {
        let threads = [(7, 8), (8, 7)].map(|(mine, other)| scope.spawn(move || work(mine, other)));
        threads
            .map(|thread| usize::from(thread.join().unwrap()))
            .iter()
            .sum::<usize>()
    });
    assert!(deadlocks >= 1, "one has to give way");
    assert!(shop.store.stats().locks.deadlocks >= 1);
}

#[test]
fn definitions_wait_for_writers_and_readers_go_on() {
    let shop = Shop::new(orders());
    let mut session = shop.store.session_here().unwrap();
    session.set_lock_timeout(Duration::ZERO);
    let transaction = session.begin().unwrap();
    let found = transaction.get(&shop.customers, Rid(0), Lock::Shared).unwrap();
    assert!(found.is_some());
    // A reader is not in the way, and reads on.
    let key = by_id(NoAction, NoAction);
    shop.store.add_foreign_key(&shop.orders, key.clone()).unwrap();
    assert!(
        transaction
            .get(&shop.customers, Rid(1), Lock::Shared)
            .unwrap()
            .is_some()
    );
    transaction.abort();
    shop.store.drop_constraint(&shop.orders, "by_id").unwrap();
    for table in [&shop.customers, &shop.orders] {
        let transaction = session.begin().unwrap();
        transaction.lock_table(table, Lock::Exclusive).unwrap();
        std::thread::scope(|scope| {
            let adding = scope.spawn(|| shop.store.add_foreign_key(&shop.orders, key.clone()));
            until_somebody_waits(&shop.store);
            transaction.commit().unwrap();
            adding.join().unwrap().unwrap();
        });
        shop.store.drop_constraint(&shop.orders, "by_id").unwrap();
    }
}
