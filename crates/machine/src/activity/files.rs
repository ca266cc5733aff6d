//! The kernel's files on processes and CPUs, read below a folder that is handed in.
//!
//! Formats: proc(5); `schedstat` in Documentation/scheduler/sched-stats.rst.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::usage::{CpuTimes, TICK_NS, Usage};

/// A folder like `/proc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proc {
    root: PathBuf,
}

impl Default for Proc {
    fn default() -> Self {
        Self::at(Path::new("/proc"))
    }
}

/// One look at a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLook {
    /// Its parent.
    pub parent: u32,
    /// The name of its program, at most 15 bytes.
    pub program: String,
    /// When it started, in ticks since the machine did: tells uses of a number apart.
    pub started: u64,
    /// What it used so far.
    pub usage: Usage,
    /// Times and faults of the children it has reaped, with theirs.
    pub reaped: Usage,
}

impl Proc {
    /// The files below this folder.
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    fn read(&self, pid: u32, name: &str) -> io::Result<String> {
        // Names of programs may be any bytes.
        let bytes = fs::read(self.root.join(pid.to_string()).join(name)).map_err(gone)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Numbers in a folder: processes, or threads of one.
    fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder).map_err(gone)? {
            // An entry may go while the folder is read.
            let Ok(entry) = entry else { continue };
            if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The threads of a process.
    ///
    /// # Errors
    /// When it is gone ([`io::ErrorKind::NotFound`]) or may not be looked at.
    pub fn threads(&self, pid: u32) -> io::Result<Vec<u32>> {
        Self::numbers(&self.root.join(pid.to_string()).join("task"))
    }

    /// These processes and all below them that exist now, ascending.
    ///
    /// # Errors
    /// When the folder cannot be read. Processes that do not exist are left out.
    pub fn with_descendants(&self, pids: &[u32]) -> io::Result<Vec<u32>> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut all: BTreeSet<u32> = BTreeSet::new();
        for pid in Self::numbers(&self.root)? {
            let Some(stat) = self.read(pid, "stat").ok().as_deref().and_then(Stat::read) else {
                continue;
            };
            children.entry(stat.parent).or_default().push(pid);
            all.insert(pid);
        }
        let mut waiting: Vec<u32> = pids.iter().filter(|pid| all.contains(pid)).copied().collect();
        let mut found: BTreeSet<u32> = BTreeSet::new();
        while let Some(pid) = waiting.pop() {
            // Seen before: named twice, or files that make no sense.
            if found.insert(pid) {
                waiting.extend(children.get(&pid).into_iter().flatten());
            }
        }
        Ok(found.into_iter().collect())
    }

    /// The threads of a process and of all below it that exist now; none if it is gone.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn threads_below(&self, pid: u32) -> io::Result<Vec<u32>> {
        let processes = self.with_descendants(&[pid])?;
        // One that ends meanwhile has none.
        Ok(processes
            .iter()
            .flat_map(|process| self.threads(*process).unwrap_or_default())
            .collect())
    }

    /// The direct children of a process, ascending: a postmaster's backends and helpers.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn children(&self, pid: u32) -> io::Result<Vec<u32>> {
        let is_child = |child: &u32| {
            let stat = self.read(*child, "stat").ok();
            stat.as_deref()
                .and_then(Stat::read)
                .is_some_and(|stat| stat.parent == pid)
        };
        Ok(Self::numbers(&self.root)?.into_iter().filter(is_child).collect())
    }

    /// One look at a process, all of its threads together.
    ///
    /// # Errors
    /// When it is gone ([`io::ErrorKind::NotFound`]), may not be looked at, or its file makes no sense
    /// ([`io::ErrorKind::InvalidData`]).
    pub fn process(&self, pid: u32) -> io::Result<ProcessLook> {
        let stat = Stat::read(&self.read(pid, "stat")?).ok_or(io::ErrorKind::InvalidData)?;
        let mut usage = Usage {
            user_ns: stat.user_ticks.saturating_mul(TICK_NS),
            system_ns: stat.system_ticks.saturating_mul(TICK_NS),
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            ..Usage::default()
        };
        // What is only kept of single threads; one that ends meanwhile is left out.
        for thread in self.threads(pid)? {
            let of = |name: &str| self.read(pid, &format!("task/{thread}/{name}"));
            if let Some([on_cpu, delay, slices]) = of("schedstat").ok().as_deref().and_then(schedstat) {
                usage.add(&Usage {
                    on_cpu_ns: Some(on_cpu),
                    run_delay_ns: Some(delay),
                    time_slices: Some(slices),
                    ..Usage::default()
                });
            }
            if let Ok(status) = of("status") {
                let count = |name: &str| field(&status, name).unwrap_or(0);
                usage.add(&Usage {
                    voluntary_switches: count("voluntary_ctxt_switches"),
                    involuntary_switches: count("nonvoluntary_ctxt_switches"),
                    ..Usage::default()
                });
            }
        }
        Ok(ProcessLook {
            parent: stat.parent,
            program: stat.program,
            started: stat.started,
            usage,
            reaped: Usage {
                user_ns: stat.reaped_user_ticks.saturating_mul(TICK_NS),
                system_ns: stat.reaped_system_ticks.saturating_mul(TICK_NS),
                minor_faults: stat.reaped_minor_faults,
                major_faults: stat.reaped_major_faults,
                ..Usage::default()
            },
        })
    }

    /// The times of each online CPU, ascending.
    ///
    /// # Errors
    /// When the file cannot be read or has no CPU in it.
    pub fn cpus(&self) -> io::Result<Vec<CpuTimes>> {
        let text = fs::read_to_string(self.root.join("stat"))?;
        let mut cpus: Vec<CpuTimes> = text.lines().filter_map(cpu_times).collect();
        cpus.sort_unstable_by_key(|times| times.cpu);
        if cpus.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(cpus)
    }
}

/// A process that ends while its files are read answers with "no such process".
fn gone(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ESRCH) {
        io::ErrorKind::NotFound.into()
    } else {
        error
    }
}

/// The fields of `stat` that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    program: String,
    parent: u32,
    minor_faults: u64,
    reaped_minor_faults: u64,
    major_faults: u64,
    reaped_major_faults: u64,
    user_ticks: u64,
    system_ticks: u64,
    reaped_user_ticks: u64,
    reaped_system_ticks: u64,
    started: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The name stands in parentheses and may contain both spaces and parentheses itself.
        let (before, after) = text.rsplit_once(')')?;
        let program = before.split_once('(')?.1.to_owned();
        // The first of these is field 3, the state.
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            program,
            parent: u32::try_from(number(4)?).ok()?,
            minor_faults: number(10)?,
            reaped_minor_faults: number(11)?,
            major_faults: number(12)?,
            reaped_major_faults: number(13)?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            reaped_user_ticks: number(16)?,
            reaped_system_ticks: number(17)?,
            started: number(22)?,
        })
    }
}

/// Time on a CPU, time waiting for one, time slices.
fn schedstat(text: &str) -> Option<[u64; 3]> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// The number after `name:` on a line of its own.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

/// `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`, in ticks. Guests' times are in the first two too.
fn cpu_times(line: &str) -> Option<CpuTimes> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, ..] = ticks[..] else {
        return None;
    };
    let later = |at: usize| ticks.get(at).copied().unwrap_or(0);
    let ns = |ticks: u64| ticks.saturating_mul(TICK_NS);
    Some(CpuTimes {
        cpu,
        busy_ns: ns([user, nice, system, later(5), later(6)].iter().sum()),
        idle_ns: ns(idle.saturating_add(later(4))),
        steal_ns: ns(later(7)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str =
        "42 (postgres: a) b) S 7 42 42 0 -1 4194304 100 200 3 4 50 60 70 80 20 0 1 0 9000 1 1 1";

    #[test]
    fn a_name_with_parentheses_is_no_obstacle() {
        let stat = Stat::read(LINE).unwrap();
        assert_eq!(stat.program, "postgres: a) b");
        assert_eq!(
            (stat.parent, stat.minor_faults, stat.reaped_minor_faults),
            (7, 100, 200)
        );
        assert_eq!(
            (stat.user_ticks, stat.reaped_system_ticks, stat.started),
            (50, 80, 9_000)
        );
        assert_eq!(Stat::read("42 (short) S 7"), None);
    }

    #[test]
    fn old_kernels_have_fewer_columns() {
        let times = cpu_times("cpu1 1 2 3 4").unwrap();
        assert_eq!(
            (times.cpu, times.busy_ns, times.idle_ns, times.steal_ns),
            (1, 6 * TICK_NS, 4 * TICK_NS, 0)
        );
        let times = cpu_times("cpu0 10 0 5 100 20 1 2 30 0 0").unwrap();
        assert_eq!(
            (times.busy_ns, times.idle_ns, times.steal_ns),
            (18 * TICK_NS, 120 * TICK_NS, 30 * TICK_NS)
        );
        // The sum of all is no CPU.
        assert_eq!(cpu_times("cpu 10 0 5 100"), None);
        assert_eq!(cpu_times("intr 10 0 5 100"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,120}") {
            let _ = (Stat::read(&text), schedstat(&text), cpu_times(&text), field(&text, "cpu"));
        }
    }
}
