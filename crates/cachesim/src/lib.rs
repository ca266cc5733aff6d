//! Simulated caches: what an access trace would have missed, and how two threads disturb each other in one shared array.
//!
//! Machines without performance counters cannot say how often an operator missed a cache. Operators can say what they touched,
//! as [`corun_model::operators::trace::Event`]s; a [`Hierarchy`] replays these and counts. The calls, in order: describe the levels
//! ([`Hierarchy::of`] a topology, or a [`Preset`]), hand it every event, read [`Hierarchy::counters`]. [`trace`] keeps events in
//! a file for later. [`llc`] runs several such streams side by side over one shared cache, limited by way masks or page colours, and
//! times them; [`synthetic`] makes streams up. [`coherence`] stands for itself: it needs no trace, only speeds.
//!
//! Traces of instructions, [`corun_model::teams::instructions::Event`]s, are another kind: [`instruction_cache`] finds where the code of an operation outgrows
//! the level-one instruction cache and what teams that switch there miss; [`core`] counts what one core does with all of a trace, data and branches included.
//!
//! [`private_caches`] is about many cores with private caches: what PostgreSQL's queries miss there, dispatched by the operating system, at random or by
//! key, replayed from recordings of its memory accesses.
//!
//! [`cachegrind`] and [`callgrind`] simulate nothing: they read what valgrind's simulators counted of a program.
//!
//! Whatever comes from here is labelled `simulated` where it is shown. Not here: time in a [`Hierarchy`] (latencies are known to
//! `llc` and `coherence` only), hardware prefetchers, TLBs.

#![forbid(unsafe_code)]

pub mod cache;
pub mod cachegrind;
pub mod callgrind;
pub mod coherence;
pub mod core;
pub mod hierarchy;
pub mod instruction_cache;
pub mod llc;
pub mod preset;
pub mod private_caches;
mod random;
pub mod synthetic;
pub mod trace;

pub use cache::{Geometry, Replacement, SetAssociative, WayMask};
pub use hierarchy::{Counters, Hierarchy, Level, Sharing};
pub use preset::Preset;
pub use synthetic::Synthetic;
