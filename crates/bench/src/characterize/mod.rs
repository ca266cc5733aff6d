//! What `corun characterize` measures (paper 001): where a database's cycles go under concurrency.
//!
//! [`simulated`] runs PostgreSQL's stand-alone backend under valgrind, for machines without counters; [`interference`] times a workload beside
//! a cache polluter. Each gives rows of the suite [`SUITE`], from which everything shown is made. Nothing here prints.

pub mod interference;
pub mod simulated;

/// The suite's name in rows.
pub const SUITE: &str = "characterize";
