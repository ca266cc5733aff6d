//! Every limit, and that nothing is lost at it.

use crate::lock::support::{World, key, patient};
use corun_store::lock::{Got, LockError, LockOptions, RowMode, TableMode};
use corun_store::park::ThreadPark;
use std::time::Duration;

#[test]
fn slots_of_transactions_run_out_and_come_back() {
    let world = World::new(LockOptions {
        transactions_max: 3,
        ..patient()
    });
    let mut clients: Vec<_> = (0..3).map(|_| world.here()).collect();
    let refused = world.locks.begin(ThreadPark::current());
    assert_eq!(refused.err(), Some(LockError::TooManyTransactions { limit: 3 }));
    clients.pop();
    let mut again = world.here();
    assert_eq!(again.x(1), Ok(Got::New));
    // A holder that is dropped gives up tables and intervals.
    again.end();
    again.table(1, TableMode::X).unwrap();
    again.range(1, 1, 2);
    drop(again);
    drop(clients);
    world.assert_free();
    let _all: Vec<_> = (0..3).map(|_| world.here()).collect();
}

#[test]
fn a_transaction_has_its_limit_and_keeps_what_it_has() {
    let world = World::new(LockOptions {
        locks_per_transaction_max: 100,
        ..patient()
    });
    let mut a = world.here();
    let limit = LockError::TooManyLocksInTransaction { limit: 100 };
    for _ in 0..3 {
        for rid in 0..60 {
            a.row(rid, if rid % 2 == 0 { RowMode::X } else { RowMode::S })
                .unwrap();
        }
        for table in 0..10 {
            a.table(table, TableMode::IX).unwrap();
        }
        for at in 0..30 {
            a.range(0, at * 10, at * 10 + 1);
        }
        assert_eq!(a.holder.held(), 100);
        assert_eq!(a.s(500), Err(limit.clone()));
        assert_eq!(a.x(500), Err(limit.clone()));
        assert_eq!(a.table(11, TableMode::IS), Err(limit.clone()));
        assert_eq!(
            a.holder.range(&world.ranges[0], &key(900), &key(901)),
            Err(limit.clone())
        );
        // What it has costs nothing more.
        assert_eq!(a.x(1), Ok(Got::Upgraded));
        assert_eq!(a.table(1, TableMode::SIX), Ok(Got::Upgraded));
        a.range(0, 50, 51);
        assert_eq!(a.holder.held(), 100);
        // Intervals that become one give their share back.
        a.end();
        world.assert_free();
    }
    for at in 0..100 {
        a.range(0, at * 10, at * 10 + 1);
    }
    assert_eq!(a.s(1), Err(limit));
    a.end();
    for at in 0..99 {
        a.range(0, at * 10, at * 10 + 1);
    }
    a.range(0, 0, 2000);
    assert_eq!(a.holder.held(), 1);
    for rid in 0..99 {
        a.s(rid).unwrap();
    }
    a.end();
    world.assert_free();
}

#[test]
fn all_transactions_have_a_limit_together() {
    let world = World::new(LockOptions {
        locks_max: 100,
        transactions_max: 50,
        ..patient()
    });
    let (mut a, mut b) = (world.here(), world.here());
    let limit = LockError::TooManyLocks { limit: 100 };
    for _ in 0..3 {
        for rid in 0..60 {
            a.s(rid).unwrap();
        }
        for rid in 0..40 {
            b.s(rid).unwrap();
        }
        assert_eq!(a.s(100), Err(limit.clone()));
        assert_eq!(b.table(1, TableMode::IS), Err(limit.clone()));
        assert_eq!((a.holder.held(), b.holder.held()), (60, 40));
        a.end();
        for rid in 40..99 {
            b.s(rid).unwrap();
        }
        b.end();
        world.assert_free();
    }
}

/// Refusals, timeouts and drops neither lose nor gain any of the shared budget.
#[test]
fn the_budget_survives_whatever_happens() {
    let world = World::new(LockOptions {
        locks_max: 1000,
        transactions_max: 4,
        ..patient()
    });
    let mut blocker = world.here();
    blocker.x(900).unwrap();
    blocker.table(9, TableMode::X).unwrap();
    for round in 0..300 {
        let mut a = world.here();
        a.holder.set_timeout(Duration::ZERO);
        for rid in 0..(round % 7) * 30 {
            a.x(rid).unwrap();
        }
        assert!(a.s(900).is_err() && a.table(9, TableMode::IS).is_err());
        assert_eq!(a.try_row(900, RowMode::X), None);
        a.range(0, 0, 5);
        a.range(0, 10, 15);
        a.range(0, 4, 11);
        a.end();
        a.range(1, 0, 5);
        a.table(1, TableMode::S).unwrap();
    }
    blocker.end();
    drop(blocker);
    world.assert_free();
    let (mut a, tables) = (world.here(), world.tables.len());
    for rid in 0..1000 - tables as u32 {
        a.s(rid).unwrap();
    }
    for table in 0..tables {
        a.table(table, TableMode::IS).unwrap();
    }
    assert_eq!(a.s(1001), Err(LockError::TooManyLocks { limit: 1000 }));
    a.end();
}

#[test]
fn extreme_options_are_taken_as_what_is_possible() {
    let world = World::new(LockOptions {
        transactions_max: 0,
        timeout: Duration::MAX,
        detect_after: Duration::MAX,
        locks_max: u64::MAX,
        locks_per_transaction_max: u32::MAX,
    });
    let mut a = world.here();
    a.holder.set_timeout(Duration::MAX);
    assert_eq!(a.x(1), Ok(Got::New));
    a.end();
    let none = World::new(LockOptions {
        locks_max: 0,
        ..patient()
    });
    assert_eq!(none.here().x(1), Err(LockError::TooManyLocks { limit: 0 }));
    let none = World::new(LockOptions {
        locks_per_transaction_max: 0,
        ..patient()
    });
    assert_eq!(
        none.here().x(1),
        Err(LockError::TooManyLocksInTransaction { limit: 0 })
    );
}
