//! Runs a workload on an engine: clients in a closed loop, without think time, counted and timed; a thread each, or in teams on one
//! thread a worker ([`Teams`]).
//!
//! [`run_tpcc`] and [`run_ycsb`] run many clients at once; [`compare_tpcc`] and [`compare_ycsb`] give two engines the same
//! transactions one by one and compare what they answer.
//!
//! What it is not: a benchmark. It repeats nothing and judges nothing; a caller interleaves runs of several engines.

mod beside;
mod client;
mod compare;
mod histogram;
mod members;
mod options;
mod outcome;
mod run;
mod team_outcome;
mod teams;
mod tpcc;
mod turns;
mod ycsb;

pub use beside::{beside_tpcc_readers, beside_ycsb_readers};
pub use compare::{Difference, Sides, compare_tpcc, compare_ycsb, same_tpcc_rows, same_ycsb_records};
pub use histogram::Histogram;
pub use options::{Measure, RunError, RunOptions};
pub use outcome::{KindOutcome, Outcome};
pub use team_outcome::{OperationOutcome, TeamOutcome};
pub use teams::{TeamOptions, Teams, UnknownTeams};
pub use tpcc::{TpccWorkload, run_tpcc};
pub use ycsb::run_ycsb;
