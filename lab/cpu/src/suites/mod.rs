//! The suites on a core: each turns arguments into comparisons for [`lab_core::run::Runner`] and rows of its own.

pub mod floor;
pub mod instruction_cache;
pub mod memory_latency;
