//! `corun-lab characterize`: where a database server's time goes under concurrency (paper 001), with counters and without.
//!
//! ```text
//!   run ──► rows, one after the other ──► FOLDER/rows.jsonl ──► report, advice, diff
//!    │
//!    ├ server, workload (dbmbench), sweep ─ observe, counted: what is looked at during each turn
//!    ├ embedded: the same queries on the embedded engine
//!    ├ sampled: functions      interference: beside a cache polluter      smt: with and without
//!    └ small ─► simulated: the stand-alone backend under valgrind
//! ```
//!
//! Order of calls: [`run::Prepared`] checks the input and runs with somebody who takes rows; [`report::page`] and [`report::text`] of
//! these, whenever. Everything a reader sees is made of rows alone, so that a run that broke off still has a report.
//!
//! Not here: arguments and files.

pub mod advice;
mod attached;
mod bound;
mod capabilities;
pub mod counted;
pub mod dbmbench;
pub mod diff;
pub mod embedded;
pub mod interference;
pub mod observe;
pub mod options;
pub mod report;
pub mod rows;
pub mod run;
pub mod sampled;
pub mod server;
pub mod simulated;
pub mod small;
pub mod smt;
pub mod sweep;
pub mod workload;

#[cfg(test)]
mod example_runs;

pub use rows::SUITE;
