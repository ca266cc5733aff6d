//! Teams for an engine we did not write: many tenants' SQLite databases on one core.
//!
//! SQLite's own source, unchanged, is compiled with patchable function entries (`build.rs`). [`mod@sqlite`] sets it up for user-level
//! threads (mutexes, allocator); [`tenant`] has the tenants' tables, requests and the oracle; [`run`] runs requests serially or as a
//! team; [`choose`] finds the functions that become CTX points, from a trace of this very program ([`subject`]); [`bench`] measures.
//!
//! The code that patches is `corun_exec::teams::patch`, and knows nothing of SQLite.

mod memory;
mod mutex;

pub mod bench;
pub mod choose;
pub mod run;
pub mod sqlite;
pub mod subject;
pub mod tenant;
