//! Experiments on PostgreSQL: the pooler beside others, queries sent by key (paper 004), heavy queries that share a cache (paper 002),
//! where a server's time goes (paper 001), and the embedded engine as a server of the same protocol beside it.
//!
//! Start at [`suites`]. What starts PostgreSQL, poolers and clients is [`fixture`], what runs it under valgrind [`traced`].
//!
//! Functions return a [`lab_core::error::BenchError`] when PostgreSQL, a program, a connection or the system fails or refuses, with its last words; where a
//! function fails of something else, its documentation says so.

pub mod characterize;
pub mod fixture;
pub mod heavy_queue;
pub mod key_ranges;
pub mod key_ranges_simulated;
pub mod pooler;
pub mod serve;
pub mod suites;
pub mod traced;
