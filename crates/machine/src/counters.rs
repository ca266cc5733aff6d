//! Hardware event counters of one thread: cache misses, machine clears, instructions, cycles.
//!
//! Order of calls: [`open`] on the thread that does the work, then [`Counters::start`] and [`Counters::stop`] around each
//! piece of it, as often as wanted. All events of one [`open`] are one group: the kernel counts all of them or none, so
//! that their ratios are of the same stretch of work. [`SimulatedCounters`] stand in where there is no counter unit, and
//! in the tests of whatever is built on this. [`try_open`] only asks whether counting works at all.
//!
//! ```no_run
//! use corun_machine::counters::{Counters, Event, open};
//!
//! let mut counters = open(&[Event::LlcMisses, Event::Instructions])?;
//! counters.start()?;
//! // The work.
//! let counts = counters.stop()?;
//! let misses = counts.get(Event::LlcMisses);
//! # Ok::<(), corun_machine::counters::CountersError>(())
//! ```
//!
//! [`monitor`] counts on other processes and on CPUs, any event of the CPU's table ([`corun_model::pmu`]) and the kernel's own.
//!
//! Not here: sampling ([`crate::sampling`]), and events outside the cores (memory controllers).

mod counts;
mod cpu;
mod error;
mod event;
pub mod monitor;
mod perf;
mod simulated;

pub use counts::{Counts, Reading};
pub use cpu::this_cpu;
pub use error::CountersError;
pub use event::Event;
pub use perf::{PerfCounters, open, try_open};
pub use simulated::SimulatedCounters;

/// A group of event counters: the kernel's ([`PerfCounters`]) or scripted ones ([`SimulatedCounters`]).
///
/// ```text
/// stopped ──start──► counting ──stop──► stopped, counts given out
///                    │    ▲
///                    └────┘ start: counts from here on
/// ```
pub trait Counters {
    /// What is counted, in the order asked for.
    fn events(&self) -> &[Event];

    /// Counts from here on; what was counted before no longer matters.
    ///
    /// # Errors
    /// [`CountersError::System`] when the kernel refuses.
    fn start(&mut self) -> Result<(), CountersError>;

    /// Stops, and says what happened since [`Counters::start`].
    ///
    /// # Errors
    /// [`CountersError::NotStarted`] without a `start` before; [`CountersError::NeverCounted`] when the group never got
    /// the counters to itself meanwhile; [`CountersError::System`] when the kernel refuses.
    fn stop(&mut self) -> Result<Counts, CountersError>;
}
