//! Tools of the lab: what the CPU counts and where programs spend their time, instruction by instruction where need be.
//!
//! [`counters`] count cache misses and other events of the cores, here and in other processes, [`sampling`] says in which functions,
//! and [`activity`] what the kernel knows without counters; [`trace`] follows one operation of another program instruction by
//! instruction; [`polluter`] takes cache away; [`smt`] switches hardware threads; [`memory`] counts the heap.
//!
//! All but [`memory`] need the feature `tools`, which is on by default.
//!
//! Every effect has a simulated one behind the same trait. Not here: what products need of the machine (`corun-topology`,
//! `corun-resctrl`, `corun-net`), and anything that prints.

#[cfg(feature = "tools")]
pub mod activity;
#[cfg(feature = "tools")]
pub mod counters;
pub mod memory;
#[cfg(feature = "tools")]
pub mod polluter;
#[cfg(feature = "tools")]
pub mod sampling;
#[cfg(feature = "tools")]
pub mod smt;
#[cfg(feature = "tools")]
pub mod trace;
