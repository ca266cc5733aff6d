//! Constraints of transactions in crashes, and beside clients that write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corun_store::storage::{Storage, Twin};
use corun_store::{CheckDef, Durability, ForeignKeyDef, Result, Store, StoreError, verify_on};

use super::constraints::{child as child_of_parent, enforced_in, up, with_family};
use super::{dump, open};
use crate::crash_twin::random::Random;
use crate::foreign_keys::put;

/// A crash at every write of a transaction with constraints leaves all of it or nothing.
#[test]
fn a_crash_leaves_all_constraints_of_a_transaction_or_none() {
    let change = |store: &Store| -> Result<()> {
        let mut session = store.session_here()?;
        let transaction = session.begin()?;
        let (parent, child) = (transaction.table("parent")?, transaction.table("child")?);
        transaction.create_schema("s")?;
        let other = child_of_parent().in_schema("s").with_foreign_key(up());
        let other = transaction.create_table(other)?;
        put(&transaction, &other, &[1.into(), 2.into()])?;
        transaction.rename_table("parent", "above")?;
        transaction.rename_column(&parent, "id", "number")?;
        let parent = transaction.drop_column(&parent, "note")?;
        put(&transaction, &parent, &[4.into()])?;
        put(&transaction, &other, &[4.into(), 4.into()])?;
        transaction.drop_constraint(&child, "small")?;
        transaction.add_check(&child, CheckDef::new("more", "id > 0"))?;
        let code = ForeignKeyDef::new("code", &["note"], "above", &["code"]);
        transaction.add_foreign_key(&child, code)?;
        transaction.commit_with(Durability::Durable).map(drop)
    };
    let after = {
        let store = open(&Twin::new(0));
        with_family(&store);
        change(&store).unwrap();
        dump(&store)
    };
    let (mut all, mut none) = (0, 0);
    for seed in 0..4 {
        for effects in 0.. {
            let disk = Twin::new(seed);
            let store = open(&disk);
            with_family(&store);
            if seed % 2 == 1 {
                store.checkpoint().unwrap();
            }
            let before = dump(&store);
            disk.stop_after(effects);
            let done = change(&store).is_ok();
            let checkpointed = done && store.checkpoint().is_ok();
            drop(store);
            let disk = disk.crash(seed * 100 + effects);
            let store = open(&disk);
            let found = dump(&store);
            assert!(
                found == after || !done && found == before,
                "seed {seed}, effects {effects}: {found:#?}"
            );
            let parent = if found == after { "above" } else { "parent" };
            match found == after {
                true => all += 1,
                false => none += 1,
            }
            assert_eq!(store.schemas().len(), if found == after { 2 } else { 1 });
            enforced_in(&store, parent, "child");
            store.checkpoint().unwrap();
            let store = open(&disk.crash(1));
            assert_eq!(dump(&store), found);
            enforced_in(&store, parent, "child");
            if checkpointed {
                break;
            }
        }
    }
    assert!(all > 8 && none > 4, "{all} {none}");
}

/// One thread defines, others write: whatever they meet, no row is left without the row it refers to.
#[test]
fn writers_and_transactions_that_change_tables_of_foreign_keys_meet() {
    let disk = Twin::new(3);
    let store = open(&disk);
    with_family(&store);
    let stop = AtomicBool::new(false);
    let goes_on = || !stop.load(Ordering::Relaxed);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (store, written) = (&store, &written);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut session = store.session_here().unwrap();
                while goes_on() {
                    let (id, up) = (random.below(20) as i64, random.below(20) as i64);
                    let kind = random.below(4);
                    let transaction = session.begin().unwrap();
                    let done = transaction.table("parent").and_then(|parent| {
                        let child = transaction.table("child")?;
                        match kind {
                            0 => transaction.delete_by_key(&parent, &[up.into()]).map(drop),
                            1 => transaction.delete_by_key(&child, &[id.into()]).map(drop),
                            2 => put(&transaction, &parent, &[up.into(), (up * 10).into()]).map(drop),
                            _ => put(&transaction, &child, &[id.into(), up.into()]).map(drop),
                        }
                    });
                    match done.and_then(|()| transaction.commit().map(drop)) {
                        Ok(()) => drop(written.fetch_add(1, Ordering::Relaxed)),
                        Err(
                            StoreError::ForeignKey(_)
                            | StoreError::Lock(_)
                            | StoreError::Duplicate { .. }
                            | StoreError::Dropped { .. },
                        ) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let mut random = Random::new(9);
        let mut session = store.session_here().unwrap();
        let (mut committed, mut round) = (0, 0);
        while committed < 600 || written.load(Ordering::Relaxed) < 6000 {
            round += 1;
            let transaction = session.begin().unwrap();
            let define = || -> Result<()> {
                let (parent, child) = (transaction.table("parent")?, transaction.table("child")?);
                match round % 6 {
                    0 => transaction.drop_not_null(&parent, "code").map(drop),
                    1 => transaction.set_not_null(&parent, "code").map(drop),
                    2 => transaction.set_not_null(&child, "up").map(drop),
                    3 => transaction.drop_not_null(&child, "up").map(drop),
                    4 => transaction.truncate_table("child").map(drop),
                    _ => {
                        transaction.drop_constraint(&child, "up")?;
                        transaction.rename_column(&child, "up", "of")?;
                        transaction.rename_column(&child, "of", "up")?;
                        transaction.add_foreign_key(&child, up())
                    }
                }
            };
            match define() {
                Ok(()) if random.once_in(3) => transaction.abort(),
                Ok(()) => {
                    transaction.commit().unwrap();
                    committed += 1;
                }
                Err(StoreError::Lock(_) | StoreError::Dropped { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let seen = dump(&store);
    store.close().unwrap();
    verify_on(&(Arc::new(disk.crash(1)) as Arc<dyn Storage>)).unwrap();
    assert_eq!(dump(&open(&disk)), seen);
}
