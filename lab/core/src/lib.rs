//! What every experiment of the lab has in common: contests, their order, rows, records and reports.
//!
//! A suite builds [`run::Comparison`]s, which a [`run::Runner`] executes interleaved in an order shuffled anew each round ([`order`])
//! and turns into [`row::Row`]s; or it lets sides of its own take turns in a [`contest`] and reads [`metric`]s from their rounds.
//! [`record`] keeps rows, [`figures`] selects what of them is shown, [`report`] draws it. Nothing here prints: the program does.

pub mod compare;
pub mod contest;
pub mod cpu_time;
pub mod error;
pub mod figures;
mod filter;
pub mod metric;
pub mod order;
pub mod peers;
pub mod record;
pub mod report;
pub mod results;
pub mod row;
pub mod run;
pub mod scratch;
pub mod stats;
pub mod suite;

pub use error::BenchError;
