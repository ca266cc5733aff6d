//! Timing what discovery cannot know: latency and throughput by working-set size, cores talking to each other, and
//! CPUs that turn out to share a core.
//!
//! [`campaign::run`] does all of it within a time budget, on anything that implements [`Machine`]: [`Real`] is this
//! computer, [`Simulated`] a model of one, so that everything drawn from the numbers is tested without a clock.
//! [`effective_llc_quick`] measures the effective last-level cache alone, for programs that are about to need it.
//! [`ns_per_line`] alone is the *floor* that benchmarks compare joins with.
//!
//! Not here: judging numbers ([`corun_model::knee`], [`corun_model::siblings`]) and printing them.

mod campaign;
mod chase;
mod effective;
mod error;
mod floor;
pub mod lines;
mod pairs;
mod pinned;
mod real;
mod simulated;
mod uniform;

pub use campaign::{CampaignOptions, Measurement, Progress, run};
pub(crate) use effective::bytes_max as effective_llc_bytes_max;
pub use effective::effective_llc_quick;
pub use error::MeasureError;
pub use floor::{FloorBuffer, FloorSample, ns_per_line};
pub use real::Real;
pub use simulated::{LatencyModel, Simulated};

use std::time::Duration;

use corun_model::spread::Label;
use corun_model::topology::Topology;
use corun_model::units::{Bytes, CpuId};

/// A machine that can be measured: the real one, or a simulated twin.
///
/// Every method returns one value a repetition, unsorted and unsmoothed.
pub trait Machine {
    /// Whether its numbers are measured or simulated.
    fn label(&self) -> Label;

    /// What it is made of.
    fn topology(&self) -> &Topology;

    /// Time spent so far.
    fn elapsed(&self) -> Duration;

    /// Nanoseconds of CPU time a dependent access to a random line takes in a working set of `bytes`.
    ///
    /// # Errors
    /// When memory or a CPU cannot be had.
    fn chase_ns(&mut self, bytes: Bytes, repetitions: usize) -> Result<Vec<f64>, MeasureError>;

    /// Nanoseconds of CPU time a dependent access takes to a line drawn evenly from a working set of `bytes`, once the
    /// caches hold what they can of it.
    ///
    /// # Errors
    /// When memory or a CPU cannot be had.
    fn uniform_ns(&mut self, bytes: Bytes, repetitions: usize) -> Result<Vec<f64>, MeasureError>;

    /// Nanoseconds an independent access to a random line takes, wall time over all accesses of all `threads`.
    ///
    /// # Errors
    /// When memory or a CPU cannot be had.
    fn floor(
        &mut self,
        bytes: Bytes,
        threads: usize,
        repetitions: usize,
    ) -> Result<Vec<FloorSample>, MeasureError>;

    /// Nanoseconds a cache line takes from one CPU to the other, one way.
    ///
    /// # Errors
    /// When a CPU cannot be had or a partner does not answer.
    fn hand_over_ns(&mut self, a: CpuId, b: CpuId, repetitions: usize) -> Result<Vec<f64>, MeasureError>;

    /// How much slower arithmetic on `a` gets while `b` does the same; 1.0 is not at all.
    ///
    /// # Errors
    /// When a CPU cannot be had.
    fn slowdown(&mut self, a: CpuId, b: CpuId, repetitions: usize) -> Result<Vec<f64>, MeasureError>;
}
