//! Who goes first, and when waits end.

use crate::lock::support::{FOR_EVER, Guarded, Random, Remote, World, patient};
use corun_store::lock::{Got, HeldBy, LockError, LockName, LockOptions, RowMode, TableMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn writers_of_a_row_are_served_in_the_order_they_came() {
    let world = World::new(patient());
    let mut a = world.here();
    a.x(1).unwrap();
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let clients: Vec<_> = (0..6).map(|_| Remote::new(&world)).collect();
    let mut pending = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        let order = Arc::clone(&order);
        pending.push(client.start(move |client| {
            client.x(1).unwrap();
            order.lock().push(at);
            client.end();
        }));
        world.until_waiting(at as u32 + 1);
    }
    assert!(order.lock().is_empty());
    a.end();
    pending.into_iter().for_each(|pending| pending.get());
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4, 5]);
    world.assert_free();
}

#[test]
fn readers_do_not_overtake_a_writer_that_waits() {
    let world = World::new(patient());
    let mut a = world.here();
    a.s(1).unwrap();
    let (b, c, d) = (Remote::new(&world), Remote::new(&world), Remote::new(&world));
    let b_got = b.start(|b| b.x(1));
    world.until_waiting(1);
    assert_eq!(
        world.here().try_row(1, RowMode::S),
        None,
        "a reader would overtake"
    );
    let c_got = c.start(|c| c.s(1));
    world.until_waiting(2);
    let d_got = d.start(|d| d.s(1));
    world.until_waiting(3);
    assert_eq!(a.s(1), Ok(Got::Held), "who has it asks nobody");
    a.end();
    assert_eq!(b_got.get(), Ok(Got::New));
    assert_eq!(world.locks.counts().waiting, 2);
    b.end();
    // Both readers at once.
    assert_eq!((c_got.get(), d_got.get()), (Ok(Got::New), Ok(Got::New)));
    c.end();
    d.end();
    world.assert_free();
}

#[test]
fn an_upgrade_goes_first() {
    let world = World::new(patient());
    let mut b = world.here();
    let (a, c) = (Remote::new(&world), Remote::new(&world));
    a.run(|a| a.s(1)).unwrap();
    b.s(1).unwrap();
    let c_got = c.start(|c| c.x(1));
    world.until_waiting(1);
    let a_got = a.start(|a| a.x(1));
    world.until_waiting(2);
    b.end();
    assert_eq!(a_got.get(), Ok(Got::Upgraded));
    assert_eq!(world.locks.counts().waiting, 1);
    a.end();
    assert_eq!(c_got.get(), Ok(Got::New));
    c.end();
    world.assert_free();
}

#[test]
fn an_upgrade_needs_not_wait_for_those_who_wait_for_it() {
    let world = World::new(patient());
    let mut a = world.here();
    a.s(1).unwrap();
    a.table(1, TableMode::IS).unwrap();
    let (b, c) = (Remote::new(&world), Remote::new(&world));
    let b_got = b.start(|b| b.x(1));
    let c_got = c.start(|c| c.table(1, TableMode::X));
    world.until_waiting(2);
    assert_eq!(a.try_row(1, RowMode::X), Some(Got::Upgraded));
    assert_eq!(a.table(1, TableMode::IX), Ok(Got::Upgraded));
    assert_eq!(a.table(1, TableMode::S), Ok(Got::Upgraded));
    assert_eq!(world.locks.counts().waiting, 2);
    a.end();
    assert_eq!((b_got.get(), c_got.get()), (Ok(Got::New), Ok(Got::New)));
}

#[test]
fn newcomers_to_a_table_wait_behind_those_they_conflict_with_only() {
    let world = World::new(patient());
    let mut a = world.here();
    a.table(1, TableMode::IX).unwrap();
    let (b, c, d) = (Remote::new(&world), Remote::new(&world), Remote::new(&world));
    let b_got = b.start(|b| b.table(1, TableMode::S));
    world.until_waiting(1);
    // IX goes with the holder, but not with who waits. IS goes with both.
    let c_got = c.start(|c| c.table(1, TableMode::IX));
    world.until_waiting(2);
    assert_eq!(d.run(|d| d.table(1, TableMode::IS)), Ok(Got::New));
    a.end();
    assert_eq!(b_got.get(), Ok(Got::New));
    assert_eq!(world.locks.counts().waiting, 1);
    b.end();
    assert_eq!(c_got.get(), Ok(Got::New));
    c.end();
    d.end();
    world.assert_free();
}

#[test]
fn a_wait_that_times_out_says_so_and_lets_those_behind_go_on() {
    let world = World::new(patient());
    let mut a = world.here();
    a.s(1).unwrap();
    a.x(2).unwrap();
    a.table(1, TableMode::IS).unwrap();
    a.table(2, TableMode::X).unwrap();
    a.range(1, 10, 20);
    let holder = a.holder.slot();
    let (b, c) = (Remote::new(&world), Remote::new(&world));
    b.run(|b| b.holder.set_timeout(Duration::from_millis(150)));

    let b_got = b.start(|b| b.x(1));
    world.until_waiting(1);
    assert_eq!(c.run(|c| c.s(1)), Ok(Got::New), "after the writer ahead gave up");
    let Err(LockError::Timeout {
        what,
        mode,
        waited,
        by,
    }) = b_got.get()
    else {
        panic!("not a timeout")
    };
    assert_eq!((what, mode), (LockName::Row(crate::lock::support::row(1)), "X"));
    assert!(matches!(by, HeldBy::Shared(1..=2)));
    assert!(waited >= Duration::from_millis(150));

    let error = b.run(|b| b.s(2)).unwrap_err();
    assert!(matches!(&error, LockError::Timeout { mode: "S", by: HeldBy::One(slot), .. } if *slot == holder));
    let text = error.to_string();
    assert!(
        text.contains("row 2 of table 7") && text.contains(&format!("transaction slot {holder}")),
        "{text}"
    );

    let b_got = b.start(|b| b.table(1, TableMode::X));
    world.until_waiting(1);
    assert_eq!(
        c.run(|c| c.table(1, TableMode::IX)),
        Ok(Got::New),
        "after the writer ahead gave up"
    );
    assert!(matches!(
        b_got.get(),
        Err(LockError::Timeout {
            what: LockName::Table(1),
            mode: "X",
            ..
        })
    ));
    assert!(
        matches!(b.run(|b| b.table(2, TableMode::IS)), Err(LockError::Timeout { by: HeldBy::One(slot), .. }) if slot == holder)
    );

    assert_eq!(b.run(|b| b.pass(1, 9)), Ok(()));
    assert_eq!(b.run(|b| b.pass(1, 21)), Ok(()));
    for at in [10, 15, 20] {
        let passed = b.run(move |b| b.pass(1, at));
        assert!(matches!(
            passed,
            Err(LockError::Timeout { what: LockName::Key { index: 1, key }, by: HeldBy::One(slot), .. }) if key == at && slot == holder
        ));
    }
    assert_eq!(b.run(|b| b.holder.held()), 0);
    assert_eq!(world.locks.counts().timeouts, 7);
    a.end();
    drop((b, c));
    world.assert_free();
}

/// A grant and a deadline at about the same time: either the waiter has the lock, or nobody has.
#[test]
fn a_grant_and_a_deadline_at_once() {
    let world = World::new(LockOptions {
        timeout: Duration::from_micros(300),
        ..LockOptions::default()
    });
    let guarded: [Guarded; 2] = Default::default();
    let (granted, expired) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let (world, guarded, granted, expired) = (&world, &guarded, &granted, &expired);
            scope.spawn(move || {
                let mut random = Random::seeded(seed);
                let mut client = world.here();
                for _ in 0..1500 {
                    let what = random.below(2) as usize;
                    let taken = if what == 0 {
                        client.x(1)
                    } else {
                        client.table(1, TableMode::X)
                    };
                    match taken {
                        Ok(got) => {
                            assert_eq!(got, Got::New);
                            let value = guarded[what].get();
                            std::thread::sleep(Duration::from_micros(random.below(150)));
                            guarded[what].set(value + 1);
                            granted.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(LockError::Timeout { .. }) => drop(expired.fetch_add(1, Ordering::Relaxed)),
                        Err(other) => panic!("{other}"),
                    }
                    client.end();
                }
            });
        }
    });
    assert_eq!(
        guarded[0].get() + guarded[1].get(),
        granted.load(Ordering::Relaxed)
    );
    assert_eq!(world.locks.counts().timeouts, expired.load(Ordering::Relaxed));
    world.assert_free();
}

/// Every mode of a table against every other, by many threads: what a mode excludes is never there.
#[test]
fn strong_modes_of_a_table_exclude_what_they_must() {
    let world = World::new(LockOptions {
        timeout: FOR_EVER,
        ..LockOptions::default()
    });
    // Written under X and SIX (one at a time), and read under S, SIX and X.
    let guarded = Guarded::default();
    let writes = AtomicU64::new(0);
    // Those who hold IX write rows, each its own; who holds S, SIX or X reads them all and must see no half of a pair.
    let pairs: [(Guarded, Guarded); 4] = Default::default();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (world, guarded, writes, pairs) = (&world, &guarded, &writes, &pairs);
            scope.spawn(move || {
                let mut random = Random::seeded(thread + 1);
                let mut client = world.here();
                for _ in 0..8000 {
                    let mode = TableMode::ALL[[0, 1, 1, 1, 2, 3, 4][random.below(7) as usize]];
                    client.table(3, mode).unwrap();
                    match mode {
                        TableMode::IS => {}
                        TableMode::IX => {
                            let pair = &pairs[thread as usize];
                            pair.0.set(pair.0.get() + 1);
                            pair.1.set(pair.1.get() + 1);
                        }
                        TableMode::S | TableMode::SIX | TableMode::X => {
                            assert!(pairs.iter().all(|pair| pair.0.get() == pair.1.get()));
                            let value = guarded.get();
                            if mode != TableMode::S {
                                guarded.set(value + 1);
                                writes.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                    client.end();
                }
            });
        }
    });
    assert_eq!(guarded.get(), writes.load(Ordering::Relaxed));
    world.assert_free();
}
