//! Which modes go together, between transactions and within one.

use crate::lock::support::{World, patient};
use corun_store::lock::{Got, LockError, RowMode, TableMode};
use std::time::Duration;

use TableMode::{IS, IX, S, SIX, X};

/// Written out, so that it does not follow the code.
const TOGETHER: [(TableMode, &[TableMode]); 5] = [
    (IS, &[IS, IX, S, SIX]),
    (IX, &[IS, IX]),
    (S, &[IS, S]),
    (SIX, &[IS]),
    (X, &[]),
];

fn together(a: TableMode, b: TableMode) -> bool {
    TOGETHER
        .iter()
        .any(|(mode, others)| *mode == a && others.contains(&b))
}

/// What is held after both were asked for.
const BOTH: [[TableMode; 5]; 5] = [
    [IS, IX, S, SIX, X],
    [IX, IX, SIX, SIX, X],
    [S, SIX, S, SIX, X],
    [SIX, SIX, SIX, SIX, X],
    [X, X, X, X, X],
];

fn both(a: TableMode, b: TableMode) -> TableMode {
    let at = |mode| TableMode::ALL.iter().position(|other| *other == mode).unwrap();
    BOTH[at(a)][at(b)]
}

#[test]
fn rows_of_two_transactions() {
    for (first, second, goes) in [
        (RowMode::S, RowMode::S, true),
        (RowMode::S, RowMode::X, false),
        (RowMode::X, RowMode::S, false),
        (RowMode::X, RowMode::X, false),
    ] {
        let world = World::new(patient());
        let (mut a, mut b) = (world.here(), world.here());
        b.holder.set_timeout(Duration::ZERO);
        assert_eq!(a.row(1, first), Ok(Got::New));
        assert_eq!(
            b.try_row(1, second),
            goes.then_some(Got::New),
            "{first:?} {second:?}"
        );
        b.end();
        assert_eq!(b.row(1, second).is_ok(), goes, "{first:?} {second:?}");
        b.end();
        a.end();
        assert_eq!(b.row(1, second), Ok(Got::New));
        b.end();
        world.assert_free();
    }
}

#[test]
fn rows_within_one_transaction() {
    for (first, second, got) in [
        (RowMode::S, RowMode::S, Got::Held),
        (RowMode::S, RowMode::X, Got::Upgraded),
        (RowMode::X, RowMode::S, Got::Held),
        (RowMode::X, RowMode::X, Got::Held),
    ] {
        let world = World::new(patient());
        let (mut a, mut b) = (world.here(), world.here());
        for asks_by_try in [false, true] {
            a.row(1, first).unwrap();
            // Another reader of another row, so that sets are not empty.
            a.row(2, RowMode::S).unwrap();
            let second_got = if asks_by_try {
                a.try_row(1, second)
            } else {
                a.row(1, second).ok()
            };
            assert_eq!(second_got, Some(got));
            assert_eq!(a.row(1, first), Ok(Got::Held));
            assert_eq!(a.holder.held(), 2);
            let strong = first == RowMode::X || second == RowMode::X;
            assert_eq!(b.try_row(1, RowMode::S), (!strong).then_some(Got::New));
            b.end();
            a.end();
            assert_eq!(b.try_row(1, RowMode::X), Some(Got::New));
            b.end();
            world.assert_free();
        }
    }
}

#[test]
fn an_upgrade_beside_other_readers_is_refused_and_leaves_what_was_held() {
    let world = World::new(patient());
    let (mut a, mut b, mut c) = (world.here(), world.here(), world.here());
    a.s(1).unwrap();
    b.s(1).unwrap();
    assert_eq!(a.try_row(1, RowMode::X), None);
    a.holder.set_timeout(Duration::ZERO);
    assert!(matches!(a.x(1), Err(LockError::Timeout { mode: "X", .. })));
    assert_eq!(a.s(1), Ok(Got::Held));
    assert_eq!(a.holder.held(), 1);
    assert_eq!(c.try_row(1, RowMode::X), None);
    b.end();
    assert_eq!(c.try_row(1, RowMode::X), None, "a still reads");
    assert_eq!(a.x(1), Ok(Got::Upgraded));
    assert_eq!(c.try_row(1, RowMode::S), None);
    a.end();
    assert_eq!(c.try_row(1, RowMode::S), Some(Got::New));
    c.end();
    world.assert_free();
}

#[test]
fn tables_of_two_transactions() {
    for first in TableMode::ALL {
        for second in TableMode::ALL {
            let world = World::new(patient());
            let (mut a, mut b) = (world.here(), world.here());
            b.holder.set_timeout(Duration::ZERO);
            assert_eq!(a.table(1, first), Ok(Got::New));
            assert_eq!(
                b.table(1, second).is_ok(),
                together(first, second),
                "{first:?} {second:?}"
            );
            assert_eq!(b.table(2, second), Ok(Got::New), "another table is another lock");
            b.end();
            a.end();
            assert_eq!(b.table(1, second), Ok(Got::New));
            b.end();
            world.assert_free();
        }
    }
}

#[test]
fn tables_asked_for_twice() {
    for first in TableMode::ALL {
        for second in TableMode::ALL {
            let now = both(first, second);
            let world = World::new(patient());
            let (mut a, mut b) = (world.here(), world.here());
            b.holder.set_timeout(Duration::ZERO);
            a.table(1, first).unwrap();
            let got = if now == first { Got::Held } else { Got::Upgraded };
            assert_eq!(a.table(1, second), Ok(got), "{first:?} {second:?}");
            assert_eq!(a.holder.held(), 1);
            for third in TableMode::ALL {
                assert_eq!(
                    b.table(1, third).is_ok(),
                    together(now, third),
                    "{first:?} {second:?} beside {third:?}"
                );
                b.end();
            }
            a.end();
            world.assert_free();
        }
    }
}

#[test]
fn tables_asked_for_twice_beside_another() {
    for first in TableMode::ALL {
        for other in TableMode::ALL.into_iter().filter(|other| together(first, *other)) {
            for second in TableMode::ALL {
                let now = both(first, second);
                let world = World::new(patient());
                let (mut a, mut b, mut c) = (world.here(), world.here(), world.here());
                a.holder.set_timeout(Duration::ZERO);
                c.holder.set_timeout(Duration::ZERO);
                a.table(1, first).unwrap();
                b.table(1, other).unwrap();
                let goes = together(now, other);
                assert_eq!(
                    a.table(1, second).is_ok(),
                    goes,
                    "{first:?} {second:?} beside {other:?}"
                );
                // What was not granted changed nothing.
                let holds = if goes { now } else { first };
                b.end();
                for third in TableMode::ALL {
                    assert_eq!(
                        c.table(1, third).is_ok(),
                        together(holds, third),
                        "{holds:?} {third:?}"
                    );
                    c.end();
                }
                a.end();
                world.assert_free();
            }
        }
    }
}

#[test]
fn many_tables_in_one_transaction_and_again() {
    let world = World::new(patient());
    let tables: Vec<_> = (0..100).map(corun_store::lock::TableLock::new).collect();
    let (mut a, mut b) = (world.here(), world.here());
    b.holder.set_timeout(Duration::ZERO);
    for mode in [IX, S, IS] {
        for (at, table) in tables.iter().enumerate() {
            assert_eq!(a.holder.table(table, mode), Ok(Got::New));
            assert_eq!(a.holder.held(), at + 1);
        }
        assert!(tables.iter().all(|table| b.holder.table(table, X).is_err()));
        a.end();
        assert!(tables.iter().all(|table| table.is_free()));
    }
}

#[test]
fn a_holder_of_many_rows_knows_each() {
    let world = World::new(patient());
    let (mut a, mut b) = (world.here(), world.here());
    for rid in 0..1000 {
        let mode = if rid % 3 == 0 { RowMode::X } else { RowMode::S };
        assert_eq!(a.row(rid, mode), Ok(Got::New));
    }
    for rid in 0..1000 {
        assert_eq!(a.s(rid), Ok(Got::Held));
        assert_eq!(b.try_row(rid, RowMode::S).is_some(), rid % 3 != 0);
    }
    assert_eq!(a.holder.held(), 1000);
    b.end();
    for rid in 0..1000 {
        assert_eq!(a.x(rid), Ok(if rid % 3 == 0 { Got::Held } else { Got::Upgraded }));
        assert_eq!(b.try_row(rid, RowMode::S), None);
    }
    a.end();
    world.assert_free();
}
