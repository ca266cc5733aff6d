//! A server of SQL over folders of files and stores, which clients of PostgreSQL connect to.
//!
//! ```text
//!  folder ─► schemas and tables (data) ─┐
//!  store  ─► schema with its tables     ├─► a session's catalog ─► SQL
//!  session's facts ─► pg_catalog, information_schema (catalog) ─┘
//! ```
//!
//! Order of calls: [`data::Data::open`] once; for each session [`data::Data::install`], then [`catalog::install`]; for each statement
//! [`catalog::parse`], [`data::Data::gate`], the session's planner, [`data::Data::gate_plan`], and only then its execution. All of this a
//! [`session::ClientSession`] does for one client. [`front::Front`] has the sockets and logins, [`users::UserTable`] who there is and what they
//! may read; neither knows of DataFusion.

pub mod catalog;
pub mod data;
pub mod front;
pub mod session;
pub mod users;

// The Rust blocks of the README run as doctests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod crate_readme {}
