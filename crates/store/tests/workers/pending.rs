//! Answers of jobs: awaited, durable without a worker that waits for the disk, and queues that are full.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use corun_store::storage::Twin;
use corun_store::{
    CommitHandle, Durability, Options, Pending, Result, Session, Store, StoreError, Table, TableDef, Teams,
    Type, WorkerOptions, Workers,
};

const WAYS: [Teams; 2] = [Teams::Off, Teams::On];

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

/// One client alone, and room for few jobs.
fn one(store: &Store, teams: Teams, queue: usize) -> Workers {
    let options = WorkerOptions {
        threads: 1,
        members: 1,
        queue,
        teams,
        ..WorkerOptions::default()
    };
    Workers::start(store, options, |_| ()).unwrap()
}

fn insert(session: &mut Session, table: &Table, id: i64) -> Result<(i64, CommitHandle)> {
    let transaction = session.begin()?;
    let mut row = table.new_row();
    row.set("id", id)?;
    transaction.insert(table, &row)?;
    Ok((id, transaction.commit_async()?))
}

fn submit(workers: &Workers, table: &Table, id: i64) -> Pending<Result<(i64, CommitHandle)>> {
    let table = table.clone();
    workers.submit(0, move |session| insert(session, &table, id))
}

struct Task(std::thread::Thread);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Task(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn one_client_has_many_durable_commits_on_their_way() {
    const JOBS: i64 = 200;
    for way in WAYS {
        let disk = Twin::new(1);
        let (store, table) = open(&disk);
        let workers = one(&store, way, 1024);
        let before = disk.syncs();
        let pending: Vec<_> = (0..JOBS).map(|id| submit(&workers, &table, id)).collect();
        // The client is through with all jobs before anybody asks for the disk.
        workers.submit(0, |_| ()).wait().unwrap();
        assert_eq!((table.rows() as i64, disk.syncs()), (JOBS, before), "{way:?}");
        for (id, pending) in (0..JOBS).zip(pending) {
            let told = match id % 2 {
                0 => pending.wait_durable(),
                _ => block_on(pending.durable()),
            };
            assert_eq!(told.unwrap().unwrap(), id);
        }
        let syncs = disk.syncs() - before;
        assert!(syncs < 10, "{way:?}: {syncs} syncs for {JOBS} commits");
        drop((workers, store));
        let (_, table) = open(&disk.crash(1));
        assert_eq!(table.rows() as i64, JOBS, "{way:?}");
    }
}

#[test]
fn clients_of_one_worker_share_the_syncs_of_a_slow_disk() {
    const CLIENTS: i64 = 32;
    const EACH: i64 = 20;
    let syncs = |waits: bool| {
        let disk = Twin::new(2);
        let (store, table) = open(&disk);
        let workers = one(&store, Teams::Off, 1024);
        disk.slow_sync(Duration::from_millis(1));
        let before = disk.syncs();
        let run = |id: i64| {
            if waits {
                let table = table.clone();
                let job = move |session: &mut Session| -> Result<()> {
                    let transaction = session.begin()?;
                    let mut row = table.new_row();
                    row.set("id", id)?;
                    transaction.insert(&table, &row)?;
                    transaction.commit_with(Durability::Durable).map(drop)
                };
                workers.submit(0, job).wait().unwrap().unwrap();
            } else {
                submit(&workers, &table, id).wait_durable().unwrap().unwrap();
            }
        };
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let run = &run;
                scope.spawn(move || (0..EACH).for_each(|at| run(client * EACH + at)));
            }
        });
        assert_eq!(table.rows() as i64, CLIENTS * EACH);
        (disk.syncs() - before) as i64
    };
    // The client that waits for the disk makes one commit a sync.
    assert!(syncs(true) >= CLIENTS * EACH);
    let shared = syncs(false);
    assert!(shared * 2 < CLIENTS * EACH, "{shared} syncs");
}

#[test]
fn a_job_that_fails_and_a_disk_that_does_are_told() {
    let disk = Twin::new(3);
    let (store, table) = open(&disk);
    let workers = one(&store, Teams::Off, 16);
    submit(&workers, &table, 1).wait_durable().unwrap().unwrap();
    let twice = submit(&workers, &table, 1).wait_durable().unwrap();
    assert!(matches!(twice, Err(StoreError::Duplicate { .. })));
    let twice = block_on(submit(&workers, &table, 1).durable()).unwrap();
    assert!(matches!(twice, Err(StoreError::Duplicate { .. })));
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let panics = || workers.submit(0, |_| -> Result<((), CommitHandle)> { std::panic::panic_any(1) });
    let (one, two) = (panics(), panics());
    let (one, two) = (one.wait_durable(), block_on(two.durable()));
    std::panic::set_hook(quiet);
    assert!(one.is_none() && two.is_none());
    disk.fail_sync_after(0);
    let (two, three) = (submit(&workers, &table, 2), submit(&workers, &table, 3));
    for told in [two.wait_durable(), block_on(three.durable())] {
        assert!(matches!(told, Some(Err(StoreError::Log(_)))), "{told:?}");
    }
}

#[test]
fn a_full_queue_gives_the_job_back() {
    for way in WAYS {
        let store = Store::in_memory(Options::default()).unwrap();
        let workers = one(&store, way, 2);
        let (started, has_started) = channel();
        let (gate, passes) = channel::<()>();
        let blocks = workers.submit(0, move |_| {
            started.send(()).unwrap();
            passes.recv().unwrap();
            0
        });
        has_started.recv().unwrap();
        let waiting: Vec<_> = (1..3)
            .map(|number| workers.try_submit(0, move |_| number).unwrap())
            .collect();
        let text = String::from("what the job has with it");
        let refused = workers.try_submit(0, move |_| text).err().unwrap();
        assert_eq!(
            refused.to_string(),
            "the queue of worker 0 is full; submit the job later, wait with `submit`, or raise `WorkerOptions::queue`"
        );
        gate.send(()).unwrap();
        assert_eq!(blocks.wait(), Some(0));
        let answers: Vec<_> = waiting
            .into_iter()
            .map(|pending| block_on(pending).unwrap())
            .collect();
        assert_eq!(answers, [1, 2]);
        // The same job again.
        let answer = block_on(workers.try_submit(refused.worker, refused.job).unwrap());
        assert_eq!(answer.as_deref(), Some("what the job has with it"));
    }
}

#[test]
fn the_newest_waker_of_an_answer_is_woken() {
    let store = Store::in_memory(Options::default()).unwrap();
    let workers = one(&store, Teams::Off, 2);
    let (gate, passes) = channel::<()>();
    let mut pending = pin!(workers.submit(0, move |_| passes.recv().unwrap()));
    let elsewhere = std::thread::spawn(std::thread::park).thread().clone();
    let mut poll = |thread: std::thread::Thread| {
        let waker = Waker::from(Arc::new(Task(thread)));
        pending.as_mut().poll(&mut Context::from_waker(&waker))
    };
    assert!(poll(elsewhere.clone()).is_pending());
    assert!(poll(std::thread::current()).is_pending());
    gate.send(()).unwrap();
    std::thread::park();
    while poll(std::thread::current()).is_pending() {
        std::thread::park();
    }
    elsewhere.unpark();
}

/// Connections whose transactions take several jobs: each hands its session to the job and gets it back with the answer.
#[test]
fn transactions_of_several_jobs_take_turns_on_one_row() {
    const CONNECTIONS: i64 = 4;
    const EACH: i64 = 20;
    for way in WAYS {
        let store = Store::in_memory(Options {
            lock_timeout: Duration::from_secs(120),
            ..Options::default()
        })
        .unwrap();
        let definition = TableDef::new("t").column("id", Type::I64).column("x", Type::I64);
        let table = store.create_table(definition.primary_key(&["id"])).unwrap();
        let mut session = store.session_here().unwrap();
        session
            .run(|transaction| {
                let mut row = table.new_row();
                row.set("id", 1)?;
                row.set("x", 0)?;
                transaction.insert(&table, &row)
            })
            .unwrap();
        let options = WorkerOptions {
            threads: CONNECTIONS as usize,
            members: CONNECTIONS as usize,
            teams: way,
            ..WorkerOptions::default()
        };
        let workers = Workers::start(&store, options, |_| ()).unwrap();
        let statement = |mut session: Session, begins: bool, ends: bool| {
            let table = table.clone();
            let job = move |_: &mut Session| -> Result<Session> {
                if begins {
                    session.begin()?.suspend();
                }
                let transaction = session.resume_here()?;
                let primary = table.primary();
                let found = transaction
                    .fetch_for_update(&primary, &[1.into()])?
                    .expect("it stays");
                let (rid, x) = (found.rid, found.row.int("x"));
                transaction.update(&table, rid, |row| row.set("x", x + 1))?;
                match ends {
                    true => drop(transaction.commit()?),
                    false => transaction.suspend(),
                }
                Ok(session)
            };
            workers.submit(0, job).wait().unwrap().unwrap()
        };
        std::thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                scope.spawn(|| {
                    let mut session = store.session_here().unwrap();
                    for _ in 0..EACH {
                        session = statement(session, true, false);
                        session = statement(session, false, false);
                        session = statement(session, false, true);
                    }
                });
            }
        });
        let snapshot = store.snapshot().unwrap();
        let primary = table.primary();
        let x = snapshot
            .fetch(&primary, &[1.into()])
            .unwrap()
            .unwrap()
            .row
            .int("x");
        assert_eq!(x, CONNECTIONS * EACH * 3, "{way:?}");
    }
}
