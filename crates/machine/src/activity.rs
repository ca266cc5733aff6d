//! What the kernel says processes and CPUs did, without any counter: times, delays, switches, faults, stolen time.
//!
//! ```text
//! Activity::begin(proc, pids) ─► look, as often as wanted ─► end ─► what each process and CPU did meanwhile
//! ```
//!
//! A process that ends is remembered as it was last seen, so looking more often loses less of it; what its parent reaped of
//! children nobody ever saw is in [`Report::reaped`]. The folder read is handed in: `/proc`, or files of a test.
//!
//! Where the times come from: user and system time from `stat`, in hundredths of a second; time on a CPU, time waiting for one
//! and time slices from `schedstat`, in nanoseconds, where the kernel keeps it; switches from `status`. Threads that ended
//! before a look are missing in the latter two: a PostgreSQL backend has one thread.
//!
//! Not here: who is a backend; hardware counters ([`crate::counters`]).

mod files;
mod usage;

use std::collections::BTreeMap;
use std::io;

pub use files::{Proc, ProcessLook};
pub use usage::{CpuActivity, CpuTimes, Usage};

/// What one process did between two looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessActivity {
    /// The kernel's number of it.
    pub pid: u32,
    /// The name of its program, as the kernel keeps it: at most 15 bytes.
    pub program: String,
    /// What it did.
    pub usage: Usage,
    /// Whether it was gone at the end: then the usage is that of its last look.
    pub ended: bool,
}

/// What happened from the beginning to the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The processes that were seen, by number.
    pub processes: Vec<ProcessActivity>,
    /// The CPUs.
    pub cpus: Vec<CpuActivity>,
    /// Times and faults of children that ended and were reaped by a process looked at, over their whole lives; children that
    /// were seen themselves are in both.
    pub reaped: Usage,
}

impl Report {
    /// Of all processes together.
    pub fn total(&self) -> Usage {
        let mut total = Usage::default();
        for process in &self.processes {
            total.add(&process.usage);
        }
        total
    }

    /// Stolen time of all CPUs, in percent of all their time; `None` where none passed.
    pub fn steal_percent(&self) -> Option<f64> {
        let sum =
            |part: fn(&CpuActivity) -> u64| -> f64 { self.cpus.iter().map(|cpu| part(cpu) as f64).sum() };
        let all = sum(CpuActivity::all_ns);
        (all > 0.0).then(|| 100.0 * sum(|cpu| cpu.steal_ns) / all)
    }
}

/// A process over time.
#[derive(Clone, Debug)]
struct Seen {
    program: String,
    first: Usage,
    last: Usage,
    reaped_first: Usage,
    reaped_last: Usage,
    alive: bool,
}

/// Looks at processes and CPUs from a beginning on.
#[derive(Clone, Debug)]
pub struct Activity {
    proc: Proc,
    roots: Vec<u32>,
    /// By number and start time: numbers are used again.
    seen: BTreeMap<(u32, u64), Seen>,
    cpus_first: Vec<CpuTimes>,
}

impl Activity {
    /// Takes the first look at these processes and all below them. Those that start later count from their start.
    ///
    /// # Errors
    /// When the CPUs' times cannot be read, or none of the processes exists ([`io::ErrorKind::NotFound`]).
    pub fn begin(proc: Proc, pids: &[u32]) -> io::Result<Self> {
        let cpus_first = proc.cpus()?;
        let mut activity = Self {
            proc,
            roots: pids.to_vec(),
            seen: BTreeMap::new(),
            cpus_first,
        };
        activity.look_as(true)?;
        if activity.seen.is_empty() && !pids.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(activity)
    }

    /// Takes another look, so that processes that end before the last one are remembered as they are now.
    ///
    /// # Errors
    /// When the folder itself cannot be read; processes that are gone are no error.
    pub fn look(&mut self) -> io::Result<()> {
        self.look_as(false)
    }

    fn look_as(&mut self, first: bool) -> io::Result<()> {
        for seen in self.seen.values_mut() {
            seen.alive = false;
        }
        for pid in self.proc.with_descendants(&self.roots)? {
            // A process may be gone by now.
            let Ok(look) = self.proc.process(pid) else {
                continue;
            };
            let new = || Seen {
                program: look.program.clone(),
                first: if first { look.usage } else { Usage::default() },
                last: look.usage,
                reaped_first: if first { look.reaped } else { Usage::default() },
                reaped_last: look.reaped,
                alive: true,
            };
            let seen = self.seen.entry((pid, look.started)).or_insert_with(new);
            seen.last = look.usage;
            seen.reaped_last = look.reaped;
            seen.alive = true;
        }
        Ok(())
    }

    /// Takes the last look and tells what happened.
    ///
    /// # Errors
    /// When the folder cannot be read any more.
    pub fn end(mut self) -> io::Result<Report> {
        self.look_as(false)?;
        let cpus_last = self.proc.cpus()?;
        let mut reaped = Usage::default();
        let mut processes = Vec::with_capacity(self.seen.len());
        for ((pid, _), seen) in self.seen {
            reaped.add(&seen.reaped_last.since(&seen.reaped_first));
            processes.push(ProcessActivity {
                pid,
                program: seen.program,
                usage: seen.last.since(&seen.first),
                ended: !seen.alive,
            });
        }
        let cpus = cpus_last.iter().filter_map(|last| {
            let first = self.cpus_first.iter().find(|first| first.cpu == last.cpu)?;
            Some(last.since(first))
        });
        Ok(Report {
            processes,
            cpus: cpus.collect(),
            reaped,
        })
    }
}
