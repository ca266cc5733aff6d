//! Changes by primary key: beside a map, among clients that want the same keys, and what they are refused for.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::clients::Clients;
use crate::refusal_support::text;
use corun_exec::teams;
use corun_store::{
    Direction, Options, Result, RowBuf, Session, Store, StoreError, Table, TableDef, Transaction, Ts, Type,
    Value,
};
use proptest::prelude::*;

fn open() -> (Store, Table) {
    let store = Store::in_memory(Options {
        workers: 4,
        lock_timeout: Duration::from_secs(20),
        detect_after: Duration::from_micros(200),
        ..Options::default()
    })
    .unwrap();
    let definition = TableDef::new("t")
        .column("group", Type::I8)
        .column("id", Type::I64)
        .column("value", Type::I64)
        .nullable("code", Type::I64)
        .primary_key(&["group", "id"])
        .unique("by_code", &["code"]);
    let table = store.create_table(definition).unwrap();
    (store, table)
}

fn row(table: &Table, id: i64, value: i64, code: Option<i64>) -> RowBuf {
    let mut row = table.new_row();
    row.set("group", 1).unwrap();
    row.set("id", id).unwrap();
    row.set("value", value).unwrap();
    row.set("code", code).unwrap();
    row
}

fn key(id: i64) -> [Value<'static>; 2] {
    [1.into(), id.into()]
}

/// The rows' ids, values and codes, by key.
fn content(store: &Store, table: &Table) -> Model {
    let (snapshot, primary) = (store.snapshot().unwrap(), table.primary());
    let rows = snapshot
        .scan(&primary, &primary.all(), Direction::Ascending)
        .unwrap();
    let fields = |row: corun_store::RowRef<'_>| {
        let code = row.get("code").unwrap();
        (row.int("id"), (row.int("value"), code))
    };
    rows.map(|found| fields(found.row)).collect()
}

type Model = BTreeMap<i64, (i64, Option<i64>)>;

#[derive(Clone, Debug)]
enum Op {
    Upsert(i64, i64, Option<i64>),
    Insert(i64, i64),
    Update(i64, i64),
    /// To another key.
    Move(i64, i64),
    Delete(i64),
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0..6_i64;
    prop_oneof![
        3 => (id(), 0..100_i64, proptest::option::of(0..8_i64)).prop_map(|(id, value, code)| Op::Upsert(id, value, code)),
        1 => (id(), 0..100_i64).prop_map(|(id, value)| Op::Insert(id, value)),
        2 => (id(), 0..100_i64).prop_map(|(id, value)| Op::Update(id, value)),
        1 => (id(), id()).prop_map(|(from, to)| Op::Move(from, to)),
        2 => id().prop_map(Op::Delete),
    ]
}

impl Op {
    /// Whether there was a row; or none if a key is another row's.
    fn run(&self, transaction: &Transaction<'_>, table: &Table) -> Result<Option<bool>> {
        let done = match *self {
            Op::Upsert(id, value, code) => transaction
                .upsert(table, &row(table, id, value, code))
                .map(|_| true),
            Op::Insert(id, value) => transaction
                .insert(table, &row(table, id, value, None))
                .map(|_| true),
            Op::Update(id, value) => {
                transaction.update_by_key(table, &key(id), |row| row.set("value", value))
            }
            Op::Move(from, to) => transaction.update_by_key(table, &key(from), |row| row.set("id", to)),
            Op::Delete(id) => transaction.delete_by_key(table, &key(id)),
        };
        match done {
            Ok(done) => Ok(Some(done)),
            Err(StoreError::Duplicate { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn apply(&self, model: &mut Model) -> Option<bool> {
        match *self {
            Op::Upsert(id, value, code) => {
                let mut others = model.iter().filter(|(other, _)| **other != id);
                if code.is_some() && others.any(|(_, (_, other))| *other == code) {
                    return None;
                }
                model.insert(id, (value, code));
                Some(true)
            }
            Op::Insert(id, _) if model.contains_key(&id) => None,
            Op::Insert(id, value) => {
                model.insert(id, (value, None));
                Some(true)
            }
            Op::Update(id, value) => Some(model.get_mut(&id).map(|row| row.0 = value).is_some()),
            Op::Move(from, to) => {
                if from != to && model.contains_key(&from) && model.contains_key(&to) {
                    return None;
                }
                let row = model.remove(&from);
                Some(row.map(|row| model.insert(to, row)).is_some())
            }
            Op::Delete(id) => Some(model.remove(&id).is_some()),
        }
    }
}

proptest! {
    #[test]
    fn they_do_what_a_map_does(
        transactions in prop::collection::vec((prop::collection::vec(op(), 1..8), any::<bool>()), 1..20)
    ) {
        let (store, table) = open();
        let mut session = store.session_here().unwrap();
        let mut model = Model::new();
        for (ops, commits) in transactions {
            let transaction = session.begin().unwrap();
            let mut after = model.clone();
            for op in ops {
                prop_assert_eq!(op.run(&transaction, &table).unwrap(), op.apply(&mut after), "{:?}", op);
            }
            if commits {
                transaction.commit().unwrap();
                model = after;
            } else {
                transaction.abort();
            }
            prop_assert_eq!(content(&store, &table), model.clone());
        }
    }
}

/// Clients run random transactions; in the order of their timestamps they do what a map does.
fn clients_have_one_order(clients: Clients) {
    const CLIENTS: usize = 6;
    let (store, table) = open();
    let done = Mutex::new(Vec::new());
    let client = |number: usize| {
        let mut session = store.session(number, corun_store::park::current()).unwrap();
        let mut random = number as u64 + 1;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 33) % below) as i64
        };
        for round in 0..300 {
            let mut ops: Vec<Op> = (0..1 + next(3))
                .map(|_| match next(6) {
                    0..3 => Op::Upsert(next(4), next(100), Some(next(8)).filter(|code| *code < 4)),
                    3 => Op::Delete(next(4)),
                    4 => Op::Update(next(4), next(100)),
                    _ => Op::Move(next(4), next(4)),
                })
                .collect();
            // Something is changed, so that the timestamp is the transaction's own.
            ops.push(Op::Upsert(100 + number as i64, round, None));
            let (ts, answers) = commit(&mut session, &table, &ops);
            done.lock().unwrap().push((ts, ops, answers));
        }
    };
    clients.run(CLIENTS, client, || ());
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(ts, ..)| *ts);
    let mut model = Model::new();
    for (ts, ops, answers) in done {
        let expected: Vec<_> = ops.iter().map(|op| op.apply(&mut model)).collect();
        assert_eq!(answers, expected, "{ts}: {ops:?}");
    }
    assert_eq!(content(&store, &table), model);
}

/// Runs a transaction until it need not give way.
fn commit(session: &mut Session, table: &Table, ops: &[Op]) -> (Ts, Vec<Option<bool>>) {
    loop {
        let transaction = session.begin().unwrap();
        let answers: Result<Vec<_>> = ops.iter().map(|op| op.run(&transaction, table)).collect();
        match answers.and_then(|answers| Ok((transaction.commit()?, answers))) {
            Ok(done) => return done,
            Err(error) => assert!(StoreError::is_retryable(&error), "{error}"),
        }
    }
}

#[test]
fn clients_on_threads_have_one_order() {
    clients_have_one_order(Clients::Threads);
}

#[test]
fn clients_on_teams_have_one_order() {
    clients_have_one_order(Clients::Members { threads: 2, team: 3 });
}

#[test]
fn upserts_on_threads_follow_each_other() {
    upserts_of_the_same_new_keys_follow_each_other(Clients::Threads);
}

#[test]
fn upserts_on_teams_follow_each_other() {
    upserts_of_the_same_new_keys_follow_each_other(Clients::Members { threads: 1, team: 5 });
}

fn upserts_of_the_same_new_keys_follow_each_other(clients: Clients) {
    const CLIENTS: usize = 5;
    let (store, table) = open();
    for round in 0..200 {
        let client = |number: usize| {
            let mut session = store.session(number, corun_store::park::current()).unwrap();
            let transaction = session.begin().unwrap();
            // None of them gives way.
            transaction
                .upsert(&table, &row(&table, round, number as i64, None))
                .unwrap();
            teams::yield_now();
            transaction.commit().unwrap()
        };
        let ends: Vec<Ts> = clients.run(CLIENTS, client, || ());
        let last = (0..CLIENTS).max_by_key(|&number| ends[number]).unwrap();
        assert_eq!(content(&store, &table)[&round], (last as i64, None));
        // Every other key is one that was there before, so that old entries lie in the way.
        if round % 2 == 0 {
            let mut session = store.session_here().unwrap();
            let transaction = session.begin().unwrap();
            assert!(transaction.delete_by_key(&table, &key(round)).unwrap());
            transaction
                .insert(&table, &row(&table, round + 1, 7, None))
                .unwrap();
            assert!(transaction.delete_by_key(&table, &key(round + 1)).unwrap());
            transaction.commit().unwrap();
        }
    }
    assert_eq!(table.rows(), 100);
}

#[test]
fn an_upsert_waits_for_the_one_before_it() {
    for commits in [true, false] {
        let (store, table) = open();
        let mut session = store.session_here().unwrap();
        let transaction = session.begin().unwrap();
        transaction.upsert(&table, &row(&table, 1, 10, None)).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let mut session = store.session_here().unwrap();
                let transaction = session.begin().unwrap();
                transaction.upsert(&table, &row(&table, 1, 20, Some(5))).unwrap();
                let changed = transaction
                    .update_by_key(&table, &key(1), |row| {
                        let value = row.row().int("value");
                        row.set("value", value + 1)
                    })
                    .unwrap();
                assert!(changed);
                transaction.commit().unwrap();
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished());
            if commits {
                transaction.commit().unwrap();
            } else {
                transaction.abort();
            }
        });
        assert_eq!(content(&store, &table), Model::from([(1, (21, Some(5)))]));
    }
}

#[test]
fn a_key_that_was_not_found_stays_away() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    assert!(
        !transaction
            .update_by_key(&table, &key(1), |_| unreachable!())
            .unwrap()
    );
    assert!(!transaction.delete_by_key(&table, &key(2)).unwrap());
    std::thread::scope(|scope| {
        let clients = [1, 2].map(|id| {
            let (store, table) = (&store, &table);
            scope.spawn(move || {
                let mut session = store.session_here().unwrap();
                session.set_lock_timeout(Duration::from_millis(20));
                let transaction = session.begin().unwrap();
                let upserted = transaction.upsert(table, &row(table, id, 1, None));
                assert!(upserted.unwrap_err().is_retryable());
            })
        });
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    transaction.commit().unwrap();
    assert_eq!(content(&store, &table), Model::new());
}

#[test]
fn an_upsert_replaces_the_whole_row() {
    let (store, table) = open();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    let rid = transaction.upsert(&table, &row(&table, 1, 10, Some(5))).unwrap();
    transaction.insert(&table, &row(&table, 2, 10, Some(6))).unwrap();
    let mut short = table.new_row();
    short.set("group", 1).unwrap();
    short.set("id", 1).unwrap();
    assert_eq!(
        text(transaction.upsert(&table, &short)),
        "column \"value\" was not set, and cannot be NULL"
    );
    assert_eq!(
        text(transaction.upsert(&table, &row(&table, 1, 11, Some(6)))),
        "table \"t\": there is a row with the key (6) of index \"by_code\" already"
    );
    assert_eq!(
        text(transaction.upsert(&table, &row(&table, 3, 11, Some(6)))),
        "table \"t\": there is a row with the key (6) of index \"by_code\" already"
    );
    short.set("value", 11).unwrap();
    assert_eq!(transaction.upsert(&table, &short).unwrap(), rid);
    assert_eq!(
        text(transaction.delete_by_key(&table, &[1.into()])),
        "index \"primary\": 1 values for 2 columns"
    );
    let changed = transaction.update_by_key(&table, &key(2), |row| row.set("nme", 1));
    assert_eq!(
        text(changed),
        "there is no column \"nme\"; the table has group, id, value, code"
    );
    transaction.commit().unwrap();
    let expected = Model::from([(1, (11, None)), (2, (10, Some(6)))]);
    assert_eq!(content(&store, &table), expected);
}
