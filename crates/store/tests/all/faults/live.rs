//! Faults of the disk while a store runs on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_store::log::LogError;
use corun_store::storage::Twin;
use corun_store::{Durability, Options, Store, StoreError, TableDef, Type};

use super::{fill, has, ids, make_table, open, options, put, refused};
use crate::clients::{Clients, MEMBERS};

/// Commits durably until that fails; what was acknowledged, and the error.
fn until_it_fails(store: &Store, from: i64) -> (i64, String) {
    let mut session = store.session_here().unwrap();
    for id in from.. {
        if let Err(error) = put(store, &mut session, id, Durability::Durable) {
            return (id, error.to_string());
        }
    }
    unreachable!("there are enough numbers")
}

/// After the log has failed: reads go on, changes are refused with the same error.
fn still_reads(store: &Store, acknowledged: i64) {
    let seen = ids(store);
    assert!(
        seen.iter()
            .copied()
            .take(acknowledged as usize)
            .eq(0..acknowledged),
        "{seen:?}"
    );
    let mut session = store.session_here().unwrap();
    for durability in [Durability::Durable, Durability::Asynchronous] {
        let said = put(store, &mut session, 1 << 40, durability)
            .unwrap_err()
            .to_string();
        has(&said, &["the log has failed", "opened again"]);
    }
    assert_eq!(ids(store), seen, "what was refused is not there");
    has(&store.flush().unwrap_err().to_string(), &["the log has failed"]);
    has(
        &store.checkpoint().unwrap_err().to_string(),
        &["the log has failed"],
    );
}

/// After a restart without the fault: all that was acknowledged is there, and it goes on, also over a power failure.
fn goes_on(disk: &Twin, acknowledged: i64) {
    for seed in 0..5 {
        for disk in [disk.kill(), disk.crash(seed)] {
            let store = open(&disk);
            let seen = ids(&store);
            assert!(
                seen.len() as i64 >= acknowledged,
                "{} of {acknowledged}",
                seen.len()
            );
            fill(&store, 1000..1010);
            drop(store);
            let store = open(&disk.crash(seed));
            assert_eq!(ids(&store).len(), seen.len() + 10);
        }
    }
}

#[test]
fn a_disk_that_is_full_while_committing() {
    let disk = Twin::new(1);
    // Else the log would reserve megabytes.
    disk.full_at(Some(10_000));
    let store = open(&disk);
    make_table(&store);
    let mut acknowledged = 0;
    for room in [4000, 100, 8000] {
        disk.full_at(Some(disk.used() + room));
        let (reached, said) = until_it_fails(&store, acknowledged);
        has(
            &said,
            &[
                "refused",
                "twin-1/log-",
                "the disk is full: make room on it",
                "as soon as there is room",
            ],
        );
        acknowledged = reached;
        // Readers go on, and what was refused is nowhere: neither for others nor after a restart.
        assert!(ids(&store).into_iter().eq(0..acknowledged));
        store.flush().unwrap();
        for seed in 0..5 {
            let after = open(&disk.crash(seed));
            assert!(ids(&after).into_iter().eq(0..acknowledged));
        }
        has(
            &store
                .create_table(
                    TableDef::new(&"n".repeat(250))
                        .column(&"c".repeat(250), Type::I64)
                        .primary_key(&[&"c".repeat(250)]),
                )
                .unwrap_err()
                .to_string(),
            &["the disk is full"],
        );
        // A transaction that is refused lets its locks go.
        let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
        for session in [&mut one, &mut two] {
            let error = put(&store, session, 1 << 40, Durability::Asynchronous).unwrap_err();
            assert!(matches!(error, StoreError::Log(LogError::DiskFull(_))), "{error}");
        }
    }
    assert!(acknowledged > 20);
    disk.full_at(None);
    fill(&store, acknowledged..acknowledged + 10);
    disk.full_at(Some(disk.used()));
    store.close().unwrap();
    goes_on(&disk, acknowledged + 10);
}

#[test]
fn a_checkpoint_makes_room_on_a_full_disk() {
    let disk = Twin::new(9);
    disk.full_at(Some(60_000));
    let store = open(&disk);
    make_table(&store);
    fill(&store, 0..10);
    let table = store.table("t").unwrap();
    let mut session = store.session_here().unwrap();
    let mut change = |number: u8| -> Result<(), StoreError> {
        let primary = table.primary();
        let transaction = session.begin()?;
        let found = transaction.fetch_for_update(&primary, &[1.into()])?.unwrap();
        let text = char::from(b'a' + number % 26).to_string().repeat(1000);
        transaction.update(&table, found.rid, |row| row.set(1, text.as_str()))?;
        transaction.commit().map(drop)
    };
    for round in 0..5 {
        let refused = (0..100).find_map(|number| change(number).err());
        assert!(
            matches!(refused, Some(StoreError::Log(LogError::DiskFull(_)))),
            "{refused:?}"
        );
        // It needs some room itself.
        has(
            &store.checkpoint().unwrap_err().to_string(),
            &["the disk is full"],
        );
        disk.full_at(Some(70_000 + round * 10_000));
        store.checkpoint().unwrap().unwrap();
        for number in 0..20 {
            change(number).unwrap();
        }
    }
    drop(session);
    store.close().unwrap();
    disk.full_at(None);
    goes_on(&disk, 10);
}

#[test]
fn a_large_transaction_is_there_whole_or_not_at_all() {
    // More than the log's buffer takes.
    const ROWS: i64 = 20_000;
    let disk = Twin::new(8);
    let store = open(&disk);
    make_table(&store);
    fill(&store, 0..10);
    disk.slow_sync(Duration::from_millis(300));
    let table = store.table("t").unwrap();
    let (mut session, mut other) = (store.session_here().unwrap(), store.session_here().unwrap());
    let transaction = session.begin().unwrap();
    let mut row = table.new_row();
    row.set(1, "y".repeat(1900).as_str()).unwrap();
    for id in 0..ROWS {
        row.set(0, 1000 + id).unwrap();
        transaction.insert(&table, &row).unwrap();
    }
    let large = transaction.commit_with(Durability::Asynchronous).unwrap();
    // Others go on meanwhile, and see it.
    for id in 10..20 {
        put(&store, &mut other, id, Durability::Asynchronous).unwrap();
    }
    assert!(store.stats().durable < large, "{:?}", store.stats());
    let written = disk.used();
    let whole = (0..8).filter(|seed| {
        let after = open(&disk.crash(*seed));
        let seen = ids(&after);
        let rows = seen.iter().filter(|id| **id >= 1000).count() as i64;
        assert!(rows == 0 || rows == ROWS, "seed {seed}: {rows}");
        assert!(seen.iter().filter(|id| **id < 10).count() == 10);
        rows == ROWS
    });
    let whole = whole.count();
    store.flush().unwrap();
    for seed in 0..2 {
        assert_eq!(ids(&open(&disk.crash(seed))).len() as i64, ROWS + 20);
    }
    assert!(whole < 8 || written < 30 << 20, "{whole} of 8 crashes left all");
    let recovered = open(&disk.kill()).recovered();
    assert!(recovered.records as i64 >= ROWS);
}

#[test]
fn a_disk_that_is_full_while_a_checkpoint_is_written() {
    let disk = Twin::new(2);
    let store = open(&disk);
    make_table(&store);
    fill(&store, 0..50);
    disk.full_at(Some(disk.used() + 4000));
    has(
        &store.checkpoint().unwrap_err().to_string(),
        &["checkpoint-", "the disk is full: make room on it"],
    );
    disk.full_at(None);
    fill(&store, 50..60);
    let done = store.checkpoint().unwrap().unwrap();
    assert_eq!(done.rows, 60);
    drop(store);
    goes_on(&disk, 60);
}

#[test]
fn a_checkpoint_in_the_background_says_why_it_failed_and_is_tried_again() {
    let disk = Twin::new(3);
    // The limits are equal: waiting for a full measure of log would be waiting for ever.
    let options = Options {
        checkpoint_log_bytes: 40_000,
        log_bytes_max: 40_000,
        ..options()
    };
    let store = Store::open_on(Arc::new(disk.clone()), options).unwrap();
    make_table(&store);
    disk.full_at(Some(disk.used() + 4000));
    fill(&store, 0..90);
    let patience = Instant::now() + Duration::from_secs(60);
    let failure = loop {
        if let Some(failure) = store.stats().checkpoint_failure {
            break failure;
        }
        assert!(Instant::now() < patience, "{:?}", store.stats());
        std::thread::sleep(Duration::from_millis(5));
    };
    has(&failure, &["checkpoint-", "the disk is full: make room on it"]);
    disk.full_at(None);
    while store.stats().checkpoint_failure.is_some() {
        assert!(Instant::now() < patience, "{:?}", store.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(store.stats().log_bytes < 20_000);
    fill(&store, 90..100);
    drop(store);
    goes_on(&disk, 100);
}

#[test]
fn a_sync_that_fails_once() {
    let disk = Twin::new(4);
    let store = open(&disk);
    make_table(&store);
    disk.fail_sync_after(20);
    let (acknowledged, said) = until_it_fails(&store, 0);
    has(
        &said,
        &["syncing twin-4/log-", "error of the medium", "opened again"],
    );
    assert!(acknowledged > 10);
    still_reads(&store, acknowledged);
    drop(store);
    goes_on(&disk, acknowledged);
}

#[test]
fn a_sync_of_a_checkpoint_that_fails_leaves_the_log_alone() {
    let disk = Twin::new(5);
    let store = open(&disk);
    make_table(&store);
    fill(&store, 0..30);
    disk.fail_sync_after(0);
    has(
        &store.checkpoint().unwrap_err().to_string(),
        &["error of the medium"],
    );
    fill(&store, 30..40);
    drop(store);
    goes_on(&disk, 40);
}

#[test]
fn slow_syncs_are_waited_for_by_those_who_asked() {
    slow_syncs(Clients::Threads);
}

#[test]
fn slow_syncs_are_waited_for_by_the_members_who_asked() {
    slow_syncs(MEMBERS);
}

fn slow_syncs(clients: Clients) {
    let disk = Twin::new(6);
    let store = open(&disk);
    make_table(&store);
    disk.slow_sync(Duration::from_millis(5));
    clients.run(
        4,
        |client| {
            let store = &store;
            let client = client as i64;
            let mut session = store.session(0, corun_store::park::current()).unwrap();
            for id in 0..20 {
                let durability = if id % 2 == 0 {
                    Durability::Durable
                } else {
                    Durability::Asynchronous
                };
                put(store, &mut session, client * 100 + id, durability).unwrap();
                if durability == Durability::Durable {
                    // The newest of this client is behind it.
                    assert!(store.stats().durable.0 > id as u64);
                }
            }
        },
        || (),
    );
    assert_eq!(ids(&store).len(), 80);
    let last = store.flush().unwrap();
    assert_eq!(store.stats().durable, last);
    assert_eq!(ids(&open(&disk.crash(1))).len(), 80);
}

#[test]
fn a_disk_that_becomes_read_only() {
    let disk = Twin::new(7);
    let store = open(&disk);
    make_table(&store);
    fill(&store, 0..20);
    disk.read_only(true);
    let (acknowledged, said) = until_it_fails(&store, 20);
    assert_eq!(acknowledged, 20);
    has(
        &said,
        &["twin-7/log-", "needs a folder it can write to", "opened again"],
    );
    still_reads(&store, 20);
    drop(store);
    has(&refused(&disk, options()), &["cannot lock twin-7", "read-only"]);
    disk.read_only(false);
    goes_on(&disk, 20);
}

crate::on_teams! {
    a_disk_that_is_full_while_committing,
    a_disk_that_is_full_while_a_checkpoint_is_written,
    a_sync_that_fails_once,
    a_sync_of_a_checkpoint_that_fails_leaves_the_log_alone,
    a_disk_that_becomes_read_only,
}
