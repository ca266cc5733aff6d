//! Counters of the running kernel, through `perf_event_open`.
//!
//! [`open`] encodes the events for this CPU and opens them as one group. The leader of the group is an event that never
//! happens, so that which event comes first makes no difference.
//!
//! Not here: what a refusal means ([`super::error`]) and scaling ([`super::counts`]).

use std::fs;
use std::io;
use std::marker::PhantomData;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter, Group};

use super::cpu::this_cpu;
use super::error::{Attempt, Facts, diagnose};
use super::event::Encoding;
use super::{Counters, CountersError, Counts, Event, Reading};

/// Tries to open a counter of the cycles this thread spends in user space, and closes it again.
///
/// The only sure test: device folders exist where the hypervisor traps the counters, and permissions depend on
/// capabilities as well as on `perf_event_paranoid`.
///
/// # Errors
/// In words, why the kernel refused.
pub fn try_open() -> Result<(), String> {
    open_cycles().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => "the CPU offers no cycle counter".to_owned(),
        Some(libc::EACCES | libc::EPERM) => "not permitted (perf_event_paranoid, or a sandbox)".to_owned(),
        Some(libc::ENOSYS) => "the kernel has no perf_event_open, or a sandbox hides it".to_owned(),
        _ => format!("perf_event_open: {error}"),
    })
}

fn open_cycles() -> io::Result<()> {
    Encoding::Generic(Hardware::CPU_CYCLES)
        .builder()
        .build()
        .map(drop)
}

/// Opens counters of these events for the calling thread, in user space, on whatever CPU it runs; threads it starts are
/// not counted. They stand still until [`Counters::start`]. An event named twice is counted twice; no events at all make a
/// group that only measures time.
///
/// # Errors
/// [`CountersError::Unsupported`] when this CPU cannot count one of them, [`CountersError::TooMany`] when it cannot count
/// all at once, [`CountersError::NoCounters`] and [`CountersError::NoPerfEvents`] when it or the kernel counts nothing,
/// [`CountersError::Paranoid`] and [`CountersError::Forbidden`] when counting is not permitted, [`CountersError::System`]
/// otherwise.
pub fn open(events: &[Event]) -> Result<PerfCounters, CountersError> {
    // What stands in the way of everything goes before what stands in the way of one event.
    if let Err(error) = open_cycles() {
        return Err(explain(&error, None, 0, events.len()));
    }
    let cpu = this_cpu();
    let encodings = events
        .iter()
        .map(|event| event.encoding(&cpu))
        .collect::<Result<Vec<Encoding>, CountersError>>()?;
    let mut group = PerfGroup::new().map_err(|error| explain(&error, None, 0, events.len()))?;
    for (opened, (event, encoding)) in events.iter().zip(&encodings).enumerate() {
        let builder = encoding.builder();
        group
            .add(&builder)
            .map_err(|error| explain(&error, Some((*event, &builder)), opened, events.len()))?;
    }
    Ok(PerfCounters {
        events: events.to_vec(),
        group,
        _this_thread: PhantomData,
    })
}

/// Finds out what tells the meanings of a refusal apart. The event is `None` where no single one was refused.
fn explain(
    error: &io::Error,
    refused: Option<(Event, &Builder)>,
    opened: usize,
    requested: usize,
) -> CountersError {
    let facts = Facts {
        cycles_open: open_cycles().is_ok(),
        opens_alone: refused.is_some_and(|(_, builder)| builder.build().is_ok()),
        paranoid: fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
            .ok()
            .and_then(|text| text.trim().parse().ok()),
    };
    let attempt = Attempt {
        event: refused.map(|(event, _)| event),
        opened,
        requested,
    };
    diagnose(error, attempt, facts)
}

/// Counters of the kernel for the thread that opened them; see [`open`].
pub struct PerfCounters {
    events: Vec<Event>,
    group: PerfGroup,
    // Started from another thread they would still count this one: neither `Send` nor `Sync`.
    _this_thread: PhantomData<*const ()>,
}

impl Counters for PerfCounters {
    fn events(&self) -> &[Event] {
        &self.events
    }

    fn start(&mut self) -> Result<(), CountersError> {
        self.group
            .start()
            .map_err(|error| CountersError::system("start", &error))
    }

    fn stop(&mut self) -> Result<Counts, CountersError> {
        let reading = self
            .group
            .stop()
            .map_err(|error| CountersError::system("stop", &error))?
            .ok_or(CountersError::NotStarted)?;
        Counts::of(&self.events, &reading)
    }
}

/// A group as the kernel has it, of any kind of events.
struct PerfGroup {
    group: Group,
    members: Vec<Counter>,
    /// What it read when it was started; `None` while it stands still.
    before: Option<Reading>,
}

impl PerfGroup {
    fn new() -> io::Result<Self> {
        Ok(Self {
            group: Group::new()?,
            members: Vec::new(),
            before: None,
        })
    }

    fn add(&mut self, builder: &Builder) -> io::Result<()> {
        self.members.push(self.group.add(builder)?);
        Ok(())
    }

    fn read(&mut self) -> io::Result<Reading> {
        let data = self.group.read()?;
        let missing = || io::Error::other("the kernel left out a value of the group");
        let nanoseconds = |time: Option<std::time::Duration>| {
            time.and_then(|time| u64::try_from(time.as_nanos()).ok())
                .ok_or_else(missing)
        };
        let values = self
            .members
            .iter()
            .map(|member| data.get(member).map(|entry| entry.value()).ok_or_else(missing));
        Ok(Reading {
            values: values.collect::<io::Result<_>>()?,
            time_enabled_ns: nanoseconds(data.time_enabled())?,
            time_running_ns: nanoseconds(data.time_running())?,
        })
    }

    /// Resetting the group would leave its times as they are, so a start remembers what to subtract.
    fn start(&mut self) -> io::Result<()> {
        self.before = Some(self.read()?);
        self.group.enable()
    }

    /// What happened since the start; `None` without one.
    fn stop(&mut self) -> io::Result<Option<Reading>> {
        let Some(before) = self.before.take() else {
            return Ok(None);
        };
        self.group.disable()?;
        let after = self.read()?;
        Ok(Some(Reading {
            values: after
                .values
                .iter()
                .zip(&before.values)
                .map(|(after, before)| after.saturating_sub(*before))
                .collect(),
            time_enabled_ns: after.time_enabled_ns.saturating_sub(before.time_enabled_ns),
            time_running_ns: after.time_running_ns.saturating_sub(before.time_running_ns),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use perf_event::events::Software;

    use super::*;

    #[test]
    fn asking_twice_gives_one_answer() {
        assert_eq!(try_open(), try_open());
    }

    /// The kernel's own counters need no counter unit, and take the same way.
    #[test]
    fn a_group_counts_between_start_and_stop_only() {
        let group = PerfGroup::new().and_then(|mut group| {
            for event in [Software::DUMMY, Software::PAGE_FAULTS] {
                group.add(Builder::new(event).exclude_kernel(true))?;
            }
            Ok(group)
        });
        let mut group = match group {
            Ok(group) => group,
            // A sandbox may forbid even these; then there must be an explanation.
            Err(error) => {
                assert!(
                    matches!(
                        explain(&error, None, 0, 2),
                        CountersError::NoCounters
                            | CountersError::NoPerfEvents
                            | CountersError::Paranoid { .. }
                            | CountersError::Forbidden { .. }
                    ),
                    "{error}"
                );
                return;
            }
        };
        // At least one fault for each huge page of this, whatever the size of pages is set to.
        let touch = || drop(black_box(vec![1u8; 64 << 20]));

        assert_eq!(group.stop().unwrap(), None);
        touch();
        group.start().unwrap();
        touch();
        let first = group.stop().unwrap().unwrap();
        assert_eq!(first.values[0], 0);
        assert!(first.values[1] >= 16, "{first:?}");
        assert!(
            0 < first.time_running_ns && first.time_running_ns <= first.time_enabled_ns,
            "{first:?}"
        );

        // Faults before and between do not count, and neither do those of a start that another start replaces.
        touch();
        group.start().unwrap();
        touch();
        group.start().unwrap();
        let second = group.stop().unwrap().unwrap();
        assert!(second.values[1] < 16, "{second:?}");
        assert_eq!(group.stop().unwrap(), None);

        // Another thread's faults are not this one's.
        group.start().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(touch);
        });
        let third = group.stop().unwrap().unwrap();
        assert!(third.values[1] < 16, "{third:?}");
    }
}
