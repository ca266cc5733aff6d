//! What a server on Linux needs of the system: many sockets on one thread, the processes of others, users, the service manager,
//! numbers for those who watch it.
//!
//! [`reactor`] serves many sockets from one thread, on epoll, on io_uring, or simulated; [`process`] verifies a process of somebody
//! else and gives it a core; [`notify`] tells systemd; [`users`] names the system's users; [`memory`] says what the process takes, and keeps it small; [`metrics`] is how
//! a server shows its numbers.
//!
//! Not here: the protocol of any client.

pub mod memory;
pub mod metrics;
pub mod notify;
pub mod process;
pub mod reactor;
pub mod users;

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
