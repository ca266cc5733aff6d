//! The servers of a database that has several: what each said last, shared by all event loops.
//!
//! ```text
//!   a loop's timer ─ next_probe() ─► Order { host, sql } ─ the loop runs it on a connection of the pool ─┐
//!                                                                                                     │
//!   Hosts { a Fleet, replaced by a new one at each input } ◄── probed(order, row or error) ────────────┘
//!      ▲        │ version
//!      │        └─► View, one a loop: keeps the Fleet it saw last and looks for a newer one without a lock
//!      └── report(host, connected | refused | lost)      └─► choose(session, ...) ─► host, or wait, or why not
//! ```
//!
//! Which host a transaction goes to is decided in `corun_model::pooler::replicas`; here are the probe's SQL and what its row means
//! ([`probe`]), what the rules of the split need to know of a text ([`ask`]), when the next one is due (`schedule`), and the state shared between loops ([`Hosts`], [`View`]).
//!
//! Not here: connections. The caller sends the SQL and hands back the row.

pub mod ask;
pub mod probe;
mod schedule;
mod shared;
mod view;

#[cfg(test)]
mod tests;

pub use probe::{ProbeError, Row};
pub use schedule::{Order, Pace};
pub use shared::{HostStatus, Hosts, Listener, Report, Settings};
pub use view::View;
