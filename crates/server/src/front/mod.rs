//! The front: listeners, event loops, logins, and what carries statements from sockets to sessions and rows back.
//!
//! ```text
//!  socket ─► event loop: TLS, login ─► inbox ─► task on the runtime (owns the session while it works)
//!                 ▲                                   │
//!                 └────── outlet, at most so many bytes ◄─┘   the reactor is woken
//! ```
//!
//! Order of calls: an [`Access`] and a [`FrontConfig`], then [`Front::start`] over anything that is a [`SqlEngine`]; [`Front::stop`] and
//! [`Front::join`] at the end. An event loop never runs a statement, and a task never waits for a socket of another client. A client that is
//! idle has no task and no buffer.
//!
//! What it is not: it knows no SQL, no rows and no DataFusion; sessions do.

mod access;
mod client;
mod config;
mod engine;
mod event_loop;
mod outlet;
mod shared;
mod start;
mod work;

pub use access::{Access, AccessError, AccessFiles};
pub use config::{FrontConfig, Io};
pub use engine::{Described, SqlEngine, SqlSession};
pub use start::{Failed, Front, FrontView, StartError};
