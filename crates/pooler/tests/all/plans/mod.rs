//! Plans of a real PostgreSQL read by `corun_pooler::plans`: sizes of hash tables against what `EXPLAIN ANALYZE` reports, other forms of
//! joins, corrected estimates, and when estimates are forgotten. The star schema of `data` is a small SSB.

#![allow(
    clippy::print_stdout,
    reason = "tables of sizes are for whoever asks for them"
)]

mod classes;
mod corrections;
mod data;
mod forms;
mod shapes;
mod sizes;
