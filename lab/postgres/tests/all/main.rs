//! Suites on PostgreSQL, on tiny data: every case runs, answers are right, and nothing that was started is left.

mod characterize_simulated;
mod heavy_queue_simulated;
mod interference;
mod key_ranges;
mod pooler;
#[path = "../../../../crates/machine/tests/all/skipped.rs"]
mod skipped;
