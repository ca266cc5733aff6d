//! [`Workers`]: threads that run transactions, a few for each core.
//!
//! ```text
//! submit(worker 0, job) ──► bounded queue 0 ──► thread, thread, ...    each with a session of worker 0
//! submit(worker 1, job) ──► bounded queue 1 ──► thread, thread, ...    each with a session of worker 1
//! ```
//!
//! A transaction that waits for a lock or for the log blocks its thread, so a worker has several; the core is shared by the
//! operating system. Where a worker runs is the host's decision: it hands in a function that each new thread calls, for
//! instance to bind itself to a core.
//!
//! What it is not: needed. A host with threads of its own opens a [`Session`] on each.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::error::{Result, StoreError};
use crate::park::ThreadPark;
use crate::session::Session;
use crate::store::Store;

type Job = Box<dyn FnOnce(&mut Session) + Send>;

/// What the threads of one worker take jobs from.
#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    /// A job came, or the end.
    work: Condvar,
    /// A job was taken.
    room: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    ended: bool,
}

/// How many threads and jobs there may be.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Threads of each worker, each with a session.
    pub threads: usize,
    /// Jobs that may wait at each worker; who submits another one waits.
    pub queue: usize,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            threads: 8,
            queue: 1024,
        }
    }
}

/// The threads of all workers of a store. Dropped, they finish the jobs that wait and end.
pub struct Workers {
    queues: Vec<Arc<Queue>>,
    threads: Vec<JoinHandle<()>>,
    queue_max: usize,
}

/// The answer of a job.
pub struct Pending<R>(mpsc::Receiver<R>);

impl<R> Pending<R> {
    /// Waits for it. None if the job panicked; its transaction was aborted then.
    pub fn wait(self) -> Option<R> {
        self.0.recv().ok()
    }
}

impl Workers {
    /// Starts the threads of as many workers as the store's options say. Each thread first calls `place` with its worker's
    /// number.
    ///
    /// # Errors
    /// [`StoreError::Option`]; sessions or threads that cannot be had.
    pub fn start(
        store: &Store,
        options: WorkerOptions,
        place: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Workers> {
        for (name, value) in [("threads", options.threads), ("queue", options.queue)] {
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
            queues: (0..count).map(|_| Arc::new(Queue::default())).collect(),
            threads: Vec::new(),
            queue_max: options.queue,
        };
        for worker in 0..count {
            for _ in 0..options.threads {
                workers.spawn(store, worker, Arc::clone(&place))?;
            }
        }
        Ok(workers)
    }

    fn spawn(
        &mut self,
        store: &Store,
        worker: usize,
        place: Arc<impl Fn(usize) + Send + Sync + 'static>,
    ) -> Result<()> {
        let queue = Arc::clone(&self.queues[worker]);
        let store_of_thread = store.clone();
        let (ready, started) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("store-worker-{worker}"))
            .spawn(move || {
                place(worker);
                match store_of_thread.session(worker, ThreadPark::current()) {
                    Ok(session) => {
                        let _ = ready.send(Ok(()));
                        drop(store_of_thread);
                        work(&queue, session);
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

    /// Has a thread of a worker (modulo their number) run a job with its session. Waits while the worker's queue is full.
    pub fn submit<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Session) -> R + Send + 'static,
    ) -> Pending<R> {
        let queue = &self.queues[worker % self.queues.len()];
        let (answer, pending) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |session| {
            // Nobody may be left who wants the answer.
            let _ = answer.send(job(session));
        });
        let mut jobs = queue.jobs.lock();
        queue
            .room
            .wait_while(&mut jobs, |jobs| jobs.waiting.len() >= self.queue_max);
        jobs.waiting.push_back(job);
        drop(jobs);
        queue.work.notify_one();
        Pending(pending)
    }
}

fn work(queue: &Queue, mut session: Session) {
    loop {
        let job = {
            let mut jobs = queue.jobs.lock();
            queue
                .work
                .wait_while(&mut jobs, |jobs| jobs.waiting.is_empty() && !jobs.ended);
            match jobs.waiting.pop_front() {
                Some(job) => job,
                None => return,
            }
        };
        queue.room.notify_one();
        // A job that panics has its transaction aborted while the panic passes; the session is as good as new, and whoever
        // waits for the answer is told by its absence.
        let _ = catch_unwind(AssertUnwindSafe(|| job(&mut session)));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.jobs.lock().ended = true;
            queue.work.notify_all();
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
        let small = WorkerOptions { threads: 2, queue: 1 };
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
        let none = WorkerOptions { threads: 0, queue: 1 };
        assert!(Workers::start(&store, none, |_| ()).is_err());
    }
}
