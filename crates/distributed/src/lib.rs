//! corun's operators on several machines, on `datafusion-distributed`: it cuts plans into stages and carries rows between them; this crate
//! decides what runs in a stage, who may send one, and what happens when a machine goes away.
//!
//! ```text
//!  coordinator: SQL -> plan of stock operators -> stages        (planner)
//!                                    |  encoded, over HTTP/2 and TLS   (channels)
//!  worker:      decoded stage -> files it may read? -> corun's joins, node by node -> rows   (worker, stage)
//! ```
//!
//! Order of calls: each worker runs [`Worker::serve`]; a coordinator calls [`Cluster::connect`] and plans with [`Cluster::engine`], or adds
//! [`Cluster::install`] to a session of its own. Nothing here is an operator, and nothing moves data between machines by itself.

mod address;
mod channels;
mod cluster;
mod codec;
mod loss;
mod planner;
mod run;
mod settings;
mod stage;
mod tls;
mod worker;

pub use address::{Address, Scheme};
pub use cluster::Cluster;
pub use tls::{Tls, TlsFiles};
pub use worker::{Worker, WorkerOptions};

/// What both ends of a connection have to be: plans of another version may mean something else.
pub const VERSION: &str = concat!("corun ", env!("CARGO_PKG_VERSION"), ", plans of DataFusion 55.2");

// The Rust blocks of the README run as doctests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod crate_readme {}
