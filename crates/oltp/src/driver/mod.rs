//! Runs a workload on an engine: clients in a closed loop, without think time, counted and timed.
//!
//! [`run_tpcc`] and [`run_ycsb`] run many clients at once; [`compare_tpcc`] and [`compare_ycsb`] give two engines the same
//! transactions one by one and compare what they answer.
//!
//! What it is not: a benchmark. It repeats nothing and judges nothing; a caller interleaves runs of several engines.

mod client;
mod compare;
mod histogram;
mod outcome;
mod tpcc;
mod ycsb;

pub use client::{Measure, RunError, RunOptions};
pub use compare::{Difference, Sides, compare_tpcc, compare_ycsb, same_tpcc_rows, same_ycsb_records};
pub use histogram::Histogram;
pub use outcome::{KindOutcome, Outcome};
pub use tpcc::{TpccWorkload, run_tpcc};
pub use ycsb::run_ycsb;
