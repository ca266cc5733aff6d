//! Transactional workloads over any engine: TPC-C and YCSB, their inputs, their loaders, and what must hold afterwards.
//!
//! Order of calls: an engine is made, [`tpcc::load`] fills it, [`driver::run_tpcc`] runs terminals on it, [`tpcc::check`] looks at what
//! they left; YCSB likewise. An engine implements [`engine::TpccEngine`], or [`kv::KvEngine`] to have both workloads.
//!
//! ```
//! use corun_workloads::Naive;
//! use corun_workloads::driver::{RunOptions, TpccWorkload, run_tpcc};
//! use corun_workloads::tpcc::{self, KvTpcc, Mix, Scale};
//!
//! let scale = Scale::hundredth(1);
//! let engine = KvTpcc::new(Naive::new(tpcc::KV_TABLES.len()));
//! tpcc::load(&engine, scale, 1, 1, &|_| ())?;
//! let workload = TpccWorkload { scale, load_seed: 1, mix: Mix::STANDARD };
//! let outcome = run_tpcc(&engine, &workload, &RunOptions::default())?;
//! assert_eq!(outcome.committed() + outcome.rolled_back(), 1000);
//! assert!(tpcc::check(&engine, scale)?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it is not: it measures nothing by itself beyond counting and timing the transactions of a run; `corun-lab bench` compares.

#[cfg(feature = "analytics")]
pub mod answers;
pub mod corun;
#[cfg(feature = "analytics")]
pub mod dataset;
pub mod driver;
pub mod engine;
#[cfg(feature = "analytics")]
mod generator;
#[cfg(feature = "analytics")]
pub mod groups;
#[cfg(feature = "analytics")]
pub mod h2o;
pub mod kv;
mod naive;
pub mod numbers;
#[cfg(feature = "analytics")]
pub mod oracle;
pub mod parallel;
pub mod random;
#[cfg(feature = "analytics")]
pub mod ssb;
pub mod text;
pub mod tpcc;
#[cfg(feature = "analytics")]
pub mod tpch;
pub mod ycsb;

pub use naive::Naive;

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
