//! What the `oltp` suite is made of: TPC-C and YCSB on the transactional store beside other engines.
//!
//! Order of calls: [`case::setups`] says what is run, [`contest::run`] runs one setup on all engines, which take turns, and
//! [`rows`] tells what came out; [`teams`] runs clients of one store on threads and in teams; [`recovery`] measures how fast a log is read back. The
//! workloads, their inputs and what must hold afterwards are in `corun-workloads`, which the peers' program is built on as well.
//!
//! What it is not: an engine. Ours is driven in this process ([`ours`]), each peer in one of its own ([`crate::peers::oltp`]).

pub mod case;
pub mod contest;
pub mod measured;
pub mod ours;
pub mod recovery;
pub mod rows;
pub mod team_rows;
pub mod teams;

/// The suite's name in rows.
pub const SUITE: &str = "oltp";
/// The name of the store's rows.
pub const CORUN: &str = "corun";
/// Transactions a second.
pub const TPS: &str = "tps";
/// New Orders a minute.
pub const NEW_ORDERS: &str = "new_orders_per_min";
