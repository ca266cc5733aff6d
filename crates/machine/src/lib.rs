//! Linux as corun uses it: what the machine is made of, which CPU a thread runs on, how much memory is live, how fast
//! memory really is, and what the CPU counts of a thread.
//!
//! Effects only, and thin: decisions taken from what is found here are pure functions in the model crate. Start with
//! [`topology::discover`]; [`measure`] times what discovery cannot know; [`memory`] counts the heap; [`counters`] count
//! cache misses and other events of the cores.
//!
//! Not here: operators, SQL, or anything that prints.

pub mod affinity;
pub mod calibration;
pub mod clock;
pub mod counters;
pub mod measure;
pub mod memory;
pub mod topology;
