//! Experiments on PostgreSQL: the pooler beside others, queries sent by key (paper 004), heavy queries that share a cache (paper 002),
//! and where a server's time goes (paper 001).
//!
//! Start at [`suites`].

pub mod characterize;
pub mod heavy_queue;
pub mod key_ranges;
pub mod key_ranges_simulated;
pub mod pooler;
pub mod suites;
