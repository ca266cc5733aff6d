//! Linux as corun uses it: what the machine is made of, which CPU a thread runs on, how much memory is live, how fast
//! memory really is, what the CPU counts of a thread, and which ways of the shared cache a class of threads may fill.
//!
//! Effects only, and thin: decisions taken from what is found here are pure functions in the model crate. Start with
//! [`topology::discover`]; [`measure`] times what discovery cannot know, and [`effective_llc`] keeps a part of it;
//! [`memory`] counts the heap; [`counters`] count cache misses and other events of the cores, here and in other processes,
//! [`sampling`] says in which functions, and [`activity`] what the kernel knows without counters; [`smt`] switches hardware
//! threads; [`resctrl`] partitions the last-level cache; [`partition`] chooses how queries are kept apart in it; [`trace`]
//! follows one operation of another program instruction by instruction; [`reactor`] serves many sockets from one thread;
//! [`process`] gives a process of somebody else its core.
//!
//! Not here: operators, SQL, or anything that prints.

pub mod activity;
pub mod affinity;
pub mod calibration;
pub mod clock;
pub mod counters;
pub mod effective_llc;
mod kept;
pub mod measure;
pub mod memory;
pub mod notify;
pub mod partition;
pub mod polluter;
pub mod process;
pub mod reactor;
pub mod resctrl;
pub mod sampling;
pub mod smt;
pub mod topology;
pub mod trace;
pub mod users;
