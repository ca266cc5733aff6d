//! The clients of a run: threads, each pinned to its worker's CPU, each with one transaction at a time.
//!
//! ```text
//! all clients made -> warm-up -> measured -> stopped
//!                     (not counted)  |-- by time: what ends in it counts
//!                                    `-- by number: a ticket for each transaction; who finds none left is done
//! ```

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use machine::affinity::{AffinityError, pin};
use model::units::CpuId;
use parking_lot::{Condvar, Mutex};
use thiserror::Error;

use super::outcome::{Outcome, Tally};
use crate::engine::TxError;
use crate::random::Random;

/// How long a run is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// So long.
    Time(Duration),
    /// Until all clients together have run so many transactions.
    Transactions(u64),
}

/// How a workload is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Clients at once, each a thread; 10 a warehouse in TPC-C. At least 1.
    pub clients: usize,
    /// Workers the clients belong to in turns. At least 1. In TPC-C the clients of a warehouse share a worker if the number
    /// of warehouses is a multiple of it.
    pub workers: usize,
    /// The CPU of each worker, taken again from the front if there are fewer. None: threads are not pinned.
    pub cpus: Vec<CpuId>,
    /// How long clients run before they are counted.
    pub warmup: Duration,
    /// How long they are counted.
    pub measure: Measure,
    /// What the inputs are drawn from.
    pub seed: u64,
    /// How often one transaction is run again because of others before the run fails.
    pub retries_max: u32,
}

impl Default for RunOptions {
    /// One client, one worker, not pinned, a thousand transactions.
    fn default() -> Self {
        Self {
            clients: 1,
            workers: 1,
            cpus: Vec::new(),
            warmup: Duration::ZERO,
            measure: Measure::Transactions(1000),
            seed: 1,
            retries_max: 1000,
        }
    }
}

/// Why a run ended early.
#[derive(Debug, Error)]
pub enum RunError {
    /// A client could not be made.
    #[error("client {client}: cannot start: {error}")]
    Client {
        /// Its number.
        client: usize,
        /// What the engine said.
        error: TxError,
    },
    /// A transaction failed.
    #[error("client {client}: {transaction}: {reason}")]
    Transaction {
        /// The client's number.
        client: usize,
        /// Its type.
        transaction: &'static str,
        /// What the engine or the check of its answer said.
        reason: String,
    },
    /// A transaction was run again too often.
    #[error("client {client}: {transaction}: gave up after {retries} retries; the last time: {reason}")]
    Retries {
        /// The client's number.
        client: usize,
        /// Its type.
        transaction: &'static str,
        /// How often it was run again.
        retries: u32,
        /// What kept failing.
        reason: String,
    },
    /// A client's thread could not be put on its CPU.
    #[error("client {client}: {error}")]
    Pin {
        /// Its number.
        client: usize,
        /// What the kernel said.
        error: AffinityError,
    },
}

/// What one client does: draws a transaction, then tries it until it succeeds.
pub(super) trait Work {
    /// Draws the next transaction and returns the number of its type.
    fn draw(&mut self) -> usize;
    /// Runs it once. True if it committed, false if the rules rolled it back.
    fn attempt(&mut self) -> Result<bool, TxError>;
}

/// Makes the work of client number `client` of worker `worker`, on the client's thread.
pub(super) type MakeWork<'a> = dyn Fn(usize, usize) -> Result<Box<dyn Work + 'a>, TxError> + Sync + 'a;

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const STOPPED: u8 = 2;

/// What clients and the thread that started them share.
struct Shared<'a> {
    options: &'a RunOptions,
    kinds: &'a [&'static str],
    // Relaxed everywhere: both only tell clients when to count and stop; results go through the join of their threads.
    phase: AtomicU8,
    tickets: AtomicI64,
    /// Counts itself, so that nobody begins before everybody is there.
    ready: Barrier,
    failed: Mutex<Option<RunError>>,
    failure: Condvar,
}

impl Shared<'_> {
    fn fail(&self, error: RunError) {
        self.failed.lock().get_or_insert(error);
        self.phase.store(STOPPED, Ordering::Relaxed);
        self.failure.notify_all();
    }

    /// Waits so long, or until a client has failed.
    fn wait(&self, time: Duration) {
        let deadline = Instant::now() + time;
        let mut failed = self.failed.lock();
        while failed.is_none() && !self.failure.wait_until(&mut failed, deadline).timed_out() {}
    }
}

/// Runs the clients and sums up what they did.
pub(super) fn drive<'a>(
    names: (String, String),
    kinds: &[&'static str],
    options: &RunOptions,
    make: &MakeWork<'a>,
) -> Result<Outcome, RunError> {
    let clients = options.clients.max(1);
    let workers = options.workers.max(1);
    let tickets = match options.measure {
        Measure::Time(_) => i64::MAX,
        Measure::Transactions(count) => i64::try_from(count).unwrap_or(i64::MAX),
    };
    let shared = Shared {
        options,
        kinds,
        phase: AtomicU8::new(if options.warmup.is_zero() {
            MEASURED
        } else {
            WARM_UP
        }),
        tickets: AtomicI64::new(tickets),
        ready: Barrier::new(clients + 1),
        failed: Mutex::new(None),
        failure: Condvar::new(),
    };
    let mut tallies = vec![Tally::default(); kinds.len()];
    let wall = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|client| {
                let shared = &shared;
                scope.spawn(move || run_client(shared, client, client % workers, make))
            })
            .collect();
        let before = Instant::now();
        shared.ready.wait();
        shared.wait(options.warmup);
        // Without a warm-up clients may have begun, and even ended, before this thread goes on.
        let start = if options.warmup.is_zero() {
            before
        } else {
            Instant::now()
        };
        // A client may have failed and said so: that stays.
        let _ = shared
            .phase
            .compare_exchange(WARM_UP, MEASURED, Ordering::Relaxed, Ordering::Relaxed);
        let mut end = start;
        if let Measure::Time(time) = options.measure {
            shared.wait(time);
            end = Instant::now();
            shared.phase.store(STOPPED, Ordering::Relaxed);
        }
        for thread in threads {
            match thread.join() {
                Ok((counted, last)) => {
                    for (tally, more) in tallies.iter_mut().zip(&counted) {
                        tally.merge(more);
                    }
                    if matches!(options.measure, Measure::Transactions(_)) {
                        end = end.max(last);
                    }
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        end - start
    });
    match shared.failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(Outcome::new(names, (clients, workers), wall, kinds, tallies)),
    }
}

/// Runs one client to the end; returns what counted, by type, and when its last transaction ended.
fn run_client(
    shared: &Shared<'_>,
    client: usize,
    worker: usize,
    make: &MakeWork<'_>,
) -> (Vec<Tally>, Instant) {
    let options = shared.options;
    let mut tallies = vec![Tally::default(); shared.kinds.len()];
    let mut last = Instant::now();
    let cpu = options.cpus.get(worker % options.cpus.len().max(1));
    let pinned = cpu.map(|&cpu| pin(cpu)).transpose();
    let work = match &pinned {
        Ok(_) => make(client, worker).map_err(|error| RunError::Client { client, error }),
        Err(_) => Err(RunError::Client {
            client,
            error: TxError::failed("not pinned"),
        }),
    };
    shared.ready.wait();
    let mut work = match (pinned, work) {
        (Err(error), _) => {
            shared.fail(RunError::Pin { client, error });
            return (tallies, last);
        }
        (_, Err(error)) => {
            shared.fail(error);
            return (tallies, last);
        }
        (Ok(_), Ok(work)) => work,
    };
    let by_number = matches!(options.measure, Measure::Transactions(_));
    let mut jitter = Random::new(options.seed ^ 0x6a09_e667_f3bc_c908, client as u64);
    loop {
        let phase = shared.phase.load(Ordering::Relaxed);
        if phase == STOPPED {
            break;
        }
        if by_number && phase == MEASURED && shared.tickets.fetch_sub(1, Ordering::Relaxed) <= 0 {
            break;
        }
        let kind = work.draw();
        let begin = Instant::now();
        let mut retries = 0;
        let committed = loop {
            match work.attempt() {
                Ok(committed) => break committed,
                Err(TxError::Retry(_)) if retries < options.retries_max => {
                    back_off(retries, &mut jitter);
                    retries += 1;
                }
                Err(error) => {
                    let transaction = shared.kinds[kind];
                    shared.fail(match error {
                        TxError::Retry(reason) => RunError::Retries {
                            client,
                            transaction,
                            retries,
                            reason,
                        },
                        TxError::Failed(reason) => RunError::Transaction {
                            client,
                            transaction,
                            reason,
                        },
                    });
                    return (tallies, last);
                }
            }
        };
        last = Instant::now();
        let counts = if by_number {
            phase
        } else {
            shared.phase.load(Ordering::Relaxed)
        };
        if counts == MEASURED {
            let tally = &mut tallies[kind];
            tally.committed += u64::from(committed);
            tally.rolled_back += u64::from(!committed);
            tally.retried += u64::from(retries);
            tally.latencies.add(last - begin);
        }
    }
    (tallies, last)
}

/// Lets others go first: gives the CPU away at first, then sleeps a random time that doubles up to two milliseconds. A
/// thousand retries take at most two seconds of sleep.
fn back_off(retries: u32, jitter: &mut Random) {
    if retries == 0 {
        std::thread::yield_now();
        return;
    }
    let us_max = (10i64 << retries.min(8)).min(2_000);
    std::thread::sleep(Duration::from_micros(jitter.between(0, us_max) as u64));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Fails as told: every `retry_every`-th attempt must be repeated, attempt number `fail_at` of all fails.
    struct Stub<'a> {
        attempts: &'a AtomicU64,
        retry_every: u64,
        fail_at: u64,
    }

    impl Work for Stub<'_> {
        fn draw(&mut self) -> usize {
            1
        }

        fn attempt(&mut self) -> Result<bool, TxError> {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
            if attempt == self.fail_at {
                Err(TxError::failed("no luck"))
            } else if attempt.is_multiple_of(self.retry_every) {
                Err(TxError::Retry("busy".into()))
            } else {
                Ok(!attempt.is_multiple_of(10))
            }
        }
    }

    fn run(options: &RunOptions, retry_every: u64, fail_at: u64) -> (Result<Outcome, RunError>, u64) {
        let attempts = AtomicU64::new(0);
        let outcome = drive(("stub".into(), "none".into()), &["a", "b"], options, &|_, _| {
            Ok(Box::new(Stub {
                attempts: &attempts,
                retry_every,
                fail_at,
            }))
        });
        (outcome, attempts.into_inner())
    }

    #[test]
    fn everything_is_counted_once() {
        for clients in [1, 3] {
            let options = RunOptions {
                clients,
                ..RunOptions::default()
            };
            let (outcome, attempts) = run(&options, 7, u64::MAX);
            let outcome = outcome.unwrap();
            assert_eq!(outcome.committed() + outcome.rolled_back(), 1000);
            assert_eq!(
                outcome.committed() + outcome.rolled_back() + outcome.retried(),
                attempts
            );
            assert!(outcome.rolled_back() > 90 && outcome.retried() > 150);
            assert_eq!(outcome.kinds.len(), 1);
            assert_eq!(
                (outcome.kinds[0].kind, outcome.kinds[0].latencies.count()),
                ("b", 1000)
            );
        }
    }

    #[test]
    fn the_first_failure_stops_all_clients() {
        let options = RunOptions {
            clients: 3,
            measure: Measure::Time(Duration::from_secs(600)),
            ..RunOptions::default()
        };
        let (outcome, _) = run(&options, u64::MAX, 50);
        assert!(outcome.unwrap_err().to_string().ends_with("b: no luck"));
        let options = RunOptions {
            retries_max: 5,
            ..options
        };
        let (outcome, _) = run(&options, 1, u64::MAX);
        let error = outcome.unwrap_err().to_string();
        assert!(
            error.ends_with("b: gave up after 5 retries; the last time: busy"),
            "{error}"
        );
    }

    #[test]
    fn clients_run_where_they_are_told() {
        let allowed = machine::affinity::allowed_cpus().unwrap();
        let seen = Mutex::new(Vec::new());
        let attempts = AtomicU64::new(0);
        let options = RunOptions {
            clients: 4,
            workers: 2,
            cpus: allowed.clone(),
            ..RunOptions::default()
        };
        let outcome = drive(
            ("stub".into(), "none".into()),
            &["a", "b"],
            &options,
            &|client, worker| {
                seen.lock()
                    .push((client, worker, machine::affinity::allowed_cpus().unwrap()));
                Ok(Box::new(Stub {
                    attempts: &attempts,
                    retry_every: u64::MAX,
                    fail_at: u64::MAX,
                }))
            },
        );
        assert!(outcome.is_ok());
        let mut seen = seen.into_inner();
        seen.sort();
        for (client, worker, cpus) in seen {
            assert_eq!(worker, client % 2);
            assert_eq!(cpus, [allowed[worker % allowed.len()]]);
        }
        let options = RunOptions {
            cpus: vec![CpuId(65_000)],
            ..options
        };
        assert!(matches!(
            run(&options, u64::MAX, u64::MAX).0,
            Err(RunError::Pin { .. })
        ));
    }
}
