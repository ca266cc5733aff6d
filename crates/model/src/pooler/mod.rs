//! Decisions of the pooler: which waiting statement goes next, which event loop gets a free connection, whose core or replica has its keys
//! (paper 004), in how many parts a heavy query runs, and what PostgreSQL keeps in the cache for it.

pub mod auto_switch;
pub mod cohort;
pub mod hunger;
pub mod pg_hash;
pub mod queue_cost;
pub mod ranges;
pub mod replicas;
pub mod split;
