//! A client of PostgreSQL's protocol that adds little to what it measures: for everything of the lab that asks a server.
//!
//! Order of calls: an [`address::Address`], [`client::Client::connect`], then statements, whose [`answer::Answer`]s are texts.

pub mod address;
pub mod answer;
pub mod client;
mod message;

use lab_core::error::BenchError;

/// The user everybody logs in as.
pub const USER: &str = "bench";
/// The database everything is in.
pub const DATABASE: &str = "postgres";

/// An error of something outside this process.
pub fn failed(peer: &'static str, reason: impl Into<String>) -> BenchError {
    BenchError::Peer {
        peer,
        reason: reason.into(),
    }
}
