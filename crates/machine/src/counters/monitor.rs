//! Counting on other processes and on CPUs, not only on the calling thread.
//!
//! Order of calls: groups of events from [`corun_model::pmu::groups::plan`]; [`Monitor::open`] on a process (with everything below
//! it), a CPU or the calling thread; [`Monitored::start`]; [`Monitored::read`] as often as wanted; [`Monitored::stop`]. Groups
//! take turns where the CPU has too few counters, and their counts say so ([`Counts::is_estimate`]).
//!
//! ```no_run
//! use corun_machine::counters::{this_cpu, monitor::{Monitor, Monitored, Scope, Target}};
//! use corun_model::pmu::{EventTable, Quantity, groups::plan};
//!
//! let table = EventTable::of(&this_cpu());
//! let sets = [vec![Quantity::TaskClock, Quantity::PageFaults]];
//! let groups = plan(&table, &sets, table.counters_general()).groups;
//! let mut monitor = Monitor::open(Target::Process(4711), &groups, Scope::User)?;
//! monitor.start()?;
//! // The server works.
//! let counts = monitor.stop()?;
//! let faults = counts.get(Quantity::PageFaults);
//! # Ok::<(), corun_machine::counters::monitor::MonitorError>(())
//! ```
//!
//! [`open_sets`] does the planning too, and leaves out what cannot be counted here. [`SimulatedMonitor`] stands in where there are no counters, and in the tests of whatever is built on this.
//!
//! Not here: samples of where events happen ([`crate::sampling`]), formulas ([`corun_model::pmu`]).

mod error;
mod perf;
mod sets;
mod simulated;

use corun_model::pmu::{Counts, Event};

pub use error::{MonitorError, Who};
pub use perf::Monitor;
pub(crate) use perf::{builder, explain_one};
pub use sets::{Opened, open_sets};
pub use simulated::SimulatedMonitor;

/// What is counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process: its threads, the processes below it, and all that any of these start later. What starts while the monitor is
    /// being opened may be missed, and is never counted twice.
    Process(u32),
    /// One CPU, whoever runs on it.
    Cpu(u32),
    /// The calling thread, and what it starts later.
    Thread,
}

/// Which code is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Programs' own, as the paper counts (section 4).
    #[default]
    User,
    /// The kernel's on their behalf too: needs more rights.
    All,
}

/// Something that counts: the kernel ([`Monitor`]) or a script ([`SimulatedMonitor`]).
pub trait Monitored {
    /// What is counted, group by group.
    fn groups(&self) -> &[Vec<Event>];

    /// Counts from here on; what was counted before no longer matters.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn start(&mut self) -> Result<(), MonitorError>;

    /// What happened since [`Monitored::start`], while counting goes on.
    ///
    /// # Errors
    /// [`MonitorError::NotStarted`] without a start; when the kernel refuses.
    fn read(&mut self) -> Result<Counts, MonitorError>;

    /// Stops, and says what happened since [`Monitored::start`].
    ///
    /// # Errors
    /// [`MonitorError::NotStarted`] without a start; when the kernel refuses.
    fn stop(&mut self) -> Result<Counts, MonitorError>;
}
