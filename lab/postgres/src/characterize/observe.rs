//! [`Resources`]: what the kernel says of a server's processes during a turn, a query: times, delays, switches, faults, stolen time.
//!
//! A [`Watch`]. While the turn runs, a thread looks every few milliseconds: backends end with their clients, and what they did after the last
//! look is lost. The client's own time is in none of it but the CPUs'.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use corun_machine::activity::{Activity, Proc, Report};

use super::rows::{DISTRIBUTION, RESOURCES};
use super::sweep::{Seen, Turn, Watch};
use lab_core::error::BenchError;

/// How figures came about.
const HOW: &str = "kernel";
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks at one server.
pub struct Resources {
    postmaster: u32,
    looking: Option<Looking>,
}

struct Looking {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Report>>,
}

impl Resources {
    /// Looks at this process and all below it.
    pub fn new(postmaster: u32) -> Resources {
        Resources {
            postmaster,
            looking: None,
        }
    }
}

fn unseen(source: std::io::Error) -> BenchError {
    BenchError::io("could not look at the server's processes in /proc", source)
}

impl Watch for Resources {
    fn begin(&mut self) -> Result<(), BenchError> {
        let mut activity = Activity::begin(Proc::at("/proc".as_ref()), &[self.postmaster]).map_err(unseen)?;
        let enough = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&enough);
        let look = move || {
            // Relaxed: the flag says all there is to say.
            while !asked.load(Ordering::Relaxed) {
                activity.look()?;
                std::thread::sleep(LOOK_EVERY);
            }
            activity.end()
        };
        let thread = std::thread::Builder::new().name("looks".to_owned()).spawn(look);
        let thread = thread.map_err(unseen)?;
        self.looking = Some(Looking { enough, thread });
        Ok(())
    }

    fn end(&mut self, turn: &Turn) -> Result<Vec<Seen>, BenchError> {
        let Some(Looking { enough, thread }) = self.looking.take() else {
            return Ok(Vec::new());
        };
        enough.store(true, Ordering::Relaxed);
        let report = match thread.join() {
            Ok(report) => report.map_err(unseen)?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok(seen(&report, turn.queries))
    }
}

/// Stops looking if a turn was given up.
impl Drop for Resources {
    fn drop(&mut self) {
        if let Some(Looking { enough, thread }) = self.looking.take() {
            enough.store(true, Ordering::Relaxed);
            // What it saw is of no use any more.
            let _ = thread.join();
        }
    }
}

/// What a report says of each of so many queries, and of each CPU.
fn seen(report: &Report, queries: u64) -> Vec<Seen> {
    let total = report.total();
    let us = |ns: u64| Some(ns as f64 / 1e3);
    let count = |count: u64| Some(count as f64);
    let a_query = |(metric, unit, sum): (&'static str, &'static str, Option<f64>)| {
        let value = sum? / queries.max(1) as f64;
        Some(Seen::new(RESOURCES, metric, unit, value, HOW))
    };
    let sums = [
        ("cpu_us_per_query", "us", us(total.cpu_ns())),
        ("user_us_per_query", "us", us(total.user_ns)),
        ("system_us_per_query", "us", us(total.system_ns)),
        ("run_delay_us_per_query", "us", total.run_delay_ns.and_then(us)),
        (
            "voluntary_switches_per_query",
            "count",
            count(total.voluntary_switches),
        ),
        (
            "involuntary_switches_per_query",
            "count",
            count(total.involuntary_switches),
        ),
        ("minor_faults_per_query", "count", count(total.minor_faults)),
        ("major_faults_per_query", "count", count(total.major_faults)),
    ];
    let mut all: Vec<Seen> = sums.into_iter().filter_map(a_query).collect();
    let steal = report.steal_percent();
    all.extend(steal.map(|value| Seen::new(RESOURCES, "steal_percent", "percent", value, HOW)));
    all.extend(report.cpus.iter().map(|cpu| {
        Seen::new(DISTRIBUTION, "busy_ms", "ms", cpu.busy_ns as f64 / 1e6, HOW).of("cpu", cpu.cpu)
    }));
    all
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use lab_core::cpu_time;

    use super::*;

    #[test]
    fn a_process_at_work_is_seen() {
        // Of one thread, as a server's: this process's own threads come and go with other tests.
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .expect("a shell");
        let mut resources = Resources::new(busy.id());
        let turn = Turn {
            queries: 10,
            ..Turn::default()
        };
        assert!(resources.end(&turn).expect("nothing").is_empty());
        resources.begin().expect("begins");
        // On a busy machine it may take long until the shell has had some CPU time.
        let ticks = || cpu_time::ticks(busy.id()).expect("Linux");
        let (before, deadline) = (ticks(), Instant::now() + Duration::from_secs(60));
        while ticks() < before + 5 && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        let seen = resources.end(&turn).expect("ends");
        busy.kill().and_then(|()| busy.wait()).expect("ends");
        let of = |metric: &str| {
            seen.iter()
                .find(|seen| seen.metric == metric)
                .map(|seen| seen.value)
        };
        assert!(of("cpu_us_per_query").is_some_and(|us| us > 0.0));
        assert!(seen.iter().any(|seen| seen.case == "distribution"));
    }
}
