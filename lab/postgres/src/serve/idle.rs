//! [`run`]: the memory of sessions that have logged in and do nothing, and again once each has asked something.

use std::time::Duration;

use super::case::Case;
use super::contest::{Side, keys};
use super::targets::{Fixture, Target};
use super::{PATIENCE, SUITE};
use crate::fixture::client::Client;
use crate::fixture::failed;
use crate::pooler::idle::allow_files;
use lab_core::contest::Gone;
use lab_core::error::BenchError;
use lab_core::metric::{CaseRows, SideKeys};
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::Spread;

use super::contest::QUERIES_PER_S;

/// How long memory is left to settle before it is read.
const SETTLE: Duration = Duration::from_millis(500);
/// Files that this process and the server have open beside the clients' sockets.
const OTHER_FILES: usize = 1_000;

/// Bytes of the server: before the clients, with them, after each has asked.
struct Taken {
    before: f64,
    idle: f64,
    used: f64,
}

/// Runs the case on our server and emits its rows.
///
/// # Errors
/// When this process may not have that many connections.
pub fn run(case: Case, clients: usize, fixture: &Fixture, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let side = Side::new(Target::Corun, fixture.program.as_ref().err().cloned());
    let named = keys(case, &side);
    if let Some(reason) = side.missing {
        missing(case, &named, &Gone::Unavailable(reason), runner);
        return Ok(());
    }
    allow_files(clients + OTHER_FILES)?;
    // Memory hardly varies, and each round starts a server.
    let rounds = runner.plan().repetitions.min(3);
    let mut taken = Vec::new();
    for _ in 0..rounds {
        match measure(clients, fixture) {
            Ok(found) => taken.push(found),
            Err(error) => {
                missing(case, &named, &Gone::Failed(error.in_one_line()), runner);
                return Ok(());
            }
        }
    }
    let count = clients as f64;
    let mut emit = |state: &str, metric: &str, value: &dyn Fn(&Taken) -> f64| {
        let values: Vec<f64> = taken.iter().map(value).collect();
        if let Some(spread) = Spread::of(&values) {
            let row = Row::measured(SUITE, &case.name(), metric, "bytes", spread, true);
            runner.emit_checked(row.with("state", state).with_all(&named.keys));
        }
    };
    emit("none", "rss_bytes", &|taken| taken.before);
    emit("idle", "rss_bytes", &|taken| taken.idle);
    emit("used_once", "rss_bytes", &|taken| taken.used);
    emit("idle", "bytes_per_session", &|taken| {
        (taken.idle - taken.before) / count
    });
    emit("used_once", "bytes_per_session", &|taken| {
        (taken.used - taken.before) / count
    });
    runner.cases_are_finished();
    Ok(())
}

fn missing(case: Case, side: &SideKeys, gone: &Gone, runner: &mut Runner<'_>) {
    let rows = CaseRows {
        suite: SUITE,
        case: &case.name(),
        metrics: &[QUERIES_PER_S],
        compared: true,
    };
    rows.missing(side, gone, runner);
    runner.cases_are_finished();
}

fn measure(clients: usize, fixture: &Fixture) -> Result<Taken, BenchError> {
    let folder = fixture.folder("empty")?;
    let server = fixture.server(Target::Corun, &folder)?;
    let resident = || {
        std::thread::sleep(SETTLE);
        let bytes = server.process.resident_bytes().map(|bytes| bytes as f64);
        bytes.ok_or_else(|| BenchError::Machine("the kernel does not tell a process's memory".to_owned()))
    };
    let before = resident()?;
    let mut all = Vec::with_capacity(clients);
    for _ in 0..clients {
        all.push(Client::connect(&server.address, PATIENCE)?);
    }
    let idle = resident()?;
    for client in &mut all {
        let found = client.numbers("select 1")?;
        if found != [1] {
            return Err(failed("server", format!("select 1 gives {found:?}")));
        }
    }
    let used = resident()?;
    Ok(Taken { before, idle, used })
}
