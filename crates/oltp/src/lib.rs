//! Transactional workloads over any engine: TPC-C and YCSB, their inputs, their loaders, and what must hold afterwards.
//!
//! What it is not: it measures nothing by itself beyond counting and timing the transactions of a run; `bench` compares.

pub mod driver;
pub mod engine;
pub mod kv;
mod naive;
pub mod random;
pub mod text;
pub mod tpcc;
pub mod ycsb;

pub use naive::Naive;
