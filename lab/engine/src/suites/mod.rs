//! The suites on the embedded engine: each turns arguments into comparisons for [`lab_core::run::Runner`] and rows of its own.

pub mod aggregate;
pub mod h2o;
pub mod join;
pub mod shared_cache;
pub mod ssb;
pub mod tpcds;
pub mod tpch;
pub mod transactions;
pub mod workload;
