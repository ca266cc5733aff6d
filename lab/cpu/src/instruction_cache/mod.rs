//! The suite `instruction-cache`'s inside: paper 003's experiments on our store, misses simulated on the program's own trace, time measured.
//!
//! ```text
//!   suites::steps ──► figures (counted, points, operations, tpcc)
//!                        │  simulated                              │  measured
//!                        ▼                                         ▼
//!       lab: a traced copy of the program ──► subject ◄── timed: sides take turns in this process
//!                        │                    (job, table)
//!                        ▼
//!       kept trace ──► cores ──► rows ──► lab_core::figures, which draw the report
//!                └───► training: which CTX points
//! ```
//!
//! Not here: what a team is (`corun_exec::teams`), tracing (`corun_machine::trace`), caches and the choice of points (`cachesim`).

mod cores;
mod counted;
mod figures;
pub mod geometry;
pub mod job;
mod kept;
mod lab;
mod marks;
mod operations;
mod points;
mod rows;
mod stage;
pub mod subject;
mod table;
mod timed;
mod tpcc;
mod training;
mod transactions;

pub use figures::{cases, run};
pub use lab::SUBCOMMAND;
