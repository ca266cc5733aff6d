//! The SQL server `corun-sql serve` beside what else answers the same statements: DataFusion as it comes behind the same front, DuckDB,
//! PostgreSQL.
//!
//! ```text
//!   Case ─► data: Parquet files (workload, rows) ─┬─► corun, datafusion: a new `corun-sql serve` each turn    targets
//!                                                 ├─► duckdb: a new process each turn, a connection a stream
//!                                                 └─► postgresql: loaded once, tuned
//!   each round: every target in an order of its own ─► answers checked ─► rows                               contest
//! ```
//!
//! Order of calls: [`case::cases`] lists, [`targets::Fixture`] keeps programs and folders, [`tables`] fills PostgreSQL, then the function
//! `run` of a kind of case: [`streams`], [`beside`], [`constant`], [`fetch`], [`idle`], [`transactions`]. Clients are threads of this process or pgbench, on the
//! same cores as the servers, the same for all of them.

pub mod beside;
pub mod case;
pub mod ceiling;
pub mod constant;
pub mod contest;
pub mod fetch;
pub mod idle;
pub mod played;
pub mod streams;
pub mod tables;
pub mod targets;
pub mod transactions;

use std::time::Duration;

/// The suite of its rows.
pub const SUITE: &str = "serve";
/// Longest wait for one answer: sixteen streams of heavy queries share a machine.
pub const PATIENCE: Duration = Duration::from_secs(900);
