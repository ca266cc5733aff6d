//! Everything is counted once; the first failure or panic ends all clients.

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
            // Who has had its slice, which on a busy machine some have, waits for its next turn outside of its team: once between
            // two transactions at most.
            let all = of_teams.all();
            let astray_max = if transactions_max == 0 { 0 } else { 1000 };
            assert!(
                all.entered - all.left <= astray_max,
                "{teams}, {transactions_max}: {all:?}"
            );
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
