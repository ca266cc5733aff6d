//! Foreign keys, checks and schemas inside transactions: made, carried along, refused, taken back, and shown to others at the commit.

use std::sync::Arc;
use std::time::Duration;

use corun_store::storage::{Storage, Twin};
use corun_store::{
    CheckDef, ColumnDef, Durability, Follower, ForeignKeyDef, Options, ReferentialAction, Result, Store,
    StoreError, Table, TableDef, Transaction, Type, Value, verify_on,
};

use super::{dump, open, options};
use crate::foreign_keys::put;
use crate::refusal_support::text;

fn parent() -> TableDef {
    TableDef::new("parent")
        .column("id", Type::I64)
        .nullable("code", Type::I64)
        .nullable("note", Type::I64)
        .primary_key(&["id"])
        .unique("by_code", &["code"])
}

pub(super) fn child() -> TableDef {
    TableDef::new("child")
        .column("id", Type::I64)
        .nullable("up", Type::I64)
        .nullable("note", Type::I64)
        .primary_key(&["id"])
}

pub(super) fn up() -> ForeignKeyDef {
    ForeignKeyDef::new("up", &["up"], "parent", &["id"])
}

/// Parents 1 to 3 and children 1 to 3 of theirs.
fn family(transaction: &Transaction<'_>) -> Result<(Table, Table)> {
    let parent = transaction.create_table(parent())?;
    let child = child()
        .with_foreign_key(up())
        .check_constraint("small", "id < 99");
    let child = transaction.create_table(child)?;
    for id in 1..4 {
        put(transaction, &parent, &[id.into(), (id * 10).into()])?;
        put(transaction, &child, &[id.into(), id.into()])?;
    }
    Ok((parent, child))
}

pub(super) fn with_family(store: &Store) -> (Table, Table) {
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    family(&transaction).unwrap();
    transaction.commit_with(Durability::Durable).unwrap();
    (store.table("parent").unwrap(), store.table("child").unwrap())
}

fn key_of(table: &Table) -> ForeignKeyDef {
    table.definition().foreign_keys[0].clone()
}

/// Whether the child's foreign key refuses what it must.
fn enforced(transaction: &Transaction<'_>, parent: &Table, child: &Table) {
    let orphan = put(transaction, child, &[50.into(), 77.into()]);
    let name = &child.definition().name;
    assert!(
        text(orphan).contains(&format!("insert or update on table \"{name}\"")),
        "{name}"
    );
    let still = text(transaction.delete_by_key(parent, &[1.into()]));
    assert!(still.contains("is still referenced from table"), "{still}");
    put(transaction, child, &[60.into(), 2.into()]).unwrap();
    transaction.delete_by_key(child, &[60.into()]).unwrap();
}

/// The same by a transaction of its own.
pub(super) fn enforced_in(store: &Store, parent: &str, child: &str) {
    let before = dump(store);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let (parent, child) = (store.table(parent).unwrap(), store.table(child).unwrap());
    enforced(&transaction, &parent, &child);
    transaction.abort();
    assert_eq!(dump(store), before);
}

/// The same in the store, when it is opened again, of copies of it and of a follower.
fn enforced_everywhere(disk: &Twin, store: &Store, parent: &str, child: &str) {
    let check = |store: &Store| enforced_in(store, parent, child);
    check(store);
    check(&open(&disk.crash(1)));
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let follower = Follower::open_on(&storage, options()).unwrap();
    let last = store.flush().unwrap();
    assert!(follower.wait_for(last, Duration::from_secs(60)).unwrap());
    let definitions = follower
        .tables()
        .iter()
        .map(Table::definition)
        .collect::<Vec<_>>();
    let of_store = store.tables().iter().map(Table::definition).collect::<Vec<_>>();
    assert_eq!(definitions, of_store);
    store.checkpoint().unwrap();
    let copy = disk.crash(2);
    check(&open(&copy));
    verify_on(&(Arc::new(copy) as Arc<dyn Storage>)).unwrap();
}

#[test]
fn two_tables_and_their_rows_are_one_commit() {
    let disk = Twin::new(1);
    let store = open(&disk);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let (parent, child) = family(&transaction).unwrap();
    enforced(&transaction, &parent, &child);
    assert!(store.tables().is_empty());
    store.checkpoint().unwrap();
    transaction.abort();
    assert!(store.tables().is_empty());
    assert!(open(&disk.crash(1)).tables().is_empty());

    let mut transaction = session.begin().unwrap();
    let savepoint = transaction.savepoint();
    family(&transaction).unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    assert!(transaction.tables().is_empty());
    let (parent, child) = family(&transaction).unwrap();
    enforced(&transaction, &parent, &child);
    transaction.commit().unwrap();
    drop(session);
    enforced_everywhere(&disk, &store, "parent", "child");
}

#[test]
fn a_child_without_its_parent_cannot_be_made() {
    let store = Store::in_memory(Options::default()).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let refused = transaction.create_table(child().with_foreign_key(up()));
    assert!(text(refused).contains("no table \"parent\""));
    transaction.create_table(parent()).unwrap();
    let key = ForeignKeyDef::new("x", &["up"], "parent", &["note"]);
    let refused = text(transaction.create_table(child().with_foreign_key(key)));
    assert!(
        refused.contains("no unique index of the columns (note)"),
        "{refused}"
    );
    transaction.create_table(child().with_foreign_key(up())).unwrap();
    transaction.drop_table("child").unwrap();
    transaction.drop_table("parent").unwrap();
    transaction.commit().unwrap();
    assert!(store.tables().is_empty());
}

#[test]
fn constraints_go_along_with_tables_that_are_emptied_and_written_again() {
    for commits in [true, false] {
        let disk = Twin::new(1);
        let store = open(&disk);
        with_family(&store);
        let before = dump(&store);
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        let (parent, child) = (
            transaction.table("parent").unwrap(),
            transaction.table("child").unwrap(),
        );
        let definition = child.definition();
        // The parent's rows, then the child's are written again, then both once more.
        let parent = transaction.drop_column(&parent, "note").unwrap();
        enforced(&transaction, &parent, &child);
        let child = transaction.set_not_null(&child, "up").unwrap();
        enforced(&transaction, &parent, &child);
        let child = transaction.drop_column(&child, "note").unwrap();
        let parent = transaction.set_not_null(&parent, "code").unwrap();
        enforced(&transaction, &parent, &child);
        let now = child.definition();
        assert_eq!(
            (now.foreign_keys, now.checks),
            (definition.foreign_keys.clone(), definition.checks.clone())
        );
        let child = transaction.truncate_table("child").unwrap();
        assert_eq!(child.definition().foreign_keys, definition.foreign_keys);
        assert_eq!(child.definition().checks, definition.checks);
        assert!(text(put(&transaction, &child, &[1.into(), 9.into()])).contains("is not present"));
        put(&transaction, &child, &[1.into(), 1.into()]).unwrap();
        enforced(&transaction, &parent, &child);
        assert_eq!(dump(&store), before);
        match commits {
            true => drop(transaction.commit().unwrap()),
            false => transaction.abort(),
        }
        drop(session);
        assert_eq!(dump(&store) == before, !commits);
        enforced_everywhere(&disk, &store, "parent", "child");
    }
}

#[test]
fn a_table_that_refers_to_itself_is_emptied_written_again_and_renamed() {
    let store = Store::in_memory(Options::default()).unwrap();
    let tree = TableDef::new("tree")
        .column("id", Type::I64)
        .nullable("up", Type::I64)
        .nullable("x", Type::I64)
        .primary_key(&["id"])
        .foreign_key("up", &["up"], "tree", &["id"]);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let tree = transaction.create_table(tree).unwrap();
    put(&transaction, &tree, &[1.into(), Value::Null]).unwrap();
    put(&transaction, &tree, &[2.into(), 1.into()]).unwrap();
    let tree = transaction.drop_column(&tree, "x").unwrap();
    assert!(text(put(&transaction, &tree, &[3.into(), 9.into()])).contains("is not present"));
    assert!(text(transaction.delete_by_key(&tree, &[1.into()])).contains("still referenced"));
    let tree = transaction.truncate_table("tree").unwrap();
    assert!(text(put(&transaction, &tree, &[2.into(), 1.into()])).contains("is not present"));
    transaction.rename_table("tree", "wood").unwrap();
    transaction.rename_column(&tree, "id", "number").unwrap();
    transaction.rename_column(&tree, "up", "above").unwrap();
    let expected = ForeignKeyDef::new("up", &["above"], "wood", &["number"]);
    assert_eq!(key_of(&transaction.table("wood").unwrap()), expected);
    let refused = text(put(&transaction, &tree, &[2.into(), 1.into()]));
    assert!(
        refused.contains("key (above)=(1) is not present in table \"wood\""),
        "{refused}"
    );
    transaction.commit().unwrap();
    assert_eq!(key_of(&store.table("wood").unwrap()), expected);
    store.drop_table("wood").unwrap();
}

#[test]
fn foreign_keys_follow_tables_and_columns_that_get_other_names() {
    let disk = Twin::new(1);
    let store = open(&disk);
    let (parent, child) = with_family(&store);
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    let savepoint = transaction.savepoint();
    for round in 0..2 {
        transaction.rename_table("parent", "above").unwrap();
        transaction.rename_column(&parent, "id", "number").unwrap();
        let within = transaction.table("child").unwrap();
        let of_parent = ForeignKeyDef::new("up", &["up"], "above", &["number"]);
        assert_eq!(key_of(&within), of_parent);
        assert_eq!(key_of(&child), up(), "others do not see it");
        transaction.rename_column(&child, "up", "of").unwrap();
        transaction.rename_table("child", "below").unwrap();
        let within = transaction.table("below").unwrap();
        let expected = ForeignKeyDef::new("up", &["of"], "above", &["number"]);
        assert_eq!(key_of(&within), expected);
        enforced(&transaction, &transaction.table("above").unwrap(), &within);
        // One who makes a table of the old name does not become the parent.
        assert!(text(transaction.drop_table("above")).contains("foreign key \"up\" of table \"below\""));
        if round == 0 {
            transaction.rollback_to(&savepoint).unwrap();
            assert_eq!(key_of(&transaction.table("child").unwrap()), up());
        }
    }
    transaction.create_table(self::parent()).unwrap();
    store.checkpoint().unwrap();
    transaction.commit().unwrap();
    drop(session);
    let expected = ForeignKeyDef::new("up", &["of"], "above", &["number"]);
    assert_eq!(key_of(&child), expected);
    enforced_everywhere(&disk, &store, "above", "below");
    store.rename_table("above", "parent_2").unwrap();
    store
        .rename_column(&store.table("parent_2").unwrap(), "number", "id")
        .unwrap();
    assert_eq!(
        key_of(&child),
        ForeignKeyDef::new("up", &["of"], "parent_2", &["id"])
    );
    enforced_everywhere(&disk, &store, "parent_2", "below");
}

#[test]
fn columns_of_foreign_keys_are_not_dropped() {
    let store = Store::in_memory(Options::default()).unwrap();
    let (parent, child) = with_family(&store);
    let of_own = text(store.drop_column(&child, "up"));
    assert_eq!(
        of_own,
        "column \"up\" of table \"child\" is in foreign key \"up\" of table \"child\"; drop that constraint first"
    );
    let referenced = text(store.drop_column(&parent, "id"));
    assert_eq!(
        referenced,
        "column \"id\" of table \"parent\" is in foreign key \"up\" of table \"child\"; drop that constraint first"
    );
    store.drop_constraint(&child, "up").unwrap();
    let child = store.drop_column(&child, "up").unwrap();
    assert!(child.column("up").is_none());
    assert_eq!(child.definition().checks, [CheckDef::new("small", "id < 99")]);
}

#[test]
fn what_is_referred_to_stays_in_transactions_too() {
    let store = Store::in_memory(Options::default()).unwrap();
    let (parent, child) = with_family(&store);
    let before = dump(&store);
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    let needs = "foreign key \"up\" of table \"child\" needs it";
    assert!(text(transaction.drop_table("parent")).contains(needs));
    assert!(text(transaction.truncate_table("parent")).contains(needs));
    let by_code = ForeignKeyDef::new("code", &["note"], "parent", &["code"]);
    transaction.add_foreign_key(&child, by_code).unwrap();
    assert!(
        text(transaction.drop_index(&parent, "by_code")).contains("foreign key \"code\" of table \"child\"")
    );
    let savepoint = transaction.savepoint();
    transaction.drop_constraint(&child, "code").unwrap();
    transaction.drop_index(&parent, "by_code").unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    assert!(text(transaction.drop_index(&parent, "by_code")).contains("foreign key \"code\""));
    // The child first, then the parent; and back.
    transaction.drop_table("child").unwrap();
    put(&transaction, &parent, &[8.into(), 80.into()]).unwrap();
    transaction.delete_by_key(&parent, &[1.into()]).unwrap();
    transaction.truncate_table("parent").unwrap();
    transaction.drop_table("parent").unwrap();
    assert!(transaction.tables().is_empty());
    transaction.rollback_to(&savepoint).unwrap();
    enforced(&transaction, &parent, &child);
    transaction.abort();
    assert_eq!(dump(&store), before);
    let transaction = session.begin().unwrap();
    enforced(&transaction, &parent, &child);
}

#[test]
fn constraints_come_and_go_within_a_transaction() {
    let disk = Twin::new(1);
    let store = open(&disk);
    let parent = store.create_table(parent()).unwrap();
    let child = store.create_table(child()).unwrap();
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    put(&transaction, &parent, &[1.into()]).unwrap();
    put(&transaction, &child, &[1.into(), 1.into()]).unwrap();
    put(&transaction, &child, &[2.into(), 2.into()]).unwrap();
    // Its own rows count.
    let refused = text(transaction.add_foreign_key(&child, up()));
    assert!(refused.contains("key (up)=(2) is not present"), "{refused}");
    put(&transaction, &child, &[3.into(), 3.into()]).unwrap();
    transaction.delete_by_key(&child, &[3.into()]).unwrap();
    put(&transaction, &parent, &[2.into()]).unwrap();
    let without = transaction.savepoint();
    transaction.add_foreign_key(&child, up()).unwrap();
    transaction
        .add_check(&child, CheckDef::new("c", "id > 0"))
        .unwrap();
    assert!(text(transaction.add_check(&child, CheckDef::new("up", "true"))).contains("a constraint \"up\""));
    let within = transaction.table("child").unwrap();
    assert_eq!(within.definition().foreign_keys, [up()]);
    assert_eq!(within.definition().checks, [CheckDef::new("c", "id > 0")]);
    enforced(&transaction, &parent, &child);
    assert_eq!(child.definition(), self::child());
    let with = transaction.savepoint();
    transaction.drop_constraint(&child, "up").unwrap();
    transaction.drop_constraint(&child, "c").unwrap();
    assert!(text(transaction.drop_constraint(&child, "c")).contains("has no constraint \"c\""));
    put(&transaction, &child, &[9.into(), 9.into()]).unwrap();
    transaction.rollback_to(&with).unwrap();
    assert_eq!(within.definition().checks, [CheckDef::new("c", "id > 0")]);
    enforced(&transaction, &parent, &child);
    transaction.rollback_to(&without).unwrap();
    assert_eq!(within.definition(), self::child());
    put(&transaction, &child, &[9.into(), 9.into()]).unwrap();
    transaction.delete_by_key(&child, &[9.into()]).unwrap();
    transaction.add_foreign_key(&child, up()).unwrap();
    transaction.commit().unwrap();
    drop(session);
    assert_eq!(key_of(&child), up());
    enforced_everywhere(&disk, &store, "parent", "child");
}

#[test]
fn nobody_else_writes_the_tables_of_a_foreign_key_that_is_not_committed() {
    let store = Store::in_memory(options()).unwrap();
    let parent = store.create_table(parent()).unwrap();
    let child = store.create_table(child()).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    transaction.add_foreign_key(&child, up()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = store.session_here().unwrap();
            for table in [&parent, &child] {
                let refused = other.begin().unwrap().delete_by_key(table, &[1.into()]);
                assert!(matches!(refused, Err(StoreError::Lock(_))), "{refused:?}");
            }
            assert!(
                other
                    .begin()
                    .unwrap()
                    .fetch(&parent.primary(), &[1.into()])
                    .unwrap()
                    .is_none()
            );
            assert_eq!(store.snapshot().unwrap().rows(&child, 0..9).unwrap().count(), 0);
        });
    });
    put(&transaction, &parent, &[1.into()]).unwrap();
    put(&transaction, &child, &[1.into(), 1.into()]).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn schemas_are_part_of_transactions() {
    let disk = Twin::new(1);
    let store = open(&disk);
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    let refused = transaction.create_table(parent().in_schema("sales"));
    assert!(text(refused).contains("no schema \"sales\""));
    let savepoint = transaction.savepoint();
    for round in 0..2 {
        transaction.create_schema("sales").unwrap();
        assert!(text(transaction.create_schema("sales")).contains("a schema \"sales\""));
        transaction.create_table(parent().in_schema("sales")).unwrap();
        transaction.create_table(parent()).unwrap();
        let key = up().in_schema("sales").on_delete(ReferentialAction::Cascade);
        let child = transaction
            .create_table(child().in_schema("sales").with_foreign_key(key))
            .unwrap();
        let sales = transaction.table_in("sales", "parent").unwrap();
        put(&transaction, &transaction.table("parent").unwrap(), &[1.into()]).unwrap();
        let orphan = text(put(&transaction, &child, &[1.into(), 1.into()]));
        assert!(
            orphan.contains("not present in table \"sales.parent\""),
            "{orphan}"
        );
        put(&transaction, &sales, &[1.into()]).unwrap();
        put(&transaction, &child, &[1.into(), 1.into()]).unwrap();
        transaction
            .rename_table_in("sales", "parent", "customer")
            .unwrap();
        assert_eq!(key_of(&child).table, "customer");
        assert!(text(transaction.drop_schema("sales")).contains("table sales.child, table sales.customer"));
        assert_eq!(transaction.schemas(), ["public", "sales"]);
        assert_eq!(store.schemas(), ["public"]);
        if round == 0 {
            transaction.rollback_to(&savepoint).unwrap();
            assert_eq!(transaction.schemas(), ["public"]);
            assert!(transaction.tables().is_empty());
        }
    }
    store.checkpoint().unwrap();
    transaction.commit().unwrap();
    let check = |store: &Store| {
        assert_eq!(store.schemas(), ["public", "sales"]);
        let child = store.table_in("sales", "child").unwrap();
        let key = key_of(&child);
        assert_eq!((&*key.schema, &*key.table), ("sales", "customer"));
        let customer = store.table_in("sales", "customer").unwrap();
        assert_eq!((customer.name(), customer.schema()), ("customer", "sales"));
        assert!(store.table_in("sales", "parent").is_err());
    };
    check(&store);
    check(&open(&disk.crash(1)));
    let transaction = session.begin().unwrap();
    transaction.drop_table_in("sales", "child").unwrap();
    transaction.truncate_table_in("sales", "customer").unwrap();
    transaction.drop_table_in("sales", "customer").unwrap();
    transaction.drop_schema("sales").unwrap();
    assert!(text(transaction.drop_schema("sales")).contains("no schema \"sales\""));
    check(&store);
    transaction.commit().unwrap();
    assert_eq!(open(&disk.crash(2)).schemas(), ["public"]);
}

#[test]
fn who_drops_a_schema_waits_for_who_makes_a_table_in_it() {
    let store = Store::in_memory(options()).unwrap();
    store.create_schema("s").unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    transaction.create_table(parent().in_schema("s")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let refused = text(store.drop_schema("s"));
            assert!(refused.contains("the name of a table or a schema"), "{refused}");
            // Others make tables and sequences there meanwhile.
            store.create_table(child().in_schema("s")).unwrap();
            store
                .create_sequence(corun_store::SequenceDef::new("n").in_schema("s"))
                .unwrap();
        });
    });
    transaction.commit().unwrap();
    assert!(text(store.drop_schema("s")).contains("table s.child, table s.parent, sequence s.n"));
}

#[test]
fn checks_that_wait_and_definitions() {
    let store = Store::in_memory(Options::default()).unwrap();
    let (parent, child) = with_family(&store);
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    transaction.defer_foreign_keys().unwrap();
    put(&transaction, &child, &[9.into(), 9.into()]).unwrap();
    let refused = text(transaction.drop_column(&parent, "note"));
    assert!(refused.contains("while checks of foreign keys wait"), "{refused}");
    transaction
        .add_column(&child, ColumnDef::new("more", Type::I64).nullable())
        .unwrap();
    assert!(text(transaction.check_foreign_keys()).contains("key (up)=(9)"));
    put(&transaction, &parent, &[9.into()]).unwrap();
    transaction.check_foreign_keys().unwrap();
    transaction.drop_column(&parent, "note").unwrap();
    transaction.commit().unwrap();

    // Of a constraint that has gone nothing is checked, of a table that was emptied neither.
    let transaction = session.begin().unwrap();
    transaction.defer_foreign_keys().unwrap();
    put(&transaction, &child, &[10.into(), 10.into()]).unwrap();
    let child = transaction.truncate_table("child").unwrap();
    put(&transaction, &child, &[11.into(), 11.into()]).unwrap();
    transaction.drop_constraint(&child, "up").unwrap();
    transaction.commit().unwrap();
    assert_eq!(store.table("child").unwrap().rows(), 1);
}

/// Going back to a savepoint takes away what a check has found.
#[test]
fn checks_are_made_again_after_a_rollback_to_a_savepoint() {
    let store = Store::in_memory(Options::default()).unwrap();
    let (parent, child) = with_family(&store);
    let mut session = store.session_here().unwrap();
    let mut transaction = session.begin().unwrap();
    transaction.defer_foreign_keys().unwrap();
    put(&transaction, &child, &[9.into(), 9.into()]).unwrap();
    let savepoint = transaction.savepoint();
    put(&transaction, &parent, &[9.into()]).unwrap();
    transaction.check_foreign_keys().unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    assert!(text(transaction.commit()).contains("key (up)=(9) is not present"));
    assert_eq!(child.rows(), 3);

    let mut transaction = session.begin().unwrap();
    transaction.defer_foreign_keys().unwrap();
    put(&transaction, &child, &[9.into(), 9.into()]).unwrap();
    let savepoint = transaction.savepoint();
    transaction.truncate_table("child").unwrap();
    transaction.check_foreign_keys().unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    assert!(text(transaction.check_foreign_keys()).contains("key (up)=(9) is not present"));
    put(&transaction, &parent, &[9.into()]).unwrap();
    transaction.commit().unwrap();
    assert_eq!((child.rows(), parent.rows()), (4, 4));
}
