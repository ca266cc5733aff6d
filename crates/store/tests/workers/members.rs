//! What members may do to others: recursion through scans, sessions made elsewhere, destructors that panic.

use std::hint::black_box;
use std::time::{Duration, Instant};

use corun_exec::teams::{self, Scheduler, TeamOptions};
use corun_store::{
    Direction, Lock, Options, Result, Scan, Session, Store, StoreError, Table, TableDef, Teams, Type,
    WorkerOptions, Workers,
};

fn account(store: &Store) -> Table {
    let definition = TableDef::new("account")
        .column("id", Type::I64)
        .column("balance", Type::I64)
        .primary_key(&["id"]);
    let table = store.create_table(definition).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for id in 0..2000_i64 {
        let mut row = table.new_row();
        row.set(0, id).unwrap();
        row.set(1, 0_i64).unwrap();
        transaction.insert(&table, &row).unwrap();
    }
    transaction.commit().unwrap();
    table
}

fn add(session: &mut Session, table: &Table, id: i64) -> Result<()> {
    let transaction = session.begin()?;
    let primary = table.primary();
    let found = transaction
        .fetch_for_update(&primary, &[id.into()])?
        .expect("it is there");
    let balance = found.row.int(1);
    transaction.update(table, found.rid, |row| row.set(1, balance + 1))?;
    transaction.commit()?;
    Ok(())
}

fn balance(store: &Store, table: &Table, id: i64) -> i64 {
    let snapshot = store.snapshot().unwrap();
    let primary = table.primary();
    let found = snapshot.fetch(&primary, &[id.into()]).unwrap();
    found.expect("it is there").row.int(1)
}

fn start(store: &Store, teams: Teams, members: usize) -> Workers {
    let options = WorkerOptions {
        threads: members,
        members,
        teams,
        team: TeamOptions {
            stack_bytes: 96 << 10,
            ..TeamOptions::default()
        },
        ..WorkerOptions::default()
    };
    Workers::start(store, options, |_| ()).unwrap()
}

/// Reads a row for each of its frames.
fn rows_deep(scan: &mut Scan<'_, '_>, rows: u64) -> Result<u64> {
    let pad = black_box([rows; 8]);
    match scan.next()? {
        None => Ok(pad[7]),
        Some(_) => Ok(rows_deep(scan, rows + 1)? + black_box(pad)[0] - rows),
    }
}

/// Goes back to a savepoint in each of its frames.
fn back_deep(transaction: &mut corun_store::Transaction<'_>, table: &Table, depth: u64) -> Result<u64> {
    let pad = black_box([depth; 8]);
    let savepoint = transaction.savepoint();
    transaction.rollback_to(&savepoint)?;
    transaction.lock_table(table, Lock::Shared)?;
    Ok(back_deep(transaction, table, depth + 1)? + black_box(pad)[0])
}

#[test]
fn recursion_through_the_store_is_told_before_the_stack_ends() {
    let store = Store::in_memory(Options {
        lock_timeout: Duration::from_secs(30),
        ..Options::default()
    })
    .unwrap();
    let table = account(&store);
    let workers = start(&store, Teams::On, 2);
    for round in 0..4 {
        let of_job = table.clone();
        let refused = workers.submit(0, move |session| {
            let mut transaction = session.begin().unwrap();
            transaction
                .update(&of_job, corun_store::Rid(5), |row| row.set(1, 99_i64))
                .unwrap();
            if round % 2 == 0 {
                let primary = of_job.primary();
                let mut scan = transaction
                    .scan(&primary, &primary.all(), Direction::Ascending, Lock::Shared)
                    .unwrap();
                rows_deep(&mut scan, 0).unwrap_err()
            } else {
                back_deep(&mut transaction, &of_job, 0).unwrap_err()
            }
        });
        let refused = refused.wait();
        assert!(matches!(refused, Some(StoreError::Stack { .. })), "{refused:?}");
        // Nobody waits for what it had locked, and its desk works.
        for _ in 0..4 {
            let table = table.clone();
            let done = workers.submit(0, move |session| add(session, &table, 5));
            done.wait().unwrap().unwrap();
        }
    }
}

#[test]
fn a_session_of_the_thread_waits_as_the_member_that_uses_it() {
    let store = Store::in_memory(Options {
        lock_timeout: Duration::from_secs(60),
        ..Options::default()
    })
    .unwrap();
    let table = account(&store);
    let mut sessions: Vec<Session> = (0..4).map(|_| store.session_here().unwrap()).collect();
    let mut scheduler = Scheduler::new(TeamOptions::default()).unwrap();
    let began = Instant::now();
    let ended = scheduler.scope(|scope| {
        for session in &mut sessions {
            let table = &table;
            scope.spawn("client", move || {
                for _ in 0..50 {
                    let transaction = session.begin().unwrap();
                    let primary = table.primary();
                    let found = transaction
                        .fetch_for_update(&primary, &[7.into()])
                        .unwrap()
                        .unwrap();
                    let balance = found.row.int(1);
                    teams::yield_now();
                    transaction
                        .update(table, found.rid, |row| row.set(1, balance + 1))
                        .unwrap();
                    transaction.commit().unwrap();
                }
            });
        }
    });
    ended.into_iter().for_each(|ended| ended.unwrap());
    assert_eq!(balance(&store, &table, 7), 200);
    assert!(began.elapsed() < Duration::from_secs(60), "a wait was a timeout");
}

/// Panics when dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("dropped"));
        }
    }
}

#[test]
fn answers_and_panics_that_panic_when_dropped_end_no_client() {
    for way in [Teams::Off, Teams::On] {
        let store = Store::in_memory(Options::default()).unwrap();
        let table = account(&store);
        let workers = start(&store, way, 2);
        for _ in 0..4 {
            let panics = workers.submit(0, |_| -> () { std::panic::resume_unwind(Box::new(Bomb)) });
            assert!(panics.wait().is_none(), "{way:?}");
            // Nobody waits for this one: the worker drops its answer.
            drop(workers.submit(0, |_| {
                std::thread::sleep(Duration::from_millis(2));
                Bomb
            }));
            let of_job = table.clone();
            let done = workers.submit(0, move |session| add(session, &of_job, 3));
            done.wait().unwrap().unwrap();
        }
        assert_eq!(balance(&store, &table, 3), 4);
    }
}
