//! `corun characterize`: where a database server's time goes under concurrency (paper 001).

pub mod dbmbench;
pub mod server;
pub mod sweep;
pub mod workload;

/// The suite in rows.
pub const SUITE: &str = "characterize";
