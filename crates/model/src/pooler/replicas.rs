//! Where a statement runs when one database has several servers: a primary and its streaming replicas.
//!
//! ```text
//!   answers of probes ─┐
//!   failed connections ┼─► Fleet ─ elects ─► the primary ─┐
//!   settings, the time ┘     └─ judges ───► lag, bans ────┴─► route(Want) ─► Choice
//!   what a statement is, what its session did ─► split ─► Want
//! ```
//!
//! A caller that shares one database makes a [`Fleet`], feeds it every answer of a probe ([`Fleet::probed`]) and every
//! failure ([`Fleet::failed`]), and asks [`Fleet::route`] for each transaction. What a transaction may want, a write or a
//! read, [`split`] says from the statement and from the session before it.
//!
//! Times are what the caller's monotonic clock showed since a start all callers share; nothing here reads a clock.
//!
//! Three absences: no write goes to a host that said it is in recovery; no write goes to a primary of an older timeline than
//! one that was seen, so the old primary that comes back after a failover is not written to; no host that is banned is
//! chosen while another will do.
//!
//! Not here: connections, the text of a probe, passwords; see the proxy crate's `hosts`.

mod fleet;
mod host;
mod lag;
mod lsn;
mod route;
pub mod split;
mod warning;

#[cfg(test)]
mod tests;

pub use fleet::{Fleet, Settings};
pub use host::{Host, Known, Probe, Role};
pub use lag::Lag;
pub use lsn::{Lsn, LsnError};
pub use route::{Choice, Missing, Want};
pub use warning::Warning;
