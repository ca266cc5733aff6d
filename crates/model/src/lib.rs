//! Decisions and vocabulary of corun, and nothing else.
//!
//! Everything here is plain data or a pure function from a snapshot to an answer. It never reads a clock, a file or a
//! random number it was not handed, knows nothing of threads or SQL, and contains no `unsafe`.
//!
//! Start with [`topology::Topology`], the picture of a machine that every decision takes.

#![forbid(unsafe_code)]

pub mod advice;
pub mod auto_switch;
pub mod capability;
pub mod cardinality;
pub mod cohort;
pub mod coschedule;
pub mod cpulist;
pub mod index_join;
pub mod instructions;
pub mod interference;
pub mod knee;
pub mod locality;
pub mod mode;
pub mod partition;
pub mod pg_hash;
pub mod pipeline;
pub mod placement;
pub mod plan_choice;
pub mod plan_cost;
pub mod pmu;
pub mod queue_cost;
pub mod ranges;
pub mod replicas;
pub mod reuse;
pub mod sampling;
pub mod siblings;
pub mod slowdown;
pub mod split;
pub mod spread;
pub mod steps;
pub mod technique;
pub mod topology;
pub mod trace;
pub mod units;
pub mod work_ahead;
