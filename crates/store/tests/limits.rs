//! Limits: what each error says (what, where, what to do), that the transaction or the store goes on as documented, and that
//! nothing is lost. Refusals that no limit causes are in `all/refusals.rs`. Of [`StoreError`], deadlocks, timeouts, `ChangedMeanwhile`
//! and `Ended` after them are in `all/storm.rs`; `Damaged`, `Checkpoint` and failures of the disk are shown where crashes are tested,
//! one of each here.
//!
//! A program of its own: its allocator refuses what a test asks it to refuse.

#[path = "all/refusal_support.rs"]
mod refusal_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    Direction, Durability, Lock, OnDamage, Options, Result, Rid, RowBuf, Store, StoreError, Table,
};
use refusal_support::{definition, ids, insert, open, row, text};

/// Refuses what a test asks it to refuse, on that test's thread.
struct Refusing;

thread_local! {
    /// Exactly this size, and at least this alignment.
    static REFUSED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

// SAFETY: as the system's, or a null pointer, which says "refused".
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = REFUSED.try_with(Cell::get).unwrap_or_default();
        if layout.size() == size || (align > 0 && layout.align() >= align) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller says; it came from the system's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

#[test]
fn rows_that_are_refused_use_no_numbers_up() {
    let (store, table) = open(Options {
        transaction_bytes_max: 10_000,
        ..Options::default()
    });
    let mut session = store.session_here().unwrap();
    for round in 0..50 {
        let transaction = session.begin().unwrap();
        for id in 0..40 {
            let refused = insert(&transaction, &table, id, 20_000);
            assert!(matches!(refused, Err(StoreError::TransactionTooLarge { .. })));
        }
        insert(&transaction, &table, round, 1).unwrap();
        transaction.commit().unwrap();
    }
    assert!(table.rid_end() <= 192, "{}", table.rid_end());
}

#[test]
fn memory_max_refuses_rows_and_room_comes_back() {
    let empty = open(Options::default()).0.stats().structure_bytes;
    let limit = 110_000 + empty;
    let (store, table) = open(Options {
        memory_max: limit,
        ..Options::default()
    });
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let mut rows = 0;
    let refused = loop {
        match insert(&transaction, &table, rows, 1000) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
    };
    assert!((80..110).contains(&rows), "{rows}");
    let said = refused.to_string();
    assert!(
        said.starts_with(&format!("the store is at its memory limit of {limit} bytes ("))
            && said.ends_with("in use); delete rows, end old snapshots or raise memory_max"),
        "{said}"
    );
    assert!(!refused.is_retryable());
    // The transaction goes on with what fits.
    insert(&transaction, &table, 1000, 1).unwrap();
    transaction.commit().unwrap();
    assert_eq!(ids(&store, &table).len() as i64, rows + 1);
    // A tombstone takes little.
    let transaction = session.begin().unwrap();
    for id in 0..40 {
        let found = transaction
            .fetch_for_update(&table.primary(), &[id.into()])
            .unwrap()
            .unwrap()
            .rid;
        assert!(transaction.delete(&table, found).unwrap());
    }
    transaction.commit().unwrap();
    for _ in 0..3 {
        session.begin().unwrap().commit().unwrap();
    }
    let transaction = session.begin().unwrap();
    for id in 2000..2010 {
        insert(&transaction, &table, id, 1000).unwrap();
    }
    transaction.commit().unwrap();
    // While a snapshot keeps old versions, rows that become longer are refused, too; others go on.
    let snapshot = store.snapshot().unwrap();
    let update = |session: &mut corun_store::Session, bytes: usize| -> Result<()> {
        let transaction = session.begin()?;
        let rid = transaction
            .fetch_for_update(&table.primary(), &[2000.into()])?
            .unwrap()
            .rid;
        transaction.update(&table, rid, |row| row.set(1, "y".repeat(bytes).as_str()))?;
        transaction.commit().map(drop)
    };
    let refused = (1001..1200).find_map(|bytes| update(&mut session, bytes).err());
    assert!(
        matches!(refused, Some(StoreError::MemoryFull { .. })),
        "{refused:?}"
    );
    for bytes in [1000, 1000, 10] {
        update(&mut session, bytes).unwrap();
    }
    drop(snapshot);
    for _ in 0..3 {
        session.begin().unwrap().commit().unwrap();
    }
    update(&mut session, 1001).unwrap();
    assert_eq!(store.stats().bytes_max, limit);
}

#[test]
fn a_full_store_can_be_emptied_whatever_its_limit() {
    let twin = Twin::new(1);
    let options = Options {
        memory_max: 3 << 20,
        durability: Durability::Asynchronous,
        ..Options::default()
    };
    let store = Store::open_on(Arc::new(twin.clone()), options.clone()).unwrap();
    let table = store.create_table(definition("t")).unwrap();
    let fill = |store: &Store, table: &Table, first: i64| -> i64 {
        let mut session = store.session_here().unwrap();
        let mut id = first;
        loop {
            let transaction = session.begin().unwrap();
            match insert(&transaction, table, id, 20) {
                Ok(_) => transaction.commit().unwrap(),
                Err(StoreError::MemoryFull { .. }) => break id,
                Err(error) => panic!("{error}"),
            };
            id += 1;
        }
    };
    let empty = |store: &Store, table: &Table| {
        let mut session = store.session_here().unwrap();
        for id in ids(store, table) {
            let transaction = session.begin().unwrap();
            let rid = transaction
                .fetch_for_update(&table.primary(), &[id.into()])
                .unwrap()
                .unwrap()
                .rid;
            transaction.update(table, rid, |row| row.set(2, 1_i64)).unwrap();
            assert!(transaction.delete(table, rid).unwrap());
            transaction.commit().unwrap();
        }
        store.flush().unwrap();
        for _ in 0..1000 {
            session.begin().unwrap().commit().unwrap();
        }
        assert!(store.stats().row_bytes < 1 << 20, "{:?}", store.stats());
    };
    let end = fill(&store, &table, 0);
    // With slots and two indexes a row takes more than itself.
    assert!((10_000..32_000).contains(&end), "{end}");
    empty(&store, &table);
    let end = fill(&store, &table, end);
    store.close().unwrap();
    let store = Store::open_on(Arc::new(twin), options).unwrap();
    let table = store.table("t").unwrap();
    empty(&store, &table);
    let again = fill(&store, &table, end);
    assert!(again > end + 1000, "{again}, {end}");
}

#[test]
fn a_limit_of_no_locks_is_no_limit() {
    let (store, table) = open(Options {
        locks_max: 0,
        locks_per_transaction_max: 0,
        ..Options::default()
    });
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for id in 0..5000 {
        insert(&transaction, &table, id, 1).unwrap();
    }
    transaction.commit().unwrap();
    assert_eq!(table.rows(), 5000);
}

#[test]
fn locks_per_transaction_max() {
    let (store, table) = open(Options {
        locks_per_transaction_max: 20,
        ..Options::default()
    });
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let refused = (0..)
        .find_map(|id| insert(&transaction, &table, id, 1).err())
        .unwrap();
    assert_eq!(
        refused.to_string(),
        "one transaction may hold 20 locks; lock the table instead, use smaller transactions, or raise \
         `locks_per_transaction_max`"
    );
    assert!(!refused.is_retryable());
    transaction.commit().unwrap();
    // The table's lock, and a row's for each.
    assert_eq!(ids(&store, &table), (0..19).collect::<Vec<i64>>());
    // As it says: with the table locked, any number of rows can be read.
    let transaction = session.begin().unwrap();
    transaction.lock_table(&table, Lock::Shared).unwrap();
    let primary = table.primary();
    let mut scan = transaction
        .scan(&primary, &primary.all(), Direction::Ascending, Lock::Shared)
        .unwrap();
    let mut count = 0;
    while scan.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 19);
}

#[test]
fn locks_max_of_all() {
    let (store, table) = open(Options {
        locks_max: 40,
        sessions_max: 4,
        ..Options::default()
    });
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    let first = one.begin().unwrap();
    let refused = (0..).find_map(|id| insert(&first, &table, id, 1).err()).unwrap();
    let said = "all transactions together may hold 40 locks; try again later, use smaller transactions, or raise `locks_max`";
    assert_eq!(refused.to_string(), said);
    let second = two.begin().unwrap();
    assert_eq!(text(insert(&second, &table, 1000, 1)), said);
    let there = first.commit().map(|_| ids(&store, &table).len()).unwrap();
    assert!(there > 30, "{there}");
    insert(&second, &table, 1000, 1).unwrap();
    second.commit().unwrap();
    assert_eq!(ids(&store, &table).len(), there + 1);
}

#[test]
fn transaction_bytes_max() {
    let (store, table) = open(Options {
        transaction_bytes_max: 10_000,
        ..Options::default()
    });
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 1, 5000).unwrap();
    let said = "the transaction changes more than 10000 bytes; commit in smaller parts or raise transaction_bytes_max";
    assert_eq!(text(insert(&transaction, &table, 2, 5000)), said);
    insert(&transaction, &table, 3, 4000).unwrap();
    let found = transaction
        .fetch(&table.primary(), &[1.into()])
        .unwrap()
        .unwrap()
        .rid;
    assert_eq!(
        text(transaction.update(&table, found, |row| row.set(2, 5_i64))),
        said
    );
    transaction.commit().unwrap();
    assert_eq!(ids(&store, &table), [1, 3]);
    // A new transaction has it all again; deletes count little, but they count.
    for id in 10..60 {
        let transaction = session.begin().unwrap();
        for part in 0..20 {
            insert(&transaction, &table, id * 100 + part, 100).unwrap();
        }
        transaction.commit().unwrap();
    }
    let transaction = session.begin().unwrap();
    let refused = (0..1000).find_map(|rid| transaction.delete(&table, Rid(rid)).err());
    assert_eq!(refused.unwrap().to_string(), said);
}

#[test]
fn sessions_max_and_snapshots_max() {
    let (store, table) = open(Options {
        sessions_max: 2,
        snapshots_max: 2,
        ..Options::default()
    });
    let sessions = [store.session_here().unwrap(), store.session_here().unwrap()];
    let said = "2 transaction slots are all in use; close sessions that are idle, or raise `sessions_max`";
    assert_eq!(text(store.session_here()), said);
    // Definitions need a session, too.
    assert_eq!(text(store.drop_table("t")), said);
    drop(sessions);
    store.session_here().unwrap();
    let snapshots = [store.snapshot().unwrap(), store.snapshot().unwrap()];
    assert_eq!(store.stats().snapshots, 2);
    assert_eq!(
        text(store.snapshot()),
        "2 snapshots are open, which is the most; end some or raise snapshots_max"
    );
    // Writers go on meanwhile.
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    transaction.commit().unwrap();
    drop(snapshots);
    assert_eq!(store.stats().snapshots, 0);
    store.snapshot().unwrap();
}

#[test]
fn log_bytes_max_refuses_commits_until_a_checkpoint_makes_room() {
    let twin = Twin::new(3);
    let options = Options {
        log_bytes_max: 6 << 20,
        // None by itself.
        checkpoint_log_bytes: 0,
        durability: Durability::Asynchronous,
        ..Options::default()
    };
    let store = Store::open_on(Arc::new(twin.clone()), options.clone()).unwrap();
    let table = store.create_table(definition("t")).unwrap();
    let mut session = store.session_here().unwrap();
    let mut fill = |from: i64| {
        for id in from.. {
            let transaction = session.begin().unwrap();
            insert(&transaction, &table, id, 100_000).unwrap();
            match transaction.commit() {
                Ok(_) => {}
                Err(error) => return (id, error),
            }
        }
        unreachable!()
    };
    let (until, refused) = fill(0);
    let said = refused.to_string();
    assert!(
        said.starts_with("the log has ")
            && said.contains(" bytes, and log_bytes_max is 6291456; a checkpoint makes room by removing old segments: wait for it"),
        "{said}"
    );
    assert!((50..70).contains(&until), "{until}");
    // The transaction is undone, the rest is there.
    assert_eq!(ids(&store, &table), (0..until).collect::<Vec<i64>>());
    assert_eq!(table.primary().entries(), until as u64);
    store.checkpoint().unwrap().unwrap();
    let (more, _) = fill(until);
    assert!(more > until + 30, "{more} after {until}");
    drop(session);
    store.flush().unwrap();
    store.close().unwrap();
    let store = Store::open_on(Arc::new(twin), options).unwrap();
    assert_eq!(
        ids(&store, &store.table("t").unwrap()),
        (0..more).collect::<Vec<i64>>()
    );
}

#[test]
fn options_that_make_no_sense() {
    let said = |options| text(Store::in_memory(options));
    let zero = |name: &str| format!("option {name}: must be at least 1");
    assert_eq!(
        said(Options {
            workers: 0,
            ..Options::default()
        }),
        zero("workers")
    );
    assert_eq!(
        said(Options {
            sessions_max: 0,
            ..Options::default()
        }),
        zero("sessions_max")
    );
    assert_eq!(
        said(Options {
            snapshots_max: 0,
            ..Options::default()
        }),
        zero("snapshots_max")
    );
    assert_eq!(
        said(Options {
            transaction_bytes_max: 0,
            ..Options::default()
        }),
        zero("transaction_bytes_max")
    );
    assert_eq!(
        said(Options {
            log_bytes_max: 5,
            ..Options::default()
        }),
        "option checkpoint_log_bytes: 268435456 is more than log_bytes_max (5), so commits would be refused before a checkpoint \
         makes room"
    );
}

#[test]
fn the_allocator_refuses_a_row_or_an_index_node() {
    let (store, table) = open(Options::default());
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    let large = row(&table, 2, 1_000_003);
    let bytes = large.row().encoded().len();
    // With its head, in steps of 16 bytes, a size nothing else has.
    REFUSED.set(((bytes + 24).next_multiple_of(16), 0));
    let refused = transaction.insert(&table, &large);
    REFUSED.set((0, 0));
    assert_eq!(
        text(refused),
        format!("out of memory: {bytes} bytes were refused")
    );
    let many: Vec<RowBuf> = (10..20_000).map(|id| row(&table, id, 1)).collect();
    // Nodes of indexes, and the chunks that hold them, are aligned as nothing else here.
    REFUSED.set((usize::MAX, 64));
    let refused = many.iter().find_map(|row| transaction.insert(&table, row).err());
    REFUSED.set((0, 0));
    let said = refused.expect("it was refused").to_string();
    assert!(said.starts_with("table \"t\", index \""), "{said}");
    // The operation is undone, the transaction goes on.
    insert(&transaction, &table, 2, 1).unwrap();
    transaction.commit().unwrap();
    let there = ids(&store, &table);
    assert!(there.starts_with(&[1, 2, 10]), "{there:?}");
    for index in table.indexes() {
        assert_eq!(index.entries(), there.len() as u64);
    }
}

#[test]
fn a_closed_store_an_owner_and_a_broken_disk() {
    let twin = Twin::new(9);
    let open = |options| Store::open_on(Arc::new(twin.clone()) as Arc<dyn Storage>, options);
    let store = open(Options::default()).unwrap();
    assert_eq!(
        text(open(Options::default())),
        "twin-9 is open in another process or store; close it there first"
    );
    let table = store.create_table(definition("t")).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    transaction.commit().unwrap();
    // The log fails: nothing more is taken, but what is there can be read.
    twin.fail_sync_after(0);
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 2, 1).unwrap();
    let said = text(transaction.commit());
    assert!(
        said.starts_with("the log has failed: ")
            && said.contains("nothing can be committed until the store is opened again. Commits that were reported durable are safe"),
        "{said}"
    );
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 3, 1).unwrap();
    assert!(text(transaction.commit()).starts_with("the log has failed: "));
    assert_eq!(ids(&store, &table), [1, 2]);
    assert!(text(store.checkpoint()).contains("failed"));
    assert!(text(store.clone().close()).starts_with("the log has failed: "));
    assert_eq!(text(session.begin()), "the store is closed");
    assert_eq!(text(store.session_here()), "the store is closed");
    assert_eq!(text(store.create_table(definition("u"))), "the store is closed");
    drop((session, store, table));
    let twin = twin.crash(1);
    let open = |options| Store::open_on(Arc::new(twin.clone()) as Arc<dyn Storage>, options);
    let store = open(Options::default()).unwrap();
    let table = store.table("t").unwrap();
    assert!(ids(&store, &table).starts_with(&[1]));
    store.checkpoint().unwrap();
    store.close().unwrap();
    // Rot, in the checkpoint: it says where.
    let checkpoint = twin
        .names()
        .unwrap()
        .into_iter()
        .find(|name| name.contains("checkpoint"))
        .unwrap();
    let middle = twin.bytes(&checkpoint).unwrap().len() as u64 / 2;
    twin.flip(&checkpoint, middle, 3).unwrap();
    let said = text(open(Options {
        on_damage: OnDamage::Cut,
        ..Options::default()
    }));
    assert!(
        said.contains(&checkpoint)
            && said.contains("damaged at byte")
            && said.ends_with("restore the folder from a copy"),
        "{said}"
    );
    twin.flip(&checkpoint, middle, 3).unwrap();
    twin.read_only(true);
    let said = text(open(Options::default()));
    assert!(said.starts_with("cannot lock twin-1: "), "{said}");
    twin.read_only(false);
    open(Options::default()).unwrap();
}
