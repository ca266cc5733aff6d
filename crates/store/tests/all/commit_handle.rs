//! Commits whose session goes on before they are on disk: handles that are waited for, awaited, dropped, and told of a failure.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use corun_store::storage::Twin;
use corun_store::{CommitHandle, Durability, Options, Session, Store, StoreError, Table, TableDef, Type};

fn open(disk: &Twin) -> (Store, Table) {
    let options = Options {
        // Nothing reaches the disk that nobody asks for.
        flush_every: Duration::from_secs(600),
        ..Options::default()
    };
    let store = Store::open_on(Arc::new(disk.clone()), options).unwrap();
    let definition = TableDef::new("t").column("id", Type::I64).primary_key(&["id"]);
    let table = store.create_table_if_missing(definition).unwrap();
    (store, table)
}

fn insert(session: &mut Session, table: &Table, id: i64) -> CommitHandle {
    let transaction = session.begin().unwrap();
    let mut row = table.new_row();
    row.set("id", id).unwrap();
    transaction.insert(table, &row).unwrap();
    transaction.commit_async().unwrap()
}

/// A task of a thread.
struct Task {
    thread: std::thread::Thread,
    woken: AtomicUsize,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn task() -> Arc<Task> {
    Arc::new(Task {
        thread: std::thread::current(),
        woken: AtomicUsize::new(0),
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(task());
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_session_goes_on_while_its_commits_are_on_their_way() {
    let disk = Twin::new(1);
    let (store, table) = open(&disk);
    let mut session = store.session_here().unwrap();
    let handles: Vec<CommitHandle> = (0..1000).map(|id| insert(&mut session, &table, id)).collect();
    assert!(handles.windows(2).all(|pair| pair[1].ts() == pair[0].ts().next()));
    assert_eq!(table.rows(), 1000, "they are visible");
    assert!(handles.iter().any(|handle| !handle.is_durable()));
    let last = handles.last().unwrap().ts();
    for (number, handle) in handles.into_iter().enumerate() {
        let ts = handle.ts();
        let told = if number % 2 == 0 {
            handle.wait()
        } else {
            block_on(handle)
        };
        assert_eq!(told.unwrap(), ts);
    }
    assert!(store.stats().durable >= last);
    drop(store);
    let (_, table) = open(&disk.crash(1));
    assert_eq!(table.rows(), 1000);
}

#[test]
fn the_newest_waker_is_woken_and_a_dropped_handle_loses_nothing() {
    let disk = Twin::new(2);
    let (store, table) = open(&disk);
    let mut session = store.session_here().unwrap();
    let handle = insert(&mut session, &table, 1);
    let (first, second) = (task(), task());
    let mut handle = pin!(handle);
    let mut poll = |task: &Arc<Task>| {
        let waker = Waker::from(Arc::clone(task));
        handle.as_mut().poll(&mut Context::from_waker(&waker))
    };
    // Either answer may be there at once; who is polled last hears of it.
    if poll(&first).is_pending() && poll(&second).is_pending() {
        while second.woken.load(Ordering::SeqCst) == 0 {
            std::thread::park();
        }
    }
    assert!(matches!(poll(&second), Poll::Ready(Ok(_))));
    drop(insert(&mut session, &table, 2));
    drop(session);
    store.close().unwrap();
    let (_, table) = open(&disk.crash(2));
    assert_eq!(table.rows(), 2);
}

#[test]
fn a_commit_that_only_read_waits_for_what_it_has_seen() {
    let disk = Twin::new(3);
    let (store, table) = open(&disk);
    let (mut writer, mut reader) = (store.session_here().unwrap(), store.session_here().unwrap());
    let written = insert(&mut writer, &table, 1);
    let by_id = table.primary();
    let transaction = reader.begin().unwrap();
    assert!(transaction.fetch(&by_id, &[1.into()]).unwrap().is_some());
    let read = transaction.commit_async().unwrap();
    assert_eq!(read.is_durable(), written.is_durable());
    block_on(read).unwrap();
    assert!(written.is_durable());
    let nothing = reader.begin().unwrap().commit_async().unwrap();
    assert!(nothing.is_durable());
    block_on(nothing).unwrap();
    let memory = Store::in_memory(Options::default()).unwrap();
    let table = memory
        .create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))
        .unwrap();
    let handle = insert(&mut memory.session_here().unwrap(), &table, 1);
    assert!(handle.is_durable());
    handle.wait().unwrap();
}

#[test]
fn a_disk_that_fails_is_told_to_all_that_wait() {
    let disk = Twin::new(4);
    let (store, table) = open(&disk);
    let mut session = store.session_here().unwrap();
    session.set_durability(Durability::Asynchronous);
    disk.fail_sync_after(0);
    let handles: Vec<CommitHandle> = (0..10).map(|id| insert(&mut session, &table, id)).collect();
    for (number, handle) in handles.into_iter().enumerate() {
        let told = if number % 2 == 0 {
            block_on(handle)
        } else {
            handle.wait()
        };
        assert!(matches!(told, Err(StoreError::Log(_))), "{told:?}");
    }
}
