//! [`attached`]: a running process is looked at and asked nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_model::progress::Progress;
use corun_model::topology::Topology;

use super::capabilities::tell;
use super::counted::{self, Counters};
use super::observe::Resources;
use super::rows::{CAPABILITY, fact};
use super::sweep::{Turn, Watch};
use super::{sampled, smt};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::stats::Spread;

/// The name of whatever an attached process does.
const ATTACHED: &str = "attached";

/// Looks at a process and all below it while it does whatever it does: no query is asked, so nothing is said of a query.
pub(super) fn attached(
    process: u32,
    seconds: usize,
    topology: &Topology,
    stop: &AtomicBool,
    progress: &dyn Progress,
    emit: &mut dyn FnMut(Row),
) -> Result<(), BenchError> {
    let command = command_of(process)?;
    emit(fact(
        "attached to",
        &format!("process {process} ({})", command.trim()),
    ));
    let smt = smt::state(topology);
    let counts = tell("pmu", corun_machine::counters::try_open(), emit);
    let samples = tell("sampling", sampled::possible(), emit);
    let costs = match counts {
        true => Some(counted::costs(topology)?),
        false => None,
    };
    let mut resources = Resources::new(process);
    let mut counters = costs.map(|costs| Counters::new(process, topology.usable_cpus(), costs, smt == "on"));
    progress.begin("characterize: looking", seconds as u64);
    resources.begin()?;
    if let Some(counters) = &mut counters {
        counters.begin()?;
    }
    let wait = || {
        for _ in 0..seconds {
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            std::thread::sleep(Duration::from_secs(1));
            progress.advance(1);
        }
        Ok(())
    };
    let functions = match samples {
        true => sampled::during(process, wait)?,
        false => wait().map(|()| Vec::new())?,
    };
    progress.end();
    let nothing = Turn::default();
    let mut seen = resources.end(&nothing)?;
    // What is there of a query means nothing without queries.
    seen.retain(|seen| !seen.metric.ends_with("_per_query"));
    if let Some(counters) = &mut counters {
        seen.extend(counters.end(&nothing)?);
    }
    for seen in seen {
        let row = seen.row(Spread::one(seen.value));
        emit(row.with("workload", ATTACHED).with("smt", smt));
    }
    for row in functions {
        emit(match row.case == CAPABILITY {
            true => row,
            false => row.with("workload", ATTACHED).with("smt", smt),
        });
    }
    Ok(())
}

/// What a process runs.
pub(super) fn command_of(process: u32) -> Result<String, BenchError> {
    std::fs::read_to_string(format!("/proc/{process}/comm"))
        .map_err(|source| BenchError::io(format!("could not look at process {process}"), source))
}
