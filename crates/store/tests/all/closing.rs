//! A store is closed when nobody is in the middle of something, or dropped.

use std::sync::Arc;

use crate::refusal_support::{definition, ids, insert, text};
use corun_store::storage::Twin;
use corun_store::{Options, Store};

fn open(twin: &Twin) -> Store {
    Store::open_on(Arc::new(twin.clone()), Options::default()).unwrap()
}

fn said(open: usize) -> String {
    format!("transactions that are open: {open}; commit or abort them, then close the store again")
}

#[test]
fn a_store_is_not_closed_under_its_transactions() {
    let twin = Twin::new(1);
    let store = open(&twin);
    let table = store.create_table(definition("t")).unwrap();
    let (mut one, mut two) = (store.session_here().unwrap(), store.session_here().unwrap());
    let first = one.begin().unwrap();
    insert(&first, &table, 1, 1).unwrap();
    // It has done nothing yet.
    let second = two.begin().unwrap();
    assert_eq!(text(store.close()), said(2));
    assert_eq!(text(store.clone().close()), said(2));
    drop(second);
    assert_eq!(text(store.close()), said(1));
    // The store is as before.
    insert(&first, &table, 2, 1).unwrap();
    first.commit().unwrap();
    two.run(|transaction| insert(transaction, &table, 3, 1)).unwrap();
    store.checkpoint().unwrap();
    // A transaction that is forgotten stays open until its session goes on or goes.
    std::mem::forget(one.begin().unwrap());
    assert_eq!(text(store.close()), said(1));
    one.begin().unwrap().abort();
    std::mem::forget(two.begin().unwrap());
    assert_eq!(text(store.close()), said(1));
    drop(two);
    let panics = std::panic::AssertUnwindSafe(|| one.run::<()>(|_| panic!("it ends the transaction")));
    std::panic::catch_unwind(panics).unwrap_err();
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(text(one.begin()), "the store is closed");
    let store = open(&twin);
    assert_eq!(ids(&store, &store.table("t").unwrap()), [1, 2, 3]);
}

#[test]
fn a_store_that_is_dropped_is_closed_whatever_is_open() {
    let twin = Twin::new(1);
    let store = open(&twin);
    let table = store.create_table(definition("t")).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    insert(&transaction, &table, 1, 1).unwrap();
    assert_eq!(text(store.close()), said(1));
    drop(store);
    let store = open(&twin);
    assert!(transaction.commit().is_err());
    assert!(ids(&store, &store.table("t").unwrap()).is_empty());
}
