//! Schemas and constraints last: after crashes, in checkpoints, backups, followers, restored stores, and in folders of before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    Archive, CheckDef, Follower, ForeignKeyDef, Options, ReferentialAction, Result, SequenceDef, Store,
    StoreError, Table, TableDef, Type, Until, Value, restore_to_on, verify_on,
};

use crate::crash_twin::random::Random;
use crate::refusal_support::text;

fn options() -> Options {
    Options {
        checkpoint_log_bytes: 0,
        flush_every: Duration::from_millis(1),
        ..Options::default()
    }
}

fn open(disk: &Twin) -> Store {
    Store::open_on(Arc::new(disk.clone()), options()).unwrap_or_else(|error| panic!("{error}"))
}

fn parent(schema: &str) -> TableDef {
    TableDef::new("parent")
        .in_schema(schema)
        .column("id", Type::I64)
        .primary_key(&["id"])
}

fn child(schema: &str) -> TableDef {
    TableDef::new("child")
        .in_schema(schema)
        .column("id", Type::I64)
        .nullable("parent", Type::I64)
        .primary_key(&["id"])
}

fn key(schema: &str) -> ForeignKeyDef {
    ForeignKeyDef::new("up", &["parent"], "parent", &["id"])
        .in_schema(schema)
        .on_delete(ReferentialAction::Cascade)
        .on_update(ReferentialAction::Restrict)
}

/// The names of schemas, and definitions by schema and name.
type Definitions = (BTreeSet<String>, BTreeMap<(String, String), TableDef>);

fn definitions(schemas: Vec<String>, tables: &[Table]) -> Definitions {
    let by_name = |table: &Table| {
        let name = (table.schema().to_owned(), table.name().to_owned());
        (name, table.definition())
    };
    (
        schemas.into_iter().collect(),
        tables.iter().map(by_name).collect(),
    )
}

fn of(store: &Store) -> Definitions {
    definitions(store.schemas(), &store.tables())
}

/// Every row of a child refers to a row of its parent, and foreign keys are in force.
fn check_rows(store: &Store) {
    let snapshot = store.snapshot().unwrap();
    for child in store.tables().iter().filter(|table| table.name() == "child") {
        for key in &child.definition().foreign_keys {
            let parent = store.table_in(&key.schema, &key.table).unwrap();
            let ids: BTreeSet<i64> = snapshot
                .rows(&parent, 0..parent.rid_end())
                .unwrap()
                .map(|found| found.row.int(0))
                .collect();
            let orphan = snapshot
                .rows(child, 0..child.rid_end())
                .unwrap()
                .find(|found| !found.row.is_null(1) && !ids.contains(&found.row.int(1)));
            assert_eq!(orphan, None);
            let mut session = store.session_here().unwrap();
            let transaction = session.begin().unwrap();
            let mut row = child.new_row();
            row.set(0, 1_000_000).unwrap();
            row.set(1, 1_000_000).unwrap();
            let refused = transaction.insert(child, &row);
            assert!(matches!(refused, Err(StoreError::ForeignKey(_))), "{refused:?}");
        }
    }
}

/// Some rows of both tables of a schema.
fn put(store: &Store, schema: &str, random: &mut Random) {
    let (Ok(parent), Ok(child)) = (store.table_in(schema, "parent"), store.table_in(schema, "child")) else {
        return;
    };
    let mut session = store.session_here().unwrap();
    for _ in 0..10 {
        let (id, up) = (random.below(30) as i64, random.below(30) as i64);
        let kind = random.below(4);
        let done = session.run(|transaction| {
            let (mut of_parent, mut of_child) = (parent.new_row(), child.new_row());
            of_parent.set(0, id)?;
            of_child.set(0, id)?;
            of_child.set(1, up)?;
            match kind {
                0 => transaction.upsert(&child, &of_child).map(drop),
                1 => transaction.delete_by_key(&parent, &[id.into()]).map(drop),
                _ => transaction.upsert(&parent, &of_parent).map(drop),
            }
        });
        assert!(
            matches!(done, Ok(()) | Err(StoreError::ForeignKey(_))),
            "{done:?}"
        );
    }
}

/// One change of definitions, which may be refused.
fn define(store: &Store, random: &mut Random) -> Result<()> {
    let schema = ["public", "a", "b"][random.below(3) as usize];
    let child_table = || store.table_in(schema, "child");
    match random.below(11) {
        0 | 1 => store.create_schema(schema),
        2 => store.drop_schema(schema),
        3 => store.create_table(parent(schema)).map(drop),
        4 => store.create_table(child(schema)).map(drop),
        5 => store
            .create_table(
                child(schema)
                    .with_foreign_key(key(schema))
                    .check_constraint("c", "id < 30"),
            )
            .map(drop),
        6 => store.add_foreign_key(&child_table()?, key(schema)),
        7 => store.add_check(&child_table()?, CheckDef::new("d", "id >= 0")),
        8 => {
            let name = ["up", "c", "d"][random.below(3) as usize];
            store.drop_constraint(&child_table()?, name)
        }
        9 => store
            .truncate_table_in(schema, ["child", "parent"][random.below(2) as usize])
            .map(drop),
        _ => store.drop_table_in(schema, ["child", "parent"][random.below(2) as usize]),
    }
}

#[test]
fn definitions_last_through_crashes_checkpoints_backups_and_followers() {
    let (mut made, mut refused) = (0, 0);
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut disk = Twin::new(seed);
        let mut store = open(&disk);
        let mut follower: Option<Follower> = None;
        for round in 0..120 {
            let before = of(&store);
            match random.below(12) {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    follower = None;
                    drop(store);
                    disk = disk.crash(seed * 1000 + round);
                    store = open(&disk);
                    assert_eq!(of(&store), before, "seed {seed}, round {round}");
                    // It says that those of before are on disk, for a follower.
                    let said = store.create_sequence(SequenceDef::new("s"));
                    assert!(said.is_ok() || store.drop_sequence("s").is_ok());
                }
                2 => {
                    let copy: Arc<dyn Storage> = Arc::new(Twin::new(seed));
                    store.backup_on(&copy).unwrap();
                    verify_on(&copy).unwrap();
                    let copy = Store::open_on(copy, options()).unwrap();
                    assert_eq!(of(&copy), before);
                    check_rows(&copy);
                }
                3 => {
                    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
                    follower = Some(Follower::open_on(&storage, options()).unwrap());
                }
                4 | 5 => put(
                    &store,
                    ["public", "a", "b"][random.below(3) as usize],
                    &mut random,
                ),
                _ => match define(&store, &mut random) {
                    Ok(()) => made += 1,
                    Err(
                        StoreError::Exists { .. }
                        | StoreError::NoTable { .. }
                        | StoreError::NoSchema { .. }
                        | StoreError::SchemaInUse { .. }
                        | StoreError::Referenced { .. }
                        | StoreError::NoConstraint { .. }
                        | StoreError::ForeignKey(_),
                    ) => {
                        refused += 1;
                        assert_eq!(of(&store), before);
                    }
                    Err(error) => panic!("{error}"),
                },
            }
            check_rows(&store);
            if let Some(follower) = &follower {
                let last = store.flush().unwrap();
                assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
                let found = definitions(follower.schemas(), &follower.tables());
                assert_eq!(found, of(&store), "seed {seed}, round {round}");
            }
        }
        if let Some(follower) = follower {
            let folder = tempfile::tempdir().unwrap();
            follower.backup(folder.path().join("copy")).unwrap();
            let copy = Store::open(folder.path().join("copy"), options()).unwrap();
            assert_eq!(of(&copy), of(&store));
            check_rows(&copy);
        }
    }
    assert!(made > 200 && refused > 200, "{made} {refused}");
}

#[test]
fn a_crash_at_any_write_leaves_definitions_as_before_or_after() {
    let (mut as_before, mut as_after) = (0, 0);
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let disk = Twin::new(seed);
        let store = open(&disk);
        store.create_schema("a").unwrap();
        store.create_table(parent("a")).unwrap();
        store.create_table(child("a")).unwrap();
        put(&store, "a", &mut random);
        store.drop_table_in("a", "child").unwrap();
        store.create_table(child("a").with_foreign_key(key("a"))).unwrap();
        for _ in 0..5 {
            put(&store, "a", &mut random);
        }
        let before = of(&store);
        disk.stop_after(random.below(10));
        let after = match define(&store, &mut random) {
            Ok(()) => Some(of(&store)),
            Err(_) => None,
        };
        // In memory it may be there although it is not on disk.
        let perhaps = of(&store);
        drop(store);
        let store = open(&disk.crash(seed));
        let found = of(&store);
        match after {
            Some(after) => assert_eq!(found, after, "seed {seed}"),
            None => assert!(found == before || found == perhaps, "seed {seed}: {found:?}"),
        }
        as_before += usize::from(found == before);
        as_after += usize::from(found != before);
        check_rows(&store);
    }
    assert!(as_before > 20 && as_after > 10, "{as_before} {as_after}");
}

#[test]
fn two_schemas_have_tables_and_sequences_of_one_name() {
    let disk = Twin::new(1);
    let store = open(&disk);
    assert_eq!(store.schemas(), ["public"]);
    assert_eq!(
        text(store.create_table(parent("sales"))),
        "there is no schema \"sales\"; there are public"
    );
    for name in ["sales", "crm"] {
        store.create_schema(name).unwrap();
    }
    assert_eq!(
        text(store.create_schema("crm")),
        "there is a schema \"crm\" already"
    );
    assert_eq!(
        text(store.create_schema("public")),
        "there is a schema \"public\" already"
    );
    assert!(text(store.create_schema("")).contains("is empty"));
    assert_eq!(store.schemas(), ["public", "crm", "sales"]);
    for schema in ["public", "sales", "crm"] {
        store.create_table(parent(schema)).unwrap();
    }
    assert_eq!(
        text(store.create_table(parent("sales"))),
        "there is a table \"sales.parent\" already"
    );
    let sales = store.table_in("sales", "parent").unwrap();
    assert_eq!((sales.schema(), sales.name()), ("sales", "parent"));
    assert_eq!(format!("{sales:?}"), "Table(sales.parent)");
    assert!(
        store
            .create_table_if_missing(parent("sales"))
            .unwrap()
            .is_same(&sales)
    );
    assert_eq!(
        text(store.table_in("sales", "x")),
        "there is no table \"sales.x\"; there are crm.parent, parent, sales.parent"
    );
    let mut row = sales.new_row();
    row.set(0, 1).unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| transaction.insert(&sales, &row))
        .unwrap();
    let twice = session.run(|transaction| transaction.insert(&sales, &row));
    assert!(text(twice).starts_with("table \"sales.parent\": there is a row with the key (1)"));
    // A table refers to one of another schema.
    let of_crm = store
        .create_table(child("crm").with_foreign_key(key("sales")))
        .unwrap();
    let mut row = of_crm.new_row();
    row.set(0, 1).unwrap();
    row.set(1, 2).unwrap();
    let refused = session.run(|transaction| transaction.insert(&of_crm, &row));
    assert!(
        text(refused).ends_with("on table \"crm.child\" violates foreign key constraint \"up\": key (parent)=(2) is not present in table \"sales.parent\"")
    );
    let sequence = store
        .create_sequence(SequenceDef::new("numbers").in_schema("crm"))
        .unwrap();
    store.create_sequence(SequenceDef::new("numbers")).unwrap();
    assert!(matches!(
        store.create_sequence(SequenceDef::new("numbers").in_schema("x")),
        Err(StoreError::NoSchema { .. })
    ));
    assert_eq!(sequence.next_value().unwrap(), 1);
    assert_eq!(store.sequence("numbers").unwrap().last(), (1, false));
    assert_eq!(
        text(store.drop_schema("crm")),
        "schema \"crm\" cannot be dropped: it has table crm.child, table crm.parent, sequence crm.numbers; drop these first"
    );
    assert_eq!(
        text(store.drop_schema("public")),
        "schema \"public\" cannot be dropped: it is always there"
    );
    assert!(text(store.drop_schema("x")).contains("there is no schema \"x\"; there are public, crm, sales"));
    assert_eq!(
        text(store.sequence_in("sales", "numbers")),
        "there is no sequence \"sales.numbers\""
    );
    drop((session, sales, of_crm, sequence));
    store.close().unwrap();

    let store = open(&disk);
    assert_eq!(
        store.sequence_in("crm", "numbers").unwrap().next_value().unwrap(),
        33
    );
    store.checkpoint().unwrap();
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(
        store.sequence_in("crm", "numbers").unwrap().definition().schema,
        "crm"
    );
    store.drop_table_in("crm", "child").unwrap();
    store.drop_table_in("crm", "parent").unwrap();
    store.drop_sequence_in("crm", "numbers").unwrap();
    store.drop_schema("crm").unwrap();
    assert_eq!(store.schemas(), ["public", "sales"]);
    assert_eq!(store.sequence("numbers").unwrap().next_value().unwrap(), 1);
    store.close().unwrap();
    assert_eq!(open(&disk).schemas(), ["public", "sales"]);
}

#[test]
fn a_store_restored_to_a_moment_has_its_constraints() {
    let (disk, archive) = (Twin::new(1), Archive::on(Arc::new(Twin::new(2))));
    let options = Options {
        archive: Some(archive.clone()),
        ..options()
    };
    let store = Store::open_on(Arc::new(disk), options.clone()).unwrap();
    let backup: Arc<dyn Storage> = Arc::new(Twin::new(3));
    store.backup_on(&backup).unwrap();
    store.create_schema("a").unwrap();
    store.create_table(parent("a")).unwrap();
    let table = store.create_table(child("a").with_foreign_key(key("a"))).unwrap();
    let with = (store.flush().unwrap(), of(&store));
    store.drop_constraint(&table, "up").unwrap();
    let without = (store.flush().unwrap(), of(&store));
    store.checkpoint().unwrap();
    store.archive_log().unwrap();
    for (at, (ts, expected)) in [with, without].into_iter().enumerate() {
        let target: Arc<dyn Storage> = Arc::new(Twin::new(10 + at as u64));
        restore_to_on(&backup, &archive, Until::Ts(ts), &target).unwrap();
        let restored = Store::open_on(target, self::options()).unwrap();
        assert_eq!(of(&restored), expected);
    }
}

/// A folder that the program before constraints has written.
#[test]
fn a_folder_of_the_third_format_opens_and_takes_constraints() {
    let disk = Twin::new(1);
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-3");
    for entry in std::fs::read_dir(fixture).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        disk.put(name, &std::fs::read(&path).unwrap());
    }
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let verified = verify_on(&storage).unwrap();
    let rows: Vec<_> = verified
        .tables
        .iter()
        .map(|table| (&*table.name, table.rows))
        .collect();
    assert_eq!(rows, [("customer", 50), ("late", 0), ("orders", 191)]);
    let store = open(&disk);
    assert_eq!(store.schemas(), ["public"]);
    let (customer, orders) = (store.table("customer").unwrap(), store.table("orders").unwrap());
    for table in store.tables() {
        let definition = table.definition();
        assert_eq!(definition.schema, "public");
        assert!(definition.foreign_keys.is_empty() && definition.checks.is_empty());
    }
    let snapshot = store.snapshot().unwrap();
    let states = snapshot.rows(&customer, 0..customer.rid_end()).unwrap();
    let changed = states.filter(|found| found.row.text("state") == "log").count();
    assert_eq!(changed, 5);
    drop(snapshot);
    // Nine of its numbers were given out, in blocks of four.
    let numbers = store.sequence("numbers").unwrap();
    assert_eq!((numbers.last(), numbers.next_value().unwrap()), ((65, true), 70));
    assert_eq!(store.sequence("other").unwrap().next_value().unwrap(), 33);

    let by_customer = ForeignKeyDef::new("by_customer", &["customer_id"], "customer", &["id"]);
    let by_customer = by_customer.on_delete(ReferentialAction::Cascade);
    store.add_foreign_key(&orders, by_customer.clone()).unwrap();
    store.create_schema("more").unwrap();
    numbers.set(1000, false).unwrap();
    let mut session = store.session_here().unwrap();
    let gone = session.run(|transaction| transaction.delete_by_key(&customer, &[Value::Int(49)]));
    assert!(gone.unwrap());
    let rows = (customer.rows(), orders.rows());
    assert!(rows.1 < 191);
    drop((session, customer, orders, numbers));
    for round in 0..3 {
        store_check(&open_again(&disk, &store, round), &by_customer, rows);
    }
}

fn open_again(disk: &Twin, store: &Store, round: u64) -> Store {
    if round == 0 {
        store.close().unwrap();
    }
    open(disk)
}

fn store_check(store: &Store, key: &ForeignKeyDef, rows: (u64, u64)) {
    let (customer, orders) = (store.table("customer").unwrap(), store.table("orders").unwrap());
    assert_eq!((customer.rows(), orders.rows()), rows);
    assert_eq!(orders.definition().foreign_keys, std::slice::from_ref(key));
    assert_eq!(store.schemas(), ["public", "more"]);
    assert_eq!(store.sequence("numbers").unwrap().last(), (1000, false));
    store.checkpoint().unwrap();
    store.close().unwrap();
}
