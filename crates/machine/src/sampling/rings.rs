//! The kernel's buffers of samples: one a CPU, shared by all threads that are sampled on it.
//!
//! The kernel refuses one buffer for a thread on all CPUs at once where its children are sampled too (they would all write to
//! it), so each thread is opened on each CPU, and all of a CPU send their samples to the first one's buffer.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use corun_model::cpulist;
use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Counter, SampleFlag, Sampler};

use super::Every;
use crate::activity::Proc;
use crate::counters::monitor::{MonitorError, Scope, Target, Who, builder, explain_one};

/// Bytes of one CPU's buffer: at 24 bytes a sample and a thousand a second some ten seconds.
const RING_BYTES: usize = 256 << 10;
/// Most events that are opened: threads times CPUs.
const EVENTS_MAX: usize = 8_192;
/// Most records taken out of one buffer at a time: the kernel may fill it as fast as it is emptied.
const RECORDS_MAX: usize = 1 << 18;

/// What a record's header says of where it was: the low three bits.
const MODE_MASK: u16 = 7;
/// In the kernel.
const MODE_KERNEL: u16 = 1;
/// In a program.
const MODE_USER: u16 = 2;

/// `PERF_EVENT_IOC_SET_OUTPUT`, `_IO('$', 5)`: send an event's records to another's buffer (linux/perf_event.h).
const SET_OUTPUT: libc::c_ulong = 0x2405;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub pid: u32,
    pub address: u64,
    pub kernel: bool,
}

/// Buffers and the events that write to them.
pub(super) struct Rings {
    rings: Vec<Sampler>,
    /// Events without a buffer of their own.
    others: Vec<Counter>,
}

impl Rings {
    pub fn open(target: Target, every: &Every, scope: Scope) -> Result<Self, MonitorError> {
        let online = online_cpus()?;
        let (threads, cpus) = match target {
            Target::Cpu(cpu) => (vec![None], vec![cpu]),
            Target::Thread => (vec![Some(0)], online),
            Target::Process(pid) => (threads_below(pid)?.into_iter().map(Some).collect(), online),
        };
        if threads.len().saturating_mul(cpus.len()) > EVENTS_MAX {
            return Err(match target {
                Target::Process(pid) => MonitorError::TooManyThreads {
                    pid,
                    threads: threads.len(),
                },
                _ => MonitorError::System {
                    doing: "open",
                    reason: format!("{} CPUs are more than can be sampled", cpus.len()),
                },
            });
        }
        let mut rings = Self {
            rings: Vec::with_capacity(cpus.len()),
            others: Vec::new(),
        };
        for cpu in cpus {
            let mut output: Option<RawFd> = None;
            for thread in &threads {
                let counter = match sampled(every, scope, *thread, cpu).build() {
                    Ok(counter) => counter,
                    // A thread that ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) && threads.len() > 1 => continue,
                    Err(error) => return Err(explain_one(&error, Who::from(target), &every.event(), scope)),
                };
                let failed = |error: io::Error| MonitorError::system("map the buffer of", &error);
                match output {
                    None => {
                        let ring = counter.sampled(RING_BYTES).map_err(failed)?;
                        output = Some(ring.as_counter().as_raw_fd());
                        rings.rings.push(ring);
                    }
                    Some(output) => {
                        redirect(&counter, output).map_err(failed)?;
                        rings.others.push(counter);
                    }
                }
            }
        }
        match target {
            Target::Process(pid) if rings.rings.is_empty() => Err(MonitorError::NoProcess { pid }),
            _ => Ok(rings),
        }
    }

    /// Starts or stops all of them.
    pub fn switch(&mut self, on: bool) -> Result<(), MonitorError> {
        let owners = self.rings.iter_mut().map(Sampler::as_counter_mut);
        for counter in owners.chain(self.others.iter_mut()) {
            let switched = if on { counter.enable() } else { counter.disable() };
            switched.map_err(|error| MonitorError::system(if on { "start" } else { "stop" }, &error))?;
        }
        Ok(())
    }

    /// Hands out what the buffers hold; the answer is how many samples were lost because a buffer was full.
    pub fn drain(&mut self, mut sink: impl FnMut(Sample)) -> u64 {
        let mut lost = 0;
        for ring in &mut self.rings {
            for _ in 0..RECORDS_MAX {
                let Some(record) = ring.next_record() else { break };
                let mode = record.misc() & MODE_MASK;
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        if let (Some(pid), Some(address)) = (sample.pid(), sample.ip())
                            && matches!(mode, MODE_KERNEL | MODE_USER)
                        {
                            sink(Sample {
                                pid,
                                address,
                                kernel: mode == MODE_KERNEL,
                            });
                        }
                    }
                    Ok(Record::Lost(record)) => lost += record.lost,
                    Ok(Record::LostSamples(record)) => lost += record.lost,
                    // Throttling and what later kernels add.
                    _ => {}
                }
            }
        }
        lost
    }
}

/// One event, of a thread or everybody on a CPU.
fn sampled(every: &Every, scope: Scope, thread: Option<u32>, cpu: u32) -> Builder<'static> {
    let mut builder = match every {
        // Counted by the task's clock it would be sampled by the CPU's: both say when the thread ran.
        Every::Time { .. } => {
            let mut builder = Builder::new(Software::CPU_CLOCK);
            builder.exclude_kernel(scope == Scope::User).exclude_hv(true);
            builder
        }
        Every::Event { event, .. } | Every::Period { event, .. } => builder(event.encoding, scope),
    };
    match every {
        Every::Time { per_s } | Every::Event { per_s, .. } => {
            builder.sample_frequency(u64::from((*per_s).max(1)));
        }
        Every::Period { events, .. } => {
            builder.sample_period((*events).max(1));
        }
    }
    builder.sample(SampleFlag::IP | SampleFlag::TID).enabled(false);
    match thread {
        Some(0) => {
            builder.observe_self().inherit(true);
        }
        Some(thread) => {
            builder
                .observe_pid(thread.try_into().unwrap_or(i32::MAX))
                .inherit(true);
        }
        None => {
            builder.any_pid();
        }
    }
    builder.one_cpu(cpu as usize);
    builder
}

/// Sends a counter's records to the buffer of another of the same CPU.
fn redirect(counter: &Counter, output: RawFd) -> io::Result<()> {
    // SAFETY: both are descriptors of open events; the call only reads its argument, a number.
    let result = unsafe { libc::ioctl(counter.as_raw_fd(), SET_OUTPUT, output) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn online_cpus() -> Result<Vec<u32>, MonitorError> {
    let failed = |reason: String| MonitorError::System {
        doing: "find the CPUs of",
        reason,
    };
    let text =
        fs::read_to_string("/sys/devices/system/cpu/online").map_err(|error| failed(error.to_string()))?;
    let cpus = cpulist::parse(text.trim()).map_err(|error| failed(error.to_string()))?;
    Ok(cpus.into_iter().map(|cpu| cpu.0).collect())
}

fn threads_below(pid: u32) -> Result<Vec<u32>, MonitorError> {
    let threads = Proc::default()
        .threads_below(pid)
        .map_err(|error| MonitorError::system("find the processes of", &error))?;
    if threads.is_empty() {
        return Err(MonitorError::NoProcess { pid });
    }
    Ok(threads)
}
