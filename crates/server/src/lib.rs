//! A server's inside: what its statements may read, PostgreSQL's system tables over it, and the sessions of its clients.
//!
//! ```text
//!  folder ─► schemas and tables (data) ─┐
//!  store  ─► schema with its tables     ├─► a session's catalog ─► SQL
//!  session's facts ─► pg_catalog, information_schema (catalog) ─┘
//! ```
//!
//! [`session`] puts all of it together; whoever has sockets calls that. Its order of calls: [`data::Data::open`] once; for each session [`data::Data::install`], then [`catalog::install`]; for each statement
//! [`catalog::parse`], [`data::Data::gate`], the session's planner, [`data::Data::gate_plan`], and only then its execution. Nothing but [`front`] and
//! [`operate`], which shows how the server does, knows of sockets or logins.

pub mod catalog;
pub mod data;
mod define;
pub mod front;
pub mod operate;
pub mod session;
mod short;
pub mod users;
mod write;

// The Rust blocks of the README run as doctests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod crate_readme {}
