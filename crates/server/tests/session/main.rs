//! Sessions over real files: what clients are sent, byte by byte where it matters, and what ends a statement.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "it has more than these tests need")]
mod common;

mod answers;
mod commands;
mod errors;
mod extended;
mod harness;
mod hostile;
mod limits;
mod owners;
mod parameters;
mod rights;
mod stock;
mod stops;
mod transactions;
mod users;
