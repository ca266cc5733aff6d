//! Backups while transactions run, folders that are verified and restored, and what an interrupted copy leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_store::storage::{Storage, Twin};
use corun_store::{Durability, Options, Store, StoreError, TableDef, Type, restore, verify, verify_on};

const ACCOUNTS: i64 = 3000;
const EACH: i64 = 100;

fn bank() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        workers: 3,
        checkpoint_log_bytes: 64 << 10,
        ..Options::default()
    };
    let store = Store::open(folder.path().join("store"), options).unwrap();
    let table = store
        .create_table(
            TableDef::new("account")
                .column("id", Type::I64)
                .column("balance", Type::I64)
                .primary_key(&["id"]),
        )
        .unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for id in 0..ACCOUNTS {
        let mut row = table.new_row();
        row.set(0, id).unwrap();
        row.set(1, EACH).unwrap();
        transaction.insert(&table, &row).unwrap();
    }
    transaction.commit().unwrap();
    drop(session);
    (folder, store)
}

/// The number of accounts and the sum of their balances.
fn sum(store: &Store) -> (i64, i64) {
    let table = store.table("account").unwrap();
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(&table, 0..table.rid_end()).unwrap();
    rows.fold((0, 0), |(count, sum), found| (count + 1, sum + found.row.int(1)))
}

/// Moves money between accounts until it is told to stop.
fn transfer(store: &Store, worker: usize, stop: &AtomicBool) {
    let table = store.table("account").unwrap();
    let by_id = table.primary();
    let mut session = store.session(worker, corun_store::park::current()).unwrap();
    session.set_durability(Durability::Asynchronous);
    let mut at = worker as i64;
    while !stop.load(Ordering::Relaxed) {
        at = (at * 7919 + 17) % ACCOUNTS;
        let other = (at + 1) % ACCOUNTS;
        session
            .run(|transaction| {
                for (id, change) in [(at.min(other), -1), (at.max(other), 1)] {
                    let found = transaction
                        .fetch_for_update(&by_id, &[id.into()])?
                        .expect("an account");
                    let balance = found.row.int(1);
                    transaction.update(&table, found.rid, |row| row.set(1, balance + change))?;
                }
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn a_backup_while_transactions_run_is_one_moment_and_opens() {
    let (folder, store) = bank();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || transfer(store, worker, stop));
        }
        for round in 0..6 {
            let to = folder.path().join(format!("backup{round}"));
            let before = store.stats().last;
            let done = store.backup(&to).unwrap();
            assert!(done.ts >= before && done.rows == ACCOUNTS as u64, "{done:?}");
            let verified = verify(&to).unwrap();
            assert_eq!(
                (verified.last, verified.tables[0].rows),
                (done.ts, ACCOUNTS as u64)
            );
            let copy = Store::open(&to, Options::default()).unwrap();
            assert_eq!(sum(&copy), (ACCOUNTS, ACCOUNTS * EACH));
            copy.close().unwrap();
            if round % 2 == 0 {
                store.checkpoint().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    store.close().unwrap();
    // Of the store itself, with the log behind its checkpoint; and its copy goes on.
    let (from, to) = (folder.path().join("store"), folder.path().join("restored"));
    let verified = restore(&from, &to).unwrap();
    let copy = Store::open(&to, Options::default()).unwrap();
    assert_eq!(sum(&copy), (ACCOUNTS, ACCOUNTS * EACH));
    assert_eq!(copy.stats().last, verified.last);
    transfer_once(&copy);
    copy.close().unwrap();
    assert_eq!(verify(&to).unwrap().last, verified.last.next());
}

fn transfer_once(store: &Store) {
    let table = store.table("account").unwrap();
    let by_id = table.primary();
    let mut session = store.session_here().unwrap();
    let changed = session.run(|transaction| {
        let found = transaction
            .fetch_for_update(&by_id, &[5.into()])?
            .expect("an account");
        transaction.update(&table, found.rid, |row| row.set(1, 0_i64))
    });
    changed.unwrap();
}

#[test]
fn folders_in_the_way_are_refused_and_stay_as_they_are() {
    let (folder, store) = bank();
    let backup = folder.path().join("backup");
    store.backup(&backup).unwrap();
    let again = store.backup(&backup).unwrap_err();
    assert!(matches!(again, StoreError::Exists { .. }), "{again}");
    let foreign = folder.path().join("photos");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("holiday.jpg"), b"x").unwrap();
    for error in [
        store.backup(&foreign).unwrap_err(),
        restore(&backup, &foreign).unwrap_err(),
    ] {
        assert!(error.to_string().contains("holiday.jpg"), "{error}");
    }
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1);
    let open = verify(folder.path().join("store")).unwrap_err();
    assert!(matches!(open, StoreError::InUse { .. }), "{open}");
    for none in ["nowhere", "empty"] {
        let none = folder.path().join(none);
        if none.ends_with("empty") {
            std::fs::create_dir(&none).unwrap();
        }
        let error = verify(&none).unwrap_err();
        assert!(matches!(error, StoreError::NoStore { .. }), "{error}");
    }
    assert!(!folder.path().join("nowhere").exists());
    let nothing = Store::in_memory(Options::default()).unwrap();
    nothing.backup(folder.path().join("of nothing")).unwrap();
    assert!(
        verify(folder.path().join("of nothing"))
            .unwrap()
            .tables
            .is_empty()
    );
}

#[test]
fn what_an_interrupted_backup_leaves_is_no_store() {
    let (_folder, store) = bank();
    let mut seen = [0; 2];
    for effects in 0..40 {
        let disk = Twin::new(effects);
        let to: Arc<dyn Storage> = Arc::new(disk.clone());
        disk.stop_after(effects);
        let made = store.backup_on(&to).is_ok();
        let after: Arc<dyn Storage> = Arc::new(disk.crash(effects));
        match verify_on(&after) {
            Ok(verified) => assert_eq!(verified.tables[0].rows, ACCOUNTS as u64),
            Err(error) => assert!(!made, "{effects}: {error}"),
        }
        seen[usize::from(made)] += 1;
    }
    assert!(seen.into_iter().all(|count| count > 3), "{seen:?}");
}

#[test]
fn damage_is_found_wherever_it_is() {
    let (folder, store) = bank();
    let backup = folder.path().join("backup");
    store.backup(&backup).unwrap();
    let names: Vec<_> = std::fs::read_dir(&backup)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    for path in names.iter().filter(|path| !path.ends_with("corun.lock")) {
        let bytes = std::fs::read(path).unwrap();
        for at in (0..bytes.len()).step_by(997) {
            let mut broken = bytes.clone();
            broken[at] ^= 4;
            std::fs::write(path, broken).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let said = verify(&backup).unwrap_err().to_string();
            assert!(said.contains(name), "{name}, byte {at}: {said}");
        }
        std::fs::write(path, bytes).unwrap();
    }
    verify(&backup).unwrap();
}
