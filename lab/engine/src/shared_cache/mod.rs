//! Paper 002's co-running experiments: queries beside each other on CPUs that share one last-level cache.
//!
//! ```text
//!   C ──▶ sizes ──▶ data (PLQ tables, naive sums) ──▶ engines ──▶ contest: a target alone, alone again, beside each co-runner
//!                                                                    │ figures: which targets and co-runners a figure needs
//!                           │                                        ▼
//!                           ├──▶ pairs: SSB, section 7.4 ────────▶ rows ──▶ report
//!                           └──▶ scheduled: clients and policies ────▲
//!                                  policy_figures, mix
//! ```
//!
//! Start at [`lab_core::suite::Suite::Llc`], whose suite puts these together. Tables are sized by the bytes of a query's hash
//! table relative to the effective cache `C`, not by a scale factor: what the paper calls strong, moderate and weak is so on any
//! machine.

pub mod beside;
pub mod contest;
pub mod crowd;
pub mod data;
pub mod engines;
pub mod figures;
pub mod keys;
pub mod mix;
pub mod pairs;
pub mod pinned;
pub mod policies;
pub mod policy_figures;
pub mod scheduled;
pub mod service;
pub mod sim;
pub mod sizes;
pub mod statement;
