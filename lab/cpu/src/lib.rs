//! Experiments on a core: techniques against waiting for memory (paper 000), instruction misses and teams (paper 003), and what the
//! machine gives at random access.
//!
//! Start at [`suites`].

pub mod instruction_cache;
pub mod memory_latency;
pub mod suites;
