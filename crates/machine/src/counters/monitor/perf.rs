//! Counters of the kernel on processes, CPUs and the calling thread.
//!
//! ```text
//! Monitor ── Task (thread or CPU) ── Group ── events: the first leads, the kernel counts all of them or none
//! ```
//!
//! Each thread that exists gets groups of its own, inherited by what it starts; their counts are summed on reading.
//!
//! Kernels before 4.13 refuse to read inherited events as a group (`PERF_FORMAT_GROUP`); then each event is read alone. They
//! still count together, only not to the very same moment.

use std::fs;
use std::io;

use corun_model::pmu::{CacheLevel, Counts, Encoding, Event, GroupCounts, HardwareEvent, SoftwareEvent};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw, Software};
use perf_event::{Builder, Counter, ReadFormat};

use super::error::{Attempt, Facts, Who, diagnose};
use super::{MonitorError, Monitored, Scope, Target};
use crate::activity::Proc;
use crate::counters::try_open;

/// Most threads that are followed one by one; each takes a file for each event.
const THREADS_MAX: usize = 4_096;

/// Counters of the kernel on a target. Opened, they stand still until [`Monitored::start`].
pub struct Monitor {
    groups: Vec<Vec<Event>>,
    tasks: Vec<Task>,
    /// What each task had counted when it was started; empty while nothing counts.
    before: Vec<Counts>,
}

/// The groups of one thread or CPU.
struct Task {
    /// Its number, as the kernel has it.
    id: u32,
    groups: Vec<Group>,
}

/// A group as the kernel has it: the first leads.
struct Group {
    counters: Vec<Counter>,
    /// Whether one read gives all of them.
    together: bool,
}

/// Whom a counter is attached to.
#[derive(Clone, Copy)]
enum Attach {
    Thread(u32),
    Cpu(u32),
    Caller,
}

impl Monitor {
    /// Opens counters of these groups; see [`Target`] for what they count on. Empty groups are left out.
    ///
    /// # Errors
    /// [`MonitorError::NoProcess`] and [`MonitorError::NoCpu`] when the target does not exist, [`MonitorError::Unsupported`]
    /// when this CPU cannot count an event, [`MonitorError::TooMany`] when it cannot count a group at once,
    /// [`MonitorError::NoCounters`] and [`MonitorError::NoPerfEvents`] when it or the kernel counts nothing,
    /// [`MonitorError::Paranoid`] and [`MonitorError::Forbidden`] when counting is not permitted, [`MonitorError::System`]
    /// otherwise.
    pub fn open(target: Target, groups: &[Vec<Event>], scope: Scope) -> Result<Self, MonitorError> {
        let groups: Vec<Vec<Event>> = groups.iter().filter(|group| !group.is_empty()).cloned().collect();
        let attachments = match target {
            Target::Cpu(cpu) => vec![Attach::Cpu(cpu)],
            Target::Thread => vec![Attach::Caller],
            Target::Process(pid) => threads_below(pid)?.into_iter().map(Attach::Thread).collect(),
        };
        let mut tasks = Vec::with_capacity(attachments.len());
        for attach in attachments {
            let opened = groups
                .iter()
                .map(|group| open_group(target, attach, group, scope))
                .collect::<Result<Vec<Group>, MonitorError>>();
            let id = match attach {
                Attach::Thread(id) | Attach::Cpu(id) => id,
                Attach::Caller => std::process::id(),
            };
            match opened {
                Ok(groups) => tasks.push(Task { id, groups }),
                // A thread or a child that ended meanwhile, below a process that goes on.
                Err(MonitorError::NoProcess { pid }) if id != pid => {}
                Err(error) => return Err(error),
            }
        }
        if let (Target::Process(pid), true) = (target, tasks.is_empty()) {
            return Err(MonitorError::NoProcess { pid });
        }
        Ok(Self {
            groups,
            tasks,
            before: Vec::new(),
        })
    }

    /// The threads or CPUs that are counted on, what they start not among them.
    pub fn tasks(&self) -> Vec<u32> {
        self.tasks.iter().map(|task| task.id).collect()
    }

    /// What each of [`Monitor::tasks`] and all it started did since the start, in that order.
    ///
    /// # Errors
    /// As [`Monitored::read`].
    pub fn read_each(&mut self) -> Result<Vec<Counts>, MonitorError> {
        if self.before.len() != self.tasks.len() || self.tasks.is_empty() {
            return Err(MonitorError::NotStarted);
        }
        let now = self.read_tasks()?;
        Ok(now
            .iter()
            .zip(&self.before)
            .map(|(now, before)| now.since(before))
            .collect())
    }

    fn read_tasks(&mut self) -> Result<Vec<Counts>, MonitorError> {
        let events = &self.groups;
        let read = |task: &mut Task| {
            let groups = task.groups.iter_mut().zip(events);
            groups
                .map(|(group, events)| group.read(events))
                .collect::<io::Result<Vec<GroupCounts>>>()
                .map(|groups| Counts { groups })
        };
        self.tasks
            .iter_mut()
            .map(read)
            .collect::<io::Result<Vec<Counts>>>()
            .map_err(|error| MonitorError::system("read", &error))
    }

    /// Enables or disables all groups.
    fn switch(&mut self, on: bool) -> Result<(), MonitorError> {
        for leader in self
            .tasks
            .iter_mut()
            .flat_map(|task| task.groups.iter_mut())
            .filter_map(|group| group.counters.first_mut())
        {
            let switched = if on {
                leader.enable_group()
            } else {
                leader.disable_group()
            };
            switched.map_err(|error| MonitorError::system(if on { "start" } else { "stop" }, &error))?;
        }
        Ok(())
    }
}

impl Monitored for Monitor {
    fn groups(&self) -> &[Vec<Event>] {
        &self.groups
    }

    fn start(&mut self) -> Result<(), MonitorError> {
        self.before = self.read_tasks()?;
        self.switch(true)
    }

    fn read(&mut self) -> Result<Counts, MonitorError> {
        let mut sum = Counts::default();
        for counts in self.read_each()? {
            sum.add(&counts);
        }
        Ok(sum)
    }

    fn stop(&mut self) -> Result<Counts, MonitorError> {
        if self.before.is_empty() {
            return Err(MonitorError::NotStarted);
        }
        self.switch(false)?;
        let counts = self.read()?;
        self.before.clear();
        Ok(counts)
    }
}

impl Group {
    fn read(&mut self, events: &[Event]) -> io::Result<GroupCounts> {
        let missing = || io::Error::other("the kernel left out a value of the group");
        let mut counts = GroupCounts::default();
        if self.together {
            let Some(leader) = self.counters.first_mut() else {
                return Ok(counts);
            };
            let data = leader.read_group()?;
            let ns = |time: Option<std::time::Duration>| {
                time.and_then(|time| u64::try_from(time.as_nanos()).ok())
                    .ok_or_else(missing)
            };
            (counts.time_enabled_ns, counts.time_running_ns) =
                (ns(data.time_enabled())?, ns(data.time_running())?);
            for (counter, event) in self.counters.iter().zip(events) {
                let value = data.get(counter).ok_or_else(missing)?.value();
                counts.values.push((event.quantity, value));
            }
            return Ok(counts);
        }
        for (at, (counter, event)) in self.counters.iter_mut().zip(events).enumerate() {
            let read = counter.read_count_and_time()?;
            if at == 0 {
                (counts.time_enabled_ns, counts.time_running_ns) = (read.time_enabled, read.time_running);
            }
            counts.values.push((event.quantity, read.count));
        }
        Ok(counts)
    }
}

/// The threads of a process and of all processes below it. Listed before anything is opened: what starts in between is missed,
/// which is less wrong than counting it twice.
fn threads_below(pid: u32) -> Result<Vec<u32>, MonitorError> {
    let threads = Proc::default()
        .threads_below(pid)
        .map_err(|error| MonitorError::system("find the processes of", &error))?;
    match threads.len() {
        0 => Err(MonitorError::NoProcess { pid }),
        threads if threads > THREADS_MAX => Err(MonitorError::TooManyThreads { pid, threads }),
        _ => Ok(threads),
    }
}

fn open_group(target: Target, attach: Attach, events: &[Event], scope: Scope) -> Result<Group, MonitorError> {
    // Together where the kernel does that, else apart.
    let opened = open_group_as(attach, events, scope, true);
    let (at, error) = match opened {
        Ok(group) => return Ok(group),
        Err((0, error)) if error.raw_os_error() == Some(libc::EINVAL) => {
            match open_group_as(attach, events, scope, false) {
                Ok(group) => return Ok(group),
                Err(refused) => refused,
            }
        }
        Err(refused) => refused,
    };
    Err(explain(&error, target.into(), events, at, scope))
}

/// The error says which event was refused.
fn open_group_as(
    attach: Attach,
    events: &[Event],
    scope: Scope,
    together: bool,
) -> Result<Group, (usize, io::Error)> {
    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    let mut counters: Vec<Counter> = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        let mut builder = attached(event, attach, scope);
        builder.read_format(if together {
            times | ReadFormat::GROUP | ReadFormat::ID
        } else {
            times
        });
        // Only the leader is switched: members that stand still themselves would never count.
        builder.enabled(at > 0);
        let built = match counters.first_mut() {
            Some(leader) => builder.build_with_group(leader),
            None => builder.build(),
        };
        counters.push(built.map_err(|error| (at, error))?);
    }
    Ok(Group { counters, together })
}

fn attached(event: &Event, attach: Attach, scope: Scope) -> Builder<'static> {
    let mut builder = builder(event.encoding, scope);
    match attach {
        Attach::Thread(id) => {
            builder
                .observe_pid(id.try_into().unwrap_or(i32::MAX))
                .any_cpu()
                .inherit(true);
        }
        Attach::Cpu(cpu) => {
            builder.any_pid().one_cpu(cpu as usize);
        }
        Attach::Caller => {
            builder.observe_self().any_cpu().inherit(true);
        }
    }
    builder
}

/// How the kernel is asked for an event, of nobody in particular yet.
pub(crate) fn builder(encoding: Encoding, scope: Scope) -> Builder<'static> {
    let mut builder = match encoding {
        Encoding::Hardware(event) => Builder::new(match event {
            HardwareEvent::Cycles => Hardware::CPU_CYCLES,
            HardwareEvent::Instructions => Hardware::INSTRUCTIONS,
            HardwareEvent::CacheMisses => Hardware::CACHE_MISSES,
            HardwareEvent::Branches => Hardware::BRANCH_INSTRUCTIONS,
            HardwareEvent::BranchMisses => Hardware::BRANCH_MISSES,
            HardwareEvent::ReferenceCycles => Hardware::REF_CPU_CYCLES,
        }),
        Encoding::CacheReads { level, misses } => Builder::new(Cache {
            which: match level {
                CacheLevel::L1d => CacheId::L1D,
                CacheLevel::L1i => CacheId::L1I,
                CacheLevel::LastLevel => CacheId::LL,
                CacheLevel::Dtlb => CacheId::DTLB,
                CacheLevel::Itlb => CacheId::ITLB,
            },
            operation: CacheOp::READ,
            result: if misses {
                CacheResult::MISS
            } else {
                CacheResult::ACCESS
            },
        }),
        Encoding::Raw(config) => Builder::new(Raw::new(config)),
        Encoding::Software(event) => Builder::new(match event {
            SoftwareEvent::TaskClock => Software::TASK_CLOCK,
            SoftwareEvent::ContextSwitches => Software::CONTEXT_SWITCHES,
            SoftwareEvent::CpuMigrations => Software::CPU_MIGRATIONS,
            SoftwareEvent::PageFaults => Software::PAGE_FAULTS,
            SoftwareEvent::MinorFaults => Software::PAGE_FAULTS_MIN,
            SoftwareEvent::MajorFaults => Software::PAGE_FAULTS_MAJ,
        }),
    };
    builder
        .exclude_kernel(scope == Scope::User && !happens_in_kernel(encoding))
        .exclude_hv(true);
    builder
}

/// Switches and moves happen in the kernel: without its code nothing of them would be counted.
pub(super) fn happens_in_kernel(encoding: Encoding) -> bool {
    matches!(
        encoding,
        Encoding::Software(SoftwareEvent::ContextSwitches | SoftwareEvent::CpuMigrations)
    )
}

/// Finds out what tells the meanings of a refusal apart.
fn explain(error: &io::Error, who: Who, events: &[Event], at: usize, scope: Scope) -> MonitorError {
    let event = events.get(at);
    let encoding = event.map(|event| event.encoding);
    let attempt = Attempt {
        who,
        event: event.map_or("the group", |event| event.name),
        opened: at,
        requested: events.len(),
        kernel: scope == Scope::All || encoding.is_some_and(happens_in_kernel),
        hardware: encoding.is_none_or(|encoding| !encoding.is_software()),
    };
    let alone = |encoding| {
        let mut builder = builder(encoding, scope);
        match who {
            Who::Process(pid) => builder.observe_pid(pid.try_into().unwrap_or(i32::MAX)),
            Who::Cpu(cpu) => builder.any_pid().one_cpu(cpu as usize),
            Who::Caller => builder.observe_self(),
        };
        builder.build().is_ok()
    };
    let facts = Facts {
        cycles_open: try_open().is_ok(),
        opens_alone: encoding.is_some_and(alone),
        paranoid: paranoid(),
    };
    diagnose(error, attempt, facts)
}

/// `kernel.perf_event_paranoid`, where it can be read.
fn paranoid() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

/// What a refusal to open one event on somebody means; for samplers, which open no groups.
pub(crate) fn explain_one(error: &io::Error, who: Who, event: &Event, scope: Scope) -> MonitorError {
    explain(error, who, std::slice::from_ref(event), 0, scope)
}

#[cfg(test)]
mod tests {
    use corun_model::pmu::{EventTable, Quantity};

    use super::*;
    use crate::counters::this_cpu;

    fn quantities(counts: &GroupCounts) -> Vec<Quantity> {
        counts.values.iter().map(|(quantity, _)| *quantity).collect()
    }

    fn software(quantities: &[Quantity]) -> Vec<Event> {
        let table = EventTable::of(&this_cpu());
        quantities
            .iter()
            .map(|quantity| table.event(*quantity).unwrap())
            .collect()
    }

    /// A kernel that reads groups only one by one gives the same counts.
    #[test]
    fn events_read_apart_count_the_same() {
        let events = software(&[Quantity::PageFaults, Quantity::MinorFaults, Quantity::MajorFaults]);
        let opened = |together| open_group_as(Attach::Caller, &events, Scope::User, together);
        let (Ok(mut whole), Ok(mut apart)) = (opened(true), opened(false)) else {
            // A sandbox may forbid even these; the errors are tested elsewhere.
            return;
        };
        for group in [&mut whole, &mut apart] {
            group.counters[0].enable_group().unwrap();
        }
        drop(std::hint::black_box(vec![1u8; 32 << 20]));
        for group in [&mut whole, &mut apart] {
            group.counters[0].disable_group().unwrap();
        }
        let read = [whole.read(&events).unwrap(), apart.read(&events).unwrap()];
        for counts in &read {
            assert_eq!(
                quantities(counts),
                [Quantity::PageFaults, Quantity::MinorFaults, Quantity::MajorFaults]
            );
            let [all, minor, major] = [0, 1, 2].map(|at| counts.values[at].1);
            assert!(all >= 8, "{counts:?}");
            assert_eq!(all, minor + major);
            assert!(counts.time_running_ns > 0);
        }
    }

    #[test]
    fn programs_own_code_is_counted_unless_more_is_asked_for() {
        for (encoding, scope, excluded) in [
            (Encoding::Hardware(HardwareEvent::Cycles), Scope::User, 1),
            (Encoding::Hardware(HardwareEvent::Cycles), Scope::All, 0),
            (Encoding::Software(SoftwareEvent::ContextSwitches), Scope::User, 0),
            (Encoding::Software(SoftwareEvent::TaskClock), Scope::User, 1),
        ] {
            let builder = builder(encoding, scope);
            assert_eq!(builder.attrs().exclude_kernel(), excluded, "{encoding:?}");
            assert_eq!(builder.attrs().disabled(), 1);
        }
        let raw = builder(Encoding::Raw(0x1_0600_01a0), Scope::User);
        assert_eq!((raw.attrs().type_, raw.attrs().config), (4, 0x1_0600_01a0));
    }
}
