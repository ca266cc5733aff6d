//! The suites on PostgreSQL: each turns arguments into comparisons for [`lab_core::run::Runner`] and rows of its own.

pub mod heavy_queue;
pub mod key_ranges;
pub mod pooler;
pub mod serve;
