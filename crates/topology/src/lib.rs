//! What this machine is: its CPUs, cores, caches and capabilities, which CPU a thread runs on, and how fast memory really is.
//!
//! [`discover`] reads what the system says, once. [`measure`] times what the system cannot know; [`effective_llc`] and
//! [`calibration`] keep what was measured in files of the user's cache folder. [`affinity`] moves threads, [`nice`] has them let others run first.
//!
//! Effects only, and thin: decisions taken from what is found here are pure functions in `corun-model`. Elsewhere than on Linux
//! [`discover`] returns the CPUs the standard library knows of, and threads stay where they are; that part is untested.
//!
//! Not here: event counters, tracers, cache ways, sockets.

pub mod affinity;
pub mod calibration;
pub mod clock;
mod discovery;
pub mod effective_llc;
mod kept;
pub mod measure;
pub mod nice;
#[cfg(target_os = "linux")]
mod performance_events;

pub use discovery::{cpuid, discover, discover_at, discover_with};

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
