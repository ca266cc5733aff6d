//! What the counter units of CPUs count, and what follows from their counts.
//!
//! ```text
//! CpuModel ─► EventTable::of ─► events for each Quantity ─► groups::plan ─► (the machine crate counts) ─► Counts
//!                                                                                                          │
//!                       rates (CPI, mix, miss rates) ◄── stalls (paper 001, section 4.6) ◄── top_down ◄────┘
//! ```
//!
//! A [`Quantity`] is what a person wants to know (L2 misses of instruction fetches); an [`Event`] is how one family of CPUs
//! counts it, under the name its maker publishes. The same quantity is never exactly the same thing on two makers' CPUs:
//! each event says what it is there, and reports show that name. A quantity without an event is [`Absent`], with the reason.
//!
//! The kernel never checks a raw encoding, a wrong one silently counts something else. So raw encodings are given only for
//! models on the lists in [`cpu`], and everything else gets portable events only.
//!
//! Not here: asking cpuid, opening and reading counters; the machine crate does both.

pub mod advice;
mod amd;
mod counts;
pub mod cpu;
mod event;
pub mod groups;
mod intel;
pub mod interference;
mod portable;
mod quantity;
pub mod rates;
pub mod stalls;
mod table;
pub mod top_down;

pub use counts::{Counts, GroupCounts};
pub use cpu::{CpuModel, Maker, Microarchitecture};
pub use event::{CacheLevel, Encoding, Event, HardwareEvent, SoftwareEvent};
pub use quantity::Quantity;
pub use table::{Absent, EventTable};
