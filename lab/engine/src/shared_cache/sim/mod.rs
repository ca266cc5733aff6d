//! The last-level cache simulated: what a mix of queries would miss, and how much longer each would take, undivided or divided.
//!
//! ```text
//!   "plq5:hash,plq25:index" ──▶ Query ──▶ record ──▶ Trace ┐
//!                              names      exec's          ├─▶ Lab ──▶ corun(division) ──▶ Outcome: miss rate, slow-down
//!                                         operators       │             ╰── corun_cachesim::llc
//!                              "paper" ──▶ Machine ────────┘
//! ```
//!
//! The accesses are those that operators of `corun-exec` make while they join real data; only addresses are moved, so that equal seeds give
//! equal numbers everywhere. What is not recorded: everything an engine does around its operators. [`Machine::work_ns`] stands for it.
//!
//! Start at [`Lab`]. [`figures::rows`] is paper 002's figures. Whatever comes from here is labelled `simulated`.
//!
//! Not here: hardware prefetchers, TLBs, the bandwidth of memory, and data that queries share: each has tables of its own.

pub mod error;
pub mod figures;
pub mod lab;
pub mod machine;
pub mod operators;
pub mod query;
pub mod trace;

pub use error::SimError;
pub use figures::{Figure, SimArgs, rows, rows_with};
pub use lab::{Division, Lab, Outcome};
pub use machine::{Machine, Preset};
pub use query::{Join, Query, mix};
