//! Private caches under concurrent queries (paper 004, CARIC-DA): what dispatching queries by key saves, from traces of PostgreSQL.
//!
//! ```text
//!   postgres --single under valgrind ──▶ lackey ──▶ strip ──▶ recording ─── pack ──▶ kept.jsonl
//!                                                                │
//!     keys, ranges ──▶ workload: statements with keys ◀──────────┘
//!                         │        layout: which lines those are, in a database of any size, for any backend
//!                         ▼
//!     platform ──▶ run: backends on hardware threads, dispatched by the system, at random or by range
//!                   └▶ cores: L1-I, L1-D, L2 of each core, coherent ──▶ misses by region ──▶ cost: cycles, and backwards
//! ```
//!
//! Start at [`run::Plan`]. A recording is made once, of a small database; a replay moves each touch to the key, the backend and the size of
//! database that are simulated. That this misses what a trace of those keys misses is a test (`tests/all/private_caches_replay.rs`).
//!
//! Not here: starting PostgreSQL; the last-level cache, which is only where misses go; the kernel and the network, which such a trace does
//! not have; prefetchers and TLBs; time other than by [`cost`]'s sum.

pub mod axis;
pub mod cores;
pub mod cost;
pub mod keys;
pub mod lackey;
pub mod layout;
pub mod pack;
pub mod platform;
pub mod recording;
pub mod run;
pub mod strip;
pub mod study;
pub mod touch;
pub mod workload;
