//! Queries run whole and split give the same rows, on a real PostgreSQL, on one snapshot, in both formats, while others write.

#[path = "../common/mod.rs"]
mod common;

mod arbitrary;
mod best_seller;
mod data;
mod executor;
mod once;
mod queries;
mod random;
mod refusals;
mod writers;
