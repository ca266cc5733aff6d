//! What the `proxy` suite is made of: PostgreSQL asked directly, through PgBouncer and through `corun proxy`.
//!
//! Order of calls: [`fixture::Fixture`] starts a PostgreSQL of its own and fills it; [`sides`] starts the poolers in front of it, each with
//! configuration that is the same in what both have; [`check`] compares what every statement gives through a side with what it gives
//! directly; [`contest`] lets the sides take turns under [`pgbench`]'s load; [`rows`] tells what came out. [`idle`] counts the memory of
//! clients that do nothing, [`attacked`] what one client can take from others.
//!
//! What it is not: the pooler. That is `corun-pooler`, of which nothing is used here: it runs as the program that users run, and answers
//! are read by [`client`], so that a mistake in the proxy's reading of the protocol is not made on both sides.

pub mod account;
pub mod address;
pub mod attacked;
pub mod case;
pub mod check;
pub mod client;
pub mod configuration;
pub mod contest;
pub mod fixture;
pub mod guarded;
pub mod idle;
pub mod pgbench;
pub mod pgbouncer;
pub mod postgres;
pub mod rows;
pub mod shapes;
pub mod sides;
pub mod transfers;

use lab_core::error::BenchError;

/// The suite's name in rows.
pub const SUITE: &str = "proxy";
/// Transactions a second, what sides are compared by first.
pub const TPS: &str = "tps";
/// The user everybody logs in as; PostgreSQL's own administrator of the fixture.
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
