//! [`run`]: the memory of a pooler whose clients have logged in and do nothing.
//!
//! Each pooler is started for this: memory that earlier clients left would be counted. Clients connect one after the other, then rest;
//! memory is read before and after, and at the end each client asks once, so that a client that was lost is seen. What the kernel keeps
//! for sockets is in no process and not counted.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::SUITE;
use super::case::Case;
use super::client::Client;
use super::fixture::Fixture;
use super::rows::missing;
use super::sides::{Kind, Side, Spec, standard};
use lab_core::contest::Gone;
use lab_core::error::BenchError;
use lab_core::metric::RATIO;
use lab_core::row::{Row, Value};
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
    connects_per_s: f64,
}

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
        Kind::PgBouncer { processes, .. } => *processes == 1 && spec.pool == super::sides::POOL,
        Kind::Corun(_) | Kind::Before(_) => true,
    };
    let specs: Vec<Spec> = standard(fixture).into_iter().filter(wanted).collect();
    let mut taken: Vec<Vec<Taken>> = vec![Vec::new(); specs.len()];
    let mut gone: Vec<Option<Gone>> = vec![None; specs.len()];
    runner
        .progress()
        .begin(&format!("proxy {}", case.name()), (rounds * specs.len()) as u64);
    for _ in 0..rounds {
        for (index, spec) in specs.iter().enumerate() {
            if gone[index].is_none() {
                match measure(case, fixture, spec) {
                    Ok(found) => taken[index].push(found),
                    Err(why) => gone[index] = Some(why),
                }
            }
            runner.progress().advance(1);
        }
    }
    runner.progress().end();
    emit(case, fixture.scale(), &specs, &taken, &gone, runner);
    Ok(())
}

fn measure(case: &Case, fixture: &Fixture, spec: &Spec) -> Result<Taken, Gone> {
    let mut side = Side::start(spec.clone(), fixture, case.transport, 1);
    if let Some(gone) = side.gone() {
        return Err(gone.clone());
    }
    if let Some(wrong) = side.wrong.take() {
        return Err(Gone::Failed(wrong));
    }
    rest(&mut side, case.clients).map_err(|error| spec.gone(error.in_one_line()))
}

fn rest(side: &mut Side, clients: usize) -> Result<Taken, BenchError> {
    let resident = |side: &Side| {
        std::thread::sleep(SETTLE);
        let bytes = side.resident_bytes();
        bytes.ok_or_else(|| BenchError::Machine("the kernel does not tell a process's memory".to_owned()))
    };
    let before = resident(side)?;
    let start = Instant::now();
    let mut all = Vec::with_capacity(clients);
    for _ in 0..clients {
        all.push(Client::connect(side.address()?, PATIENCE)?);
    }
    let seconds = start.elapsed().as_secs_f64();
    let idle = resident(side)?;
    for (number, client) in all.iter_mut().enumerate() {
        let number = number as i64 + 1;
        let found = client.numbers(&format!("select aid from pgbench_accounts where aid = {number}"))?;
        if found != [number] {
            return Err(super::failed(
                "login",
                format!("client {number} was told {found:?}"),
            ));
        }
    }
    let used = resident(side)?;
    side.alive()?;
    Ok(Taken {
        before,
        idle,
        used,
        connects_per_s: clients as f64 / seconds.max(1e-9),
    })
}

fn emit(
    case: &Case,
    scale: usize,
    specs: &[Spec],
    taken: &[Vec<Taken>],
    gone: &[Option<Gone>],
    runner: &mut Runner<'_>,
) {
    let name = case.name();
    let mut parameters = case.parameters();
    parameters.push(("scale".to_owned(), Value::from(scale)));
    let spread = |taken: &[Taken], of: &dyn Fn(&Taken) -> f64| {
        let values: Vec<f64> = taken.iter().map(of).collect();
        Spread::of(&values)
    };
    for ((spec, taken), gone) in specs.iter().zip(taken).zip(gone) {
        if let Some(gone) = gone {
            missing(case, scale, spec, gone, runner);
            continue;
        }
        let clients = case.clients as f64;
        for (metric, unit, state, of) in [
            (
                "rss_bytes",
                "bytes",
                "before",
                &(|taken: &Taken| taken.before) as &dyn Fn(&Taken) -> f64,
            ),
            ("rss_bytes", "bytes", "idle", &|taken| taken.idle),
            ("rss_bytes", "bytes", "used_once", &|taken| taken.used),
            ("bytes_per_client", "bytes", "idle", &|taken| {
                (taken.idle - taken.before) / clients
            }),
            ("connects_per_s", "1/s", "connecting", &|taken| {
                taken.connects_per_s
            }),
        ] {
            if let Some(spread) = spread(taken, of) {
                let row = Row::measured(SUITE, &name, metric, unit, spread, true).with("state", state);
                runner.emit_checked(row.with_all(&spec.parameters()).with_all(&parameters));
            }
        }
    }
    let Some(corun) = specs.iter().position(|spec| matches!(spec.kind, Kind::Corun(_))) else {
        return;
    };
    for other in (0..specs.len()).filter(|&other| other != corun) {
        let pairs = taken[corun].iter().zip(&taken[other]);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| theirs.idle / ours.idle).collect();
        if let Some(spread) = Spread::of(&ratios) {
            let row = Row::measured(SUITE, &name, RATIO, "x", spread, true).versus(&specs[other].name);
            let row = row.with("compared", "rss_bytes").with("state", "idle");
            runner.emit_checked(row.with_all(&specs[corun].parameters()).with_all(&parameters));
        }
    }
}

/// Lets this process, and those it starts from now on, have so many files open.
fn allow_files(wanted: usize) -> Result<(), BenchError> {
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
