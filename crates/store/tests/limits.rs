//! Limits and refusals: what each error says (what, where, what to do), that the transaction or the store goes on as documented,
//! and that nothing is lost. Of [`StoreError`], deadlocks, timeouts, `ChangedMeanwhile` and `Ended` after them are in `storm.rs`;
//! `Damaged`, `Checkpoint` and failures of the disk are shown where crashes are tested, one of each here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use store::storage::{Storage, Twin};
use store::{
    COLUMNS_MAX, Direction, Durability, INDEXES_MAX, Lock, OnDamage, Options, Result, Rid, RowBuf, Store,
    StoreError, Table, TableDef, Transaction, Type, Value,
};

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

fn definition(name: &str) -> TableDef {
    TableDef::new(name)
        .column("id", Type::I64)
        .column("name", Type::Text { max: 2_000_000 })
        .column("x", Type::I64)
        .primary_key(&["id"])
        .index("by_x", &["x"])
}

fn open(options: Options) -> (Store, Table) {
    let store = Store::in_memory(options).unwrap();
    let table = store.create_table(definition("t")).unwrap();
    (store, table)
}

fn row(table: &Table, id: i64, bytes: usize) -> RowBuf {
    let mut row = table.new_row();
    row.set(0, id).unwrap();
    row.set(1, "x".repeat(bytes).as_str()).unwrap();
    row
}

fn insert(transaction: &Transaction<'_>, table: &Table, id: i64, bytes: usize) -> Result<Rid> {
    transaction.insert(table, &row(table, id, bytes))
}

fn ids(store: &Store, table: &Table) -> Vec<i64> {
    let (snapshot, primary) = (store.snapshot().unwrap(), table.primary());
    let rows = snapshot
        .scan(&primary, &primary.all(), Direction::Ascending)
        .unwrap();
    rows.map(|found| found.row.int(0)).collect()
}

fn text<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn memory_max_refuses_rows_and_room_comes_back() {
    let (store, table) = open(Options {
        memory_max: 100_000,
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
    assert!((90..100).contains(&rows), "{rows}");
    let said = refused.to_string();
    assert!(
        said.starts_with("the store's rows would take more than its memory limit of 100000 bytes (")
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
    for id in 0..20 {
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
    for id in 2000..2015 {
        insert(&transaction, &table, id, 1000).unwrap();
    }
    transaction.commit().unwrap();
    // While a snapshot keeps old versions, updates end at the limit, too; after it they go on.
    let snapshot = store.snapshot().unwrap();
    let update = |session: &mut store::Session| -> Result<()> {
        let transaction = session.begin()?;
        let rid = transaction
            .fetch_for_update(&table.primary(), &[2000.into()])?
            .unwrap()
            .rid;
        transaction.update(&table, rid, |row| row.set(2, 1_i64))?;
        transaction.commit().map(drop)
    };
    let refused = (0..100).find_map(|_| update(&mut session).err());
    assert!(
        matches!(refused, Some(StoreError::MemoryFull { limit: 100_000, .. })),
        "{refused:?}"
    );
    drop(snapshot);
    for _ in 0..3 {
        session.begin().unwrap().commit().unwrap();
    }
    update(&mut session).unwrap();
    assert_eq!(store.stats().row_bytes_max, 100_000);
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
    // With its head, a size nothing else has.
    REFUSED.set((bytes + 24, 0));
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
fn keys_rows_and_handles_that_are_refused() {
    let (store, table) = open(Options::default());
    let (other, _) = open(Options::default());
    let (primary, by_x) = (table.primary(), table.index("by_x").unwrap());
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let rid = insert(&transaction, &table, 1, 1).unwrap();
    assert_eq!(
        text(insert(&transaction, &table, 1, 1)),
        "table \"t\": there is a row with the key (1) of index \"primary\" already"
    );
    insert(&transaction, &table, 2, 1).unwrap();
    assert_eq!(
        text(transaction.update(&table, rid, |row| row.set(0, 2_i64))),
        "table \"t\": there is a row with the key (2) of index \"primary\" already"
    );
    assert_eq!(
        text(transaction.update(&table, Rid(77), |_| Ok(()))),
        "table \"t\" has no row 77"
    );
    assert!(!transaction.delete(&table, Rid(77)).unwrap());
    assert!(!transaction.delete(&table, Rid(1 << 30)).unwrap());
    assert_eq!(
        text(transaction.fetch(&by_x, &[1.into()])),
        "index \"by_x\" of table \"t\" is not unique; use first or scan"
    );
    assert_eq!(
        text(transaction.fetch(&primary, &[])),
        "index \"primary\": 0 values for 1 columns"
    );
    assert!(transaction.fetch(&primary, &[Value::Null]).unwrap().is_none());
    let refusals: [(&str, fn(&mut RowBuf) -> std::result::Result<(), store::RowError>); 5] = [
        ("column \"id\" holds i64, not 'one'", |row| row.set(0, "one")),
        ("column \"id\" cannot be NULL", |row| row.set(0, Value::Null)),
        ("there is no column 9; the table has 3", |row| row.set(9, 1)),
        ("column \"name\" takes text(2000000), not 2000001 bytes", |row| {
            row.set(1, &"x".repeat(2_000_001))
        }),
        ("column \"x\" holds i64, not 1.5", |row| row.set(2, 1.5)),
    ];
    for (said, change) in refusals {
        assert_eq!(text(transaction.update(&table, rid, change)), said);
    }
    let small = store
        .create_table(TableDef::new("small").column("id", Type::I8).primary_key(&["id"]))
        .unwrap();
    assert_eq!(
        small.new_row().set(0, 128_i64).unwrap_err().to_string(),
        "column \"id\" holds i8; 128 is out of its range"
    );
    assert_eq!(
        text(transaction.insert(&table, &small.new_row())),
        "the row was made for another table than \"t\""
    );
    let said = "table \"t\" belongs to another store";
    let theirs = other.table("t").unwrap();
    assert_eq!(text(insert(&transaction, &theirs, 1, 1)), said);
    assert_eq!(text(transaction.lock_table(&theirs, Lock::Shared)), said);
    assert_eq!(
        text(store.snapshot().unwrap().rows(&theirs, 0..1).map(drop)),
        said
    );
    let mut another = other.session_here().unwrap();
    let savepoint = another.begin().unwrap().savepoint();
    transaction.commit().unwrap();
    let transaction = session.begin().unwrap();
    assert_eq!(
        text(transaction.rollback_to(&savepoint)),
        "the savepoint is not one of this transaction, or was rolled back"
    );
    drop(transaction);
    assert_eq!(ids(&store, &table), [1, 2]);
}

#[test]
fn definitions_that_are_refused() {
    let (store, table) = open(Options::default());
    let create = |definition: TableDef| text(store.create_table(definition));
    let bare = |name: &str| TableDef::new(name).column("id", Type::I64);
    assert_eq!(create(definition("t")), "there is a table \"t\" already");
    assert_eq!(text(store.table("u")), "there is no table \"u\"; there are t");
    assert_eq!(
        text(store.drop_table("u")),
        "there is no table \"u\"; there are t"
    );
    assert_eq!(
        text(Store::in_memory(Options::default()).unwrap().table("u")),
        "there is no table \"u\"; the store has no tables"
    );
    assert_eq!(
        text(store.create_index(&table, "by_x", false, &["x"])),
        "there is an index \"by_x\" already"
    );
    assert_eq!(
        text(store.drop_index(&table, "by_y")),
        "table \"t\" has no index \"by_y\""
    );
    assert_eq!(
        text(store.drop_index(&table, "primary")),
        "the primary key of table \"t\" cannot be dropped"
    );
    assert_eq!(
        create(bare("")),
        "table \"\": the name \"\" is empty or longer than 255 bytes"
    );
    assert_eq!(
        create(bare("u")),
        "table \"u\" has no primary key: name its columns with primary_key"
    );
    assert_eq!(
        create(bare("u").column("id", Type::I8).primary_key(&["id"])),
        "table \"u\": column \"id\" is there twice"
    );
    assert_eq!(
        create(bare("u").primary_key(&["no"])),
        "table \"u\", index \"primary\": there is no column \"no\""
    );
    assert_eq!(
        create(bare("u").nullable("n", Type::I8).primary_key(&["n"])),
        "table \"u\": the primary key's column \"n\" may be NULL; make it a plain column"
    );
    assert_eq!(
        create(bare("u").column("n", Type::Text { max: 64 }).primary_key(&["n"])),
        "table \"u\", index \"primary\": its keys take up to 65 bytes, the most is 64; index fewer or shorter columns"
    );
    assert_eq!(
        create(
            bare("u")
                .column(
                    "n",
                    Type::Decimal {
                        precision: 3,
                        scale: 4
                    }
                )
                .primary_key(&["id"])
        ),
        "table \"u\", column \"n\": a decimal has 1 to 18 digits, at most all of them after the point"
    );
    let said = create(
        bare("u")
            .column("n", Type::Bytes { max: 8 << 20 })
            .primary_key(&["id"]),
    );
    assert!(
        said.starts_with("table \"u\": a row takes up to") && said.ends_with("declare shorter columns"),
        "{said}"
    );
    let wide = (0..=COLUMNS_MAX).fold(TableDef::new("u"), |table, at| {
        table.column(&format!("c{at}"), Type::I8)
    });
    let said = create(wide.primary_key(&["c0"]));
    assert!(said.contains("columns; at least 1 and at most"), "{said}");
    for at in 0..INDEXES_MAX - 2 {
        store
            .create_index(&table, &format!("i{at}"), false, &["x"])
            .unwrap();
    }
    let said = text(store.create_index(&table, "more", false, &["x"]));
    assert!(said.contains("indexes") && said.contains("at most"), "{said}");
    store.drop_index(&table, "i0").unwrap();
    let said = text(store.create_index(&table, "more", false, &["x"]));
    assert!(
        said.contains("dropped ones included, until the store is opened again"),
        "{said}"
    );
}

#[test]
fn what_was_dropped_or_came_later() {
    let (store, table) = open(Options::default());
    let by_x = table.index("by_x").unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    insert(&transaction, &table, 2, 1).unwrap();
    transaction.commit().unwrap();
    let before = store.snapshot().unwrap();
    assert_eq!(
        text(store.create_index(&table, "one_x", true, &["x"])),
        "table \"t\": there is a row with the key (0) of index \"one_x\" already"
    );
    store.create_index(&table, "again", false, &["x"]).unwrap();
    let again = table.index("again").unwrap();
    assert_eq!(
        text(before.scan(&again, &again.all(), Direction::Ascending).map(drop)),
        "index \"again\" of table \"t\" was made after the snapshot"
    );
    store.drop_index(&table, "by_x").unwrap();
    let said = "index \"by_x\" of table \"t\" was dropped";
    assert_eq!(
        text(before.scan(&by_x, &by_x.all(), Direction::Ascending).map(drop)),
        said
    );
    let transaction = session.begin().unwrap();
    assert_eq!(
        text(transaction.first(&by_x, &by_x.all(), Direction::Ascending, Lock::Shared)),
        said
    );
    assert_eq!(
        text(
            transaction
                .scan(&by_x, &by_x.all(), Direction::Ascending, Lock::Shared)
                .map(drop)
        ),
        said
    );
    drop(transaction);
    // Waits for who uses the table.
    session.set_lock_timeout(Duration::ZERO);
    store.drop_table("t").unwrap();
    let transaction = session.begin().unwrap();
    assert_eq!(
        text(insert(&transaction, &table, 1, 1)),
        "table \"t\" was dropped"
    );
    // An old snapshot still shows what it showed.
    assert_eq!(before.rows(&table, 0..10).unwrap().count(), 2);
    assert!(store.tables().is_empty());
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
