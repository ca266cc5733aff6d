//! What the `proxy` suite is made of: PostgreSQL asked directly, through PgBouncer and through `corun proxy`.
//!
//! Order of calls: [`fixture::Fixture`] starts a PostgreSQL of its own and fills it; [`sides`] starts the poolers in front of it, each with
//! configuration that is the same in what both have; [`check`] compares what every statement gives through a side with what it gives
//! directly; [`contest`] lets the sides take turns under the load of [`crate::fixture::pgbench`]; [`rows`] tells what came out. [`idle`] counts the
//! memory of clients that do nothing, [`attacked`] what one client can take from others.

pub mod attacked;
pub mod case;
pub mod check;
pub mod contest;
pub mod fixture;
pub mod idle;
pub mod rows;
pub mod shapes;
pub mod sides;
pub mod transfers;

/// The suite's name in rows.
pub const SUITE: &str = "proxy";
