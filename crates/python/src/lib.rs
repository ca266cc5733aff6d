//! corun's operators behind DataFusion's foreign interface, for Python's `datafusion`: a library in the same process with types of its own.
//!
//! ```text
//!   Python's datafusion                     this crate
//!   SQL -> optimised logical plan ──bytes──▶ planner: functions and files in own types -> corun's planner and rules
//!          tables in memory ───by number───▶ hand_over                                   │
//!   result ◀──batches, not copied── root node ◀──by number── codec ◀────── whole plan ───┘
//! ```
//!
//! A statement crosses the interface twice, as text crosses it: on the way in, and as one node on the way out. Every operator in between
//! is of this library, so that its rules see what they rewrite. What cannot be planned here (files of stores that only the other
//! library knows) is planned by the planner that was there before.
//!
//! Order of calls: [`Extension::new`], then for a session [`Extension::logical_codec`] and [`Extension::physical_codec`], then [`Extension::planner`]. The feature `python` adds the
//! module itself.

mod codec;
mod functions;
mod hand_over;
mod planner;
#[cfg(feature = "python")]
mod python;
mod root;
mod tables;
mod threads;

pub use planner::Extension;
pub use root::CorunPlanExec;
