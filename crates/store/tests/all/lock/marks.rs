//! Going back to a mark: what was taken after it is free for others, and nothing else.

use crate::lock::support::{Client, Random, Remote, World, patient};
use corun_store::lock::{Got, LockMark, LockOptions, RowMode, TableMode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const ROWS: u32 = 6;
const TABLES: usize = 3;
const KEYS: u64 = 12;

/// What a holder has, as simply as can be.
#[derive(Clone, Default)]
struct Model {
    /// Exclusively, if true.
    rows: BTreeMap<u32, bool>,
    tables: BTreeMap<usize, TableMode>,
    keys: BTreeSet<u64>,
}

fn step(client: &mut Client, model: &mut Model, random: &mut Random) {
    match random.below(4) {
        0 => {
            let rid = random.below(u64::from(ROWS)) as u32;
            client.s(rid).unwrap();
            model.rows.entry(rid).or_default();
        }
        1 => {
            let rid = random.below(u64::from(ROWS)) as u32;
            client.x(rid).unwrap();
            model.rows.insert(rid, true);
        }
        2 => {
            let (table, mode) = (
                random.below(TABLES as u64) as usize,
                TableMode::ALL[random.below(5) as usize],
            );
            client.table(table, mode).unwrap();
            let held = model.tables.get(&table).map_or(mode, |held| held.with(mode));
            model.tables.insert(table, held);
        }
        _ => {
            let lo = random.below(KEYS);
            let hi = (lo + random.below(3)).min(KEYS - 1);
            client.range(0, lo, hi);
            model.keys.extend(lo..=hi);
        }
    }
}

/// Another client gets what the model says it can get, and nothing else.
fn check(other: &mut Client, model: &Model) {
    for rid in 0..ROWS {
        let (shared, exclusive) = match model.rows.get(&rid) {
            None => (true, true),
            Some(exclusive) => (!exclusive, false),
        };
        assert_eq!(other.try_row(rid, RowMode::S).is_some(), shared, "S on {rid}");
        other.end();
        assert_eq!(other.try_row(rid, RowMode::X).is_some(), exclusive, "X on {rid}");
        other.end();
    }
    for table in 0..TABLES {
        for mode in TableMode::ALL {
            let goes = model.tables.get(&table).is_none_or(|held| held.goes_with(mode));
            assert_eq!(
                other.table(table, mode).is_ok(),
                goes,
                "{mode:?} on table {table}"
            );
            other.end();
        }
    }
    for key in 0..KEYS {
        assert_eq!(
            other.pass(0, key).is_ok(),
            !model.keys.contains(&key),
            "key {key}"
        );
    }
    other.end();
}

#[test]
fn at_a_mark_a_holder_has_what_it_had() {
    for seed in 1..60 {
        let mut random = Random::seeded(seed);
        let world = World::new(LockOptions {
            timeout: Duration::ZERO,
            ..LockOptions::default()
        });
        let (mut client, mut other) = (world.here(), world.here());
        for _ in 0..6 {
            let mut model = Model::default();
            let mut marks: Vec<(LockMark, Model)> = Vec::new();
            for _ in 0..60 {
                match random.below(8) {
                    0 => marks.push((client.holder.mark(), model.clone())),
                    1 if !marks.is_empty() => {
                        let at = random.below(marks.len() as u64) as usize;
                        marks.truncate(at + 1);
                        client.back_to(&marks[at].0);
                        model = marks[at].1.clone();
                        check(&mut other, &model);
                    }
                    _ => step(&mut client, &mut model, &mut random),
                }
                let held = model.rows.len() + model.tables.len();
                assert!(
                    client.holder.held() >= held && (client.holder.held() > held) != model.keys.is_empty()
                );
            }
            check(&mut other, &model);
            client.end();
            check(&mut other, &Model::default());
        }
        drop((client, other));
        world.assert_free();
    }
}

#[test]
fn who_waits_for_what_was_taken_after_a_mark_gets_it() {
    let world = World::new(patient());
    let mut client = world.here();
    client.s(0).unwrap();
    client.table(1, TableMode::IX).unwrap();
    client.range(2, 10, 20);
    let mark = client.holder.mark();
    assert_eq!(client.x(0), Ok(Got::Upgraded));
    client.x(1).unwrap();
    client.table(1, TableMode::S).unwrap();
    client.table(0, TableMode::X).unwrap();
    client.range(2, 30, 40);
    let others: Vec<Remote> = (0..5).map(|_| Remote::new(&world)).collect();
    let waits = [
        others[0].start(|other| other.s(0).map(drop)),
        others[1].start(|other| other.x(1).map(drop)),
        others[2].start(|other| other.table(1, TableMode::IX).map(drop)),
        others[3].start(|other| other.table(0, TableMode::X).map(drop)),
        others[4].start(|other| other.pass(2, 35)),
    ];
    world.until_waiting(5);
    client.back_to(&mark);
    for wait in waits {
        wait.get().unwrap();
    }
    // What it had before it has still.
    let refused = others[0].start(|other| other.x(0).map(drop));
    let passes = others[4].start(|other| other.pass(2, 15));
    world.until_waiting(2);
    client.end();
    refused.get().unwrap();
    passes.get().unwrap();
    drop(others);
    drop(client);
    world.assert_free();
}

#[test]
fn intervals_behind_very_many_marks_are_kept_rather_than_lost() {
    let world = World::new(LockOptions {
        timeout: Duration::ZERO,
        ..LockOptions::default()
    });
    let (mut client, mut other) = (world.here(), world.here());
    let marks: Vec<LockMark> = (0..100)
        .map(|at| {
            let mark = client.holder.mark();
            client.range(0, 10 * at, 10 * at + 1);
            mark
        })
        .collect();
    client.back_to(&marks[60]);
    assert!((0..60).all(|at| other.pass(0, 10 * at).is_err()));
    client.back_to(&marks[10]);
    assert!((0..100).all(|at| other.pass(0, 10 * at).is_err() == (at < 10)));
    client.back_to(&marks[0]);
    assert!((0..100).all(|at| other.pass(0, 10 * at).is_ok()));
    assert_eq!(client.holder.held(), 0);
}
