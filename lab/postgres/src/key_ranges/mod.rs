//! What the suite `key-ranges` is made of: the experiments of paper 004 on PostgreSQL, reached directly and through `corun proxy`.
//!
//! Order of calls: [`tpcw`], [`tpcc`], [`points`] and [`replicas`] start servers with their data
//! on a [`crate::fixture::PgFixture`]; [`ways`] lists the sides of a comparison and [`target`] starts each of them with the
//! configuration that [`configuration`] writes; [`work`] is a turn of load; [`contest`] lets the sides take turns, and [`rows`] tells what
//! came out.

pub mod case;
pub mod cgroup;
pub mod configuration;
pub mod contest;
pub mod disk;
pub mod experiments;
pub mod points;
pub mod replicas;
pub mod rows;
pub mod target;
pub mod tpcc;
pub mod tpcw;
pub mod ways;
pub mod work;

use std::time::Duration;

/// The suite's name in rows.
pub const SUITE: &str = "caric";
/// Longest wait for one answer of a server.
pub const PATIENCE: Duration = Duration::from_secs(300);
