//! [`Workers`]: clients that run transactions, a few for each core.
//!
//! ```text
//! teams off:   submit(worker, job) ──► bounded queue ──► thread, thread, ...       each with a session of the worker
//! teams on:    submit(worker, job) ──► bounded queue ──► member, member, ...       user-level threads of one thread, each
//!                                                                                  with a session of the worker
//! ```
//!
//! A transaction that waits for a lock or for the log keeps its client, so a worker has several. Threads share their core by the
//! operating system; members share it by themselves, in teams that run the same operation ([`corun_exec::teams`]). Where a worker runs
//! is the host's decision: it hands in a function that each new thread calls, for instance to bind itself to a core.
//!
//! What it is not: needed. A host with threads of its own, or with a scheduler of its own, opens a [`Session`] on each client.

mod members;
mod pending;
mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use corun_exec::teams::TeamOptions;

use self::members::Statistics;
use self::pending::Answer;
use self::queue::{Job, Queue};
use crate::error::{Result, StoreError};
use crate::park::ThreadPark;
use crate::session::Session;
use crate::store::Store;

pub use self::members::OperationTeams;
pub use self::pending::Pending;

/// How the clients of a worker share its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Teams {
    /// They are operating-system threads.
    #[default]
    Off,
    /// They are user-level threads of one operating-system thread, and run in teams.
    On,
    /// As with `On`, but in teams only while that is measured to be faster; otherwise one transaction after the other, as far as
    /// none waits.
    Auto,
}

/// How many clients and jobs there may be.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Threads of each worker, each with a session; with teams it has one.
    pub threads: usize,
    /// Jobs that may wait at each worker; who submits another one waits.
    pub queue: usize,
    /// What clients are.
    pub teams: Teams,
    /// With teams: user-level threads of each worker, each with a session.
    pub members: usize,
    /// With teams: their sizes, stacks, and which team is next.
    pub team: TeamOptions,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            threads: 8,
            queue: 1024,
            teams: Teams::Off,
            members: 32,
            team: TeamOptions::default(),
        }
    }
}

/// As many jobs wait at a worker as may. From [`Workers::try_submit`].
#[derive(thiserror::Error)]
#[error(
    "the queue of worker {worker} is full; submit the job later, wait with `submit`, or raise `WorkerOptions::queue`"
)]
pub struct QueueFull<J> {
    /// The job, to be submitted again.
    pub job: J,
    /// The worker it was for.
    pub worker: usize,
}

impl<J> std::fmt::Debug for QueueFull<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueueFull(worker {})", self.worker)
    }
}

/// The clients of all workers of a store. Dropped, they finish the jobs that wait and end.
pub struct Workers {
    queues: Vec<Arc<Queue>>,
    threads: Vec<JoinHandle<()>>,
    /// What members did, by worker.
    statistics: Vec<Arc<Statistics>>,
}

impl Workers {
    /// Starts the clients of as many workers as the store's options say. Each thread first calls `place` with its worker's
    /// number.
    ///
    /// # Errors
    /// [`StoreError::Option`]; sessions or threads that cannot be had.
    pub fn start(
        store: &Store,
        options: WorkerOptions,
        place: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Workers> {
        for (name, value) in [
            ("threads", options.threads),
            ("queue", options.queue),
            ("members", options.members),
        ] {
            if value == 0 {
                return Err(StoreError::Option {
                    name,
                    why: "must be at least 1".to_owned(),
                });
            }
        }
        let place = Arc::new(place);
        let count = store.inner.options.workers;
        let mut workers = Workers {
            queues: (0..count).map(|_| Arc::new(Queue::new(options.queue))).collect(),
            threads: Vec::new(),
            statistics: (0..count).map(|_| Arc::default()).collect(),
        };
        for worker in 0..count {
            let threads = match options.teams {
                Teams::Off => options.threads,
                Teams::On | Teams::Auto => 1,
            };
            for client in 0..threads {
                workers.spawn(store, worker, client, &options, Arc::clone(&place))?;
            }
        }
        Ok(workers)
    }

    fn spawn(
        &mut self,
        store: &Store,
        worker: usize,
        client: usize,
        options: &WorkerOptions,
        place: Arc<impl Fn(usize) + Send + Sync + 'static>,
    ) -> Result<()> {
        let queue = Arc::clone(&self.queues[worker]);
        let statistics = Arc::clone(&self.statistics[worker]);
        let (store_of_thread, options) = (store.clone(), options.clone());
        let (ready, started) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("store-worker-{worker}"))
            .spawn(move || {
                place(worker);
                let prepared = match options.teams {
                    Teams::Off => store_of_thread
                        .session(worker, ThreadPark::current())
                        .map(|session| Box::new(move || work(&queue, client, session)) as Box<dyn FnOnce()>),
                    Teams::On | Teams::Auto => {
                        members::prepare(&store_of_thread, worker, options, queue, statistics)
                    }
                };
                drop(store_of_thread);
                match prepared {
                    Ok(run) => {
                        let _ = ready.send(Ok(()));
                        run();
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            })
            .map_err(|source| StoreError::Storage {
                what: "start a worker thread for",
                place: store.place(),
                source,
            })?;
        self.threads.push(thread);
        // Nothing comes if `place` panicked.
        started.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Workers.
    pub fn count(&self) -> usize {
        self.queues.len()
    }

    /// The teams of each operation so far, of a worker (modulo their number): paper 003, Table 4. Empty without teams; at most some
    /// milliseconds old while it works.
    pub fn team_statistics(&self, worker: usize) -> Vec<OperationTeams> {
        self.statistics[worker % self.statistics.len()].read()
    }

    /// Has a client of a worker (modulo their number) run a job with its session. Waits while the worker's queue is full. A transaction that
    /// the job leaves open, or suspended, is aborted: one that is to outlive its job needs a [`Session`] of its own.
    pub fn submit<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Session) -> R + Send + 'static,
    ) -> Pending<R> {
        let (answer, pending) = Answer::pending();
        self.queues[worker % self.queues.len()].push(Job::new(job, answer));
        pending
    }

    /// As [`Workers::submit`], without waiting.
    ///
    /// # Errors
    /// [`QueueFull`], with the job.
    pub fn try_submit<R: Send + 'static, J: FnOnce(&mut Session) -> R + Send + 'static>(
        &self,
        worker: usize,
        job: J,
    ) -> Result<Pending<R>, QueueFull<J>> {
        let (answer, pending) = Answer::pending();
        let mut job = Some(job);
        self.queues[worker % self.queues.len()].try_push(|| {
            let job = job.take().expect("made once");
            Job::new(job, answer)
        });
        match job {
            Some(job) => Err(QueueFull { job, worker }),
            None => Ok(pending),
        }
    }
}

/// A client that is a thread.
fn work(queue: &Queue, client: usize, mut session: Session) {
    let park = ThreadPark::current();
    while let Some(job) = queue.take(client, &park, || ()) {
        run(&mut session, job);
    }
}

/// Runs a job. One that panics has its transaction aborted while the panic passes; the session is as good as new, and whoever
/// waits for the answer is told that there is none. A transaction that a job leaves open is aborted.
fn run(session: &mut Session, job: Job) {
    let outcome = catch_unwind(AssertUnwindSafe(|| (job.run)(session)));
    // The next job's client is another one.
    session.abandon();
    job.answer.give_up();
    discard(outcome);
    discard(job.answer);
}

/// Drops something of the host's, whose destructor may panic: the client goes on.
fn discard<T>(value: T) {
    quietly(|| drop(value));
}

/// Calls something of the host's, which may panic: the client goes on.
fn quietly(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // Its own destructor may panic too.
        std::mem::forget(payload);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.end();
        }
        for thread in self.threads.drain(..) {
            // Panics of jobs were caught, and one of `place` was reported by the runtime.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, TableDef, Type};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn jobs_run_on_their_workers_and_a_panic_ends_only_its_own() {
        let options = Options {
            workers: 2,
            ..Options::default()
        };
        let store = Store::in_memory(options).unwrap();
        let table = store
            .create_table(TableDef::new("t").column("a", Type::I64).primary_key(&["a"]))
            .unwrap();
        let placed = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&placed);
        let small = WorkerOptions {
            threads: 2,
            queue: 1,
            ..WorkerOptions::default()
        };
        let workers = Workers::start(&store, small, move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!((workers.count(), placed.load(Ordering::Relaxed)), (2, 4));

        let insert = |number: i64| {
            let table = table.clone();
            workers.submit(number as usize, move |session| {
                let mut row = table.new_row();
                row.set(0, number)?;
                let transaction = session.begin()?;
                transaction.insert(&table, &row)?;
                assert!(number != 13, "a job that panics");
                transaction.commit()?;
                Ok::<usize, StoreError>(session.worker())
            })
        };
        let pending: Vec<_> = (0..20).map(insert).collect();
        for (number, pending) in pending.into_iter().enumerate() {
            match pending.wait() {
                None => assert_eq!(number, 13),
                Some(answer) => assert_eq!(answer.unwrap(), number % 2),
            }
        }
        drop(workers);
        assert_eq!(table.rows(), 19);
        let none = WorkerOptions {
            threads: 0,
            ..WorkerOptions::default()
        };
        assert!(Workers::start(&store, none, |_| ()).is_err());
    }
}
