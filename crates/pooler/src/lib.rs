//! A pooler for PostgreSQL that clients reach where they reached the server: sessions, pools, and a queue for each core that runs
//! alike statements one after the other.
//!
//! Folders follow the journey of a query: [`understand`] (what a text does), [`auto_prepare`] (texts as prepared statements), [`split`] (one query as several), [`session`] (what follows a client from
//! server to server), `core` (event loops, pools), [`admin`] (console, metrics), [`config`]. Beside the proxy: [`talk`] (a client
//! that waits), [`watch`] (the console seen from outside), [`preflight`] (what servers allow), [`learn`] (which ranges and splits would
//! pay). Messages, logins and TLS are `corun-wire`'s. What a query's plan does to the caches is read by [`plans`].

pub mod admin;
pub mod auto_prepare;
pub mod config;
mod core;
pub mod hosts;
mod keys;
pub mod learn;
pub mod plans;
pub mod preflight;
pub mod session;
pub mod split;
pub mod talk;
pub mod understand;
pub mod watch;

// For tests and fuzz targets only.
#[doc(hidden)]
pub use crate::core::{Census, Simulated};
pub use crate::core::{ConfigFiles, ConfigFilesError, Pooler, StartError};

// The Rust block of this crate's README runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
