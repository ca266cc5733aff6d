//! Workloads, runners, peers, records and reports: everything `corun bench` and `corun demo` need beside the engine.
//!
//! Start at [`suites::run`]. It builds [`run::Comparison`]s, which a [`run::Runner`] executes interleaved and turns into
//! [`row::Row`]s; [`record`] keeps them. Nothing here prints: the program does.

pub mod error;
pub mod join;
pub mod peers;
pub mod progress;
pub mod record;
pub mod row;
pub mod run;
pub mod stats;
pub mod suites;

pub mod answers;
pub mod caric;
pub mod caric_sim;
pub mod characterize;
pub mod dataset;
pub mod llc;
pub mod mcc;
pub mod oltp;
pub mod oracle;
pub mod parallel;
pub mod proxy;
pub mod smt;
pub mod ssb;
pub mod steps;
pub mod tpch;

pub mod demo;
pub mod report;

pub use error::BenchError;
