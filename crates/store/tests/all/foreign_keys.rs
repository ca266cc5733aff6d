//! Foreign keys: what they refuse, cascade and set to NULL, and how they come and go. Who waits for whom: `foreign_key_waits`.

use std::time::Duration;

use corun_store::{
    CheckDef, ForeignKeyDef, Options, ReferentialAction, Result, Rid, Store, StoreError, Table, TableDef,
    Transaction, Type, Value,
};

use crate::refusal_support::text;

crate::on_teams!(
    a_row_needs_the_row_it_refers_to,
    a_row_that_is_referred_to_stays,
    cascades_delete_and_rename_and_set_null,
    circles_of_tables_end,
    checks_wait_for_the_end_of_a_statement_if_they_are_told_to,
    tables_and_indexes_that_are_referred_to_stay,
);

pub const CUSTOMER: &str = "customer";

pub fn customer() -> TableDef {
    TableDef::new(CUSTOMER)
        .column("id", Type::I64)
        .nullable("code", Type::Text { max: 10 })
        .nullable("note", Type::I64)
        .primary_key(&["id"])
        .unique("by_code", &["code"])
}

pub fn orders() -> TableDef {
    TableDef::new("orders")
        .column("id", Type::I64)
        .nullable("customer_id", Type::I64)
        .nullable("code", Type::Text { max: 99 })
        .primary_key(&["id"])
}

pub fn by_id(on_delete: ReferentialAction, on_update: ReferentialAction) -> ForeignKeyDef {
    ForeignKeyDef::new("by_id", &["customer_id"], CUSTOMER, &["id"])
        .on_delete(on_delete)
        .on_update(on_update)
}

pub fn put(transaction: &Transaction<'_>, table: &Table, values: &[Value<'_>]) -> Result<Rid> {
    let mut row = table.new_row();
    for (column, value) in values.iter().enumerate() {
        row.set(column, *value)?;
    }
    transaction.insert(table, &row)
}

/// Of all rows, by number, the values of all columns.
fn rows(store: &Store, table: &Table) -> Vec<String> {
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(table, 0..table.rid_end()).unwrap();
    let mut rows: Vec<String> = rows.map(|found| format!("{:?}", found.row)).collect();
    rows.sort();
    rows
}

/// Customers 1 to 3, and two orders of each.
pub struct Shop {
    pub store: Store,
    pub customers: Table,
    pub orders: Table,
}

impl Shop {
    pub fn new(orders: TableDef) -> Shop {
        let options = Options {
            lock_timeout: Duration::from_secs(20),
            ..Options::default()
        };
        let store = Store::in_memory(options).unwrap();
        let customers = store.create_table(customer()).unwrap();
        let orders = store.create_table(orders).unwrap();
        let shop = Shop {
            store,
            customers,
            orders,
        };
        shop.run(|transaction| {
            for id in 1..=3_i64 {
                let code = format!("c{id}");
                put(transaction, &shop.customers, &[id.into(), (&code).into()])?;
                for order in [id * 10, id * 10 + 1] {
                    put(
                        transaction,
                        &shop.orders,
                        &[order.into(), id.into(), (&code).into()],
                    )?;
                }
            }
            Ok(())
        })
        .unwrap();
        shop
    }

    pub fn run<R>(&self, work: impl FnMut(&mut Transaction<'_>) -> Result<R>) -> Result<R> {
        self.store.session_here().unwrap().run(work)
    }

    pub fn delete(&self, id: i64) -> Result<bool> {
        self.run(|transaction| transaction.delete_by_key(&self.customers, &[id.into()]))
    }

    pub fn rename(&self, id: i64, to: i64) -> Result<bool> {
        self.run(|transaction| {
            transaction.update_by_key(&self.customers, &[id.into()], |row| row.set("id", to))
        })
    }

    /// Of all orders: the customer.
    fn customers_of_orders(&self) -> Vec<Option<i64>> {
        let snapshot = self.store.snapshot().unwrap();
        let rows = snapshot.rows(&self.orders, 0..self.orders.rid_end()).unwrap();
        rows.map(|found| found.row.get("customer_id").unwrap()).collect()
    }
}

use ReferentialAction::{Cascade, NoAction, Restrict, SetNull};

/// With and without an index by which orders are found.
pub fn both(key: &ForeignKeyDef) -> [TableDef; 2] {
    let plain = orders().with_foreign_key(key.clone());
    [plain.clone(), plain.index("by_customer", &["customer_id", "id"])]
}

#[test]
fn a_row_needs_the_row_it_refers_to() {
    let shop = Shop::new(orders().foreign_key("by_id", &["customer_id"], CUSTOMER, &["id"]));
    let refused = shop.run(|transaction| put(transaction, &shop.orders, &[1.into(), 7.into()]));
    assert_eq!(
        text(refused),
        "insert or update on table \"orders\" violates foreign key constraint \"by_id\": key (customer_id)=(7) is not present \
         in table \"customer\""
    );
    let change = |to: Option<i64>| {
        shop.run(|transaction| {
            transaction.update_by_key(&shop.orders, &[10.into()], |row| row.set("customer_id", to))
        })
    };
    let StoreError::ForeignKey(violation) = change(Some(9)).unwrap_err() else {
        panic!("another error");
    };
    assert!(!violation.is_referenced);
    assert_eq!(violation.values[0].value(), Value::Int(9));
    // A key with a NULL refers to nothing.
    assert!(change(None).unwrap() && change(Some(3)).unwrap());
    // After a refusal the transaction goes on as before the operation.
    shop.run(|transaction| {
        assert!(put(transaction, &shop.orders, &[1.into(), 7.into()]).is_err());
        put(transaction, &shop.customers, &[7.into()])?;
        put(transaction, &shop.orders, &[1.into(), 7.into()])?;
        let mut row = shop.orders.new_row();
        row.set("id", 1)?;
        row.set("customer_id", 8)?;
        assert!(transaction.upsert(&shop.orders, &row).is_err());
        row.set("customer_id", 2)?;
        transaction.upsert(&shop.orders, &row).map(drop)
    })
    .unwrap();
    assert!(shop.delete(7).unwrap());
}

#[test]
fn a_row_that_is_referred_to_stays() {
    for action in [NoAction, Restrict] {
        for definition in both(&by_id(action, action)) {
            let shop = Shop::new(definition);
            let said = "update or delete on table \"customer\" violates foreign key constraint \"by_id\" on table \"orders\": \
                        key (id)=(2) is still referenced from table \"orders\"";
            assert_eq!(text(shop.delete(2)), said);
            assert_eq!(text(shop.rename(2, 5)), said);
            // What is no key may change.
            shop.run(|transaction| {
                transaction.update_by_key(&shop.customers, &[2.into()], |row| row.set("note", 5))
            })
            .unwrap();
            shop.run(|transaction| {
                for order in [20, 21] {
                    transaction.delete_by_key(&shop.orders, &[order.into()])?;
                }
                transaction.delete_by_key(&shop.customers, &[2.into()])
            })
            .unwrap();
            assert_eq!(shop.customers.rows(), 2);
        }
    }
}

#[test]
fn cascades_delete_and_rename_and_set_null() {
    for definition in both(&by_id(Cascade, Cascade)) {
        let shop = Shop::new(definition);
        assert!(shop.rename(1, 100).unwrap());
        assert_eq!(shop.customers_of_orders(), [100, 100, 2, 2, 3, 3].map(Some));
        assert!(shop.delete(100).unwrap());
        assert_eq!(shop.customers_of_orders(), [2, 2, 3, 3].map(Some));
    }
    for definition in both(&by_id(SetNull, SetNull)) {
        let shop = Shop::new(definition);
        assert!(shop.rename(1, 100).unwrap() && shop.delete(2).unwrap());
        assert_eq!(
            shop.customers_of_orders(),
            [None, None, None, None, Some(3), Some(3)]
        );
    }
    // An aborted cascade is nothing.
    let shop = Shop::new(orders().with_foreign_key(by_id(Cascade, Cascade)));
    let mut session = shop.store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    transaction.delete_by_key(&shop.customers, &[1.into()]).unwrap();
    assert!(!transaction.delete_by_key(&shop.orders, &[10.into()]).unwrap());
    transaction.abort();
    assert_eq!(shop.customers_of_orders().len(), 6);
}

#[test]
fn a_column_without_null_refuses_to_be_set_to_it() {
    let definition = TableDef::new("orders")
        .column("id", Type::I64)
        .column("customer_id", Type::I64)
        .nullable("code", Type::Text { max: 99 })
        .primary_key(&["id"])
        .with_foreign_key(by_id(SetNull, NoAction));
    let shop = Shop::new(definition);
    assert_eq!(text(shop.delete(1)), "column \"customer_id\" cannot be NULL");
    assert_eq!((shop.customers.rows(), shop.orders.rows()), (3, 6));
}

#[test]
fn keys_of_several_columns_and_of_other_indexes() {
    let store = Store::in_memory(Options::default()).unwrap();
    let line = TableDef::new("line")
        .column("id", Type::I64)
        .nullable("a", Type::Text { max: 200 })
        .nullable("b", Type::I32)
        .primary_key(&["id"])
        .with_foreign_key(
            ForeignKeyDef::new("pair", &["a", "b"], "item", &["name", "size"])
                .on_update(Cascade)
                .on_delete(SetNull),
        );
    // The index has the columns the other way round, and its keys are cut.
    let item = TableDef::new("item")
        .column("size", Type::I32)
        .nullable("name", Type::Text { max: 100 })
        .unique("by_size", &["size", "name"]);
    let item = store.create_table(item).unwrap();
    let line = store.create_table(line.index("by_b", &["b", "a", "id"])).unwrap();
    let long = |end: &str| format!("{}{end}", "x".repeat(90));
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            for end in ["1", "2"] {
                put(transaction, &item, &[5.into(), (&long(end)).into()])?;
            }
            put(transaction, &item, &[6.into(), Value::Null])?;
            for (id, end) in [(1, "1"), (2, "2"), (3, "2")] {
                put(transaction, &line, &[id.into(), (&long(end)).into(), 5.into()])?;
            }
            // MATCH SIMPLE: with one NULL it refers to nothing.
            put(transaction, &line, &[4.into(), Value::Null, 77.into()])?;
            let refused = put(transaction, &line, &[5.into(), (&long("3")).into(), 5.into()]);
            assert!(text(refused).contains(&format!("key (a, b)=({}, 5) is not present", long("3"))));
            // Longer than any key there.
            let refused = put(
                transaction,
                &line,
                &[5.into(), (&"y".repeat(200)).into(), 5.into()],
            );
            assert!(matches!(refused, Err(StoreError::ForeignKey(_))));
            transaction.update(&item, Rid(1), |row| row.set("name", long("9").as_str()))?;
            transaction.delete(&item, Rid(0))
        })
        .unwrap();
    let name = format!("'{}'", long("9"));
    let expected = [
        "[Int(1), Null, Null]".to_owned(),
        format!("[Int(2), Text({:?}), Int(5)]", long("9")),
        format!("[Int(3), Text({:?}), Int(5)]", long("9")),
        "[Int(4), Null, Int(77)]".to_owned(),
    ];
    assert_eq!(rows(&store, &line), expected, "{name}");
}

fn tree() -> TableDef {
    TableDef::new("tree")
        .column("id", Type::I64)
        .nullable("up", Type::I64)
        .primary_key(&["id"])
}

#[test]
fn a_table_that_refers_to_itself_and_a_cascade_of_any_depth() {
    const DEPTH: i64 = 20_000;
    let store = Store::in_memory(Options::default()).unwrap();
    let key = ForeignKeyDef::new("up", &["up"], "tree", &["id"]).on_delete(Cascade);
    let table = store
        .create_table(tree().index("by_up", &["up"]).with_foreign_key(key))
        .unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            // A row may refer to itself.
            put(transaction, &table, &[0.into(), 0.into()])?;
            for id in 1..DEPTH {
                put(transaction, &table, &[id.into(), (id - 1).into()])?;
            }
            Ok(())
        })
        .unwrap();
    session
        .run(|transaction| transaction.delete_by_key(&table, &[0.into()]))
        .unwrap();
    assert_eq!(table.rows(), 0);
}

#[test]
fn circles_of_tables_end() {
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = |name: &str| {
        TableDef::new(name)
            .column("id", Type::I64)
            .nullable("other", Type::I64)
            .primary_key(&["id"])
            .index("by_other", &["other"])
    };
    let (a, b) = (
        store.create_table(definition("a")).unwrap(),
        store.create_table(definition("b")).unwrap(),
    );
    let key = |to: &str| {
        ForeignKeyDef::new("other", &["other"], to, &["id"])
            .on_delete(Cascade)
            .on_update(Cascade)
    };
    store.add_foreign_key(&a, key("b")).unwrap();
    store.add_foreign_key(&b, key("a")).unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            put(transaction, &a, &[1.into()])?;
            put(transaction, &b, &[1.into(), 1.into()])?;
            transaction.update_by_key(&a, &[1.into()], |row| row.set("other", 1))?;
            transaction.update_by_key(&a, &[1.into()], |row| row.set("id", 5))
        })
        .unwrap();
    assert_eq!(rows(&store, &a), ["[Int(5), Int(1)]"]);
    assert_eq!(rows(&store, &b), ["[Int(1), Int(5)]"]);
    session
        .run(|transaction| transaction.delete_by_key(&b, &[1.into()]))
        .unwrap();
    assert_eq!((a.rows(), b.rows()), (0, 0));
    // Each keeps the other from being dropped.
    let said = text(store.drop_table("a"));
    assert_eq!(
        said,
        "table \"a\" cannot be dropped: foreign key \"other\" of table \"b\" needs it; drop that first"
    );
    store.drop_constraint(&b, "other").unwrap();
    store.drop_table("a").unwrap();
    store.drop_table("b").unwrap();
}

#[test]
fn no_action_lets_cascades_go_first_and_restrict_does_not() {
    for (action, goes) in [(NoAction, true), (Restrict, false)] {
        let store = Store::in_memory(Options::default()).unwrap();
        let customers = store.create_table(customer()).unwrap();
        // The line refers to the customer with `action`, and goes with the order.
        let line = TableDef::new("line")
            .column("order", Type::I64)
            .column("customer", Type::I64);
        let line = store.create_table(line).unwrap();
        let line_to_customer = ForeignKeyDef::new("c", &["customer"], CUSTOMER, &["id"]).on_delete(action);
        store.add_foreign_key(&line, line_to_customer).unwrap();
        let orders = store
            .create_table(orders().with_foreign_key(by_id(Cascade, NoAction)))
            .unwrap();
        let line_to_order = ForeignKeyDef::new("o", &["order"], "orders", &["id"]).on_delete(Cascade);
        store.add_foreign_key(&line, line_to_order).unwrap();
        let mut session = store.session_here().unwrap();
        let done = session.run(|transaction| {
            put(transaction, &customers, &[1.into()])?;
            put(transaction, &orders, &[10.into(), 1.into()])?;
            put(transaction, &line, &[10.into(), 1.into()])?;
            transaction.delete_by_key(&customers, &[1.into()])
        });
        assert_eq!(done.is_ok(), goes);
        assert_eq!(line.rows() + orders.rows() + customers.rows(), 0);
    }
}

#[test]
fn checks_wait_for_the_end_of_a_statement_if_they_are_told_to() {
    let store = Store::in_memory(Options::default()).unwrap();
    let key = ForeignKeyDef::new("up", &["up"], "tree", &["id"]);
    let table = store.create_table(tree().with_foreign_key(key)).unwrap();
    let mut session = store.session_here().unwrap();
    session
        .run(|transaction| {
            transaction.defer_foreign_keys()?;
            put(transaction, &table, &[1.into(), 2.into()])?;
            put(transaction, &table, &[2.into(), 1.into()])?;
            transaction.check_foreign_keys()?;
            assert!(put(transaction, &table, &[3.into(), 4.into()]).is_err());
            Ok(())
        })
        .unwrap();
    // All rows at once, in any order; and two that change keys.
    session
        .run(|transaction| {
            transaction.defer_foreign_keys()?;
            for (id, to) in [(1, 9), (2, 1), (9, 2)] {
                transaction.update_by_key(&table, &[id.into()], |row| row.set("id", to))?;
            }
            transaction.check_foreign_keys()?;
            transaction.update_by_key(&table, &[2.into()], |row| row.set("up", 1))
        })
        .unwrap();
    let mut transaction = session.begin().unwrap();
    transaction.defer_foreign_keys().unwrap();
    let savepoint = transaction.savepoint();
    transaction.delete_by_key(&table, &[1.into()]).unwrap();
    assert!(text(transaction.check_foreign_keys()).contains("still referenced"));
    // The check waits still, and what is wrong can be mended.
    transaction.delete_by_key(&table, &[2.into()]).unwrap();
    transaction.check_foreign_keys().unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    transaction.check_foreign_keys().unwrap();
    transaction.defer_foreign_keys().unwrap();
    transaction.delete_by_key(&table, &[1.into()]).unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    transaction.check_foreign_keys().unwrap();
    transaction.defer_foreign_keys().unwrap();
    put(&transaction, &table, &[5.into(), 6.into()]).unwrap();
    // A commit makes what waits, and undoes all if that fails.
    assert!(text(transaction.commit()).contains("key (up)=(6) is not present"));
    assert_eq!(table.rows(), 2);
    let transaction = session.begin().unwrap();
    assert!(
        put(&transaction, &table, &[3.into(), 4.into()]).is_err(),
        "nothing is left of it"
    );
    transaction.defer_foreign_keys().unwrap();
    put(&transaction, &table, &[5.into(), 6.into()]).unwrap();
    put(&transaction, &table, &[6.into(), Value::Null]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(table.rows(), 4);
}

#[test]
fn what_cannot_be_a_foreign_key_is_refused() {
    let shop = Shop::new(orders());
    let refused = |key: ForeignKeyDef| text(shop.store.add_foreign_key(&shop.orders, key));
    let key = |columns: &[&str], table: &str, referenced: &[&str]| {
        ForeignKeyDef::new("f", columns, table, referenced)
    };
    assert_eq!(
        refused(key(&["customer_id"], CUSTOMER, &["note"])),
        "table \"orders\", constraint \"f\": there is no unique index of the columns (note) of the referenced table \"customer\"; \
         make one"
    );
    assert!(refused(key(&["code"], CUSTOMER, &["id"])).contains("of different types: text(99) and i64"));
    assert!(
        refused(key(&["customer_id"], CUSTOMER, &["x"])).contains("no column \"x\" in the referenced table")
    );
    assert!(refused(key(&["customer_id"], "x", &["id"])).contains("there is no table \"x\""));
    let missing = key(&["customer_id"], CUSTOMER, &["id"]);
    assert!(refused(missing.clone().in_schema("x")).contains("there is no table \"x.customer\""));
    assert!(refused(key(&["x"], CUSTOMER, &["id"])).contains("no column \"x\" in table \"orders\""));
    // Rows that are there already.
    shop.run(|transaction| put(transaction, &shop.orders, &[99.into(), 99.into()]))
        .unwrap();
    assert!(refused(missing.clone()).contains("key (customer_id)=(99) is not present in table \"customer\""));
    assert!(shop.orders.definition().foreign_keys.is_empty());
    shop.run(|transaction| transaction.delete_by_key(&shop.orders, &[99.into()]))
        .unwrap();
    shop.store.add_foreign_key(&shop.orders, missing.clone()).unwrap();
    assert_eq!(refused(missing), "there is a constraint \"f\" already");
    assert!(shop.delete(1).is_err());
    assert!(text(shop.store.drop_constraint(&shop.orders, "x")).contains("has no constraint \"x\""));
    shop.store.drop_constraint(&shop.orders, "f").unwrap();
    assert!(shop.delete(1).unwrap());
    let refused = text(
        shop.store
            .create_table(
                TableDef::new("o")
                    .column("c", Type::I64)
                    .foreign_key("f", &["c"], "x", &["id"]),
            ),
    );
    assert!(refused.contains("there is no table \"x\""));
}

#[test]
fn tables_and_indexes_that_are_referred_to_stay() {
    let shop = Shop::new(orders().with_foreign_key(by_id(NoAction, NoAction)));
    let key = ForeignKeyDef::new("by_code", &["code"], CUSTOMER, &["code"]);
    shop.store.add_foreign_key(&shop.orders, key).unwrap();
    let store = &shop.store;
    let needed = "foreign key \"by_id\" of table \"orders\", foreign key \"by_code\" of table \"orders\" needs it; drop that first";
    assert_eq!(
        text(store.drop_table(CUSTOMER)),
        format!("table \"customer\" cannot be dropped: {needed}")
    );
    assert_eq!(
        text(store.truncate_table(CUSTOMER)),
        format!("table \"customer\" cannot be truncated: {needed}")
    );
    assert_eq!(
        text(store.drop_index(&shop.customers, "by_code")),
        "index \"by_code\" of table \"customer\" cannot be dropped: foreign key \"by_code\" of table \"orders\" needs it; drop that first"
    );
    assert!(matches!(store.drop_table(CUSTOMER), Err(StoreError::Referenced { by, .. }) if by.len() == 2));
    // Who refers may be emptied; then it refers still.
    let before = shop.orders.definition();
    let emptied = store.truncate_table("orders").unwrap();
    assert_eq!(emptied.definition(), before);
    let refused = shop.run(|transaction| put(transaction, &emptied, &[1.into(), 50.into()]));
    assert!(matches!(refused, Err(StoreError::ForeignKey(_))));
    shop.run(|transaction| put(transaction, &emptied, &[1.into(), 2.into()]))
        .unwrap();
    assert!(shop.delete(2).is_err() && shop.delete(1).unwrap());
    store.drop_constraint(&emptied, "by_code").unwrap();
    store.drop_index(&shop.customers, "by_code").unwrap();
    store.drop_table("orders").unwrap();
    assert!(shop.delete(2).unwrap());
    store.truncate_table(CUSTOMER).unwrap();
    store.drop_table(CUSTOMER).unwrap();
    // One that refers to itself may go, and be emptied.
    let key = ForeignKeyDef::new("up", &["up"], "tree", &["id"]);
    let table = store.create_table(tree().with_foreign_key(key)).unwrap();
    shop.run(|transaction| put(transaction, &table, &[1.into(), 1.into()]))
        .unwrap();
    let table = store.truncate_table("tree").unwrap();
    assert!(
        shop.run(|transaction| put(transaction, &table, &[2.into(), 1.into()]))
            .is_err()
    );
    store.drop_table("tree").unwrap();
}

#[test]
fn checks_are_kept_as_they_are_written() {
    let shop = Shop::new(orders().check_constraint("positive", "id > 0"));
    let checks = |table: &Table| table.definition().checks;
    assert_eq!(checks(&shop.orders), [CheckDef::new("positive", "id > 0")]);
    // The store does not evaluate them.
    shop.run(|transaction| put(transaction, &shop.orders, &[(-1).into()]))
        .unwrap();
    shop.store
        .add_check(&shop.orders, CheckDef::new("more", "length(code) < 9"))
        .unwrap();
    assert_eq!(
        text(shop.store.add_check(&shop.orders, CheckDef::new("more", "true"))),
        "there is a constraint \"more\" already"
    );
    assert!(text(shop.store.add_check(&shop.orders, CheckDef::new("x", ""))).contains("its text is empty"));
    assert_eq!(checks(&shop.orders).len(), 2);
    assert_eq!(checks(&shop.store.truncate_table("orders").unwrap()).len(), 2);
    let table = shop.store.table("orders").unwrap();
    shop.store.drop_constraint(&table, "positive").unwrap();
    assert_eq!(checks(&table), [CheckDef::new("more", "length(code) < 9")]);
    let missing = shop.store.create_table_if_missing(orders()).unwrap_err();
    assert!(
        missing
            .to_string()
            .ends_with("it has another constraint \"more\"")
    );
}
