//! What operators see of a running server: counted statements and a log of slow ones, metrics, a page of status.
//!
//! ```text
//!  session: a statement begins ─► Running ─ ended, failed, lost ─► Statements ─► log (slow ones)
//!                                                                     │
//!  sessions, coordinator, memory, caches, connections ─► status ◄─────┘
//!                                                          ├─► metrics (Prometheus)
//!                                                          ├─► status.json, which `corun top` reads
//!                                                          └─► page
//! ```
//!
//! Order of calls: an engine has its [`Statements`]; [`Status::new`] over engine and front, then [`Web::start`] with it. A look takes locks
//! for microseconds and never waits for a statement or a client. What it is not: a way to change anything; only GET is answered.

mod page;
mod prometheus;
mod statements;
mod status;
mod text;
mod web;

pub use statements::{Running, SessionName, StatementLog, Statements, Work};
pub use status::Status;
pub use text::shown;
pub use web::{Answer, Web, WebConfig, WebError};
