//! [`drive`]: starts the clients of a run where its options say, and sums up what they did.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::Instant;

use corun_topology::affinity::{AffinityError, Pinned, pin};
use parking_lot::{Condvar, Mutex};

use super::client::{Done, MEASURED, MakeWork, OwnThread, STOPPED, Shared, WARM_UP, run_client};
use super::members;
use super::options::{Measure, RunError, RunOptions};
use super::outcome::{Outcome, Tally};
use super::team_outcome::TeamOutcome;
use super::teams::Teams;
use crate::engine::TxError;

/// What is run: the engine's name and the workload's, and the names of its transactions.
pub(super) struct Names<'a> {
    pub engine: String,
    pub workload: String,
    pub kinds: &'a [&'static str],
    /// Of the engine's operations; `None` if its clients need a thread each.
    pub operation: Option<&'a members::OperationName<'a>>,
}

/// Runs the clients and sums up what they did.
pub(super) fn drive<'a>(
    names: Names<'_>,
    options: &RunOptions,
    make: &MakeWork<'a>,
) -> Result<Outcome, RunError> {
    if options.teams != Teams::Off && names.operation.is_none() {
        return Err(RunError::NoTeams {
            engine: names.engine,
            teams: options.teams,
        });
    }
    let clients = options.clients.max(1);
    let workers = options.workers.max(1);
    let threads = match options.teams {
        Teams::Off => clients,
        _ => workers.min(clients),
    };
    let tickets = match options.measure {
        Measure::Time(_) => i64::MAX,
        Measure::Transactions(count) => i64::try_from(count).unwrap_or(i64::MAX),
    };
    let shared = Shared {
        options,
        kinds: names.kinds,
        phase: AtomicU8::new(if options.warmup.is_zero() {
            MEASURED
        } else {
            WARM_UP
        }),
        tickets: AtomicI64::new(tickets),
        ready: Barrier::new(threads + 1),
        failed: Mutex::new(None),
        failure: Condvar::new(),
    };
    let mut tallies = vec![Tally::default(); names.kinds.len()];
    let mut teams: Option<TeamOutcome> = None;
    let wall = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let shared = &shared;
                scope.spawn(move || match options.teams {
                    Teams::Off => (run_thread(shared, thread, thread % workers, make), None),
                    _ => {
                        let of_worker: Vec<usize> = (thread..clients).step_by(workers).collect();
                        members::run_worker(shared, thread, &of_worker, make)
                    }
                })
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
                Ok((done, of_worker)) => {
                    for Done { tallies: more, last } in done {
                        for (tally, more) in tallies.iter_mut().zip(&more) {
                            tally.merge(more);
                        }
                        if matches!(options.measure, Measure::Transactions(_)) {
                            end = end.max(last);
                        }
                    }
                    if let Some(of_worker) = of_worker {
                        teams.get_or_insert_default().merge(of_worker);
                    }
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        end - start
    });
    if let Some(error) = shared.failed.into_inner() {
        return Err(error);
    }
    let mut outcome = Outcome::new(
        (names.engine, names.workload),
        (clients, workers),
        wall,
        names.kinds,
        tallies,
    );
    outcome.teams = teams;
    if let (Some(teams), Some(name)) = (&mut outcome.teams, names.operation) {
        teams.name(name);
    }
    Ok(outcome)
}

/// Puts the calling thread on its worker's CPU, if that has one, for as long as the result lives.
pub(super) fn place(options: &RunOptions, worker: usize) -> Result<Option<Pinned>, AffinityError> {
    let cpu = options.cpus.get(worker % options.cpus.len().max(1));
    cpu.map(|&cpu| pin(cpu)).transpose()
}

/// Runs one client on the calling thread to its end.
fn run_thread(shared: &Shared<'_>, client: usize, worker: usize, make: &MakeWork<'_>) -> Vec<Done> {
    let placed = place(shared.options, worker);
    let work = match &placed {
        Ok(_) => make(client, worker).map_err(|error| RunError::Client { client, error }),
        Err(_) => Err(RunError::Client {
            client,
            error: TxError::failed("not pinned"),
        }),
    };
    shared.ready.wait();
    let error = match (placed, work) {
        (Err(error), _) => RunError::Pin { client, error },
        (_, Err(error)) => error,
        (Ok(_pinned), Ok(mut work)) => return vec![run_client(shared, client, work.as_mut(), &OwnThread)],
    };
    shared.fail(error);
    Vec::new()
}

#[cfg(test)]
mod tests;
