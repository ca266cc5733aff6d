//! Experiments on the embedded engine: joins, analytic workloads, queries that share the last-level cache (paper 002), transactions
//! beside other engines, and the demo.
//!
//! Start at [`suites`].

pub mod demo;
pub mod join;
pub mod peers;
pub mod pg_client;
pub mod query;
pub mod shared_cache;
pub mod suites;
pub mod tables;
pub mod transactions;
