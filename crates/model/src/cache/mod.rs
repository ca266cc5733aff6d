//! Queries that share the last-level cache (paper 002): what a plan keeps there, which plan to take, who runs beside whom, which ways
//! of the cache belong to whom.

pub mod coschedule;
pub mod locality;
pub mod partition;
pub mod pipeline;
pub mod plan_choice;
pub mod plan_cost;
pub mod reuse;
pub mod sampling;
pub mod slowdown;
