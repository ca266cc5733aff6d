//! Paper 002's figures on PostgreSQL simulated: what it touches is real, the cache is not.
//!
//! ```text
//!   SSB, TPC-H ──▶ data: a server loads them, ends ──▶ studio: the stand-alone backend under lackey ──▶ Filter ──▶ Traced
//!                                                        answers against the generator's                        │
//!   case        figure                what runs                                                                 ▼
//!   sim_pairs   Figures 1 and 4       hash and index joins alone and beside each other           ◀── lab: cachesim::llc on a platform
//!   sim_tpch    Figure 2              queries of TPC-H in fewer and fewer ways
//!   sim_ways    Figure 5, Table 2     a moderate hash join beside a weak query in fewer and fewer ways
//!   sim_order   Figure 6, the mix     model::coschedule on the pairs' slow-downs, undivided and divided
//! ```
//!
//! Order of calls: [`run`], which does all of it for the cases that are asked for. Rows are labelled `simulated`.
//!
//! Not here: hardware prefetchers but for a guess which misses they hide, TLBs, memory bandwidth, the kernel. The measured cases of the
//! same suite are [`super::ceiling`] and [`super::cases`].

pub mod data;
pub mod figures;
pub mod lab;
pub mod order;
pub mod platform;
pub mod report;
pub mod studio;
pub mod tpch;

/// Figures 1 and 4.
pub const PAIRS: &str = "sim_pairs";
/// Figure 2.
pub const TPCH: &str = "sim_tpch";
/// Figure 5 and Table 2.
pub const WAYS: &str = "sim_ways";
/// Figure 6 and the mix.
pub const ORDER: &str = "sim_order";
/// All of them.
pub const CASES: [&str; 4] = [PAIRS, TPCH, WAYS, ORDER];
