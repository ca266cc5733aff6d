//! Where a server spends its time, or has its misses: samples of the addresses it executes.
//!
//! ```text
//! Sampler::open ─► start ─► poll, a few times a second ─► stop ─► Profile: function, module, samples
//! ```
//!
//! Every so many nanoseconds or events the kernel notes which instruction ran, into a buffer of each CPU; [`Sampler::poll`]
//! empties the buffers and remembers what is mapped where in processes it sees first, because they may soon be gone. The
//! samples are split as the paper counts them (section 4): the server's own code, the kernel's, and libraries'.
//!
//! With a counter unit samples are taken every so many cycles or other events; without one by the kernel's clock
//! ([`Every::Time`]), which sees times but no misses, and nothing while interrupts are off.
//!
//! Not here: stacks of callers; lines of source ([`crate::trace::Lines`]).

mod profile;
mod rings;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use corun_model::pmu::{Encoding, Event, Quantity, SoftwareEvent};

pub use profile::{FunctionSamples, Origin, Profile};

use crate::activity::Proc;
use crate::counters::monitor::{MonitorError, Scope, Target};
use crate::counters::try_open;
use profile::{Code, Maps};
use rings::{Rings, Sample};

/// Most different addresses that are kept; samples of more are counted, not resolved.
const ADDRESSES_MAX: usize = 1 << 20;
/// Most processes whose mappings are kept.
const PROCESSES_MAX: usize = 16_384;

/// When a sample is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Every {
    /// So many times a second of running, by the kernel's clock: works without a counter unit.
    Time {
        /// Samples a second; a number that is no divisor of the scheduler's tick, such as 997, is best.
        per_s: u32,
    },
    /// So many times a second, the kernel choosing how many of these events lie between.
    Event {
        /// Which.
        event: Event,
        /// Samples a second.
        per_s: u32,
    },
    /// Each time so many of these events happened.
    Period {
        /// Which.
        event: Event,
        /// How many lie between two samples.
        events: u64,
    },
}

impl Every {
    /// By cycles where this machine counts them, else by time.
    pub fn cycles_or_time(per_s: u32) -> Self {
        let table = corun_model::pmu::EventTable::of(&crate::counters::this_cpu());
        match (try_open(), table.event(Quantity::Cycles)) {
            (Ok(()), Ok(event)) => Self::Event { event, per_s },
            _ => Self::Time { per_s },
        }
    }

    /// The event that is sampled.
    pub fn event(&self) -> Event {
        match self {
            Self::Event { event, .. } | Self::Period { event, .. } => *event,
            Self::Time { .. } => Event {
                quantity: Quantity::TaskClock,
                encoding: Encoding::Software(SoftwareEvent::TaskClock),
                name: "cpu-clock",
                source: "Linux, perf_event_open(2)",
                general: false,
            },
        }
    }
}

/// Where a sample was.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// In the kernel: one place, its functions are not told apart.
    Kernel,
    /// In a process's own memory.
    User { pid: u32, address: u64 },
}

/// Takes samples of a process and all below it, or of a CPU.
pub struct Sampler {
    rings: Rings,
    /// The process whose program is the server, if it is one.
    server: Option<u32>,
    code: Code,
    maps: HashMap<u32, Maps>,
    counts: HashMap<Place, u64>,
    /// Samples whose address was not kept any more.
    beyond: u64,
    lost: u64,
}

impl Sampler {
    /// Opens buffers on every CPU. Nothing is sampled until [`Sampler::start`]. `scope` says whether samples in the kernel are
    /// taken too, which needs more rights.
    ///
    /// # Errors
    /// As [`crate::counters::monitor::Monitor::open`].
    pub fn open(target: Target, every: &Every, scope: Scope) -> Result<Self, MonitorError> {
        let server = match target {
            Target::Process(pid) => Some(pid),
            Target::Thread => Some(std::process::id()),
            Target::Cpu(_) => None,
        };
        let mut sampler = Self {
            rings: Rings::open(target, every, scope)?,
            server,
            code: Code::default(),
            maps: HashMap::new(),
            counts: HashMap::new(),
            beyond: 0,
            lost: 0,
        };
        // Those that exist now may be gone when their first sample is read.
        if let Some(server) = server {
            let running = Proc::default().with_descendants(&[server]).unwrap_or_default();
            for pid in running {
                sampler.look_at(pid);
            }
        }
        Ok(sampler)
    }

    /// Samples from here on.
    ///
    /// # Errors
    /// [`MonitorError::System`] when the kernel refuses.
    pub fn start(&mut self) -> Result<(), MonitorError> {
        self.rings.switch(true)
    }

    /// Empties the buffers. They hold some seconds' samples; what does not fit is counted as lost.
    pub fn poll(&mut self) {
        let Self { rings, .. } = self;
        let mut new: Vec<Sample> = Vec::new();
        self.lost += rings.drain(|sample| new.push(sample));
        for sample in new {
            let place = if sample.kernel {
                Place::Kernel
            } else {
                self.look_at(sample.pid);
                Place::User {
                    pid: sample.pid,
                    address: sample.address,
                }
            };
            let room = self.counts.len() < ADDRESSES_MAX;
            match self.counts.get_mut(&place) {
                Some(count) => *count += 1,
                None if room => {
                    self.counts.insert(place, 1);
                }
                None => self.beyond += 1,
            }
        }
    }

    /// How many samples were taken so far, lost ones not among them.
    pub fn samples(&self) -> u64 {
        self.counts.values().sum::<u64>() + self.beyond
    }

    /// Remembers what is mapped where in a process that is seen first.
    fn look_at(&mut self, pid: u32) {
        if self.maps.len() < PROCESSES_MAX && !self.maps.contains_key(&pid) {
            // One that is gone is taken for a child of the server that never ran another program: the same mappings.
            let maps = Maps::of(pid).or_else(|| self.maps.get(&self.server?).cloned());
            self.maps.insert(pid, maps.unwrap_or_default());
        }
    }

    /// Stops, empties the buffers and tells which functions the samples were in, most first.
    ///
    /// # Errors
    /// [`MonitorError::System`] when the kernel refuses to stop.
    pub fn stop(mut self) -> Result<Profile, MonitorError> {
        self.rings.switch(false)?;
        self.poll();
        let program: Option<PathBuf> = self
            .server
            .and_then(|server| self.maps.get(&server))
            .and_then(|maps| maps.program().map(Path::to_owned));
        let mut profile = Profile::new(self.lost);
        profile.add_unknown(self.beyond);
        for (place, count) in &self.counts {
            match place {
                Place::Kernel => profile.add_kernel(*count),
                Place::User { pid, address } => {
                    let maps = self.maps.get(pid);
                    let server = program.as_deref().or_else(|| maps?.program());
                    let found = maps.and_then(|maps| self.code.find(maps, *pid, *address));
                    profile.add_user(found, server, *count);
                }
            }
        }
        let incomplete = program
            .as_deref()
            .is_some_and(|program| !self.code.is_complete(program));
        profile.finish(program.filter(|_| incomplete));
        Ok(profile)
    }
}
