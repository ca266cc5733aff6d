//! Two threads, each pinned to a CPU of its own, that run queries when told: the target's and the co-runner's.
//!
//! A query has one partition and its thread a runtime of its own, so all its work is on its CPU; threads that a build starts
//! inherit it. A co-runner loops until it is told to stop, and is then dropped where it stands, so that it runs
//! before, during and after the target.
//!
//! ```text
//!   target      ............ run run run ....
//!   co-runner   ..run run run run run ru|        | told to stop
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use corun_datafusion::Engine;
use corun_model::operators::placement::Pair;
use corun_model::units::CpuId;
use corun_topology::affinity::pin;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use corun_workloads::answers::{Answer, fingerprint};
use lab_core::error::BenchError;

/// One query with its engine and its answer.
#[derive(Clone)]
pub struct Query {
    /// Where it runs.
    pub engine: Engine,
    /// The statement.
    pub sql: String,
    /// What it must answer.
    pub expected: Answer,
}

/// What some runs of a query came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Runs that ended.
    pub runs: u64,
    /// Wall-clock time of the runs that ended, checking their answers excluded.
    pub elapsed: Duration,
    /// The first wrong answer.
    pub wrong: Option<String>,
    /// The first failure; nothing ran after it.
    pub failed: Option<String>,
}

impl Runs {
    /// Seconds a run took on average; `None` where none ended.
    pub fn seconds(&self) -> Option<f64> {
        (self.runs > 0 && self.failed.is_none()).then(|| self.elapsed.as_secs_f64() / self.runs as f64)
    }

    async fn add(&mut self, query: &Query) {
        let start = Instant::now();
        match query.engine.query(&query.sql).await {
            Ok(output) => {
                self.elapsed += start.elapsed();
                self.runs += 1;
                let answer = fingerprint(&output.schema, &output.batches);
                if answer != query.expected && self.wrong.is_none() {
                    self.wrong = Some(format!("expected {}, got {answer}", query.expected));
                }
            }
            Err(error) => self.failed = Some(error.to_string()),
        }
    }
}

/// How a loop is told to end.
#[derive(Default)]
struct Stop {
    flag: AtomicBool,
    waker: Notify,
}

impl Stop {
    fn tell(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.waker.notify_one();
    }
}

enum Job {
    Times {
        query: Query,
        runs: usize,
        reply: SyncSender<Runs>,
    },
    Loop {
        query: Query,
        stop: Arc<Stop>,
        started: SyncSender<()>,
        reply: SyncSender<Runs>,
    },
}

/// A pinned thread with a runtime of its own.
pub struct PinnedThread {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// A co-runner under way; dropping it stops it.
pub struct Looping<'s> {
    stop: Arc<Stop>,
    reply: Receiver<Runs>,
    _thread: &'s PinnedThread,
}

impl Looping<'_> {
    /// Ends the loop; what ended of it.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn finish(self) -> Result<Runs, BenchError> {
        self.stop.tell();
        self.reply.recv().map_err(|_| gone())
    }
}

impl Drop for Looping<'_> {
    fn drop(&mut self) {
        self.stop.tell();
    }
}

fn gone() -> BenchError {
    BenchError::Data("a query ended its thread: it panicked".to_owned())
}

impl PinnedThread {
    /// Starts the thread on its CPU.
    ///
    /// # Errors
    /// When the kernel refuses the CPU, or the thread.
    pub fn take(cpu: CpuId) -> Result<PinnedThread, BenchError> {
        let (jobs, inbox) = channel();
        let (ready, outcome) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(format!("query-{cpu}"))
            .spawn(move || {
                let pinned = pin(cpu).map_err(BenchError::machine);
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime =
                    runtime.map_err(|source| BenchError::io("could not start a query's runtime", source));
                match pinned.and_then(|pinned| Ok((pinned, runtime?))) {
                    Ok((_pinned, runtime)) => {
                        let _ = ready.send(Ok(()));
                        serve(&runtime, &inbox);
                    }
                    // The thread's owner hears of it and gives up.
                    Err(error) => drop(ready.send(Err(error))),
                }
            })
            .map_err(|source| BenchError::io("could not start a query's thread", source))?;
        outcome.recv().map_err(|_| gone())??;
        Ok(PinnedThread {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    fn send(&self, job: Job) -> Result<(), BenchError> {
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(job).map_err(|_| gone())
    }

    /// Runs a query so many times, at least once, and waits for it.
    ///
    /// # Errors
    /// When the thread is gone; a failing query is in [`Runs::failed`].
    pub fn time(&self, query: &Query, runs: usize) -> Result<Runs, BenchError> {
        let (reply, answer) = sync_channel(1);
        self.send(Job::Times {
            query: query.clone(),
            runs: runs.max(1),
            reply,
        })?;
        answer.recv().map_err(|_| gone())
    }

    /// Runs a query again and again until the result is finished or dropped; returns once it runs.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn start(&self, query: &Query) -> Result<Looping<'_>, BenchError> {
        let (reply, answer) = sync_channel(1);
        let (started, under_way) = sync_channel(1);
        let stop = Arc::new(Stop::default());
        self.send(Job::Loop {
            query: query.clone(),
            stop: Arc::clone(&stop),
            started,
            reply,
        })?;
        under_way.recv().map_err(|_| gone())?;
        Ok(Looping {
            stop,
            reply: answer,
            _thread: self,
        })
    }
}

impl Drop for PinnedThread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported to whoever waited for the query.
            let _ = thread.join();
        }
    }
}

fn serve(runtime: &Runtime, inbox: &Receiver<Job>) {
    while let Ok(job) = inbox.recv() {
        // Whoever no longer waits needs no answer.
        match job {
            Job::Times { query, runs, reply } => drop(reply.send(runtime.block_on(times(&query, runs)))),
            Job::Loop {
                query,
                stop,
                started,
                reply,
            } => {
                let _ = started.send(());
                drop(reply.send(runtime.block_on(until_told(&query, &stop))));
            }
        }
    }
}

async fn times(query: &Query, wanted: usize) -> Runs {
    let mut done = Runs::default();
    while done.runs < wanted as u64 && done.failed.is_none() {
        done.add(query).await;
    }
    done
}

async fn until_told(query: &Query, stop: &Stop) -> Runs {
    let mut done = Runs::default();
    while !stop.flag.load(Ordering::Relaxed) && done.failed.is_none() {
        let before = done.clone();
        let told = tokio::select! {
            () = done.add(query) => false,
            () = stop.waker.notified() => true,
        };
        if told {
            // The run was dropped half-way: nothing of it counts.
            done = before;
            break;
        }
    }
    done
}

/// Both pinned of a machine.
pub struct PinnedThreads {
    /// Where targets run.
    pub target: PinnedThread,
    /// Where co-runners run.
    pub corunner: PinnedThread,
}

impl PinnedThreads {
    /// Starts a thread on each CPU of a pair.
    ///
    /// # Errors
    /// When one cannot be had.
    pub fn take(pair: Pair) -> Result<PinnedThreads, BenchError> {
        Ok(PinnedThreads {
            target: PinnedThread::take(pair.main)?,
            corunner: PinnedThread::take(pair.partner)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use corun_datafusion::EngineOptions;

    use super::*;
    use corun_workloads::answers::fingerprint_of_rows;

    fn query(sql: &str, answer: &str) -> Query {
        let options = EngineOptions {
            partitions: 1,
            share_work: false,
            ..EngineOptions::default()
        };
        Query {
            engine: Engine::new(&options).expect("an engine"),
            sql: sql.to_owned(),
            expected: fingerprint_of_rows(&[answer.to_owned()]),
        }
    }

    fn thread() -> PinnedThread {
        let cpu = corun_topology::affinity::allowed_cpus().expect("an affinity mask")[0];
        PinnedThread::take(cpu).expect("an allowed CPU")
    }

    #[test]
    fn runs_are_counted_and_checked() {
        let thread = thread();
        let right = thread.time(&query("select 1 + 1", "2"), 3).expect("a thread");
        assert_eq!((right.runs, right.wrong.as_deref()), (3, None));
        assert!(right.seconds().is_some());
        let wrong = thread.time(&query("select 1 + 1", "3"), 2).expect("a thread");
        assert!(wrong.wrong.is_some());
        let failed = thread.time(&query("select x", ""), 2).expect("a thread");
        assert!(failed.failed.is_some() && failed.seconds().is_none());
    }

    #[test]
    fn a_loop_runs_until_it_is_told_and_the_seat_serves_on() {
        let thread = thread();
        let looped = query("select count(*) from generate_series(1, 100000)", "100000");
        let looping = thread.start(&looped).expect("a thread");
        std::thread::sleep(Duration::from_millis(200));
        let runs = looping.finish().expect("a thread");
        assert!(runs.failed.is_none() && runs.wrong.is_none(), "{runs:?}");
        drop(thread.start(&looped).expect("a thread"));
        assert_eq!(
            thread.time(&query("select 7", "7"), 1).expect("a thread").runs,
            1,
            "the dropped loop ended"
        );
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(PinnedThread::take(CpuId(60_000)).is_err());
    }
}
