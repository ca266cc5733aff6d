//! [`run`]: the memory of a pooler whose clients have logged in and do nothing.
//!
//! Each pooler is started for this: memory that earlier clients left would be counted. Clients connect one after the other, then rest;
//! memory is read before and after, and at the end each client asks once, so that a client that was lost is seen. What the kernel keeps
//! for sockets is in no process and not counted.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::SUITE;
use super::case::Case;
use super::fixture::Fixture;
use super::rows::{METRICS, keys, rows};
use super::sides::{Kind, POOL, Side, Spec, standard};
use crate::fixture::client::Client;
use crate::fixture::failed;
use lab_core::contest::{Gone, SideResult};
use lab_core::error::BenchError;
use lab_core::metric::{MetricSpec, RATIO};
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::Spread;

/// Longest wait for one client's login or answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long memory is left to settle before it is read.
const SETTLE: Duration = Duration::from_millis(500);
/// Files a pooler and this process have open beside the clients' sockets.
const OTHER_FILES: usize = 1_000;

/// What a pooler took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    before: f64,
    idle: f64,
    used: f64,
    clients: f64,
    connects_per_s: f64,
}

/// What rows say of it, each in a state of the clients.
const STATES: [(&str, MetricSpec<Taken>); 5] = [
    (
        "before",
        MetricSpec::lower("rss_bytes", "bytes", |taken| Some(taken.before)),
    ),
    (
        "idle",
        MetricSpec::lower("rss_bytes", "bytes", |taken| Some(taken.idle)),
    ),
    (
        "used_once",
        MetricSpec::lower("rss_bytes", "bytes", |taken| Some(taken.used)),
    ),
    (
        "idle",
        MetricSpec::lower("bytes_per_client", "bytes", |taken| {
            Some((taken.idle - taken.before) / taken.clients)
        }),
    ),
    (
        "connecting",
        MetricSpec::higher("connects_per_s", "1/s", |taken| Some(taken.connects_per_s)),
    ),
];

/// Runs the case on every pooler and emits its rows.
///
/// # Errors
/// When this process may not have that many connections.
pub fn run(case: &Case, fixture: &Fixture, quick: bool, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    allow_files(case.clients + OTHER_FILES)?;
    // Memory hardly varies, and each round starts every pooler anew.
    let rounds = if quick {
        1
    } else {
        runner.plan().repetitions.min(3)
    };
    let wanted = |spec: &Spec| match &spec.kind {
        Kind::Direct => false,
        Kind::PgBouncer { processes, .. } => *processes == 1 && spec.pool == POOL,
        Kind::Corun(_) | Kind::Before(_) => true,
    };
    let specs: Vec<Spec> = standard(fixture).into_iter().filter(wanted).collect();
    let mut taken: Vec<SideResult<Taken>> = specs.iter().map(|_| SideResult::default()).collect();
    let progress = runner.progress();
    progress.begin(&format!("proxy {}", case.name()), (rounds * specs.len()) as u64);
    for _ in 0..rounds {
        for (spec, taken) in specs.iter().zip(&mut taken) {
            if taken.gone.is_none() {
                match measure(case, fixture, spec) {
                    Ok(found) => taken.rounds.push(Some(found)),
                    Err(why) => taken.gone = Some(why),
                }
            }
            progress.advance(1);
        }
    }
    progress.end();
    emit(case, fixture.scale, &specs, &taken, runner);
    Ok(())
}

fn measure(case: &Case, fixture: &Fixture, spec: &Spec) -> Result<Taken, Gone> {
    let mut side = Side::start(spec.clone(), fixture, case.transport, 1);
    if let Some(gone) = side.contender.gone() {
        return Err(gone.clone());
    }
    if let Some(wrong) = side.wrong.take() {
        return Err(Gone::Failed(wrong));
    }
    rest(&mut side, case.clients).map_err(|error| side.contender.failure(&error))
}

fn rest(side: &mut Side, clients: usize) -> Result<Taken, BenchError> {
    let resident = |side: &Side| {
        std::thread::sleep(SETTLE);
        let bytes = side.contender.resident_bytes();
        bytes.ok_or_else(|| BenchError::Machine("the kernel does not tell a process's memory".to_owned()))
    };
    let before = resident(side)?;
    let start = Instant::now();
    let mut all = Vec::with_capacity(clients);
    for _ in 0..clients {
        all.push(Client::connect(side.contender.address()?, PATIENCE)?);
    }
    let seconds = start.elapsed().as_secs_f64();
    let idle = resident(side)?;
    for (number, client) in all.iter_mut().enumerate() {
        let number = number as i64 + 1;
        let found = client.numbers(&format!("select aid from pgbench_accounts where aid = {number}"))?;
        if found != [number] {
            return Err(failed("login", format!("client {number} was told {found:?}")));
        }
    }
    let used = resident(side)?;
    side.contender.alive()?;
    Ok(Taken {
        before,
        idle,
        used,
        clients: clients as f64,
        connects_per_s: clients as f64 / seconds.max(1e-9),
    })
}

fn emit(case: &Case, scale: usize, specs: &[Spec], taken: &[SideResult<Taken>], runner: &mut Runner<'_>) {
    let name = case.name();
    for (spec, taken) in specs.iter().zip(taken) {
        let side = keys(case, scale, spec);
        if let Some(gone) = &taken.gone {
            rows(&name, &METRICS).missing(&side, gone, runner);
            continue;
        }
        for (state, metric) in &STATES {
            let values = taken.values(metric.read);
            if let Some(spread) = Spread::of(&values) {
                let row = Row::measured(SUITE, &name, metric.name, metric.unit, spread, true);
                runner.emit_checked(row.with("state", *state).with_all(&side.keys));
            }
        }
    }
    let Some(corun) = specs.iter().position(|spec| matches!(spec.kind, Kind::Corun(_))) else {
        return;
    };
    for other in (0..specs.len()).filter(|&other| other != corun) {
        let ratios = STATES[1].1.ratios(&taken[corun], &taken[other]);
        if let Some(spread) = Spread::of(&ratios) {
            let row = Row::measured(SUITE, &name, RATIO, "x", spread, true).versus(&specs[other].name);
            let row = row.with("compared", "rss_bytes").with("state", "idle");
            runner.emit_checked(row.with_all(&keys(case, scale, &specs[corun]).keys));
        }
    }
}

/// Lets this process, and those it starts from now on, have so many files open.
pub(crate) fn allow_files(wanted: usize) -> Result<(), BenchError> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if soft_limit(&limits).is_some_and(|limit| limit >= wanted as u64) {
        return Ok(());
    }
    let raised = Command::new("prlimit")
        .args([
            "--pid",
            &std::process::id().to_string(),
            &format!("--nofile={wanted}:"),
        ])
        .stdin(Stdio::null())
        .output();
    match raised {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(BenchError::Machine(format!(
            "this process may not have {wanted} open files; ulimit -n raises the limit, --case leaves the case out"
        ))),
    }
}

/// The soft limit of open files in the text of `/proc/self/limits`.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_files_is_read_and_raised_no_further_than_it_may() {
        let limits = "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024                 20000                files\n";
        assert_eq!(soft_limit(limits), Some(1_024));
        assert_eq!(
            soft_limit("Max open files unlimited unlimited files"),
            Some(u64::MAX)
        );
        assert_eq!(soft_limit(""), None);
        assert!(allow_files(16).is_ok());
        assert!(allow_files(usize::MAX >> 1).is_err_and(|error| error.to_string().contains("ulimit")));
    }
}
