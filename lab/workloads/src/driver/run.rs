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
mod tests {
    use super::*;
    use crate::driver::TeamOptions;
    use crate::driver::client::Work;
    use corun_model::units::CpuId;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    /// As `fail_at`: panics instead, later.
    const PANICS: u64 = 0;

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
            corun_exec::teams::operation(corun_exec::teams::Operation(0));
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
            assert!(self.fail_at != PANICS || attempt < 100, "attempt {attempt}");
            if attempt == self.fail_at {
                Err(TxError::failed("no luck"))
            } else if attempt.is_multiple_of(self.retry_every) {
                Err(TxError::Retry("busy".into()))
            } else {
                Ok(!attempt.is_multiple_of(10))
            }
        }
    }

    fn names() -> Names<'static> {
        Names {
            engine: "stub".to_owned(),
            workload: "none".to_owned(),
            kinds: &["a", "b"],
            operation: Some(&|operation| format!("operation {}", operation.0)),
        }
    }

    fn run(options: &RunOptions, retry_every: u64, fail_at: u64) -> (Result<Outcome, RunError>, u64) {
        let attempts = AtomicU64::new(0);
        let outcome = drive(names(), options, &|_, _| {
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
        for (teams, clients) in Teams::ALL.into_iter().flat_map(|teams| [(teams, 1), (teams, 3)]) {
            let options = RunOptions {
                clients,
                workers: 2,
                teams,
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
        for teams in Teams::ALL {
            let options = RunOptions {
                clients: 3,
                measure: Measure::Time(Duration::from_secs(600)),
                teams,
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
    }

    #[test]
    fn an_engine_whose_clients_need_threads_gets_no_teams() {
        let options = RunOptions {
            teams: Teams::Auto,
            ..RunOptions::default()
        };
        let names = Names {
            operation: None,
            ..names()
        };
        let error = drive(names, &options, &|_, _| Err(TxError::failed("never made"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stub: its clients need a thread each: run it with teams off, not auto"
        );
    }

    #[test]
    fn a_client_that_panics_in_a_team_ends_the_run() {
        for in_make in [true, false] {
            let attempts = AtomicU64::new(0);
            let options = RunOptions {
                clients: 4,
                measure: Measure::Time(Duration::from_secs(600)),
                teams: Teams::On,
                // Nobody else gets a turn before the one that panics has given up its own.
                team: TeamOptions {
                    transactions_max: 1,
                    ..TeamOptions::default()
                },
                ..RunOptions::default()
            };
            let error = drive(names(), &options, &|client, _| {
                assert!(!in_make || client != 2, "made wrongly");
                Ok(Box::new(Stub {
                    attempts: &attempts,
                    retry_every: u64::MAX,
                    fail_at: if in_make { u64::MAX } else { PANICS },
                }))
            });
            let error = error.unwrap_err().to_string();
            let expected = if in_make { "made wrongly" } else { "attempt 100" };
            assert!(
                error.ends_with(&format!("lost: it panicked: {expected}")),
                "{error}"
            );
        }
    }

    /// Takes turns with others wherever it may, and looks whether it is alone.
    struct Crowd<'a> {
        inside: &'a AtomicU64,
        most: &'a AtomicU64,
    }

    impl Work for Crowd<'_> {
        fn draw(&mut self) -> usize {
            0
        }

        fn attempt(&mut self) -> Result<bool, TxError> {
            for operation in 0..3 {
                corun_exec::teams::operation(corun_exec::teams::Operation(operation));
                if operation == 0 {
                    let inside = self.inside.fetch_add(1, Ordering::Relaxed) + 1;
                    self.most.fetch_max(inside, Ordering::Relaxed);
                }
            }
            self.inside.fetch_sub(1, Ordering::Relaxed);
            Ok(true)
        }
    }

    #[test]
    fn as_many_clients_as_may_are_inside_of_a_transaction_at_once() {
        for (teams, transactions_max, expected) in [
            (Teams::On, 0, 6),
            (Teams::On, 3, 3),
            (Teams::On, 1, 1),
            (Teams::Serial, 0, 1),
        ] {
            let (inside, most) = (AtomicU64::new(0), AtomicU64::new(0));
            let options = RunOptions {
                clients: 6,
                teams,
                team: TeamOptions {
                    transactions_max,
                    ..TeamOptions::default()
                },
                ..RunOptions::default()
            };
            let outcome = drive(names(), &options, &|_, _| {
                Ok(Box::new(Crowd {
                    inside: &inside,
                    most: &most,
                }))
            });
            let outcome = outcome.unwrap();
            assert_eq!(most.into_inner(), expected, "{teams}, {transactions_max}");
            let of_teams = outcome.teams.unwrap();
            let names: Vec<_> = of_teams.operations.iter().map(|one| one.name.as_str()).collect();
            if teams == Teams::On {
                assert_eq!(names, ["operation 0", "operation 1", "operation 2"]);
                assert_eq!(of_teams.all().entered, 3000);
                assert_eq!(of_teams.all().stray_rate(), 0.0);
            } else {
                assert!(names.is_empty(), "{names:?}");
            }
        }
    }

    #[test]
    fn clients_run_where_they_are_told() {
        let allowed = corun_topology::affinity::allowed_cpus().unwrap();
        let seen = Mutex::new(Vec::new());
        let attempts = AtomicU64::new(0);
        let mut options = RunOptions {
            clients: 4,
            workers: 2,
            cpus: allowed.clone(),
            ..RunOptions::default()
        };
        for teams in [Teams::Off, Teams::On] {
            options.teams = teams;
            let outcome = drive(names(), &options, &|client, worker| {
                seen.lock()
                    .push((client, worker, corun_topology::affinity::allowed_cpus().unwrap()));
                Ok(Box::new(Stub {
                    attempts: &attempts,
                    retry_every: u64::MAX,
                    fail_at: u64::MAX,
                }))
            });
            assert!(outcome.is_ok());
        }
        let seen = seen.into_inner();
        assert_eq!(seen.len(), 8);
        for (client, worker, cpus) in seen {
            assert_eq!(worker, client % 2);
            assert_eq!(cpus, [allowed[worker % allowed.len()]]);
        }
        options.cpus = vec![CpuId(65_000)];
        for teams in [Teams::Off, Teams::On] {
            options.teams = teams;
            assert!(matches!(
                run(&options, u64::MAX, u64::MAX).0,
                Err(RunError::Pin { .. })
            ));
        }
    }
}
