//! Decisions and vocabulary of corun, and nothing else.
//!
//! Everything here is plain data or a pure function from a snapshot to an answer. It never reads a clock, a file or a
//! random number it was not handed, knows nothing of threads or SQL, and contains no `unsafe`.
//!
//! Grouped by who asks: [`cache`] (who shares the last-level cache with whom), [`operators`] (how joins and index probes wait for
//! memory), [`teams`] (who shares an instruction cache), [`pooler`] (which server connection, core or replica), [`pmu`] (what counters
//! say). The rest is vocabulary that crates exchange; start with [`topology::Topology`], the picture of a machine.

#![forbid(unsafe_code)]

pub mod cache;
pub mod capability;
pub mod cpulist;
pub mod explained;
pub mod kept_columns;
pub mod knee;
pub mod operators;
pub mod pmu;
pub mod pooler;
pub mod progress;
pub mod server_status;
pub mod shared_work;
pub mod siblings;
pub mod spread;
pub mod teams;
pub mod topology;
pub mod units;

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
