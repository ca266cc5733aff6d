//! What the suite `heavy-queue` is made of: paper 002's experiments on PostgreSQL, reached directly and through `corun proxy`'s heavy queue.
//!
//! ```text
//!   C ──▶ sizes ──▶ data (COPY, indexes, oracle) ──▶ query: PLQ_k by hash join or index join, a scan, SSB
//!                                                     │
//!        ceiling: pinned backends, no product code ◀──┤──▶ cases: clients ──▶ sides (direct, proxy with and without heavy queue) ──▶ rows
//!          matrix of slow-downs ──▶ order: what any order of a mix could take          fig6, plan_choice, mix, overhead, estimation
//! ```
//!
//! The same on a simulated cache, from what PostgreSQL touches, is [`sim`].
//!
//! Order of calls: [`sizes::Sizes`] from the effective last-level cache `C`, [`data::load`], then the cases. Tables are sized by the
//! bytes of a query's hash table relative to `C`, not by a scale factor, so that what the paper calls strong, moderate and weak is so
//! on any machine.
//!
//! What it is not: the pooler. That is `corun-pooler`, which runs here as the program that users run; only its reading of plans is called, by
//! [`estimation`].

pub mod backend;
pub mod beside;
pub mod cases;
pub mod ceiling;
pub mod clients;
pub mod contest;
pub mod data;
pub mod estimation;
pub mod keys;
pub mod matrix;
pub mod order;
pub mod query;
pub mod sides;
pub mod sim;
pub mod sizes;

use std::time::Duration;

/// The suite's name in rows.
pub const SUITE: &str = "mcc";
/// Longest wait for one answer of a server.
pub const PATIENCE: Duration = Duration::from_secs(300);
