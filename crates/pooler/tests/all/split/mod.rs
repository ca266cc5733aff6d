//! Queries run whole and split give the same rows, on a real PostgreSQL, on one snapshot, in both formats, while others write.

mod arbitrary;
mod best_seller;
pub mod data;
pub mod executor;
mod once;
pub mod queries;
mod random;
mod refusals;
mod writers;
