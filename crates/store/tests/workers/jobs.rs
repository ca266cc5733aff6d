//! Workers whose clients are user-level threads: jobs that panic, use up their stack or block for long harm nobody else, and the
//! answers are those of threads.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use corun_exec::teams::{self, TeamOptions};
use corun_store::lock::LockError;
use corun_store::storage::Twin;
use corun_store::{
    Durability, Lock, Options, Result, STACK_BYTES_MIN, Session, Store, StoreError, Table, TableDef, Teams,
    Type, WorkerOptions, Workers,
};

const WAYS: [Teams; 3] = [Teams::Off, Teams::On, Teams::Auto];

fn account(store: &Store) -> Table {
    let definition = TableDef::new("account")
        .column("id", Type::I64)
        .column("balance", Type::I64)
        .primary_key(&["id"])
        .index("by_balance", &["balance"]);
    store.create_table(definition).unwrap()
}

fn insert(session: &mut Session, table: &Table, id: i64, balance: i64) -> Result<()> {
    let mut row = table.new_row();
    row.set(0, id)?;
    row.set(1, balance)?;
    let transaction = session.begin()?;
    transaction.insert(table, &row)?;
    transaction.commit()?;
    Ok(())
}

fn sum(table: &Table, store: &Store) -> i64 {
    let snapshot = store.snapshot().unwrap();
    let rows = snapshot.rows(table, 0..table.rid_end()).unwrap();
    rows.map(|found| found.row.int(1)).sum()
}

fn start(store: &Store, teams: Teams, members: usize) -> Workers {
    let options = WorkerOptions {
        threads: members,
        members,
        queue: 64,
        teams,
        ..WorkerOptions::default()
    };
    Workers::start(store, options, |_| ()).unwrap()
}

fn transfer(session: &mut Session, table: &Table, from: i64, to: i64) -> Result<()> {
    let primary = table.primary();
    let transaction = session.begin()?;
    for (id, change) in [(from, -1), (to, 1)] {
        let found = transaction
            .fetch_for_update(&primary, &[id.into()])?
            .expect("ids stay");
        let (rid, balance) = (found.rid, found.row.int(1));
        teams::yield_now();
        transaction.update(table, rid, |row| row.set(1, balance + change))?;
    }
    transaction.commit()?;
    Ok(())
}

#[test]
fn jobs_of_several_workers_wait_for_each_other_and_lose_nothing() {
    const IDS: i64 = 10;
    const JOBS: i64 = 3000;
    for way in WAYS {
        let store = Store::in_memory(Options {
            workers: 2,
            lock_timeout: Duration::from_secs(60),
            ..Options::default()
        })
        .unwrap();
        let table = account(&store);
        let mut session = store.session_here().unwrap();
        (0..IDS).for_each(|id| insert(&mut session, &table, id, 100).unwrap());
        let workers = start(&store, way, 8);
        let job = |number: i64| {
            let table = table.clone();
            workers.submit(number as usize, move |session| {
                let (from, to) = (number * 7 % IDS, number * 3 % IDS);
                while let Err(error) = transfer(session, &table, from, to) {
                    assert!(error.is_retryable(), "{error}");
                }
                session.worker()
            })
        };
        let pending: Vec<_> = (0..JOBS).map(job).collect();
        for (number, pending) in pending.into_iter().enumerate() {
            assert_eq!(pending.wait(), Some(number % 2), "{way:?}");
        }
        assert_eq!(sum(&table, &store), IDS * 100, "{way:?}");
        drop(workers);
        // No lock is left.
        session.set_lock_timeout(Duration::ZERO);
        let alone = session.begin().unwrap();
        alone.lock_table(&table, Lock::Exclusive).unwrap();
    }
}

#[test]
fn teams_are_counted_by_the_names_of_their_operations() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = account(&store);
    let workers = start(&store, Teams::On, 8);
    let job = |id: i64| {
        let table = table.clone();
        workers.submit(0, move |session| {
            insert(session, &table, id, 0).unwrap();
            let transaction = session.begin().unwrap();
            transaction
                .fetch(&table.primary(), &[id.into()])
                .unwrap()
                .unwrap();
            transaction.commit().unwrap();
        })
    };
    let pending: Vec<_> = (0..500).map(job).collect();
    pending.into_iter().for_each(|pending| pending.wait().unwrap());
    // What they publish when all have nothing to do: an insert and its commit, and a fetch, whose commit has nothing to write.
    let patience = Instant::now() + Duration::from_secs(60);
    let counts = loop {
        let counts = workers.team_statistics(0);
        if counts.iter().map(|one| one.counts.in_).sum::<u64>() == 500 * 3 {
            break counts;
        }
        assert!(Instant::now() < patience, "{counts:?}");
        std::thread::yield_now();
    };
    let mut names: Vec<&str> = counts.iter().map(|one| &one.name[..]).collect();
    names.sort_unstable();
    assert_eq!(names, ["commit", "fetch account.primary", "insert account"]);
    for one in &counts {
        let counts = &one.counts;
        assert_eq!(counts.in_, 500, "{}", one.name);
        assert!(counts.in_ >= counts.out && counts.teams > 0 && counts.teams <= counts.in_);
    }
    assert!(start(&store, Teams::Off, 1).team_statistics(0).is_empty());
}

/// Uses stack until there is none.
fn forever(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if black_box(depth) == 0 {
        return 0;
    }
    forever(depth + 1) + frame[63]
}

/// Uses stack until little is left, then calls.
fn deep<R>(left: usize, then: &mut dyn FnMut() -> R) -> R {
    let frame = black_box([1_u8; 512]);
    let answer = if teams::stack_left().is_none_or(|now| now < left + 1024) {
        then()
    } else {
        deep(left, then)
    };
    black_box(frame);
    answer
}

#[test]
fn a_job_that_panics_or_uses_up_its_stack_ends_alone() {
    let store = Store::in_memory(Options {
        lock_timeout: Duration::from_secs(60),
        ..Options::default()
    })
    .unwrap();
    let table = account(&store);
    let mut session = store.session_here().unwrap();
    (0..4).for_each(|id| insert(&mut session, &table, id, 100).unwrap());
    let workers = start(&store, Teams::On, 4);
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<u8>() {
            quiet(info);
        }
    }));
    for round in 0..20_i64 {
        let table_of_jobs = table.clone();
        // Leaves a changed row, a new one, and their locks.
        let fatal = workers.submit(0, move |session| {
            let table = table_of_jobs;
            let primary = table.primary();
            let transaction = session.begin().unwrap();
            let found = transaction
                .fetch_for_update(&primary, &[1.into()])
                .unwrap()
                .unwrap();
            transaction
                .update(&table, found.rid, |row| row.set(1, 7_i64))
                .unwrap();
            let mut row = table.new_row();
            row.set(0, 50 + round).unwrap();
            row.set(1, 1_i64).unwrap();
            transaction.insert(&table, &row).unwrap();
            teams::yield_now();
            match round % 3 {
                0 => std::panic::panic_any(1_u8),
                1 => transaction
                    .update(&table, found.rid, |_| unreachable!("{}", forever(1)))
                    .unwrap(),
                _ => unreachable!("{}", forever(1)),
            }
        });
        let others: Vec<_> = (0..8)
            .map(|job| {
                let table = table.clone();
                workers.submit(0, move |session| {
                    while let Err(error) = transfer(session, &table, job % 4, 1) {
                        assert!(error.is_retryable(), "{error}");
                    }
                })
            })
            .collect();
        assert_eq!(fatal.wait(), None::<()>);
        others.into_iter().for_each(|other| other.wait().unwrap());
        assert_eq!((sum(&table, &store), table.rows()), (400, 4), "round {round}");
    }
}

#[test]
fn a_member_at_the_end_of_its_stack_is_told_so_and_operations_above_it_have_enough() {
    let disk = Twin::new(5);
    let store = Store::open_on(
        Arc::new(disk),
        Options {
            detect_after: Duration::from_micros(100),
            lock_timeout: Duration::from_secs(60),
            ..Options::default()
        },
    )
    .unwrap();
    let table = account(&store);
    let mut session = store.session_here().unwrap();
    (0..4).for_each(|id| insert(&mut session, &table, id, 100).unwrap());
    let options = WorkerOptions {
        members: 4,
        teams: Teams::On,
        team: TeamOptions {
            stack_bytes: 64 << 10,
            ..TeamOptions::default()
        },
        ..WorkerOptions::default()
    };
    let workers = Workers::start(&store, options, |_| ()).unwrap();
    // Just enough is left: everything works, waits, deadlocks, durable commits and their errors included.
    let job = |number: i64| {
        let table = table.clone();
        workers.submit(0, move |session| {
            let (mut deadlocks, mut round) = (0, 0);
            while round < 40 {
                let done = deep(STACK_BYTES_MIN + 3072, &mut || {
                    insert(session, &table, 100 + 50 * number + round, round)?;
                    transfer(session, &table, (number + round) % 2, (number + round + 1) % 2)
                });
                match done {
                    Ok(()) | Err(StoreError::Duplicate { .. }) => round += 1,
                    Err(StoreError::Lock(LockError::Deadlock { .. })) => {
                        deadlocks += 1;
                        round += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            deadlocks
        })
    };
    let pending: Vec<_> = (0..4).map(job).collect();
    let deadlocks: u64 = pending.into_iter().map(|pending| pending.wait().unwrap()).sum();
    assert!(deadlocks > 0, "waits were not as deep as they can be");
    // Too little is left.
    let (table_of_job, refused) = (table.clone(), workers.submit(0, |_| ()));
    refused.wait().unwrap();
    let refused = workers.submit(0, move |session| {
        let table = table_of_job;
        let primary = table.primary();
        let transaction = session.begin().unwrap();
        let found = transaction
            .fetch_for_update(&primary, &[3.into()])
            .unwrap()
            .unwrap();
        let change = &mut || {
            transaction
                .update(&table, found.rid, |row| row.set(1, 0_i64))
                .unwrap_err()
        };
        let refused = deep(STACK_BYTES_MIN - 4096, change).to_string();
        // The transaction goes on.
        transaction
            .update(&table, found.rid, |row| row.set(1, 101_i64))
            .unwrap();
        transaction.commit().unwrap();
        refused
    });
    let refused = refused.wait().unwrap();
    assert!(
        refused.contains("bytes of the user-level thread's stack are left")
            && refused.contains("raise the stack_bytes"),
        "{refused}"
    );
}

#[test]
fn jobs_that_block_or_wait_for_other_jobs_leave_the_core_to_them() {
    let store = Store::in_memory(Options::default()).unwrap();
    let table = account(&store);
    for way in [Teams::On, Teams::Auto] {
        let workers = Arc::new(start(&store, way, 3));
        let (send, receive) = channel::<()>();
        let blocks = workers.submit(0, move |_| teams::blocking(move || receive.recv().unwrap()));
        let inner = Arc::clone(&workers);
        let waits = workers.submit(0, move |_| {
            inner.submit(0, move |_| send.send(()).unwrap()).wait()
        });
        assert_eq!(
            (blocks.wait(), waits.wait()),
            (Some(()), Some(Some(()))),
            "{way:?}"
        );
        // Definitions wait for locks on a thread of their own, while the one who has them goes on.
        let (one, two, name) = (table.clone(), store.clone(), format!("{way:?}"));
        let (held, holds) = channel::<()>();
        let holder = workers.submit(0, move |session| {
            let transaction = session.begin().unwrap();
            transaction.lock_table(&one, Lock::Shared).unwrap();
            held.send(()).unwrap();
            (0..100).for_each(|_| teams::yield_now());
            transaction.commit().unwrap();
        });
        holds.recv().unwrap();
        let table = table.clone();
        let defines = workers.submit(0, move |_| {
            two.create_index(&table, &name, false, &["balance", "id"])
        });
        defines.wait().unwrap().unwrap();
        holder.wait().unwrap();
    }
}

#[test]
fn durable_commits_of_members_wait_for_the_disk_and_not_for_each_other() {
    let disk = Twin::new(9);
    let store = Store::open_on(Arc::new(disk.clone()), Options::default()).unwrap();
    let table = account(&store);
    disk.slow_sync(Duration::from_millis(2));
    let workers = start(&store, Teams::On, 32);
    let job = |id: i64| {
        let table = table.clone();
        workers.submit(0, move |session| {
            session.set_durability(Durability::Durable);
            insert(session, &table, id, 1).unwrap();
        })
    };
    let pending: Vec<_> = (0..320).map(job).collect();
    pending.into_iter().for_each(|pending| pending.wait().unwrap());
    drop(workers);
    drop((table, store));
    let after = Store::open_on(Arc::new(disk.crash(1)), Options::default()).unwrap();
    assert_eq!(after.table("account").unwrap().rows(), 320);
}

#[test]
fn options_that_make_no_team_are_refused() {
    let store = Store::in_memory(Options::default()).unwrap();
    let refused = |options: WorkerOptions| {
        Workers::start(&store, options, |_| ())
            .err()
            .map(|error| error.to_string())
    };
    let team = TeamOptions {
        stack_bytes: 1,
        ..TeamOptions::default()
    };
    let options = WorkerOptions {
        teams: Teams::On,
        team,
        ..WorkerOptions::default()
    };
    let said = refused(options).unwrap();
    assert!(
        said.starts_with("option team: stacks of 1 bytes are too small"),
        "{said}"
    );
    let options = WorkerOptions {
        members: 0,
        ..WorkerOptions::default()
    };
    assert_eq!(refused(options).unwrap(), "option members: must be at least 1");
}

#[test]
fn jobs_define_within_their_transactions_while_checkpoints_are_written() {
    const JOBS: i64 = 40;
    for way in WAYS {
        let disk = Twin::new(5);
        let store = Store::open_on(
            Arc::new(disk.clone()),
            Options {
                workers: 2,
                lock_timeout: Duration::from_secs(60),
                ..Options::default()
            },
        )
        .unwrap();
        let shared = account(&store);
        let workers = start(&store, way, 8);
        let pending: Vec<_> = (0..JOBS)
            .map(|job| {
                let shared = shared.clone();
                let work = move |session: &mut Session| {
                    session.run(|transaction| {
                        let definition = TableDef::new(&format!("t{job}")).column("id", Type::I64);
                        let table = transaction.create_table(definition)?;
                        let mut row = table.new_row();
                        row.set(0, job)?;
                        transaction.insert(&table, &row)?;
                        teams::yield_now();
                        let column = corun_store::ColumnDef::new(&format!("c{job}"), Type::I64).nullable();
                        transaction.add_column(&shared, column)?;
                        transaction.create_index(&table, "by_id", true, &["id"])
                    })
                };
                workers.submit(job as usize % 2, work)
            })
            .collect();
        for _ in 0..5 {
            store.checkpoint().unwrap();
        }
        for pending in pending {
            pending.wait().expect("the job did not panic").unwrap();
        }
        drop(workers);
        let check = |store: &Store| {
            assert_eq!(store.tables().len() as i64, 1 + JOBS);
            let shared = store.table("account").unwrap();
            assert_eq!(shared.definition().columns.len() as i64, 2 + JOBS);
            for job in 0..JOBS {
                let table = store.table(&format!("t{job}")).unwrap();
                assert_eq!((table.rows(), table.indexes().len()), (1, 1));
            }
        };
        check(&store);
        drop(shared);
        store.close().unwrap();
        check(&Store::open_on(Arc::new(disk), Options::default()).unwrap());
    }
}
